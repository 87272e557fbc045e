"""What would change of a launch, from answers that are made by hand: which speeds are compared,
what is said where it goes against them, and which drafter stays.
"""

from collections.abc import Callable
from typing import Any

import advice_cases as cases
import pytest

from advisor.advice.decide import UNLISTED, UNPRICED
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.lint import compare
from advisor.lint.report import CheckedLaunch, FileReport, Report, no_launch_message
from advisor.lint.validate import validate

DRAFTING = '--speculative-config \'{"method":"ngram","num_speculative_tokens":2}\''
SAME = "--max-num-batched-tokens 8192 --no-enable-prefix-caching"
WHY = cases.REASONS[0].text  # of hand-made answers the first one is not the weightiest
ON = (("method", "none", "mtp"), ("k", 0, 2))


def check_launch(flags: str = "", **asked: Any) -> CheckedLaunch:
    text = f"vllm serve {cases.REPOSITORY} --max-num-seqs 32 {SAME} {flags} --port 9\n"
    told = {"hw": "gb10", "concurrency": 16, "ctx": 2048, "engine_version": "0.33.0"} | asked
    (one,) = validate(text=text, **told).launches
    return one


def prices_of(advice: Advice, old: float = 1.0) -> Callable[..., Any]:
    """The prices of one question: the file as it stands is `old` times the plain speed."""
    return lambda *_: {
        key: lambda: (advice, (cases.estimate(old), cases.estimate(1.0)))
        for launch in (check_launch(), check_launch(DRAFTING))
        for key in (compare._question(launch), compare._question(launch, "ngram"))
    }


PLAIN = cases.off(plan_off=(off := cases.plan(0)), plan=off, estimate=None)


@pytest.mark.parametrize(
    ("advice", "old", "decision", "ratio", "why"),
    [
        (cases.on(), 1.0, "on", 1.24, ""),
        (cases.on(), 1.55, "on", 0.8, WHY),  # slower than the file: the strongest reason is told
        (cases.on(decided_by=UNPRICED), 1.0, "on", 1.24, WHY),
        (cases.off(), 1.0, "off", 0.9, WHY),
        (cases.measure(), 1.0, "measure", 1.02, ""), (cases.measure(), 1.36, "measure", 0.75, ""),
        (PLAIN, 0.5, "off", 2.0, ""),  # the plain run has an estimate of its own
    ],
)  # fmt: skip
def test_the_speeds_of_the_answer_against_those_of_the_file(
    advice: Advice, old: float, decision: str, ratio: float, why: str
) -> None:
    made = compare.change_for(check_launch(), prices_of(advice, old)())
    assert made is not None and (made.decision, made.why, made.problem) == (decision, why, "")
    assert made.fields == (() if decision == "off" else ON)
    assert made.as_dict() == {
        "decision": decision, "why": why or None, "problem": None,
        "changes": [{"field": name, "from": old, "to": new} for name, old, new in made.fields],
        "speed_ratio": {"output_tok_s": ratio, "tpot": ratio, "ttft": 1.0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("speed", "kept", "decision", "ratio", "why"),
    [
        (1.24, 1.1, "on", 1.24, ""),  # faster, and than its own drafter set otherwise
        (1.24, 1.3, "off", 1.3, ""), (1.24, 1.24, "off", 1.24, ""),  # which is at least as fast
        (0.9, 0.5, "keep", 1.0, "mtp is priced at output tok/s 1.11x fewer"),
        (1.0, 0.9, "keep", 1.0, "mtp is priced at output tok/s 1.00x more"),
    ],
)  # fmt: skip
def test_another_drafter_is_advised_only_where_it_is_faster(
    speed: float, kept: float, decision: str, ratio: float, why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    own = cases.plan(2, method="ngram")
    slower = cases.on(decision="off", plan=own, candidate=own, estimate=cases.estimate(kept))
    monkeypatch.setattr(compare, "price", prices_of(slower))
    faster = cases.on(estimate=cases.estimate(speed), reasons=())
    made = compare.change_for(check_launch(DRAFTING), prices_of(faster)())
    assert made is not None and (made.decision, made.why) == (decision, why)
    assert dict(made.ratios).get("output_tok_s", 1.0) == ratio


def test_what_cannot_be_answered_is_one_sentence() -> None:
    def refuse() -> Any:
        raise AdvisorError("no such thing")

    one = check_launch()
    refused = compare.change_for(one, {compare._question(one): refuse})
    unlisted = compare.change_for(one, prices_of(cases.on(decided_by=UNLISTED))())
    assert refused is not None and refused.lines == ["recommend: no such thing"]
    assert unlisted is not None and unlisted.decision == "none"
    assert unlisted.problem.startswith("Qwen3.6-35B-A3B has ") and not unlisted.why
    assert compare.change_for(one._replace(facts=one.facts.replace(model=None)), {}) is None
    many = check_launch("--tensor-parallel-size 8", gpus=2)  # which cannot start
    assert compare._ratios(many, cases.estimate(), cases.estimate()) == ()


def test_the_question_is_about_the_file_as_it_stands() -> None:
    asked = {"gpus": 2, "concurrency": 16, "ctx_tokens": 2048, "output_tokens": 300}
    words = {"model": "qwen3.6-35b-a3b", "engine": "vllm", "engine_version": "0.33.0"}
    one = check_launch("--tensor-parallel-size 2", gpus=2, output_tokens=300, workload="code")
    request, plan = compare._question(one, "mtp")
    assert request == Request(
        hardware="gb10", quant="fp8", method="mtp", tp=2, workload="code", **asked, **words
    )  # fmt: skip
    assert plan == one.plan.replace(port=None) != one.plan
    alone = check_launch("--tensor-parallel-size 2", gpus=1)
    assert compare._question(alone)[0].tp is None, "more ranks than devices"


def test_three_files_without_a_launch_are_named() -> None:
    report = Report(files=tuple(FileReport(name, notes=("n",) * 4) for name in "abcd"))
    assert no_launch_message(report) == (
        "a, b, c: no launch of vLLM, SGLang or llama-server was found; nothing was checked"
        + "; n" * 9
    )
    assert (no_launch_message(Report()) or "").startswith("the folder: no launch")


@pytest.mark.parametrize(("count", "hidden"), [(1, True), (2, False)])
def test_a_plain_word_is_a_secret_in_its_own_file_alone(count: int, hidden: bool) -> None:
    """Among several files a password that is a word would hide it wherever it is met."""
    text = "vllm serve m/A --max-num-sqes 4 --api-key banana\n"
    reads = tuple(x for _ in range(count) for x in validate(text=text).reads)
    assert ("banana" not in Report(reads=reads).cleaner()("a banana")) == hidden
