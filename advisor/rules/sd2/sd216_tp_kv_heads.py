from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix


@rule(
    severity="info",
    engines=("vllm", "sglang"),
    needs=("model",),
    sources=(
        "sgl-project/sglang#10852",
        "vllm-project/recipes#335",
        "vllm 0.33.0 vllm/config/model.py",
    ),
)
def tp_kv_heads(case: Case) -> Iterator[Hit]:
    """Tensor parallelism against the number of attention and KV heads.

    Why: a size that does not divide the attention heads is refused, and so is one that shares the
    KV heads unevenly. More GPUs than KV heads keep copies of the KV cache: no memory is won, and a
    small-active MoE pays all-reduces for little work.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --tensor-parallel-size 4
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --tensor-parallel-size 2
    """
    model, tp = case.facts.model, case.plan.tp
    if model is None or tp <= 1:
        return
    place = flag(case, "--tp-size", "--tensor-parallel-size")
    if model.heads and model.heads % tp:
        yield Hit(
            f"tensor parallelism {tp} does not divide the {model.heads} attention heads: the "
            f"server refuses to start",
            flag=place,
            severity="error",
            fix=smaller(case, "Use a size that divides the attention heads."),
        )
    elif model.kv_heads and model.kv_heads % tp and tp % model.kv_heads:
        yield Hit(
            f"tensor parallelism {tp} shares the {model.kv_heads} KV heads unevenly: the server "
            f"stops while it builds the model",
            flag=place,
            severity="error",
            fix=smaller(case, "Use a size that divides the KV heads, or a multiple of them."),
        )
    elif model.kv_heads and tp > model.kv_heads:
        yield Hit(
            f"tensor parallelism {tp} is more than the {model.kv_heads} KV heads: every KV head "
            f"is stored {-(-tp // model.kv_heads)} times",
            flag=place,
            fix=Fix(
                text=f"Tensor parallelism {model.kv_heads} and several replicas use the memory "
                f"better, if the model fits."
            ),
        )


def smaller(case: Case, what: str) -> Fix:
    """The next power of two below, which divides the heads of every known model."""
    model, tp = case.facts.model, case.plan.tp
    place = flag(case, "--tp-size", "--tensor-parallel-size")
    size = 1 << (tp.bit_length() - 1)
    size = size // 2 if size == tp else size
    if model is None or not model.heads or model.heads % max(size, 1):
        return Fix(text=what)
    return set_fix(case, place, str(size), f"{what[:-1]}: {size}.")
