import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import drop_fix, set_fix
from advisor.rules.kit.models import base_name

# what a checkpoint's name says of its format, and what --quantization asks for
NAMED = (("nvfp4", r"nvfp4"), ("fp8", r"fp8(?!.*kv)"), ("awq", r"awq"), ("gptq", r"gptq"))
ASKED = {
    "fp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "auto_awq": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "auto_gptq": "gptq",
    "modelopt_fp4": "nvfp4",
    "bitsandbytes": "bitsandbytes",
    "gguf": "gguf",
}


@rule(
    severity="error",
    engines=("vllm", "sglang"),
    sources=("vllm vllm/config/model.py (_verify_quantization)", "vllm-project/vllm#19050"),
)
def quant_of_another_checkpoint(case: Case) -> Iterator[Hit]:
    """--quantization that names another format than the checkpoint is in.

    Why: the server compares it with config.json and stops: "Quantization method specified in the
    model config does not match". Left out, the checkpoint's own is taken.
    Bad: vllm serve Qwen/Qwen3-32B-FP8 --quantization awq
    Good: vllm serve Qwen/Qwen3-32B-AWQ --quantization awq_marlin
    """
    found, name = flag(case, "--quantization"), base_name(case.launch.model or "")
    asked = ASKED.get((found.value or "").lower()) if found and not found.unresolved else None
    held = [kind for kind, pattern in NAMED if re.search(pattern, name)]
    if found is None or asked is None or len(held) != 1 or held[0] == asked:
        return
    yield Hit(
        f"{found.raw} {found.value} on a checkpoint with {held[0]} in its name: the server "
        "stops if config.json says the same",
        flag=found,
        severity="warning" if case.launch.fork else None,
        fix=other_kernel(case, found, held[0])
        or drop_fix(case, found, f"Leave {found.raw} out: the checkpoint states its format."),
    )


def other_kernel(case: Case, found: Flag, held: str) -> Fix | None:
    """The same kernel for the format that the checkpoint is in: awq_marlin for gptq_marlin."""
    kind, _, kernel = (found.value or "").partition("_")
    if {kind, held} != {"awq", "gptq"} or kernel not in ("", "marlin"):
        return None
    use = f"{held}_{kernel}" if kernel else held
    return set_fix(case, found, use, f"Write {use}, or leave {found.raw} out.")
