"""Facts: every number has a source, every name that the measured rows use resolves, unknown ones
name the nearest.
"""

import json
import re
import string
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_run import run
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.choices import engine_default, quant_default
from advisor.advice.resolve import facts_for_request
from advisor.cli.serve.html import render
from advisor.domain.nouns import LLM, AdvisorError, Facts, Request, UnknownFact
from advisor.domain.paths import knowledge_dir
from advisor.knowledge import age, evidence, store
from advisor.knowledge import store as knowledge
from advisor.knowledge.build import _imputation, compile_index, index_text
from advisor.knowledge.fact_files import FactFileError, model_forms, repositories
from advisor.knowledge.imputed import architecture, table
from advisor.knowledge.listing import weak_facts
from advisor.perf.arrays import ARCHS, CLASSES, LINKS, QUANT_FAMILIES
from tests.tables import load_yaml

HERE = Path(__file__).parents[1]
NAMES = json.loads((HERE / "knowledge_names.json").read_text())
BY_HAND = load_yaml(Path(__file__).with_name("by_hand.yaml"))


@pytest.fixture(autouse=True)
def _no_user_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ADVISOR_KNOWLEDGE", str(tmp_path / "none"))


def sources_in(node: Any) -> Iterator[str]:
    """Every source that a fact names; one that is recalled says so."""
    if isinstance(node, Mapping):
        yield from (node["source"],) if isinstance(node.get("source"), str) else ()
        yield from node.get("sources") or ()
        assert node.get("source") != "recall" or node.get("status", "recall") in WEAK, node
        node = list(node.values())
    for part in node if isinstance(node, list | tuple) else ():
        yield from sources_in(part)


WEAK, TABLES = ("recall", "assumed"), ("hardware", "llms", "quants", "methods", "thresholds",
                                       "drafters", "defaults")  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_fact_has_a_known_source(name: str) -> None:
    found = {*sources_in(knowledge.index()[name])}
    assert found and all(knowledge.source(one).title for one in found)


def test_defaults_end_with_a_row_for_all_and_say_why() -> None:
    for rows in (knowledge.index()["defaults"][name] for name in ("engine", "quant")):
        assert rows[-1]["when"] == {} and all(row["why"] for row in rows)


def test_checkpoints_are_of_known_quantisations() -> None:
    for ident in knowledge.llm_ids():
        for point in knowledge.llm(ident).checkpoints:
            assert knowledge.quant(point.quant).id == point.quant
            assert "/" in point.repository and " " not in point.repository


# In the published total and in the memory bill's embedding, in no step: an embedding of word
# sequences; Gemma's embeddings a layer (layers x 256 x 262,144) with the encoders of images (0.15B)
# and sound (0.3B)
LOOKED_UP_B = {"qwen3.8-flash-next": 51.0, "gemma-4-e2b": 2.35 + 0.45, "gemma-4-e4b": 2.82 + 0.45}


def test_parameter_counts_agree_with_the_names() -> None:
    for ident in knowledge.llm_ids():
        model = knowledge.llm(ident)
        if model.mixer_params_b is None or model.total_params_b is None:
            continue
        layers = (model.experts or 0) * (model.moe_layers or 0)
        parts = (model.mixer_params_b, model.dense_ffn_params_b, model.shared_params_b,
                 LOOKED_UP_B.get(ident), layers * (model.expert_params_m or 0.0) / 1e3)  # fmt: skip
        body, head = sum(part or 0.0 for part in parts), model.lm_head_params_b or 0.0
        totals = (body + head, body + 2 * head)  # tied embeddings count once
        assert any(x == pytest.approx(model.total_params_b, rel=0.04) for x in totals), ident


def test_names_of_the_measured_rows() -> None:
    lookups = {"hardware": knowledge.hardware, "model": knowledge.llm, "quant": knowledge.quant}
    for column, lookup in lookups.items():
        for name in NAMES["runs"][column]:
            assert lookup(name).id == name


