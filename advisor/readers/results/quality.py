"""Whether speculation left greedy answers as they were. Each arm is asked twice, alone and
together, so that the engine's own noise is known; more differences than that are an alarm.
"""

import math
from typing import Annotated, Literal

from pydantic import Field

from advisor.domain.sourced import sourced
from advisor.readers.results.run import ResultModel

CHANCE = sourced(0.01, "probability", "own choice: below it a difference is no noise", "chosen")
Kind = Literal["arithmetic", "copy", "json", "tool"]
Total = Annotated[int, Field(ge=0, le=10_000)]


class TaskAnswer(ResultModel):
    """One answer: whether it is right, and a hash of what it says, None where there is none."""

    task: str
    kind: Kind
    right: bool
    reading: str | None


class ArmAnswers(ResultModel):
    """What one arm answered in both passes."""

    format: Literal["advisor-quality"] = "advisor-quality"
    engine: str | None = None
    engine_version: str | None = None
    passes: tuple[tuple[TaskAnswer, ...], ...] = Field(min_length=2, max_length=2)


class QualityCheck(ResultModel):
    """Both arms compared: counts of tasks; right answers are of both passes, so twice as many."""

    tasks: Total
    differ: Total  # between the arms, in either pass
    noise: Total  # between the passes of one arm, both arms together
    right_off: Total
    right_on: Total
    broken_on: tuple[Kind, ...] = ()  # kinds right without speculation and never right with it
    alarm: bool
    defects: Annotated[tuple[str, ...], Field(max_length=50)] = ()  # known ones of that release

    def sentence(self) -> str:
        """The outcome."""
        of = f"{self.differ} of {2 * self.tasks} answers differ between off and on, {self.noise} "
        of += f"between repeats of one; right: {self.right_off} off, {self.right_on} on"
        if not self.right_off:
            of += "; no answer was right without speculation, so that this says little"
        if not self.alarm:
            return f"same answers within the engine's own noise: {of}"
        broken = f"; {', '.join(self.broken_on)} answers broke" if self.broken_on else ""
        known = f"; known defects: {', '.join(self.defects)}" if self.defects else ""
        return f"QUALITY ALARM, speculation changes answers: {of}{broken}{known}"


def compare(off: ArmAnswers, on: ArmAnswers, defects: tuple[str, ...] = ()) -> QualityCheck:
    """The check of two arms; `defects` are named where it is an alarm."""
    count = len(off.passes[0])
    differ = sum(_differences(a, b) for a, b in zip(off.passes, on.passes, strict=True))
    noise = _differences(*off.passes) + _differences(*on.passes)
    right_off, right_on = (sum(a.right for row in arm.passes for a in row) for arm in (off, on))
    good = {a.kind for row in off.passes for a in row if a.right}
    broken = tuple(sorted(good - {a.kind for row in on.passes for a in row if a.right}))
    lost = sum(a.right and not b.right for a, b in _pairs(off, on))
    won = sum(b.right and not a.right for a, b in _pairs(off, on))
    alarm = bool(broken) or _tail(2 * count, differ, (noise + 0.5) / (2 * count + 1)) < CHANCE
    alarm |= _tail(lost + won, lost, 0.5) < CHANCE
    return QualityCheck(
        tasks=count, differ=differ, noise=noise, right_off=right_off, right_on=right_on,
        broken_on=broken, alarm=alarm, defects=defects if alarm else (),
    )  # fmt: skip


def _pairs(off: ArmAnswers, on: ArmAnswers) -> list[tuple[TaskAnswer, TaskAnswer]]:
    rows = zip(off.passes, on.passes, strict=True)
    return [pair for left, right in rows for pair in zip(left, right, strict=True)]


def _differences(left: tuple[TaskAnswer, ...], right: tuple[TaskAnswer, ...]) -> int:
    return sum(a.reading != b.reading for a, b in zip(left, right, strict=True))


def _tail(count: int, least: int, share: float) -> float:
    """The chance of at least so many of `count` where each has this chance."""
    return sum(
        math.comb(count, i) * share**i * (1 - share) ** (count - i) for i in range(least, count + 1)
    )
