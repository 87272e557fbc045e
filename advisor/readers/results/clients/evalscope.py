"""`evalscope perf`: benchmark_summary.json, the printed "Benchmarking summary" of any release, and
the tables of several concurrencies (performance_summary.txt: one table until 1.13, then three).

Seconds until 1.7, milliseconds for latencies per token since. In some releases that print a
"package latency" the "time per output token" is the whole latency over all tokens: where the
figures say so our TPOT follows from the means. Where the answers did not stream the first token
is the whole answer, and neither is stated. Tokens per iteration are those of a streamed chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Foreign,
    Latency,
    Number,
    after_first,
)

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
    "whole": ("average latency (s)", "avg latency (s)", "avg lat.(s)", "latency (s)"),
    "first": ("average time to first token (s)", "ttft (ms)", "avg ttft(s)", "avg ttft(ms)",
              "avg ttft (ms)"),
    "token": ("average time per output token (s)", "tpot (ms)", "avg tpot(s)", "avg tpot(ms)",
              "avg tpot (ms)"),
    "chunk": ("average inter-token latency (s)", "itl (ms)", "avg itl (ms)"),
    "package": ("average package latency (s)",),
    "prompt": ("average input tokens per request", "avg input tokens", "input tokens"),
    "answer": ("average output tokens per request", "avg output tokens", "output tokens"),
    "first99": ("p99 ttft(s)", "p99 ttft(ms)"),
    "token99": ("p99 tpot(s)", "p99 tpot(ms)"),
    "whole99": ("p99 lat.(s)",),
}  # fmt: skip
_NAMES = {label: name for name, labels in _LABELS.items() for label in labels}
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


class Summary(Foreign):
    """The numbers of one load, under our names; times in ms, `whole` in s."""

    numbers: dict[str, Number]
    percentiles: dict[str, dict[str, Number]] = {}

    def get(self, name: str) -> float | None:
        """Return a number, None where it is not stated or 0 or below (not set)."""
        return self.numbers.get(name) or None


def matches(doc: Document) -> bool:
    """Whether the document is a result of `evalscope perf`."""
    rows = doc.objects
    if rows:
        return all(any(keys <= row.keys() for keys in _KEYS) for row in rows)
    return not doc.values and (_TITLE in doc.text or bool(_sweep(doc.text) or _by_load(doc.text)))


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per load. Raises Unreadable where none states an output throughput."""
    if doc.objects:
        found = [Summary(numbers=_numbers(row.items())) for row in doc.objects]
    elif _TITLE in doc.text:
        found = [_summary_of(part) for part in doc.text.split(_TITLE)[1:]]
    else:
        found = _sweep(doc.text) or _by_load(doc.text)
    found = [one for one in found if one.get("speed")]
    if not found:
        raise Unreadable(f"{doc.name}: {FORMAT}: no output throughput is stated")
    parts = [f"run {i}" if len(found) > 1 else "" for i in range(1, len(found) + 1)]
    return [_run(doc, one, part) for one, part in zip(found, parts, strict=True)]


def _numbers(rows: Any) -> dict[str, Any]:
    """Labels and values as printed or saved -> numbers under our names, times in ms."""
    out: dict[str, Any] = {}
    for label, value in rows:
        name = " ".join(str(label).lower().split())
        if (counts := _COUNTS.fullmatch(str(value).strip())) and name.startswith("total / success"):
            out |= zip(("total", "done", "failed"), map(float, counts.groups()), strict=True)
        key = "per_step" if _PER_STEP.search(name) else _NAMES.get(name)
        number = _float(value)
        if key is None or number is None or number < 0:
            continue
        seconds = name.endswith("(s)") and key not in ("duration", "whole", "whole99")
        out.setdefault(key, number * 1e3 if seconds else number)
    return out