@pytest.mark.parametrize("find", [knowledge.hardware, knowledge.llm])
def test_spellings_of_hardware_and_models(find: Callable[[str], Any]) -> None:
    table = NAMES["hardware_spellings" if find is knowledge.hardware else "model_spellings"]
    assert {name: find(name).id for name in table} == table


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        *((name, [one]) for name, one in NAMES["hardware_unknown"].items()),
        # a part of several names stands for none of them
        ("orin", ["jetson-agx-orin-32gb", "jetson-agx-orin-64gb", "jetson-orin-nano-8gb"]),
        ("Jetson Orin", ["jetson-agx-orin-64gb", "jetson-orin-nx-16gb", "jetson-orin-nano-8gb"]),
    ],
)
def test_unknown_hardware_names_the_nearest(name: str, nearest: list[str]) -> None:
    with pytest.raises(UnknownFact) as caught:
        knowledge.hardware(name)
    for one in nearest:
        assert one in caught.value.nearest and one in str(caught.value)


@pytest.mark.parametrize(("text", "model", "quant"), NAMES["texts"])
def test_model_and_quant_in_longer_texts(text: str, model: str | None, quant: str | None) -> None:
    found, bits = knowledge.llm_from_text(text), knowledge.quant_from_text(text)
    assert (found.id if found else None, bits.id if bits else None) == (model, quant)


def test_unseen_quants_resolve_by_the_rule_of_their_family() -> None:
    """Half a bit more for MLX's scales, a quarter for those of groups of 64 to 128 weights."""
    for name, family, low, high in NAMES["unseen_quants"]:
        quant = knowledge.quant(name)
        assert quant.family == family and low <= 8 * quant.bytes_ffn <= high, name


@pytest.mark.parametrize(("name", "family", "bits", "head", "engines", "source"), BY_HAND["bits"])
def test_bits_by_name(
    name: str, family: str, bits: float, head: float, engines: list[str], source: str
) -> None:
    quant = knowledge.quant(name)
    assert (quant.id, quant.family, quant.bits) == (name.lower(), family, bits)
    assert ([*quant.engines], quant.source) == (engines, source)
    assert quant.note == "By the rule of its family: bits as named."
    body = {getattr(quant, f"bytes_{part}") for part in ("mixer", "ffn")}
    ends = {
        getattr(quant, f"bytes_{part}") for part in ("lm_head", "embedding", "mtp", "mtp_lm_head")
    }
    assert (body, ends) == ({round(bits / 8, 4)}, {round(head / 8, 4)})


NONSENSE = ("", ".", "\0", "é" * 50, "x" * 100_000, "-", "()")
BITS = ("mlx-1bit", "exl2-0.9bpw", "exl3-8.1bpw", "w9a16", "q9_k_m")  # that no family has


@pytest.mark.parametrize(
    ("lookup", "names"),
    [(knowledge.hardware, NONSENSE), (knowledge.llm, NONSENSE), (knowledge.source, NONSENSE),
     (knowledge.quant, NONSENSE + BITS), (architecture, ("sm_130", "sm_12", "gaudi3", "gfx2000"))],
)  # fmt: skip
def test_the_unknown_in_few_words(lookup: Callable[[str], Any], names: tuple[str, ...]) -> None:
    for name in names:
        with pytest.raises(UnknownFact) as caught:
            lookup(name)
        assert len(str(caught.value)) < 400, name


TEXTS = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=string.ascii_lowercase + string.digits + "-_./ :", max_size=40),
    st.sampled_from(
        [n for group in ("hardware", "model", "quant") for n in NAMES["runs"][group]]
    ).flatmap(lambda n: st.integers(0, max(len(n) - 1, 0)).map(lambda i: n[:i] + n[i + 1 :])),
)


@given(TEXTS)
def test_any_text_is_found_or_unknown(text: str) -> None:
    for lookup in (knowledge.hardware, knowledge.llm, knowledge.quant):
        try:
            lookup(text)
        except UnknownFact as error:
            assert "\n" not in str(error) or "\n" in text
    knowledge.llm_from_text(text)
    knowledge.quant_from_text(text)


