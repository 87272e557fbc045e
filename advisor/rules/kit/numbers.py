"""Numbers as people write them and as the engines' parsers read them, with their limits; and
whether a JSON value is one that a field of a configuration class takes: the classes are pydantic
dataclasses, whose types and limits the catalogue holds by release. Pydantic reads "2" as 2 and
"true" as true; a list, a mapping or another word it refuses.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from operator import ge, gt, le, lt
from typing import Any

from advisor import engines
from advisor.domain.patterns import alternatives, lazy_re
from advisor.knowledge.rule_data import table

_NONE = lazy_re(r"^Optional\[(.*)\]$")
_LIMIT = lazy_re(r"(Ge|Gt|Le|Lt)\(\w\w=(-?\d+(?:\.\d+)?)\)")
_INT = lazy_re(r"\s*[+-]?\d+(?:\.0*)?\s*")
_FLOAT = lazy_re(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")
_TRUTHS = frozenset(("true", "false", "1", "0", "yes", "no", "on", "off", "t", "f", "y", "n"))
SPOKEN = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "list": "a list",
    "dict": "an object",
}
_HOLDS = {"Ge": ge, "Gt": gt, "Le": le, "Lt": lt}
_LIMITS = {"Ge": "at least", "Gt": "more than", "Le": "at most", "Lt": "less than"}
# the classes whose fields are options of the command line
CONFIGS = (
    *("CacheConfig", "SchedulerConfig", "ParallelConfig", "ModelConfig", "LoRAConfig"),
    *("LoadConfig", "MultiModalConfig", "ObservabilityConfig", "UVAOffloadConfig"),
    *("PrefetchOffloadConfig", "VllmConfig"),
)
# what each kind of option takes; a kind that is not named here takes any text
KINDS = {
    "int": lazy_re(r"[+-]?\d[\d_]*"),
    "float": lazy_re(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"),
    "human_readable_int": lazy_re(r"-?\d[\d_]*|\d+(\.\d+)?[kKmMgGtT]"),
    "human_readable_int_or_auto": lazy_re(r"auto|-1|\d[\d_]*|\d+(\.\d+)?[kKmMgGtT]"),
}
_SIZE = lazy_re(r"(\d+(?:\.\d+)?)\s*([kKmM])?(?:i?b?|\s*tok(?:en)?s?)", re.I)
_SHARE = lazy_re(r"(\d+(?:\.\d+)?)\s*%")
_SPELT = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
)
_LARGEST = 10_000_000  # tokens or requests that nobody serves


def wrong_type(kind: str, value: Any) -> str | None:
    """What a field of this type takes, where it is known and the value is none of it."""
    if found := _NONE.match(kind):
        kind = f"{found[1]} | None"
    kinds = alternatives(kind, "[(", "])")
    if value is None:
        return None if "None" in kinds or len(kinds) > 1 else _in_words(kinds)
    known = [one for one in kinds if one != "None"]
    if not known or any(_family(one) not in SPOKEN for one in known):
        return None
    return None if any(_fits(one, value) for one in known) else _in_words(known)


def _in_words(kinds: Iterable[str]) -> str | None:
    said = [SPOKEN[_family(one)] for one in kinds if _family(one) in SPOKEN]
    return " or ".join(dict.fromkeys(said)) or None


def _family(kind: str) -> str:
    return re.split(r"\W", kind, maxsplit=1)[0]


def _fits(kind: str, value: Any) -> bool:
    family = _family(kind)
    if family == "list" and isinstance(value, list):
        inner = kind[5:-1] if kind.startswith("list[") else ""
        return not inner or all(wrong_type(inner, one) is None for one in value)
    if family == "dict" or isinstance(value, list | dict):
        return family == "dict" and isinstance(value, dict)
    if family in ("str", "list"):
        return family == "str" and isinstance(value, str)
    if family == "bool":
        word = isinstance(value, str) and value.lower() in _TRUTHS
        return isinstance(value, bool) or value in (0, 1) or word
    if isinstance(value, str):
        return (_INT if family == "int" else _FLOAT).fullmatch(value) is not None
    return family == "float" or isinstance(value, int) or float(value).is_integer()


def outside(limits: Iterable[str] | None, value: Any) -> str | None:
    """What the limits of a number ask for, where it lies outside them: "at least 1"."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    except OverflowError:  # an integer of JSON
        number = -inf if isinstance(value, int) and value < 0 else inf
    for limit in limits or ():
        bound = _LIMIT.fullmatch(limit)  # as the catalogue writes it: "Ge(ge=1)"
        if bound is not None and not _HOLDS[bound[1]](number, float(bound[2])):
            return f"{_LIMITS[bound[1]]} {float(bound[2]):g}"
    return None


def takes(kind: str, text: str) -> bool:
    """Whether an option of this kind reads the text as a number."""
    wanted = KINDS.get(kind)
    return wanted is None or wanted.fullmatch(text.strip()) is not None


def likely_number(kind: str, text: str) -> str | None:
    """The number that a text most likely means; None where that is anyone's guess.

    128k of a context are 131,072 tokens, not 128,000; 85 % of a memory are 0.85.
    """
    text = text.strip().strip("=:;,'\"‘’“”()[]").strip()
    text = text[:-1] if text.endswith(".") else text
    if takes(kind, text):
        return text
    if text.lower() in _SPELT:
        return str(_SPELT.index(text.lower()))
    if kind == "float":
        if found := re.fullmatch(r"(\d*\.\d+|\d+)\s*[A-Za-z]+", text):
            return found[1]
        share = _SHARE.fullmatch(text)
        if share is not None:
            return f"{float(share[1]) / 100:g}"
        return text.replace(",", ".") if re.fullmatch(r"\d,\d{1,3}", text) else None
    if re.fullmatch(r"\d(?:\.\d+)?[eE]\d", text) and float(text).is_integer():
        return str(int(float(text)))
    if re.fullmatch(r"\d{1,3}(?:[,. ']\d{3})+", text):
        return re.sub(r"\D", "", text)
    if found := re.fullmatch(r"(\d+)\.0+", text):
        return found[1]
    size = _SIZE.fullmatch(text.replace("_", ""))
    if size is None:
        found = re.fullmatch(r"(\d+)\s*[A-Za-z]+", text)
        return found[1] if found else None
    number = float(size[1]) * {"k": 2**10, "m": 2**20}.get((size[2] or "").lower(), 1)
    if number > _LARGEST:
        return size[1] if size[1].isdigit() else None
    return str(int(number)) if number == int(number) else None


@lru_cache(maxsize=1024)
def limits(engine: str, name: str, version: str | None) -> tuple[str, ...]:
    """The limits of an option's number, by its class's field or for every engine."""
    listed = table("compatibility")["ranges"]
    row = listed.get(engine, {}).get(name) or listed["all"].get(name)
    if row is not None:
        return tuple(row)
    if engine != "vllm":
        return ()
    known, field = engines.get("vllm").catalogue, name.removeprefix("--").replace("-", "_")
    for config in CONFIGS:
        found = known.json_field(config, field, version)
        if found is not None:
            return tuple(found.get("limits") or ())
    return ()


def beyond(engine: str, name: str, value: str) -> str | None:
    """What a plan holds of an option's number at most, where this is more."""
    field = engines.get(engine).FIELDS.get(name)
    bounds = field.bounds if field is not None else engines.get(engine).COUNTS.get(name)
    return outside((f"Le(le={bounds[1]:.0f})",), value) if bounds is not None else None
