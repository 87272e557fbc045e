"""Settings of one launch that do not go together: the rows of knowledge/rules/relations.json.

Each text of a row's `if` is a relation: conditions between " & ", all of which hold, and behind
" -> " what helps ("drop --a", "set --a x", or words) where no key of the row does. "since 0.5.18"
and "until 0.5.20" name releases; a condition is "--a" (given, and not off; the first one's option
is), "no --a" (given nowhere, or off), "--a = x|y*" or "--a != x|y*" (its value is one of these, or
none), "--a < --b*4" (numbers; also > >= == and %: the right one does not divide the left), "--a <>
--b" (texts), or one "or" another. An option that is not given has its parser's default. "--a.key"
is a key of its JSON, "--a.key.inner" one within it, NAME a variable of the environment; other words
are WORDS of the case, and signs before a name DERIVED. `text` or `says` tell what is wrong, with
the value of {--a}.
"""

import json
import math
import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from itertools import pairwise, takewhile
from typing import Any

from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.knowledge.rule_data import table
from advisor.rules.kit.case import capability, compute_arch, decimal, integer, model_text, on_rocm
from advisor.rules.kit.fixes import (
    add_fix,
    drop_fix,
    env_var,
    is_release_pinned,
    joint_fix,
    json_drop_fix,
    json_fix,
    set_fix,
    span_fix,
    switch_fix,
)
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.json_text import CLASSES, problem
from advisor.rules.kit.releases import between, prefix_caching_on, release, version_label
from advisor.rules.registry import Hit, Hits

SIGNS: dict[str, tuple[str, Callable[[float, float], bool]]] = {
    "<": ("below", operator.lt),
    ">": ("above", operator.gt),
    ">=": ("at or above", operator.ge),
    "==": ("equal to", operator.eq),
    "%": ("no multiple of", lambda left, right: left > 0 and right >= 1 and left % right != 0),
}
# what a condition may ask of the case beside its options; None where it is not known
WORDS: dict[str, Callable[[Case], object]] = {
    "model": lambda case: case.plan.model,
    "llm": lambda case: case.facts.llm.id or (case.plan.model or "").rpartition("/")[2],
    "name": lambda case: case.model_name,
    "text": lambda case: model_text(case).lower(),  # every name of it, and --quantization
    "release": version_label,
    "arch": lambda case: case.facts.llm.arch,
    "float32_gb": lambda case: 4 * (case.facts.llm.total_params_b or 0),
    "memory_gb": lambda case: (x := case.facts.device.memory_gb) and x.value * case.facts.gpus,
    "heads": lambda case: case.facts.llm.heads,
    "kv_heads": lambda case: case.facts.llm.kv_heads,
    "head_dim": lambda case: case.facts.llm.head_dim,
    "checkpoint": lambda case: case.facts.checkpoint and case.facts.checkpoint.quant,
    "weights": lambda case: case.facts.quant and case.facts.quant.id,
    "vendor": lambda case: "amd" if on_rocm(case) else (x := case.facts.hardware) and x.vendor,
    "capability": capability,
    "chip": lambda case: compute_arch(case) or "unknown",
    "hardware": lambda case: case.hardware_name,
    "method": lambda case: case.plan.method,
    "ranks": lambda case: case.plan.tp,
    "temperature": lambda case: case.facts.temperature,  # of the requests; not known of greedy ones
    "k": lambda case: case.plan.k,
    "(k+1)": lambda case: case.plan.k and case.plan.k + 1,  # tokens of a request in a step
    "attention": lambda case: case.plan.attention_backend or "none",
    "kv": lambda case: case.plan.kv_cache_dtype or "auto",
    "drafter": lambda case: case.plan.draft_model or "none",
    "caching": lambda case: str(case.plan.prefix_caching),
    "cached": lambda case: str(prefix_caching_on(case)),  # the release's default with it
    "devices": lambda case: len((case.value("--device") or "").split(",")),
}


