"""A user's own runs as cases of the predictor: the question with what a run states in its place.

What a run does not state, of its load or of its plan, is the question's, and so makes no difference
between the two: a run of the very setting that is asked for is what was measured.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from advisor import engines
from advisor.domain.nouns import Facts, OwnRun, Plan
from advisor.domain.records import NamedTuple
from advisor.engines.traits import traits
from advisor.engines.vllm import ADAPTIVE
from advisor.knowledge import drafters
from advisor.knowledge import store as knowledge
from advisor.perf import arrays, memory
from advisor.perf.arrays import Floats, Ints
from advisor.perf.encoding.encode_plans import from_questions
from advisor.perf.steps import busy, in_step

_LOAD = {  # field of the facts -> of an own run
    "concurrency": "concurrency", "ctx_tokens": "input_tokens", "output_tokens": "output_tokens",
    "output_spread": "output_spread", "workload": "workload", "temperature": "temperature",
    "gpus": "gpus", "engine_version": "engine_version",
}  # fmt: skip
_WHOLE = ("concurrency", "ctx_tokens", "output_tokens")  # counts
_NOT_ASKED = ("request", "checkpoint", "evidence", "own_runs", "defaults", "concurrency")


class RunCases(NamedTuple):
    """Own runs as N cases see them: M runs in each of C contexts, which differ in what some run
    does not state.
    """

    runs: tuple[OwnRun, ...]
    points: arrays.Points  # (2 * C * M,), then the same with the acceptance that the runs state
    busy: Floats  # batches that shared what a run measured (C, M)
    context: Ints  # of each case (N,)

    def ran(self, context: int) -> slice:
        """Where the runs of a context stand in what is computed of the cases and `points`; those
        with their acceptance follow, as if of `len(busy)` more contexts.
        """
        start = len(self.context) + context * len(self.runs)
        return slice(start, start + len(self.runs))


def of_cases(cases: Sequence[tuple[Facts, Plan]]) -> RunCases | None:
    """The own runs of the facts as each case sees them; None where there are none."""
    # what was verified adaptively stands beside as a fixed block (advice/adaptive.py)
    runs = tuple(run for run in cases[0][0].own_runs if not adaptive(run))
    if not runs:
        return None
    seen: dict[Hashable, int] = {}
    context = np.array([seen.setdefault(_context(*case), len(seen)) for case in cases])
    first = np.unique(context, return_index=True)[1]
    steps = [as_case(run, *cases[i]) for i in first for run in runs]
    points = from_questions([(facts, [plan]) for facts, plan, _ in steps])
    lengths = [np.nan if run.accepted_length is None else run.accepted_length for run in runs]
    stated = points.replace(given_length=np.resize(lengths, len(points)))
    shared = np.array([batches for *_, batches in steps]).reshape(len(first), len(runs))
    return RunCases(runs, arrays.concat([points, stated]), shared, context)


def adaptive(run: OwnRun) -> bool:
    """Whether the engine chose by itself how many drafts of a block it verified."""
    return (ADAPTIVE, "true") in dict(run.plan).get("extra", ())


def _context(facts: Facts, plan: Plan) -> Hashable:
    """What tells the plans and loads apart in which a run may be seen differently: all that it may
    leave open. Every run states its k and its load.
    """
    known: list[Hashable] = [plan.replace(k=0, k_schedule=())]
    for name, value in facts:
        if name not in _NOT_ASKED:
            known.append(value if isinstance(value, str | float | None) else id(value))
    return (*known, _waits(facts, plan), facts.request and facts.request.max_num_seqs)


def as_case(run: OwnRun, facts: Facts, plan: Plan) -> tuple[Facts, Plan, float]:
    """The facts and the plan of a case with what the run states in their place, as one of its steps
    sees them, and how many such batches ran at once.
    """
    asked = {name: getattr(run, field) for name, field in _LOAD.items()}
    stated: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    stated |= {name: max(round(stated[name]), 1) for name in _WHOLE if name in stated}
    if facts.model is None or run.model != facts.model.id:
        model = knowledge.llm_by_name(run.model)
        stated |= {"model": model, "shape": knowledge.known_shape(model)}
        stated["drafters"] = knowledge.drafters(model)
    if run.quant is not None:
        stated["quant"] = knowledge.quant(run.quant)
    if run.engine_version or run.engine != plan.engine:
        named = engines.get(run.engine).resolve_version(run.engine_version)
        stated["engine_version"] = named.version or run.engine_version
    if facts.request is not None:  # the acceptance that is asked with is the question's alone
        stated["request"] = facts.request.replace(
            acceptance=None, acceptance_length=None, acceptance_k=None
        )
    # the load of a step follows from the run's own layout, not from the question's
    there = facts.replace(**stated | {"engine": run.engine, "mean_batch": None})
    ran = _plan(run, facts, plan, there)
    share, step = in_step(there, ran)
    return share, step, busy(there, ran)


def _plan(run: OwnRun, facts: Facts, plan: Plan, there: Facts) -> Plan:
    """The plan of a case with what the run states in its place; `there`: the facts of the run."""
    stated: dict[str, Any] = (
        {"k_schedule": ()} | ({"tp": run.tp} if run.tp else {}) | dict(run.plan)
    )
    stated |= {"engine": run.engine, "engine_version": there.engine_version}
    if there.model is not facts.model or run.method != plan.method:
        picked = drafters.pick(there, run.method, run.model)
        stated = {"draft_model": picked.repository if picked is not None else None} | stated
    ran = plan.replace(**stated | {"method": run.method, "k": run.k})
    ran = ran.replace(**_layout(stated, plan, there.gpus, traits(run.engine).replicas))
    if plan.max_model_len and "max_model_len" not in stated:
        ran = ran.replace(max_model_len=max(plan.max_model_len, there.length))
    if plan.max_num_seqs and "max_num_seqs" not in stated:
        # of all stages; a run is not taken to have waited where the question does not
        slots = plan.max_num_seqs * plan.pp
        if not _waits(facts, plan):
            slots = max(slots, -(-there.load // ran.dp))
        room = memory.room(there, ran, there.length) if _pages(ran) else None
        if room and plan.max_num_seqs * plan.pp * plan.dp < facts.load:
            # slots of all arms are those of the longest draft
            here = memory.room(facts, plan.replace(method=run.method, k=run.k), facts.length)
            room = round(room * min(plan.max_num_seqs / (here or 1.0), 1.0))
        ran = ran.replace(max_num_seqs=slots if room is None else min(slots, max(int(room), 1)))
    return ran


def _layout(stated: Mapping[str, Any], plan: Plan, gpus: int, replicas: bool) -> dict[str, int]:
    """Ranks, stages and replicas on so many GPUs: as stated, else as in the plan."""
    if not replicas:
        return {"tp": stated.get("tp", plan.tp if gpus == plan.tp * plan.pp else gpus), "dp": 1}
    pp = stated.get("pp", min(plan.pp, gpus))
    tp = stated.get("tp", min(plan.tp, max(gpus // pp, 1)))
    return {"tp": tp, "pp": pp, "dp": stated.get("dp", max(gpus // (tp * pp), 1))}


def _pages(plan: Plan) -> bool:
    """Whether requests share a pool of memory, which then limits them beside the slots."""
    return traits(plan.engine).pool != "slots"


def _waits(facts: Facts, plan: Plan) -> bool:
    """Whether requests of a case wait for a slot, and not for memory."""
    limited = facts.question.max_num_seqs is not None or not _pages(plan)
    return limited and (plan.max_num_seqs or math.inf) < facts.load
