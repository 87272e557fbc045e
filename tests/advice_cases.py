"""Hand-made advice for the tests of the renderers: on, off, measure, no method, hostile names."""

from advisor import engines
from advisor.domain.nouns import (
    LLM,
    Advice,
    Candidate,
    Estimate,
    Evidence,
    Facts,
    Finding,
    Fix,
    Hardware,
    Interval,
    LaunchText,
    MemoryBill,
    MetricEstimate,
    Plan,
    Quant,
    Reason,
    Request,
)
from tests.tables import fields

REPOSITORY = "Qwen/Qwen3.6-35B-A3B-FP8"
REQUEST = Request(hardware="gb10", concurrency=16, ctx_tokens=2048)
HARDWARE = Hardware(
    id="gb10", name="NVIDIA GB10 (DGX Spark)", vendor="nvidia", arch="sm_121", unified_memory=True
)
MODEL = LLM(
    id="qwen3.6-35b-a3b", name="Qwen3.6-35B-A3B", experts=256, linear_layers=30, source="test"
)
QUANT = Quant(
    **fields(
        "id=fp8 bytes_mixer=1 bytes_ffn=1 bytes_lm_head=2 bytes_embedding=2 bytes_mtp=2 "
        "bytes_mtp_lm_head=2 source=test"
    )
)
EVIDENCE = Evidence(
    **fields(
        "run_id=seed000-017 source=seed000 hardware=gb10 model=qwen3.6-35b-a3b quant=fp8 "
        "engine=vllm engine_version=0.19.1 method=mtp k=2 concurrency=16 input_tokens=2048 "
        "output_tokens=512 metric=output_tok_s speedup=1.242 date=2026-04-18 covers=True"
    )
)
FACTS = Facts(
    **{"request": REQUEST, "hardware": HARDWARE, "model": MODEL, "shape": MODEL, "quant": QUANT},
    **fields(
        "engine=vllm engine_version=0.33.0 tp=1 concurrency=16 ctx_tokens=2048 output_tokens=512 "
        "workload=mixed goal=balanced"
    ),
    evidence=(
        EVIDENCE,
        EVIDENCE.model_copy(update={"run_id": "seed000-018", "metric": "ttft", "speedup": 2.31}),
    ),
    defaults=(
        ("model", "qwen3.6-35b-a3b", "the advisor's default model"),
        ("engine", "vllm", "best supported on this hardware"),
        ("quant", "fp8", "the hardware runs FP8 natively and the weights fit"),
    ),
)


def plan(k: int = 2, **changes: object) -> Plan:
    """A vLLM plan for the GB10; k = 0 means without speculation."""
    base = fields(
        "engine=vllm engine_version=0.33.0 prefix_caching=False max_num_seqs=32 max_model_len=4096 "
        "max_num_batched_tokens=8192 memory_fraction=0.85 reasoning_parser=qwen3"
    )
    made = Plan(**base, model=REPOSITORY, method="mtp" if k else "none", k=k)
    return made.model_copy(update=changes)


def launch(k: int = 2, model: str = REPOSITORY, env: dict[str, str] | None = None) -> LaunchText:
    """What the engine is started with for `plan(k)`."""
    return text_of(plan(k, model=model, env=tuple((env or {}).items())))


def text_of(which: Plan) -> LaunchText:
    """The launch of a plan as text."""
    adapter = engines.get(which.engine)
    return adapter.render(adapter.to_launch(which))


def estimate(middle: float = 1.24, p_gain: float = 0.97) -> Estimate:
    """An estimate around a speed-up of output tok/s of `middle`."""
    metric = MetricEstimate(
        speedup=Interval(p10=middle * 0.9, p50=middle, p90=middle * 1.12),
        baseline=216.3,
        value=216.3 * middle,
    )
    return Estimate(
        output_tok_s=metric,
        tpot_ms=metric.model_copy(update={"baseline": 61.2, "value": 61.2 / middle}),
        ttft_ms=MetricEstimate(
            speedup=Interval(p10=1.4, p50=2.31, p90=3.2), baseline=3989.0, value=1727.0
        ),
        accepted_length=Interval(p10=2.2, p50=2.43, p90=2.6),
        p_gain=p_gain,
        memory=MemoryBill(
            **fields(
                "weights_gib=33.39 spec_gib=0.79 state_gib=0.5 kv_gib=12.0 overhead_gib=3.0 "
                "available_gib=108.0 kv_tokens=324000 kv_tokens_lost=36000 fits=True"
            )
        ),
        basis="measured",
        terms={"base_step_ms": 40.0, "cycle_ms": 62.0},
        notes=("the row was measured with vLLM 0.19.1; the interval is widened for 0.33.0",),
    )


