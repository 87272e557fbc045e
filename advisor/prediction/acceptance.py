"""How many drafted tokens are accepted: a hierarchical logit per draft position, and its update
by what was measured.

The conditional acceptance of position j is sigmoid(x . beta + offset_j), beta is shrunk, and what
remains between sources is a variance. A measured acceptance (a rate, a length or one figure a
position) is an observation of that prior: a Kalman step in logit space, so one noisy figure moves
the prior and does not replace it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np

from advisor.domain.nouns import METHODS
from advisor.domain.records import NamedTuple, Record
from advisor.domain.sourced import sourced
from advisor.perf.arrays import FAMILIES, MAX_K, WORKLOADS, Floats, Ints, Mask, Points
from advisor.perf.encoding.cells import distinct_rows

MAX_DEPTH_K = sourced(64, "tokens", "The longest measured draft; longer ones are cut", "chosen")
USUAL_K = sourced(
    {"mtp": 2.0, "eagle": 3.0, "eagle3": 3.0, "draft_model": 8.0, "ngram": 8.0, "dflash": 8.0,
     "dspark": 5.0, "none": 0.0},
    "tokens",
    "Defaults of the engines and published launches, by method",
    "assumed",
)  # fmt: skip
MEASURED_SD = sourced(
    0.03, "log ratio", "Of a stated acceptance: rounding, other prompts, replicates", "assumed"
)
POSITION_SD = sourced(0.12, "logits", "Sd of one draft position around the common curve", "assumed")
STATED_SD = sourced(0.15, "logits", "Sd of a stated acceptance of one position", "assumed")
LEAST_SD = sourced(0.01, "log ratio", "Sd that the single positions leave", "assumed")
NEAR = sourced(1e-3, "share", "Shares stay this far from 0 and 1", "chosen")
BORDER = sourced(0.02, "tokens", "A stated length stays this far from 1 and from k + 1", "chosen")
FAR, STEP = sourced((30.0, 6.0), "logits", "Most of a logit, and of one step's change", "chosen")
USUAL_TEMPERATURE = sourced(0.4, "", "between greedy and the 0.6 to 0.7 of model cards", "assumed")
USUAL_BITS, FINE_BITS = sourced((4.5, 4.2), "bits a weight", "Q4_K; damage shows below", "assumed")
MOST_DAMAGE = sourced(3.0, "bits", "1-bit formats, 1.2 bits a weight, below that", "chosen")
USUAL_SIZE = sourced(2e10, "active parameters", "middle of knowledge/llms, rounded", "assumed")
SIZES = sourced((1e8, 1e12), "active parameters", "beyond every published model", "chosen")
DEPTH_UNIT = sourced(4096, "tokens", "unit of the depth's logarithm", "chosen")
MOST_BRANCHES = sourced(30, "tokens", "beyond k, of the largest published tree", "chosen")

# Groups of indicator columns. "gguf-low" style effects are numbers, in _numbers.
_METHODS = tuple(m for m in METHODS if m != "none")
_WORDS = tuple(w for w in WORKLOADS if w != "unknown")
_FAMILIES = tuple(f for f in FAMILIES if f != "unknown")
_BLOCK = ("dflash", "dspark")  # block drafters: their acceptance hangs on the workload much more
NUMBER_COLUMNS = (
    "temperature", "thinking", "depth", "low_bits", "log_active", "moe", "p_min", "tree",
)  # fmt: skip
COLUMNS: tuple[str, ...] = (
    *(f"method:{m}" for m in _METHODS), *(f"workload:{w}" for w in _WORDS),
    *(f"family:{f}" for f in _FAMILIES), *(f"block*{w}" for w in _WORDS), *NUMBER_COLUMNS,
    *(f"slope:{g}" for g in ("one", "block", "guess")),
    *(f"position:{j + 1}" for j in range(MAX_K)),
)  # fmt: skip


def draft_k(points: Points) -> Floats:
    """k of every point, the method's usual one where it is unknown (N,)."""
    usual = np.array([USUAL_K[m] for m in METHODS])
    return np.where(np.isnan(points.k), usual[points.method], points.k)


