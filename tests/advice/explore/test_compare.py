"""Choices side by side, users within objectives, and why the answer has another k."""

import json

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from advisor.advice.explore.compare import _defect, compare, compare_over
from advisor.advice.explore.values import Rate
from advisor.advice.explore.why_not import why_not
from advisor.advice.explore.within import MOST, objectives, price, users_within
from advisor.advice.recommend import recommend
from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError, Request, UnknownFact
from advisor.domain.versions import parse_release
from advisor.knowledge.rule_data import table
from advisor.render.explore.compare import comparison_rows, comparison_text
from advisor.render.layout import Paper, percent, within_lines
from advisor.render.objects import named_schema
from tests.tables import spread

GB10 = Request(hardware="gb10", engine="vllm")


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("gb10", "h100"), "hardware"),
        (("qwen3.6-27b", "qwen3.6-35b-a3b"), "model"),
        (("vllm", "sglang", "llama-server"), "engine"),
        (("vllm@0.25.1", "vllm@0.32.0"), "engine"),
        (("fp8", "bf16"), "quant"),
        (("mtp", "DFlash"), "method"),
    ],
)
def test_each_arm_is_what_recommend_answers(names: tuple[str, ...], kind: str) -> None:
    request = GB10 if kind != "engine" else Request(hardware="gb10")
    found = compare(request, names)
    for name, arm in zip(names, found.arms, strict=True):
        assert arm.kind == kind
        engine, _, version = name.partition("@")
        told = {kind: name.lower() if kind == "method" else name}
        told |= {"engine": engine, "engine_version": version or None} if kind == "engine" else {}
        alone = recommend(request.model_copy(update=told))
        assert (arm.advice.decision, arm.advice.plan) == (alone.decision, alone.plan)
        assert arm.advice.estimate == alone.estimate
    assert found.differences and max(map(len, comparison_text(found, Rate()).splitlines())) <= 80


@pytest.mark.parametrize("goal", ["throughput", "tpot", "balanced", "ttft"])
def test_the_gain_is_that_of_the_goal(goal: str) -> None:
    request = GB10.replace(goal=goal, concurrency=16, ctx_tokens=2048)
    table = {row[0]: row[1] for row in comparison_rows(compare(request, ("mtp", "dflash")), Rate())}
    gain = recommend(request.replace(method="mtp")).gain
    assert (gain is None) == (goal == "ttft")
    assert table["gain"].split(" (")[0] == (percent(gain.p50) if gain else "not predictable")
    assert (table["P(gain)"] == "-") == (gain is None)


def test_over_loads_each_choice_is_the_question_of_that_load() -> None:
    """A method's gain is what recommend says of it alone, and the highest of them is ahead."""
    names = ("mtp", "dflash", "eagle3", "ngram")
    over = compare_over(GB10.model_copy(update={"concurrency": 20}), names, 4)
    assert over.loads == (4, 8, 16, 20)
    gains: dict[int, dict[str, float]] = {load: {} for load in over.loads}
    for arm in over.arms:
        for load, point in zip(over.loads, arm.points, strict=True):
            alone = recommend(GB10.model_copy(update={"concurrency": load, "method": arm.label}))
            assert point is not None and (point.k > 0) == (alone.candidate is not None)
            if alone.candidate is not None and alone.gain is not None:
                assert point.k == alone.candidate.k
                assert point.gain.p50 == pytest.approx(alone.gain.p50, rel=1e-6)
                gains[load][arm.label] = point.gain.p50
    for first, last, label in over.ahead():
        inside = [gains[load] for load in over.loads if first <= load <= last]
        assert all(max(row, key=row.__getitem__) == label for row in inside)
    lost = compare_over(GB10.model_copy(update={"concurrency": 8}), ("ngram", "eagle3"), 4)
    assert {label for _, _, label in lost.ahead()} == {"off"}


def test_a_range_of_loads_on_the_command_line() -> None:
    """An H200 has 4.8 TB/s where an H100 has 3.35: its tokens come faster at every load."""
    status, text = invoke("compare", "h100", "h200", "--concurrency", "1..16")
    assert status == 0 and "h200 at 1 to 16 requests" in text
    assert max(map(len, text.splitlines())) <= 80
    status, text = invoke("compare", "mtp", "dflash", "--hw", "gb10", "--concurrency", "1..8",
                          "--format", "json")  # fmt: skip
    data = json.loads(text)
    assert status == 0 and data["loads"] == [1, 2, 4, 8] and len(data["arms"]) == 2
    Draft202012Validator(named_schema("compare-loads")).validate(data)
    words = ("compare", "h100", "h200", "--concurrency", "1..8", "--price", "2/h")
    assert "for one load" in invoke(*words)[1]


def test_faster_hardware_is_said_to_be_faster() -> None:
    lines = compare(GB10, ("gb10", "h100")).differences
    assert "times shorter with h100" in lines[0] and "reading weights" in lines[0]
    lines = compare(GB10, ("h100", "gb10")).differences
    assert "times longer with gb10" in lines[0]


