"""What is advised to a running server, what explains an A/B, which own runs cannot be or are
replaced, and how far they reach: watching.yaml, by hand.
"""

from contextlib import nullcontext
from math import exp, log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from advisor.advice.own_runs import ab_reasons, machine
from advisor.advice.own_runs.calibration import check_bandwidth, runs_of
from advisor.advice.own_runs.machine import Machine, MachineRun, _replaces
from advisor.advice.own_runs.setting import setting
from advisor.advice.own_runs.watching import Traffic, _choose, advise
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Plan, Request
from advisor.prediction import calibrated, own_runs
from advisor.readers.results import arms
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency
from advisor.readers.server import ServerInfo
from tests.tables import load_yaml

BY_HAND = load_yaml(Path(__file__).with_name("watching.yaml"))


@pytest.mark.parametrize(("gains", "k", "word", "why"), BY_HAND["chosen"])
def test_the_k_that_gains_most_is_advised_from_3_percent_on(
    gains: dict[int, float], k: int, word: str, why: list[str]
) -> None:
    made = _choose({k: log(gain) for k, gain in gains.items()}, k, [])
    assert (made.decision, [*made.why]) == (word, why)


@pytest.mark.parametrize(("speed", "waiting", "usage", "rate", "why"), BY_HAND["seen"])
def test_what_is_seen_is_said_where_the_setting_is_not_known(
    speed: float | None, waiting: float | None, usage: float | None, rate: float | None,
    why: list[str],
) -> None:  # fmt: skip
    accepted = Acceptance(rate=rate) if rate is not None else None
    run = BenchmarkRun(file="f", format="metrics", output_tok_s=speed, acceptance=accepted)
    server = ServerInfo("http://h", "vllm", "0.28.0", None, None, 3)
    made = advise(Traffic(server, run, 60.0, 4.0, waiting, usage, 9.0), {})
    last = [] if speed is None else [made.why[-1]]
    assert made.decision == "unknown" and [*made.why] == why + last
    assert all(text.startswith("no decision: ") for text in last)


@pytest.mark.parametrize("words", ["qwen3.6-35b-a3b mtp", "gpt-oss-120b eagle3"])
def test_a_server_without_drafts_is_advised_what_may_draft_there(words: str) -> None:
    model, method = words.split()
    run = BenchmarkRun(file="f", format="metrics", output_tok_s=100.0, method="none")
    seen = Traffic(ServerInfo("h", "vllm", "0.32.0", model, None, None), run, 9.0, 4.0, 0.0, 0.3, 9)
    word = advise(seen, {"hardware": "gb10"})
    assert word == advise(seen, {"hardware": "gb10", "method": method})
    assert word.decision.startswith("on: k=") and word.why[-1].endswith(f"({method})")
    drafting = run.model_copy(update={"method": None, "acceptance": Acceptance(length=2.6)})
    word = advise(seen._replace(run=drafting), {"hardware": "gb10"})  # SGLang counts no drafts
    assert word.decision == "unknown" and "--k" in word.why[-1]


@pytest.mark.parametrize(("gpus", "levels", "beyond"), BY_HAND["refused"])
def test_a_level_beyond_bandwidth_is_refused(
    gpus: int, levels: dict[str, list[float]], beyond: str
) -> None:
    asked = Request(hardware="gb10", gpus=gpus, model="qwen3.6-27b", quant="fp8", engine="vllm")
    with pytest.raises(AdvisorError, match=beyond) if beyond else nullcontext():
        check_bandwidth(levels, 4, facts_for_request(asked), 2.45)


# Little's law: 2,000 tok/s at 8 ms each are 16, and there is no less than one
@pytest.mark.parametrize(("speed", "tpot", "streams"), [(2000.0, 8.0, 16), (60.0, 5.0, 1)])
def test_requests_in_flight_by_speed_and_tpot(speed: float, tpot: float, streams: int) -> None:
    off = [BenchmarkRun(file="f", format="t", output_tok_s=speed, tpot_ms=Latency(mean=tpot))]
    asked = {"hardware": "h200", "model": "qwen3.6-35b-a3b", "engine": "vllm"}
    assert runs_of(off, [], setting(off, [], asked))[0].concurrency == streams


def arm(fields: dict[str, Any]) -> list[BenchmarkRun]:
    return [BenchmarkRun.model_validate({"file": "f", "format": "t"} | fields)]


@pytest.mark.parametrize(("off", "on", "verdicts", "step", "sentences"), BY_HAND["why"])
def test_what_explains_a_gain_is_said_in_full(
    off: dict[str, Any], on: dict[str, Any], verdicts: dict[str, str],
    step: dict[str, Any] | None, sentences: list[str],
) -> None:  # fmt: skip
    gains: Any = [SimpleNamespace(metric=name, verdict=word) for name, word in verdicts.items()]
    plan = Plan(engine=step["engine"], method="mtp", k=3) if step else None
    made = ab_reasons.Step(**{n: v for n, v in step.items() if n != "engine"}) if step else None
    assert [*ab_reasons.why(arm(off), arm(on), gains, made, plan, "balanced")] == sentences


@pytest.mark.parametrize(("off", "on", "differences", "weak"), BY_HAND["unlike"])
def test_what_differs_or_weakens_is_said_in_full(
    off: dict[str, Any], on: dict[str, Any], differences: list[str], weak: list[str]
) -> None:
    assert arms.unlike(arm(off), arm(on)) == differences
    assert arms.weak_points(arm(off), arm(on)) == weak


def run_with(fields: dict[str, Any]) -> MachineRun:
    about = {"date": "2026-01-01", "model": "m", "engine": "vllm", "method": "mtp", "k": 3}
    return MachineRun.model_validate(about | fields)


