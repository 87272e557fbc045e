from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, MemoryBill
from advisor.knowledge.rule_data import number
from advisor.rules import Hit, Lacking, rule
from advisor.rules.kit.case import flag, unread
from advisor.rules.kit.policy import (
    bill,
    hardware_name,
    is_gguf,
    leaves_no_pool,
    model_name,
    sources,
    unknown_sizes,
)

_CARDS = (1, 2, 4, 8, 16)


@rule(
    severity="error",
    needs=("hardware", "shape", "quant"),
    sources=("advisor memory bill", *sources("memory", "least_buffer_share")),
)
def weights_do_not_fit(case: Case) -> Iterator[Hit | Lacking]:
    """Weights, draft head and fixed buffers are larger than the memory that the engine may take.

    Why: the server runs out of memory while it loads. llama-server moves layers to the CPU instead,
    which is several times slower.
    Bad (hw=rtx3090): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    Good (hw=h200): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 4
    """
    if open_sizes := unknown_sizes(case):
        yield Lacking(open_sizes)
        return
    found = bill(case)
    if found is None or found.available_gib is None:
        return
    if not leaves_no_pool(found):
        return
    fixed = found.weights_gib + found.spec_gib + found.overhead_gib
    short = fixed - found.available_gib
    # The buffers are an estimate; that the weights alone are too large is not.
    unsure = found.weights_gib + found.spec_gib <= found.available_gib * (
        1 - number("memory", "least_buffer_share")
    )
    yield Hit(
        f"{model_name(case)} needs {fixed:.1f} GiB per GPU (weights {found.weights_gib:.1f}, "
        f"draft {found.spec_gib:.1f}, "
        f"buffers {found.overhead_gib:.1f}) but {hardware_name(case)} offers "
        f"{found.available_gib:.1f} GiB: short by "
        f"{short:.1f} GiB before any KV "
        f"cache{'; layers would spill to the CPU' if is_gguf(case) else ''}",
        flag=flag(case, "--gpu-memory-utilization", "--mem-fraction-static", "--gpu-layers"),
        severity="warning" if unsure or is_gguf(case) or spread(case) else None,
        fix=Fix(text=_what_would_fit(case, found)),
    )


def _what_would_fit(case: Case, found: MemoryBill) -> str:
    """The smallest change of each kind that makes the weights fit; sharding is taken as even."""
    room = (found.available_gib or 0.0) - found.overhead_gib
    weights = found.weights_gib + found.spec_gib
    if room <= 0:
        return "Take a device with more memory: the buffers alone exceed what is offered."
    bits = (case.facts.quant.bits if case.facts.quant else None) or 0.0
    options = []
    if bits:
        options.append(
            f"a quantisation of at most {0.95 * bits * room / weights:.1f} bits per weight (now "
            f"{bits:g})"
        )
    cards = next(
        (n for n in _CARDS if n > case.plan.tp and weights * case.plan.tp / n <= 0.95 * room), None
    )
    if cards:
        options.append(f"tensor parallel over {cards} such devices")
    return f"Use {' or '.join(options)}." if options else "Take a smaller model."


def spread(case: Case) -> bool:
    """Whether what was not read may spread the weights over more devices."""
    return case.plan.tp * case.plan.pp == 1 and unread(case)