def test_shapes_own_proxy_and_made() -> None:
    own = knowledge.llm("qwen3.6-35b-a3b")
    assert knowledge.shape_of(own) is own
    assert knowledge.shape_of(knowledge.llm("qwen3.8-27b")).id == "qwen3.6-27b"
    made = knowledge.shape_of(knowledge.llm("hy3"))
    assert made.layers and made.mixer_params_b and "approximated" in made.note
    with pytest.raises(AdvisorError, match="total_params_b"):
        knowledge.shape_of(knowledge.llm("unknown-moe"))


@pytest.mark.parametrize(("told", "made"), BY_HAND["shapes"])
def test_an_unpublished_shape_by_its_ratios(told: dict[str, Any], made: dict[str, float]) -> None:
    shape = knowledge.shape_of(LLM(id="x", note="Own.", **told))
    assert {name: getattr(shape, name) for name in made} == pytest.approx(made, rel=1e-4)
    assert shape.note.startswith(f"Own. Shape approximated from {told['total_params_b']}B total ")


def test_checkpoints_keep_mtp_where_it_is_asked() -> None:
    model = knowledge.llm("qwen3.6-35b-a3b")
    assert knowledge.checkpoint(model, "fp8", "vllm").repository == "Qwen/Qwen3.6-35B-A3B-FP8"  # type: ignore[union-attr]
    gguf = knowledge.checkpoint(model, knowledge.quant("ud-q4_k_xl"), "llama-server", "mtp")
    assert gguf and gguf.keeps_mtp and gguf.file == "UD-Q4_K_XL" and "MTP" in gguf.repository
    assert knowledge.checkpoint(model, "fp8", "llama-server") is None
    assert knowledge.checkpoint(knowledge.llm("gpt-oss-20b"), "mxfp4", "vllm", "mtp") is None
    assert knowledge.checkpoint(knowledge.llm("gpt-oss-20b"), "mxfp4", "vllm", "none") is not None


@pytest.mark.parametrize(
    ("hw", "engine"),
    [
        ("gb10", "vllm"), ("rtx3090", "vllm"), ("apple-m4", "llama-server"), ("t4", "vllm"),
        ("strix-halo", "llama-server"), ("mi300x", "vllm"), ("rx7900xtx", "vllm"),
        ("v100", "llama-server"), ("mi50", "llama-server"), ("gtx1080", "llama-server"),
        ("rx7700xt", "vllm"), ("rx6900xt", "llama-server"), ("arc-140v", "llama-server"),
        ("jetson-agx-orin-64gb", "llama-server"),
    ],
)  # fmt: skip
def test_default_engine(hw: str, engine: str) -> None:
    assert engine_default(knowledge.hardware(hw))[0] == engine


@pytest.mark.parametrize(
    ("hw", "model", "engine", "gpus", "quant"),
    [
        ("gb10", "qwen3.6-35b-a3b", "vllm", 1, "fp8"),
        ("h200", "qwen3.6-35b-a3b", "sglang", 1, "fp8"),
        ("rtx3090", "qwen3.6-35b-a3b", "vllm", 2, "awq-int4"),
        ("a100-80gb", "qwen3.6-27b", "sglang", 1, "awq-int4"),
        ("rtx3090", "qwen3.6-27b", "llama-server", 1, "q4_k_m"),
        ("apple-m5-pro", "qwen3.6-35b-a3b", "llama-server", 1, "q4_k_m"),
        ("rtx5090", "qwen3.6-35b-a3b", "vllm", 1, "nvfp4"),
        ("h100-sxm", "gpt-oss-120b", "vllm", 1, "mxfp4"),
    ],
)
def test_default_quant(hw: str, model: str, engine: str, gpus: int, quant: str) -> None:
    llm = knowledge.llm(model)
    facts = Facts(
        hardware=knowledge.hardware(hw), model=llm, shape=knowledge.known_shape(llm),
        engine=engine, gpus=gpus, concurrency=1, ctx_tokens=4095, output_tokens=1,
    )  # fmt: skip
    assert quant_default(facts)[0].id == quant


