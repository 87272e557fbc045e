"""`evalscope perf`: benchmark_summary.json, the printed "Benchmarking summary" of any release, and
the tables of several concurrencies (performance_summary.txt: one table until 1.13, then three).

Seconds until 1.7, milliseconds for latencies per token since. In some releases that print a
"package latency" the "time per output token" is the whole latency over all tokens: where the
figures say so our TPOT follows from the means. Where the answers did not stream the first token
is the whole answer, and neither is stated. Tokens per iteration are those of a streamed chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import (
    BY_MEANS,
    FileLayout,
    mean_after_first,
    parts_of,
    plain_number,
)
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency

FORMAT = "evalscope-perf"
_TITLE = "Benchmarking summary:"
_BARS = str.maketrans("┃│", "||")
_KEYS = (  # of a saved summary, any of the two generations
    {"Number of concurrency", "Succeed requests"},
    {"Concurrency", "Success Requests", "Avg Latency (s)"},
)
# our name -> how releases write it, lower case; the unit is read off the label
_LABELS = {
    "duration": ("time taken for tests (s)", "test duration (s)"),
    "concurrency": ("number of concurrency", "concurrency", "conc."),
    "rate": ("request rate (req/s)",),
    "total": ("total requests",),
    "done": ("succeed requests", "success requests"),
    "failed": ("failed requests",),
    "speed": ("output token throughput (tok/s)", "output throughput (tok/s)",
              "throughput(average tokens/s)", "gen. toks/s"),
    "whole mean": ("average latency (s)", "avg latency (s)", "avg lat.(s)", "latency (s)"),
    "first mean": ("average time to first token (s)", "ttft (ms)", "avg ttft(s)", "avg ttft(ms)",
              "avg ttft (ms)"),
    "token mean": ("average time per output token (s)", "tpot (ms)", "avg tpot(s)", "avg tpot(ms)",
              "avg tpot (ms)"),
    "chunk mean": ("average inter-token latency (s)", "itl (ms)", "avg itl (ms)"),
    "package mean": ("average package latency (s)",),
    "prompt": ("average input tokens per request", "avg input tokens", "input tokens"),
    "answer": ("average output tokens per request", "avg output tokens", "output tokens"),
    "first p99": ("p99 ttft(s)", "p99 ttft(ms)"),
    "token p99": ("p99 tpot(s)", "p99 tpot(ms)"),
    "whole p99": ("p99 lat.(s)",),
}  # fmt: skip
_NAMES = {label: name for name, labels in _LABELS.items() for label in labels}
LAYOUT = FileLayout(
    format="evalscope-perf",
    client="evalscope perf",
    fields={
        "concurrency": "concurrency", "request_rate": "rate", "requests": "done",
        "failed": "failed", "input_tokens": "prompt", "output_tokens": "answer",
        "duration_s": "duration", "output_tok_s": "speed",
    },
    times={
        "ttft_ms": "first {}", "tpot_ms": "token {}", "itl_ms": ("chunk {}", "package {}"),
        "e2e_ms": "whole {}",
    },
    words={"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99"},
)  # fmt: skip
_ZEROS = ("done", "failed")  # that say something
_PER_STEP = re.compile(r"decoded tok(?:en)?s?(?: per |/)iter")
_COUNTS = re.compile(r"(\d+) / (\d+) / (\d+)")
_PERCENT = re.compile(r"(\d{1,2})%")
_PERCENTILES = {"ttft": "first", "itl": "chunk", "tpot": "token", "latency": "whole"}
STREAMED = 0.999  # share of the whole latency from which the first token is the whole answer
_OVERVIEW, _METRICS = ["Conc.", "Rate", "Num"], ["Conc.", "Rate", "Metric"]  # since 1.14
_MODEL = re.compile(
    r"^\s*\"model\": \"([^\"\n]{1,200})\",$|[│|] Model +[│|] (\S{1,200}) +[│|]", re.M
)
DRAFTED = 1.02  # tokens per chunk above which a server sent several at once
Load = dict[str, float]  # the numbers of one load, under our names; times in ms


def matches(doc: Document) -> bool:
    """Whether the document is a result of `evalscope perf`."""
    rows = doc.objects
    if rows:
        return all(any(keys <= row.keys() for keys in _KEYS) for row in rows)
    return not doc.values and (_TITLE in doc.text or bool(_sweep(doc.text) or _by_load(doc.text)))


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per load. Raises Unreadable where none states an output throughput."""
    if doc.objects:
        loads = [_numbers(row.items()) for row in doc.objects]
    elif _TITLE in doc.text:
        loads = [_summary(part) for part in doc.text.split(_TITLE)[1:]]
    else:
        loads = _sweep(doc.text) or _by_load(doc.text)
    loads = [load for load in loads if load.get("speed")]
    if not loads:
        raise Unreadable(f"{doc.name}: {FORMAT}: no output throughput is stated")
    return [_run(doc, load, part) for part, load in parts_of(loads)]


def _numbers(rows: Iterable[tuple[Any, Any]]) -> Load:
    """Labels and values as printed or saved -> numbers under our names, times in ms; what is 0 is
    not set.
    """
    load: Load = {}
    for label, value in rows:
        name = " ".join(str(label).lower().split())
        if (counts := _COUNTS.fullmatch(str(value).strip())) and name.startswith("total / success"):
            load |= zip(("total", "done", "failed"), map(float, counts.groups()), strict=True)
        key = "per_step" if _PER_STEP.search(name) else _NAMES.get(name)
        number = plain_number(value)
        if key is None or number is None or number < 0:
            continue
        seconds = name.endswith("(s)") and key != "duration"
        load.setdefault(key, number * 1e3 if seconds else number)
    return load


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.translate(_BARS).splitlines():
        bare = line.strip(" \t>")
        if bare.startswith("|") and bare.endswith("|") and len(bare) > 1:
            yield [cell.strip() for cell in bare[1:-1].split("|")]


