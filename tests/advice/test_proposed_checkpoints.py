"""Which repository and quantisation a proposal names: released formats, arms that differ in
speculation alone, what loads.
"""

import re
from typing import Any

import pytest

from advisor import validate
from advisor.advice import resolve
from advisor.advice.choices import quant_of_repository
from advisor.advice.decide import after_a_look
from advisor.advice.plans.checkpoints import PLACEHOLDER_ORG, address
from advisor.advice.recommend import recommend
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Facts, OwnRun, Request
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import weights
from advisor.render.text import advice_text
from tests.tables import fields


@pytest.mark.parametrize(
    ("hardware", "quant"), [("a100-80gb", "awq-int4"), ("h100", "fp8"), ("a100-80gb", "bf16")]
)
def test_both_arms_beside_an_assistant_have_one_repository(hardware: str, quant: str) -> None:
    made = recommend(hardware=hardware, engine="vllm", model="gemma-4-26b-a4b", quant=quant)
    assert made.candidate.method == "mtp" and made.launch_on is not None
    assert made.candidate.model == made.plan.model
    assert not str(made.plan.model).startswith(PLACEHOLDER_ORG)


def test_kimi_is_served_as_it_was_released() -> None:
    made = recommend(hardware="h200", gpus=8, model="kimi-k2.5")
    assert made.facts.quant.id == "int4"
    assert made.plan.model == "moonshotai/Kimi-K2.5" and "--trust-remote-code" in made.launch.argv
    assert memory.bill(made.facts, made.plan).weights_gib * 8 == pytest.approx(594e9 / 2**30)


@pytest.mark.parametrize(
    "asked",
    [
        {"hardware": "rtx4060", "gpus": 8, "concurrency": 8},
        fields("hardware=rtx5060 gpus=8 concurrency=16 model=qwen3-30b-a3b engine=vllm"),
    ],
)
def test_a_quantisation_whose_blocks_do_not_divide_is_not_chosen(asked: dict[str, Any]) -> None:
    assert recommend(**asked).facts.quant.id in ("awq-int4", "nvfp4")
    with pytest.raises(AdvisorError, match="SD215"):
        recommend(**asked, quant="fp8", tp=8, ep=1)
    given = recommend(**asked, quant="fp8").plan  # layers or experts stay whole
    assert given.pp > 1 or dict(given.extra).keys() & {"--enable-expert-parallel", "--ep-size"}


def test_every_size_of_a_checkpoint_is_that_of_a_known_model() -> None:
    models = [knowledge.llm(ident) for ident in knowledge.index()["drafters"]]
    files = [
        (model, quant, checkpoint.size_gb)
        for model in models
        for quant in knowledge.quant_ids()
        if (checkpoint := knowledge.checkpoint(model, quant, None, "none")) and checkpoint.size_gb
    ]
    assert files
    for model, quant, size in files:
        asked = Request(hardware="h200", gpus=8, model=model.id, quant=quant, engine="vllm")
        own = weights.weights_gib(facts_for_request(asked).shape or model, knowledge.quant(quant))
        assert own and 0.8 < size * 1e9 / 2**30 / own < 1.25


@pytest.mark.slow
def test_almost_every_answer_names_a_real_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    """At most 2 % of the answers on usual machines, each of which says so by the command."""
    unknown, known = [], 0
    for model in knowledge.index()["llms"]:
        for machine in ("gb10", "h100", "rtx4090"):
            try:
                made = recommend(hardware=machine, model=model, what_if=False)
            except AdvisorError:
                continue  # does not fit, and the message says what would
            launches = (made.launch, made.launch_off, made.launch_on)
            words = [word for launch in launches if launch for word in launch.argv]
            if any(word.startswith(PLACEHOLDER_ORG) for word in words):
                unknown.append((model, machine))
            else:
                known += 1
    with capsys.disabled():
        print(f"\nno checkpoint known: {len(unknown)} of {known + len(unknown)} answered pairs")
    assert known > 150 and len(unknown) <= 0.02 * (known + len(unknown)), unknown
    for model, machine in unknown:
        text = advice_text(recommend(hardware=machine, model=model))
        assert "checkpoint is known: see its model card" in text.split("Why, in full")[0]