def items(text: str | None) -> list[str]:
    """The words of a list."""
    return (text or "").strip("[]").replace(",", " ").split()


def number(text: str) -> float:
    """A number as options give it, such as 8192, 128k or 0.5; nan for a text that is none."""
    found = integer(text), decimal(text)
    return next((one for one in found if one is not None and found[1] in (None, one)), math.nan)


def differences(pairs: Iterable[tuple[str, str]]) -> str:
    """How far the second of each two numbers stands above the first."""
    return " ".join(str(number(end or start) - number(start)) for start, end in pairs)


# what is asked of a list: how many there are, each one less the one before, the widths of ranges
DERIVED: dict[str, Callable[[str], str]] = {
    "#": lambda text: str(text.count("{") or len(items(text))),
    "^": lambda text: differences(pairwise(items(text))),
    "~": lambda text: differences(one.partition("-")[::2] for one in items(text)),
}
_KEY = lazy_re(r"(since|until|drop|set) (.*)")
_OPTION = lazy_re(r"[#^~]?(--[\w-]+)?")
_NAMED = lazy_re(r"\{([^{}]*)\}")


@cache
def rows_of(key: str) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """The rows of an engine or a rule by the options of their first condition."""
    found: defaultdict[str, tuple[Mapping[str, Any], ...]] = defaultdict(tuple)
    for row in spell_out(key):
        for one in row["if"][0].split(" or "):
            found[_OPTION.match(one)[1] or ""] += (row,)  # type: ignore[index]  # it matches always
    return found


def spell_out(key: str) -> Iterator[dict[str, Any]]:
    """Each relation of an engine or a rule, with a list of conditions, and what helps as a key."""
    for row in table("relations")[key]:
        for text in row["if"]:
            conditions, _, helps = text.partition(" -> ")
            words = [*conditions.split(" & "), helps]
            keys = {found[1]: found[2] for one in words if (found := _KEY.fullmatch(one))}
            says = {"fix": helps} if helps and not _KEY.match(helps) else {}
            asked = [one for one in words[:-1] if not _KEY.match(one)]
            yield {**row, **says, **keys, "if": asked}


def relate(case: Case, key: str) -> Hits:
    """The hits of the rows of an engine or a rule whose conditions hold for a launch."""
    rows, engine = rows_of(key), case.plan.engine
    names = dict.fromkeys(["", *(flag.name.partition(".")[0] for flag in case.launch.flags)])
    for row in {id(row): row for name in names for row in rows.get(name, ())}.values():
        held = all_hold(case, row["if"]) if engine in row.get("engine", engine).split() else None
        if held is not None:
            yield from judge(case, row, held)


def all_hold(case: Case, conditions: Sequence[str]) -> list[str] | None:
    """What holds of each condition's alternatives; None where none of one does."""
    each = (next((x for x in some.split(" or ") if holds(case, x)), "") for some in conditions)
    held = [*takewhile(bool, each)]
    return held if len(held) == len(conditions) else None


def judge(case: Case, row: Mapping[str, Any], held: list[str]) -> Hits:
    """The hit of a row whose conditions hold, at the releases that check them."""
    known = between(release(case), row.get("since"), row.get("until"))
    ends = [f"{x} {row[y]}" for x, y in (("from", "since"), ("up to", "until")) if y in row]
    given = [
        flag
        for name in (parts(one)[0].lstrip("#^~") for one in held)
        if (flag := case.flag(name.split("*")[0], name.split(".")[0])) is not None
    ]
    idle = given and "severity" in row
    tail = f"{given[0].raw} does nothing" if idle else "the server refuses to start"
    said = row.get("text") or f"{describe(case, held)}: {row.get('says', tail)}"
    span = f" (release not pinned; applies {' '.join(ends)})" if ends and known is None else ""
    unsure = row.get("unsure", "info" if len(ends) > 1 else "warning")  # of few releases, a note
    if known is not False:
        yield Hit(
            _NAMED.sub(lambda found: str(read(case, found[1])), said) + span,
            flag=given[0] if given else None,
            severity="warning"
            if case.launch.fork and row.get("fork", not {"text", "severity"} & row.keys())
            else unsure
            if span
            else row.get("severity"),
            fix=propose(case, row, held[-1], given),
            row=row,
            versions=" ".join(ends),
        )


