"""What an engine is started with: flags and environment, each with its value and its place."""

from __future__ import annotations

from typing import Literal

from advisor.domain.frozen import Frozen
from advisor.domain.records import NamedTuple
from advisor.domain.vocabulary import Engine

CutOffCause = Literal["comment", "no sign", "empty line", "blanks", "blanks in batch", "wrong sign"]
CUT_OFF_CAUSES: dict[CutOffCause, str] = {
    "comment": "a comment among the options ends the command",
    "no sign": "the line above it does not end in a backslash",
    "empty line": "an empty line follows the backslash of the line above",
    "blanks": "spaces or a carriage return follow the backslash of the line above",
    "blanks in batch": "spaces follow the ^ above",
    "wrong sign": "cmd goes on with ^, not with \\",
}


class Span(Frozen):
    """A place in the text that was read, in characters of the decoded file; end is exclusive."""

    start: int
    end: int

    def __init__(self, start: int, end: int) -> None:
        """As every noun is made, but for the check of names: a file has some sixty places."""
        held = self.__dict__
        held["start"] = start
        held["end"] = end


class Flag(Frozen):
    """One option as written. `name` is the catalogue's spelling, or the written one if unknown."""

    name: str
    raw: str  # the spelling in the file, e.g. "-tp", "LLAMA_ARG_N_PARALLEL", "np"
    value: str | None = None  # None: a bare switch; "" is an empty string
    # the engine's catalogue has it at this launch's version (or at any version if none is known)
    known: bool = True
    origin: Literal["cli", "env", "ini", "yaml", "python"] = "cli"
    line: int = 0  # 1-based; 0 = not from a file
    column: int = 0
    # flag and value together, literal in the file (None: built from variables, not editable)
    span: Span | None = None
    value_span: Span | None = None
    unresolved: bool = False  # the value contains a variable that the file does not set
    # of a mapping of a Python or YAML file, which the value holds as JSON: where each of its
    # characters stands in the file, or -1
    places: tuple[int, ...] = ()
    name_at: int = -1  # where the name stands, also where what follows is not editable


class EnvVar(Frozen):
    """One environment variable of a launch, with its place in the file."""

    name: str
    value: str | None = None
    line: int = 0
    column: int = 0
    span: Span | None = None  # name and value together, where they stand together in the file
    value_span: Span | None = None
    unresolved: bool = False


class Port(Frozen):
    """A port of a container that is published, or that a probe or a Service asks."""

    number: int
    probe: str = ""  # livenessProbe, healthcheck, Service ...; "" where it is published
    line: int = 0
    span: Span | None = None


class Slip(Frozen):
    """A slip in the form around a command: what its tool says, and the text in its place."""

    message: str
    line: int = 0
    column: int = 0
    span: Span | None = None
    text: str = ""
    stops: bool = True  # nothing starts; else it is passed over
    sole: bool = False  # and nothing else than the text can be meant
    sources: tuple[str, ...] = ()  # of this slip; empty: those of the rule


class CutOff(Frozen):
    """Options that stand behind the end of a command: the server starts without them."""

    options: str  # the first of them, and how many more
    line: int  # of the first
    cause: CutOffCause

    @property
    def sentence(self) -> str:
        """Which options, from where on, and why."""
        return f"{self.options} from line {self.line} on: {CUT_OFF_CAUSES[self.cause]}"


class StraySwitchValue(NamedTuple):
    """A truth value written behind a switch, which takes none."""

    switch: str  # as written
    value: str


class Container(Frozen):
    """What surrounds the command: image, shared memory, probes; None = the file does not say."""

    image: str | None = None
    tag: str | None = None
    shm_bytes: int | None = None
    ipc_host: bool | None = None
    shm_volume: bool | None = None  # a memory-backed /dev/shm volume is mounted
    gpus: str | None = None  # as written: "all", "2", device ids "device=0,1"
    gpu_kind: str = ""  # the id of the hardware that the file names
    startup_budget_s: float | None = None  # how long a probe waits before it kills the server
    budget_probe: str = ""  # startup, or liveness where there is no startup probe
    ports: tuple[Port, ...] = ()  # empty also where the container uses the host's network
    complete: bool = True  # the file says all of it
    kind: str = ""  # compose, docker-run, kubernetes, llmkube, systemd, quadlet, llama-swap ...
    chart: str = ""  # whose keys describe the server, where it is known
    image_line: int = 0
    image_span: Span | None = None
    name: str = ""  # service / unit / preset name


