"""What is told of a hand-made noun, word by word: by_hand.yaml has the texts, computed by hand."""

from pathlib import Path

import advice_cases as cases
import pytest

from advisor.advice.own_runs.ab_test import AbReport, ComparedGain, LoadVerdict, Percentiles
from advisor.advice.own_runs.machine import Before, MachineRun, MetricGain
from advisor.advice.own_runs.watching import Traffic, WatchWord
from advisor.domain.nouns import MemoryBill, Plan
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency
from advisor.readers.server import ServerInfo
from advisor.render.layout import Paper
from advisor.render.own_runs import ab_text, before_line, number, runs_text, watch_text
from advisor.render.text import advice_text
from advisor.render.text_sections import _kv_words
from tests.tables import fields, load_yaml

TEXTS = load_yaml(Path(__file__).with_name("by_hand.yaml"))
BARE = BenchmarkRun(file="a.json", format="serving")
FULL = BenchmarkRun(
    **fields("file=b.json format=serving part=two client=vllm client_version=v0.9 engine=sglang "
             "engine_version=0.5.14 model=org/m method=mtp k=3 concurrency=16 request_rate=2.5 "
             "goodput_rps=1.25 requests=64 failed=3 input_tokens=1000 depth_tokens=500 "
             "output_tokens=200 output_tok_s=1234.4 request_tok_s=61.2 prompt_tok_s=123.4"),
    ttft_ms=Latency(mean=100.0, p50=90.0, p99=120.0), tpot_ms=Latency(p90=7.5),
    itl_ms=Latency(mean=12.0), e2e_ms=Latency(mean=999.0), notes=("one", "two"),
    acceptance=Acceptance(length=2.4, rate=0.7, by_position=(0.8, 0.6)),
)  # fmt: skip
MORE = {
    "nothing stated": {},
    "no drafts, whole requests": {"k": 0, "client": "x", "e2e_ms": Latency(mean=999.0)},
    "drafts of no known length": {"method": "mtp", "engine": "vllm", "acceptance": Acceptance()},
}
RUNS = {name: BARE.model_copy(update=more) for name, more in MORE.items()} | {"all stated": FULL}


@pytest.mark.parametrize("name", RUNS)
def test_each_figure_of_a_run_is_told_once_with_its_unit(name: str) -> None:
    assert runs_text([RUNS[name]], 300) == TEXTS["runs"][name]


def test_what_goes_on_stands_below_the_first_word() -> None:
    load = "\n  load: 16 concurrent; 2.5 requests/s;\n        goodput 1.25 requests/s; 64\n"
    bare = TEXTS["runs"]["nothing stated"].replace("; drafts", ";\n  drafts")
    assert load in runs_text([FULL], 40) and runs_text([BARE, BARE], 40) == f"{bare}\n{bare}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (999.96, "1000.0"), (1000, "1,000"), (100, "100.0"), (-99.994, "-99.99")],
)
def test_a_figure_has_three_digits_at_least(value: float | None, text: str) -> None:
    assert number(value) == text


BUSY = Traffic(ServerInfo("http://h", "vllm", "0.28.0", "org/m", 8, 3),
               FULL.model_copy(update={"model": None}), 60.0, 12.0, 3.0, 0.954, 40.0,
               ("a", "b"))  # fmt: skip
IDLE = Traffic(ServerInfo("http://h", None, None, None, None, None), BARE, 2.4, None, None, None,
               None)  # fmt: skip
WATCHED = {"busy": (BUSY, "other k: k=2", ("why",)), "idle": (IDLE, "unknown", ())}


@pytest.mark.parametrize("name", WATCHED)
def test_what_a_server_does_is_told_with_its_units(name: str) -> None:
    seen, word, why = WATCHED[name]
    assert watch_text(seen, WatchWord(word, why), 300) == TEXTS["watched"][name]


GAINS = [("output_tok_s", 200.0, 250.0), ("tpot", 20.0, 16.0)]
LOAD = LoadVerdict(
    load="16 concurrent", why=("so",), weak=("few",), next="k=2",
    gains=tuple(
        ComparedGain(metric=m, off=a, on=b, gain=1.25, low=1.1, high=1.4, noise="2 and 2 repeats",
                     verdict="faster") for m, a, b in GAINS
    ),
    percentiles=(Percentiles(metric="tpot", off=(20, None, None), on=(16, 18, None)),),
)  # fmt: skip
OTHER = LoadVerdict(load="1 concurrent", differences=("seeds", "slots"))
REPORT = AbReport(verdict="mixed", loads=(LOAD, OTHER), setting="m on h", notes=("n",))


def test_a_verdict_is_told_with_both_arms_and_the_interval() -> None:
    assert ab_text(REPORT, 74) == TEXTS["verdict"]["text"]
    only = LOAD.model_copy(update={"gains": LOAD.gains[1:]})
    head = ab_text(REPORT.model_copy(update={"loads": (only,), "verdict": "faster"}), 74)
    assert head.startswith("A/B: FASTER by TPOT\n")


@pytest.mark.parametrize(
    ("load", "many", "replaced", "which"),
    [(1, "1 request", True, "this replaces it"), (16, "16 requests", False, "both count")],
)
def test_a_load_that_was_measured_before_is_told_with_both_figures(
    load: int, many: str, replaced: bool, which: str
) -> None:
    """e ** 0.4055 is 1.50, e ** 0.2231 is 1.25."""
    old, new = (
        MachineRun(**fields(f"date=2026-01-0{i} model=m engine=vllm method=mtp k=2"),
                   concurrency=load, gains={"tpot": MetricGain(log=log, sd=0.1)})
        for i, log in ((1, 0.4055), (2, 0.2231))
    )  # fmt: skip
    assert before_line(Before(old, new, replaced)) == (
        f"k = 2 at {many} was measured before (2026-01-01): 1.50x then, 1.25x now; {which}"
    )


@pytest.mark.parametrize("name", cases.ALL)
def test_the_screen_and_all_behind_it_tell_each_figure_once(name: str) -> None:
    screen, whole = (advice_text(cases.ALL[name](), Paper(96), explain=x) for x in (False, True))
    assert screen == TEXTS["screens"][name]
    behind = whole.removeprefix(screen.rpartition("--explain")[0])
    drafts = TEXTS["screens"]["on"].partition("VLLM_API_KEY)\n")[2].partition("--explain")[0]
    heads = [line for line in behind.splitlines() if line[:1].isupper()]
    if name == "on":
        assert behind == TEXTS["behind"]["on"]
    elif name == "no_method":
        assert heads == ["Why, in full", "Defaults", "Similar benchmarks"]
    else:
        assert f"\nWith speculation, if you want to try it\n{drafts}\n" in behind
        assert behind.startswith(TEXTS["behind"][name]) and "Runners-up" not in heads


@pytest.mark.parametrize(("bill", "words", "asked", "text"), TEXTS["pools"])
def test_what_a_pool_holds_and_what_bounds_it(bill: str, words: str, asked: int, text: str) -> None:
    size = {"weights_gib": 1.0, "spec_gib": 0.0, "overhead_gib": 0.0}
    made = MemoryBill.model_validate(size | fields(bill))
    shared = {"extra": (("--kv-unified", None),)} if "slots share" in text else {}
    plan = Plan.model_validate(fields(words) | shared | {"model": "m"})
    assert _kv_words(made, plan, asked) == text
