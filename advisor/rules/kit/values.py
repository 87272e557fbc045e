"""Which values an option takes: the list of its parser, of the names that a release registers, or
of the configuration class behind it; which word a wrong one most likely meant; and numbers as
people write them and as the engines' parsers read them.
"""

import json
import re
from collections.abc import Container, Sequence
from functools import lru_cache

from advisor import engines
from advisor.domain.nouns import Case, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple
from advisor.domain.spelling import is_only_near, letters_apart, nearest_word, plain_word
from advisor.engines import Option
from advisor.engines.catalogue import Catalogue
from advisor.knowledge.rule_data import table
from advisor.rules.kit.fixes import json_drop_fix, json_fix, json_rename_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.releases import possible
from advisor.rules.registry import Hit

_MOST = 8
# names that older checkpoints carry for a method of the list
ALSO = {"--quantization": ("auto-round", "auto_round", "autoround", "ascend")}
# lists to which a class of the user's own may be added by its dotted path
OPEN = ("--distributed-executor-backend",)
# what another engine, or a person, calls a value
MEANT = {
    "fp8": ("fp8_e4m3", "q8_0"),
    "int8": ("q8_0", "int8_per_token_head"),
    "q8": ("q8_0",),
    "q4": ("q4_0",),
    "none": ("auto",),
    **dict.fromkeys(("f8", "8bit"), ("fp8", "q8_0")),
    "fp16": ("float16", "f16"),
    "bf16": ("bfloat16",),
    "bfloat16": ("bf16",),
    "float16": ("f16",),
    "all": ("align",),  # of the modes of a Mamba cache
    **dict.fromkeys(("gpt-oss", "gpt_oss"), ("openai",)),
    "openai": ("gpt-oss",),
    "llama3": ("llama3_json",),
    "yes": ("on",),
    "no": ("off",),
    "q8_0": ("fp8", "fp8_e4m3"),
    "multiprocessing": ("mp",),
    **dict.fromkeys(("flash-attn-3", "flash_attn_3", "flashattention3", "fa-3"), ("fa3",)),
    **dict.fromkeys(("flash-attn-2", "flash_attn_2", "flashattention2"), ("fa2", "FLASH_ATTN")),
}
# words of MEANT that are another name of the same thing, whatever the build
SAME = ("fp16", "bf16", "float16", "bfloat16", "multiprocessing", "yes", "no")
_DIGITS = lazy_re(r"\d")
_WORDS = lazy_re(r"[-_]")


class AllowedValues(NamedTuple):
    """Values that a release takes, and that any takes which fits the other options."""

    here: tuple[str, ...]
    ever: frozenset[str]  # lower case
    open: bool = False  # a plug-in may register other names


def allowed_values(case: Case, found: Flag, option: Option) -> AllowedValues | None:
    """The values of an option; None where it takes any, or a plug-in may add to them."""
    if option.values and any(flag.name.endswith("-parser-plugin") for flag in case.launch.flags):
        return None
    version = catalogued_version(case)
    listed = _allowed_values(case.plan.engine, option.name, version, ())
    known = catalogue(case)
    gone = listed is None and known.option(option.name, known.newest) is None
    if version is not None or (listed is None and not gone):
        return listed
    if listed is not None and matches_choice(found.value or "", listed.here, option.name):
        return listed
    return _allowed_values(case.plan.engine, option.name, version, possible(case, found))


@lru_cache(maxsize=1024)
def _allowed_values(
    engine: str, name: str, version: str | None, releases: tuple[str, ...]
) -> AllowedValues | None:
    known = engines.get(engine).catalogue
    here = _at(known, name, version or known.newest) or _next(known, name, version)
    if not here and releases and known.option(name, known.newest) is None:  # renamed since
        lists = [_at(known, name, one) for one in releases]
        heir, here = known.successor(name), next(filter(None, reversed(lists)), ())
        here += tuple(one for one in _at(known, heir or "", known.newest) if one not in here)
    if not here:
        return None
    every = {value.lower() for one in releases for value in _at(known, name, one)}
    wide = known.values(name, version).open
    if not every or known.option(name, known.newest) is None:
        every |= {value.lower() for value in here}
    return AllowedValues(here, frozenset(every), wide)


def _at(known: Catalogue, name: str, version: str) -> tuple[str, ...]:
    if known.option(name, version) is None:
        return ()
    if found := known.values(name, version).names:
        return found
    listed = table("compatibility")["value_lists"].get(known.engine, {}).get(name)
    return tuple(listed["value"]) if listed else ()


def _next(known: Catalogue, name: str, version: str | None) -> tuple[str, ...]:
    """The list of the nearest later release, for one whose help text was not read for lists."""
    if version is None or known.style != "llama":
        return ()
    later = known.versions[known.index(version) :]
    return next((found for one in later if (found := _at(known, name, one))), ())


def is_accepted(case: Case, found: Flag) -> bool:
    """Whether an option's value is on its list, as far as there is one."""
    option = catalogue(case).find(found.name, catalogued_version(case))
    allowed = allowed_values(case, found, option) if option is not None else None
    return allowed is None or matches_choice(found.value or "", allowed.here, found.name)


def matches_choice(word: str, choices: Sequence[str], name: str = "") -> bool:
    """Whether a value is a choice; case and truth words are folded."""
    low = word.lower()
    if (name in OPEN and "." in word) or low in ALSO.get(name, ()):
        return True
    folded, truth = _fold(tuple(choices))
    return low in folded or (truth and low in ("1", "0", "true", "false", "enabled", "disabled"))


