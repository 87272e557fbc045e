"""What displaces the model's own head: a drafter that is likelier than not by far, and measured by
two owners; else it is named with its price and the command that measures it.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor import engines
from advisor.advice import recommend as recommend_module
from advisor.advice import resolve, rivals
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Request
from advisor.knowledge import drafters
from advisor.lint.validate import validate

SOURCES = Path(__file__).resolve().parents[2] / "knowledge" / "measurements" / "sources"
BLOCKS = {"hardware": "rtx-pro-6000", "model": "qwen3.6-27b", "quant": "fp8", "engine": "vllm"}


@pytest.mark.parametrize("model", ["qwen3.6-27b", "qwen3.6-35b-a3b"])
def test_a_dearer_price_alone_displaces_nothing(model: str) -> None:
    """On a GB10 at 16 requests DFlash was measured at 1.02x where MTP was at 1.30x."""
    advice = recommend(hardware="gb10", model=model, engine="vllm", concurrency=16)
    assert advice.candidate.method == "mtp"
    told = next(r.text for r in advice.reasons if r.text.startswith("Also published"))
    dearer = recommend(hardware="gb10", model=model, engine="vllm", concurrency=16, method="dflash")
    assert dearer.gain.p50 > advice.gain.p50  # and still the head stays
    assert all(x in told for x in ("DFlash", "`advisor bench plan --hw gb10", "--method dflash"))


@pytest.mark.parametrize(
    ("owners", "better", "sure"),
    [((), 0.9, False), (("a",), 0.9, False), (("a", "b"), 0.79, False), (("a", "b"), 0.9, True)],
)
def test_two_owners_have_to_have_measured_it_and_it_has_to_be_likely(
    owners: tuple[str, ...], better: float, sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head stays the answer of every command; the reason says what to try first."""
    monkeypatch.setattr(rivals, "measured_faster", lambda *_: owners)
    monkeypatch.setattr(rivals, "_chance", lambda *_: better)
    advice = recommend(**BLOCKS)
    assert advice.candidate.method == "mtp"
    text = next(r.text for r in advice.reasons if r.text.startswith("Also published"))
    assert ("is the one to try first" in text) is sure


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"model": "kimi-k3", "hardware": "b300", "gpus": 8, "method": "dspark"},
            {"method": "dspark", "model": "RedHatAI/Kimi-K3-speculator.dspark"},
        ),
        (
            {"model": "deepseek-v4-flash", "gpus": 4, "method": "dspark"},
            {"method": "dspark", "draft_sample_method": "probabilistic"},
        ),
        (
            {"model": "qwen3.8-27b", "method": "dflash2"},
            {"method": "dflash", "model": "incoai/Qwen3.8-27B-DFlash2"},
        ),
        ({"model": "qwen3-8b", "method": "ngram"}, {"method": "ngram"}),
        ({"model": "qwen3.6-27b", "method": "suffix"}, {"method": "suffix"}),
    ],
)
def test_a_method_asked_for_gets_its_launch(asked: dict[str, Any], words: dict[str, str]) -> None:
    """Keys of vLLM's recipes (vllm-project/recipes at 8959cf6) and of its SpeculativeConfig."""
    advice = recommend(**({"hardware": "h200", "engine": "vllm"} | asked))
    argv = advice.launch_on.argv
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    assert words.items() <= config.items() and config["num_speculative_tokens"] > 0
    if "model" not in words:
        assert "model" not in config
    told = any("arctic-inference" in reason.text for reason in advice.reasons)
    assert told == (asked["method"] == "suffix")  # vllm/config/speculative.py of 0.33.0


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_third_partys_drafter_is_pinned_and_named(engine: str) -> None:
    advice = recommend(hardware="h200", model="qwen3.8-27b", engine=engine, method="dspark")
    known = drafters.of_plan(advice.facts, advice.candidate)
    assert known.revision and known.revision in advice.launch_on.text
    assert "--trust-remote-code" not in advice.launch_on.argv
    told = " ".join(reason.text for reason in advice.reasons)
    assert "published by RadixArk" in told and known.licence in told


def test_v4_pro_fits_eight_b200() -> None:
    """865 GB on disk (the recipe), of 8 x 178 GiB."""
    request = recommend_module.check_request(
        {"hardware": "b200", "gpus": 8, "model": "deepseek-v4-pro", "engine": "vllm"}
    )
    advice = recommend(request, what_if=False)
    mxfp4 = recommend(request.model_copy(update={"quant": "mxfp4"}), what_if=False)
    for one in (advice, mxfp4):
        assert one.launch_on is not None
    assert 95 < mxfp4.estimate.memory.weights_gib < 110


@pytest.mark.parametrize(
    ("engine", "text", "k", "drafter"),
    [
        (
            "sglang",  # arg_groups/speculative_hook.py of 0.5.23: the verify window is one more
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V4.1-Flash "
            "--speculative-algorithm DSPARK --speculative-dspark-block-size 5",
            5,
            None,
        ),
        (
            "llama-server",  # -hfd of llama.cpp common/arg.cpp
            "llama-server -hf unsloth/Qwen3.8-27B-GGUF:Q4_K_M -hfd "
            "incoai/Qwen3.8-27B-DFlash2-GGUF:Q4_K_M --spec-type draft-dflash --spec-draft-n-max 7",
            7,
            "incoai/Qwen3.8-27B-DFlash2-GGUF:Q4_K_M",
        ),
    ],
)
def test_words_of_drafters_round_trip(engine: str, text: str, k: int, drafter: str | None) -> None:
    adapter = engines.get(engine)
    (launch,) = validate(text + "\n").launches
    plan = launch.plan
    assert (plan.k, plan.draft_model) == (k, drafter)
    written = adapter.to_launch(plan.model_copy(update={"engine_version": adapter.versions[-1]}))
    flags = {flag.name: flag.value for flag in written.flags}
    if drafter is None:
        assert flags["--speculative-dspark-block-size"] == str(k)
        assert "--speculative-num-draft-tokens" not in flags
    else:
        assert flags["--spec-draft-hf"] == drafter and "--spec-draft-model" not in flags


@pytest.mark.parametrize(("engine", "most"), [("vllm", 1), ("sglang", 3)])
@pytest.mark.parametrize("model", ["mimo-v2.5", "mimo-v2.5-pro"])
def test_a_head_drafts_what_the_engine_loads_of_it(model: str, engine: str, most: int) -> None:
    """vLLM loads the first of MiMo's three layers (mimo_v2_mtp.py), SGLang all (its cookbook); the
    checkpoint of V2.5 is written for four ranks (both).
    """
    advice = recommend(hardware="b300", gpus=8, model=model, engine=engine, concurrency=8)
    assert advice.candidate.method == "mtp" and 1 <= advice.candidate.k <= most
    assert all(c.plan.k <= most for c in advice.runners_up)
    assert model != "mimo-v2.5" or advice.plan.tp == 4


def test_owners_are_named_as_people_read_them() -> None:
    """A publication without an account goes by its title, never by the number of its file."""
    facts = resolve.facts_for_request(
        Request(hardware="gb10", model="qwen3.6-35b-a3b", concurrency=1)
    )
    owners = " ".join(rivals.measured_faster(facts, "dflash"))
    assert owners and not [path.stem for path in SOURCES.glob("*.yaml") if path.stem in owners]
