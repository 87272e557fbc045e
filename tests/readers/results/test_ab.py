"""The verdict: comparable arms, noise that keeps equal arms equal, reasons, and the command."""

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.advice.own_runs.ab_test import acceptance_fields, judge_ab, tokens_per_step
from advisor.advice.own_runs.setting import setting
from advisor.cli.app import cli
from advisor.readers.results import arms
from advisor.readers.results.document import Unreadable
from advisor.readers.results.formats import read_results
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency
from advisor.render.own_runs import ab_text
from tests.tables import fields

FILES = Path(__file__).parent / "files"
OFF, ON = FILES / "vllm-serve-off.json", FILES / "vllm-serve-on.json"


def run(speed: float = 200.0, tpot: float = 20.0, **more: object) -> BenchmarkRun:
    load = fields("file=f format=f concurrency=4 requests=64 input_tokens=1000 output_tokens=200")
    times = {"tpot_ms": Latency(mean=tpot), "ttft_ms": Latency(mean=100.0)}
    return BenchmarkRun.model_validate(load | times | {"output_tok_s": speed} | more)


def drafted_run(length: float = 2.4, **more: object) -> BenchmarkRun:
    return run(**{"acceptance": Acceptance(length=length), "k": 2} | more)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [40, 60, 74, 100])
def test_the_verdict_keeps_to_the_width_of_the_terminal(width: int) -> None:
    off, on = [run()], [drafted_run(tpot=19.9, dataset="random")]
    report = judge_ab(off, on, setting(off, on, {}))
    (load,) = report.loads
    noise = {"noise": "the requests of each run, and what such runs scatter by"}
    gains = tuple(made.model_copy(update=noise) for made in load.gains)
    load = load.model_copy(update={"gains": gains})
    text = ab_text(report.model_copy(update={"loads": (load,)}), width)
    assert max(map(len, text.splitlines())) <= width
    block = text.split("\n\n")[1].splitlines()
    first = next(i for i, line in enumerate(block) if line.startswith("  "))
    assert all(line.startswith("  ") for line in block[first:]), "what goes on belongs to its load"
    assert "no difference" in " ".join(text.split()) and "200.0" in text


@pytest.mark.parametrize(("first", "second"), [(50.4, 50.6), (1049.0, 1051.0), (95.0, 101.0)])
def test_repeats_whose_prompts_differ_by_little_are_one_load(first: float, second: float) -> None:
    """Other seeds draw other prompts: their mean lengths lie on both sides of any rounding."""
    off = [run(seed=i, input_tokens=n) for i, n in ((1, first), (2, second))]
    on = [drafted_run(seed=i, input_tokens=n) for i, n in ((2, second), (1, first))]
    loads = judge_ab(off, on, setting(off, on, {})).loads
    assert len(loads) == 1 and loads[0].gains[0].noise == "2 and 2 repeats"


def test_percentiles_of_each_latency_stand_beside_the_means() -> None:
    def arm(scale: float) -> list[BenchmarkRun]:
        times = [Latency(mean=scale, p50=scale, p90=2 * scale, p99=n * scale) for n in (3, 5)]
        return [run(tpot_ms=time, itl_ms=time.model_copy(update={"p90": None})) for time in times]

    (load,) = judge_ab(arm(20), arm(10), setting([], [], {})).loads
    assert [(row.metric, row.off, row.on) for row in load.percentiles] == [
        ("tpot", (20, 40, 80), (10, 20, 40)), ("itl", (20, None, 80), (10, None, 40)),
    ]  # fmt: skip


def test_loads_of_a_sweep_stay_apart() -> None:
    each = {c: {"concurrency": c, "output_tok_s": 45.0 * c} for c in (1, 4)}
    off = [run(input_tokens=n, **each[c]) for c in (1, 4) for n in (1000, 1300)]
    on = [drafted_run(input_tokens=n, **each[c]) for c in (4, 1) for n in (1300, 1000)]
    loads = judge_ab(off, on, setting(off, on, {})).loads
    assert [load.load.split(",")[:2] for load in loads] == [
        [f"{c} concurrent", f" {n} prompt"] for c in (1, 4) for n in (1000, 1300)
    ]
    assert all(len(arms.pairs(off[i:], on)) == 4 - i for i in range(4))