def test_experts_leave_the_card_only_of_files_that_somebody_publishes() -> None:
    for model in ("deepseek-v3.1", "deepseek-v3.2"):
        made = recommend(hardware="rtx3060", model=model)  # all experts, for one context of 8,192
        files = {address(row) for row in knowledge.checkpoints(knowledge.llm(model))}
        assert made.plan.model in files and "--cpu-moe" in made.launch.argv


@pytest.mark.parametrize(
    ("name", "hardware", "quant"),
    [
        ("acme/Qwen3.6-35B-A3B-FP8-finetune", "gb10", "fp8"),
        ("/models/Qwen3.6-27B-AWQ", "rtx5090", "awq-int4"),
        ("acme/Qwen3.6-35B-A3B-MTP-GGUF:Q4_K_M", "rtx3090", "q4_k_m"),
        # words that vLLM has too, and a file of a known repository that is not listed
        ("acme/Qwen3.6-27B-GGUF:F16", "h100", "bf16"),
        ("acme/Qwen3.6-27B-GGUF:MXFP4", "rtx5090", "mxfp4"),
        ("acme/Qwen3.6-27B-NVFP4-GGUF", "rtx5090", "nvfp4"),  # llama.cpp#19769, CUDA: #20644
        ("unsloth/Qwen3.6-27B-MTP-GGUF:BF16", "h100", "bf16"),
    ],
)
def test_an_own_fine_tune_is_served_by_its_own_name(name: str, hardware: str, quant: str) -> None:
    advice = recommend(hardware=hardware, model=name)
    for arm in (advice.plan_off, advice.candidate):
        assert arm.model == name and (arm.engine == "llama-server") == ("gguf" in name.lower())
    assert advice.facts.quant.id == quant
    assert "assumed to be Qwen3.6" in " ".join(advice_text(advice).split())
    assert any(field == "model" and value == name for field, value, _ in advice.facts.defaults)
    published = recommend(hardware="gb10", model="Qwen/Qwen3.6-35B-A3B-FP8")
    assert "assumed to be" not in advice_text(published)


def test_the_official_repository_is_what_it_holds_not_a_quantisation_of_it() -> None:
    """Its name tells no quantisation: 141 GB of 16 bit weights are no AWQ on one card of 80."""
    for name in ("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"):
        assert knowledge.index()["repositories"][name.lower()][1] == "bf16"
    with pytest.raises(AdvisorError, match=r"bf16 does not fit .*--quant awq-int4, or --gpus 2"):
        recommend(hardware="h100", model="meta-llama/Llama-3.3-70B-Instruct")


@pytest.mark.parametrize(
    ("hardware", "model", "gpus", "quant"),
    [
        ("h100", "my-org/Llama-3.1-8B-ft", 1, "fp8"),  # made at load
        ("a100", "my-org/Llama-3.3-70B-ft", 4, "bf16"),  # no FP8 kernels
        ("h200", "my-org/deepseek-v3.1-ft", 8, "fp8"),  # as the model itself is published
        ("rtx4090", "my-org/my-qwen3.6-27b-finetune", 1, "q4_k_m"),
    ],
)
def test_an_own_fine_tune_is_never_answered_with_somebody_elses_weights(
    hardware: str, model: str, gpus: int, quant: str
) -> None:
    made = recommend(hardware=hardware, model=model, gpus=gpus)
    assert made.facts.quant.id == quant
    last = model.rsplit("/", 1)[-1]
    for launch in (made.launch, made.launch_off, made.launch_on):
        assert launch is None or any(last in word for word in launch.argv)
    text = " ".join(advice_text(made).split())
    assert ("convert it" in text) == (quant == "q4_k_m")
    assert ("--quantization fp8" in text) == (hardware == "h100")