FINDINGS = (
    Finding(
        code="SD203",
        severity="warning",
        message="MTP drops the last matched prefix block, so shared prefixes gain less",
        fix=Fix(text="pass --no-enable-prefix-caching unless prompts share long prefixes"),
        sources=("vllm#38182",),
        conflicts=("the DGX Spark recipe of the vLLM project keeps prefix caching on",),
    ),
)
REASONS = (
    Reason(
        text="At 16 concurrent requests the GB10 is bound by memory bandwidth, so verifying 48 "
        "tokens in a step costs little "
        "more than 16: the union of experts grows slower than the tokens that come out of it, "
        "and drafts are cheap",
        sources=("perf_model", "seed000"),
        weight=2.0,
    ),
    Reason(
        text="A clean measured pair covers this case: +24.2 % output tok/s, TTFT -56.7 %",
        sources=("seed000",),
        weight=3.0,
    ),
    Reason(
        text="The draft head adds 0.79 GiB and one state slot per draft position",
        sources=("gpu_notes",),
        weight=1.0,
    ),
)
CHANGES = (
    "acceptance length below 1.9 tokens a step (now 2.43), for example creative text at a high "
    "temperature",
    "prompts above about 6,000 tokens with 4 or more at once and throughput as the goal",
)


def on(**changes: object) -> Advice:
    """Speculation on: the GB10 case, with some fields changed."""
    plans = {"plan": plan(), "candidate": plan(), "plan_off": plan(0)}
    launches = {"launch": launch(), "launch_off": launch(0), "launch_on": launch()}
    said = changes.get("estimate", estimate())
    return Advice(
        request=REQUEST,
        facts=FACTS,
        decision="on",
        gain=said.output_tok_s.speedup if isinstance(said, Estimate) else None,
        decided_by="estimate",
        estimate=estimate(),
        findings=FINDINGS,
        reasons=REASONS,
        runners_up=(
            Candidate(plan=plan(3), estimate=estimate(1.2), utility=0.1, regret=0.02),
            Candidate(plan=plan(0), estimate=None),
        ),
        would_change=CHANGES,
        evidence_newest="2026-04-18",
        **plans,
        **launches,
    ).model_copy(update=changes)


def off(**changes: object) -> Advice:
    """Speculation off, with the candidate that lost, with some fields changed."""
    lost = {"plan": plan(0), "launch": launch(0), "estimate": estimate(0.9, 0.12), "runners_up": ()}
    return on(**{"decision": "off", **lost, **changes})


def measure() -> Advice:
    """Too close to call: the A/B is handed over."""
    commands = ("advisor bench plan --hw gb10 --out ab", "advisor bench run ab")
    made = {"decision": "measure", "estimate": estimate(1.02, 0.66), "launch_on": launch()}
    return off(**made, measure_with=commands)


def no_method() -> Advice:
    """A model without any speculative method."""
    none = dict.fromkeys(("candidate", "estimate", "launch_on"))
    return off(**none, findings=(), would_change=(), evidence_newest="")


def hostile(name: str, env: dict[str, str] | None = None) -> Advice:
    """The GB10 case with a hostile model name, and variables, in plan and launches."""
    words = {"model": name, "env": tuple((env or {}).items())}
    made = {"plan": plan(**words), "candidate": plan(**words), "plan_off": plan(0, **words)}
    launches = {"launch": launch(model=name, env=env), "launch_off": launch(0, name, env)}
    return on().model_copy(update=made | launches)


ALL = {"on": on, "off": off, "measure": measure, "no_method": no_method}