def _summary(text: str) -> Load:
    """One printed summary, with the percentiles below it."""
    rows = list(_rows(text))
    load = _numbers((row[0], row[1]) for row in rows if len(row) == 2)
    columns: list[str] = []
    for row in rows:
        if row[0] in ("Metric", "Percentile", "Percentiles") and len(row) > 2:
            columns = row
        elif columns and len(row) == len(columns):
            down = columns[0] != "Metric"  # until 1.6 a percentile was a row
            for column, cell in zip(columns[1:], row[1:], strict=True):
                metric, share = (column, row[0]) if down else (row[0], column)
                _put(load, metric, share, cell)
    return load


def _put(load: Load, metric: str, share: str, cell: str) -> None:
    """A percentile's cell: a latency of a request is in seconds, whatever is said of it."""
    match, value = _PERCENT.fullmatch(share), plain_number(cell)
    word, _, unit = metric.lower().partition(" (")
    name = _PERCENTILES.get(word)
    if name and match and value is not None:
        seconds = unit.startswith("s") or name == "whole"
        load.setdefault(f"{name} p{match[1]}", value * 1e3 if seconds else value)


def _sweep(text: str) -> list[Load]:
    """The rows of the table of several concurrencies, whose header is broken over lines."""
    head: list[str] = []
    loads: list[Load] = []
    for row in _rows(text) if "Conc." in text and "TTFT" in text else ():
        if row and re.fullmatch(r"\d+", row[0]) and len(row) == len(head):
            load = _numbers(zip(head, row, strict=True))
            loads += [load] if {"speed", "concurrency"} <= load.keys() else []
        elif len(row) == len(head) and not _has_names(head):
            head = [f"{above} {cell}".strip() for above, cell in zip(head, row, strict=True)]
        else:
            head = row
    return loads


def _has_names(head: list[str]) -> bool:
    return {"conc.", "gen. toks/s"} <= {" ".join(cell.lower().split()) for cell in head}


def _by_load(text: str) -> list[Load]:
    """The loads of the three tables since 1.14: throughput in one, a metric a row in the next."""
    loads: dict[tuple[str, str], Load] = {}
    head: list[str] = []
    at = ("", "")
    for row in _rows(text) if "Gen/s" in text and "Conc." in text else ():
        if row[0] == "Conc.":
            head = row
        elif len(row) != len(head):
            head = []
        elif head[:3] == _OVERVIEW and "Gen/s" in head:
            cells = dict(zip(head, row, strict=True))
            names = {"concurrency": "Conc.", "rate": "Rate", "total": "Num", "speed": "Gen/s"}
            load = {
                name: number
                for name, column in names.items()
                if (number := plain_number(cells[column])) is not None
            }
            passed = plain_number(cells.get("Success", "").rstrip("%"))
            if "total" in load and passed is not None:
                load["done"] = float(round(load["total"] * passed / 100))
                load["failed"] = load["total"] - load["done"]
            loads[row[0], row[1]] = load
        elif head[:3] == _METRICS:
            at = (row[0], row[1]) if row[0] else at
            cells = dict(zip(head, row, strict=True))
            if at in loads:
                loads[at] = _numbers([(row[2], cells.get("avg"))]) | loads[at]
                for share in ("50", "99"):
                    _put(loads[at], row[2], f"{share}%", cells.get(f"p{share}", ""))
    return [load for load in loads.values() if "speed" in load]


def _run(doc: Document, load: Load, part: str) -> BenchmarkRun:
    set_numbers = {name: value for name, value in load.items() if value or name in _ZEROS}
    run = LAYOUT.run(doc, set_numbers, part)
    first, whole = run.ttft_ms and run.ttft_ms.mean, run.e2e_ms and run.e2e_ms.mean
    more: dict[str, Any] = {}
    notes = []
    after = mean_after_first(run.e2e_ms, run.ttft_ms, run.output_tokens)
    if whole and first and first >= STREAMED * whole:
        more = dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms"))
        notes = ["the answers did not stream: neither TTFT nor TPOT is known"]
    elif load.get("package mean") and after and _counts_first(run, after):
        stated = run.tpot_ms or after
        more["tpot_ms"] = stated.model_copy(update={"mean": after.mean})
        notes = [f"{BY_MEANS}this release counts the first token's wait in"]
    per_step = load.get("per_step", 0.0)
    if per_step > DRAFTED:
        more["acceptance"] = Acceptance(length=per_step)
        notes.append("tokens per step are those of a streamed chunk")
    model = None if doc.values else _MODEL.search(doc.text)
    more["model"] = (model[1] or model[2]) if model else None
    return run.model_copy(update=more | {"notes": tuple(notes)})


def _counts_first(run: BenchmarkRun, after: Latency) -> bool:
    """Whether the stated time per token is nearer to the whole latency over all tokens."""
    token, whole, tokens = run.tpot_ms, run.e2e_ms, run.output_tokens
    if token is None or whole is None or not tokens:
        return False
    stated, mean, other = (one.mean or 0.0 for one in (token, whole, after))
    return abs(stated - mean / tokens) < abs(stated - other)
