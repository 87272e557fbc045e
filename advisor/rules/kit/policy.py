"""What a finding does to the decision, and the sourced numbers that the memory, speed and evidence
rules compare with.

A finding's `effect`, which the decision reads: "veto", the engine does not run here; "k_max", the
largest k that published sweeps support (larger ones are set aside); "support", a documented gain,
with the k that its sweep prefers (k_best); "loss", documented losses of this very regime;
"caution", losses nearby or conflicting evidence. It never raises the severity.

Documented losses are observations of the posterior (prediction/documented.py), which alone decides
on or off; where they lie, perf/regimes says, to rules and estimate alike.
"""

from collections.abc import Callable, Mapping
from typing import Any

from advisor import engines
from advisor.domain.nouns import Case, Effect, Facts, MemoryBill, Plan
from advisor.domain.question import USUAL_OUTPUT
from advisor.domain.records import NamedTuple
from advisor.engines.vllm import verifies_adaptively
from advisor.knowledge.rule_data import number as figure
from advisor.perf import memory
from advisor.perf.regimes.losses import Strength
from advisor.perf.regimes.setting import Setting, Word, is_narrow, is_sparse, is_suffix
from advisor.perf.regimes.setting import matches as fits
from advisor.perf.sizes.device import captured_tokens, without_graphs
from advisor.perf.sizes.pools import EXPERTS
from advisor.rules.kit.case import is_hybrid, number, rows
from advisor.rules.registry import Lacking

GRAPHLESS = ("apple", "intel", "huawei")
KV_BYTES = "--kv-cache-memory-bytes"
_SIZES = (
    *("--tensor-parallel-size", "--tp-size", "--pipeline-parallel-size", "--pp-size"),
    *("--gpu-memory-utilization", "--mem-fraction-static", KV_BYTES),
)
NAN = float("nan")


def matches(row: Mapping[str, Any], case: Case) -> bool:
    """Whether a row's plain filters fit the case: a filter that is absent fits all, one whose fact
    is unknown does not.

    Filters: engine, method, hardware, vendor, hardware_class, arch, family, quant, quant_family,
    model, model_arch (lists of names); sparse_moe, unified (booleans); concurrency, ctx_tokens, k,
    total_params_b (closed ranges [low, high], null = open).
    """
    # where nothing is drafted no range of k holds
    return bool((case.plan.k or "k" not in row) and fits(row, setting_of(case)))


def first_match(case: Case, name: str) -> Mapping[str, Any] | None:
    """The first row of a list of knowledge/rules/regime.json whose filters fit the case."""
    return next((row for row in rows("regime", name) if matches(row, case)), None)


def is_sparse_moe(case: Case) -> bool | None:
    """Whether few parameters are active (A3B); None where the model is not known."""
    model = case.facts.model
    return None if model is None else is_sparse(model, case.facts.shape)