def test_default_temperature_follows_workload_and_thinking() -> None:
    model = knowledge.llm("qwen3.6-35b-a3b")
    words = [("chat", None), ("code", None), ("chat", False)]
    assert [model.temperature(*each) for each in words] == [1.0, 0.6, 0.7]
    assert knowledge.llm("hy3").temperature() is None


def test_a_request_is_filled_and_every_default_is_recorded() -> None:
    facts = facts_for_request(Request(hardware="spark", concurrency=16))
    ids = (facts.hardware.id, facts.quant.id, facts.checkpoint.repository)
    assert ids == ("gb10", "fp8", "Qwen/Qwen3.6-35B-A3B-FP8")
    assert {"engine", "engine_version", "quant", "temperature"} <= {
        field for field, _, _ in facts.defaults
    }
    assert all(value and why for _, value, why in facts.defaults)
    covering = [e for e in facts.evidence if e.covers]
    assert {e.run_id for e in covering} == {"seed000-014"}
    assert {e.metric for e in covering} >= {"output_tok_s", "tpot", "ttft"}


def test_a_quant_brings_the_engine_that_runs_it() -> None:
    facts = facts_for_request(Request(hardware="h200", quant="q4_k_m"))
    assert facts.engine == "llama-server"
    assert any(field == "engine" and "q4_k_m" in why for field, _, why in facts.defaults)
    for asked in ({"quant": "mlx-4bit"}, {"quant": "q4_k_m", "engine": "vllm"},
                  {"engine": "ollama"}):  # fmt: skip
        with pytest.raises(AdvisorError):
            facts_for_request(Request.model_validate({"hardware": "h200", **asked}))


# Drafters that no launch here can name: a distilled head of a third party.
WITHOUT_A_LAUNCH = {"ornith-1.5-9b"}


def test_no_model_is_said_to_lack_what_was_measured_on_it() -> None:
    """Every model with a published MTP pair has a head or assistant, or is named above."""
    measured = (pair["model"] for pair in evidence.pairs("mtp"))
    models = [knowledge.llm(name) for name in measured if not name.startswith("unknown")]
    lacking = {model.id for model in models if not (model.mtp_layers or model.assistant)}
    assert lacking <= WITHOUT_A_LAUNCH, sorted(lacking - WITHOUT_A_LAUNCH)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("glm-5.3", None),  # a release of its own, of which a variant alone is known
        ("zai-org/GLM-5.3", None),
        ("step-3.5", None),
        ("glm-5.3-flash", "glm-5.3-flash"),
        ("qwen3-30b", "qwen3-30b-a3b"),
        ("llama-3.3-70", "llama-3.3-70b"),
    ],
)
def test_a_release_is_no_short_name_of_its_variant(name: str, wanted: str | None) -> None:
    if wanted is not None:
        assert knowledge.llm(name).id == wanted
        return
    with pytest.raises(UnknownFact, match="-flash"):
        knowledge.llm(name)


def test_the_weak_facts_are_those_of_the_files() -> None:
    files = (path for x in ("hardware", "llms") for path in (knowledge_dir() / x).glob("*.yaml"))
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    count = len(re.findall(r"^\w+: \{.*status: (?:recall|assumed)\b", text, re.M))
    assert all(words in weak_facts() for words in (f": {count} of ", "mi50 (recall)"))


def test_every_word_of_the_vocabularies_has_its_values() -> None:
    assert set(table("architectures", "fp32_per_bandwidth")) == set(ARCHS)
    assert set(CLASSES) <= set(table("classes")) and set(table("links")) == set(LINKS) - {"unknown"}
    assert set(table("quant_families", "bytes_ffn")) == set(QUANT_FAMILIES)


def test_the_shipped_index_is_that_of_the_files() -> None:
    made = compile_index()
    assert index_text(made) == (knowledge_dir() / "index.json").read_text(encoding="utf-8")
    for kind in ("hardware", "llms", "quants", "drafters", "methods"):
        names = {path.stem for path in (knowledge_dir() / kind).glob("*.yaml")}
        assert made[kind].keys() == names, kind


