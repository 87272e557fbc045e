"""What an A/B measured comes back as the answer at its cell, whatever the run does not state."""

import json
import random
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import count, product
from math import ceil, exp, log
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor import engines, readers
from advisor.advice.adaptive import with_adaptive
from advisor.advice.explore.compare import compare
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import Point
from advisor.advice.explore.why_not import why_not
from advisor.advice.explore.within import with_users
from advisor.advice.judge import estimate_plans
from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs.ab_test import judge_ab
from advisor.advice.own_runs.calibration import add_runs
from advisor.advice.own_runs.setting import plan_in, setting
from advisor.advice.recommend import check_request, launch_text, recommend
from advisor.advice.resolve import facts_for_request
from advisor.cli.app import cli
from advisor.domain.facts import OwnRun
from advisor.domain.nouns import AdvisorError, Facts, Plan, Request
from advisor.engines.vllm import verifies_adaptively
from advisor.perf.encoding.own_cases import as_case
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency

REPEATS = 2
NUMBER = count()
LOADS = {
    "vllm": ((1, 2048, 512), (4, 8192, 256), (16, 2048, 512), (64, 512, 512)),
    "sglang": ((1, 512, 512), (8, 4096, 256), (32, 2048, 512)),
    "llama-server": ((1, 2048, 512), (2, 8192, 256), (4, 1024, 512)),
}
MACHINES = {
    "h100": ("vllm", "sglang"), "h200": ("vllm", "sglang"), "mi300x": ("vllm", "sglang"),
    "gb10": ("vllm", "sglang", "llama-server"), "5090": ("vllm", "llama-server"),
    "4090": ("llama-server",), "rtx-pro-6000": ("vllm", "sglang", "llama-server"),
    "m4-max": ("llama-server",),
}  # fmt: skip
Case = tuple[str, str, tuple[int, int, int], float, float | None, bool, float]
RNG = random.Random(34)
CASES: list[Case] = [  # the length of answers, the launch and the level are drawn
    (name, engine, load, gain, RNG.choice((None, 0.0)), RNG.random() < 0.5, RNG.choice((0.8, 1.15)))
    for name, engines in MACHINES.items()
    for engine in engines
    for load, gain in product(LOADS[engine], (0.9, 1.25))
]
RNG.shuffle(CASES)
QUICK = 16
FIRST = {0.9: 1.6, 1.25: 0.7}  # gain of the first token by that of the others


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def request_of(machine: str, engine: str, load: tuple[int, int, int], **more: object) -> Request:
    streams, prompt, answer = load
    fields = {"hardware": machine, "engine": engine, "concurrency": streams, "ctx_tokens": prompt,
              "output_tokens": answer, "method": "mtp"}  # fmt: skip
    return check_request(fields | {k: v for k, v in more.items() if v is not None})


def answers(request: Request, machine: machines.Machine | None = None) -> dict[int, Point]:
    made = sweep(request.replace(machine=machine), {"k": [1, 2, 3]}).loads[0]
    return {point.k: point for point in made.points}


def arm(request: Request, point: Point, level: float, gain: float = 1.0) -> list[BenchmarkRun]:
    """Repeats of one arm, `level` times as fast as the arm without drafts is expected to be."""
    steps, first = level * gain, level * FIRST.get(gain, 1.0)
    units = {"output_tok_s": steps, "tpot_ms": 1 / steps, "ttft_ms": 1 / first}
    speed, token, first = ((getattr(point, m).baseline or 0.0) * x for m, x in units.items())
    drafts: dict[str, Any] = {"method": "none"}
    if gain != 1.0:
        drafts = {"method": "mtp", "k": 2, "acceptance": Acceptance(length=2.45)}
    return [
        BenchmarkRun(file=f"{arm}.json", format="made", model="Qwen/Qwen3.6-35B-A3B",
                     sha256=f"{arm:064x}", engine=request.engine, concurrency=request.concurrency,
                     requests=160, input_tokens=request.ctx_tokens,
                     output_tokens=request.output_tokens, output_tok_s=speed,
                     tpot_ms=Latency(mean=token), ttft_ms=Latency(mean=first), **drafts)
        for arm in (next(NUMBER) for _ in range(REPEATS))
    ]  # fmt: skip


def calibrate(
    request: Request, gain: float, level: float, plan: Plan | None = None, name: str = "own"
) -> machines.Machine:
    """A machine with one A/B of k = 2 at this load, of files that state no more than it."""
    point = answers(request)[2]
    stated = {"hardware": request.hardware, "model": request.model, "k": 2, "gpus": request.gpus}
    off, on = arm(request, point, level), arm(request, point, level, gain)
    return add_runs(name, off, on, [], stated, plan).machine


