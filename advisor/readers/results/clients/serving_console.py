"""The block "Serving Benchmark Result" that `vllm bench serve` and SGLang's client print; what was
asked for is read from the command line or the Namespace above it.
"""

import re
from dataclasses import replace
from typing import Any

from advisor.readers.results.clients import serving
from advisor.readers.results.document import Document, Unreadable
from advisor.readers.results.fields import BY_MEANS, Row, mean_after_first, parts_of
from advisor.readers.results.run import BenchmarkRun

FORMAT = "serving-console"
# a progress bar may stand before it on the same line
_TITLE = re.compile(r"^.{0,300}?={3,60} Serving Benchmark Result =+[ \t]*$", re.M)
_SPEED = "output token throughput (tok/s)"
_LINE = re.compile(
    r"^[^\n]{0,40}?([A-Z][A-Za-z0-9 ()/%.-]{2,50}?):[ \t]+([0-9][0-9.,]*|\S+)[ \t]*(?:<[^\n]*)?$",
    re.M,
)
_END = re.compile(r"^.{0,40}={30,}[ \t]*$", re.M)
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:([.,])[0-9]{3})(?:\1[0-9]{3})*(?:(?!\1)[.,][0-9]+)?")
_POSITION = re.compile(r"Position (\d+):\s+([0-9]+(?:\.[0-9]*)?)")
_OPTION = re.compile(
    r"(?:--|\b)(model|seed|dataset[-_]name|max[-_]concurrency|temperature)(?:=|\s+)'?([^\s',)]+)"
)
_ABOVE = re.compile(r"Maximum request concurrency:[ \t]+([0-9]+)")
Block = dict[str, Any]  # the numbers under the printed labels in lower case


def _finish(run: BenchmarkRun, block: Row) -> Row:
    backend = block.get("backend")
    length = run.acceptance.length if run.acceptance else None
    # SGLang prints 1.00 without drafts
    drafted = length is not None and (length != 1 or bool(run.k) or backend is None)
    derived = None if run.tpot_ms else mean_after_first(run)
    update: dict[str, Any] = {
        "acceptance": run.acceptance if drafted else None,
        "engine": "vllm" if length and not backend else None,
        "tpot_ms": run.tpot_ms or derived,
        "notes": (f"{BY_MEANS}none is printed",) if derived else (),
    }
    if backend:
        names = (name for word, name in serving.ENGINES.items() if backend.startswith(word))
        update |= {"client": "sglang.benchmark.serving", "engine": next(names, None)}
    return update


LAYOUT = replace(serving.VLLM, format=FORMAT, loads=None, each=None, finish=_finish)


def matches(doc: Document) -> bool:
    """Whether the text is console output of a serving benchmark."""
    return not doc.values and _TITLE.search(doc.text) is not None


def read(doc: Document) -> list[BenchmarkRun]:
    """Return one run per result block."""
    starts = [title.start() for title in _TITLE.finditer(doc.text)]
    blocks: list[Block] = []
    cut: tuple[str, ...] = ()
    above = doc.text[: starts[0]]
    texts = [doc.text[a:b] for a, b in zip(starts, [*starts[1:], len(doc.text)], strict=True)]
    for part, text in parts_of(texts):
        try:
            block = _block(doc, text)
        except Unreadable:
            if not blocks or text is not texts[-1]:
                raise
            cut = (f"{part} of the file is cut off and left out",)
            break
        blocks.append(_options(above) | block)
        above = text
    runs = LAYOUT.runs(doc, blocks)
    return [run.model_copy(update={"notes": (*run.notes, *cut)}) for run in runs]


def _block(doc: Document, text: str) -> Block:
    block: Block = {}
    for label, value in _LINE.findall(text):
        name = label.lower().strip()
        block.setdefault(name, value if name == "backend" else _number(value))
    # a chat of one token has no TPOT
    whole = _END.search(text, text.find("\n")) is not None
    if block.get(_SPEED) is None or not (whole or block.get("mean tpot (ms)")):
        why = "has no" if whole else "is cut off: no"
        raise Unreadable(f"{doc.name}: the printed result {why} output throughput or TPOT")
    rates = [float(rate) / 100 for _, rate in _POSITION.findall(text)]
    return block | {"spec_decode_per_position_acceptance_rates": rates, "k": len(rates) or None}


def _number(text: str) -> float | None:
    """A printed number, with a point or a comma for decimals and thousands; else None."""
    if _THOUSANDS.fullmatch(text) and ("," in text or text.count(".") > 1):
        text = text.replace(next(ch for ch in text if ch in ".,"), "")
    text = text.replace(",", ".")
    return float(text) if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", text) else None


def _options(text: str) -> Block:
    """What the command line or the Namespace above a block asked for, under the saved names."""
    end = text[-20_000:]
    options: Block = {name.replace("-", "_"): value for name, value in _OPTION.findall(end)}
    limits = _ABOVE.findall(end) or [options.get("max_concurrency", "")]
    seed = options.get("seed", "")
    return {
        "model": options.get("model"),
        "dataset_name": options.get("dataset_name"),
        "seed": int(seed) if seed.isdigit() else None,
        "maximum request concurrency": _number(limits[-1]),
    }
