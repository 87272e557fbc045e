"""Drawn questions over machines of 1 to 64 GPUs: each launch has the ranks of its machines, a
context that the model has, memory that is there, and files in which our own rules find no error.
"""

import random
from functools import partial
from math import ceil
from typing import Any

import pytest

from advisor import validate
from advisor.advice import recommend
from advisor.advice.plans import topology
from advisor.domain.nouns import Advice, AdvisorError, Plan, Request
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge
from advisor.perf import memory
from advisor.perf.sizes import device
from advisor.perf.sizes.pools import shares_context
from advisor.render.forms import FORMS, STARTS
from tests.advice.test_machines import options, world
from tests.grid import launches
from tests.refusals import refusals

GPUS = (1, 1, 1, 2, 4, 8, 16, 32, 64)
LOADS = ((1, 2048), (1, 32768), (4, 8192), (16, 2048), (64, 4096), (512, 1024))
WORKLOADS = ("mixed", "chat", "code", "agent", "rag")
MACHINES = [name for name in knowledge.hardware_ids() if not name.startswith("mix-")]
MODELS = [name for name in knowledge.llm_ids() if not name.startswith("unknown")]


def draw_questions(size: int, seed: int) -> list[Request]:
    """Questions, the same every time."""
    draw = random.Random(seed)
    questions = []
    for _ in range(size):
        concurrency, tokens = draw.choice(LOADS)
        fields: dict[str, Any] = {
            "hardware": draw.choice(MACHINES),
            "gpus": draw.choice(GPUS),
            "interconnect": draw.choice((None, None, "roce", "ethernet")),
            "engine": draw.choice((None, "vllm", "sglang", "llama-server")),
            "model": draw.choice(MODELS),
            "concurrency": concurrency,
            "ctx_tokens": tokens,
            "workload": draw.choice(WORKLOADS),
        }
        questions.append(Request(**fields))
    return questions


def answer_all(size: int, seed: int) -> list[Advice]:
    """The answers of those that have one."""
    advices = []
    for question in draw_questions(size, seed):
        try:
            advices.append(recommend.recommend(question, what_if=False))
        except AdvisorError:
            continue
    assert len(advices) > size // 5
    return advices


def check_ranks(advice: Advice, plan: Plan) -> None:
    """Ranks of a server are those of its machines, and servers together use the GPUs."""
    facts = advice.facts
    if not traits(plan.engine).replicas:
        return
    told = options(facts, plan)
    ranks, nodes = world(told), told.get("--nnodes", 1)
    assert ranks <= nodes * (topology.board_gpus(facts) or facts.gpus) and ranks % nodes == 0
    assert plan.dp == facts.gpus // (plan.tp * plan.pp)  # idle is what no whole server fits on


def check_room(advice: Advice, plan: Plan) -> None:
    """The context is the model's at most, the memory holds the plan, and no more slots than run."""
    top = advice.facts.model.max_context_tokens if advice.facts.model is not None else None
    assert top is None or plan.max_model_len is None or plan.max_model_len <= top
    served = memory.replica(advice.facts, plan)
    host = any(name in ("--cpu-moe", "--n-cpu-moe") for name, _ in plan.extra)
    bill = memory.bill(served, plan)
    # what drafts may be measured where it is short by no more than bills were wrong by
    close = plan.method != "none" and device.nearly_fits(plan, bill)
    assert bill.fits is not False or host or close
    assert not [one for one in advice.plan_findings if one.severity == "error"]
    room = memory.room(served, plan, (served.ctx_tokens or 2048) + (served.output_tokens or 512))
    # slots that share a context are more than the long requests that it holds
    slots = served.concurrency if shares_context(plan) else plan.max_num_seqs
    fits = host or close or room is None or (slots or 1) <= max(room, 1.0)
    assert fits, (advice.request, plan)


def check_launch(advice: Advice) -> None:
    """The catalogue has each option, and `validate` no warning that the answer does not carry."""
    for engine, version, argv, _ in launches(advice):
        assert version is None or not refusals(engine, argv, version), argv
    request = advice.request
    # replicas on several machines: the launch is that of one machine, with its share
    share = topology.on_each(advice.facts, advice.plan).dp / advice.plan.dp
    report = validate(
        text=advice.launch.text,
        engine_version=advice.plan.engine_version,
        hw=request.hardware,
        gpus=int(advice.facts.gpus * share),
        concurrency=ceil((advice.facts.concurrency or 1) * share),
        ctx=request.ctx_tokens,
        output_tokens=request.output_tokens,
        workload=request.workload,
    )
    extra = {f.code for f in report.findings if f.severity != "info"}
    assert not extra - {f.code for f in advice.plan_findings}, (request, extra)


def check_forms(advice: Advice) -> None:
    for form in STARTS:
        try:
            text = FORMS[form].write(advice)
        except AdvisorError:  # no container there, several machines, another engine
            continue
        judged = partial(validate, None, text=text, name=FORMS[form].file)
        errors = [
            finding
            for hardware in (None, advice.request.hardware)
            for finding in judged(hw=hardware).findings
            if finding.severity == "error"
        ]
        assert not errors, (form, errors[0].code, errors[0].message, advice.request)


def check(size: int, seed: int) -> None:
    for advice in answer_all(size, seed):
        for plan in (advice.plan, advice.plan_off, advice.candidate):
            if plan is not None:
                check_ranks(advice, plan)
                check_room(advice, plan)
        check_launch(advice)
        check_forms(advice)


def test_a_sample_starts() -> None:
    check(24, 38)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_every_answer_starts(seed: int) -> None:
    check(100, seed)
