"""What a person asks, as options: option values -> Request -> Advice.

The command line, the page and the tools for agents share it. Names of hardware and models are left
to the knowledge; what does not go together is refused here, in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from advisor import engines
from advisor.advice import recommend
from advisor.advice.spoken import split_count, split_engine, without_size
from advisor.domain.nouns import Advice, AdvisorError, Request, UnknownFact, clash
from advisor.knowledge import store as knowledge

if TYPE_CHECKING:
    from advisor.advice.own_runs.machine import Machine


def advice_for(asked: Mapping[str, Any], what_if: bool = True) -> Advice:
    """The answer to options as parsed (`hw`, `concurrency`, ...), `machine` among them.

    Without `what_if` it does not say what would change it. Raises AdvisorError in one sentence.
    """
    request, machine = question(asked)
    return recommend.recommend(request, machine=machine, what_if=what_if)


def question(asked: Mapping[str, Any]) -> tuple[Request, Machine | None]:
    """The request that the options make, and the user's machine where `machine` names one: its
    hardware then need not be told. Raises AdvisorError in one sentence.
    """
    machine = None
    if asked.get("machine"):
        from advisor.advice.own_runs.machine import load  # start-up: pydantic and YAML

        machine = load(asked["machine"])
    asked = {key: value for key, value in asked.items() if key != "machine"}
    if machine is not None and not asked.get("hw"):
        asked |= {"hw": machine.hardware, "gpus": asked.get("gpus") or machine.gpus}
    return request_from(asked), machine


def no_mtp_answer(asked: Mapping[str, Any]) -> str | None:
    """The plain answer for an engine that has no MTP path."""
    if not asked.get("engine"):
        return None
    return engines.no_mtp_answer(split_engine(asked["engine"])[0])


def request_from(asked: Mapping[str, Any]) -> Request:
    """Options as parsed -> Request. Raises AdvisorError for what does not go together."""
    told = {key: value for key, value in asked.items() if value is not None}
    hardware, gpus = _hardware(told)
    engine, version = split_engine(str(told.pop("engine", "")))
    if version and "engine_version" in told:
        raise AdvisorError(
            "the engine's version is given twice: use either --engine NAME@VERSION or "
            "--engine-version"
        )
    rates, length, k = (
        told.get(name) for name in ("acceptance", "acceptance_length", "acceptance_k")
    )
    if problem := clash(rates, length, k, "--acceptance"):
        raise AdvisorError(problem)
    told |= {"engine": engine or None, "engine_version": version or told.get("engine_version")}
    model = str(told.get("model", ""))
    if model.lower().endswith((".json", ".gguf")) and "/" not in model:
        told["model"] = f"./{model}"  # a file beside, as engines take it
    return Request(hardware=hardware, gpus=gpus, **told)


def _hardware(told: dict[str, Any]) -> tuple[str, int]:
    """Name and number of GPUs; `auto` asks the machine."""
    name = str(told.pop("hw", "")).strip()
    if not name:
        raise AdvisorError(
            "which hardware? give --hw NAME ('advisor hardware list' shows them), or --hw auto "
            "to ask this machine"
        )
    tp = told.get("tp", 1)
    gpus = told.pop("gpus", None)
    name, count = split_count(name)
    if count is not None:
        if gpus not in (None, count):
            raise AdvisorError(
                f"the number of GPUs is given twice: {count} x {name[:40]} and --gpus {gpus}"
            )
        gpus = count
    if name.lower() == "auto":
        found, count = _detection().detect()
        name, gpus = found.id, gpus or count
    else:
        name = _id_of_driver_name(without_size(name))
    gpus = gpus or tp
    if tp > gpus:
        raise AdvisorError(f"--tp {tp} needs at least as many GPUs: --gpus is {gpus}")
    return name, gpus


def _id_of_driver_name(name: str) -> str:
    """The id of what a driver calls "NVIDIA H100 80GB HBM3"; a name that is known, or that nobody
    knows, as it is.
    """
    try:
        knowledge.hardware(name)
    except UnknownFact:
        found = _detection().match(name)
        return found.id if found is not None else name
    return name


def _detection() -> ModuleType:
    from advisor.knowledge import detect  # start-up: only where the machine is asked

    return detect
