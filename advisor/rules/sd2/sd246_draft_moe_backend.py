from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, model_text, spec_flag
from advisor.rules.kit.fixes import json_add_fix
from advisor.rules.kit.flags import spec_config


@rule(
    severity="warning",
    engines=("vllm",),
    speculative=True,
    sources=("vllm-project/recipes Qwen3.6-35B-A3B", "AI-Guru/ai_services"),
)
def draft_moe_backend(case: Case) -> Iterator[Hit]:
    """NVFP4 weights on the marlin MoE backend with an MTP head that has no backend of its own.

    Why: the head is not NVFP4; on marlin it fails or crawls. The recipe gives it triton inside
    --speculative-config.
    Bad: vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --moe-backend marlin
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good: vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --moe-backend marlin
        --speculative-config '{"method":"mtp","num_speculative_tokens":3,"moe_backend":"triton"}'
    """
    backend, read = flag(case, "--moe-backend"), spec_config(case)
    if case.plan.method != "mtp" or backend is None or (backend.value or "").lower() != "marlin":
        return
    if "nvfp4" in model_text(case).lower() and (
        read is None or (read.data is not None and "moe_backend" not in read.data)
    ):
        yield Hit(
            "the MTP head of an NVFP4 checkpoint fails or crawls on the marlin MoE backend",
            flag=spec_flag(case),
            fix=json_add_fix(
                case,
                read.flag if read is not None else None,
                "moe_backend",
                '"triton"',
                'Add "moe_backend":"triton" to --speculative-config.',
            ),
        )