def own_launch(request: Request) -> Plan:
    """The plan of the launch that the advice would print for k = 2, as a file of it is read."""
    words = shlex.join(launch_text(answers(request)[2].plan).argv)
    return plan_in(readers.read_text(words, "run.sh"), "run.sh")


def tolerance(machine: machines.Machine) -> float:
    """The larger of 3 % and the half-width of the A/B's own 90 % interval, in log."""
    return max(0.03, 1.645 * machine.runs[0].gains["output_tok_s"].sd)


def check_cell(case: Case) -> None:
    name, engine, load, gain, spread, launched, level = case
    request = request_of(name, engine, load, output_spread=spread)
    machine = calibrate(request, gain, level, own_launch(request) if launched else None)
    bare, own = answers(request), answers(request, machine)
    for metric, unit in (("output_tok_s", "output_tok_s"), ("tpot", "tpot_ms")):
        answer = getattr(own[2], unit)
        assert abs(log(answer.speedup.p50 / gain)) <= tolerance(machine), (case, metric)
        assert abs(log(answer.baseline / machine.runs[0].baseline[metric])) <= 0.03, (case, metric)
        wide = getattr(bare[2], unit).speedup
        assert log(answer.speedup.p90 / answer.speedup.p10) < 0.7 * log(wide.p90 / wide.p10), case
    before, after = (rows[2].output_tok_s.speedup.p50 for rows in (bare, own))
    first = own[2].ttft_ms
    assert first.predictable and abs(log(first.speedup.p50 / FIRST[gain])) <= tolerance(machine)
    beside = [request.model_copy(update={"ctx_tokens": round(1.1 * load[1])})]
    if load[0] >= 10:
        beside.append(request.model_copy(update={"concurrency": ceil(1.1 * load[0])}))
    for near in beside:
        plain = answers(near)[2].output_tok_s.speedup.p50 / before
        made = answers(near, machine)
        moved = made[2].output_tok_s.speedup.p50 / after
        assert abs(log(moved / plain)) <= 0.05, (case, near.concurrency, near.ctx_tokens)
        for first in (one.ttft_ms for k, one in {**own, **made}.items() if k):
            end = first.speedup.p10 if gain > 1 else 1 / first.speedup.p90
            assert end <= 1 or not first.predictable, (case, first)


# throughput gains less than TPOT in 64 tokens: where both gain alike, it is that setting's own
@pytest.mark.parametrize(
    "case", [*CASES[:QUICK], ("mi300x", "vllm", (128, 8192, 64), 1.25, None, False, 0.8)], ids=str
)
def test_an_ab_comes_back_as_what_was_measured(case: Case) -> None:
    check_cell(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[QUICK:], ids=str)
def test_every_ab_comes_back_as_what_was_measured(case: Case) -> None:
    check_cell(case)


@pytest.mark.parametrize("gpus", [2, 4, 8])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_an_ab_of_several_cards_is_that_of_all_of_them(engine: str, gpus: int) -> None:
    """Split in whatever way the answer has: replicas add up to what was measured."""
    name, load = ("3090", (2, 4096, 256)) if engine == "llama-server" else ("h100", (64, 2048, 512))
    request = request_of(name, engine, load, gpus=gpus)
    machine = calibrate(request, 1.25, 1.1)
    answer = answers(request, machine)[2]
    assert abs(log(answer.output_tok_s.speedup.p50 / 1.25)) <= tolerance(machine)
    measured = machine.runs[0].baseline["output_tok_s"]
    span = answer.output_tok_s.baseline_range
    assert answer.output_tok_s.baseline == pytest.approx(measured, rel=0.01)
    assert span is not None and log(span.p90 / span.p10) < 0.25, "as sure as a measurement"


@pytest.mark.parametrize("gpus", [2, 4])
def test_replicas_of_a_measured_card_add_up(gpus: int) -> None:
    """As many requests on each of n cards are n times the run; fewer, no more than TPOT allows."""
    machine = calibrate(request_of("h100", "vllm", (16, 2048, 512)), 1.25, 1.1)
    for load, least in ((16 * gpus, 0.97), (16, 0.0)):
        asked = request_of("h100", "vllm", (load, 2048, 512), gpus=gpus, tp=1)
        answer, measured = answers(asked, machine)[2], machine.runs[0].baseline["output_tok_s"]
        most = min(1.03 * gpus * measured, 1e3 * load / (answer.tpot_ms.baseline or 0.0))
        assert least * gpus * measured <= (answer.output_tok_s.baseline or 0.0) <= most