@pytest.mark.parametrize(
    ("names", "word"),
    [
        (("gb10",), "2 to 3 names"),
        (("gb10", "h100", "h200", "b200"), "2 to 3 names"),
        (("gb10", "GB10"), "same"),
        (("gb10", "vllm"), "one kind"),
        (("gb10", "no-such-thing"), "no-such-thing"),
        (("vllm@0.25.1", "vllm@9.9.9"), "9.9.9"),
        (("tgi@1", "vllm"), "tgi"),
    ],
)
def test_what_cannot_be_compared_is_refused(names: tuple[str, ...], word: str) -> None:
    with pytest.raises((AdvisorError, UnknownFact), match=word) as refused:
        compare(GB10, names)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("after", "ended", "said"),
    [("0.33.0", True, "fixed in 0.33.0: it fails [fix]"),
     ("0.29.0", False, "present in b: it fails [a]"),
     ("0.32.1", True, "no report after 0.28.0, and no fix is known: it fails [a]"),
     ("0.19.1", True, "reported from 0.20.0 on: it fails [a]")],
)  # fmt: skip
def test_a_defect_ends_where_a_source_names_the_fix(after: str, ended: bool, said: str) -> None:
    row = {"note": "it fails.", "sources": ["a", "b"], "since": "0.20.0", "until": "0.28.0",
           "fixed_in": {"release": "0.33.0", "source": "fix"}}  # fmt: skip
    assert _defect(row, parse_release(after), "b", ended=ended) == said


def test_a_named_fix_is_behind_the_last_report_and_has_its_own_source() -> None:
    rows = table("defects")
    named = {name for name, row in rows.items() if "fixed_in" in row}
    assert named and not named & {
        "vllm-mtp-prefix-caching-accuracy", "vllm-mtp-gdn-illegal-access",
        "sglang-draft-path-missing",
    }  # fmt: skip
    for name in named:
        fixed, last = (
            parse_release(version)
            for version in (rows[name]["fixed_in"]["release"], rows[name]["until"])
        )
        assert fixed is not None and last is not None and fixed > last, name
    old = compare(GB10, ("vllm@0.33.0", "vllm@0.25.1")).differences
    assert not any(line.startswith("fixed in") for line in old)
    assert any(line.startswith("present in vllm@0.25.1") for line in old)


@pytest.mark.parametrize(
    ("hardware", "gpus", "engine", "limits"),
    spread(
        [
            ("h100", 1, "vllm", "tpot=5s"),
            ("h100", 1, "vllm", "tpot=50ms,ttft=2s"),
            ("h200", 8, "vllm", "ttft=50s"),
            ("rtx3090", 2, "", "tpot=50ms"),
        ],
        4,
    ),
)
def test_users_are_those_served(hardware: str, gpus: int, engine: str, limits: str) -> None:
    """None is the search's end nor above what runs at once; slots as given bound every arm."""
    asked = Request(hardware=hardware, gpus=gpus, model="qwen3.6-35b-a3b", engine=engine or None)
    found = users_within(asked, objectives(limits), [0, 1, 3])
    assert {one.k for one in found} >= {0, 1}
    for one in found:
        for count, bound in ((one.likely, one.likely_bound), (one.sure, one.sure_bound)):
            assert count is None or count < MOST
            assert bound != "search" or count is None
            if "ttft" not in limits and bound == "slots":
                assert one.slots is not None and count is not None and count <= one.slots
    told = "\n".join(within_lines(found, Paper(width=80)))
    assert "2,048" not in told and "users" in told
    if "ttft" not in limits and gpus < 8:
        capped = asked.replace(max_num_seqs=24, concurrency=48)
        few = users_within(capped, objectives("tpot=60s"), [0, 1])
        users = 24 * recommend(capped, what_if=False).plan.dp
        assert all((one.likely, one.likely_bound) == (users, "slots") for one in few)
        assert f"{users} users" in "\n".join(within_lines(few, Paper(width=80)))


@pytest.mark.parametrize(
    "text",
    ["", "tpot", "tpot=50", "tpot=50ms,tpot=60ms", "itl=5ms", "tpot=0ms", "ttft=-1s", "tpot=1e3ms"],
)
def test_odd_objectives_are_refused(text: str) -> None:
    with pytest.raises(AdvisorError):
        objectives(text)


def test_cost_and_energy_of_a_million_tokens() -> None:
    rate = Rate(per_hour=price("3.60/h"), watts=360.0)
    assert rate.cost(1000.0) == pytest.approx(1.0)  # a million tokens take 1,000 s
    assert rate.energy_kwh(1000.0) == pytest.approx(0.1)
    assert Rate().cost(1000.0) is None and rate.cost(0.0) is None
    for text in ("2.10", "x/h", "-1/h", "0/h", "2/day", "nan/h", "inf/h"):
        with pytest.raises(AdvisorError):
            price(text)


def test_why_not_another_k_tells_both_gains() -> None:
    best = recommend(GB10).candidate.k
    found = why_not(GB10, f"k={best + 2}")
    assert f"k={best}" in found.head and f"k={best + 2}" in found.head
    assert any("P(gain)" in line for line in found.reasons)


@pytest.mark.parametrize("asked", ["", "k", "k=x", "k=²", "colour=red", "k=-1", "engine=sglang"])
def test_why_not_what_is_refused(asked: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        why_not(GB10, asked)
    assert "\n" not in str(refused.value)


def invoke(*words: str) -> tuple[int, str]:
    try:
        done = CliRunner().invoke(cli, list(words), standalone_mode=False)
    except SystemExit as stop:
        return int(stop.code or 0), ""
    if done.exception is not None:
        return 2, str(done.exception)
    return 0, done.output
