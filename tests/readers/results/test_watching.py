"""What is advised to a running server, and which own runs cannot be, by hand."""

from contextlib import nullcontext
from math import log

import pytest

from advisor.advice.own_runs.calibration import _check_bandwidth
from advisor.advice.own_runs.machine import MachineRun
from advisor.advice.own_runs.watching import Traffic, _choose, advise
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Request
from advisor.readers.results.run import Acceptance, BenchmarkRun
from advisor.readers.server import ServerInfo

GAINING, LOSING = {1: 1.2, 2: 1.5, 3: 1.4}, {1: 0.9, 2: 0.8}
NOTHING = "nothing else is expected to be 3 % faster"
OFF = "without drafts it is expected to be faster"


@pytest.mark.parametrize(
    ("gains", "k", "word", "why"),
    [
        (GAINING, 2, "keep", ["k=2 is expected to give 1.50x output tok/s at this load", NOTHING]),
        (GAINING, 3, "other k: k=2", ["k=3 is expected to give 1.40x output tok/s at this load",
                                      "k=2 is expected to give 1.50x"]),
        (GAINING, 0, "on: k=2", ["k=2 is expected to give 1.50x"]),
        (GAINING, 5, "other k: k=2", ["k=5 runs", "k=2 is expected to give 1.50x"]),
        ({1: 1.02}, 2, "unknown", ["k=2 runs", NOTHING]),
        ({1: 1.029, 2: 1.0}, 2, "keep",
         ["k=2 is expected to give 1.00x output tok/s at this load", NOTHING]),
        (LOSING, 1, "off", ["k=1 is expected to give 0.90x output tok/s at this load", OFF]),
        ({1: 1.02, 2: 0.8}, 2, "off",
         ["k=2 is expected to give 0.80x output tok/s at this load", OFF]),
        (LOSING, 0, "keep", [NOTHING]),
    ],
)  # fmt: skip
def test_the_k_that_gains_most_is_advised_from_3_percent_on(
    gains: dict[int, float], k: int, word: str, why: list[str]
) -> None:
    made = _choose({k: log(gain) for k, gain in gains.items()}, k, [])
    assert (made.decision, [*made.why]) == (word, why)


FULL = "96% of the KV cache is in use: drafts cost memory that requests need"
WAIT = "3 requests wait: slots or KV memory are short"
RARE = "34% of drafted tokens are accepted: fewer draft tokens, or off, are likely faster"
IDLE = "no tokens were generated in this time: try again under load"


@pytest.mark.parametrize(
    ("speed", "waiting", "usage", "rate", "why"),
    [
        (100.0, 3.0, 0.96, 0.34, [WAIT, FULL, RARE]), (100.0, 0.0, 0.95, 0.35, []),
        (100.0, None, None, None, []), (None, 3.0, 0.96, 0.34, [IDLE, WAIT, FULL]),
    ],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("gpus", "baseline", "beyond"),
    [
        (1, {"tpot": 85.0}, "85 ms a token, where 98.5"), (1, {"tpot": 86.0}, None),
        (1, {"output_tok_s": 47.0}, "47 tok/s at 4 requests, where 40.6"),
        (1, {"output_tok_s": 46.0}, None), (2, {"tpot": 44.0}, None),
        (2, {"tpot": 42.0}, "42 ms a token, where 49.3"),
    ],
)  # fmt: skip
def test_a_baseline_that_no_bandwidth_permits_is_refused(
    gpus: int, baseline: dict[str, float], beyond: str | None
) -> None:
    """27B in FP8: 24.35 GB of layers and 2.54 of the head in 273 GB/s are 98.5 ms; clocks may be
    15 % above the published ones.
    """
    asked = Request(hardware="gb10", gpus=gpus, model="qwen3.6-27b", quant="fp8", engine="vllm")
    run = MachineRun(date="2026-01-01", model="m", engine="vllm", concurrency=4, baseline=baseline)
    with pytest.raises(AdvisorError) if beyond else nullcontext() as refused:
        _check_bandwidth(run, facts_for_request(asked))
    many = "2 x gb10" if gpus > 1 else "gb10"
    assert refused is None or f"{beyond} is what the bandwidth of {many} permits for the fp8" in (
        str(refused.value)
    )
