"""What the container and unit files share: words of the launch with their notes, ports, health,
start-up time, GPUs.

What it does not know: the network, the disk and the compile cache of the machine; the start-up
budget is generous for that.
"""

from __future__ import annotations

from itertools import pairwise
from math import ceil

from advisor import engines
from advisor.advice import topology as linked
from advisor.domain.nouns import Advice, AdvisorError, LaunchText, Quantity
from advisor.render.flags import arguments
from advisor.render.layout import option_units
from advisor.render.notes import unit_note
from advisor.render.yaml_text import Noted
from advisor.rules.kit.case import table

DEFAULT_PORTS = {"vllm": 8000, "sglang": 30000, "llama-server": 8080, "ik_llama.cpp": 8080}
# 289 s for 34.89 GiB in 42 shards on a GB10, doubled: a slower disk or a first download is common.
LOAD_S_PER_GIB = Quantity(value=17.0, source="seed000", status="derived")
UNKNOWN_WEIGHTS_GIB = 70.0
HEALTH_PATH = "/health"  # all three engines answer 200 there only once the model is loaded


def container_launch(advice: Advice) -> LaunchText:
    """The launch to run, listening on all addresses: inside a container the loopback address
    reaches nobody.
    """
    argv = advice.launch.argv
    if advice.plan.engine != "vllm" and "--host" not in argv:
        argv = (*argv, "--host", "0.0.0.0")
    return advice.launch.model_copy(update={"argv": argv})


def startup_seconds(advice: Advice) -> int:
    """How long a silent server may load before it counts as dead, in seconds, rounded up to
    minutes.

    At least what published deployments of vLLM and SGLang needed (rule SD241's number), which
    compile; plus the weights' time.
    """
    bill = advice.estimate.memory if advice.estimate is not None else None
    gib = (
        (bill.weights_gib + bill.spec_gib) * gpu_count(advice)
        if bill is not None
        else UNKNOWN_WEIGHTS_GIB
    )
    loading = 60.0 + LOAD_S_PER_GIB.value * gib
    compiling = (
        0.0
        if advice.plan.engine.startswith(("llama", "ik_"))
        else float(table("compatibility")["startup_seconds"]["value"])
    )
    return ceil(max(loading, compiling) / 60.0) * 60


def port(advice: Advice) -> int:
    """The port of the launch: as its command line says, else the engine's own default."""
    argv = advice.launch.argv
    for word, value in pairwise(argv):
        if word == "--port" and value.isdigit():
            return int(value)
    return DEFAULT_PORTS.get(advice.plan.engine, 8000)


def gpu_count(advice: Advice) -> int:
    """GPUs that the launch uses on one machine."""
    plan = linked.on_each(advice.facts, advice.plan)
    return max(1, plan.tp * plan.pp * plan.dp)


def vendor(advice: Advice, form: str) -> str:
    """nvidia, amd or intel. Raises AdvisorError where no container can reach the accelerator, or
    where one machine is too few.
    """
    hardware = advice.facts.hardware
    made = hardware.vendor if hardware is not None else "unknown"
    name = (hardware.name or hardware.id) if hardware is not None else advice.request.hardware
    if made == "apple":
        raise AdvisorError(
            f"{form} cannot be written for {name}: containers on macOS do not reach the GPU; run "
            f"the launch of "
            "'advisor recommend' on the machine itself"
        )
    if made not in ("nvidia", "amd", "intel"):
        raise AdvisorError(
            f"{form} cannot be written for {name}: it is not known how a container reaches this "
            f"accelerator"
        )
    facts = advice.facts
    if linked.spans(facts) and (
        advice.plan.tp * advice.plan.pp > 1 or advice.plan.engine == "llama-server"
    ):
        raise AdvisorError(
            f"{form} covers one machine, and {facts.gpus} GPUs over {facts.interconnect} are "
            f"several: "
            "start the launch of 'advisor recommend' on each of them"
        )
    return made


def image(advice: Advice, form: str) -> str:
    """The pinned image. Raises AdvisorError where none is known for this version and hardware."""
    plan, hardware = advice.plan, advice.facts.hardware
    adapter = engines.get(plan.engine)
    found = adapter.image(plan.engine_version, hardware)
    if found is None:
        known = next(
            (v for v in reversed(adapter.versions) if adapter.image(v, hardware) is not None), None
        )
        remedy = (
            f"--engine-version {known} has one"
            if known
            else "run the launch of 'advisor recommend' without a container"
        )
        raise AdvisorError(
            f"{form} cannot be written: no image is known for {plan.engine} "
            f"{plan.engine_version or '(version unknown)'} on "
            f"{advice.request.hardware}; {remedy}"
        )
    return found


def noted_words(
    advice: Advice, launch: LaunchText, escape: tuple[str, str] | None = None
) -> list[str | Noted]:
    """The arguments after the program, each option with the note that explains it; `escape`
    replaces (from, to) in words.
    """
    words: list[str | Noted] = []
    for unit in option_units(arguments(launch.argv)):
        head, *rest = (word.replace(*escape) if escape else word for word in unit)
        note = unit_note(advice, unit)
        words.append(Noted(head, note) if note else head)
        words += rest
    return words


def title(advice: Advice, command: str) -> list[str]:
    """Comment lines for the top of a file: what it is for, and how to make it again."""
    request, plan = advice.request, advice.plan
    spec = f"{plan.method}, k = {plan.k}" if plan.method != "none" else "no speculation"
    return [
        f"{plan.engine} {plan.engine_version or ''} for {request.hardware}, {request.model}: "
        f"{spec} (decision: {advice.decision})",
        f"load: {request.concurrency} at once, {request.ctx_tokens} prompt and "
        f"{request.output_tokens} output tokens",
        f"made by `advisor {command}`; SD codes: `advisor explain CODE`",
    ]
