"""The model card on settings that several owners measured: how far apart they are, and what that
leaves room for.
"""

from __future__ import annotations

from advisor.lab.evaluation import owner_spread, scores
from advisor.lab.evaluation.card_targets import percent, table
from advisor.lab.evaluation.result import Evaluation

WORDS = """A setting is card, GPU count, model, quantisation family, engine, method, k, concurrency
and metric; {owners} left-out groups share one with another. The first line is what remains for
somebody who knows the true mean of every setting, estimated from the distances between owners:
context, versions, clocks, prompts and what was counted are in it. A model of a setting cannot do
better on new owners, however good it is; these lines are the floor under the targets of 10, 15 %
and x1.25, and with a stated acceptance (owners' costs of a step compared) under those of 6, 9 % and
x1.15. The side of 1 and the choice of k have no such floor: where somebody else measured the
setting, both are known, and this model, which has not seen the owner, does about as well."""


def owners(found: Evaluation) -> str:
    """The section's text and tables."""
    e = found.examples
    seen = owner_spread.compare(e, found.shipped, scores.scored_rows(e))
    errors = [
        [name, n, percent(middle), percent(mean), f"x{width:.2f}"]
        for name, (n, middle, mean, width) in seen.lines.items()
    ]
    called = [
        [name, f"{lost} of {seen.losses}", f"{gained} of {seen.gains}"]
        for name, (lost, gained) in seen.called.items()
    ]
    chosen = [
        [name, seen.sweeps, percent(mean), percent(high)]
        for name, (mean, high) in seen.regret.items()
    ]
    parts = (
        WORDS.format(owners=seen.owners),
        table(["what is known", "settings", "median APE", "MAPE", "80 % lies within"], errors),
        table(["on or off by", "losses called", "gains called off"], called),
        table(["k by", "sweeps", "mean regret", "90th percentile"], chosen),
    )
    return "\n\n".join(parts)
