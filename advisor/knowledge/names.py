"""Names as people write them: normal forms, typo-tolerant lookup, names inside longer texts."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from advisor.domain import spelling
from advisor.domain.nouns import UnknownFact
from advisor.domain.patterns import lazy_re

_NOISE = lazy_re(r"[\s_\-/()]+")
_SHARD = lazy_re(r"[-_.]\d{5}-of-\d{5}")  # a file of a split checkpoint
_DIGITS = lazy_re(r"\d+")
_LETTERS = lazy_re(r"[a-z]+")
MAX_NAME = 400  # characters; a longer text is cut before it is searched


def key_of(name: str) -> str:
    """Normal form of a name: lower-case letters, digits and dots only ("RTX 3090": "rtx3090")."""
    return re.sub(r"[^a-z0-9.]+", "", name[:MAX_NAME].lower()).strip(".")


def find_name(name: str, keys: Mapping[str, str]) -> str | None:
    """Id of a name, of the only near spelling at last; digits must agree, as in 3080 and 3090."""
    key = key_of(name)
    if not key:
        return None
    for form in (key, key.replace(".", "")):
        if form in keys:
            return keys[form]
    if len(key) < 4 or len(key) > 80:
        return None
    starts = {form[len(key) :]: ident for form, ident in keys.items() if form.startswith(key)}
    if key[-1].isdigit() and starts and all(len(rest) > 1 and rest.isalpha() for rest in starts):
        return None  # a whole name: RX 6800 is not RX 6800 XT, and GLM-5.3 not GLM-5.3-Flash
    if len({*starts.values()}) == 1 and (len(key) >= 5 or _DIGITS.search(key)):
        return next(iter(starts.values()))
    return _near_with_same_digits(key, keys)


def _near_with_same_digits(key: str, keys: Mapping[str, str]) -> str | None:
    """The only id one slip away, in a word of four letters or more (rtx6000: not rtxa6000)."""
    if len(_ids_that_hold(key, keys)) > 1:
        return None  # a part of several names ("orin") is no slip in one of them
    digits, words = _DIGITS.findall(key), _LETTERS.findall(key)
    best: dict[str, float] = {}
    for form, ident in keys.items():
        if abs(len(form) - len(key)) > 2 or _DIGITS.findall(form) != digits:
            continue
        score = _slip(words, _LETTERS.findall(form))
        if score > best.get(ident, 0.0):
            best[ident] = score
    ranked = sorted(best.items(), key=lambda item: -item[1])
    if not ranked or (len(ranked) > 1 and ranked[0][1] - ranked[1][1] < 0.02):
        return None
    return ranked[0][0]


def _slip(left: list[str], right: list[str]) -> float:
    """Likeness of two lists of words that differ in exactly one word, 0 if they are not alike."""
    if len(left) != len(right):
        return 0.0
    odd = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    if len(odd) != 1 or min(map(len, odd[0])) < 4:
        return 0.0
    short, long = sorted(odd[0], key=len)
    if short in long[2:]:  # "super" is no slip of "ti super"
        return 0.0
    from difflib import SequenceMatcher

    ratio = SequenceMatcher(None, *odd[0]).ratio()
    swapped = sorted(odd[0][0]) == sorted(odd[0][1])
    return ratio if ratio >= (0.7 if swapped else 0.75) else 0.0


def nearest(name: str, keys: Mapping[str, str], count: int = 3) -> tuple[str, ...]:
    """The ids whose names look most like `name`, best first; none where nothing does."""
    key = key_of(name)[:80]
    close = spelling.nearest(key, keys, "name", 4 * count)
    inside = sorted((form for form in keys if key in form), key=len) if len(key) >= 2 else []
    first = close[:1] if close and key[:3] == close[0][:3] else []
    return tuple(dict.fromkeys(keys[form] for form in (*first, *inside, *close)))[:count]


MOST_NAMES = 6  # that an answer to an unclear name lists; of more, the nearest


def likely(name: str, keys: Mapping[str, str]) -> tuple[str, ...]:
    """What an unclear name may stand for: the two to six ids that hold it, else the nearest."""
    found = _ids_that_hold(key_of(name), keys)
    return found if 1 < len(found) <= MOST_NAMES else nearest(name, keys)


def _ids_that_hold(key: str, keys: Mapping[str, str]) -> tuple[str, ...]:
    """The ids with a name that a key is a part of, in the order of the table."""
    return tuple(dict.fromkeys(ident for form, ident in keys.items() if key and key in form))


def pieces(text: str) -> Iterator[str]:
    """The parts of a repository name or path: last part, the parts before it, the whole."""
    cut = text[-MAX_NAME:].strip().strip("\"'")
    parts = [part for part in re.split(r"[/\\]|--", cut) if part]
    yield from reversed(parts)
    if len(parts) > 1:
        yield cut


def squeeze(text: str) -> str:
    """Text for substring search of model names: lower case without separators, dots kept."""
    return _NOISE.sub("", text.lower())


def find_model(
    text: str, forms: Iterable[tuple[str, str, bool]], exclude: Mapping[str, list[str]]
) -> str | None:
    """Id of the longest model form (form, id, loose: without dots) inside `text`, before which no
    further digit stands; exclude: id -> words of another model.
    """
    for piece in pieces(text):
        dotted = squeeze(_SHARD.sub("", piece))
        plain = dotted.replace(".", "")
        for form, ident, loose in forms:
            found = _whole(form, dotted) or (
                loose and _whole(form, plain) and _is_whole_dotted(form, dotted)
            )
            if found and not any(word in dotted for word in exclude.get(ident, ())):
                return ident
    return None


def _whole(form: str, hay: str) -> bool:
    at = hay.find(form)
    while at >= 0:
        after = hay[at + len(form) : at + len(form) + 2]
        before = hay[at - 1 : at]
        runs_on = after[:1].isdigit() or (after[:1] == "." and after[1:2].isdigit())
        if not runs_on and not (form[0].isdigit() and before.isdigit()):
            return True
        at = hay.find(form, at + 1)
    return False


def _is_whole_dotted(form: str, dotted: str) -> bool:
    """A form without dots, found in a text without its dots: it must not end inside a number."""
    if form in dotted:
        return _whole(form, dotted)
    loose = re.escape(form[0]) + "".join(r"\.?" + re.escape(ch) for ch in form[1:])
    return re.search(loose + r"(?!\.?\d)", dotted) is not None


# ---------------------------------------------------------------- quantisations

_STEP = r"[_-](?:k[_-]?(?:xxl|xl|[slm])?|[01]|nl|xxs|xs|kss?|[sm](?![a-z]))"
_GGUF = lazy_re(rf"(?<![a-z0-9])(ud[-_ .]?)?(i?q\d(?:{_STEP}){{0,3}})(?![a-z0-9])")
_WORDS = (  # first hit wins; the order puts the telling words before the general ones
    (lazy_re(r"exl3[-_ ]?(\d(?:\.\d+)?) ?bpw|(\d(?:\.\d+)?) ?bpw"), "exl3-{}bpw"),
    (lazy_re(r"prismaquant"), "prismaquant-4.75bit"),
    (lazy_re(r"rocmfp8"), "rocmfp8"),
    (lazy_re(r"rocmfp4"), "rocmfp4"),
    (lazy_re(r"nvfp4|modelopt[-_]?fp4"), "nvfp4"),
    (lazy_re(r"mxfp4"), "mxfp4"),
    (lazy_re(r"int8[-_ a-z]*auto[-_]?round|auto[-_]?round[-_ a-z]*int8"), "int8-autoround"),
    (lazy_re(r"auto[-_]?round"), "int4-autoround"),
    (lazy_re(r"(?:awq|gptq)[-_ a-z]*(?:int8|8[-_]?bit)"), "int8-w8a8"),
    (lazy_re(r"awq|gptq|paro(?![a-z])|w4a16|w4a8"), "awq-int4"),
    (lazy_re(r"w8a8[-_]?fp8|fp8"), "fp8"),
    (lazy_re(r"w8a8|w8a16|int8|bnb[-_]?8bit"), "int8-w8a8"),
    (lazy_re(r"(?<![a-z])oq([2-8])(?![0-9])"), "oq{}"),
    (lazy_re(r"mlx[-_ a-z]*?([2-8])[-_ ]?bit|([2-8])[-_ ]?bit[-_ a-z]*mlx"), "mlx-{}bit"),
    (lazy_re(r"(?<![a-z])fp4(?![0-9])|w4a4"), "fp4"),
    (lazy_re(r"int4|bnb[-_]?4bit|nf4|bitsandbytes"), "int4"),
    (lazy_re(r"(?<![a-z0-9])(?:bf16|fp16|f16)(?![0-9])"), "bf16"),
    (lazy_re(r"(?<![0-9.])([2-8])[-_ ]?bit"), "mlx-{}bit"),
)


def quant_word(text: str) -> str | None:
    """The spelling of a quantisation inside a repository, file or path name, or None."""
    for piece in pieces(text):
        low = piece.lower().replace(".gguf", "")
        if "mlx" in text.lower() and (bits := re.search(r"(?<![0-9.])([2-8])[-_ ]?bit", low)):
            return f"mlx-{bits.group(1)}bit"
        if gguf := _GGUF.search(low):
            return ("ud-" if gguf.group(1) else "") + gguf.group(2).replace("-", "_")
        for words, name in _WORDS:
            if hit := words.search(low):
                return name.format(*(g.removesuffix(".0") for g in hit.groups() if g))
    return None


_NEUTRAL = lazy_re(  # words that leave the model what it is: its form, file and maker
    r"(?:instruct|chat|it|qat|hf|gguf|mtp|nextn|dynamic|hybrid|fp8|meta|nvidia|google|microsoft"
    r"|openai|mistralai|moonshotai|deepseekai|zaiorg|zai|thudm|unsloth|[.+:])*"
)


def more_than(text: str, forms: Iterable[str]) -> bool:
    """Whether a name says more than a model, a quantisation and words of form."""
    plain = re.sub(r"\.gguf$", "", text.lower())
    plain = _GGUF.sub("", plain)
    for words, _ in _WORDS:
        plain = words.sub("", plain)
    left = squeeze(plain)
    return not any(
        _NEUTRAL.fullmatch(hay.replace(form, "", 1))
        for hay in {left, left.replace(".", "")}
        for form in forms
        if form in hay
    )


def architecture_among(entries: dict[str, Any], name: str) -> str:
    """The word of the entry that names this architecture; see `imputed.architecture`."""
    text = name.lower().replace("-", "_")
    if not text or text == "unknown":
        return "unknown"
    if text.startswith("sm_"):
        text = text.rstrip("af")  # sm_90a, sm_120f: the same chip
    whole = [word for word, entry in entries.items() if text in entry["names"]]
    begun = [
        (len(known), word)
        for word, entry in entries.items()
        for known in entry["names"]
        if not known.startswith("sm_") and text.startswith(known)
    ]
    if whole or begun:  # apple9 is not apple: a whole name first, then the longest beginning
        return str(whole[0] if whole else max(begun)[1])
    known_names = [known for entry in entries.values() for known in entry["names"]]
    near = spelling.nearest(text, known_names, "architecture", 3)
    raise UnknownFact("architecture", name[:40], tuple(near))


# Words of a name -> what is not covered; the first that begins a word of the name counts.
_NOT_COVERED = {
    "CPUs": ("cpu", "epyc", "xeon", "ryzen", "threadripper", "grace", "graviton", "ampereone"),
    "TPUs": ("tpu",),
    "Gaudi accelerators": ("gaudi", "hpu"),
    "Trainium and Inferentia": ("trainium", "trn1", "trn2", "inferentia", "inf2", "neuron"),
    "accelerators of Groq, Cerebras and SambaNova": ("groq", "cerebras", "sambanova"),
    "phones and NPUs": ("npu", "snapdragon", "iphone", "ipad"),
}
_MACS = ("mac", "macbook", "imac", "apple")


def not_covered(name: str) -> str | None:
    """One sentence where a name speaks of a kind of machine that is not covered, else None."""
    words = str(name)[:80].lower().replace("-", " ").replace("_", " ").split()
    for kind, starts in _NOT_COVERED.items():
        if any(word.startswith(starts) for word in words):
            return (
                f"{kind} are not covered: advisor knows GPUs and Apple Silicon (`advisor hardware "
                f"list` shows all)"
            )
    if words and words[0] in _MACS:
        return "a Mac is named by its chip: --hw m4-max, for example"
    return None
