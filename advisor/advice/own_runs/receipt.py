"""A receipt: what an A/B measured, in the one form in which measurements travel: the runs of a
machine file and both arms, the verdict and the quality check; no names, hosts, paths or prompts.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from advisor.advice.own_runs import ab_test
from advisor.advice.own_runs.calibration import runs_of
from advisor.advice.own_runs.machine import EDITED, MAX_RUNS, Machine, Word, load, validate
from advisor.advice.own_runs.setting import METHODS_BY_WORD, setting, workload_of
from advisor.domain.files import read_bytes_safely
from advisor.domain.nouns import AdvisorError, Plan
from advisor.domain.printable import excerpt
from advisor.domain.sourced import sourced
from advisor.readers.results import arms
from advisor.readers.results.power import ArmPower
from advisor.readers.results.quality import QualityCheck
from advisor.readers.results.run import BenchmarkRun

RECEIPT_ID: Literal["advisor/receipt/1"] = "advisor/receipt/1"
MAX_BYTES = sourced(4 * 2**20, "bytes", "own choice: of 200 runs with percentiles", "chosen")
MAX_FILES = sourced(1000, "files", "own choice: of a folder", "chosen")
_SOURCES = {"card-table": "table", "atlas-bench": "atlas"}  # public forms
_ID = r"^[a-z0-9][a-z0-9.-]*$"  # no path: a file is named by it
_PREDICTED: dict[str, Any] = {"step": None, "why": (), "next": None}  # of a load: not measured
_WORD = re.compile(r"[A-Za-z0-9][\w.+ -]{0,39}")
_DATE = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)")
SAME_GAIN = sourced(0.01, "log ratio", "own choice: figures are rounded on their way", "chosen")


class Receipt(Machine):
    """Both arms of an A/B, what they gain, and the runs that predictions take from them."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    form: Literal["advisor/receipt/1"] = Field(default=RECEIPT_ID, alias="schema")
    name: Word = ""  # a machine's own name does not travel
    hardware: Annotated[str, Field(max_length=60, pattern=_ID)]
    power: Annotated[dict[str, ArmPower], Field(max_length=2)] = Field(default_factory=dict)
    off: Annotated[tuple[BenchmarkRun, ...], Field(max_length=MAX_RUNS)] = ()
    on: Annotated[tuple[BenchmarkRun, ...], Field(max_length=MAX_RUNS)] = ()
    verdict: ab_test.Verdict | None = None
    loads: Annotated[tuple[ab_test.LoadVerdict, ...], Field(max_length=MAX_RUNS)] = ()
    quality: QualityCheck | None = None
    # whose figures: own, or the public form that they were read from
    source: Annotated[str, Field(max_length=20, pattern=_ID)] = "own"

    @property
    def id(self) -> str:
        """The same for the same runs, whoever holds them."""
        return f"{self.source}-{self.hardware}-{self.digest()[:8]}"

    @property
    def label(self) -> str:
        """How a sentence names it."""
        return f"receipt {self.id}"

    def check(self) -> None:
        """Raise AdvisorError where numbers contradict each other, also runs and arms."""
        super().check()
        stated = [(run.k, n, gain.log) for run in self.runs for n, gain in run.gains.items()]
        for left, right in arms.pairs(self.off, self.on) if self.off and self.on else ():
            for gain in arms.gains(left, right):
                distances = [abs(log - gain.log) for k, n, log in stated if n == gain.metric]
                if distances and min(distances) > SAME_GAIN:
                    raise AdvisorError(
                        f"{self.label}: off and on make {gain.ratio:.3g}x {gain.metric}, and none "
                        "of its runs says so"
                    )

    def text(self) -> str:
        """The receipt as its file holds it. Raises AdvisorError as `check` does."""
        self.check()
        data = self.model_dump(mode="json", by_alias=True, exclude={"version", "name"})
        data = {"schema": data.pop("schema"), **data, "seal": self.seal or self.digest()}
        return json.dumps(data, indent=1, allow_nan=False) + "\n"


class Receipts(Machine):
    """The receipts of one folder that are of one hardware, as a machine."""

    @property
    def label(self) -> str:
        """How a sentence names it."""
        return f"the receipts in '{excerpt(self.name)}'"