def look_up(case: Case, name: str) -> str | None:
    """What a word of a condition stands for: "" where it is not given, None where that is open."""
    if name[0] != "-":
        word = WORDS[name](case) if name in WORDS else case.launch.env_value(name)
        return str(word) if word else "" if name.isupper() else None  # a variable is set, or not
    flag, (head, _, key) = case.flag(name), name.partition(".")
    if flag is not None:
        return None if flag.unresolved else flag.value or "true"
    if key and case.flag(head) is not None:
        inside = None if (keys := keys_of(case.value(head) or "")) is None else keys.get(key, "")
        return inside if isinstance(inside, str | None) else json.dumps(inside)
    adds = getattr(case.launch.container, "kind", "") == "workers"  # their operator does
    return None if adds or case.launch.open_end else ""


@lru_cache(maxsize=64)
def keys_of(text: str) -> dict[str, object] | None:
    """The keys of a JSON object, "a.b" of one within it; None for a text that is none."""
    found: dict[str, object] | None = None if problem(text) is not None else json.loads(text)
    for key in (names := [*(found or ())]):
        if found and isinstance(inner := found[key], dict):
            found |= {f"{key}.{one}": value for one, value in inner.items()}
            names += (f"{key}.{one}" for one in inner)
    return found


def read(case: Case, name: str) -> str | None:
    """The same, or the default of what is not given; None where it is not known."""
    if name[0] in DERIVED:
        return (listed := read(case, name[1:])) and DERIVED[name[0]](listed)
    text, (head, _, key) = look_up(case, name), name.partition(".")
    if text != "":
        return text
    known, version = catalogue(case), catalogued_version(case)
    field = known.json_field(CLASSES.get(head, "SpeculativeConfig"), key, version) or {}
    default = field.get("default") if key else known.default(name, version)
    return None if default is None else str(default)


def measure(case: Case, words: str, pick: Callable[[list[float]], float] = max) -> float:
    """A product of numbers and of options' values; of a list the largest, or what `pick` takes.

    Not a number where one is not known.
    """
    numbers = (
        [*map(number, [one] if one[0].isdigit() else items(read(case, one)))] or [math.nan]
        for one in words.split("*")
    )
    return math.prod(math.nan if any(map(math.isnan, one)) else pick(one) for one in numbers)


@cache
def parts(condition: str) -> tuple[str, str, str]:
    """A condition's name, sign and what is wanted; the last two may be empty."""
    name, _, rest = condition.partition(" ")
    return (rest, name, "") if name == "no" else (name, *rest.partition(" ")[::2])


def holds(case: Case, condition: str) -> bool:
    """Whether a condition holds for certain."""
    name, sign, wanted = parts(condition)
    if sign in ("", "no"):
        text = look_up(case, name)
        return text is not None and (
            text.lower() in ("false", "off", "no", "none", "null", "")
        ) is (sign == "no")
    if sign in SIGNS:
        return SIGNS[sign][1](
            measure(case, name, min if sign == "<" else max), measure(case, wanted)
        )
    text, listed = read(case, name), read(case, wanted) if sign == "<>" else wanted
    meets = text and listed and any(fnmatchcase(text.lower(), one) for one in listed.split("|"))
    return bool(text and listed) and bool(meets) is (sign == "=")


