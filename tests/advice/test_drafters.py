"""Published drafters: their files, which one an engine release gets, the launches with them, and
the answers without one.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from advisor import engines
from advisor.advice import recommend as recommend_module
from advisor.advice.plans import methods, propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Advice, Drafter, Facts, Plan
from advisor.domain.paths import knowledge_dir
from advisor.domain.versions import release
from advisor.engines.traits import traits
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.knowledge.fact_files import FactFileError, check_entry, read_table
from advisor.knowledge.listing import entry_text
from advisor.lint.validate import validate
from advisor.perf import memory
from advisor.render.deploy.compose import compose_yaml
from advisor.render.json_out import advice_json
from tests.tables import fields, spread

FILES = sorted((knowledge_dir() / "drafters").glob("*.yaml"))
ENGINES = ("vllm", "sglang")
# on eight B300
LARGE = ("qwen3-235b-a22b", "qwen3-vl-235b-a22b", "llama-3.3-70b", "minimax-m3",
         "qwen3.5-122b-a10b", "deepseek-v4-pro", "deepseek-v4.1-flash", "glm-5.2",
         "glm-5.3-flash", "llama-4-maverick-400b-a17b", "nemotron-3-ultra-550b-a55b",
         "qwen3-coder-480b-a35b")  # fmt: skip


def every() -> Iterator[tuple[str, Drafter]]:
    for ident in knowledge.index()["drafters"]:
        for drafter in knowledge.drafters(knowledge.llm(ident)):
            yield ident, drafter


def recommend(**asked: Any) -> Advice:
    return recommend_module.recommend(**({"hardware": "h200", "concurrency": 4} | asked))


def test_every_file_is_named_after_a_known_model() -> None:
    listed = knowledge.index()["drafters"]
    assert len(FILES) >= 15 and {path.stem for path in FILES} <= {*knowledge.llm_ids()}
    assert all(listed[path.stem]["id"] == path.stem for path in FILES)


def test_every_drafter_has_known_sources_engines_and_releases() -> None:
    """Its target is read as the model of its file, and the list of the model names it."""
    names = [drafter.repository.lower() for _, drafter in every()]
    assert len(names) == len(set(names))  # each belongs to one model
    for ident, drafter in every():
        assert all(knowledge.source(source).title for source in drafter.sources), drafter
        for engine, since in drafter.engines.items():
            adapter = engines.get(engine)
            assert since in adapter.versions, drafter
            plan = Plan(engine=engine, engine_version=since, method=drafter.method, k=1,
                        draft_model=drafter.repository)  # fmt: skip
            assert adapter.to_launch(plan), f"{engine} {since} has no path for {drafter.method}"
        assert set(drafter.env) <= set(drafter.engines) and "/" in drafter.target
        assert knowledge.llm_from_text(drafter.target).id == ident, drafter.target
        shown = entry_text(knowledge.llm(ident)).splitlines()
        assert drafter.address in "".join(line.strip() for line in shown)
        assert all(len(line) <= 80 for line in shown)


def test_measured_sources_are_not_renamed() -> None:
    """A source of drafters must not take the id of a measured one, whose citation it replaces."""
    import yaml

    measured = {path.stem for path in (knowledge_dir() / "measurements" / "sources").glob("*.yaml")}
    used = {source for _, drafter in every() for source in drafter.sources}
    listed = yaml.safe_load((knowledge_dir() / "sources.yaml").read_text(encoding="utf-8"))
    assert not {name for name in used & measured if name in listed}


GOOD = {"method": "eagle3", "repository": "a/b", "target": "c/d", "engines": {"vllm": "0.19.1"},
        "sources": ["s"]}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"colour": "red"}, "drafters.0.colour"),
        ({"method": "magic"}, "drafters.0.method"),
        ({"repository": "no-owner"}, "drafters.0.repository"),
        ({"target": "c/d/e"}, "drafters.0.target"),
        ({"sources": []}, "drafters.0"),
        ({"engines": {}}, "drafters.0"),
        ({"k": 0}, "drafters.0.k"),
        ({"k": 3, "k_max": 1}, "drafters.0.k"),
        ({"k": 16, "block": 16}, "drafters.0.k"),
        ({"size_gb": -1}, "drafters.0.size_gb"),
    ],
)
def test_what_is_wrong_with_a_file(change: dict[str, Any], field: str) -> None:
    problems = check_entry("drafters", {"id": "qwen3-8b", "drafters": [GOOD | change]}, "x.yaml")[1]
    assert field in [name for _, name, _ in problems], problems
    assert not check_entry("drafters", {"id": "qwen3-8b", "drafters": [GOOD]}, "x.yaml")[1]


def test_a_bad_file_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(json.dumps({"id": "qwen3-8b", "drafters": [GOOD, GOOD]}))
    with pytest.raises(FactFileError, match="listed twice"):
        read_table("drafters", tmp_path)


def facts(**asked: Any) -> Facts:
    return facts_for_request(recommend_module.check_request({"hardware": "h200"} | asked))


@pytest.mark.parametrize(
    ("model", "named", "repository"),
    [
        ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B-FP8", "AngelSlim/Qwen3-a3B_eagle3"),
        ("qwen3-30b-a3b", "Qwen/Qwen3-30B-A3B-Instruct-2507",
         "RedHatAI/Qwen3-30B-A3B-Instruct-2507-speculator.eagle3"),
        ("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
         "RedHatAI/Qwen3-235B-A22B-Instruct-2507-speculator.eagle3"),
        ("qwen3-235b-a22b", "me/something-else", "RedHatAI/Qwen3-235B-A22B-speculator.eagle3"),
    ],
)  # fmt: skip
def test_the_variant_decides(model: str, named: str, repository: str) -> None:
    found = drafters.pick(facts(model=model, engine="vllm", gpus=8), "eagle3", named)
    assert found.repository == repository


def test_thinking_decides() -> None:
    def names(thinking: bool | None) -> list[str]:
        known = facts(model="qwen3-8b", engine="vllm", thinking=thinking)
        return [drafter.repository for drafter in drafters.usable(known)]

    assert names(True)[0] == "RedHatAI/Qwen3-8B-Thinking-speculator.eagle3"
    assert names(None)[0] == "RedHatAI/Qwen3-8B-speculator.eagle3"
    assert "z-lab/Qwen3-8B-DFlash-b16" in names(False)
    assert "z-lab/Qwen3-8B-DFlash-b16" not in names(None)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("model=qwen3.6-27b", ("mtp",)),
        ("model=qwen3.6-27b method=dflash", ("dflash",)),
        ("model=qwen3.6-27b method=eagle3", ()),
        ("model=qwen3-8b method=mtp", ()),
        ("model=gemma-4-31b engine=vllm", ("mtp",)),  # its assistant
        ("model=gemma-4-31b engine=vllm method=eagle3", ("eagle3",)),
    ],
)
def test_a_model_with_mtp_keeps_it_unless_asked(asked: str, expected: tuple[str, ...]) -> None:
    assert methods.methods(facts(**fields(asked))) == expected


def test_k_keeps_to_what_the_drafter_was_made_for() -> None:
    kimi = facts(model="kimi-k2.5", engine="vllm", gpus=8)
    assert methods.k_values(kimi, "eagle3") == (1, 2, 3, 4, 5, 6, 7)
    assert methods.k_values(kimi, "dflash") == (3, 7)
    small = facts(model="qwen3-8b", engine="sglang", thinking=False)
    assert methods.k_values(small, "dflash") == (3, 7, 9, 15)
    assert methods.k_values(facts(model="qwen3.6-27b"), "mtp") == traits("vllm").k_range


def test_the_bill_holds_the_drafters_weights_and_cache() -> None:
    known = facts(model="qwen3-8b", engine="vllm", concurrency=4)
    base = propose.base_plan(known, (1, 1))
    with_drafter = memory.bill(known, propose.with_method(known, base, "eagle3", 3))
    assert with_drafter.spec_gib == pytest.approx(2.044e9 / 2**30)
    oss = facts(model="gpt-oss-120b", engine="sglang", gpus=2)
    plain = propose.base_plan(oss, (2, 1))
    none, eagle, block = (
        memory.bill(
            oss, plain if method == "none" else propose.with_method(oss, plain, method, 3)
        ).kv_tokens
        for method in ("none", "eagle3", "dflash")
    )
    assert none and eagle and block and none > eagle > block  # one layer more, eight layers more


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"hardware": "h100", "gpus": 4, "model": "llama-3.3-70b", "engine": "vllm"},
            ['{"method":"eagle3",' '"model":"RedHatAI/Llama-3.3-70B-Instruct-speculator.eagle3",'
             '"num_speculative_tokens":K}'],
        ),
        (
            {"hardware": "h100", "gpus": 4, "model": "llama-3.3-70b", "engine": "sglang"},
            ["--speculative-algorithm EAGLE3",
             "lmsys/SGLang-EAGLE3-Llama-3.3-70B-Instruct-SpecForge", "--speculative-num-steps K",
             "--speculative-eagle-topk 1", "--speculative-num-draft-tokens K1"],
        ),
        (
            {"hardware": "h100", "model": "gpt-oss-120b", "engine": "vllm", "concurrency": 8},
            ['"method":"eagle3","model":"RedHatAI/gpt-oss-120b-speculator.eagle3"',
             "--no-enable-prefix-caching"],
        ),
        (
            {"hardware": "gb10", "model": "gpt-oss-120b", "engine": "sglang"},
            ["--speculative-algorithm", "--speculative-draft-model-path",
             "--speculative-num-draft-tokens K1"],
        ),
        (
            {"hardware": "rtx3090", "model": "qwen3-8b", "engine": "vllm"},
            ['"method":"eagle3","model":"RedHatAI/Qwen3-8B-speculator.eagle3"'],
        ),
        (
            fields("hardware=rtx4090 model=qwen3-8b engine=sglang thinking=False method=dflash"),
            ["--speculative-algorithm DFLASH",
             "--speculative-draft-model-path z-lab/Qwen3-8B-DFlash-b16",
             "--speculative-num-draft-tokens K1"],
        ),
    ],
)  # fmt: skip
def test_the_launch_names_the_drafter(asked: dict[str, Any], words: list[str]) -> None:
    advice = recommend(**asked)
    argv = " ".join(advice.launch_on.argv)
    k = advice.candidate.k
    for word in words:
        assert word.replace("K1", str(k + 1)).replace("K", str(k)) in argv or word in argv, argv
    used = drafters.of_plan(advice.facts, advice.candidate)
    told = next(x for x in advice.reasons if x.text.startswith(f"Drafter {used.repository}"))
    assert "not its own" in told.text and told.sources and knowledge.source(told.sources[0]).title
    interval = advice.estimate.output_tok_s.speedup
    assert interval.p10 < interval.p50 < interval.p90
    assert advice_json(advice)["drafter"]["repository"] == used.repository
    assert set(advice.launch_on.env.items()) >= {*used.env.get(advice.candidate.engine, {}).items()}
    if advice.decision == "on":
        assert used.repository in compose_yaml(advice)
    if asked.get("method") == "dflash":  # a block has no steps
        assert "--speculative-num-steps" not in advice.launch_on.argv


def test_an_acceptance_of_ones_own_replaces_the_prior() -> None:
    given = recommend(model="qwen3-8b", engine="vllm", acceptance_length=3.4, acceptance_k=5)
    prior = recommend(model="qwen3-8b", engine="vllm")
    assert any("acceptance as you gave it" in reason.text for reason in given.reasons)
    widths = [
        e.accepted_length.p90 / e.accepted_length.p10 for e in (given.estimate, prior.estimate)
    ]
    assert widths[0] < widths[1]


@pytest.mark.parametrize(
    ("asked", "reason", "change"),
    [
        ({"model": "phi-4", "gpus": 4}, "no drafter of it is listed here",
         "a drafter for this model"),
        ({"model": "qwen3-14b", "engine": "llama-server"}, "none for llama-server",
         "--engine vllm"),
        (fields("model=kimi-k2.5 engine=vllm engine_version=0.19.1 gpus=8 method=dflash"),
         "is known to load z-lab/Kimi-K2.5-DFlash from 0.24.0 on", "vllm 0.24.0 or newer"),
        ({"model": "qwen3-8b", "engine": "vllm", "method": "dflash"}, "say --no-thinking",
         "--no-thinking, for which"),
        ({"model": "gemma-4-31b", "engine": "sglang", "engine_version": "0.5.11"},
         "sglang takes from 0.5.12 on", "sglang 0.5.12"),
        ({"model": "gemma-4-12b", "engine": "sglang", "engine_version": "0.5.13"},
         "sglang takes from 0.5.14 on", "sglang 0.5.14"),
        ({"model": "gemma-4-31b", "engine": "llama-server", "engine_version": "b9553"},
         "llama-server takes from b10448 on", "llama-server b10448"),
        ({"model": "someone/gemma-4-31B-it-GGUF", "engine": "llama-server"},
         "name one with --spec-draft-model", "a drafter for this model"),
        ({"model": "qwen3.6-27b", "method": "eagle3"},
         "EAGLE-3 was requested: no drafter of it is listed here",
         "another --method than eagle3"),
        ({"model": "qwen3-8b", "method": "mtp"}, "MTP was requested: Qwen3-8B has no MTP head",
         "another --method than mtp"),
    ],
)  # fmt: skip
def test_without_a_drafter_it_says_why(asked: dict[str, Any], reason: str, change: str) -> None:
    advice = recommend(**asked)
    assert advice.decision == "off" and advice.candidate is None and advice.plan.method == "none"
    assert reason in advice.reasons[0].text and any(change in line for line in advice.would_change)
    for line in advice.would_change:
        if line.startswith("--engine "):  # what is named does help
            words = line.partition(",")[0].split()
            other = recommend(**asked | {"engine": words[1], "engine_version": None})
            assert other.candidate is not None
    assert advice_json(advice)["drafter"] is None


def test_an_engine_on_which_nothing_may_speculate_is_not_named() -> None:
    """SGLang's backend for Apple chips has no speculation (SD268)."""
    lines = recommend(hardware="apple-m3-ultra", model="qwen3-32b").would_change
    assert lines and not [line for line in lines if "sglang" in line]


