"""Where the rates of a device come from."""

from collections.abc import Iterator

from advisor.domain.nouns import Case, Hardware, Quant
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule, when
from advisor.rules.kit.data import hardware_name

_STATUS = {"recall": "recalled"}


_RATES = {
    "memory_bandwidth_gb_s": "memory bandwidth",
    "bf16_tflops": "BF16 rate",
    "fp8_tflops": "FP8 rate",
    "int8_tops": "INT8 rate",
    "fp4_tflops": "FP4 rate",
    "fp32_tflops": "FP32 rate",
}


_USED = {
    "fp8": "fp8_tflops",
    "nvfp4": "fp4_tflops",
    "mxfp4": "fp4_tflops",
    "int8": "int8_tops",
    "bf16": "bf16_tflops",
}


@rule("SD508", "info", data="claims.weak_statuses")
@when(speculative=True, parts="facts.request", needs="hardware quant concurrency")
def hardware_rates_not_read(case: Case) -> Iterator[Hit]:
    """A rate of this hardware that the estimate uses is derived or recalled, or not known at all.

    Why: bandwidth sets the baseline step, the compute rate what verifying adds.
    Bad (goal=balanced, hw=gb10, concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs
        32 --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=h200, concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
        --max-num-seqs 32 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    hw, quant = case.facts.hardware, case.facts.quant
    if hw is None or quant is None:
        return
    weak = [text for name in _used_rates(quant) if (text := _weakness(hw, name))]
    if weak:
        yield Hit(
            f"{hardware_name(case)}: {' and '.join(weak)}; speeds can be off by as much, "
            f"ratios by less"
        )


def _used_rates(quant: Quant) -> tuple[str, ...]:
    """The rates that decide: bandwidth, and that of the matrices."""
    rate = next(
        (name for family, name in _USED.items() if quant.family.startswith(family)), "bf16_tflops"
    )
    return "memory_bandwidth_gb_s", rate


def _weakness(hw: Hardware, name: str) -> str | None:
    rate = getattr(hw, name)
    if rate is None:
        return f"the {_RATES[name]} is not known" if name == "memory_bandwidth_gb_s" else None
    statuses = table("claims")["weak_statuses"]["statuses"]
    return (
        f"the {_RATES[name]} is {_STATUS.get(rate.status, rate.status)}, not taken from a datasheet"
        if rate.status in statuses
        else None
    )
