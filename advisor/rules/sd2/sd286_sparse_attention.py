import re
from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule, when
from advisor.rules.kit.case import compute_arch
from advisor.rules.kit.data import hardware_name, model_name, rows
from advisor.rules.kit.releases import between, release


@rule(severity="error", engines="vllm", data="chips.sparse_attention")
@when(needs="hardware model")
def sparse_attention_without_kernel(case: Case) -> Iterator[Hit]:
    """A model with sparse attention on an NVIDIA card that no released kernel serves.

    Why: every backend of sparse MLA asks for compute capability 9, 10 or 12; on others the server
    stops with "No valid attention backend found".
    Bad (hw=a100-80gb, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    Good (hw=h200, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    """
    chip = re.match(r"sm_(\d+)\d", compute_arch(case) or "")
    if chip is None or case.facts.model is None:
        return
    for row in rows("chips", "sparse_attention"):
        if (
            not case.facts.model.id.startswith(tuple(row["models"]))
            or int(chip[1]) in row["capabilities"]
            or between(release(case), row["since"], None) is False
        ):
            continue
        needed = " or ".join(map(str, row["capabilities"]))
        yield Hit(
            f"{model_name(case)} has sparse attention, whose kernels in vLLM need compute "
            f"capability {needed}; {hardware_name(case)} has {chip[1]}",
            fix="Use llama-server with a GGUF of it, another model, or a newer card.",
            severity="warning" if case.launch.fork is not None else None,
            sources=tuple(row["sources"]),
        )
