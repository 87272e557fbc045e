"""What may not change an answer, or may move it in one direction only, over drawn questions."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice

import pytest

from advisor import recommend
from advisor.advice.judge import candidate_plans
from advisor.advice.resolve import bare_facts
from advisor.cli.options import Tokens
from advisor.domain.nouns import Advice, AdvisorError, Request
from advisor.knowledge import store as knowledge
from advisor.prediction import estimates
from tests.cli_run import run
from tests.grid import GOALS, HARDWARE, LOADS, MODELS


def draw(seed: int) -> Iterator[Request]:
    """Questions that are answered."""
    dice = random.Random(seed)
    while True:
        (name, gpus, link), (clients, tokens) = dice.choice(HARDWARE), dice.choice(LOADS)
        asked = Request(hardware=name, gpus=gpus, interconnect=link, model=dice.choice(MODELS),
                        engine=dice.choice((None, "vllm", "sglang", "llama-server")),
                        concurrency=clients, ctx_tokens=tokens,
                        goal=dice.choice(GOALS))  # fmt: skip
        try:
            candidate_plans(bare_facts(asked))
        except AdvisorError:
            continue
        yield asked


def words(asked: Request) -> list[tuple[str, ...]]:
    """The options of a question, each with its value."""
    options = {"--hw": asked.hardware, "--gpus": asked.gpus, "--interconnect": asked.interconnect,
               "--model": asked.model, "--engine": asked.engine,
               "--concurrency": asked.concurrency, "--ctx": asked.ctx_tokens,
               "--goal": asked.goal}  # fmt: skip
    return [(name, str(value)) for name, value in options.items() if value is not None]


def essence(advice: Advice) -> tuple[object, ...]:
    return (advice.decision, advice.plan, advice.plan_off, advice.candidate, advice.launch.argv,
            advice.estimate, advice.plan_findings)  # fmt: skip


@pytest.mark.parametrize(
    "asked", [*islice(draw(1), 12)], ids=lambda r: f"{r.hardware}-{r.gpus}-{r.model}"
)
def test_more_bandwidth_never_slows_the_plain_server(asked: Request) -> None:
    facts = bare_facts(asked)
    question = candidate_plans(facts)
    hardware, plans = facts.hardware, question.plans or (question.base.plan,)
    before = 0.0
    for factor in (0.5, 1.0, 1.2, 4.0):
        rate = hardware.memory_bandwidth_gb_s
        rate = rate.model_copy(update={"value": factor * rate.value})
        faster = hardware.model_copy(update={"memory_bandwidth_gb_s": rate})
        changed = facts.model_copy(update={"hardware": faster})
        speed = estimates.estimate(changed, list(plans)[:1])[0].output_tok_s.baseline
        assert speed is not None and speed >= before * (1 - 1e-9), factor
        before = speed


NAMES = [(name, entry["id"]) for entry in knowledge.index()["hardware"].values()
         for name in entry.get("aliases", ())]  # fmt: skip


@pytest.mark.parametrize(("alias", "name"), random.Random(2).sample(NAMES, 12))
def test_another_name_of_the_hardware_is_the_same_question(alias: str, name: str) -> None:
    asked = {"concurrency": 8, "what_if": False}
    try:
        answer = recommend(hardware=name, **asked)
    except AdvisorError as refused:
        with pytest.raises(AdvisorError) as other:
            recommend(hardware=alias, **asked)
        assert str(other.value) == str(refused)
    else:
        assert essence(recommend(hardware=alias, **asked)) == essence(answer)


@pytest.mark.parametrize("spelling", ["Qwen3.6-35B-A3B", "QWEN3.6-35b", "qwen 3.6 35b a3b"])
def test_another_spelling_of_the_model_is_the_same_question(spelling: str) -> None:
    answers = [
        recommend(hardware="gb10", model=model, concurrency=8, what_if=False)
        for model in ("qwen3.6-35b-a3b", spelling)
    ]
    assert essence(answers[0]) == essence(answers[1])


@pytest.mark.parametrize(
    "asked", [*islice(draw(3), 6)], ids=lambda r: f"{r.hardware}-{r.gpus}-{r.model}"
)
def test_the_order_of_options_changes_nothing(asked: Request) -> None:
    options = words(asked)
    first = run("recommend", *(word for pair in options for word in pair))
    random.Random(4).shuffle(options)
    again = run("recommend", *(word for pair in options for word in pair))
    assert first.code == again.code and first.out == again.out and first.code == 0


ENVIRONMENTS = (
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC", "OMP_NUM_THREADS": "1"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "C.UTF-8", "TZ": "Pacific/Apia", "OMP_NUM_THREADS": "4"},
    {"PYTHONHASHSEED": "random", "LC_ALL": "tr_TR.UTF-8", "LANG": "de_DE", "PYTHONUTF8": "1"},
)

UTF8 = {"PYTHONIOENCODING": "utf-8", "COLUMNS": "100"}
SWEEP = ["sweep", "--hw", "gb10", "--vary", "ctx=512..131072"]


def test_hash_seed_locale_zone_and_threads_change_nothing() -> None:
    """Byte for byte; of an answer the JSON form, which has no mark that a locale could lack."""
    options = [word for pair in words(next(draw(5))) for word in pair]
    start = [sys.executable, "-c", "from advisor.cli.app import main; main()"]
    for call in (["recommend", *options, "--format", "json"], SWEEP):
        told = {
            subprocess.run(
                [*start, *call], env=os.environ | one | UTF8, capture_output=True, check=True
            ).stdout
            for one in ENVIRONMENTS
        }
        assert len(told) == 1 and len(told.pop()) > 1000


@pytest.mark.parametrize("text", ["8k", "8K", "8192", "8,192", "8k tokens", " 8192 "])
def test_a_number_of_tokens_has_many_spellings(text: str) -> None:
    assert Tokens(1, 10**7).convert(text, None, None) == 8192


PAIRS = (one for one in draw(6) if one.gpus == 1 and one.engine in ("vllm", "sglang"))


@pytest.mark.parametrize(
    "asked", [*islice(PAIRS, 8)], ids=lambda r: f"{r.hardware}-{r.model}-{r.concurrency}"
)
def test_twice_the_gpus_and_load_are_two_such_servers(asked: Request) -> None:
    """Replicas share nothing: twice the tokens, each as fast as before, and the same gain."""
    one = asked.model_copy(update={"tp": 1})
    alone = recommend(one, what_if=False)
    quant = alone.facts.quant.id if alone.facts.quant else None
    both = {"gpus": 2, "concurrency": 2 * asked.concurrency, "quant": quant}
    pair = recommend(one.model_copy(update=both), what_if=False)
    assert pair.plan.dp == 2 and (pair.decision, pair.plan.k) == (alone.decision, alone.plan.k)
    here, there = alone.estimate, pair.estimate
    assert there.output_tok_s.baseline == pytest.approx(2 * (here.output_tok_s.baseline or 0))
    assert there.output_tok_s.speedup.p50 == pytest.approx(here.output_tok_s.speedup.p50)
    assert there.tpot_ms.baseline == pytest.approx(here.tpot_ms.baseline)