@pytest.mark.parametrize("gain", [0.9, 1.25])
def test_adaptive_verification_comes_back_as_measured(gain: float) -> None:
    fields = {"model": "gpt-oss-120b", "method": "eagle3", "engine_version": "0.32.0"}
    asked = request_of("b200", "vllm", (64, 2000, 600), **fields)
    plan = with_adaptive(own_launch(asked).replace(k=5))
    point, drafts, named = answers(asked)[2], {"method": "eagle3", "k": 5}, {"model": asked.model}
    off = [one.model_copy(update=named) for one in arm(asked, point, 0.9)]
    on = [one.model_copy(update=named | drafts) for one in arm(asked, point, 0.9, gain)]
    added = add_runs("own", off, on, [], {"hardware": "b200"} | named | drafts, plan)
    advice = recommend(asked, machine=added.machine)
    if gain > 1:
        assert advice.candidate is not None and verifies_adaptively(advice.candidate)
        assert advice.estimate.output_tok_s.speedup.p50 == pytest.approx(gain, rel=0.03)
    assert advice.decision == "on" if gain > 1 else advice.decision != "on"


OTHERWISE: dict[str, Any] = {"prefix_caching": True, "kv_cache_dtype": "fp8", "max_num_seqs": 48,
                             "pp": 2, "plain_caching": True, "max_num_batched_tokens": 3072,
                             "max_model_len": 65536, "memory_fraction": 0.5, "tp": 2, "dp": 2,
                             "attention_backend": "TRITON_ATTN", "mamba_strategy": "extra_buffer",
                             "async_scheduling": False, "draft_model": "org/draft",
                             "extra": (("--enforce-eager", None),)}  # fmt: skip


def case_of(engine: str = "vllm", **stated: Any) -> OwnRun:
    return OwnRun(hardware="h100-sxm", model="qwen3.6-35b-a3b", engine=engine, method="mtp", k=2,
                  concurrency=32, **stated)  # fmt: skip


@pytest.mark.parametrize("field", [f for f in Plan.model_fields if f not in machines.NOT_KEPT])
def test_what_a_run_does_not_state_is_the_questions_and_what_it_states_its_own(field: str) -> None:
    """Each field of a plan, so that one that is added later is thought of here."""
    facts = facts_for_request(request_of("h100", "vllm", (32, 2048, 512)))
    question = Plan(engine="vllm", method="mtp", k=3, max_num_seqs=32)
    value = ((1, 8, 2),) if field == "k_schedule" else OTHERWISE[field]
    gpus = value if field in ("tp", "pp", "dp") else 1
    there = facts.model_copy(update={"gpus": gpus})
    unstated = as_case(case_of(gpus=gpus), there, question.model_copy(update={field: value}))[1]
    own_k = field == "k_schedule"  # belongs to the k that ran
    assert getattr(unstated, field) == (() if own_k else value)
    stated = as_case(case_of(gpus=gpus, plan=((field, value),)), facts, question)[1]
    assert getattr(stated, field) == value


QUANTS = {"vllm": "fp8", "sglang": "fp8", "llama-server": "q4_k_m"}
KV_TYPES = {"vllm": ("fp8", "bfloat16"), "sglang": ("fp8_e4m3", "bfloat16"),
            "llama-server": ("q8_0", "f16")}  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
def test_a_run_says_less_of_a_setting_that_differs_in_one_field(seed: int) -> None:
    draw = random.Random(seed)
    engine, gain = draw.choice([*KV_TYPES]), draw.choice((0.8, 1.3))
    load, card = draw.choice(LOADS[engine]), draw.choice(("h100", "rtx-pro-6000"))
    new, old = draw.sample(engines.get(engine).versions[:6], 2)
    kv, other_kv = draw.sample(KV_TYPES[engine], 2)
    ranks, others = draw.sample((1, 2, 4), 2)

    def ask(kind: str, count: int, release: str) -> tuple[Facts, Plan]:
        asked = request_of(card, engine, load, gpus=count, quant=QUANTS[engine])
        layout = {"tp": 1 if engine == "llama-server" else count}
        facts = facts_for_request(asked).replace(engine_version=release)
        known = {"engine_version": release, "kv_cache_dtype": kind, "max_num_seqs": load[0]}
        return facts, Plan(engine=engine, method="mtp", k=2, max_model_len=16384, **known, **layout)

    def share(facts: Facts, plan: Plan) -> tuple[float, float]:
        (made,) = estimate_plans(facts.replace(own_runs=(run,)), [plan])
        return made.own_share, made.output_tok_s.speedup.p50

    facts, plan = ask(kv, ranks, new)
    stated = tuple((name, getattr(plan, name)) for name in ("kv_cache_dtype", "max_num_seqs", "tp"))
    run = case_of(engine=engine, quant=facts.quant.id, gpus=ranks, engine_version=new, plan=stated,
                  gains=(("output_tok_s", log(gain), 0.02),))  # fmt: skip
    run = run.replace(hardware=facts.hardware.id, concurrency=load[0], input_tokens=load[1],
                      output_tokens=load[2])  # fmt: skip
    most, here = share(facts, plan)
    assert abs(log(here / gain)) <= 0.033
    for changed in ((other_kv, ranks, new), (kv, others, new), (kv, ranks, old)):
        assert share(*ask(*changed))[0] < most, changed


