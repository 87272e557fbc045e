from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, integer, value_fix
from advisor.rules.kit.fixes import swap_fix


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    sources=(
        "anubhavgupta start-mtp.sh",
        "sgl-project/sglang#28312",
        "sglang 0.5.23 server_args.py",
    ),
)
def sglang_steps_draft_tokens(case: Case) -> Iterator[Hit]:
    """Draft tokens that do not match the steps, with topk 1.

    Why: a chain of n steps gives n + 1 tokens to verify; another number is changed in silence,
    refused, or wasted.
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN
        --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 1
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN
        --speculative-num-steps 1 --speculative-eagle-topk 1 --speculative-num-draft-tokens 2
    """
    steps, topk, tokens = (
        flag(case, name)
        for name in (
            "--speculative-num-steps",
            "--speculative-eagle-topk",
            "--speculative-num-draft-tokens",
        )
    )
    n, width, m = (
        integer(f.value) if f is not None and not f.unresolved else None
        for f in (steps, topk, tokens)
    )
    if (
        case.plan.method not in ("mtp", "eagle", "eagle3")
        or n is None
        or m is None
        or width not in (None, 1)
        or tokens is None
    ):
        return
    if m != n + 1:
        yield Hit(
            f"{n} steps with topk 1 make {n + 1} tokens to verify, not {m}",
            flag=tokens,
            fix=swap_fix(case, steps, tokens, f"Exchange the two: {m} steps, {n} tokens.")
            if steps is not None and n == m + 1
            else value_fix(
                case, tokens, str(n + 1), f"Use --speculative-num-draft-tokens {n + 1}.", safe=False
            ),
        )
