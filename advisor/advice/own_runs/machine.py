"""A user's own machine: numbers of its A/B runs in a private file, without prompts or names."""

import hashlib
import math
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from advisor.advice.own_runs.cells import same_load
from advisor.domain.facts import OwnRun
from advisor.domain.files import read_yaml_safely
from advisor.domain.nouns import AdvisorError, Plan
from advisor.domain.printable import excerpt
from advisor.domain.sourced import sourced
from advisor.engines.vllm import ADAPTIVE
from advisor.perf.host_memory import MARGIN
from advisor.perf.sizes.device import GRAPHS_OFF, GRAPHS_OFF_BY_VALUE
from advisor.perf.sizes.weights import ALL_EXPERTS, EXPERTS_OF, OVERRIDE
from advisor.readers.results.arms import FASTER_STEP

NAME = re.compile(r"^[a-z0-9][a-z0-9_.-]{0,39}$")
REPOSITORY = re.compile(r"^\w[\w.-]*/\w[\w.-]*$")
MAX_BYTES = 2**20
MAX_RUNS = 200
EDITED = "edited"  # the seal of a machine whose runs are not all as they were measured
ROUNDING = sourced(1.02, "ratio", "own choice: clients print figures with three digits", "chosen")
SAME_LENGTH = sourced(
    0.15, "log ratio", "own choice: repeats of one text differ by less (ACCEPTED_SD is 0.03)",
    "chosen",
)  # fmt: skip
AS_MEASURED = ("model", "quant", "engine", "engine_version", "tp", "concurrency", "input_tokens",
               "output_tokens", "output_spread", "workload", "temperature", "date")  # fmt: skip
# fields of a plan that a run has beside it, or that are its owner's own
NOT_KEPT = ("engine", "engine_version", "model", "served_model_name", "quantization", "method", "k",
            "reasoning_parser", "tool_call_parser", "host", "port", "env")  # fmt: skip
PRICED = (*GRAPHS_OFF, *(flag for flag, _ in GRAPHS_OFF_BY_VALUE), "--split-mode", MARGIN, OVERRIDE,
          ALL_EXPERTS, EXPERTS_OF, ADAPTIVE)  # fmt: skip
MOST = sourced(10**8, "tokens or requests", "own choice: of any limit of a plan", "chosen")
Finite = Annotated[float, Field(allow_inf_nan=False, ge=-20, le=20)]
Positive = Annotated[float, Field(allow_inf_nan=False, gt=0, le=1e9)]
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Word = Annotated[str, Field(max_length=120)]


def plan_fields(plan: Plan) -> dict[str, Any]:
    """What is kept of a launch's plan: no path, address, key or layout of one device."""
    apart = NOT_KEPT + (("tp", "pp", "dp") if plan.tp * plan.pp * plan.dp == 1 else ())
    stated = {name: value for name, value in plan if name not in apart and value is not None}
    if plan.draft_model and not REPOSITORY.match(plan.draft_model):
        stated["draft_model"] = PurePath(plan.draft_model).name
    stated["extra"] = tuple((name, value) for name, value in plan.extra if name in PRICED)
    return {name: value for name, value in stated.items() if value != ()}


def _as_plan(data: dict[str, Any]) -> dict[str, Any]:
    """Fields of a plan with the types that a plan has. Raises ValueError."""
    plan = Plan.model_validate({"engine": "vllm"} | data)
    fields = {name: getattr(plan, name) for name in data}
    for name, value in fields.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in NOT_KEPT or (number and not 0 < value <= MOST):
            raise ValueError(f"{name} is none that a run can have")
    return fields


class _MachinePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Kind = TypeVar("Kind", bound=BaseModel)
Metric = Literal["output_tok_s", "tpot", "ttft"]  # of gains and baselines
MOST_SD = sourced(5.0, "log ratio", "own choice: more says nothing", "chosen")
Deviation = Annotated[float, Field(gt=0, le=MOST_SD)]


class MetricGain(_MachinePart):
    """Log of the ratio on over off (above 0 is faster) and its standard deviation."""

    log: Finite
    sd: Deviation


