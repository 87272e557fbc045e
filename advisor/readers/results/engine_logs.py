"""Log lines of the three engines, and what vLLM says of itself at its start (releases 0.9 to 0.33).
Windows of vLLM and lines of SGLang are averaged where requests ran; llama-server prints one line a
request, and its `statistics` are cumulative: the last counts.
"""

import re
import statistics
from collections.abc import Iterable
from typing import Any

from advisor.readers.results.document import Document
from advisor.readers.results.run import Acceptance, BenchmarkRun, Latency

FORMAT = "engine-log"
VLLM, SGLANG, LLAMA = "vllm-log", "sglang-log", "llama-server-log"
_N = r"([0-9]+(?:\.[0-9]*)?)"
_VLLM_SPEC = re.compile(
    rf"SpecDecoding metrics: Mean acceptance length: {_N},.{{0,400}}?Accepted: (\d+) tokens, "
    r"Drafted: (\d+) tokens, Per-position acceptance rate: ([0-9., ]+?), "
    r"Avg Draft acceptance rate: "
)
_VLLM_SPEED = re.compile(
    r"(?:Engine (\d+): )?Avg prompt throughput: [0-9.]+ tokens/s, Avg generation throughput: "
    rf"{_N} tokens/s, Running: (\d+) reqs"
)
_VLLM = (_VLLM_SPEC, _VLLM_SPEED)
_SGLANG = re.compile(
    r"Decode batch(?: \[\d+\])?[,.].{0,20}?#running-req: (\d+),"
    rf".{{0,400}}?gen throughput \(token/s\): {_N}"
)
_SGLANG_MARKS = ("Decode batch", "gen throughput (token/s):")
_SGLANG_RANK = re.compile(r"\bDP(\d+)\b")
_SGLANG_RAY = re.compile(r"\(SGLangEngine pid=(\d+)")
_ACCEPT_LEN = re.compile(rf"accept(?:ed)? len(?:gth)?: {_N}")
_LLAMA_SPEED = re.compile(
    rf"(?<!prompt )\beval time =\s+{_N} ms /\s+(\d+) (?:tokens|runs)\b"
    rf"(?:\s+\(\s*{_N} ms per token)?"
)
# in progress: the mean since the first token, of a request whose end is not in the log
_LLAMA_SO_FAR = re.compile(rf"task (\d+) \| n_(?:gen|decoded) =\s*(\d+), tg =\s*{_N} t/s")
_LLAMA_PROMPT = re.compile(rf"prompt eval time =\s+{_N} ms /\s+(\d+) tokens")
_LLAMA_DRAFT = re.compile(
    r"draft acceptance(?: rate)? = [0-9.]+ \(\s*(\d+) accepted /\s*(\d+) generated\)"
    rf"(?:, mean (?:acceptance length|len) =\s*{_N})?"
    r"(?:, acceptance rate per position = \(([0-9., ]+)\))?"
)
_LLAMA_STATS = re.compile(
    r"statistics\s+(draft-[\w-]+|mtp|eagle3?|ngram[-_][\w-]+)[:\s].{0,200}?#gen drafts =\s*(\d+), "
    r"#acc drafts =\s*\d+, #gen tokens =\s*(\d+), #acc tokens =\s*(\d+)"
    r"(?:, #mean acc len =\s*[0-9.]+, #acc rate/pos = \(([0-9., ]+)\))?"
)
_LLAMA_BUILD = re.compile(r"\bbuild(?:_info)?:?\s+b?(\d{4,6})\b")
_LLAMA_SLOTS = re.compile(r"n_slots = (\d+)")


def matches(doc: Document) -> bool:
    """Whether the text is a log of vLLM, SGLang or llama-server with speeds."""
    if doc.values or "Serving Benchmark Result" in doc.text:
        return False
    if _sglang_lines(doc.text):
        return True
    marks = (*_VLLM, _LLAMA_SPEED, _LLAMA_SO_FAR, _LLAMA_DRAFT, _LLAMA_STATS)
    return any(mark.search(doc.text) for mark in marks)


def read(doc: Document) -> list[BenchmarkRun]:
    """Return the run of the log."""
    if any(p.search(doc.text) for p in _VLLM):
        return [_vllm(doc)]
    return [_sglang(doc)] if _sglang_lines(doc.text) else [_llama(doc)]