@pytest.mark.parametrize(
    ("hardware", "model", "engine"),
    [("apple-m3-ultra", "deepseek-v3.2", None), ("gb10", "glm-4.6", "llama-server")],
)
def test_no_way_names_what_nobody_publishes(hardware: str, model: str, engine: str | None) -> None:
    known = {found.quant for found in knowledge.checkpoints(knowledge.llm(model))}
    try:
        made = recommend(hardware=hardware, model=model, engine=engine)
        named = {made.facts.quant.id} if made.facts.quant else {""}
    except AdvisorError as refusal:
        named = set(re.findall(r"--quant ([\w.-]+)", str(refusal)))
    assert named <= known


@pytest.mark.parametrize(
    ("name", "ident", "quant"),
    [
        ("Qwen3.6-35B-A3B-NVFP4", "qwen3.6-35b-a3b", "nvfp4"),
        ("qwen3-32b-awq", "qwen3-32b", "awq-int4"),
        ("qwen3.6-27b-gguf", "qwen3.6-27b", "q4_k_m"),
        ("qwen3.6-35b-a3b-instruct", "qwen3.6-35b-a3b", "fp8"),
        ("qwen3-235b-a22b-instruct-2507", "qwen3-235b-a22b", "fp8"),
        ("glm-4.7-flash", "glm-4.7-flash", "fp8"),
        ("gpt-oss-120b", "gpt-oss-120b", "mxfp4"),
        ("gemma-4-26b-a4b-it-qat", "gemma-4-26b-a4b", "fp8"),
        ("gemma-4-26B-A4B-it-qat-q4_0", "gemma-4-26b-a4b", "q4_0"),
    ],
)
def test_a_bare_name_may_tell_its_quantisation(name: str, ident: str, quant: str) -> None:
    facts = facts_for_request(Request(hardware="h200", gpus=8, model=name))
    assert (facts.model.id, facts.quant.id) == (ident, quant)


def test_every_listed_name_is_its_own_model() -> None:
    for ident in knowledge.llm_ids():
        for name in (ident, *knowledge.llm(ident).aliases):
            assert resolve.asked_model(name).id == (name if name in knowledge.llm_ids() else ident)
            assert quant_of_repository(Facts(), Request(hardware="h200", model=name)) is None


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"hardware": "h100", "method": "eagle3"}, "Nothing that drafts by --method eagle3"),
        ({"hardware": "rtx4090", "model": "gpt-oss-20b", "engine": "llama-server"},
         "(--method ngram needs none)"),
        ({"hardware": "h100", "method": "dflash2"}, "dflash2 was requested: no drafter of it"),
    ],
)  # fmt: skip
def test_why_nothing_is_estimated_is_the_reason_here(asked: dict[str, str], why: str) -> None:
    text = " ".join(advice_text(recommend(**asked)).split())
    assert why in text and "so there is no gain to estimate." in text


@pytest.mark.parametrize("model", ["acme/my-llama-3.3-70b-tuned", "acme/gemma-4-31b-tuned"])
def test_a_drafter_of_other_weights_is_measured_first(model: str) -> None:
    made = recommend(hardware="h100", gpus=4, model=model)
    assert (made.decision, made.decided_by) == ("measure", "unseen_head")
    assert "Risk: the drafter is made for other weights (" in " ".join(advice_text(made).split())


@pytest.mark.parametrize(
    ("model", "hardware", "gpus", "tensors"),
    [
        ("glm-4.6", "a100-80gb", 8, "mtp.*"),
        ("deepseek-v3", "a100-80gb", 8, "mtp.*"),
        ("deepseek-v3", "h100", 8, "mtp.*"),
        ("bartowski/Qwen_Qwen3.6-27B-GGUF", "rtx4090", 1, "nextn"),
        ("my-org/my-qwen3.6-27b-ft", "h100", 1, "mtp.*"),
    ],
)
def test_the_first_screen_has_unseen_heads(
    model: str, hardware: str, gpus: int, tensors: str
) -> None:
    made = recommend(hardware=hardware, model=model, gpus=gpus)
    # eight A100 are unsure by their numbers already; the head is said beside them
    unsure = hardware == "a100-80gb"
    assert (made.decision, made.decided_by) == ("measure", "unsure" if unsure else "unseen_head")
    assert "speculative" not in made.launch.text and "draft-mtp" not in made.launch.text
    text = " ".join(advice_text(made).split())
    assert "the checkpoint may lack the MTP head: look for its tensors (--explain)" in text
    reason = next(r.text for r in made.reasons if "keeps the MTP head is not known" in r.text)
    assert tensors in reason
    kept = " ".join(advice_text(recommend(hardware="h100", model="qwen3.6-27b")).split())
    assert "may lack the MTP head" not in kept


