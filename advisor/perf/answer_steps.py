"""How many decode steps an answer takes: whole ones, one at least, the last cut off where it ends.

What it does not know: which drafts are accepted together; the spread of a step's tokens is that of
independent acceptance.
"""

from __future__ import annotations

import numpy as np

from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Tokens


def token_variance(tau: Tokens, k: Tokens) -> Floats:
    """Variance of a step's tokens: exact for k = 1, within a tenth of independence above."""
    shape = np.where(k > 0, 0.5 + 0.5 / np.fmax(k, 1), 0.0)
    return np.asarray(np.fmax((tau - 1) * (k + 1 - tau), 0.0) * shape)


def decode_steps(p: P.Points, tau: Tokens | None) -> Floats:
    """Mean decode steps of a request. With speculation the last step is cut off where the answer
    ends: on average the renewal process gives E[A (A - 1)] / 2 E[A] tokens too many, A those of a
    step, and never are there fewer steps than `fewest_steps`.
    """
    plain = np.fmax(p.output_tokens - 1, 0.5)
    if tau is None:
        return np.asarray(plain)
    cut = (token_variance(tau, p.k) / tau + tau - 1) / 2
    return np.asarray(np.fmin(np.fmax((plain + cut) / tau, fewest_steps(p)), plain))


def fewest_steps(p: P.Points) -> Floats:
    """Decode steps of a request if every draft is accepted: the ceiling of its tokens over k + 1,
    in the mean over the lengths of answers (whole numbers, alike likely), and one at least (N,).
    """
    whole = np.fmax(p.k, 0.0) + 1
    after_first, half = p.output_tokens - 1, p.output_spread * p.output_tokens + 0.5

    def below(tokens: Floats) -> Floats:
        """The sum of the ceilings up to a length; an answer of fewer tokens takes a step too."""
        full = np.floor(tokens / whole)
        steps = whole * full * (full + 1) / 2 + (tokens - full * whole) * (full + 1)
        return np.asarray(np.where(tokens < 0, tokens, steps))

    most, least = after_first - 0.5 + half, after_first - 0.5 - half
    return np.asarray(np.fmin((below(most) - below(least)) / (2 * half), np.fmax(after_first, 0.5)))


def most_gain(p: P.Points) -> Floats:
    """The largest speed-up of decoding that a request's own steps leave room for (N,)."""
    return np.asarray(decode_steps(p, None) / fewest_steps(p))