def _floats(text: str | None) -> list[float]:
    return [float(word) for word in re.findall(r"[0-9]+(?:\.[0-9]+)?", text or "")]


def _mean(values: Iterable[float]) -> float | None:
    values = list(values)
    return sum(values) / len(values) if values else None


def _run(doc: Document, form: str, **more: Any) -> BenchmarkRun:
    return BenchmarkRun(file=doc.name, format=form, kind="log", sha256=doc.sha256, **more)


def _vllm(doc: Document) -> BenchmarkRun:
    windows = [
        (float(length), int(accepted), int(drafted), _floats(rates))
        for length, accepted, drafted, rates in _VLLM_SPEC.findall(doc.text)
    ]
    rows = [rates for *_, rates in windows]
    steps = [
        accepted / (length - 1) if length > 1 else drafted / max(len(rates), 1)
        for length, accepted, drafted, rates in windows
    ]
    drafted, accepted = sum(row[2] for row in windows), sum(row[1] for row in windows)
    k = max(map(len, rows), default=0)
    acceptance = _acceptance_of_lines(steps, drafted, accepted, rows)
    figures: dict[str, Any] = {"k": k or None} | start_of(doc.text)
    figures |= _speeds(_VLLM_SPEED.findall(doc.text), "means of the printed windows of about 10 s")
    return _run(doc, VLLM, engine="vllm", acceptance=acceptance, **figures)


def _acceptance_of_lines(
    steps: list[float], drafted: int, accepted: int, rows: list[list[float]]
) -> Acceptance | None:
    """The acceptance of lines with so many steps and rates by position each; None without any."""
    if not drafted or not any(steps):
        return None
    at = [
        sum(count * row[i] for count, row in zip(steps, rows, strict=True) if i < len(row))
        for i in range(max(map(len, rows), default=0))
    ]
    return Acceptance.from_counts(sum(steps), drafted, accepted, at)


def _speeds(lines: Iterable[tuple[str, str, str]], note: str) -> dict[str, Any]:
    """Throughput and requests in flight of lines (rank, tokens/s, running): means by rank, summed.
    The first line after idle time counts that time: it is left out.
    """
    ranks: dict[str, list[tuple[float, int]]] = {}
    for rank, speed, running in lines:
        if int(running) and float(speed):
            ranks.setdefault(rank, []).append((float(speed), int(running)))
    kept = {
        rank: [row for row in rows if row[0] >= 0.1 * statistics.median(r[0] for r in rows)]
        for rank, rows in ranks.items()
    }
    left_out = sum(map(len, ranks.values())) - sum(map(len, kept.values()))
    total, in_flight = (
        sum(statistics.fmean(row[i] for row in rows) for rows in kept.values()) or None
        for i in (0, 1)
    )
    notes = [note + (f", summed over {len(kept)} ranks" if len(kept) > 1 else "")]
    if left_out:
        notes.append(f"{left_out} lines after idle time are left out")
    repeats = max(map(len, kept.values()), default=0) or None
    figures = {"output_tok_s": total, "concurrency": in_flight, "repeats": repeats}
    return figures | {"notes": tuple(notes)}


def _sglang(doc: Document) -> BenchmarkRun:
    speeds, lengths = [], []
    for line in _sglang_lines(doc.text):
        found, length = _SGLANG.search(line), _ACCEPT_LEN.search(line)
        if found and int(found[1]):
            ray, rank = _SGLANG_RAY.search(line), _SGLANG_RANK.search(line)
            rank_of = f"{ray[1] if ray else ''}/{rank[1] if rank else ''}"
            speeds.append((rank_of, found[2], found[1]))
            if length is not None and float(length[1]) >= 1:
                lengths.append(float(length[1]))
    mean_length = _mean(lengths)
    acceptance = Acceptance(length=mean_length) if mean_length else None
    figures = _speeds(speeds, "means of the printed decode lines")
    return _run(doc, SGLANG, engine="sglang", acceptance=acceptance, **figures)


def _sglang_lines(text: str) -> list[str]:
    if not all(mark in text for mark in _SGLANG_MARKS):
        return []
    return [line for line in text.splitlines() if all(mark in line for mark in _SGLANG_MARKS)]


