"""One server as every form writes it: words with their notes, port, health, start-up time, GPUs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from math import ceil

from advisor import engines
from advisor.advice.plans import topology
from advisor.domain.nouns import Advice, AdvisorError, Engine, Launch, Plan, Quantity
from advisor.domain.shell import shell_words
from advisor.engines import k_ranges
from advisor.engines.traits import ALL_ADDRESSES, LOOPBACK, EngineTraits, traits
from advisor.knowledge.rule_data import table
from advisor.render.deploy.local_models import ModelMount, mount_model, on_this_machine
from advisor.render.deploy.quoting import NotedValue
from advisor.render.deploy.settings import setting
from advisor.render.notes import unit_note

# 289 s for 34.89 GiB in 42 shards on a GB10, doubled: a slower disk or a first download is common.
LOAD_S_PER_GIB = Quantity(value=17.0, source="seed000", status="derived")
UNKNOWN_WEIGHTS_GIB = 70.0
TOKEN = "HF_TOKEN"  # what Hugging Face's libraries read their token from
LOOPBACK_NOTE = "this machine only; the default is every address"


@dataclass(frozen=True, slots=True)
class Server:
    """A launch with what surrounds it, still in parts: a form writes them in its own syntax."""

    name: str  # of the container or unit: letters, digits and dashes
    plan: Plan
    launch: Launch  # the plan in the engine's words
    program: tuple[str, ...]
    units: tuple[tuple[str, ...], ...]  # what stands together: a model, an option with its values
    notes: tuple[str, ...]  # of each unit, "" where it needs none
    startup_s: int  # seconds that it may load in silence
    gpus: int  # that it uses on one machine
    devices: tuple[int, ...] = ()  # which, where another has the others; empty: the first ones
    vendor: str = ""  # of the GPUs, "" where that is not known
    files: tuple[tuple[str, str], ...] = ()  # name and text; in a container they lie in its root
    mount: ModelMount | None = None  # what a container needs for a model of the user's own
    image: str = ""  # of a container, pinned
    address: str = LOOPBACK  # of the machine, where a container's port is open
    claim: str = ""  # that keeps its cache, "" where it gets one of its own
    namespace: str = ""

    @property
    def traits(self) -> EngineTraits:
        """The habits of its engine."""
        return traits(self.plan.engine)

    @property
    def port(self) -> int:
        """Where it listens."""
        return self.plan.port or self.traits.default_port

    @property
    def health_url(self) -> str:
        """Where it says that it is ready."""
        return f"http://127.0.0.1:{self.port}{self.traits.health}"

    @property
    def port_mapping(self) -> str:
        """Its port outside a container."""
        return f"{self.address}:{self.port}:{self.port}"

    @property
    def reach(self) -> str:
        """Who reaches it."""
        return "this machine only" if self.address == LOOPBACK else f"listens on {self.address}"

    @property
    def shm(self) -> str:
        """The shared memory that it needs."""
        return "16gb" if self.gpus > 1 else self.traits.shm or "1gb"

    @property
    def words(self) -> tuple[str, ...]:
        """All words after the program."""
        return tuple(chain.from_iterable(self.units))

    @property
    def env(self) -> dict[str, str]:
        """The variables that the launch needs."""
        return {var.name: var.value for var in self.launch.env if var.value is not None}

    def visible(self) -> dict[str, str]:
        """The variable that shows it its own GPUs, where its vendor's containers need one."""
        name = {"amd": "HIP_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}.get(self.vendor)
        return {name: ",".join(map(str, self.devices))} if name and self.devices else {}

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of the variables that hold secrets; their values are never written."""
        key = self.traits.api_key_env
        return (TOKEN, key) if key else (TOKEN,)

    def noted_words(self, escape: Callable[[str], str] = str) -> list[str | NotedValue]:
        """The words after the program, each option with the note that explains it."""
        words: list[str | NotedValue] = []
        for unit, note in zip(self.units, self.notes, strict=True):
            head, *rest = (escape(word) for word in unit)
            words.append(NotedValue(head, note) if note else head)
            words += rest
        return words

    def note_lines(self) -> list[str]:
        """`--option: note` for the forms that have no place for a comment beside an option."""
        return [
            f"{unit[0]}: {note}" for unit, note in zip(self.units, self.notes, strict=True) if note
        ]


def server(
    advice: Advice, plan: Plan | None = None, *, container: str = "", suffix: str = ""
) -> Server:
    """The server of a plan, by default the plan to run; `suffix` ends its name. `container`: what a
    container's form is called, "" on the machine itself, where it listens on the loopback address
    alone. Raises AdvisorError where no container reaches the accelerator or no image is known.
    """
    if container:
        vendor(advice, container)
    plan = topology.on_each(advice.facts, plan or advice.plan)
    host = setting(advice, "host", plan.host or "") or None
    if container:  # where that is the engine's default it needs no word
        host = ALL_ADDRESSES if traits(plan.engine).listens_locally else None
    plan = plan.replace(host=host, port=int(setting(advice, "port", "0")) or plan.port)
    adapter, mount = engines.get(plan.engine), None
    if container:
        plan, mount = mount_model(advice.request, plan)
    else:
        plan = on_this_machine(advice.request, plan)
    files = k_ranges.files(plan)
    launch = adapter.to_launch(plan)
    if container:  # these files lie in its root
        flags = (
            flag.replace(value=inside(flag.value or "")) if flag.value in files else flag
            for flag in launch.flags
        )
        launch = launch.replace(flags=tuple(flags))
    units = adapter.units(launch)
    host_note = "inside a container the loopback address reaches nobody"
    if not container:
        host_note = LOOPBACK_NOTE if plan.host == LOOPBACK else ""
    return Server(
        name=plan.engine.replace(".", "-").replace("_", "-") + suffix,
        plan=plan,
        launch=launch,
        program=adapter.program,
        units=units,
        notes=tuple(host_note if x[0] == "--host" else unit_note(advice, x) for x in units),
        startup_s=startup_seconds(advice),
        gpus=gpu_count(advice),
        vendor=advice.facts.hardware.vendor if advice.facts.hardware is not None else "",
        files=tuple(files.items()),
        mount=mount,
        image=(setting(advice, "image") or image(advice, container)) if container else "",
        address=setting(advice, "host", LOOPBACK),
        claim=setting(advice, "claim"),
        namespace=setting(advice, "namespace"),
    )


def flags_text(advice: Advice) -> str:
    """The options of the launch to run, positionals first, one a line; ends in a line feed."""
    return "".join(shell_words(unit) + "\n" for unit in server(advice).units)


def inside(name: str) -> str:
    """Where a file of this name lies in a container."""
    return f"/{name}"


def weights_gib(advice: Advice) -> float:
    """GiB of weights over all accelerators, the drafter's included."""
    bill = advice.estimate.memory if advice.estimate is not None else None
    if bill is None:
        return UNKNOWN_WEIGHTS_GIB
    return (bill.weights_gib + bill.spec_gib) * gpu_count(advice)


def startup_seconds(advice: Advice) -> int:
    """How long a silent server may load, s, in whole minutes: as its weights take, and at least
    what published deployments of vLLM and SGLang needed, which compile (rule SD241's number).
    """
    loading = 60.0 + LOAD_S_PER_GIB.value * weights_gib(advice)
    gguf = traits(advice.plan.engine).gguf
    compiling = 0.0 if gguf else float(table("compatibility")["startup_seconds"]["value"])
    return ceil(max(loading, compiling) / 60.0) * 60


def gpu_count(advice: Advice) -> int:
    """GPUs that the launch uses on one machine."""
    plan = topology.on_each(advice.facts, advice.plan)
    return max(1, plan.tp * plan.pp * plan.dp // topology.machines(advice.facts, plan.tp * plan.pp))


def vendor(advice: Advice, form: str) -> str:
    """nvidia, amd or intel. Raises AdvisorError where no container on one machine reaches it."""
    hardware = advice.facts.hardware
    made = hardware.vendor if hardware is not None else "unknown"
    name = (hardware.name or hardware.id) if hardware is not None else advice.request.hardware
    if made == "apple":
        raise AdvisorError(
            f"{form} cannot be written for {name}: containers on macOS do not reach the GPU; run "
            "the launch of 'advisor recommend' on the machine itself"
        )
    if made not in ("nvidia", "amd", "intel"):
        raise AdvisorError(
            f"{form} cannot be written for {name}: it is not known how a container reaches this "
            f"accelerator"
        )
    facts = advice.facts
    if topology.machines(facts, advice.plan.tp * advice.plan.pp) > 1:
        over = f" over {facts.interconnect}" if topology.spans(facts) else ""
        raise AdvisorError(
            f"{form} covers one machine, and {facts.gpus} GPUs{over} are several: "
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


def title(advice: Advice, command: str) -> list[str]:
    """Comment lines for the top of a file: what it is for, and how to make it again."""
    request, plan = advice.request, advice.plan
    spec = f"{plan.method}, k = {plan.k}" if plan.method != "none" else "no speculation"
    release = engines.get(plan.engine).label(plan.engine_version, advice.request.engine_version)
    count = topology.machines(advice.facts, plan.tp * plan.pp)
    rest = "" if command.endswith(" ray") else topology.others(advice.facts, plan)  # Ray does that
    return [
        f"{plan.engine} {release} for {request.hardware}, {request.model}: "
        f"{spec} (decision: {advice.decision})",
        f"load: {request.concurrency} at once, {request.ctx_tokens} prompt and "
        f"{request.output_tokens} output tokens",
        f"written by `advisor {command}`; SD codes: `advisor explain CODE`",
        *([f"one server over {count} machines: start it on the first. {rest}"] if rest else []),
    ]


def key_note(engine: Engine, reach: str) -> str:
    """How to require an API key, or that there is none; `reach`: who reaches the server then."""
    name = traits(engine).api_key_env
    if name:
        return f"API key: none unless {name} is set; without it {reach} may use the server"
    return f"API key: none; {engine} takes one only as --api-key, so {reach} may use the server"
