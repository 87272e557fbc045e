"""What is advised to a running server, what explains an A/B, and which own runs cannot be or are
replaced: watching.yaml, by hand.
"""

from contextlib import nullcontext
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from advisor.advice.own_runs import ab_reasons
from advisor.advice.own_runs.calibration import _check_bandwidth, runs_of
from advisor.advice.own_runs.machine import MachineRun, _replaces
from advisor.advice.own_runs.setting import setting
from advisor.advice.own_runs.watching import Traffic, _choose, advise
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Plan, Request
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


@pytest.mark.parametrize(("gpus", "baseline", "beyond"), BY_HAND["refused"])
def test_a_baseline_that_no_bandwidth_permits_is_refused(
    gpus: int, baseline: dict[str, float], beyond: str
) -> None:
    asked = Request(hardware="gb10", gpus=gpus, model="qwen3.6-27b", quant="fp8", engine="vllm")
    run = MachineRun(date="2026-01-01", model="m", engine="vllm", concurrency=4, baseline=baseline)
    with pytest.raises(AdvisorError, match=beyond) if beyond else nullcontext():
        _check_bandwidth(run, facts_for_request(asked))


# Little's law: 2,000 tok/s at 8 ms each are 16, and there is no less than one
@pytest.mark.parametrize(("speed", "tpot", "streams"), [(2000.0, 8.0, 16), (60.0, 5.0, 1)])
def test_requests_in_flight_are_what_the_speed_takes_at_its_time_a_token(
    speed: float, tpot: float, streams: int
) -> None:
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
def test_numbers_are_refused_from_the_point_where_they_cannot_be(
    fields: dict[str, Any], why: str
) -> None:
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
