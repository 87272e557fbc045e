"""Whether a model has an MTP head, over all models: nothing says "has none" of what is not known or
was measured.
"""

import re
from statistics import median

import pytest
from cli_run import run

from advisor import recommend
from advisor.advice.explain.what_if import no_method
from advisor.advice.plans import methods, propose
from advisor.advice.resolve import bare_facts
from advisor.domain.nouns import Checkpoint, DraftMethod, Request
from advisor.knowledge import evidence, heads, store

DENIED = re.compile(r"nothing to speculate|no drafter is known|none is known for|cannot speculate")
HAS_NONE = "has no MTP head"


def models() -> list[str]:
    names = [name for name in store.llm_ids() if not store.llm(name).is_class]
    return [name for name in names if name != "hochelaga-8b"]  # known by its name alone: refused


def with_pairs(name: str) -> set[tuple[str, str]]:
    """Runs of a model with and without drafting, each once, counted without `heads`."""
    speeds = {"output_tok_s", "request_tok_s", "tpot"}
    return {
        (pair["method"], pair["run_id"])
        for pair in evidence.pairs()
        if pair["model"] == name and pair["metric"] in speeds
    }


@pytest.mark.parametrize("i", range(len(models())))
def test_no_model_is_denied_what_is_not_known(i: int) -> None:
    """Each model on one engine, with any method and with a stated one."""
    for method in (None, ("mtp", "dflash")[i % 2]):
        check_denied(models()[i], ("vllm", "sglang", "llama-server")[i % 3], method)


def check_denied(name: str, engine: str, method: DraftMethod | None) -> None:
    model = store.llm(name)
    facts = bare_facts(Request(hardware="b300", gpus=64, model=name, engine=engine, method=method))
    said = no_method(facts, propose.base_plan(facts, propose.splits(facts)[0]))
    assert not DENIED.search(said), said
    keeps = any(one.keeps_mtp for one in store.checkpoints(model)) and not model.assistant
    if keeps or (model.mtp_layers or 0) > 0:
        assert HAS_NONE not in said
    if HAS_NONE in said:
        assert heads.head(model).has is False and heads.head(model).source
    if methods.may_draft(facts) and method is None and (pairs := with_pairs(name)):
        counts = [int(text) for text in re.findall(r"(\d+) A/B runs?,", said)]
        assert sum(counts) == len(pairs) or "published drafters are for" in said, said


@pytest.mark.parametrize(
    ("layers", "kept", "has"),
    [
        (1, (), True),
        (3, (False,), True),
        (0, (), False),
        (0, (True,), False),  # an assistant beside a model without a head
        (None, (True, False), True),
        (None, (False, False), False),
        (None, (False, None), None),
        (None, (None,), None),
        (None, (), None),
    ],
)
def test_a_head_is_there_or_not(
    layers: int | None, kept: tuple[bool | None, ...], has: bool | None
) -> None:
    published = tuple(
        Checkpoint(quant="fp8", repository=f"a/b{i}", keeps_mtp=keeps, source="card")
        for i, keeps in enumerate(kept)
    )
    changed = {"id": "none-such", "mtp_layers": layers, "checkpoints": published, "proxy": None}
    model = store.llm("hy3").model_copy(update={**changed, "total_params_b": None})
    assert heads.head(model).has is has


@pytest.mark.parametrize("name", ["minicpm3", "apertus-1.5-8b", "nemotron-3-nano-30b-a3b"])
def test_what_others_measured_is_told_with_its_median(name: str) -> None:
    pairs = [
        float(pair["speedup"])
        for pair in evidence.pairs(heads.measurements(name)[0].method)
        if pair["model"] == name and pair["metric"] == "output_tok_s"
    ]
    advice = recommend(hardware="h200", gpus=8, model=name, engine="vllm")
    assert advice.decision == "measure" and advice.launch_on is None
    said = " ".join(reason.text for reason in advice.reasons)
    assert f"{len(pairs)} A/B runs, median {median(pairs):.2f}x" in said


@pytest.mark.parametrize("name", ["ling-2.6-1t", "ring-2.6-1t"])
def test_commands_agree_that_a_head_may_be_there(name: str, tmp_path: object) -> None:
    repository = store.checkpoint(store.llm(name), "fp8", "vllm", "none")
    spec = '{"method":"mtp","num_speculative_tokens":1}'
    file = f"{tmp_path}/launch.sh"
    with open(file, "w", encoding="utf-8") as out:
        out.write(f"vllm serve {repository.repository} -tp 8 --speculative-config '{spec}'\n")
    load = ("--hw", "b300", "--gpus", "8", "--concurrency", "8", "--ctx", "2048")
    said = [
        run("validate", file, *load),
        run("why-not", "k=1", "--model", name, "--engine", "vllm", *load),
        run("recommend", "--model", name, "--engine", "vllm", *load),
        run("recommend", "--model", name, "--engine", "vllm", "--method", "mtp", *load),
    ]
    for one in said:
        text = " ".join(one.out.split())
        assert "MTP head" in text and "speculation off" not in text, text
        assert not re.search(r"\bOFF\b(?! ON)", text), text  # besides `advisor ab OFF ON`


def test_a_run_that_states_any_speed_counts_once() -> None:
    runs: dict[str, set[str]] = {}
    for method in {group["method"] for group in evidence.index().groups}:
        for pair in evidence.pairs(method):
            if pair["metric"] != "ttft":
                runs.setdefault(pair["model"], set()).add(pair["run_id"])
    assert {"qwq-32b", "ornith-1.5-9b", "mimo-v2.6-flash-rl"} <= runs.keys()
    for name, each in runs.items():
        assert sum(one.pairs for one in heads.measurements(name)) == len(each), name
