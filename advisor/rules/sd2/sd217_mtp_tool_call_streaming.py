from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, k_words
from advisor.rules.kit.releases import affects, defect, version_label

DEFECT = defect("vllm-mtp-tool-call-streaming")


@rule(severity="info", engines=("vllm",), speculative=True, versioned=True, sources=DEFECT.sources)
def mtp_tool_call_streaming(case: Case) -> Iterator[Hit]:
    """MTP with a tool-call parser: streamed tool calls can come out empty or malformed.

    Why: a streaming parser can see a whole call in one delta of several tokens. A warning for agent
    work, else a note.
    Bad (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder
    """
    if (
        case.plan.method != "mtp"
        or not case.plan.tool_call_parser
        or affects(DEFECT, case) is False
    ):
        return
    yield Hit(
        f"tool calls streamed with MTP{k_words(case.plan)} under vLLM {version_label(case)} can "
        f"come out empty or malformed",
        flag=flag(case, "--tool-call-parser"),
        severity="warning" if case.facts.workload == "agent" else None,
        fix=Fix(
            text="Test streamed tool calls; otherwise disable streaming, or MTP, for tool calls."
        ),
        conflicts=DEFECT.conflicts,
        versions=DEFECT.versions,
    )
