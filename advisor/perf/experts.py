"""Experts that the tokens of one step reach."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from advisor.domain.sourced import sourced
from advisor.perf import arrays as P
from advisor.perf.constants import Constants

Floats = npt.NDArray[np.float64]

# Nodes of a standard normal at the middles of eight equally likely classes: expert popularity is
# lognormal.
_NODES = sourced(
    np.array([-1.5341, -0.8871, -0.4888, -0.1573, 0.1573, 0.4888, 0.8871, 1.5341]),
    "standard deviations",
    "Quantiles of the standard normal at 1/16, 3/16, ... 15/16",
    "derived",
)
MOST_SHARE = sourced(0.995, "share", "own choice: no expert takes every token", "chosen")


def union(experts: Floats, topk: Floats, tokens: Floats, skew: float = 0.0) -> Floats:
    """Expected number of distinct experts that `tokens` independent tokens reach, lognormal
    popularity of width `skew`.

    Uniform routing (skew 0) gives E (1 - (1 - K/E)^tokens), the formula of MoESD (arXiv
    2505.19645). 0 for dense models.

    Parameters
    ----------
    experts : Floats
        Routed experts of a layer, E. (N,)
    topk : Floats
        Experts of each token, K. (N,)
    tokens : Floats
        Independent tokens. (N,)
    skew : float
        Width of the lognormal popularity; 0 is uniform.

    Returns
    -------
    Floats
        Distinct experts, at most E (N,).
    """
    share = np.divide(topk, experts, out=np.zeros_like(topk), where=experts > 0)
    weights = np.ones(1) if skew <= 0 else np.exp(skew * _NODES) / np.exp(skew * _NODES).mean()
    left = np.zeros_like(share)
    for weight in weights:
        missed = np.minimum(weight * share, MOST_SHARE)
        np.log1p(np.negative(missed, out=missed), out=missed)
        missed = missed * tokens
        left += np.exp(missed, out=missed)
    return np.asarray(experts * (1 - left / len(weights)))


def effective_tokens(batch: Floats, per_request: Floats, rho: Floats | float) -> Floats:
    """Independent tokens that a step's tokens are worth for routing: neighbours in one text share
    experts (rho).

    Parameters
    ----------
    batch : Floats
        Requests in the step. (N,)
    per_request : Floats
        Tokens of the step for each request. (N,)
    rho : Floats | float
        Correlation of the routing of neighbouring tokens, 0 to 1.

    Returns
    -------
    Floats
        Independent tokens, at most `batch` times `per_request` (N,).
    """
    return np.asarray(batch * (1 + (1 - rho) * (per_request - 1)))


def reached_experts(p: P.Points, c: Constants, batch: Floats, per_request: Floats) -> Floats:
    """Distinct experts of one layer that a step reads: popular ones more often (skew), and
    neighbours in one text share theirs (rho). Neighbours in random prompts share nothing: four
    published or own sources with such prompts agree.

    Parameters
    ----------
    p : Points
        Filled; N points.
    c : Constants
        Rates and overheads of the kernel paths.
    batch : Floats
        Requests in the step. (N,)
    per_request : Floats
        Tokens of the step for each request. (N,)

    Returns
    -------
    Floats
        Experts of one layer (N,).
    """
    rho = np.where(p.workload == P.WORKLOADS.index("random"), 0.0, c.rho)
    return union(p.experts, p.topk, effective_tokens(batch, per_request, rho), c.skew)
