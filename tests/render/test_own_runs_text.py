"""What is told of runs, by hand: each figure once, with its unit, and nothing of what is not known.

Wrapped at 300 columns, so that each part is one line.
"""

import pytest

from advisor.advice.own_runs.ab_test import AbReport, ComparedGain, LoadVerdict, Percentiles
from advisor.advice.own_runs.machine import Before, MachineRun, MetricGain
from advisor.advice.own_runs.watching import Traffic, WatchWord
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency
from advisor.readers.server import ServerInfo
from advisor.render.own_runs import ab_text, before_line, number, runs_text, watch_text
from tests.tables import fields

BARE = BenchmarkRun(file="a.json", format="serving")
FULL = BenchmarkRun(
    **fields(
        "file=b.json format=serving part=two client=vllm client_version=v0.9 engine=sglang "
        "engine_version=0.5.14 model=org/m method=mtp k=3 concurrency=16 request_rate=2.5 "
        "goodput_rps=1.25 requests=64 failed=3 input_tokens=1000 depth_tokens=500 "
        "output_tokens=200 output_tok_s=1234.4 request_tok_s=61.2 prompt_tok_s=123.4"
    ),
    ttft_ms=Latency(mean=100.0, p50=90.0, p99=120.0),
    tpot_ms=Latency(p90=7.5),
    itl_ms=Latency(mean=12.0),
    e2e_ms=Latency(mean=999.0),
    acceptance=Acceptance(length=2.4, rate=0.7, by_position=(0.8, 0.6)),
    notes=("one", "two"),
)
OF_FULL = """\
b.json [two]: serving
  vllm v0.9; sglang 0.5.14; org/m; mtp k=3
  load: 16 concurrent; 2.5 requests/s; goodput 1.25 requests/s; 64 requests; 3 failed; \
1000 prompt tokens; 500 cached; 200 output tokens
  output 1,234 tok/s; one stream 61.20 tok/s; prompt 123.4 tok/s; \
TTFT 100.0 ms (p50 90.00, p99 120.0); TPOT (p90 7.50); ITL 12.00 ms
  accepted: 2.40 tokens per step; 70.0% of drafted tokens; by position 80.0%, 60.0%
  note: one
  note: two
"""
OF_BARE = "a.json: serving\n  engine not stated; model not stated; drafts not stated\n"
RUNS = {
    "nothing stated": (BARE, OF_BARE),
    "all stated": (FULL, OF_FULL),
    "no drafts, whole requests": (
        BARE.model_copy(update={"k": 0, "client": "x", "e2e_ms": Latency(mean=999.0)}),
        "a.json: serving\n  x; engine not stated; model not stated; no speculation\n"
        "  whole request 999.0 ms\n",
    ),
    "drafts of no known length": (
        BARE.model_copy(update={"method": "mtp", "engine": "vllm", "acceptance": Acceptance()}),
        "a.json: serving\n  vllm; model not stated; mtp, k not stated\n",
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_each_figure_of_a_run_is_told_once_with_its_unit(name: str) -> None:
    run, text = RUNS[name]
    assert runs_text([run], 300) == text


def test_what_goes_on_stands_below_the_first_word() -> None:
    load = "\n  load: 16 concurrent; 2.5 requests/s;\n        goodput 1.25 requests/s; 64\n"
    assert load in runs_text([FULL], 40)
    assert runs_text([BARE, BARE], 40) == "\n".join(
        [OF_BARE.replace("; drafts", ";\n  drafts")] * 2
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (999.96, "1000.0"), (1000, "1,000"), (100, "100.0"), (-99.994, "-99.99")],
)
def test_a_figure_has_three_digits_at_least(value: float | None, text: str) -> None:
    assert number(value) == text


SERVER = ServerInfo("http://h", "vllm", "0.28.0", "org/m", 8, 3)
IDLE = Traffic(SERVER._replace(engine=None, version=None, model=None, slots=None), BARE, 2.4,
               None, None, None, None)  # fmt: skip
BUSY = Traffic(SERVER, FULL.model_copy(update={"model": None}), 60.0, 12.0, 3.0, 0.954, 40.0,
               ("a", "b"))  # fmt: skip
OF_BUSY = """\
speculation: other k: k=2
vllm 0.28.0, org/m
in 60 s: 12 running; 3 waiting; KV 95%; 8 slots; 40 requests finished; 1000 prompt tokens; \
200 output tokens; output 1,234 tok/s
accepted: 2.40 tokens per step; 70% of drafted tokens; by position 80%, 60%
counters of: a; b
- why
"""


def test_what_a_server_does_is_told_with_its_units() -> None:
    assert watch_text(BUSY, WatchWord("other k: k=2", ("why",)), 300) == OF_BUSY
    assert watch_text(IDLE, WatchWord("unknown", ()), 300) == (
        "speculation: unknown\nunknown engine, model not stated\nin 2 s:\nno drafts were made\n"
    )


GAINS = [("output_tok_s", 200.0, 250.0, 1.25), ("tpot", 20.0, 16.0, 1.25)]
LOAD = LoadVerdict(
    load="16 concurrent",
    gains=tuple(
        ComparedGain(metric=m, off=a, on=b, gain=g, low=1.1, high=1.4, noise="2 and 2 repeats",
                     verdict="faster") for m, a, b, g in GAINS
    ),
    percentiles=(Percentiles(metric="tpot", off=(20, None, None), on=(16, 18, None)),),
    why=("so",), weak=("few",), next="k=2",
)  # fmt: skip
OTHER = LoadVerdict(load="1 concurrent", differences=("seeds", "slots"))
REPORT = AbReport(verdict="mixed", loads=(LOAD, OTHER), setting="m on h", notes=("n",))
TAIL = """\
  noise from 2 and 2 repeats
  TPOT ms: p50 20.00 -> 16.00; p90 - -> 18.00
  - so
  - few
  next: k=2

1 concurrent
  no verdict, the runs differ in more than speculation: seeds; slots

note: n
"""
WIDE = """\
A/B: MIXED
setting: m on h

16 concurrent
                      off       on   gain   95 % interval   verdict
  output tok/s      200.0    250.0  1.25x   1.10 to 1.40    faster
  TPOT ms           20.00    16.00  1.25x   1.10 to 1.40    faster
"""


def test_a_verdict_is_told_with_both_arms_and_the_interval() -> None:
    assert ab_text(REPORT, 74) == WIDE + TAIL
    narrow = ab_text(REPORT, 73)
    assert "  off -> on, gain and its 95 % interval:\n  output tok/s: 200.0 -> 250.0, " in narrow
    assert "\n  TPOT ms: 20.00 -> 16.00, 1.25x (1.10 to 1.40), faster\n" in narrow
    only = LOAD.model_copy(update={"gains": LOAD.gains[1:]})
    head = ab_text(REPORT.model_copy(update={"loads": (only,), "verdict": "faster"}), 74)
    assert head.startswith("A/B: FASTER by TPOT\n")


def test_a_load_that_was_measured_before_is_told_with_both_figures() -> None:
    """e ** 0.4055 is 1.50, e ** 0.2231 is 1.25."""
    old, new = (
        MachineRun(**fields(f"date=2026-01-0{i} model=m engine=vllm method=mtp k=2 concurrency=1"),
                   gains={"tpot": MetricGain(log=log, sd=0.1)})
        for i, log in ((1, 0.4055), (2, 0.2231))
    )  # fmt: skip
    assert before_line(Before(old, new, replaced=True)) == (
        "k = 2 at 1 request was measured before (2026-01-01): 1.50x then, 1.25x now; "
        "this replaces it"
    )
    many = new.model_copy(update={"concurrency": 16.0})
    assert before_line(Before(old, many, replaced=False)) == (
        "k = 2 at 16 requests was measured before (2026-01-01): 1.50x then, 1.25x now; both count"
    )
