"""The best k per load: ranges without a gap, in words that the engines take."""

import itertools
import json
import random
import shlex
from itertools import pairwise

import pytest
from cli_run import run

from advisor.advice.explore.axes import series
from advisor.advice.explore.k_ranges import LoadFacts, k_ranges
from advisor.advice.explore.policy import choose_policy
from advisor.advice.explore.sweep import sweep
from advisor.advice.explore.values import Sweep
from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import AdvisorError, Interval, Request
from advisor.lint.validate import validate
from advisor.render.explore.text import policy_text
from tests.advice.explore.test_sweep import questions


def covers(rows: tuple[tuple[int, int, int], ...], top: int) -> bool:
    edges = rows[0][0] == 1 and rows[-1][1] == top
    joined = all(a[1] + 1 == b[0] and a[2] != b[2] for a, b in pairwise(rows))
    return edges and joined and all(first <= last for first, last, _ in rows)


def test_ranges_cover_every_load_without_a_gap() -> None:
    refused = drawn = off = drafting = 0
    for asked in questions(24, 11):
        draw = random.Random(str(asked))
        top = draw.choice((2, 7, 64, 300))
        try:
            found = sweep(asked, {"concurrency": series(1, top, draw.choice((2, 5, 20)))})
        except AdvisorError as error:
            assert "does not fit" in str(error)
            refused += 1
            continue
        served = [load.request.concurrency for load in found.loads if load.refusal is None]
        for one in found.k_ranges:
            drawn += 1
            assert covers(one.rows, served[-1])
            for (first, last, k), load in itertools.product(one.rows, found.loads):
                if first <= load.request.concurrency <= last:
                    point = load.point(k)
                    assert load.decision != "off" or k in (0, one.static_k)
                    assert point is None or not point.forbidden_by or k in (0, one.static_k)
                    off += load.decision == "off"
                    drafting += k > 0
    assert (refused, drawn, off, drafting) == (2, 20, 16, 46)


def crossing_sweep(engine: str) -> Sweep:
    """Curves that gain by a third up to 32 requests and lose a fifth above, by no model."""
    request = Request(hardware="b200", model="qwen3.6-27b", engine=engine)
    found = sweep(request, {"concurrency": [1, 8, 32, 64, 128], "k": [0, 1, 3]})
    answered = []
    for load in found.loads:
        good = load.request.concurrency <= 32
        best = (1.1, 1.3, 1.5, 0.4) if good else (0.7, 0.8, 0.9, -0.5)
        points = [point for point in load.points if point.k == 0]
        for point in (point for point in load.points if point.k):
            p10, p50, p90, utility = best if point.k == 3 else (0.9, 1.01, 1.1, 0.01)
            gain = Interval(p10=p10, p50=p50, p90=p90)
            change = {"gain": gain, "utility": utility, "forbidden_by": ()}
            change["decision"] = "on" if good else "off"
            points.append(point.model_copy(update=change))
        change = {"points": tuple(points), "decision": "on" if good else "off"}
        changed = load.model_copy(update=change | {"best_k": 3, "best_method": "mtp"})
        answered.append(LoadFacts(changed, bare_facts(load.request)))
    loads = tuple(row.load for row in answered)
    return found.model_copy(update={"loads": loads, "k_ranges": k_ranges(answered)})


def test_ranges_that_pay_are_the_policy_and_its_launch() -> None:
    chosen = choose_policy(crossing_sweep("sglang"))
    assert chosen.decision == "on" and chosen.plan.k_schedule == ((1, 63, 3), (64, 128, 0))
    assert "--speculative-adaptive-config" in chosen.launch.argv and chosen.launch.files
    assert chosen.ranges.pays and chosen.ranges.static_k == 3 and chosen.ranges.gain > 1.0
    assert [row.k for row in chosen.ranges.loads] == [3, 3, 3, 0, 0]
    text = policy_text(chosen)
    assert "k by batch size" in text and "--speculative-adaptive-config" in text


def test_the_line_that_is_told_passes_validate() -> None:
    (found,) = crossing_sweep("sglang").k_ranges
    line = "sglang serve --model-path Qwen/Qwen3.6-27B-FP8 " + shlex.join(found.arguments)
    report = validate(text=line)
    spoken = {f.code for f in report.findings if "adaptive" in f.message}
    assert not spoken and not [f for f in report.findings if f.severity == "error"]


@pytest.mark.parametrize(
    "words",
    ["--hw gb10", "--hw h100 --gpus 4 --model llama-3.3-70b --engine vllm",
     "--hw rtx4090 --model qwen3.6-27b --engine llama-server",
     "--hw rtx5090 --model qwen3.6-27b --engine sglang"],  # gains for one request alone
)  # fmt: skip
def test_a_range_of_loads_is_one_launch_of_least_regret(words: str) -> None:
    """The regret by hand, of the utilities that a sweep prints, or near it and on more often."""
    told = json.loads(run(*f"recommend {words} --concurrency 1..32 --format json".split()).out)
    loads, ranges, launch = told["sweep"]["loads"], told["ranges"], " ".join(told["launch"]["argv"])
    utilities = [
        {p["k"]: p["utility"] for p in load["points"] if not (p["forbidden_by"] or p["adaptive"])}
        for load in loads
    ]
    everywhere = set.intersection(*map(set, utilities))
    regret = {k: sum(max(row.values()) - row[k] for row in utilities) for k in everywhere}
    answers = {0, *(load["best_k"] for load in loads if load["decision"] != "off")}
    k, best = ranges["static_k"], min(answers & everywhere, key=regret.__getitem__)
    on = [p["k"] for load in loads for p in load["points"] if p["decision"] == "on"]
    assert k == best or (on.count(k) > on.count(best) and regret[k] < regret[best] + 0.3)
    assert [load["setting"]["concurrency"] for load in loads] == [1, 2, 4, 8, 16, 32]
    assert ("--spec" in launch) == (told["decision"] != "off")
    assert (told["decision"] == "off") == (told["plan"]["k"] == 0)
    for load, row in zip(loads, ranges["loads"], strict=True):
        points = {(p["k"], p["adaptive"]): p["gain"]["p50"] for p in load["points"]}
        assert row["gain"] == pytest.approx(points[told["plan"]["k"], "adaptive" in launch])
        assert row["best_gain"] == pytest.approx(points[row["best_k"], row["best_adaptive"]])
    text = run("recommend", *words.split(), "--concurrency", "1-32").out
    assert len(text.splitlines()) <= 26 and "1 to 32 requests" in text.replace("\n", " ")


@pytest.mark.parametrize(("words", "part"), [("9..3", "smaller number"), ("0..64", "from 1 to")])
def test_a_range_that_cannot_be_answered_is_one_sentence(words: str, part: str) -> None:
    ran = run("recommend", "--hw", "gb10", "--concurrency", *words.split())
    assert ran.code == 2 and part in ran.err and not ran.out