def tokens_per_step(conditional: Floats, k: Floats) -> Floats:
    """1 + sum over positions of the product of conditional acceptances; positions past the last
    known repeat it.

    conditional (N, MAX_K) in 0..1, k (N,) >= 0. Returns (N,).
    """
    reach, tail = _reach(conditional, k)
    return np.asarray(1.0 + reach.sum(axis=1) + tail)


def _reach(conditional: Floats, k: Floats) -> tuple[Floats, Floats]:
    """Chance of each position (N, MAX_K), drafted and accepted, and of those past the last (N,)."""
    steps = (k[:, None] - np.arange(MAX_K)).clip(0.0, 1.0)  # fractional k interpolates
    reach = np.cumprod(conditional, axis=1)
    last = conditional[:, -1].clip(0.0, 1 - NEAR)
    more = (k - MAX_K).clip(0.0, MAX_DEPTH_K)
    return reach * steps, reach[:, -1] * last * (1 - last**more) / (1 - last)


def log_gradient(conditional: Floats, k: Floats) -> Floats:
    """d log(tokens per step) / d logit of each position, (N, MAX_K)."""
    reach, tail = _reach(conditional, k)
    remaining = np.cumsum(reach[:, ::-1], axis=1)[:, ::-1] + tail[:, None]
    total = 1.0 + reach.sum(axis=1) + tail
    gradient: Floats = (1 - conditional) * remaining / total[:, None]
    last = conditional[:, -1].clip(0.0, 1 - NEAR)
    more = (k - MAX_K).clip(0.0, MAX_DEPTH_K)
    again = ((1 - (more + 1) * last**more) * (1 - last) + last * (1 - last**more)) / (1 - last) ** 2
    # the last position stands for all later ones too
    gradient[:, -1] += conditional.prod(axis=1) * again * last * (1 - last) / total
    return gradient


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + exp(-x)), element by element (N,)."""
    return np.asarray(1.0 / (1.0 + np.exp(-x.clip(-FAR, FAR))))


def logit(p: Floats) -> Floats:
    """Return log(p / (1 - p)), element by element (N,); p is limited to 0.001 to 0.999."""
    q = p.clip(NEAR, 1 - NEAR)
    return np.asarray(np.log(q / (1 - q)))


def _numbers(points: Points) -> Floats:
    known = np.nan_to_num
    # beside CUDA SGLang accepts greedily, whatever is asked (eagle_utils.py, 0.5.14 to 0.5.23)
    sampled = ~points.is_engine("sglang") | points.is_path("sglang-cuda")
    temperature = known(points.temperature, nan=USUAL_TEMPERATURE) * sampled
    depth = np.log2(1 + known(points.depth_tokens, nan=0.0) / DEPTH_UNIT)
    low = np.clip(FINE_BITS - known(points.quant_bits, nan=USUAL_BITS), 0.0, MOST_DAMAGE)
    size = np.log(np.clip(known(points.active_params, nan=USUAL_SIZE), *SIZES) / USUAL_SIZE)
    thinking, moe = known(points.thinking - 0.5, nan=0.0), known(points.is_moe, nan=0.5) - 0.5
    tree = known(np.clip(points.verify_tokens - points.k - 1, 0, MOST_BRANCHES) / 10, nan=0.0)
    return np.column_stack(
        [temperature, thinking, depth, low, size, moe, known(points.p_min, nan=0.0), tree]
    )


def common_design(points: Points) -> Floats:
    """Columns that all positions of a point share: (N, number of columns before the slopes)."""
    return np.concatenate([_words_design(points), _numbers(points)], axis=1)


def _words_design(points: Points) -> Floats:
    words = _one_of(WORKLOADS, _WORDS)[points.workload]
    block = points.is_method(*_BLOCK)[:, None] * words
    method = _one_of(METHODS, _METHODS)[points.method]
    family = _one_of(FAMILIES, _FAMILIES)[points.family]
    return np.concatenate([method, words, family, block], axis=1)


@cache
def _one_of(vocabulary: tuple[str, ...], names: tuple[str, ...]) -> Floats:
    """1 where a word of the vocabulary is one of the names (words, names)."""
    return np.array([[float(word == name) for name in names] for word in vocabulary])


def position_design(points: Points) -> Floats:
    """Which slope positions follow (N, 3): single-token heads, block drafters, lookups."""
    block = points.is_method(*_BLOCK)
    guess = points.is_method("ngram", "draft_model")
    return np.column_stack([~(block | guess), block, guess]).astype(np.float64)


STEPS_DOWN: Floats = np.log(1.0 + np.arange(MAX_K))


class AcceptanceModel(NamedTuple):
    """Fitted `beta` (P,) over COLUMNS, `covariance` (P, P), `source_sd` in logits."""

    beta: Floats
    covariance: Floats
    source_sd: float
    position_sd: float = POSITION_SD

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> AcceptanceModel:
        """Return the model of a saved state. Raises KeyError where a part is missing."""
        p = len(state["beta"])
        covariance = np.zeros((p, p))
        covariance[np.tril_indices(p)] = state["covariance"]
        covariance = covariance + np.tril(covariance, -1).T
        return cls(
            np.array(state["beta"], float),
            covariance,
            float(state["source_sd"]),
            float(state["position_sd"]),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain numbers, rounded for the artefact."""
        lower = self.covariance[np.tril_indices(len(self.beta))]
        return {
            "columns": list(COLUMNS),
            "beta": [round(float(b), 4) for b in self.beta],
            "covariance": [float(f"{v:.3g}") for v in lower],
            "source_sd": round(self.source_sd, 4),
            "position_sd": self.position_sd,
        }

    def prior(self, points: Points) -> tuple[Floats, Floats]:
        """Logits (N, MAX_K) before any measurement, and the sd (N,) of their common part."""
        first, kind = distinct_rows([points.method, points.workload, points.family])
        some = points.take(first)  # many points have few combinations of these words
        words, slopes, numbers = _words_design(some), position_design(some), _numbers(points)
        w, c, e = np.cumsum([part.shape[1] for part in (words, numbers, slopes)])
        beta, covariance = self.beta, self.covariance
        curve = np.outer(slopes @ beta[c:e], STEPS_DOWN) + beta[e:] + (words @ beta[:w])[:, None]
        crossed = 2 * (words @ covariance[:w, w:c])[kind] + numbers @ covariance[w:c, w:c]
        variance = np.einsum("ni,ni->n", words @ covariance[:w, :w], words)[kind]
        variance += np.einsum("ni,ni->n", crossed, numbers) + self.source_sd**2
        return curve[kind] + (numbers @ beta[w:c])[:, None], np.sqrt(variance)