@pytest.mark.parametrize(("accepted", "decision"), [(2.6, "on"), (1.0, "measure")])
def test_own_drafts_that_were_accepted_have_seen_the_head(accepted: float, decision: str) -> None:
    made = recommend(hardware="h100", model="deepseek-v3", gpus=8)
    facts, plan = made.facts, made.candidate
    run = OwnRun(hardware="h100", model=facts.model.id, engine=plan.engine, method="mtp", k=3,
                 quant=facts.quant.id, accepted_length=accepted)  # fmt: skip
    own = facts.model_copy(update={"own_runs": (run,)})
    assert (after_a_look(own, plan, "on"), after_a_look(own, plan, "off")) == (decision, "off")


@pytest.mark.parametrize(
    ("model", "engine", "quant"),
    [
        ("minimax-m3", "vllm", "nvfp4"),  # 852 GB in 16 bits, read and quantised at every start
        ("nemotron-3-ultra-550b-a55b", "sglang", "nvfp4"),  # 1.1 TB
        ("nemotron-3-ultra-550b-a55b", "vllm", "nvfp4"),
        ("deepseek-v3.1", "vllm", "fp8"),  # published so
        ("qwen3-8b", "vllm", "fp8"),  # 16 GB are quantised while they are loaded
    ],
)
def test_published_checkpoints_come_before_made_ones(model: str, engine: str, quant: str) -> None:
    facts = resolve.bare_facts(Request(hardware="b200", gpus=8, model=model, engine=engine))
    assert facts.quant.id == quant


@pytest.mark.parametrize("hardware", ["mi300x", "mi355x", "r9700", "rx7900xtx", "v100", "t4"])
@pytest.mark.parametrize("word", ["int4", "4bit"])
def test_four_bits_are_a_format_that_the_device_runs(hardware: str, word: str) -> None:
    """vLLM's platform lists, and Marlin's least compute capability (8.0), leave NVFP4 out."""
    for model in ("glm-5.2", "minimax-m3", "apertus-1.5-70b", "qwen3-32b", "deepseek-v4-pro"):
        try:
            facts = resolve.bare_facts(Request(hardware=hardware, gpus=8, model=model, quant=word))
        except AdvisorError:
            continue
        assert facts.quant.family != "nvfp4"


@pytest.mark.parametrize(
    ("hardware", "model", "layers", "file_gb", "token_bytes", "card_gb"),
    [
        # sizes of the GGUF files as published; keys and values in 16 bits from config.json
        ("rtx3060", "qwen3-32b", 64, 19.76, 2 * 2 * 8 * 128 * 64, 12.3),
        ("rtx4090", "llama-3.3-70b", 80, 42.52, 2 * 2 * 8 * 128 * 80, 24.5),
        ("rtx5090", "llama-3.3-70b", 80, 42.52, 2 * 2 * 8 * 128 * 80, 33.7),
    ],
)
def test_layers_of_a_dense_model_leave_a_card_that_is_too_small(
    hardware: str, model: str, layers: int, file_gb: float, token_bytes: int, card_gb: float
) -> None:
    with pytest.raises(AdvisorError, match="GiB of layers in system memory") as refusal:
        recommend(hardware=hardware, model=model, engine="vllm", quant="fp8")
    command = str(refusal.value).partition("layers in system memory: ")[2]
    told = {name: int(n) for name, n in re.findall(r"(--[a-z-]+) (\d+)", command)}
    each = (file_gb + told["--ctx-size"] * token_bytes / 1e9) / (layers + 1)
    assert 0.75 * card_gb < told["--gpu-layers"] * each < card_gb - 0.8  # buffers beside them
    report = validate(None, text=command, name="start.sh", hw=hardware)
    assert not [one for one in report.findings if one.severity == "error"]