def describe(case: Case, held: list[str]) -> str:
    """Conditions that hold, in words."""
    words = []
    for name, sign, wanted in map(parts, held):
        flag, here = (
            case.flag(name),
            [f"{one} {read(case, one)}" for one in name.lstrip("#^~").split("*")],
        )
        if sign in SIGNS and not wanted.isdigit():
            than = wanted.replace("*", " x ").replace("#", "the number of ")
            here[-1] += f" {SIGNS[sign][0]} {than} {measure(case, wanted)}"
        bare = f"no {name}" if sign else flag.raw if flag is not None else name
        words.append(bare if sign in ("", "no") else " x ".join(here))
    return " and ".join(words)


def propose(case: Case, row: Mapping[str, Any], condition: str, given: list[Flag]) -> Fix | str:
    """What the row says, else what the last of its conditions asks for."""
    (name, sign, wanted), said = parts(condition), row.get("fix")
    if "set" in row:
        option, _, value = row["set"].partition(" ")
        return put(case, given[0], option, value, said)
    if "drop" in row or (not sign and said is None):
        last = max(given, key=lambda one: (one.line, one.column), default=None)
        gone = row.get("drop") or (name if "." in name or last is None else last.name)
        said = said or f"Take {gone.replace(' ', ' and ')} away, or the other."
        names = [one for one in gone.split() if look_up(case, one)] or [gone]
        fixes = [drop(case, one, said, "safe" in row) for one in names]
        return joint_fix(said, *fixes, safe=all(fix.safe for fix in fixes))
    if sign in SIGNS and name[0] not in DERIVED and (said is None or "swap" in row):
        left, right = measure(case, name), measure(case, wanted)
        if "swap" in row:
            pairs = ((name, str(right)), (wanted, str(left)))
            return joint_fix(said or "", *(put(case, given[0], *pair, said) for pair in pairs))
        if sign == "%" and "multiple" not in row:  # of at most so many ranks
            fits = max(one for one in range(1, int(min(right, 4096)) + 1) if left % one == 0)
            return put(case, given[0], wanted, str(fits), None)
        own = [one for one in name.split("*") if case.flag(one) is not None]
        usual = own and catalogue(case).default(own[0], catalogued_version(case))
        if len(own) == 1 and (sign == "==" or (sign in "<>" and right in (0, integer(str(usual))))):
            return drop(case, own[0], f"Take {own[0]} away, or change the other.", False)
        whole = (round(left / right) * right or right) if sign == "%" else right - (sign == ">=")
        if "*" not in name or len(own) == 1:
            return put(case, given[0], (own or [name])[0], str(whole), None)
        said = f"Lower one of {name.replace('*', ' and ')}."
    option = catalogue(case).find(name, catalogued_version(case))
    said = said or (f"Add {name}." if sign == "no" else "Leave one of them out, or change it.")
    switch = sign == "no" and option is not None and option.type == "flag"
    return add_fix(case, given[0], name, None, said) if switch else said


def put(case: Case, beside: Flag, name: str, value: str, what: str | None) -> Fix:
    """Give an option, or a key of its JSON, a value, or that of another option."""
    (head, _, key), flag = name.partition("."), case.flag(name)
    text = read(case, value) or value if value.startswith("--") else value
    what = what or f"Use {text} for {name}, or change the other."
    if key and flag is None:
        word = text if text.isdigit() or text in ("true", "false") else json.dumps(text)
        return json_fix(case, case.flag(head), key, word, what)
    if flag is not None and text == "true":
        return switch_fix(case, flag, flag.name, what)
    return set_fix(case, flag, text, what) if flag else add_fix(case, beside, name, text, what)


def drop(case: Case, name: str, what: str, safe: bool) -> Fix:
    """Take an option away, a key of its JSON, or a variable of the environment."""
    head, _, key = name.partition(".")
    if (var := env_var(case, name)) is not None:
        return span_fix(case, var.span, "", what)
    if key and case.flag(name) is None and (case.value(head) or "").count(":") > 1:
        return json_drop_fix(case, case.flag(head), key, what)
    gone = name if case.flag(name) is not None else head
    return drop_fix(case, gone, what, safe=safe and is_release_pinned(case))
