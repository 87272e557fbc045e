"""Runs of the user's own added to a machine's private file, and what to measure next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs.calibration import Next, next_measurement, runs_of
from advisor.advice.own_runs.machine import Machine
from advisor.advice.own_runs.setting import setting
from advisor.domain.nouns import AdvisorError, Plan, Request
from advisor.readers.results.run import BenchmarkRun


class Addition(NamedTuple):
    """What was added: how many runs, to which machine, for which question, and what comes next."""

    runs: int
    machine: Machine
    request: Request
    next: Next | None


def add_runs(
    name: str,
    off: Sequence[BenchmarkRun],
    on: Sequence[BenchmarkRun],
    counters: Sequence[BenchmarkRun],
    asked: Mapping[str, Any],
    plan: Plan | None = None,
) -> Addition:
    """Add an A/B, or a run without speculation alone, to the machine of a name, and save it.

    `asked` are options by field of Request, plus `method` and `k`; `plan` is of the launch that
    ran. Raises AdvisorError for a name that could be a path, for what is missing, and for runs of
    other hardware than the machine's.
    """
    path = machines.path_of(name)
    old = machines.load(name) if path.is_file() else None
    told = dict(asked)
    if old is not None and not told.get("hardware"):
        told["hardware"] = old.hardware
    found = setting(off, [*on, *counters] if on else on, told, plan)
    made = runs_of(off, on, found, counters)
    request = found.request
    if request is None:
        raise AdvisorError("to calibrate, give " + " and ".join(found.missing))
    machine = old or Machine(name=name, hardware=request.hardware, gpus=request.gpus)
    if machine.hardware != request.hardware:
        raise AdvisorError(
            f"machine '{name}' is a {machine.hardware}, these runs are of a {request.hardware}"
        )
    for run in made:
        machine = machines.with_run(machine, run)
    machines.save(machine)
    return Addition(
        len(made), machine, request, next_measurement(machine, request, found) if on else None
    )