class MachineRun(_MachinePart):
    """One A/B at one load, or a run without speculation alone."""

    date: Annotated[str, Field(pattern=r"^20\d\d-\d\d-\d\d$")]
    model: Word
    engine: Word
    engine_version: Word | None = None
    quant: Word | None = None
    method: Word = "none"
    k: Annotated[int, Field(ge=0, le=128)] = 0
    tp: Annotated[int, Field(ge=1, le=1024)] | None = None
    concurrency: Annotated[float, Field(allow_inf_nan=False, gt=0, le=100_000)] = 1.0
    input_tokens: Positive | None = None
    output_tokens: Positive | None = None
    output_spread: Annotated[float, Field(ge=0, le=0.95)] | None = None
    workload: Word | None = None
    temperature: Annotated[float, Field(ge=0, le=5)] | None = None
    gpus: Annotated[int, Field(ge=1, le=1024)] | None = None  # None: those of the machine
    # fields of the plan that ran, as far as they are stated
    plan: Annotated[dict[Word, Any], AfterValidator(_as_plan)] = Field(default_factory=dict)
    gains: dict[Metric, MetricGain] = Field(default_factory=dict)
    baseline: dict[Metric, Positive] = Field(default_factory=dict)
    baseline_sd: dict[Metric, Deviation] = Field(default_factory=dict)  # of the log, over repeats
    accepted_length: Annotated[float, Field(ge=1, le=129)] | None = None
    accepted_by_position: Annotated[
        tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(max_length=64)
    ] = ()
    inputs_sha256: Annotated[tuple[Sha, ...], Field(max_length=60)] = ()

    def tokens_per_step(self) -> float | None:
        """What was accepted, bonus token included: as stated, else from the rates by position."""
        if self.accepted_length is not None or not self.accepted_by_position:
            return self.accepted_length
        return 1 + sum(self.accepted_by_position[: self.k])

    def contradiction(self) -> str | None:
        """Why its numbers cannot all be true; None where they can."""
        k, length, positions = self.k, self.accepted_length, self.accepted_by_position
        if self.gains and (k == 0 or self.method == "none"):
            return "a gain without drafts: its method is none or its k is 0"
        if length is not None and length > (k + 1) * ROUNDING:
            return f"{length:.3g} tokens per step, where k = {k} allows {k + 1}"
        for i, (first, second) in enumerate(pairwise(positions), 1):
            if second > first * ROUNDING:
                return f"more is accepted at draft position {i + 1} than at position {i}"
        by_position = 1 + sum(positions[:k])
        if length is not None and positions and abs(math.log(by_position / length)) > SAME_LENGTH:
            return (
                f"{length:.3g} tokens per step, where the rates by position make {by_position:.3g}"
            )
        most = self.tokens_per_step() or k + 1.0
        for name, gain in self.gains.items():
            if name != "ttft" and gain.log - 2 * gain.sd > math.log(most * FASTER_STEP):
                ratio = f"a gain of {math.exp(gain.log):.3g} in {name}"
                return f"{ratio}, where a step makes at most {most:.3g} tokens"
        speed, token = self.baseline.get("output_tok_s"), self.baseline.get("tpot")
        if speed and token and speed * token > 1e3 * self.concurrency * FASTER_STEP:
            return (
                f"{speed:.4g} tok/s, where {self.concurrency:g} requests of {token:.3g} ms a token "
                f"make {1e3 * self.concurrency / token:.4g}"
            )
        tomorrow = (datetime.now(UTC).date() + timedelta(days=1)).isoformat()  # of any time zone
        return f"its date {self.date} lies ahead" if self.date > tomorrow else None


class Machine(_MachinePart):
    """The whole file."""

    version: Literal[1] = 1
    name: Word
    hardware: Word
    gpus: Annotated[int, Field(ge=1, le=1024)] = 1
    runs: Annotated[tuple[MachineRun, ...], Field(max_length=MAX_RUNS)] = ()
    seal: Word | None = None  # what `digest` was when it was saved; none in files of old releases

    @property
    def is_edited(self) -> bool:
        """Whether the file was changed by hand since it was saved."""
        return self.seal is not None and self.seal != self.digest()

    @property
    def label(self) -> str:
        """How a sentence names it."""
        return f"machine '{self.name}'"

    def digest(self) -> str:
        """What tells these numbers from others."""
        numbers = self.model_dump_json(include={"hardware", "gpus", "runs"})
        return hashlib.sha256(numbers.encode()).hexdigest()[:16]

    def check(self) -> None:
        """Raise AdvisorError, naming the run, where its numbers contradict each other."""
        for number, run in enumerate(self.runs, 1):
            if why := run.contradiction():
                raise AdvisorError(
                    f"{self.label}, run {number} ({excerpt(run.date)}, k = {run.k}): {why}"
                )

    @property
    def newest(self) -> str:
        """The date of the newest run, YYYY-MM-DD, else empty."""
        return max((run.date for run in self.runs), default="")

    def own_runs(self) -> tuple[OwnRun, ...]:
        """As the prediction takes them."""
        return tuple(
            OwnRun(
                hardware=self.hardware,
                gpus=run.gpus or self.gpus,
                plan=tuple(sorted(run.plan.items())),
                method=run.method if run.method != "none" else "mtp",
                k=run.k or 1,
                accepted_length=run.tokens_per_step(),
                gains=tuple((name, gain.log, gain.sd) for name, gain in run.gains.items()),
                baseline=tuple(
                    (name, value, run.baseline_sd.get(name, 0.0))
                    for name, value in run.baseline.items()
                ),
                **{name: getattr(run, name) for name in AS_MEASURED},
            )
            for run in self.runs
        )