def streams(case: Case) -> int | None:
    """Concurrent requests per replica (rounded up); None where the load is not known."""
    asked = case.facts.concurrency
    return None if asked is None else -(-asked // max(1, case.plan.dp))


def each_replica(case: Case) -> str:
    """What follows a number of requests that is the share of one replica; "" where it is all."""
    return f" of each of the {case.plan.dp} replicas" if case.plan.dp > 1 else ""


def concurrent_requests(case: Case) -> int | None:
    """Requests that have a slot in a replica; None where the load is not known."""
    asked = streams(case)
    return None if asked is None else min(asked, case.plan.max_num_seqs or asked)


def graphs_end(facts: Facts, plan: Plan) -> tuple[int, int] | None:
    """Tokens of a step up to which vLLM captures CUDA graphs, and the requests at once whose verify
    steps these hold, of all replicas. None without graphs, or where the engine weighs their loss.
    """
    lacks = plan.engine != "vllm" or facts.device.vendor in GRAPHLESS or without_graphs(plan)
    if lacks or plan.k < 1 or plan.k_schedule or verifies_adaptively(plan):
        return None
    tokens = captured_tokens(plan) or int(figure("regime", "graph_tokens"))
    return tokens, tokens // (plan.k + 1) * plan.dp


_asked: tuple[Case | None, Setting | None] = (None, None)
_last: tuple[object, object, MemoryBill | None] = (None, None, None)


def leaves_no_pool(found: MemoryBill) -> bool:
    """Whether weights, drafter and buffers alone are more than the memory that may be taken."""
    fixed = found.weights_gib + found.spec_gib + found.overhead_gib
    return found.available_gib is not None and fixed > found.available_gib


def unknown_sizes(case: Case) -> tuple[Lacking, ...]:
    """The options of memory whose value only a variable knows, or no server takes: no bill then."""
    wrong = engines.get(case.plan.engine).not_taken(case.launch, case.plan)
    if not wrong and not case.unread():
        return ()
    names = tuple(name for name in _SIZES if name in wrong or case.open_value(name))
    if case.launch.open_end and case.plan.tp * case.plan.pp == 1:
        names = (*names, "options that the file does not say")
    return (Lacking(names),) if names else ()


def bill(case: Case) -> MemoryBill | None:
    """The memory bill of the plan; None where hardware, model shape or quantisation is not known,
    or where a variable says over how many devices it is spread.
    """
    global _last  # noqa: PLW0603 - one slot: the rules of a family ask for the same bill in a row
    facts, plan = case.facts, case.plan
    if unknown_sizes(case):
        return None
    asked = number(case, KV_BYTES)
    own = asked / (1 << 30) if asked else None
    place = case.launch.container.kind if case.launch.container is not None else ""
    # vLLM's replicas share the experts without that option too; Ray Serve's are servers
    if not case.launch.emitted and plan.dp > 1 and place != "ray-serve":
        plan = plan.replace(extra=(*plan.extra, (EXPERTS, None)))
    elif case.estimate is not None and case.estimate.memory is not None:
        return _with_kv(case.estimate.memory, own)
    if facts.hardware is None or None in (facts.hardware.memory_gb, facts.quant, facts.shape):
        return None
    if _last[0] is not facts or _last[1] is not plan:
        _last = (facts, plan, memory.bill(facts, plan))
    return _with_kv(_last[2], own)


def _with_kv(found: MemoryBill | None, own: float | None) -> MemoryBill | None:
    """The bill with a KV cache of so many GiB, which then is not what the share leaves."""
    if found is None or own is None or not found.kv_gib or found.kv_tokens is None:
        return found
    return found.replace(kv_gib=own, kv_tokens=int(found.kv_tokens * own / found.kv_gib))


def running_requests(case: Case, k: int | None = None) -> int | None:
    """Requests that one replica runs at once with k drafted tokens (the plan's own by default):
    those that are asked for, have a slot and find room in the KV pool, where that is known; the
    others wait. None where the load is not known.
    """
    asked, facts = concurrent_requests(case), case.facts
    if asked is None:
        return None
    if facts.ctx_tokens is None or facts.hardware is None or facts.quant is None:
        return asked
    plan = case.plan if k is None else case.plan.replace(k=k)
    known = case.estimate.memory if k is None and case.estimate is not None else None
    held = memory.max_requests(
        facts, plan, facts.pool_tokens or facts.ctx_tokens + (facts.output_tokens or 0), known
    )
    return asked if held is None else min(asked, held)


def demand_tokens(case: Case) -> int | None:
    """KV tokens that one replica holds when all streams are at full length."""
    asked, ctx = streams(case), case.facts.ctx_tokens
    if asked is None or ctx is None:
        return None
    return asked * (case.facts.pool_tokens or ctx + (case.facts.output_tokens or 0))


class Said(NamedTuple):
    """What a regime does to the estimate, and how strongly, 0 to 1; None and 0: nothing."""

    effect: Effect | None
    strength: float


def regime(case: Case, of: Callable[[Setting], Strength]) -> Said:
    """What one regime of perf/regimes/losses.py says of a case."""
    found = of(setting_of(case))
    if found.loss > 0:
        return Said("loss", float(found.loss))
    return Said("caution", float(found.caution)) if found.caution > 0 else Said(None, 0.0)


def setting_of(case: Case) -> Setting:
    """The words and numbers by which regimes are told apart."""
    global _asked  # noqa: PLW0603 - one slot: dozens of rows are compared with the same case
    if _asked[0] is case and _asked[1] is not None:
        return _asked[1]
    facts, plan = case.facts, case.plan
    hw, model, quant = facts.hardware, facts.model, facts.quant
    sparse = model is not None and is_sparse(model, facts.shape)
    narrow = is_narrow(plan.kv_cache_dtype) or (quant is not None and quant.family == "nvfp4")
    shape = facts.shape or model
    total = model.total_params_b if model is not None else None
    at_once = concurrent_requests(case)
    setting = Setting(
        engine=Word(plan.engine),
        method=Word(plan.method),
        hardware=Word(hw.id if hw is not None else None),
        vendor=Word(hw.vendor if hw is not None else None),
        hardware_class=Word(hw.hardware_class if hw is not None else None),
        arch=Word(hw.arch if hw is not None else None),
        model=Word(model.id if model is not None else None),
        family=Word(model.family if model is not None else None),
        model_arch=Word(model.arch if model is not None else None),
        quant=Word(quant.id if quant is not None else None),
        quant_family=Word(quant.family if quant is not None else None),
        workload=Word(facts.workload),
        backend=Word((plan.attention_backend or "").upper() or None),
        known=hw is not None,
        unified=bool(hw is not None and hw.unified_memory),
        sparse=sparse,
        dense=model is not None and not sparse,
        hybrid=bool(is_hybrid(case)),
        latent=bool(shape is not None and shape.arch.startswith("mla")),
        wide_kv=not narrow,
        suffix=plan.method == "ngram" and is_suffix(plan),
        total_params_b=NAN if total is None else float(total),
        streams=NAN if at_once is None else float(at_once),
        ctx=NAN if facts.ctx_tokens is None else float(facts.ctx_tokens),
        output=float(facts.output_tokens or USUAL_OUTPUT),
        k=float(plan.k),
    )
    _asked = (case, setting)
    return setting