# 16 requests of 150 ms a token make 106.7 tok/s; the others are in seconds
@pytest.mark.parametrize(
    ("off", "on", "why"),
    [
        ({}, {"tpot_ms": {"mean": 0.013}}, "1.54e.03 times as fast"),
        ({"tpot_ms": {"mean": 0.02}}, {}, r"units \(seconds or ms\)"),
        ({"tpot_ms": {"mean": 150.0}, "output_tok_s": 205.0, "concurrency": 16}, {}, "make 106.7"),
    ],
)
def test_impossible_figures_fail(off: dict[str, object], on: dict[str, object], why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        arms.gains(*arms.pairs([run(**off)], [run(**on)])[0])


def test_repeats_with_other_prompts_are_compared_seed_by_seed() -> None:
    off = [run(seed=i, dataset=f"mixed:{i}") for i in (1, 2)]
    on = [drafted_run(seed=i, dataset=f"mixed:{i}", output_tok_s=300.0) for i in (1, 2)]
    assert judge_ab(off, on, setting(off, on, {})).verdict == "faster"
    other = [on[0], on[1].model_copy(update={"dataset": "mixed:9"})]
    assert judge_ab(off, other, setting(off, other, {})).verdict == "not comparable"


def test_swapped_and_doubled_files_are_refused() -> None:
    same = "the same file is given for both runs"
    swapped = r"the first run drafts and the second does not: swapped\? Give OFF first, then ON"
    for a, b, why in ((ON, OFF, swapped), (ON, ON, same), (OFF, OFF, same)):
        with pytest.raises(Unreadable, match=f"^{why}$"):
            arms.check_order(read_results(a), read_results(b))
    first = "the first must be the run without speculation, and its server speculated"
    with pytest.raises(Unreadable, match=f"^both runs draft, f too: {first}$"):
        arms.check_order([drafted_run(sha256="a")], [drafted_run(sha256="b")])
    nothing = "the second run drafted nothing: give the run with speculation as ON"
    with pytest.raises(Unreadable, match=f"^{nothing}$"):
        arms.check_order([run(sha256="a")], [run(sha256="b", method="none")])


MACHINE = ("--hw", "gb10", "--model", "qwen3.6-27b", "--quant", "fp8", "--name", "n")
NO_RUN = [
    ({"completed": 0, "failed": 160, "output_throughput": 0.0001}, "160 of 160 requests failed"),
    ({"completed": 0, "failed": 160, "output_throughput": 0.0}, "160 of 160 requests failed"),
    ({"completed": 0, "failed": 0}, "no request finished"),
    ({"output_throughput": 0.0}, "throughput is 0"),
    ({"duration": 0.0}, "duration is 0"),
    (
        {"mean_ttft_ms": 0, "mean_tpot_ms": 0, "median_ttft_ms": 0, "median_tpot_ms": 0,
         "ttfts": [], "itls": []},
        "TTFT and TPOT are 0",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "why"), NO_RUN)
@pytest.mark.parametrize("arm", ["off", "on"])
@pytest.mark.parametrize("words", [["ab"], ["calibrate", *MACHINE]])
def test_a_run_that_measured_nothing_is_none(
    words: list[str],
    arm: str,
    change: dict[str, float],
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    paths = []
    for name, source in (("off", OFF), ("on", ON)):
        data = json.loads(source.read_text()) | (change if name == arm else {})
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
        paths.append(str(tmp_path / f"{name}.json"))
    made = CliRunner().invoke(cli, [words[0], *paths, *words[1:]])
    assert isinstance(made.exception, Unreadable)  # `main` makes status 1 of it
    assert made.exception.status == 1
    assert f"{arm}.json" in str(made.exception) and why in str(made.exception)
    assert "\n" not in str(made.exception) and not made.output


def test_a_load_of_a_sweep_that_failed_whole_leaves_the_others() -> None:
    off = [run(part="a"), run(part="b", concurrency=8, requests=0, failed=64, output_tok_s=1e-4)]
    on = [drafted_run(part="a", speed=250.0), drafted_run(part="b", concurrency=8)]
    both = arms.pairs(off, on)
    assert [len(left) for left, _ in both] == [1] and both[0][0][0].concurrency == 4


def test_what_is_counted_twice_or_half_is_no_more_than_it_is() -> None:
    """A file given twice, a scatter beyond all numbers, counters read while they change."""
    off, on = run(sha256="a"), drafted_run(sha256="b")
    assert [[len(arm) for arm in pair] for pair in arms.pairs([off, off], [on, on])] == [[1, 1]]
    assert arms.Gain("ttft", 1.0, 1.0, 0.0, 400.0, "").interval() == pytest.approx((0.0, 1e12))
    counted = Acceptance.from_counts(100, 200, 201)
    assert counted is not None and (counted.rate, counted.length) == (1.0, 3.0)


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
def test_shuffled_arms_show_no_difference_nine_times_in_ten(repeats: int) -> None:
    """Arms drawn from one distribution, with the scatter of measured repeats."""
    dice = random.Random(repeats)
    scatter, calm = arms.replicate_sd(), 0
    for _ in range(400):
        off, on = (
            [run(200 * dice.lognormvariate(0, scatter)) for _ in range(repeats)] for _ in range(2)
        )
        calm += arms.gain(off, on, "output_tok_s").verdict == "no difference"
    assert calm / 400 >= 0.9


def test_shuffled_requests_of_real_runs_show_no_difference() -> None:
    values = [
        value
        for i in (1, 2)
        for r in read_results(FILES / f"vllm-detailed-off-{i}.json")
        for value in r.tpot_ms.values
    ]
    dice, calm = random.Random(7), 0
    for _ in range(200):
        dice.shuffle(values)
        half = len(values) // 2
        off, on = (run(tpot_ms=Latency.of(part)) for part in (values[:half], values[half:]))
        made = arms.gain([off], [on], "tpot")
        calm += made is not None and made.verdict == "no difference"
    assert calm / 200 >= 0.9


def test_low_acceptance_and_another_k_are_said() -> None:
    asked = {"hardware": "gb10", "model": "qwen3.6-35b-a3b", "engine": "vllm"}
    off, on = run(), drafted_run(1.2, sha256="x", tpot_ms=Latency(mean=26.0), output_tok_s=150.0)
    load = judge_ab([off], [on], setting([off], [on], asked)).loads[0]
    assert any("tokens per step; normal here is" in text and "low" in text for text in load.why)
    assert load.step is not None and load.step.cycle_ratio == pytest.approx(1.2 * 26 / 20)
    assert load.next is not None and "off" in load.next


def test_the_command_prints_json_and_its_exit_status_says_comparable() -> None:
    made = CliRunner().invoke(cli, ["ab", str(OFF), str(ON), "--format", "json"])
    assert made.exit_code == 0, made.output
    report = json.loads(made.stdout)
    assert report["schema"] == "advisor/ab/1" and report["verdict"] == "faster"
    other = CliRunner().invoke(cli, ["ab", str(OFF), str(FILES / "sglang-on.jsonl")])
    assert other.exit_code == 1 and "client vllm bench serve" in other.output


def test_the_launch_that_ran_gives_engine_model_and_k(tmp_path: Path) -> None:
    launch = tmp_path / "run.sh"
    launch.write_text(
        "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config "
        '\'{"method":"mtp","num_speculative_tokens":2}\'\n'
    )
    made = CliRunner().invoke(
        cli, ["ab", str(OFF), str(ON), "--launch", str(launch), "--hw", "h100"]
    )
    assert made.exit_code == 0, made.output
    assert "qwen3.6-35b-a3b on h100" in made.output and "mtp k=2" in made.output
    assert "normal here is" in made.output


def test_rates_by_position_become_rates_of_those_that_got_there() -> None:
    """Of ten drafts eight keep the first token, six the second, three the third: 8/10, 6/8, 3/6."""
    fields = acceptance_fields([run(acceptance=Acceptance(by_position=(0.8, 0.6, 0.3)), k=3)], 3)
    assert fields["acceptance"] == pytest.approx((0.8, 0.75, 0.5))
    assert fields["acceptance_length"] is None
    for length, possible in ((3.0, True), (3.01, False)):  # of two drafts and one more
        fields = acceptance_fields([drafted_run(length)], 2)
        assert fields.get("acceptance_length") == (length if possible else None)


def test_the_tokens_of_a_step_are_the_mean_of_the_repeats_that_say_them() -> None:
    runs = [
        BenchmarkRun(file="f", format="test", k=2, acceptance=accepted)
        for accepted in (Acceptance(length=2.0), Acceptance(length=2.6), None)
    ]
    assert tokens_per_step(runs, 2) == pytest.approx(2.3) and tokens_per_step(runs[2:], 2) is None


def run_of(clients: int, speed: float, **more: object) -> BenchmarkRun:
    return run(speed, 1e3 * clients / speed, concurrency=clients, **more)


@pytest.mark.parametrize(
    ("alone", "many", "verdict"),
    [(200.0, 1600.0, "faster"), (50.0, 400.0, "slower"), (200.0, 400.0, "mixed")],
)
def test_loads_of_different_verdicts_are_mixed(alone: float, many: float, verdict: str) -> None:
    off = [run_of(1, 100.0), run_of(8, 800.0)]
    about = {"acceptance": Acceptance(length=2.4), "k": 2}
    on = [run_of(1, alone, **about), run_of(8, many, **about)]
    assert judge_ab(off, on, setting(off, on, {})).verdict == verdict


@pytest.mark.parametrize(("speed", "advice"), [(85.0, "k="), (20.0, "turn speculation off")])
def test_a_loss_that_another_k_makes_up_does_not_turn_it_off(speed: float, advice: str) -> None:
    """Nearly all of one draft is accepted, so that more of them gain far more than 15 %."""
    about = {"acceptance": Acceptance(length=1.95), "k": 1, "method": "mtp"}
    off, on = ([run_of(1, rate, **more)] * 2 for rate, more in ((100.0, {}), (speed, about)))
    told = {"hardware": "h100", "model": "qwen3.6-27b", "gpus": 1, "k": 1}
    (load,) = judge_ab(off, on, setting(off, on, told)).loads
    assert load.gains[0].verdict == "slower" and (load.next or "").startswith(advice)