def _float(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    text = str(value).strip().replace(",", "")
    return float(text) if re.fullmatch(r"-?[0-9]+(?:\.[0-9]*)?", text) else None


def _rows(text: str) -> Iterator[list[str]]:
    for line in text.translate(_BARS).splitlines():
        bare = line.strip(" \t>")
        if bare.startswith("|") and bare.endswith("|") and len(bare) > 1:
            yield [cell.strip() for cell in bare[1:-1].split("|")]


def _summary_of(text: str) -> Summary:
    """One printed summary, with the percentiles below it."""
    rows = list(_rows(text))
    percentiles: dict[str, dict[str, Any]] = {}
    columns: list[str] = []
    for row in rows:
        if row[0] in ("Metric", "Percentile", "Percentiles") and len(row) > 2:
            columns = row
        elif columns and len(row) == len(columns):
            down = columns[0] != "Metric"  # until 1.6 a percentile was a row
            for column, cell in zip(columns[1:], row[1:], strict=True):
                metric, share = (column, row[0]) if down else (row[0], column)
                _put(percentiles, metric, share, cell)
    pairs = [(row[0], row[1]) for row in rows if len(row) == 2]
    return Summary(numbers=_numbers(pairs), percentiles=percentiles)


def _put(out: dict[str, dict[str, Any]], metric: str, share: str, cell: str) -> None:
    found, value = _PERCENT.fullmatch(share), _float(cell)
    word, _, unit = metric.lower().partition(" (")
    name = _PERCENTILES.get(word)
    if name and found and value is not None:
        seconds = unit.startswith("s") and name != "whole"
        out.setdefault(name, {}).setdefault(f"p{found[1]}", value * 1e3 if seconds else value)


def _sweep(text: str) -> list[Summary]:
    """The rows of the table of several concurrencies, whose header is broken over lines."""
    if "Conc." not in text or "TTFT" not in text:
        return []
    head: list[str] = []
    out: list[Summary] = []
    for row in _rows(text):
        if row and re.fullmatch(r"\d+", row[0]) and len(row) == len(head):
            numbers = _numbers(zip(head, row, strict=True))
            if "speed" in numbers and "concurrency" in numbers:
                out.append(Summary(numbers=numbers))
        elif len(row) == len(head) and not _has_names(head):
            head = [f"{above} {cell}".strip() for above, cell in zip(head, row, strict=True)]
        else:
            head = row
    return out


def _by_load(text: str) -> list[Summary]:
    """The loads of the three tables since 1.14: throughput in one, a metric a row in the next."""
    if "Gen/s" not in text or "Conc." not in text:
        return []
    out: dict[tuple[str, str], dict[str, Any]] = {}
    percentiles: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    head: list[str] = []
    at = ("", "")
    for row in _rows(text):
        if row[0] == "Conc.":
            head = row
        elif len(row) != len(head):
            head = []
        elif head[:3] == _OVERVIEW and "Gen/s" in head:
            cells = dict(zip(head, row, strict=True))
            made = {"concurrency": _float(row[0]), "rate": _float(row[1]), "total": _float(row[2]),
                    "speed": _float(cells["Gen/s"])}  # fmt: skip
            passed = _float(cells.get("Success", "").rstrip("%"))
            if (total := made["total"]) is not None and passed is not None:
                done = float(round(total * passed / 100))
                made |= {"done": done, "failed": total - done}
            out[row[0], row[1]] = {name: v for name, v in made.items() if v is not None}
        elif head[:3] == _METRICS:
            at = (row[0], row[1]) if row[0] else at
            cells = dict(zip(head, row, strict=True))
            if at in out:
                for name, value in _numbers([(row[2], cells.get("avg"))]).items():
                    out[at].setdefault(name, value)
                for share in ("p50", "p99"):
                    _put(
                        percentiles.setdefault(at, {}),
                        row[2],
                        f"{share[1:]}%",
                        cells.get(share, ""),
                    )
    return [
        Summary(numbers=numbers, percentiles=percentiles.get(at, {}))
        for at, numbers in out.items()
        if "speed" in numbers
    ]


def _has_names(head: list[str]) -> bool:
    return {"conc.", "gen. toks/s"} <= {" ".join(cell.lower().split()) for cell in head}


def _run(doc: Document, one: Summary, part: str) -> BenchmarkRun:
    get = one.get
    whole, first = get("whole"), get("first")
    streamed = not (whole and first and first >= STREAMED * whole * 1e3)
    token, notes = get("token"), []
    if get("package") is not None and _counts_first(one):
        token = _after_first(one)
        notes.append("TPOT from the means of latency, TTFT and tokens: this release counts the "
                     "first token's wait in")  # fmt: skip
    if not streamed:
        notes = ["the answers did not stream: neither TTFT nor TPOT is known"]
    per_step = get("per_step")
    drafted = per_step if per_step and per_step > DRAFTED else None
    if drafted:
        notes.append("tokens per step are those of a streamed chunk")
    done, failed = one.numbers.get("done"), one.numbers.get("failed")
    model = None if doc.values else _MODEL.search(doc.text)
    return BenchmarkRun(
        file=doc.name,
        format=FORMAT,
        part=part,
        sha256=doc.sha256,
        client="evalscope perf",
        model=(model[1] or model[2]) if model else None,
        concurrency=get("concurrency"),
        request_rate=get("rate"),
        requests=None if done is None else round(done),
        failed=None if failed is None else round(failed),
        input_tokens=get("prompt"),
        output_tokens=get("answer"),
        duration_s=get("duration"),
        output_tok_s=get("speed"),
        ttft_ms=_latency(one, "first", first) if streamed else None,
        tpot_ms=_latency(one, "token", token) if streamed else None,
        itl_ms=_latency(one, "chunk", get("chunk") or get("package")) if streamed else None,
        e2e_ms=_latency(one, "whole", whole, 1e3),
        acceptance=Acceptance(length=drafted) if drafted else None,
        notes=tuple(notes),
    )


def _counts_first(one: Summary) -> bool:
    """Whether the stated time per token is nearer to the whole latency over all tokens."""
    token, after, tokens = one.get("token"), _after_first(one), one.get("answer")
    if token is None or after is None or not tokens:
        return False
    return abs(token - (one.get("whole") or 0) * 1e3 / tokens) < abs(token - after)


def _after_first(one: Summary) -> float | None:
    """The mean time per token after the first, ms."""
    return after_first((one.get("whole") or 0) * 1e3, one.get("first"), one.get("answer"))


def _latency(one: Summary, name: str, mean: float | None, scale: float = 1.0) -> Latency | None:
    found: Mapping[str, float | None] = one.percentiles.get(name, {})
    p99 = found.get("p99") or one.get(f"{name}99")
    stated = {"p50": found.get("p50"), "p90": found.get("p90"), "p99": p99, "mean": mean}
    return Latency.from_statistics(
        **{key: None if value is None else value * scale for key, value in stated.items()}
    )