def make(
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    asked: Mapping[str, Any],
    plan: Plan | None = None,
    **more: Any,
) -> Receipt:
    """The receipt of an A/B; `asked` and `plan` as in `calibration.add_runs`, `more`: power and
    quality check. Raises AdvisorError where the runs are no A/B, or their setting is not known.
    """
    known = setting(off, on, asked, plan)
    request = known.request
    if request is None:
        raise AdvisorError(f"for a receipt, {known.problem}")
    left, right = (
        tuple(_without_names(run, f"{arm} {i}", request.model) for i, run in enumerate(runs, 1))
        for arm, runs in (("off", off), ("on", on))
    )
    report = ab_test.judge_ab(left, right, known)
    return Receipt(
        hardware=request.hardware, gpus=request.gpus, runs=tuple(runs_of(left, right, known)),
        source=_SOURCES.get(off[0].format, "own"), off=left, on=right, verdict=report.verdict,
        loads=tuple(load.model_copy(update=_PREDICTED) for load in report.loads), **more,
    )  # fmt: skip


def _without_names(run: BenchmarkRun, label: str, model: str) -> BenchmarkRun:
    """The numbers of a run: of its texts what a table of known words has, else a plain word."""
    names = ("client", "client_version", "engine_version")
    words: dict[str, Any] = {name: _word(getattr(run, name)) for name in names}
    date, method = _DATE.match(run.date or ""), METHODS_BY_WORD.get(run.method or "", run.method)
    return run.model_copy(
        update=words
        | {
            "file": label, "part": label, "format": "receipt", "model": model, "hardware": None,
            "date": "-".join(date.groups()) if date else None,
            "method": _word(method),
            "dataset": workload_of(run.dataset), "notes": (),
        }
    )  # fmt: skip


def _word(text: str | None) -> str | None:
    """A text that can name a release or a card, and nothing of its owner."""
    return text if text and _WORD.fullmatch(text) else None


def of_machine(machine: Machine) -> Receipt:
    """A machine's runs as a receipt: without arms, which its file does not keep."""
    seal = machine.seal if machine.is_edited else None
    return Receipt(hardware=machine.hardware, gpus=machine.gpus, runs=machine.runs, seal=seal)


def read(path: Path) -> Receipt:
    """A receipt file. Raises AdvisorError, naming what is wrong with it."""
    try:
        data = json.loads(read_bytes_safely(path, MAX_BYTES))
    except (ValueError, RecursionError) as error:
        raise AdvisorError(f"{path}: no JSON: {excerpt(error, 60)}") from error
    if not isinstance(data, dict) or data.get("schema") != RECEIPT_ID:
        raise AdvisorError(f"{path}: no receipt: its schema is not {RECEIPT_ID}")
    receipt = validate(Receipt, data, path)
    receipt.check()
    return receipt


def machine_for(machine: str | None, folder: str | None, hardware: str | None) -> Machine | None:
    """The runs that a question names: of a machine, or of the receipts in a folder that are of its
    hardware (of the only one there is where it names none). Raises AdvisorError.
    """
    if machine and folder:
        raise AdvisorError("--machine and --receipts are two sets of runs: give one of them")
    if not folder:
        return load(machine) if machine else None
    paths = sorted(Path(folder).glob("*.json"))[: MAX_FILES + 1]
    if len(paths) > MAX_FILES:
        raise AdvisorError(f"{folder} holds more than {MAX_FILES} files: split it")
    receipts = [read(path) for path in paths]
    there = sorted({receipt.hardware for receipt in receipts})
    wanted = hardware or (there[0] if len(there) == 1 else None)
    fitting = [receipt for receipt in receipts if receipt.hardware == wanted]
    if not fitting:
        have = f"they are of {', '.join(there)}" if there else "it holds none (FILE.json)"
        which = f"of {wanted} " if wanted else ""
        raise AdvisorError(f"no receipt {which}in {folder}: {have}")
    runs = {  # the same run in two receipts once
        run.model_dump_json(): run.model_copy(update={"gpus": run.gpus or receipt.gpus})
        for receipt in fitting
        for run in receipt.runs
    }
    if len(runs) > MAX_RUNS:
        raise AdvisorError(f"{folder} has more than {MAX_RUNS} runs of {wanted}: split it")
    return Receipts(
        name=folder[-100:], hardware=fitting[0].hardware, gpus=fitting[0].gpus,
        runs=tuple(runs.values()), seal=EDITED if any(one.is_edited for one in fitting) else None,
    )  # fmt: skip
