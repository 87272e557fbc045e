"""One answer says one thing: its figures, its decision, its launch and its conditions agree with
each other.
"""

from typing import Any

import pytest

from advisor import engines
from advisor.advice import decide, judge
from advisor.advice import recommend as recommend_module
from advisor.advice.plans import propose
from advisor.advice.recommend import judge_question, recommend
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.perf import memory
from advisor.render.text import advice_text
from tests.tables import fields

QUESTIONS: list[dict[str, Any]] = [
    {"hardware": "gb10", "concurrency": 16, "ctx_tokens": 2048},
    {"hardware": "rtx3090", "model": "gemma-4-31b", "concurrency": 2, "ctx_tokens": 8192},
    fields("hardware=rtx3090 model=qwen3.6-27b engine=vllm concurrency=4 ctx_tokens=8192"),
    {"hardware": "rtx5090", "model": "qwen3.6-27b", "concurrency": 31},
    fields("hardware=gb10 engine=vllm model=qwen3.5-122b-a10b concurrency=64 ctx_tokens=8192"),
    fields(
        "hardware=rtx3090 model=glm-4.7-flash engine=sglang concurrency=256 ctx_tokens=512 "
        "goal=tpot"
    ),
    {"hardware": "strix-halo", "model": "step-3.5-flash", "concurrency": 16, "ctx_tokens": 512},
    {"hardware": "h200", "model": "qwen3.6-27b", "goal": "tpot", "concurrency": 64},
    {"hardware": "rtx4090", "gpus": 8, "ctx_tokens": 131072, "quant": "fp8"},
]


@pytest.fixture(
    scope="module",
    params=range(len(QUESTIONS)),
    ids=lambda i: "-".join(map(str, QUESTIONS[i].values())),
)
def advice(request: pytest.FixtureRequest) -> Advice:
    return recommend(**QUESTIONS[request.param])


def test_no_condition_names_the_decision_that_was_taken(advice: Advice) -> None:
    word = "measure first" if advice.decision == "measure" else advice.decision
    assert not [line for line in advice.would_change if line.endswith(f": {word}")]


PCIE = fields("hardware=rtx4090 gpus=4 interconnect=pcie model=llama-3.3-70b quant=fp8")


def test_the_launch_holds_a_request_and_its_bill_is_its_own(advice: Advice) -> None:
    for plan in filter(None, (advice.plan, advice.candidate)):
        bill = memory.bill(advice.facts, plan)
        length = plan.max_model_len if plan.engine == "vllm" else advice.facts.ctx_tokens
        assert bill.fits is not False and (bill.kv_tokens or 0) >= 0.99 * (length or 0)
    if advice.candidate is not None and advice.estimate is not None:
        assert advice.estimate.memory == memory.bill(advice.facts, advice.candidate)


def test_k_keeps_to_the_documented_limit() -> None:
    """A finding on k = 4 and above limits k."""
    asked = {"hardware": "h200", "model": "qwen3.6-27b", "goal": "tpot", "concurrency": 64}
    facts = facts_for_request(recommend_module.check_request(asked))
    proposed = propose.speculative_plans(facts, judge.workable_layouts([facts])[0]()[0].plan)
    plans = [plan for plan, _ in judge.plans_that_fit(facts, proposed)]
    limits = [
        f.k_max
        for plan in plans
        for f in judge.judge(facts, plan, None).findings
        if f.effect == "k_max" and f.k_max
    ]
    made = recommend(**asked).candidate
    assert limits and max(plan.k for plan in plans) > min(limits) and made.k <= min(limits)


def test_objectives_that_no_arm_meets_are_named() -> None:
    made = recommend(hardware="gb10", max_tpot_ms=1.0, max_ttft_ms=5.0)
    assert not made.objective.met
    assert (made.objective.chance or 0) < 0.5 and (made.objective.chance_without or 0) < 0.5
    assert "missed" in advice_text(made).splitlines()[1]
    assert recommend(hardware="gb10").objective is None


def test_the_refusal_tells_of_the_split_that_comes_nearest() -> None:
    with pytest.raises(AdvisorError) as all_splits:
        recommend(hardware="h100", gpus=4, model="qwen3.5-397b-a17b", quant="bf16")
    with pytest.raises(AdvisorError) as asked:
        recommend(hardware="h100", gpus=4, tp=4, model="qwen3.5-397b-a17b", quant="bf16")
    # a stated --tp leaves other engines out of the ways that it names
    one, two = (str(refusal.value).partition("; what fits")[0] for refusal in (all_splits, asked))
    assert one == two and "short" in one


def test_measured_pairs_of_another_load_do_not_overrule_a_sure_estimate() -> None:
    """Pairs with answers of 126 tokens gain; for 16 tokens the estimate, which knows them, expects
    a loss: four to one against a gain, where nobody measured.
    """
    asked = {"hardware": "h200", "concurrency": 3, "workload": "random", "output_tokens": 16}
    made = recommend(**asked, output_spread=0.0)
    assert decide.goal_interval(made.estimate, "balanced").p50 < 0.85
    assert made.estimate.p_gain < 0.25
    assert made.decision == "off" and not any(row.covers for row in made.facts.evidence)
    assert not any(reason.text.startswith("The estimate alone prefers") for reason in made.reasons)