def test_repositories_and_forms_by_which_a_text_names_a_model() -> None:
    """A repository of several quantisations, or of files, says none; a number is no model."""
    rows = [("Me/A", "fp8", ""), ("me/b", "q4_k_m", "x.gguf"), ("me/c", "fp8", ""),
            ("me/c", "bf16", ""), ("me/c", "bf16", "")]  # fmt: skip
    points = [{"repository": r, "quant": q} | ({"file": f} if f else {}) for r, q, f in rows]
    assert repositories({"m-1": {"checkpoints": points}, "none": {}}) == {
        "me/a": ["m-1", "fp8"], "me/b": ["m-1", ""], "me/c": ["m-1", ""],
    }  # fmt: skip
    llms = {"m-1.5": {"aliases": ["alias-one", "tiny", "70b-chat"]}, "unknown-moe": {}}
    assert model_forms(llms, {"m-1.5": ["spoken"]}) == [
        ("aliasone", "m-1.5", False), ("spoken", "m-1.5", False),
        ("m1.5", "m-1.5", False), ("m15", "m-1.5", True),
    ]  # fmt: skip


def test_a_number_without_a_source_is_refused() -> None:
    with pytest.raises(FactFileError, match="source"):
        _imputation({"values": {"x": {"value": 1.0, "unit": "B", "status": "assumed"}}})


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("sm_90a", "sm_90"), ("sm_87", "sm_86"), ("gfx1151", "gfx11"), ("xe2", "intel"),
        ("apple9", "apple9"), ("apple", "apple"),
    ],
)  # fmt: skip
def test_spellings(name: str, word: str) -> None:
    assert architecture(name) == word


def test_all_listed_hardware_has_an_architecture() -> None:
    for ident in store.index()["hardware"]:
        hardware = store.hardware(ident)
        assert architecture(hardware.gpu_family or hardware.arch)


FACTS = Path(__file__).parents[2] / "knowledge"
ASK = ("recommend", "--hw", "gb10")


def test_the_age_is_that_of_the_files() -> None:
    texts = [path.read_text("utf-8") for path in FACTS.glob("measurements/sources/*.yaml")]
    texts.append((FACTS / "sources.yaml").read_text("utf-8"))
    days = re.findall(r"^ *date: ['\"]?(\d{4}-\d\d-\d\d)\b", "\n".join(texts), re.MULTILINE)
    catalogues = [json.loads(path.read_text("utf-8")) for path in FACTS.glob("engines/*.json")]
    newest = {one["engine"]: one["versions"][-1] for one in catalogues if "versions" in one}
    assert age.facts_age() == {"date": max(days), "releases": newest}


@pytest.mark.parametrize(
    ("today", "days"),
    [("2026-11-25", 0), ("2027-01-25", 0), ("2027-01-26", 61), ("2027-02-09", 75)],
)
def test_the_first_screen_says_what_is_too_old(
    today: str, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"date": "2026-11-26", "releases": {"vllm": "0.33.0", "sglang": "0.5.23"}}
    monkeypatch.setattr(age, "facts_age", lambda: facts)
    monkeypatch.setenv(age.TODAY, today)
    line = f"Facts of 2026-11-26 ({days} days old); newest releases known: vllm 0.33.0"
    screen = run(*ASK).out.splitlines()[:24]
    assert (line in screen) == (f"{line}, sglang 0.5.23" in run("--version").out) == bool(days)
    assert days or not any("days old" in one for one in screen)


def test_the_version_the_json_and_the_page_state_it() -> None:
    facts = age.facts_age()
    assert json.loads(run(*ASK, "--format", "json").out)["facts"] == facts
    assert run("--version").out.splitlines()[1:] == [age.facts_line()]
    assert age.facts_line() in render("problem.html", error="x")
    assert all(f"{name} {value}" in age.facts_line() for name, value in facts["releases"].items())


def test_a_clock_that_is_no_date_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(age.TODAY, "tomorrow")
    assert "write it as YYYY-MM-DD" in run(*ASK).err