class Launch(Frozen):
    """What an engine is told: version, model, flags and env, each with value, file and line."""

    engine: Engine
    # catalogued release (or interval id for llama-server); None = not pinned
    engine_version: str | None = None
    version_text: str | None = None  # as written (image tag, bNNNN, commit), for messages
    version_pinned: bool = False  # True only if the file pins a catalogued release
    # vllm-ascend, ik_llama.cpp, a community image: rules are at most warnings then
    fork: str | None = None
    model: str | None = None  # as written: repository, path or GGUF name
    flags: tuple[Flag, ...] = ()
    env: tuple[EnvVar, ...] = ()
    container: Container | None = None
    file: str = ""
    line: int = 0
    form: str = "command"
    emitted: bool = False  # written by this program, not read from a file
    notes: tuple[str, ...] = ()  # what was not read (env_file ignored, unresolved variable ...)
    slips: tuple[Slip, ...] = ()  # of the file, with its first launch
    strays: tuple[Flag, ...] = ()  # arguments that belong to no option: a value and its place
    stray_switch_values: tuple[StraySwitchValue, ...] = ()
    cut_off: CutOff | None = None
    open_end: bool = False  # what is not read (a variable, a file) may add options
    background: bool = False  # a script goes on while it runs (&)
    too_old: bool = False  # the release is from before the catalogue

    def flag(self, name: str) -> Flag | None:
        """The last occurrence of a flag by canonical name (engines let the last one win)."""
        for flag in reversed(self.flags):
            if flag.name == name:
                return flag
        return None

    def env_value(self, name: str) -> str | None:
        """Return the value of the last variable of that name, None where it is not set."""
        for var in reversed(self.env):
            if var.name == name:
                return var.value
        return None


SPECULATION = (
    *("--speculative-config", "--spec-method", "--spec-model", "--speculative-algorithm"),
    *("--spec-type", "--spec-draft-model", "--spec-draft-n-max"),
)
_named: tuple[Launch | None, dict[str, Flag]] = (None, {})


class FlagLookups:
    """What is asked of the flags of a `launch`, by their canonical names."""

    launch: Launch

    def flag(self, *names: str) -> Flag | None:
        """The last flag of the first of these names that is given."""
        global _named  # noqa: PLW0603 - one slot: rules ask for flags of the same launch in a row
        if _named[0] is not self.launch:
            _named = (self.launch, {found.name: found for found in self.launch.flags})
        return next(filter(None, map(_named[1].get, names)), None)

    def certain(self, *names: str) -> Flag | None:
        """The same, unless only a variable knows its value."""
        given = self.flag(*names)
        return None if given is None or given.unresolved else given

    def value(self, *names: str) -> str | None:
        """The resolved value."""
        given = self.certain(*names)
        return given.value if given is not None else None

    def open_value(self, *names: str) -> bool:
        """Whether one of these options has a value that only a variable knows."""
        found = self.flag(*names)
        return found is not None and found.unresolved

    def has_switch(self, *names: str) -> bool:
        """Whether a switch is on: given bare or with a true value."""
        found, off = self.flag(*names), ("false", "0", "off", "no")
        return found is not None and (found.value or "true").lower() not in off

    def unread(self) -> bool:
        """Whether more flags may come from what is not read."""
        return self.launch.open_end or any(one.unresolved for one in self.launch.flags)

    def spec_flag(self) -> Flag | None:
        """The flag that turns speculation on, for the place of a finding."""
        return self.flag(*SPECULATION)

    def k_flag(self) -> Flag | None:
        """The flag that sets the number of draft tokens, else the one that turns speculation on."""
        block = "--speculative-dspark-block-size"
        names = ("--spec-tokens", "--speculative-num-steps", "--spec-draft-n-max", block)
        return self.flag(*names, *SPECULATION)


class LaunchText(Frozen):
    """A launch ready to paste: quoted `text`, and `files` that it names, to be written first."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    text: str = ""
    files: dict[str, str] = {}
