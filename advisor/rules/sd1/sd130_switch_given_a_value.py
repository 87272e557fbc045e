from collections.abc import Iterator

from advisor.domain.nouns import Case, Edit, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.engines.base import SWITCH_VALUE
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags
from advisor.rules.kit.flags import CATALOGUED, catalogue, catalogued_version

_SAID = lazy_re(rf"{SWITCH_VALUE} (\S+) is followed by '(\w+)'")
_ON = ("true", "yes", "on", "enabled")


@rule(
    severity="error",
    engines=CATALOGUED,
    versioned=True,
    sources=(
        "python/cpython Lib/argparse.py (store_true, BooleanOptionalAction: nargs=0)",
        "ggml-org/llama.cpp common/arg.cpp (common_params_parse_ex)",
    ),
)
def switch_given_a_value(case: Case) -> Iterator[Hit]:
    """A switch followed by `true` or `false`.

    Why: the parser of a switch takes no value, so the word belongs to nothing, or is taken for the
    model, and the server stops before it loads. Written to switch something off, it would have
    switched it on.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4 --enforce-eager false
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4 --no-enforce-eager
    """
    for note in case.launch.notes:
        if (found := _SAID.fullmatch(note)) is None:
            continue
        name, word = found.groups()
        negated = "--no-" + name.removeprefix("--").replace("_", "-")
        has_opposite = catalogue(case).find(negated, catalogued_version(case)) is not None
        leave = f"Write {negated}." if has_opposite else f"Leave {name} out."
        place = next((one for one in flags(case) if one.raw == name), None)
        yield Hit(
            f"{name} takes no value: the server stops at '{word}'",
            flag=place,
            severity="warning" if case.launch.fork else None,
            fix=bare(case, place, negated if has_opposite else name, word, leave),
            versions="all catalogued releases",
            everywhere=True,
        )


def bare(case: Case, found: Flag | None, negated: str, word: str, leave: str) -> Fix:
    """The switch without the word, or switched off where the word says so and it can be."""
    on = word.lower() in _ON
    what = f"Leave '{word}' out." if on else leave
    if found is None or found.span is None or found.value_span is None or found.unresolved:
        return Fix(text=what)
    text = found.raw if on else negated if negated != found.raw else ""
    end = max(found.span.end, found.value_span.end)
    edit = Edit(file=case.launch.file, start=found.span.start, end=end, text=text)
    return Fix(text=what, edits=(edit,))