def folder() -> Path:
    """Where machine files lie: $XDG_CONFIG_HOME or ~/.config, advisor/machines."""
    root = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(root):  # such a path is to be ignored, says the specification
        try:
            root = str(Path.home() / ".config")
        except RuntimeError as error:
            raise AdvisorError("no home folder is known: set XDG_CONFIG_HOME") from error
    return Path(root) / "advisor" / "machines"


def path_of(name: str) -> Path:
    """The file of a machine. Raises AdvisorError for a name that could be a path."""
    if not NAME.match(name):
        raise AdvisorError(
            f"'{excerpt(name)}' is not a valid machine name: use lower-case letters, digits, . _ -"
        )
    return folder() / f"{name}.yaml"


def names() -> list[str]:
    """The machines that have a file."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def load(name: str) -> Machine:
    """Read a machine. Raises AdvisorError, naming those that there are."""
    path = path_of(name)
    if not path.exists():
        there = f"there are {', '.join(names())}" if names() else "there is none yet"
        raise AdvisorError(
            f"no machine is called '{excerpt(name)}'; {there}: "
            f"advisor calibrate OFF ON --name NAME makes one"
        )
    machine = validate(Machine, read_yaml_safely(path, MAX_BYTES), path)
    machine.check()
    return machine


def validate(kind: type[Kind], data: Any, path: Path) -> Kind:
    """A record of what a file holds. Raises AdvisorError, naming the place."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise AdvisorError(f"{path}: {excerpt(where)}: {first['msg'].lower()}") from error


def save(machine: Machine) -> Path:
    """Write a machine, sealed, for its owner alone. Raises AdvisorError for contradictions."""
    import yaml  # start-up: only where a machine is named

    machine.check()
    seal = EDITED if machine.is_edited else machine.digest()
    path = path_of(machine.name)
    rows = machine.model_copy(update={"seal": seal}).model_dump(mode="json", exclude_defaults=True)
    text = "# Private: made by `advisor calibrate`; delete it to forget these runs.\n"
    text += yaml.safe_dump(rows, sort_keys=False, width=100)
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(text.encode())
        part.replace(path)
    except OSError as error:
        raise AdvisorError(
            f"cannot write the machine file {path} ({(error.strerror or '').lower()}): set "
            "XDG_CONFIG_HOME to a folder that can be written"
        ) from None
    return path


def with_runs(machine: Machine, runs: Sequence[MachineRun]) -> Machine:
    """The machine with more runs, those of one call; what they measured again is replaced."""
    others = [old for old in machine.runs if not any(_replaces(run, old) for run in runs)]
    if len(others) + len(runs) > MAX_RUNS:
        raise AdvisorError(
            f"machine '{machine.name}' would have more than {MAX_RUNS} runs: start another one"
        )
    more = machine.model_copy(update={"runs": (*others, *runs)})
    return more.model_copy(update={"seal": EDITED if machine.is_edited else more.digest()})


class Before(NamedTuple):
    """A cell that is measured again, by files that replace those of before or count beside them."""

    old: MachineRun
    new: MachineRun
    replaced: bool


def measured_before(machine: Machine, runs: Sequence[MachineRun]) -> tuple[Before, ...]:
    """Which of these runs measure again what the machine has a gain of, from new files."""
    known = [(old.gains, old.inputs_sha256) for old in machine.runs]
    return tuple(
        Before(old, run, _replaces(run, old))
        for run in runs
        if (run.gains, run.inputs_sha256) not in known
        for old in machine.runs
        if old.gains.keys() & run.gains.keys() and _same_cell(run, old)
    )


def _replaces(run: MachineRun, old: MachineRun) -> bool:
    """Whether an old run is of the same files: both of them, or, at the same cell, some of them and
    no other. One baseline serves several k and repeats, and one file holds several loads.
    """
    new, known = set(run.inputs_sha256), set(old.inputs_sha256)
    if not known & new:
        return False
    plain = not old.gains and known <= new
    both = known == new and len(new) > 1
    return plain or both or (_same_cell(run, old) and (known <= new or new <= known))


def _same_cell(run: MachineRun, other: MachineRun) -> bool:
    """Whether two runs are of one method, k and load, as far as they are stated."""
    names = ("model", "engine", "method", "k", "workload")
    loads = ("concurrency", "input_tokens", "output_tokens")
    alike = all(getattr(run, name) == getattr(other, name) for name in names)
    alike &= all(
        None in (mine := getattr(run, name), theirs := getattr(other, name)) or mine == theirs
        for name in ("quant", "tp", "gpus")
    )
    return alike and same_load((getattr(run, name), getattr(other, name)) for name in loads)
