"""The block "Serving Benchmark Result" that `vllm bench serve` and `sglang.benchmark.serving`
print, as pasted or redirected: whole, as a few of its lines, or as a table with a run a column;
and that of SGLang's bench_offline_throughput.

Rounded to two places. SGLang's block has a line "Backend:", vLLM's has none; some releases of
SGLang's print no TPOT, which then follows from the mean latencies. What was asked for is read
from the printed Namespace or the command line above the block, where they were pasted with it.
"""

from __future__ import annotations

import re
from typing import Any

from advisor.readers.results.comparison_tables import drafts_of
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.run import (
    Acceptance,
    BenchmarkRun,
    Foreign,
    Latency,
    Number,
    after_first,
    per_request,
)
from advisor.readers.results.tables import bare_cell, grid_tables

FORMAT = "serving-console"
# a progress bar may stand before it on the same line
_TITLE = re.compile(
    r"^.{0,300}?={3,60} (?:Serving|(Offline Throughput)) Benchmark Result =+[ \t]*$", re.M
)
_SPEED = "output token throughput (tok/s)"
_LABELS = (_SPEED, "mean tpot (ms)", "median tpot (ms)", "mean ttft (ms)", "median ttft (ms)")
_LINE = re.compile(
    r"^[^\n]{0,40}?([A-Z][A-Za-z0-9 ()/%.-]{2,50}?):[ \t]+([0-9][0-9.,]*|\S+)[ \t]*(?:<[^\n]*)?$",
    re.M,
)
_END = re.compile(r"^.{0,40}={30,}[ \t]*$", re.M)
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*(?:(?!\1)[.,][0-9]+)?")
_POSITION = re.compile(r"Position (\d+):\s+([0-9]+(?:\.[0-9]*)?)")
_ASKED = re.compile(
    r"(?:--|\b)(model|seed|dataset[-_]name|max[-_]concurrency|temperature)(?:=|\s+)'?([^\s',)]+)"
)

_ABOVE = re.compile(r"Maximum request concurrency:[ \t]+([0-9]+)")


class Block(Foreign):
    """The numbers of one block, under the printed labels in lower case."""

    numbers: dict[str, Number]
    backend: str | None = None
    positions: tuple[float, ...] = ()
    offline: bool = False

    def get(self, *labels: str) -> float | None:
        """Return the first of these labels that has a number, None where none has."""
        return next(
            (self.numbers[name] for name in labels if self.numbers.get(name) is not None), None
        )


def matches(doc: Document) -> bool:
    """Whether the text is console output of a serving benchmark."""
    if doc.values:
        return False
    return _TITLE.search(doc.text) is not None or bool(_starts(doc.text) or _columns(doc.text))


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result block."""
    titled = _TITLE.search(doc.text) is not None
    starts = _starts(doc.text)
    if not starts:
        columns = _columns(doc.text).items()
        return [_of_column(_run(doc, Block(numbers=one), {}, part)) for part, one in columns]
    ends = [*starts[1:], len(doc.text)]
    out: list[BenchmarkRun] = []
    before = doc.text[: starts[0]]
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        try:
            block = _block(doc, doc.text[start:end], titled)
        except Unreadable:
            if not out or i + 1 < len(starts):
                raise
            cut = f"run {i + 1} of the file is cut off and left out"
            return [run.model_copy(update={"notes": (*run.notes, cut)}) for run in out]
        out.append(_run(doc, block, _arguments(before), f"run {i + 1}" if len(starts) > 1 else ""))
        before = doc.text[start:end]
    return out


def _of_column(run: BenchmarkRun) -> BenchmarkRun:
    """A column's run with what its title says of drafts."""
    k, drafts = drafts_of(run.part)
    method = "none" if drafts is False and run.acceptance is None else run.method
    return run.model_copy(update={"k": k if run.k is None else run.k, "method": method})


def _starts(text: str) -> list[int]:
    """Where the blocks start: at their titles, or without any where a label comes again."""
    titles = [found.start() for found in _TITLE.finditer(text)]
    if titles:
        return titles
    starts: list[int] = []
    seen: set[str] = set()
    speeds = 0
    for found in _LINE.finditer(text) if f"{_SPEED}:" in text.lower() else ():
        name = found[1].lower().strip()
        speeds += name == _SPEED
        if not starts or name in seen:
            starts.append(found.start())
            seen = set()
        seen.add(name)
    known = {found[1].lower().strip() for found in _LINE.finditer(text)} & set(_LABELS)
    return starts if speeds == len(starts) and len(known) > 1 else []


def _columns(text: str) -> dict[str, dict[str, float | None]]:
    """The numbers of each column of a table whose rows have the labels of a block; columns of
    ratios have none.
    """
    out: dict[str, dict[str, float | None]] = {}
    for rows in grid_tables(text) if _SPEED in text.lower() else ():
        label, *columns = rows[0]
        for row in rows:
            for column in columns:
                value = _number(bare_cell(row[column]))
                if value is not None:
                    numbers = out.setdefault(" ".join(column), {})
                    numbers.setdefault(bare_cell(row[label]).lower().rstrip(":"), value)
    return {part: numbers for part, numbers in out.items() if _SPEED in numbers}


