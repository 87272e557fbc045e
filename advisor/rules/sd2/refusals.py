"""What a release does not run beside speculation, and models that it has no kernel for on a card.

What they do not know: forks, and what an engine's main branch has mended since.
"""

from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case, Flag
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import capability, flag, hardware_name, has_switch, model_name, rows
from advisor.rules.kit.releases import between, release

ROWS = rows("compatibility", "speculation_beside")


@rule("SD285", "error", "catalogued ik_llama.cpp", data="compatibility.speculation_beside")
@when(speculative=True)
def speculation_beside(case: Case) -> Hits:
    """Speculation beside an option that the release refuses with it, or that takes its effect away.

    Why: SGLang runs LoRA, pipelines and DP attention beside some algorithms alone, vLLM's adaptive
    verification not beside LoRA, pipelines, eager mode or Gated DeltaNet; a drafter's keys and
    values do not reach the server that decodes; and experts in the machine's memory make each
    drafted token dear.
    Bad (version=0.5.12): python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B
        --speculative-algorithm EAGLE3 --speculative-draft-model-path AngelSlim/Qwen3-8B_eagle3
        --enable-lora --lora-paths a=/x
    Good (version=0.5.20): the same
    """
    for row in ROWS:
        given = flag(case, *row["options"])
        if given is None or not has_switch(case, *row["options"]) or not _applies(case, row, given):
            continue
        known = between(release(case), row["since"], row["until"])
        bounded = row["since"] is not None or row["until"] is not None
        if known is not False:
            versions = f"from {row['since']} on" if row["since"] else f"up to {row['until']}"
            yield Hit(
                row["text"],
                flag=given,
                severity="warning" if bounded and known is None else row.get("severity"),
                fix=row["fix"],
                row=row,
                versions=versions if bounded else "",
            )


def _applies(case: Case, row: Mapping[str, Any], given: Flag) -> bool:
    """Whether the engine, the method, the model and what stands beside the option are the row's."""
    engine = "llama-server" if case.plan.engine == "ik_llama.cpp" else case.plan.engine
    model = case.facts.model.id if case.facts.model is not None else ""
    extra = {name for name, value in case.plan.extra if value != "false"}
    return (
        row["engine"] == engine
        and case.plan.method not in row.get("but", ())
        and case.plan.method in row.get("methods", (case.plan.method,))
        and any(model.startswith(name) for name in row.get("models", ("",)))
        and capability(case) not in row.get("capabilities", ())
        and case.plan.attention_backend in row.get("backends", (case.plan.attention_backend,))
        and row.get("holds", "") in (given.value or "") not in row.get("unless", ())
        and ("beside" not in row or row["beside"] in extra or has_switch(case, row["beside"]))
        and ("absent" not in row or not has_switch(case, row["absent"]))
    )


@rule("SD286", "error", "vllm", data="chips.sparse_attention")
@when(needs="hardware model")
def sparse_attention_without_kernel(case: Case) -> Hits:
    """A model with sparse attention on an NVIDIA card that no released kernel serves.

    Why: every backend of sparse MLA asks for compute capability 9, 10 or 12; on others the server
    stops with "No valid attention backend found".
    Bad (hw=a100-80gb, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    Good (hw=h200, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    """
    chip, name = capability(case), case.facts.model.id if case.facts.model else ""
    for row in rows("chips", "sparse_attention") if chip is not None else ():
        own = name.startswith(tuple(row["models"])) and chip not in row["capabilities"]
        if own and between(release(case), row["since"], None) is not False:
            needed = " or ".join(map(str, row["capabilities"]))
            yield Hit(
                f"{model_name(case)} has sparse attention, whose kernels in vLLM need compute "
                f"capability {needed}; {hardware_name(case)} has {chip}",
                fix="Use llama-server with a GGUF of it, another model, or a newer card.",
                severity="warning" if case.launch.fork is not None else None,
                row=row,
            )