def test_what_a_launch_states_is_kept_and_nothing_of_its_owner() -> None:
    request = request_of("h100", "vllm", (16, 2048, 512))
    words = (
        "vllm serve /home/me/model --served-model-name mine --api-key sk-secret --port 8001 "
        "--no-enable-prefix-caching --max-num-seqs 24 --kv-cache-dtype fp8 --enforce-eager "
        "--chat-template /home/me/x.jinja --gpu-memory-utilization 0.8 --max-num-batched-tokens "
        '4096 --speculative-config \'{"method":"mtp","num_speculative_tokens":2}\''
    )
    machine = calibrate(request, 1.25, 1.0, plan_in(readers.read_text(words, "a.sh"), "a.sh"))
    assert machine.runs[0].plan == {"prefix_caching": False, "max_num_seqs": 24,
                                    "kv_cache_dtype": "fp8", "memory_fraction": 0.8,
                                    "max_num_batched_tokens": 4096,
                                    "extra": (("--enforce-eager", None),)}  # fmt: skip
    assert machines.load("own").runs == machine.runs
    text = machines.path_of("own").read_text()
    assert not any(word in text for word in ("secret", "/home", "jinja", "mine", "8001"))


def test_every_door_counts_the_machine() -> None:
    """32 requests ran within 1.15 of their own TPOT, so 32 users keep to it without drafts."""
    request = request_of("h100", "vllm", (32, 2048, 512))
    machine = calibrate(request, 1.25, 1.0)
    own = request.replace(machine=machine, max_tpot_ms=1.15 * machine.runs[0].baseline["tpot"])
    advice, (here, other) = recommend(own), compare(own, ("h100", "h200")).arms
    assert here.estimate == advice.estimate and not other.advice.facts.own_runs
    assert (with_users(advice).objective.users_without or 0) >= 32  # type: ignore[union-attr]
    assert why_not(own, "on").head != why_not(own.replace(machine=None), "on").head


@pytest.mark.parametrize("plan", ["{tp: 0}", "{nosuch: 1}", "{port: 80}", "{max_num_seqs: x}"])
def test_a_plan_that_no_run_has_is_one_sentence(plan: str) -> None:
    machine = calibrate(request_of("h100", "vllm", (16, 2048, 512)), 1.25, 1.0)
    path = machines.path_of(machine.name)
    path.write_text(path.read_text().replace("  gains:", f"  plan: {plan}\n  gains:"))
    with pytest.raises(AdvisorError, match="plan"):
        machines.load(machine.name)


def test_levels_of_two_loads_are_both_exact() -> None:
    """The nearer run does not blur the one of the very load."""
    low, high = (request_of("h100", "vllm", (streams, 2048, 512)) for streams in (8, 16))
    calibrate(low, 1.2, 0.75)
    machine = calibrate(high, 1.2, 1.2)
    for request, run in zip((low, high), machine.runs, strict=True):
        answer = answers(request, machine)[2].output_tok_s
        assert answer.baseline == pytest.approx(run.baseline["output_tok_s"], rel=0.02)


@pytest.mark.parametrize("name", ["gb10", "h100", "mi300x", "5090"])
@pytest.mark.parametrize("gains", [(1.25, 0.95), (0.9, 1.6), (1.1, 0.8)], ids=str)
def test_disagreeing_runs_are_both_within_and_not_on(name: str, gains: tuple[float, float]) -> None:
    """One gained and one lost: the answer holds both, and so does the level of two baselines."""
    request = request_of(name, "vllm", (4, 2048, 512))
    for gain, level in zip(gains, (1.25, 0.8), strict=True):
        machine = calibrate(request, gain, level)
    answer = answers(request, machine)[2].output_tok_s
    ran = [run.baseline["output_tok_s"] for run in machine.runs]
    for span, values in ((answer.speedup, gains), (answer.baseline_range, ran)):
        assert span.p10 < min(values) < max(values) < span.p90
    assert recommend(request, machine=machine, what_if=False).decision != "on"


