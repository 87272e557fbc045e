"""Rows of a table that ask: a row with a result or a source was run by somebody, and what it leaves
blank is not known; one without is a question, with the defaults and the plan of `recommend`. Its
words (workload, lengths, engine, release, quantisation, ranks) are asked once for rows of equal
ones, and over their loads once for each range of one answer.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np

from advisor import engines
from advisor.advice import judge, resolve
from advisor.advice.plans import topology
from advisor.advice.rows.limits import WRITTEN, with_limits
from advisor.domain.nouns import LIMITS, AdvisorError, Facts, Goal, Request
from advisor.domain.printable import printable
from advisor.domain.question import USUAL_OUTPUT, USUAL_PROMPT
from advisor.engines.traits import traits
from advisor.knowledge import store
from advisor.perf import arrays
from advisor.perf.arrays import Floats, Ints, Mask
from advisor.perf.encoding import cells
from advisor.perf.encoding.cells import read_words
from advisor.perf.encoding.encode_names import find_hardware, find_model
from advisor.perf.encoding.encode_rows import read_engine
from advisor.perf.regimes.setting import Column
from advisor.perf.sizes.pools import LINKS
from advisor.prediction import predict_rows as tables
from advisor.prediction import predict_table

Columns = Mapping[str, Sequence[Any]]
Point = tuple[int, float, float, float]  # number of a configuration, and one of its loads
Answers = list[tuple[str, ...]]
_ENGINE = ("hardware", "model", "quant", "engine", "engine_version", "gpu_count", "tp",
           "max_num_seqs", "max_model_len", "memory_fraction", "kv_cache_dtype")  # fmt: skip
_LAYOUT = (*_ENGINE, "workload", "thinking", "temperature", "prefix_share", "output_spread", "goal",
           "interconnect")  # fmt: skip
_LOADS = ("ctx_tokens", "output_tokens", "concurrency")
_COUNTS = ("tp", "max_num_seqs", "max_model_len")  # of a request, under their names
_NUMBERS = (*_COUNTS, "memory_fraction", "temperature", "prefix_share", "output_spread")
MOST_ROWS = 2**17  # worked out at once
EACH = 2**8  # rows in all, of which each load is asked
SIDES = np.array([*product((-1.0, 1.0), repeat=3)])  # directions of a box's corners (8, 3)
# What tells that a row was run
RESULTS = (
    "run_id", "source_id", "speedup", "output_tok_s", "request_tok_s", "tpot_ms", "ttft_ms",
)  # fmt: skip


def predict(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Predicted speed-ups for rows with the columns of the measurement table (`speedup_metric`
    blank: output_tok_s); one result per row, in order. Raises AdvisorError for what is no list of
    mappings.
    """
    return predict_table.predict_dicts(rows, predict_columns)


def predict_rows(source: Path, target: Path) -> tables.RowCount:
    """Predict every row of `source` into `target`; extra columns pass through, prediction columns
    are appended (or replaced). Raises AdvisorError as `tables.predict_rows` does.
    """
    return tables.predict_rows(source, target, predict_columns)


def predict_columns(columns: Columns, count: int) -> dict[str, list[Any]]:
    """The predictions as columns, for columns of `count` cells; in parts of bounded memory."""
    made: dict[str, list[Any]] = {name: [] for name in predict_table.FIELDS}
    for start in range(0, count, MOST_ROWS):
        part = {name: cells[start : start + MOST_ROWS] for name, cells in columns.items()}
        for name, values in _predict_part(part, min(MOST_ROWS, count - start)).items():
            made[name] += values
    return made


def _predict_part(columns: Columns, count: int) -> dict[str, list[Any]]:
    asks = np.all([is_blank(read_words(columns, name, count)) for name in RESULTS], axis=0)
    if not asks.any():
        return predict_table.predict_columns(columns, count)
    with np.errstate(all="ignore"):
        rows = RowWords(columns, count, asks)
        refused = rows.refusals()
        rows.complete()
    limit = partial(with_limits, asks=asks, refused=refused)
    made = predict_table.predict_columns(rows.columns, count, complete=limit)
    for i, error in refused.items():
        for name, values in made.items():
            values[i] = error if name == "error" else None
    return made


# ---------------------------------------------------------------- words