def releases(engine: str, since: str) -> list[str]:
    """The first release that loads a drafter, and the newest."""
    found = [
        v for v in engines.get(engine).versions if (release(v) or ()) >= (release(since) or ())
    ]
    return list(dict.fromkeys((found[0], found[-1])))


CASES = [
    (ident, engine, drafter)
    for ident, drafter in every()
    for engine in drafter.engines
    if engine in ENGINES
]  # fmt: skip


@pytest.mark.parametrize(
    ("ident", "engine", "drafter"),
    spread(CASES, 3),
    ids=[f"{d.repository}-{e}" for _, e, d in CASES],
)
def test_its_own_launch_is_free_of_findings(ident: str, engine: str, drafter: Drafter) -> None:
    """Of any release it is read back as meant, and validate has neither error nor warning."""
    gpus, hardware = (8, "b300") if ident.startswith("kimi") or ident in LARGE else (2, "h200")
    quant = knowledge.quant_from_text(drafter.target)
    for version in releases(engine, drafter.engines[engine]):
        asked = {"model": ident, "engine": engine, "engine_version": version, "gpus": gpus}
        asked |= {"thinking": drafter.thinking, "hardware": hardware, "quant": quant and quant.id}
        known = facts(**asked, method=drafter.method, concurrency=4)
        base = propose.base_plan(known, (gpus, 1))
        k = methods.k_values(known, drafter.method)[-1]
        plan = propose.with_method(known, base, drafter.method, min(k, drafter.k_max or k))
        named = None if drafter.inside else drafter.repository
        plan = plan.model_copy(update={"draft_model": named, "model": drafter.target})
        text = recommend_module.launch_text(plan).text + "\n"
        report = validate(
            text, hw=hardware, gpus=gpus, concurrency=4, ctx=2048, engine_version=version
        )
        assert not [(version, f.code, f.message) for f in report.findings if f.severity != "info"]
        read = report.launches[0].plan
        assert (read.method, read.k, read.draft_model) == (plan.method, plan.k, named)


@pytest.mark.parametrize(("release", "head"), [("0.5.21", None), ("0.5.23", "--enable-dp-lm-head")])
def test_a_block_drafter_runs_beside_dp_attention_since(release: str, head: str | None) -> None:
    """SGLang 0.5.22, 0.5.23 arg_groups/speculative_hook.py: refused, then the head alone."""
    asked = {"hardware": "h200", "gpus": 8, "model": "kimi-k2.5", "engine": "sglang"}
    asked |= {"concurrency": 128, "ctx_tokens": 1024, "output_tokens": 1024}
    advice = recommend(**asked, engine_version=release, method="dflash")
    words = advice.launch_on.argv
    assert "DFLASH" in words and ("--enable-dp-attention" in words) == (head is not None)
    assert head is None or head in words
    assert not [f for f in advice.plan_findings if f.severity == "error"]
