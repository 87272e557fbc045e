from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, spec_flag, unread

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
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
        --speculative-num-draft-tokens 4
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
        --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    if case.plan.method not in ("mtp", "eagle", "eagle3"):
        return
    given = [name for name in TRIPLE if flag(case, name) is not None]
    missing = [name for name in TRIPLE if name not in given]
    if given and missing:
        yield Hit(
            f"{', '.join(given)} without {' and '.join(missing)}: SGLang wants all three or none",
            flag=flag(case, given[0]) or spec_flag(case),
            severity="warning" if unread(case) else None,
            fix=Fix(text="Give all three, for example 3, 1 and 4."),
        )