@pytest.mark.parametrize(
    ("name", "engine", "load"),
    [("h100", "vllm", (16, 2048, 512)), ("mi300x", "vllm", (4, 8192, 256)),
     ("h200", "sglang", (8, 4096, 256)), ("5090", "llama-server", (1, 2048, 512))],
)  # fmt: skip
def test_a_k_that_won_comes_before_any_other(
    name: str, engine: str, load: tuple[int, int, int]
) -> None:
    """Unless it is surely better: k = 3 is a little faster, three times as unsure, and named."""
    request = request_of(name, engine, load)
    machine = calibrate(request, 1.2, 1.0)
    own = answers(request, machine)
    assert own[3].gain.p50 > own[2].gain.p50, "else this tests nothing"
    advice = recommend(request, machine=machine)
    assert (advice.decision, advice.plan.k, advice.plan.k_schedule) == ("on", 2, ())
    assert advice.quicker.startswith("k = ") or own[3].gain.p50 < 1.05 * own[2].gain.p50


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(
    ("level", "gain", "why"),
    [(1.0, 2.9, ""), (1.0, 3.8, "times as fast, as no step of 2.45 tokens makes"),
     (40.0, 1.2, r"without speculation .* is what the bandwidth of")],
)  # fmt: skip
def test_both_doors_refuse_what_cannot_be(name: str, level: float, gain: float, why: str) -> None:
    engine = MACHINES[name][0]
    request = request_of(name, engine, LOADS[engine][0])
    point = answers(request)[2]
    off, on = arm(request, point, level), arm(request, point, level, gain)
    asked = {"hardware": request.hardware, "model": request.model, "k": 2}
    with pytest.raises(AdvisorError, match=why) if why else nullcontext():
        add_runs("own", off, on, [], asked)
    with pytest.raises(AdvisorError, match=why) if why else nullcontext():
        assert judge_ab(off, on, setting(off, on, asked)).verdict == "faster"


def write(path: Path, speed: float, token: float, drafts: bool = False) -> str:
    """A result in the layout of `vllm bench serve --save-result`, 16 requests of 2048 + 512."""
    made = json.loads((Path(__file__).parent / "files" / "vllm-serve-off.json").read_text())
    made = {name: value for name, value in made.items() if not isinstance(value, list)} | {
        "date": "20261120-100000", "num_prompts": 160, "completed": 160, "max_concurrency": 16,
        "total_input_tokens": 2048 * 160, "total_output_tokens": 512 * 160,
        "output_throughput": speed, "duration": 512 * 160 / speed, "mean_ttft_ms": 400.0,
        "median_ttft_ms": 400.0, "mean_tpot_ms": token, "median_tpot_ms": token,
    }  # fmt: skip
    if drafts:
        made |= {"spec_decode_acceptance_length": 2.45, "spec_decode_acceptance_rate": 72.5,
                 "spec_decode_per_position_acceptance_rates": [0.85, 0.6]}  # fmt: skip
    path.write_text(json.dumps(made))
    return str(path)


def call(*words: str) -> str:
    made = CliRunner().invoke(cli, list(words))
    assert made.exit_code == 0, made.output + str(made.exception)
    return " ".join(made.output.split())


@pytest.fixture
def files(tmp_path: Path) -> Iterator[dict[str, str]]:
    yield {
        "off": write(tmp_path / "off.json", 2000, 7.2),
        "off2": write(tmp_path / "off2.json", 2010, 7.18),
        "on": write(tmp_path / "on.json", 2490, 5.78, True),
        "on2": write(tmp_path / "on2.json", 2500, 5.77, True),
    }


def test_a_second_ab_says_what_becomes_of_the_first(files: dict[str, str], tmp_path: Path) -> None:
    setting = ("--hw", "h100", "--model", "qwen3.6-35b-a3b", "--name", "m1")
    assert "before" not in call("calibrate", files["off"], files["on"], *setting)
    other = write(tmp_path / "noise.json", 2060, 7.0, True)
    said = call("calibrate", files["off"], other, *setting)
    assert "measured before (2026-11-20): 1.25x then, 1.03x now; both count" in said
    assert "before" not in call("calibrate", files["off"], other, *setting), "the same files again"
    said = call("calibrate", files["off"], files["on"], "--off", files["off2"], *setting)
    assert "1.25x then, 1.24x now; this replaces it" in said and len(machines.load("m1").runs) == 2
    assert exp(machines.load("m1").runs[-1].gains["output_tok_s"].log) == pytest.approx(
        2490 / (2000 * 2010) ** 0.5, rel=1e-3
    )
