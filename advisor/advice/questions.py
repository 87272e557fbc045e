"""What a person asks, as options of a command line, page or agent -> Request -> Advice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from advisor import engines
from advisor.advice import recommend, spoken
from advisor.domain.nouns import Advice, AdvisorError, Request, clash
from advisor.domain.printable import excerpt
from advisor.domain.shell import is_utf8
from advisor.knowledge import store as knowledge

if TYPE_CHECKING:
    from advisor.advice.explore.values import Policy
    from advisor.advice.own_runs.machine import Machine


def advice_for(asked: Mapping[str, Any], what_if: bool = True) -> Advice:
    """The answer to options as parsed (`hw`, `concurrency`, ...), `machine` among them; for a range
    of requests that of the most with the launch that loses least over all. Raises AdvisorError.
    """
    policy = policy_for(asked)
    advice = recommend.recommend(question(asked), what_if=what_if and policy is None)
    if policy is None:
        return advice
    from advisor.advice.explore.policy import as_advice  # start-up: only for a range

    return as_advice(policy, advice)


def policy_for(asked: Mapping[str, Any]) -> Policy | None:
    """One launch for requests (least, most), None without drafts. Raises AdvisorError."""
    load = asked.get("concurrency")
    if not isinstance(load, tuple) or load[0] == load[1]:
        return None
    if load[0] > load[1]:
        raise AdvisorError("write the smaller number of a range first")
    from advisor.advice.explore.policy import over_range  # start-up: only for a range

    return over_range(question(asked), load[0])


def question(asked: Mapping[str, Any]) -> Request:
    """The request that the options make, with the user's machine (`machine`, or a folder of
    `receipts`): its hardware and what its runs share need not be told. Raises AdvisorError.
    """
    machine = None
    if asked.get("machine") or asked.get("receipts"):
        from advisor.advice.own_runs.receipt import machine_for  # start-up: pydantic and YAML

        named = {key: asked.get(key) for key in ("hw", "gpus")}
        hardware = knowledge.hardware(_hardware(named)[0]).id if named["hw"] else None
        machine = machine_for(asked.get("machine"), asked.get("receipts"), hardware)
    own = asked.get("machine")
    asked = {key: value for key, value in asked.items() if key not in ("machine", "receipts")}
    if machine is not None and not asked.get("hw"):
        asked |= _measured_setting(machine, asked) if own else {}
        asked |= {"hw": machine.hardware, "gpus": asked.get("gpus") or machine.gpus}
    return request_from(asked).replace(machine=machine)


def _measured_setting(machine: Machine, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Model, engine, release and quantisation that runs have in common, those that are as asked."""
    named = "@" in str(asked.get("engine"))
    names = ("model", "engine", "quant", *(() if named else ("engine_version",)))
    runs = [run for run in machine.runs if run.engine in engines.ENGINES]  # else refused later
    given = {n: str(asked[n]).lower().partition("@")[0] for n in names if asked.get(n)}
    alike = [run for run in runs if all(getattr(run, n) == word for n, word in given.items())]
    common = {n: {getattr(run, n) for run in alike} for n in names if n not in given}
    return {n: found.pop() for n, found in common.items() if len(found) == 1 and None not in found}


def no_mtp_answer(asked: Mapping[str, Any]) -> str | None:
    """The plain answer for an engine that has no MTP path."""
    if not asked.get("engine"):
        return None
    return engines.no_mtp_answer(spoken.split_engine(asked["engine"])[0])


def request_from(asked: Mapping[str, Any]) -> Request:
    """Options as parsed -> Request. Raises AdvisorError for what does not go together."""
    fields = {key: value for key, value in asked.items() if value is not None}
    if isinstance(load := fields.get("concurrency"), tuple):
        fields["concurrency"] = load[1]
    for name, value in fields.items():
        if isinstance(value, str) and not is_utf8(value):
            raise AdvisorError(
                f"{name} '{excerpt(value)}' is not text in UTF-8, which a launch has to be: "
                "rename it"
            )
    hardware, gpus = _hardware(fields)
    engine, release = spoken.engine_and_release(
        str(fields.pop("engine", "")), fields.get("engine_version")
    )
    fields |= {"engine": engine or None, "engine_version": release}
    rates, length = fields.get("acceptance"), fields.get("acceptance_length")
    if problem := clash(rates, length, fields.get("acceptance_k"), "--acceptance"):
        raise AdvisorError(problem)
    if "model" in fields:
        fields["model"] = knowledge.model_path(str(fields["model"]))
    return Request(hardware=hardware, gpus=gpus, **fields)


def _hardware(fields: dict[str, Any]) -> tuple[str, int]:
    """Name and number of GPUs; `auto` asks the machine."""
    name = str(fields.pop("hw", "")).strip()
    if not name:
        raise AdvisorError(
            "which hardware? give --hw NAME ('advisor hardware list' shows them), or --hw auto "
            "to ask this machine"
        )
    tp, gpus = fields.get("tp", 1), fields.pop("gpus", None)
    name, count = spoken.split_count(name)
    if count is not None:
        if gpus not in (None, count):
            raise AdvisorError(
                f"the number of GPUs is given twice: {count} x {name[:40]} and --gpus {gpus}"
            )
        gpus = count
    if name.lower() == "auto":
        hardware, count = spoken.detection().detect()
        name, gpus = hardware.id, gpus or count
    else:
        name = spoken.id_of_driver_name(spoken.strip_size(name))
    gpus = gpus or tp
    if tp > gpus:
        raise AdvisorError(f"--tp {tp} needs at least as many GPUs: --gpus is {gpus}")
    return name, gpus