def is_blank(words: Column) -> Mask:
    """Where a column says nothing (N,)."""
    return words.each(lambda word: cells.normal(word) in cells.UNKNOWN)


class RowWords:
    """The columns of N rows, filled in one by one for those that ask."""

    def __init__(self, columns: Columns, count: int, asks: Mask) -> None:
        self.columns, self.count, self.asks = dict(columns), count, asks

    def refusals(self) -> dict[int, str]:
        """Why `recommend` would refuse a row that asks, by row: a name that nobody knows, a release
        that is none, more ranks than GPUs.
        """
        tp, gpus = self._number("tp"), self._number("gpu_count")
        found = {
            i: f"tp {tp[i]:g} needs at least as many GPUs: gpu_count is {gpus[i]:g}"
            for i in np.flatnonzero(self.asks & (tp > gpus)).tolist()
        }
        for name, known in _NAMES.items():
            words = self._words(name)
            why = [_refusal(name, known, word.strip()) for word in words.distinct]
            wrong = self.asks & np.array([*map(bool, why)])[words.codes]
            found |= {i: why[words.codes[i]] for i in np.flatnonzero(wrong).tolist()}
        return found

    def complete(self) -> Self:
        """Write what a question has where the rows say nothing."""
        none = self.asks & (self._words("k").numbers(cells.not_negative) == 0)
        self._write("spec_method", none, "none")  # no draft tokens take no drafter's memory
        self._fill("speedup_metric", ("goal",), lambda goal: goal.replace("balanced", ""))
        self._fill("workload", (), lambda: Request.model_fields["workload"])
        self._fill("input_tokens", ("depth_tokens",), lambda depth: depth or str(USUAL_PROMPT))
        self._fill("output_tokens", (), lambda: str(USUAL_OUTPUT))
        self._fill("gpu_count", ("tp",), lambda ranks: ranks or "1")
        prompt = self._number("input_tokens") + self._number("output_tokens") - 1
        self._ask(("engine", "quant"), _ENGINE, np.stack([prompt, 0 * prompt + 1, self._load()], 1))
        self._fill("engine_version", ("engine", "hardware", "engine_version"), _release)
        self._fill("interconnect", ("hardware", "gpu_count"), _link)
        self._fill("thinking", ("model",), _thinking)
        self._fill("temperature", ("model", "workload", "thinking"), _temperature)
        parts = (self._number("input_tokens"), self._number("output_tokens"), self._load())
        several = self._number("gpu_count") > 1
        self._ask(("tp",), _LAYOUT, np.stack(parts, 1), several & self._trait("replicas"))
        self._fill("interconnect", ("interconnect", "hardware", "gpu_count", "tp"), _rank_link)
        # one replica of each row with its mean share of the requests; llama-server has no ranks
        gpus, tp, load = map(self._number, ("gpu_count", "tp", "concurrency"))
        self._write("tp", self.asks & self._trait("gguf") & (tp > 1), "1")
        several = self.asks & self._trait("replicas") & (gpus > tp) & (load > 0)
        for name, values in (("concurrency", np.fmax(load / (gpus // tp), 1)), ("gpu_count", tp)):
            self._write(name, several, [f"{value:.12g}" for value in values[several].tolist()])
        return self

    def _words(self, name: str) -> Column:
        return read_words(self.columns, name, self.count)

    def _number(self, name: str) -> Floats:
        """The positive numbers of a column, NaN elsewhere (N,)."""
        return self._words(name).numbers(cells.positive)

    def _load(self) -> Floats:
        return np.nan_to_num(self._number("concurrency"), nan=1.0)

    def _trait(self, name: str) -> Mask:
        """Whether a trait of the engine holds (N,); of one without launches it does not."""
        engine = self._words("engine").map(read_engine)
        return engine.each(lambda word: word in WRITTEN and bool(getattr(traits(word), name)))

    def _write(self, name: str, here: Mask | Ints, values: Any) -> None:
        own = self._words(name)
        column = np.array(own.distinct, dtype=object)[own.codes]
        column[here] = values
        self.columns[name] = column.tolist()

    def _fill(self, name: str, beside: Sequence[str], say: Callable[..., str | None]) -> None:
        """Write what `say` makes of the words of other columns into the blank cells of rows that
        ask; into all of theirs where the column itself is one of these.
        """
        here = self.asks & ((name in beside) | is_blank(self._words(name)))
        if not here.any():
            return
        words = [self._words(other) for other in beside]
        codes = [one.codes for one in words] or [np.zeros(self.count, dtype=np.int64)]
        first, which = cells.distinct_rows(codes)
        answers = [say(*(one.of(i) for one in words)) or "" for i in first.tolist()]
        self._write(name, here, np.array(answers, dtype=object)[which][here])

    def _ask(
        self, wanted: Sequence[str], of: Sequence[str], loads: Floats, where: Mask | bool = True
    ) -> None:
        """Write what a row lacks of `wanted`; `of`: its words, `loads`: (N, 3) of the load."""
        parts = [self._words(name) for name in of]
        blank = {name: is_blank(self._words(name)) for name in wanted}
        named = ~is_blank(parts[0]) & ~is_blank(parts[1])
        named &= (loads <= [LIMITS[name][1] for name in _LOADS]).all(axis=1)
        named &= self._number("gpu_count") <= LIMITS["gpus"][1]
        rows = np.flatnonzero(self.asks & where & named & np.any([*blank.values()], axis=0))
        if not len(rows):
            return
        answers = np.full((self.count, len(wanted)), "", dtype=object)
        first, which = cells.distinct_rows([words.codes[rows] for words in parts])
        asked = [
            dict(zip(of, (words.of(i).strip() for words in parts), strict=True))
            for i in rows[first].tolist()
        ]
        ask = partial(_layouts if wanted == ("tp",) else _engines, asked)
        boxes = [rows[which == number] for number in range(len(first))]
        for here, answer in _by_halves(boxes, loads, ask, EACH // len(first)):
            answers[here] = answer
        for name, values in zip(wanted, answers.T, strict=True):
            here = np.flatnonzero(self.asks & blank[name] & (values != ""))
            self._write(name, here, values[here])


def _by_halves(
    boxes: Sequence[Ints], loads: Floats, ask: Callable[[list[Point]], Answers], most: int
) -> Iterator[tuple[Ints, tuple[str, ...]]]:
    """(rows, answer) for boxes of rows of one configuration each, of loads (N, 3), which is one
    where that of each is the same; in a box of more than `most` where its rows nearest to the eight
    corners have the same. What is open of all boxes is asked at once.
    """
    known: dict[Point, tuple[str, ...]] = {}
    waiting = [*enumerate(boxes)]
    while waiting:
        points: list[list[Point]] = []
        for number, rows in waiting:
            far = (np.log(loads[rows]) @ SIDES.T).argmax(axis=0).tolist()
            ends = loads[rows[sorted({*far})]] if len(rows) > most else loads[rows]
            points.append([(number, *end) for end in ends.tolist()])
        new = [x for x in dict.fromkeys(chain.from_iterable(points)) if x not in known]
        for part in (new[i : i + EACH] for i in range(0, len(new), EACH)):
            known.update(zip(part, ask(part), strict=True))
        whole, waiting = waiting, []
        for (number, rows), own in zip(whole, points, strict=True):
            if len(answers := {known[end] for end in own}) == 1:
                yield rows, answers.pop()
                continue
            low, high = loads[rows].min(axis=0), loads[rows].max(axis=0)
            axis = int(np.log(high / low).argmax())
            lower = loads[rows, axis] <= np.sqrt(low[axis] * high[axis])
            waiting += [(number, rows[lower]), (number, rows[~lower])]


def _facts(asked: Mapping[str, str], load: Sequence[float]) -> Facts | None:
    """The facts of a configuration's question for one load; None where it is refused."""
    numbers = ((name, cells.not_negative(asked.get(name, ""))) for name in _NUMBERS)
    fields: dict[str, Any] = {name: x for name, x in numbers if not np.isnan(x)}
    words = ("engine_version", "quant", "interconnect", "kv_cache_dtype")
    fields |= {name: int(fields[name]) for name in _COUNTS if name in fields}
    fields |= {name: asked.get(name) or None for name in words} | {
        "goal": asked["goal"] if asked.get("goal") in get_args(Goal) else "balanced",
        "workload": asked.get("workload") or Request.model_fields["workload"],
        "prefix_share": fields.get("prefix_share", 0.0),
    }
    if asked.get("thinking"):
        fields["thinking"] = cells.boolean(asked["thinking"]) > 0
    prompt, output, requests = (max(int(value), 1) for value in load)
    try:
        request = Request(
            hardware=asked["hardware"],
            model=asked["model"],
            engine=read_engine(asked["engine"]) or None,
            gpus=int(cells.at_least_one(asked["gpu_count"])),
            ctx_tokens=prompt,
            output_tokens=output,
            concurrency=requests,
            **fields,
        )
        return resolve.bare_facts(request)
    except (AdvisorError, ValueError):
        return None


# The words of a column, or what raises or is false of those that it does not know
Known = tuple[str, ...] | Callable[[str], Any]
_NAMES: dict[str, Known] = {
    "quant": store.quant,
    "engine": lambda word: read_engine(word) == "custom" or engines.get(read_engine(word)),
    "workload": arrays.WORKLOADS[1:],
    "goal": get_args(Goal),
    "engine_version": lambda word: re.match(r"(v|b|build )?\d|[0-9a-f]{7}", word),
}


def _refusal(name: str, known: Known, word: str) -> str:
    """Why a cell's word is refused, "" where it is known or blank."""
    if cells.normal(word) in cells.UNKNOWN:
        return ""
    wrong = f"unknown {name} '{printable(word, 40)}'"
    if isinstance(known, tuple):
        return "" if cells.normal(word) in known else f"{wrong}; use one of {', '.join(known)}"
    try:
        return "" if known(word) else wrong
    except AdvisorError as error:
        return str(error)


def _engines(asked: Sequence[Mapping[str, str]], points: Sequence[Point]) -> Answers:
    """Engine and quantisation of each question; empty where it is refused."""
    return [
        ("", "") if facts is None or facts.quant is None else (facts.engine or "", facts.quant.id)
        for facts in (_facts(asked[number], load) for number, *load in points)
    ]


def _layouts(asked: Sequence[Mapping[str, str]], points: Sequence[Point]) -> Answers:
    """The ranks of each question's layout; empty where it is refused or has stages."""
    found = [_facts(asked[number], load) for number, *load in points]
    turns = iter(judge.workable_layouts([facts for facts in found if facts], judge.weigh))
    tried = [judge.attempt(next(turns)) if facts else None for facts in found]
    plans = [one[0].plan if isinstance(one, tuple) else None for one in tried]
    return [(str(plan.tp) if plan is not None and plan.pp == 1 else "",) for plan in plans]


def _release(engine: str, hardware: str, asked: str) -> str | None:
    """The catalogued release that is asked for, else that which launches are written for."""
    name, known = read_engine(engine), find_hardware(hardware.strip())
    if name not in WRITTEN:
        return asked
    if asked.strip().lower() not in cells.UNKNOWN:
        return engines.get(name).resolve_version(asked.strip()).version or asked
    return engines.get(name).usual(known)[0] if known is not None else None


def _link(hardware: str, gpus: str) -> str | None:
    known, count = find_hardware(hardware.strip()), cells.positive(gpus)
    if known is None or np.isnan(count):
        return None
    return (topology.link_default(known, int(count)) or (None,))[0]


def _rank_link(link: str, hardware: str, gpus: str, tp: str) -> str:
    """The link between a replica's ranks: those of one board wait over its own, as in `in_step`."""
    known, ranks, count = find_hardware(hardware.strip()), cells.positive(tp), cells.positive(gpus)
    if known is None or cells.normal(link) not in LINKS or not 1 < ranks < count:
        return link
    board = topology.CHASSIS if known.machine_gpus is None else known.machine_gpus.value
    return "" if known.hardware_class != "unified" and ranks <= board < count else link


def _thinking(model: str) -> str | None:
    default = pair[0].thinking_default if (pair := find_model(model.strip())) else None
    return None if default is None else str(default)


def _temperature(model: str, workload: str, thinking: str) -> str | None:
    pair, thinks = find_model(model.strip()), cells.boolean(thinking)
    if pair is None:
        return None
    warm = pair[0].temperature(workload.strip().lower(), None if np.isnan(thinks) else thinks > 0)
    return None if warm is None else f"{warm:g}"
