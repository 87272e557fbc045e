"""What the evidence is worth, and where the rates of a device come from."""

from advisor.domain.nouns import Case, Hardware
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import rows
from advisor.rules.kit.policy import is_sparse_moe, matches

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

# statuses of a rate that was not read off a datasheet
WEAK = ("derived", "recall", "assumed")


@rule("SD501", "info")
@when(speculative=True, parts="facts.request", needs="hardware model concurrency")
def no_measured_pair(case: Case) -> Hits:
    """No published A/B benchmark matches this configuration, though the hardware was measured.

    Why: the estimate rests on similar configurations; a benchmark here outweighs it.
    Bad (goal=balanced, hw=gb10, concurrency=200, ctx=512): vllm serve Qwen/Qwen3.6-27B-FP8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=gb10, concurrency=200, ctx=512): vllm serve Qwen/Qwen3.6-27B-FP8
    Sources: knowledge/measurements
    """
    facts, hw = case.facts, case.facts.hardware
    here = [e for e in facts.evidence if hw is not None and e.hardware == hw.id]
    if not here or any(e.covers for e in facts.evidence):
        return  # of none here SD506 speaks
    near, asked = here[0], facts.concurrency or 1
    same = near.model == (facts.model.id if facts.model else "") and near.engine == case.plan.engine
    if same and 0.5 <= (near.concurrency or 1) / asked <= 2:
        return  # only the length of its prompts is not published
    yield Hit(
        f"no published A/B benchmark of {case.model_name} at concurrency {asked} on "
        f"{case.hardware_name}; the nearest is {near.model} {near.quant} on {near.engine} at "
        f"concurrency {near.concurrency or 1:g}: benchmark first if the difference matters",
        sources=(near.source,),
    )


@rule("SD506", "info")
@when(speculative=True, parts="facts.request", needs="hardware model concurrency")
def hardware_never_measured(case: Case) -> Hits:
    """No published benchmark near this load used this hardware: the estimate is extrapolated.

    Why: faults of a platform (lost graphs, slow verify kernels) are seen only by measuring there.
    Bad (goal=balanced, hw=l40s, concurrency=4, ctx=2048): vllm serve Qwen/Qwen3.6-27B-FP8
        --max-num-seqs 8 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=gb10, concurrency=16, ctx=2048): with Qwen/Qwen3.6-35B-A3B-FP8
        --max-num-seqs 32 --gpu-memory-utilization 0.75 for Qwen/Qwen3.6-27B-FP8 --max-num-seqs 8
    Sources: knowledge/measurements
    """
    hw = case.facts.hardware
    if hw is not None and not any(e.hardware == hw.id for e in case.facts.evidence):
        yield Hit(
            f"no published benchmark near this load used {case.hardware_name}: the estimate is "
            f"extrapolated from other machines"
        )


@rule("SD507", "info")
@when(speculative=True, parts="facts.request", needs="model shape hardware")
def stand_in_shape(case: Case) -> Hits:
    """The model's own shape is unknown; another model's is used.

    Why: layer, expert and head sizes enter each cost of the step and the memory bill.
    Bad (goal=balanced, hw=rtx5090, concurrency=1): vllm serve Qwen/Qwen3.8-27B-FP8 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=rtx5090, concurrency=1): vllm serve Qwen/Qwen3.6-27B-FP8 --max-num-seqs
        4 --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Sources: knowledge/llms
    """
    model, shape = case.facts.model, case.facts.shape
    if model is not None and shape is not None and model.proxy and shape.id != model.id:
        yield Hit(
            f"the shape of {case.model_name} is unknown; costs and memory are those of "
            f"{shape.name or shape.id}",
            sources=(model.source,) if model.source else (),
        )


@rule("SD508", "info")
@when(speculative=True, parts="facts.request", needs="hardware quant concurrency")
def hardware_rates_not_read(case: Case) -> Hits:
    """A rate of this hardware that the estimate uses is derived or recalled, or not known at all.

    Why: bandwidth sets the baseline step, the compute rate what verifying adds.
    Bad (goal=balanced, hw=gb10, concurrency=16): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs
        32 --gpu-memory-utilization 0.75 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=h200, concurrency=16): without --gpu-memory-utilization 0.75
    Sources: knowledge/hardware
    """
    hw, quant = case.facts.hardware, case.facts.quant
    if hw is None or quant is None:
        return
    # the rates that decide: bandwidth, and that of the matrices
    rates = (rate for family, rate in _USED.items() if quant.family.startswith(family))
    used = ("memory_bandwidth_gb_s", next(rates, "bf16_tflops"))
    if weak := [text for name in used if (text := _weakness(hw, name))]:
        yield Hit(
            f"{case.hardware_name}: {' and '.join(weak)}; speeds can be off by as much, "
            f"ratios by less"
        )


def _weakness(hw: Hardware, name: str) -> str | None:
    rate = getattr(hw, name)
    if rate is None:
        return f"the {_RATES[name]} is not known" if name == "memory_bandwidth_gb_s" else None
    if rate.status not in WEAK:
        return None
    status = "recalled" if rate.status == "recall" else rate.status
    return f"the {_RATES[name]} is {status}, not taken from a datasheet"


@rule("SD503", "info", data="claims.superseded")
@when(speculative=True, parts="facts.request", needs="hardware concurrency")
def superseded_claim(case: Case) -> Hits:
    """A widely read statement about this set-up is out of date.

    Why: guides of spring 2026 are still found first.
    Bad (goal=balanced, hw=rtx3090, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf
        --spec-type draft-mtp --spec-draft-n-max 2
    Good (goal=balanced, hw=rtx3090, concurrency=1): llama-server -m Qwen3.6-35B-A3B-MTP-Q4_K_M.gguf
    """
    for row in rows("claims", "superseded"):
        if matches(row, case):
            yield Hit(f"outdated: {row['text']}", row=row)


@rule("SD504", "info", data="claims.retracted")
@when(speculative=True, parts="facts.request", needs="hardware model concurrency")
def retracted_claim(case: Case) -> Hits:
    """A published number about this set-up was withdrawn by its author.

    Why: it is still quoted. It takes no part in the estimate.
    Bad (goal=balanced, hw=rtx3090, gpus=2, concurrency=1): vllm serve
        cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit --tensor-parallel-size 2 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (goal=balanced, hw=gb10, concurrency=1): with --max-num-seqs 8 --gpu-memory-utilization
        0.75 for --tensor-parallel-size 2 --max-num-seqs 8
    """
    for row in rows("claims", "retracted"):
        if matches(row, case):
            yield Hit(row["text"], row=row)


@rule("SD509", "info", "vllm", data="claims.a3b_spread")
@when(methods="mtp", parts="hybrid facts.request", needs="model hardware concurrency")
def conflicting_a3b_reports(case: Case) -> Hits:
    """Reports on MTP for the A3B hybrids contradict each other by quantisation and release.

    Why: without a published benchmark of this configuration only the spread is known.
    Bad (goal=balanced, hw=rtx4090, gpus=2, concurrency=2, quant=awq-int4): vllm serve
        cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit --tensor-parallel-size 2 --max-num-seqs 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    Good (goal=balanced, hw=rtx4090, gpus=2, concurrency=2, quant=awq-int4): with
        Qwen/Qwen3.6-27B-AWQ for cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit
    """
    if is_sparse_moe(case) and not any(e.covers for e in case.facts.evidence):
        yield Hit(
            f"reports on MTP for {case.model_name} in vLLM range from -51 % to +55 % by "
            f"quantisation, release and settings",
            conflicts=tuple(table("claims")["a3b_spread"]["rows"]),
        )