def _block(doc: Document, text: str, titled: bool) -> Block:
    numbers: dict[str, Any] = {}
    backend = None
    for label, value in _LINE.findall(text):
        name = label.lower().strip()
        if name == "backend":
            backend = value
        else:
            numbers.setdefault(name, _number(value))
    # a chat of one token has no TPOT
    whole = not titled or _END.search(text, text.find("\n")) is not None
    if numbers.get(_SPEED) is None or not (whole or numbers.get("mean tpot (ms)")):
        why = "has no" if whole else "is cut off: no"
        raise Unreadable(f"{doc.name}: the printed result {why} output throughput or TPOT")
    positions = tuple(float(rate) / 100 for _, rate in _POSITION.findall(text))
    title = _TITLE.match(text)
    return Block(
        numbers=numbers,
        backend=backend,
        positions=positions,
        offline=title is not None and title[1] is not None,
    )


def _number(text: str) -> float | None:
    """A printed number, with a point or a comma for decimals and between thousands; None where it
    is none.
    """
    if _THOUSANDS.fullmatch(text) and ("," in text or text.count(".") > 1):
        mark = next(ch for ch in text if ch in ".,")
        text = text.replace(mark, "")
    text = text.replace(",", ".")
    return float(text) if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", text) else None


def _arguments(text: str) -> dict[str, str]:
    near = text[-20_000:]
    found = {name.replace("-", "_"): value for name, value in _ASKED.findall(near)}
    # older clients print it above the block
    above = _ABOVE.findall(near)
    return found | ({"max_concurrency": above[-1]} if above else {})


def _run(doc: Document, block: Block, asked: dict[str, str], part: str) -> BenchmarkRun:
    done, sglang = block.get("successful requests"), block.backend is not None
    client = "sglang.benchmark.serving" if sglang else "vllm bench serve"
    if block.offline:
        client = "sglang.bench_offline_throughput"
    engine: Any = "vllm" if not sglang and block.get("acceptance length") else None
    if sglang:
        engine = "sglang" if (block.backend or "").startswith("sglang") else None
        engine = "vllm" if (block.backend or "").startswith("vllm") else engine
        engine = "sglang" if block.offline else engine
    limit = block.get(  # the third: as SGLang 0.4 writes it
        "maximum request concurrency", "max request concurrency", "max reqeuest concurrency"
    )
    limit = limit if limit is not None else _number(asked.get("max_concurrency", ""))
    tpot = _latency(block, "tpot")
    derived = _tpot_of_means(block) if tpot is None else None
    return BenchmarkRun(
        file=doc.name,
        format=FORMAT,
        part=part,
        sha256=doc.sha256,
        engine=engine,
        client=client,
        kind="offline" if block.offline else "serving",
        model=asked.get("model"),
        dataset=asked.get("dataset_name"),
        seed=int(asked["seed"]) if asked.get("seed", "").isdigit() else None,
        concurrency=limit,
        request_rate=block.get("request rate configured (rps)", "traffic request rate"),
        requests=None if done is None else round(done),
        failed=_whole(block.get("failed requests")),
        k=len(block.positions) or None,
        input_tokens=per_request(block.get("total input tokens"), done),
        output_tokens=per_request(block.get("total generated tokens"), done),
        duration_s=block.get("benchmark duration (s)"),
        output_tok_s=block.get(_SPEED),
        ttft_ms=_latency(block, "ttft"),
        tpot_ms=tpot or derived,
        itl_ms=_latency(block, "itl"),
        e2e_ms=_latency(block, "e2el") or _latency(block, "e2e latency"),
        acceptance=_acceptance(block),
        notes=("TPOT from the means of latency, TTFT and tokens: none is printed",)
        if derived
        else (),
    )


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _latency(block: Block, name: str) -> Latency | None:
    words = {"mean": "mean", "p50": "median", "p90": "p90", "p99": "p99"}
    return Latency.from_statistics(
        **{f: block.get(f"{word} {name} (ms)") for f, word in words.items()}
    )


def _tpot_of_means(block: Block) -> Latency | None:
    """The mean time per token after the first, ms."""
    tokens = per_request(block.get("total generated tokens"), block.get("successful requests"))
    first, whole = block.get("mean ttft (ms)"), block.get("mean e2e latency (ms)")
    return Latency.from_statistics(mean=after_first(whole, first, tokens))


def _acceptance(block: Block) -> Acceptance | None:
    length = block.get("acceptance length", "accept length")
    if length is None or (length == 1 and not block.positions and block.backend is not None):
        return None  # SGLang prints 1.00 without drafts
    rate = block.get("acceptance rate (%)")
    return Acceptance(
        length=length, rate=None if rate is None else rate / 100, by_position=block.positions,
        drafts=_whole(block.get("drafts")), draft_tokens=_whole(block.get("draft tokens")),
        accepted_tokens=_whole(block.get("accepted tokens")),
    )  # fmt: skip
