"""Facts as plain text of at most 80 columns: lists of hardware and models, one entry."""

import textwrap
from collections.abc import Iterator

from advisor.domain.nouns import LLM, Checkpoint, Drafter, Frozen, Hardware, Quantity, UnknownFact
from advisor.knowledge import store as knowledge
from advisor.knowledge.age import facts_line

WIDTH = 80
_LABEL = 31  # columns of the longest field name


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _value(quantity: Quantity | None) -> str:
    return _number(quantity.value if quantity else None)


def hardware_listing() -> str:
    """A table of all hardware: id, memory, bandwidth, architecture, class. "-" is unknown."""
    head = f"{'id':<27}{'memory GB':>10}{'GB/s':>8}  {'arch':<9}{'class':<12}vendor"
    rows = [
        f"{h.id:<27}{_value(h.memory_gb):>10}{_value(h.memory_bandwidth_gb_s):>8}  "
        f"{h.arch or '-':<9}"
        f"{h.hardware_class or '-':<12}{h.vendor}"
        for h in map(knowledge.hardware, knowledge.hardware_ids())
    ]
    return "\n".join((head, *rows))


def model_listing() -> str:
    """A table of all models: id, parameters in 1e9, layers, MTP layers, shape; "-" is unknown."""
    head = f"{'id':<27}{'total B':>9}{'active B':>10}{'layers':>8}{'MTP':>5}  {'shape':<8}repos"
    rows = []
    for m in map(knowledge.llm, knowledge.llm_ids()):
        made = "proxy" if m.proxy else "made" if m.total_params_b else "-"
        shape = made if m.mixer_params_b is None else "own"
        rows.append(
            f"{m.id:<27}{_number(m.total_params_b):>9}{_number(m.active_params_b):>10}"
            f"{_number(m.layers):>8}"
            f"{_number(m.mtp_layers):>5}  {shape:<8}{len({c.repository for c in m.checkpoints})}"
        )
    return "\n".join((head, *rows))


def _fill(text: str, first: str, indent: int) -> str:
    return textwrap.TextWrapper(WIDTH, first, " " * indent, break_on_hyphens=False).fill(text)


def _wrap(label: str, text: str) -> str:
    return _fill(text, f"{label:<{_LABEL}} ", _LABEL + 1)


def _lines(entry: Frozen) -> Iterator[str]:
    for name, value in entry:
        if value is None or value in ("", (), {}) or name == "checkpoints":
            continue
        if isinstance(value, Quantity):
            yield _wrap(name, f"{value.value:g}  ({value.status}: {value.source})")
        elif isinstance(value, tuple):
            yield _wrap(name, ", ".join(map(str, value)))
        else:
            yield _wrap(name, f"{value:g}" if isinstance(value, float) else str(value))


def _checkpoint(point: Checkpoint) -> str:
    name = point.repository + (f":{point.file}" if point.file else "")
    mtp = {True: "keeps MTP", False: "no MTP", None: "MTP not known"}[point.keeps_mtp]
    engines = ", ".join(point.engines) or "any engine"
    return f"  {point.quant:<15} {name}\n{'':<18}{mtp}; {engines}; {point.source}"


def _drafter(one: Drafter) -> str:
    since = ", ".join(f"{engine} from {release}" for engine, release in one.engines.items())
    k = f"k = {one.k}; " if one.k else ""
    held = f"inside {' and '.join(one.inside)}; " if one.inside else ""
    licence = f"licence: {one.licence}; " if one.licence else ""
    more = f"{k}{since}; for {one.target}; {held}{licence}{', '.join(one.sources)}"
    head = textwrap.fill(
        one.address, WIDTH, initial_indent=f"  {one.method:<16}", subsequent_indent=" " * 18
    )
    return f"{head}\n{_fill(more, ' ' * 18, 18)}"


def _citation(ident: str) -> str | None:
    try:
        found = knowledge.source(ident)
    except UnknownFact:
        return None
    text = ", ".join(part for part in (found.title, found.address, found.date) if part)
    return textwrap.fill(
        f"{ident}: {text}",
        WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
    )


def _sources(entry: Frozen) -> list[str]:
    names = {v.source: None for _, v in entry if isinstance(v, Quantity)}
    if isinstance(entry, LLM):
        names.update({entry.source: None, **{c.source: None for c in entry.checkpoints}})
        names.update({source: None for d in knowledge.drafters(entry) for source in d.sources})
    return [text for name in names if (text := _citation(name))]


def entry_text(entry: Hardware | LLM) -> str:
    """One entry: every known field with its unit, its checkpoints, and its numbers' sources."""
    parts = list(_lines(entry))
    if isinstance(entry, LLM) and entry.checkpoints:
        parts += ["", "checkpoints", *map(_checkpoint, entry.checkpoints)]
    if isinstance(entry, LLM) and (published := knowledge.drafters(entry)):
        parts += ["", "published drafters", *map(_drafter, published)]
    if sources := _sources(entry):
        parts += ["", "sources", *sources]
    return "\n".join(parts)


def weak_facts() -> str:
    """How old the facts are, and which numbers are recalled or assumed."""
    total, weak = 0, list[tuple[str, list[str]]]()
    entries: list[Hardware | LLM] = [knowledge.hardware(name) for name in knowledge.hardware_ids()]
    for entry in (*entries, *map(knowledge.llm, knowledge.llm_ids())):
        numbers = {name: v for name, v in entry if isinstance(v, Quantity)}
        total += len(numbers)
        for status in ("recall", "assumed"):
            if names := [name for name, v in numbers.items() if v.status == status]:
                weak.append((f"{entry.id} ({status})", names))
    weak.sort(key=lambda row: (-len(row[1]), row[0]))
    count = sum(len(names) for _, names in weak)
    rows = [_wrap(label, ", ".join(names)) for label, names in weak]
    return "\n".join((facts_line(), f"Recalled or assumed: {count} of {total} numbers", *rows))
