from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, integer, spec_flag, unread
from advisor.rules.kit.fixes import add_fix

TRIPLE = ("--speculative-num-steps", "--speculative-eagle-topk", "--speculative-num-draft-tokens")


@rule(
    severity="error",
    engines=("sglang",),
    speculative=True,
    sources=("sglang 0.5.9 to 0.5.23 server_args.py",),
)
def sglang_spec_triple(case: Case) -> Iterator[Hit]:
    """Some of SGLang's three speculation numbers without the others.

    Why: steps, topk and draft tokens are given together or not at all (then 3, 1, 4 for Qwen); a
    part stops the server.
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN
        --speculative-num-draft-tokens 4
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN
        --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    if case.plan.method not in ("mtp", "eagle", "eagle3"):
        return
    given = [name for name in TRIPLE if flag(case, name) is not None]
    missing = [name for name in TRIPLE if name not in given]
    if given and missing:
        yield Hit(
            f"{', '.join(given)} without {' and '.join(missing)}: SGLang needs all three or none",
            flag=flag(case, given[0]) or spec_flag(case),
            severity="warning" if unread(case) else None,
            fix=completion_fix(case, given, missing),
        )


def completion_fix(case: Case, given: list[str], missing: list[str]) -> Fix:
    """The one that follows from the other two: n steps make n + 1 tokens to verify with topk 1."""
    what = "Give all three, for example 3, 1 and 4."
    steps, topk, tokens = (flag(case, name) for name in TRIPLE)
    values = [integer(one.value) if one is not None else None for one in (steps, topk, tokens)]
    chain = values[1] in (None, 1)
    if len(missing) != 1 or not chain:
        return Fix(text=what)
    follows = {
        TRIPLE[0]: values[2] - 1 if values[2] else None,
        TRIPLE[1]: 1,
        TRIPLE[2]: values[0] + 1 if values[0] else None,
    }[missing[0]]
    behind = tokens if missing[0] == TRIPLE[1] else topk
    if not follows:
        return Fix(text=what)
    return add_fix(case, behind, missing[0], str(follows), f"Add {missing[0]} {follows}.")
