"""The model card on runs of the user's own: what one or three A/B runs of an owner say of that
owner's other rows, beside simpler ways to use them.
"""

from __future__ import annotations

from collections.abc import Sequence

from advisor.lab.evaluation import calibrated
from advisor.lab.evaluation.calibrated import Reach, Scores
from advisor.lab.evaluation.card_targets import percent, table
from advisor.lab.evaluation.result import Evaluation

WORDS = """`advisor calibrate`, scored: {owners} sources with {fewest} or more arms, each predicted
without itself and split into halves at random, {splits} times. Of the first half one or three arms
are own runs; errors are on the second half: medians over the splits. The kernel that carries an own
run to other rows is fitted to other owners. "Trust" takes the own runs' mean ratio for everything,
"nearest" the ratio of the nearest own run; without own runs the error is {without}. The targets
were a cut of 40 % with one run and of 60 % with three, wrong decisions halved, coverage of 76 to
87 %."""

CEILING = """What could be had at most: {whole_half} with every arm of the other half as an own run;
with the answers known, {known_offset} where each half's own median miss is taken off and
{known_by_model} where that of each model and method is. One run is one noisy sample of the first,
and three are fewer than all: the targets lie beyond what an owner's other rows tell (argued in
docs/research/notes.md)."""


def own_runs(found: Evaluation) -> str:
    """The section's text and table; fits the kernels anew (a minute)."""
    rows = calibrated.rows_of(found.examples, found.shipped)
    kernels = calibrated.kernels_by_owner(rows)
    return section(calibrated.exams(rows, kernels), calibrated.reach(rows, kernels))


def section(scores: Sequence[Scores], most: Reach) -> str:
    """The same from its figures."""
    lines = [
        [
            f"{one.runs}, {'as `advisor calibrate` chooses' if one.chosen else 'at random'}",
            percent(one.calibrated),
            percent(1 - one.calibrated / one.without, 0),
            percent(one.trusted),
            percent(one.nearest),
            percent(one.coverage, 0),
            f"{percent(one.wrong_without)} to {percent(one.wrong_calibrated)}",
        ]
        for one in scores
    ]
    header = "own runs | calibrated | cut | trust | nearest | coverage | wrong decisions"
    words = WORDS.format(
        owners=scores[0].owners,
        fewest=calibrated.FEWEST_ARMS,
        splits=calibrated.SPLITS,
        without=percent(scores[0].without),
    )
    ceiling = CEILING.format(**{name: percent(value) for name, value in most._asdict().items()})
    return "\n\n".join((words, table(header, lines), ceiling))