@lru_cache(maxsize=1024)
def _fold(choices: tuple[str, ...]) -> tuple[frozenset[str], bool]:
    """The choices in lower case, and whether they are those of a switch."""
    return frozenset(map(str.lower, choices)), not {"on", "off", "auto"}.isdisjoint(choices)


def nearest(word: str, choices: Sequence[str]) -> str | None:
    """The choice that a wrong word most likely meant."""
    if re.fullmatch(r"[0-9]{1,18}", word) and all(choice.isdigit() for choice in choices):
        # room for as much
        return min((one for one in choices if int(one) >= int(word)), key=int, default=None)
    plain = {plain_word(choice): choice for choice in reversed(choices)}
    asked = plain_word(word)
    if asked in plain:
        return plain[asked]
    for other in MEANT.get(word.lower(), ()):
        if other in choices:
            return other
    begun = [known for known in choices if len(asked) > 2 and plain_word(known).startswith(asked)]
    mixed = [choice for choice in choices if sorted(plain_word(choice)) == sorted(asked)]
    shorter = [choice for choice in choices if _longer(word.lower(), choice.lower())]
    for alone in (begun, mixed, shorter):
        if len(alone) == 1:
            return alone[0]
    near = nearest_word(asked, plain, "value")
    if near is not None:
        return plain[near]
    said = [choice for choice in choices if choice.lower() in re.split(r"[-_. ]", word.lower())]
    return said[0] if len(said) == 1 and len(said[0]) > 2 else None


def slip(word: str, near: str | None) -> bool:
    """Whether a spelling is so close to another that nothing else can have been meant: letters
    swapped, one lost or one too many. Other digits are another thing: q6_0 is no slip of q8_0.
    """
    from difflib import SequenceMatcher

    if near is None or word == near:
        return False
    one, other = word.lower().lstrip("-"), near.lower().lstrip("-")
    if len(one) > 4 and other.startswith(one) and other[len(one) : len(one) + 1] not in ("-", "_"):
        return True  # cut off
    if plain_word(one) == plain_word(other) or (one in SAME and near in MEANT[one]):
        return True
    if sorted(_DIGITS.findall(one)) != sorted(_DIGITS.findall(other)):
        return False
    if min(len(one), len(other)) < 4:
        return sorted(one) == sorted(other)  # mpt for mtp
    if set(_WORDS.split(one)) > set(_WORDS.split(other)):
        return False  # a word more: draft_attention_backend may be a build's own
    close = SequenceMatcher(None, one, other).ratio() >= 0.85
    return close or letters_apart(one, other, 1) == 1 or _longer(one, other)


def _longer(one: str, other: str) -> bool:
    """Whether one is the other with its words in full: `flash-attention` for `flash-attn`."""
    words, shorter = re.split("[-_]", one), re.split("[-_]", other)
    return len(words) == len(shorter) and all(
        word == short or (len(short) > 2 and word[:1] == short[:1] and is_within(short, word))
        for word, short in zip(words, shorter, strict=True)
    )


def is_within(short: str, word: str) -> bool:
    """Whether the letters of one stand in the other in their order."""
    rest = iter(word)
    return all(letter in rest for letter in short)


def word_apart(words: Sequence[str], other: Sequence[str]) -> tuple[str, str] | None:
    """The one pair of words in which two names of as many words differ."""
    pairs = [pair for pair in zip(words, other, strict=False) if pair[0] != pair[1]]
    return pairs[0] if len(words) == len(other) and len(pairs) == 1 else None


def spelling(case: Case, name: str) -> str:
    """An option as the case's release writes it."""
    return catalogue(case).spelling(name, catalogued_version(case)) or name


def not_a_choice(
    case: Case,
    flag: Flag,
    key: str,
    given: str,
    choices: Sequence[str],
    *,
    where: str = "",
    usual: str | None = None,
    versions: str = "all catalogued releases",
    everywhere: bool = True,
) -> Hit:
    """The hit of a key of a JSON option whose value is none of the choices."""
    near = nearest(given, choices)
    listed = ", ".join(choices[:_MOST]) + (", ..." if len(choices) > _MOST else "")
    use = near or (usual if usual in choices else None)
    what = f"Use '{use}'." if use else f"Use one of {listed}"
    return Hit(
        f"'{key}'{where} does not take '{given}'; "
        + (f"did you mean {near}?" if near else f"it takes {listed}"),
        flag=flag,
        fix=json_fix(case, flag, key, json.dumps(use), what) if use else Fix(text=what),
        versions=versions,
        everywhere=everywhere,
        slip=everywhere
        and (slip(given, near) or (near or "").endswith("_" + given.lower())),  # producer
        sole=is_only_near(given, near, choices),
    )


def unknown_key(
    case: Case,
    flag: Flag,
    where: str,
    key: str,
    given: Container[str],
    keys: Sequence[str],
    *,
    ever: bool = False,
    sole: bool = False,
) -> Hit:
    """The hit of a key that a JSON option lacks; `ever`: another release has it."""
    heir = table("compatibility")["former_keys"].get(where, {}).get(key)
    near = heir or nearest(key, keys)
    if near and not heir and nearest_word(key, [near], "option") is None and not slip(key, near):
        near = None  # keys share words, as options do: enable_fusion is no enable_..._rope_fusion
    return Hit(
        f"{where} has no key '{key}'"
        + (f"; '{heir}' took its place" if heir else f"; the nearest is '{near}'" if near else ""),
        flag=flag,
        fix=json_rename_fix(case, flag, key, near, f"Use '{near}'.")
        if near and near not in given
        else json_drop_fix(case, flag, key, f"Remove '{key}'."),
        versions="all catalogued releases",
        everywhere=not (ever or heir),
        slip=not ever and slip(key, near),
        sole=sole and not ever and near not in given and is_only_near(key, near, keys),
    )
