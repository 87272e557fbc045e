"""Whether a model has an MTP head: yes, no or not known; what others measured of drafts for it."""

from functools import cache

from advisor.domain.facts import LLM
from advisor.domain.records import NamedTuple
from advisor.knowledge import evidence
from advisor.knowledge import store as knowledge
from advisor.knowledge.drafters import TITLES

SPEEDS = ("output_tok_s", "request_tok_s", "tpot")  # what a pair is told by, best first
SHOWN = 3  # sources of measured pairs that are named


class Head(NamedTuple):
    """Whether a model has an MTP head of its own (None: not known), and who says so."""

    has: bool | None
    source: str = ""


class Measured(NamedTuple):
    """Pairs with and without a method: number, median speed-up, sources, most pairs first."""

    method: str
    pairs: int
    median: float
    sources: tuple[str, ...]

    @property
    def words(self) -> str:
        """In words, with the first sources."""
        name = TITLES.get(self.method, self.method)
        runs = f"{self.pairs} A/B run{'' if self.pairs == 1 else 's'}"
        more = len(self.sources) - SHOWN
        cited = ", ".join(self.sources[:SHOWN]) + (f" and {more} more" if more > 0 else "")
        return f"{name} ({runs}, median {self.median:.2f}x; {cited})"


def head(model: LLM) -> Head:
    """The model's own head, by its shape, its checkpoints, or the shape that stands in."""
    if model.mtp_layers is not None:
        return Head(model.mtp_layers > 0, model.source)
    published = knowledge.checkpoints(model)
    kept = next((one for one in published if one.keeps_mtp), None)
    if kept is not None:
        return Head(True, kept.source)
    if published and all(one.keeps_mtp is False for one in published):
        return Head(False, published[0].source)
    shape = knowledge.known_shape(model)
    return Head(True, shape.source) if shape is not None and shape.mtp_layers else Head(None)


@cache
def measurements(model: str, engine: str | None = None) -> tuple[Measured, ...]:
    """What was measured of speculation with this model (on one engine), most pairs first."""
    from statistics import median  # start-up: few questions ask

    index = evidence.index()
    gains: dict[str, dict[str, list[float]]] = {}
    for number, group in enumerate(index.groups):
        if group["model"] != model or engine not in (None, group["engine"]):
            continue
        pairs = [pair for pair in index.pairs(number) if pair["metric"] in SPEEDS]
        pairs.sort(key=lambda pair: SPEEDS.index(pair["metric"]), reverse=True)
        first = {pair["run_id"]: pair for pair in pairs}
        for pair in first.values():  # one a run, by the first of its metrics
            found = gains.setdefault(group["method"], {})
            found.setdefault(pair["source"], []).append(float(pair["speedup"]))
    told = [
        Measured(
            method,
            sum(map(len, by_source.values())),
            median([gain for each in by_source.values() for gain in each]),
            tuple(sorted(by_source, key=lambda name: (-len(by_source[name]), name))),
        )
        for method, by_source in gains.items()
    ]
    return tuple(sorted(told, key=lambda one: (-one.pairs, one.method)))