@pytest.mark.parametrize(("fields", "why"), BY_HAND["impossible"])
def test_numbers_are_refused_from_where_they_cannot_be(fields: dict[str, Any], why: str) -> None:
    assert (run_with(fields).contradiction() or "") == why


@pytest.mark.parametrize(("files", "fields", "old", "before", "replaced"), BY_HAND["replaced"])
def test_a_run_of_the_same_files_replaces_what_they_gave_before(
    files: list[str], fields: dict[str, Any], old: list[str], before: dict[str, Any], replaced: bool
) -> None:
    gain = {"gains": {"tpot": {"log": 0.1, "sd": 0.1}}}
    new, known = (
        run_with(gain | row | {"inputs_sha256": [64 * name for name in names]})
        for names, row in ((files, fields), (old, before))
    )
    assert _replaces(new, known) is replaced


def test_a_machine_holds_two_hundred_runs() -> None:
    run = run_with({})
    full = Machine(name="m", hardware="gb10", runs=(run,) * 199)
    assert len(machine.with_runs(full, [run]).runs) == 200
    with pytest.raises(AdvisorError, match="would have more than 200 runs: start another one"):
        machine.with_runs(full, [run, run])


def test_a_run_is_told_to_the_prediction_as_it_was_measured() -> None:
    about = {"gains": {"tpot": {"log": 0.2, "sd": 0.1}}, "baseline": {"tpot": 20.0, "ttft": 9.0},
             "baseline_sd": {"tpot": 0.3}, "accepted_by_position": [0.8, 0.6, 0.4, 0.2],
             "plan": {"tp": 2, "max_num_seqs": 8}, "concurrency": 7}  # fmt: skip
    plain = run_with({"method": "none", "k": 0, "gpus": 1})
    made, bare = Machine(
        name="m", hardware="gb10", gpus=4, runs=(run_with(about), plain)
    ).own_runs()
    assert (made.gpus, made.k, made.method, made.concurrency) == (4, 3, "mtp", 7)
    assert made.plan == (("max_num_seqs", 8), ("tp", 2)) and made.gains == (("tpot", 0.2, 0.1),)
    assert made.baseline == (("tpot", 20.0, 0.3), ("ttft", 9.0, 0.0))
    assert made.accepted_length == pytest.approx(2.8), "of the three that were drafted"
    assert (bare.gpus, bare.k, bare.method, bare.accepted_length) == (1, 1, "mtp", None)


@pytest.mark.parametrize(("asked", "off", "on", "expected", "k"), BY_HAND["settings"])
def test_options_and_files_make_one_question(
    asked: dict[str, Any], off: dict[str, Any], on: dict[str, Any], expected: Any, k: int | None
) -> None:
    made = setting(arm(off), arm(on), asked)
    assert made.k == k
    if isinstance(expected, str):
        assert made.request is None and expected in made.problem
    else:
        assert made.request == Request(**expected) and made.problem == ""
        assert made.stated == {*expected} - {"method"}


KERNEL = own_runs.Kernel(0.5, 0.4, 0.3, 0.2, 1.0, *((log(2),) * n for n in (6, 9, 4)))


@pytest.mark.parametrize(("apart", "first", "accepted", "rest"), BY_HAND["covariance"])
def test_how_much_two_places_have_in_common(
    apart: dict[str, float], first: list[int], accepted: float, rest: float
) -> None:
    where = np.zeros((2, 13))
    where[:, own_runs.FIRST] = first
    for name, by in apart.items():
        where[1, getattr(own_runs, name)] += by
    a, b = (
        own_runs.Places(where[i : i + 1], np.array([left]), np.array([sd]))
        for i, (left, sd) in enumerate(((0.04, 0.2), (0.09, 0.3)))
    )
    gap = own_runs.distances(a.where, b.where)
    made = own_runs.covariance(gap, a, b, KERNEL)
    assert [float(part[0, 0]) for part in made] == pytest.approx([accepted, rest], rel=1e-4)
    held = own_runs.covariance(gap, a, b, KERNEL, (np.array([0.1]), np.array([0.2])))
    near = 0.5 ** sum(by if name in ("STREAMS", "CONTEXT", "LOG_K") else 1
                      for name, by in apart.items())  # fmt: skip
    assert float(held.rest[0, 0]) == pytest.approx(rest + 0.02 * near, rel=1e-4)


@pytest.mark.parametrize(
    ("column", "near"), [(None, 1.0), ("STREAMS", exp(-0.5)), ("CONTEXT", exp(-0.5)),
                         ("LOG_K", 1.0), ("MODEL", exp(-2)), ("QUANT", exp(-2)),
                         ("ENGINE", exp(-2)), ("WHOLE", 1.0)],
)  # fmt: skip
def test_a_level_is_measured_over_computed_and_fades(column: str | None, near: float) -> None:
    """Of a run at a spread of 0.2: 1 / 1.04 of its log, and less further off."""
    there = np.zeros((1, 13))
    if column:
        there[0, getattr(own_runs, column)] = 1
    run = SimpleNamespace(baseline=(("output_tok_s", 90.0, 0.2),))
    own: Any = SimpleNamespace(runs=[run, SimpleNamespace(baseline=())], busy=[1.5])
    here, ran = (
        SimpleNamespace(places=lambda name, at=at: SimpleNamespace(where=at),
                        baselines={"output_tok_s": np.array([120.0, 1.0])})
        for at in (there, np.zeros((2, 13)))
    )  # fmt: skip
    level = calibrated._level(own, "output_tok_s", here, ran, 0)
    weight = near / 1.04
    assert [float(part[0]) for part in level] == pytest.approx(
        [weight * log(90 / 1.5 / 120), weight * near, weight * 0.2]
    )