def _llama(doc: Document) -> BenchmarkRun:
    per_token = [
        (float(per) if per else float(ms) / int(count), int(count))
        for ms, count, per in _LLAMA_SPEED.findall(doc.text)
        if int(count) > 1
    ]
    note = "TTFT is the time of the prompt in the server, without the queue"
    if not per_token and (so_far := {m[1]: m for m in _LLAMA_SO_FAR.finditer(doc.text)}):
        per_token = [(1e3 / float(m[3]), int(m[2])) for m in so_far.values() if float(m[3])]
        note = "the requests had not ended: their speeds so far"
    prompts = [(float(ms), int(count)) for ms, count in _LLAMA_PROMPT.findall(doc.text)]
    build = _LLAMA_BUILD.search(doc.text)
    slots = _LLAMA_SLOTS.search(doc.text)
    acceptance, k = _llama_drafts(doc.text)
    method = _llama_method(doc.text) if acceptance else "none" if per_token else None
    tpots = [per for per, _ in per_token]
    return _run(
        doc, LLAMA, engine="llama-server", engine_version=f"b{build[1]}" if build else None, k=k,
        slots=int(slots[1]) if slots else None,
        requests=len(per_token) or None, output_tokens=_mean(count for _, count in per_token),
        input_tokens=_mean(count for _, count in prompts),
        tpot_ms=Latency.of(tpots), ttft_ms=Latency.of(ms for ms, _ in prompts),
        request_tok_s=1e3 / (sum(tpots) / len(tpots)) if tpots and sum(tpots) else None,
        acceptance=acceptance, method=method,
        notes=(note,),
    )  # fmt: skip


def _llama_method(text: str) -> str | None:
    """The method that the statistics name, one beside lookups; None where they name none."""
    kinds = [row[1] for row in _LLAMA_STATS.finditer(text)]
    drafters = [kind for kind in kinds if not kind.startswith("ngram")] or ["", *kinds]
    word = drafters[-1].removeprefix("draft-").split("-")[0]
    return {"simple": "draft_model"}.get(word, word) or None


def _llama_drafts(text: str) -> tuple[Acceptance | None, int | None]:
    lines = _LLAMA_DRAFT.findall(text)
    stats = list(_LLAMA_STATS.finditer(text))
    # lookups beside a draft model are counted only in the lines of the requests
    kept = [row for row in stats if not row[1].startswith("ngram")] or (stats if not lines else [])
    if kept:
        last = kept[-1]
        drafts, drafted, accepted = (int(n) for n in last.group(2, 3, 4))
        rates = _floats(last[5])
        counts = [rate * drafts for rate in rates]
        return Acceptance.from_counts(drafts, drafted, accepted, counts), len(rates) or None
    if not lines:
        return None, None
    accepted, drafted = sum(int(row[0]) for row in lines), sum(int(row[1]) for row in lines)
    steps = [int(row[0]) / (float(row[2]) - 1) for row in lines if row[2] and float(row[2]) > 1]
    if len(steps) < len(lines):  # old lines without a length: only the rate is known
        return Acceptance.from_counts(None, drafted, accepted), None
    rows = [_floats(row[3]) for row in lines]
    return _acceptance_of_lines(steps, drafted, accepted, rows), max(map(len, rows)) or None


_START = re.compile(
    r"Initializing an? (?:V\d )?LLM engine \((?:v?([0-9][\w.+-]*)|[^)\n]{0,80})\) with config: "
    r"model='([^'\n]{1,300})', (?:speculative_config|speculative_decoding_config)="
    r"(None|SpeculativeConfig\([^)\n]*\))"
)

_VERSION = re.compile(r"vLLM (?:API server )?version v?(\d+\.\d+\.\d+)")


def start_of(text: str) -> dict[str, Any]:
    """Fields of a run that the start of the engine states; what is not printed is left out."""
    version, start = _VERSION.search(text), _START.search(text)
    fields: dict[str, Any] = {"engine_version": version[1]} if version else {}
    if start is None:
        return fields
    fields |= {"model": start[2]} | ({"engine_version": start[1]} if start[1] else {})
    if start[3] == "None":
        return fields | {"method": "none"}
    method = re.search(r"method='(\w+)'", start[3])
    tokens = re.search(r"num_spec_tokens=(\d{1,3})\b", start[3])
    fields |= {"method": method[1]} if method else {}
    return fields | ({"k": int(tokens[1])} if tokens else {})