class AcceptanceBelief(Record):
    """Belief about the conditional acceptance of N points, in logits."""

    mean: Floats  # (N, MAX_K)
    shared_sd: Floats  # (N,), after the update
    k: Floats  # (N,)
    known: Mask  # whether it was measured (N,)

    def take(self, rows: Ints | slice) -> AcceptanceBelief:
        """That of some of the points (M,)."""
        return AcceptanceBelief(
            self.mean[rows], self.shared_sd[rows], self.k[rows], self.known[rows]
        )

    @cached_property
    def conditional(self) -> Floats:
        """(N, MAX_K) conditional acceptance at the mean."""
        return sigmoid(self.mean)

    @cached_property
    def tau(self) -> Floats:
        """Tokens per step at the median, bonus token included (N,)."""
        return tokens_per_step(self.conditional, self.k)

    @cached_property
    def log_tau_sd(self) -> Floats:
        """Sd of log(tau): the common part's, by the delta method, with a small floor."""
        total = log_gradient(self.conditional, self.k).sum(axis=1)
        return np.asarray(np.hypot(total * self.shared_sd, LEAST_SD))

    def tau_at(self, z: float) -> Floats:
        """Tokens per step at a normal quantile z of the common part (N,)."""
        return tokens_per_step(sigmoid(self.mean + z * self.shared_sd[:, None]), self.k)


