"""Numbers as people write them, and as the engines' parsers read them."""

from __future__ import annotations

import re

from advisor.domain.patterns import lazy_re

# what each kind of option takes; a kind that is not named here takes any text
KINDS = {
    "int": lazy_re(r"[+-]?\d[\d_]*"),
    "float": lazy_re(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"),
    "human_readable_int": lazy_re(r"-?\d+|\d+(\.\d+)?[kKmMgGtT]?"),
    "human_readable_int_or_auto": lazy_re(r"auto|-1|\d+(\.\d+)?[kKmMgGtT]?"),
}
_SIZE = lazy_re(r"(\d+(?:\.\d+)?)\s*([kKmM])?(?:i?b|\s*tok(?:en)?s?)?", re.I)
_SHARE = lazy_re(r"(\d+(?:\.\d+)?)\s*%")
_CUT = lazy_re(r"(\d+)[A-Za-z]")


def takes(kind: str, text: str) -> bool:
    """Whether an option of this kind reads the text as a number."""
    wanted = KINDS.get(kind)
    return wanted is None or wanted.fullmatch(text.strip()) is not None


def likely_number(kind: str, text: str) -> str | None:
    """The number that a text most likely means; None where that is anyone's guess.

    128k of a context are 131,072 tokens, not 128,000; 85 % of a memory are 0.85.
    """
    text = text.strip().strip("=:;,'\"‘’“”").strip()
    if takes(kind, text):
        return text
    if kind == "float":
        share = _SHARE.fullmatch(text)
        if share is not None:
            return f"{float(share[1]) / 100:g}"
        return text.replace(",", ".") if re.fullmatch(r"\d,\d{1,3}", text) else None
    if re.fullmatch(r"\d{1,3}(?:[,. ']\d{3})+", text):
        return re.sub(r"\D", "", text)
    size = _SIZE.fullmatch(text)
    if size is None:
        return None
    scale = {"k": 2**10, "m": 2**20}.get((size[2] or "").lower(), 1)
    number = float(size[1]) * scale
    return str(int(number)) if number == int(number) else None


def leading_digits(text: str) -> str | None:
    """What a C++ parser keeps of a number with letters behind it: `64k` is 64. None for another
    text.
    """
    found = _CUT.match(text.strip())
    return found[1] if found is not None else None
