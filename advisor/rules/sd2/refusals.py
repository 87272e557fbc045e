"""What does not go together: options with options, and speculation with options and outputs."""

from advisor.domain.nouns import Case
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import k_words
from advisor.rules.kit.relations import relate
from advisor.rules.kit.releases import version_label, within


@rule("SD217", "info", "vllm", defect="vllm-mtp-tool-call-streaming", unsure="info")
@when(methods="mtp", parts="plan.tool_call_parser")
def mtp_tool_call_streaming(case: Case) -> Hits:
    """MTP with a tool-call parser: streamed tool calls can come out empty or malformed.

    Why: the parser can see a whole call in one delta; the grammar of strict calls in 0.23.0
    ended requests at a rejected draft. A warning then and for agent work, else a note.
    Bad (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder
    """
    asked = case.launch.env_value("VLLM_ENFORCE_STRICT_TOOL_CALLING") or "true"
    strict = asked.lower() in ("true", "1")
    ends = strict and within(case, "0.23.0", "0.23.0") is True
    yield Hit(
        f"tool calls streamed with MTP{k_words(case.plan)} under vLLM {version_label(case)} can "
        f"come out empty or malformed{', or end the request' if ends else ''}",
        flag=case.flag("--tool-call-parser"),
        severity="warning" if ends or case.facts.workload == "agent" else None,
        fix="Test streamed tool calls; otherwise disable streaming, or MTP, for tool calls.",
    )


@rule("SD219", "warning", "vllm sglang", data="relations.SD219")
@when(needs="model", parts="facts.model")
def tool_parser_mismatch(case: Case) -> Hits:
    """A tool-call parser of another model family.

    Why: Qwen3.5 and later write calls in XML; a JSON parser such as hermes leaves them in the text.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-auto-tool-choice --tool-call-parser hermes
    Good: with qwen3_coder for hermes
    """
    return relate(case, "SD219")


@rule("SD285", "error", "catalogued ik_llama.cpp", data="relations.SD285")
@when(speculative=True)
def speculation_beside(case: Case) -> Hits:
    """Speculation beside an option that the release refuses with it, or that takes its effect away.

    Why: SGLang drafts beside LoRA, pipelines and DP attention with some algorithms alone; a
    drafter's keys and values do not reach the server that decodes; experts on the host make drafts
    dear.
    Bad (version=0.5.12): python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B
        --speculative-algorithm EAGLE3 --speculative-draft-model-path AngelSlim/Qwen3-8B_eagle3
        --enable-lora --lora-paths a=/x
    Good (version=0.5.20): the same
    """
    return relate(case, "SD285")


@rule("SD279", "error", "catalogued")
def options_at_odds(case: Case) -> Hits:
    """Two options of which one refuses the other, does nothing beside it, or needs it.

    Why: the server stops at some combinations; of others it passes over one option.
    Bad: sglang serve --model-path Qwen/Qwen3-8B --disable-radix-cache --enable-hierarchical-cache
    Good: sglang serve --model-path Qwen/Qwen3-8B --enable-hierarchical-cache
    Sources: vllm 0.19.1 to 0.33.0 vllm/config, vllm/engine/arg_utils.py and vllm/entrypoints;
        sglang 0.5.9 to 0.5.23 server_args.py and arg_groups; ggml-org/llama.cpp b10666 src, common
        and tools/server
    """
    return relate(case, case.plan.engine)


@rule("SD286", "error", "vllm", data="relations.SD286")
@when(needs="hardware model")
def sparse_attention_without_kernel(case: Case) -> Hits:
    """A model with sparse attention on an NVIDIA card that no released kernel serves.

    Why: every backend of sparse MLA asks for compute capability 9, 10 or 12; others find none.
    Bad (hw=a100-80gb, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    Good (hw=h200, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    """
    return relate(case, "SD286")
