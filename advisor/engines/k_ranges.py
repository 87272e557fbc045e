"""A k per batch size in each engine's words. SGLang routes a batch, padded to the next CUDA graph
size, to the tier with the nearest key below (adaptive_spec_params.py, 0.5.14 to 0.5.23); with one
candidate a tier its k is fixed.
"""

import json
from collections.abc import Sequence

from advisor.domain.nouns import AdvisorError, Plan
from advisor.domain.records import NamedTuple
from advisor.domain.versions import before
from advisor.engines import get
from advisor.engines.sglang import ADAPTIVE_FILE

Ranges = Sequence[tuple[int, int, int]]  # (batch from, batch to, k)
SPECULATIVE = "--speculative-config"
STEPS = "--speculative-"  # SGLang's options of speculation start so
SCHEDULE_SINCE = "0.24.0"


class KRangeArguments(NamedTuple):
    """Ranges as an engine takes them: the arguments that say them, and the file that they name."""

    arguments: tuple[str, ...]
    file_name: str | None = None
    file_text: str | None = None


def schedule_arguments(plan: Plan, ranges: Ranges) -> KRangeArguments:
    """The arguments for a plan with these ranges. Raises AdvisorError for one k only."""
    if plan.engine == "vllm":
        return _vllm(plan, ranges)
    if plan.engine == "sglang":
        return _sglang(plan, ranges)
    raise AdvisorError(f"{plan.engine} takes one k for all batch sizes")


def files(plan: Plan) -> dict[str, str]:
    """The files (name -> text) that the words of the plan's launch name."""
    if plan.engine != "sglang" or not plan.k_schedule:
        return {}
    table = {str(first): {"candidate_steps": [k]} for first, _, k in plan.k_schedule}
    return {ADAPTIVE_FILE: json.dumps(table) + "\n"}


def _vllm(plan: Plan, ranges: Ranges) -> KRangeArguments:
    if plan.dp > 1:
        raise AdvisorError("with data parallelism vLLM switches a k per batch size off")
    if before(plan.engine_version, SCHEDULE_SINCE):
        raise AdvisorError(f"vLLM takes a k per batch size from {SCHEDULE_SINCE} on")
    launch = get(plan.engine).to_launch(
        plan.replace(k=max(k for _, _, k in ranges), k_schedule=tuple(ranges))
    )
    flag = launch.flag(SPECULATIVE)
    if flag is None or flag.value is None:
        raise AdvisorError(f"vLLM takes no ranges of k for {plan.method}")
    return KRangeArguments((SPECULATIVE, flag.value))


def _sglang(plan: Plan, ranges: Ranges) -> KRangeArguments:
    adaptive = plan.replace(k_schedule=tuple(ranges))
    launch = get(plan.engine).to_launch(adaptive)
    flags = [flag for flag in launch.flags if flag.name.startswith(STEPS)]
    told = [part for flag in flags for part in (flag.name, flag.value) if part is not None]
    ((name, text),) = files(adaptive).items()
    return KRangeArguments(tuple(told), name, text)