def believe(model: AcceptanceModel, points: Points, hide: bool = False) -> AcceptanceBelief:
    """Each point's prior, updated by its measured acceptance; `hide` leaves that out."""
    mean, sd = model.prior(points)
    k = draft_k(points)
    known = np.zeros(len(points), dtype=bool)
    if hide:
        return AcceptanceBelief(mean, sd, k, known)
    given_k, length, usable = stated_length(points, k)
    if usable.any():
        length = np.clip(length, 1 + BORDER, given_k + 1 - BORDER)
        mean, sd = _update(mean, sd, np.log(length), given_k, usable, model.position_sd)
        known |= usable
    stated = np.isfinite(points.given_conditional)
    if stated.any():
        mean, sd = _update_positions(mean, sd, points.given_conditional, stated)
        known |= stated.any(axis=1)
    return AcceptanceBelief(mean, sd, k, known)


def stated_length(points: Points, k: Floats) -> tuple[Floats, Floats, Mask]:
    """The k of each stated acceptance (else `k`), its tokens per step, whether it is one (N,)."""
    given_k = np.where(np.isnan(points.given_k), k, points.given_k)
    by_rate = 1.0 + given_k * points.given_rate
    length = np.where(np.isnan(points.given_length), by_rate, points.given_length)
    return given_k, length, np.isfinite(length) & (given_k > 0) & (length >= 1.0)


def _update(
    mean: Floats, sd: Floats, target: Floats, k: Floats, rows: Mask, position_sd: float
) -> tuple[Floats, Floats]:
    """Iterated extended Kalman step: observed log(tokens per step) = target, sd MEASURED_SD."""
    m0, s2 = mean[rows], sd[rows] ** 2
    y, kk, p2 = target[rows], k[rows], position_sd**2
    m = m0.copy()
    for _ in range(4):
        a = sigmoid(m)
        g = log_gradient(a, kk)
        total = g.sum(axis=1)
        spread = s2 * total**2 + p2 * (g**2).sum(axis=1) + MEASURED_SD**2
        miss = y - np.log(tokens_per_step(a, kk)) + (g * (m - m0)).sum(axis=1)
        m = m0 + np.clip(((s2 * total)[:, None] + p2 * g) * (miss / spread)[:, None], -STEP, STEP)
    out_mean, out_sd = mean.copy(), sd.copy()
    out_mean[rows], out_sd[rows] = m, np.sqrt(np.maximum(s2 - (s2 * total) ** 2 / spread, 1e-6))
    return out_mean, out_sd


def _update_positions(
    mean: Floats, sd: Floats, given: Floats, stated: Mask
) -> tuple[Floats, Floats]:
    """Each stated conditional acceptance observes its logit (noise 0.15), and the common part."""
    noise2, p2 = STATED_SD**2, POSITION_SD**2
    miss = np.where(stated, logit(given) - mean, 0.0)
    count, s2 = stated.sum(axis=1), sd**2
    each = np.maximum(count, 1)
    shared = s2 / (s2 + (noise2 + p2) / each) * miss.sum(axis=1) / each
    shared = np.where(count > 0, shared, 0.0)
    apart = miss - shared[:, None]
    own = p2 / (p2 + noise2) * apart
    # a position that was stated is believed almost as stated
    own = np.where(stated, own + (s2 / (s2 + noise2))[:, None] * (apart - own), 0.0)
    left = s2 * (noise2 + p2) / np.maximum(count * s2 + noise2 + p2, 1e-9)
    return mean + shared[:, None] + own, np.sqrt(np.where(count > 0, left, s2))