def test_llama_server_is_not_asked_for_replicas() -> None:
    with pytest.raises(AdvisorError, match="one of 4 servers with --gpus 1 --concurrency 2"):
        recommend(hardware="l40s", gpus=4, tp=1, engine="llama-server", concurrency=8)
    assert (
        recommend(hardware="l40s", gpus=4, tp=4, engine="llama-server", concurrency=8).plan.dp == 1
    )


@pytest.mark.parametrize("concurrency", [8, 16, 32])
@pytest.mark.parametrize("hardware", ["h100", "h200", "b200", "mi300x", "gb10"])
def test_a_recipe_without_runs_chooses_no_less_sure_k(hardware: str, concurrency: int) -> None:
    """SGLang's profile: k = 1. On an H200 at 16 requests 1.20x, 1.28x, 1.33x at k = 1, 2, 3."""
    facts = facts_for_request(
        Request(hardware=hardware, engine="sglang", concurrency=concurrency, ctx_tokens=2048)
    )
    found, _ = judge_question(judge.candidate_plans(facts))
    verdict = decide.decide(facts, found)
    chosen = verdict.candidates[verdict.best]
    rivals = [verdict.candidates[i] for i in decide.allowed_candidates(verdict.candidates)]
    assert chosen.regret == min(one.regret for one in rivals)
    assert len(rivals) >= 3 and chosen.plan.k > 1


def test_documented_gains_do_not_outvote_an_expected_loss() -> None:
    """It decides while the median gains: "on" never prints a loss for its goal."""
    asked = "hardware=rtx-pro-6000 model=qwen3.6-35b-a3b quant=nvfp4 concurrency=16 workload=chat "
    asked += "output_tokens=32 prefix_share=0.3 goal=throughput acceptance_length=1.2 "
    made = recommend(**fields(asked + "acceptance_k=2"))
    interval = decide.goal_interval(made.estimate, "throughput")
    assert interval.p50 < 1 < interval.p90 and any(f.effect == "support" for f in made.findings)
    assert made.decision in ("measure", "off")


@pytest.mark.parametrize("gpus", [3, 5, 6, 7, 8])
@pytest.mark.parametrize("model", ["qwen3.6-27b", "qwen3.6-35b-a3b", "llama-3.3-70b"])
def test_ranks_share_heads_evenly(gpus: int, model: str) -> None:
    """Heads are divided by the ranks, or whole KV heads copied; else both engines stop."""
    asked = fields("hardware=h200 engine=vllm concurrency=4 ctx_tokens=2048")
    facts = facts_for_request(Request(**asked, gpus=gpus, model=model))
    for tp, dp in propose.splits(facts):
        assert dp == gpus // tp and facts.shape.heads % tp == 0  # some leave GPUs idle
        assert facts.shape.kv_heads % tp == 0 or tp % facts.shape.kv_heads == 0


@pytest.mark.parametrize(
    "asked",
    [
        fields("hardware=jetson-thor model=qwen3.6-27b concurrency=128 output_tokens=2048"),
        PCIE | {"concurrency": 16},
        PCIE | {"concurrency": 8},
    ],
)
def test_where_requests_queue_the_three_figures_tell_one_story(asked: dict[str, Any]) -> None:
    """All requests wait for and then take as long as their tokens at the speed of the whole."""
    made = recommend(**asked)
    seen = 0
    for one in (made.estimate, *(plan.estimate for plan in made.runners_up)):
        if one is None or one.terms["requests_verify"] >= one.terms["requests_base"]:
            continue
        seen += 1
        speed, step, first = one.output_tok_s.value, one.tpot_ms.value, one.ttft_ms.value
        whole = 1e3 * made.request.concurrency * made.request.output_tokens / speed
        assert first + (made.request.output_tokens - 1) * step == pytest.approx(whole, rel=0.01)
        assert speed <= 1.01e3 * one.terms["requests_verify"] / step
    assert seen


def test_a_flag_that_the_release_renamed_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule and the catalogue see the launch that would be printed."""
    adapter = engines.get("vllm")
    find = adapter.catalogue.find

    def without(token: str, version: str | None = None) -> Any:
        return None if token == "--max-num-batched-tokens" else find(token, version)

    monkeypatch.setattr(adapter.catalogue, "find", without)
    with pytest.raises(AdvisorError, match="has no --max-num-batched-tokens"):
        recommend(hardware="gb10", engine="vllm")


def test_an_answer_of_one_token_has_nothing_to_shorten() -> None:
    made = recommend(hardware="h200", concurrency=8, output_tokens=1)
    assert made.decision == "off"
    assert made.estimate.tpot_ms.speedup.p50 == 1 and made.estimate.output_tok_s.speedup.p90 <= 1
    assert (made.gain.p50 > 1) == (made.estimate.p_gain > 0.5)
    assert "ends with the prompt" in made.reasons[0].text and made.would_change == (
        "answers of more than one token",
    )
