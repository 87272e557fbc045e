from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, integer
from advisor.rules.kit.flags import spec_config


@rule(
    severity="error",
    engines=("vllm",),
    sources=("vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run",),
)
def spec_tokens_not_positive(case: Case) -> Iterator[Hit]:
    """A number of speculative tokens that is not a whole number above zero.

    Why: the configuration class refuses 0, negative numbers and text; to switch speculation off,
    leave the option out.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":0}'
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    short = flag(case, "--spec-tokens")
    read = spec_config(case)
    given: object = None
    place = short
    if short is not None and not short.unresolved:
        given = integer(short.value) if integer(short.value) is not None else short.value
    elif read is not None and read.data is not None:
        given, place = read.data.get("num_speculative_tokens"), read.flag
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return
    if isinstance(given, str) and (
        (given.isdecimal() and given.strip("0")) or to_fill(given, named=True)
    ):
        return  # a number in quotes, or what only a variable knows
    yield Hit(
        f"the number of speculative tokens must be a whole number above 0, not {given!r}",
        flag=place,
        fix=Fix(text="Give 1 to 3, or leave speculation out."),
    )
