from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, spec_flag
from advisor.rules.kit.fixes import add_fix

CAP = table("compatibility")["sglang_running_requests"]

WHAT = "Set --max-running-requests to the concurrency you serve."


@rule(severity="info", engines=("sglang",), speculative=True, sources=tuple(CAP["sources"]))
def sglang_running_requests_capped(case: Case) -> Iterator[Hit]:
    """Speculation without --max-running-requests: SGLang sets 48.

    Why: SGLang sets the cap with no more than a log line. Above 48 concurrent requests the others
    are queued, and a comparison with a server without speculation is not fair. A warning if the
    concurrency is above the cap.
    Bad (concurrency=64): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good (concurrency=64): python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --max-running-requests 64 --speculative-algorithm NEXTN --speculative-num-steps 3
        --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    if case.plan.max_num_seqs is not None or flag(case, "--max-running-requests") is not None:
        return
    streams = case.facts.concurrency
    yield Hit(
        f"speculation without --max-running-requests: SGLang caps it at {CAP['value']}"
        + (f", and the concurrency is {streams}" if streams and streams > CAP["value"] else ""),
        flag=spec_flag(case),
        severity="warning" if streams and streams > CAP["value"] else None,
        fix=add_fix(case, spec_flag(case), "--max-running-requests", str(streams), WHAT)
        if streams and streams > CAP["value"]
        else Fix(text=WHAT),
    )
