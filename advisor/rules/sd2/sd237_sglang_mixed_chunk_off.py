from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch
from advisor.rules.kit.fixes import drop_fix, is_release_pinned


@rule(
    severity="warning",
    engines=("sglang",),
    speculative=True,
    sources=("sglang 0.5.9 to 0.5.23 server_args.py",),
)
def sglang_mixed_chunk_off(case: Case) -> Iterator[Hit]:
    """--enable-mixed-chunk together with speculation.

    Why: SGLang switches it off, so that prefill and decode are not mixed though the file says so.
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 --enable-mixed-chunk
        --speculative-algorithm NEXTN
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN
    """
    if has_switch(case, "--enable-mixed-chunk"):
        yield Hit(
            "--enable-mixed-chunk is switched off by speculation",
            flag=flag(case, "--enable-mixed-chunk"),
            fix=drop_fix(
                case,
                flag(case, "--enable-mixed-chunk"),
                "Remove it, or switch speculation off where mixed chunks matter more.",
                safe=is_release_pinned(case),
            ),
        )
