"""Broken JSON on a command line: what is wrong with it, and how it was most likely meant."""

import json
import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Edit, Fix, Flag
from advisor.domain.patterns import lazy_re

# the class whose fields are the keys; an unknown one is refused (pydantic, extra="forbid")
CLASSES = {
    "--compilation-config": "CompilationConfig",
    "--attention-config": "AttentionConfig",
    "--kernel-config": "KernelConfig",
    "--eplb-config": "EPLBConfig",
    "--kv-transfer-config": "KVTransferConfig",
    "--kv-events-config": "KVEventsConfig",
    "--structured-outputs-config": "StructuredOutputsConfig",
    "--profiler-config": "ProfilerConfig",
    "--pooler-config": "PoolerConfig",
    "--reasoning-config": "ReasoningConfig",
    "--weight-transfer-config": "WeightTransferConfig",
}

_LONGEST = 4_000
_BARE = lazy_re(r"(?P<before>[:\[,{]\s*)(?P<word>[A-Za-z_][\w./-]*)(?=\s*[,:}\]])")
_TRUTHS = {"True": "true", "False": "false", "None": "null"}
_OPENED = lazy_re(r'(:\s*"[\w./-]+)(,\s*")')  # {"a":"b,"c": the quote behind b is lost
_PIECE = lazy_re(r'"(?:[^"\\]|\\.)*"|[\w.+-]+|[{}\[\],:]')
_TYPOGRAPHIC = lazy_re("[\u2018\u2019\u201c\u201d\u201e]")
_NOTHING = lazy_re(r"[:\[,]\s*[,}\]]")


def problem(text: str, wanted: type = dict) -> str | None:
    """What is wrong with a JSON object, or another JSON value; None if it is one."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        where, said = getattr(error, "pos", None), getattr(error, "msg", str(error))
        return f"{said} at character {where + 1}" if where is not None else str(error)
    kinds = {list: "a list", str: "a text", bool: "a truth", type(None): "null"}
    said = kinds.get(type(data), "a number")
    return None if isinstance(data, wanted) else f"it holds {said}, not an object"


def has_empty_values(found: Flag) -> bool:
    """Whether a text put together from variables lacks values."""
    return found.value_span is None and _NOTHING.search(found.value or "") is not None


def mend(text: str) -> str | None:
    """The text as a JSON object with one slip mended; None where no single one does."""
    if len(text) > _LONGEST:
        return None
    return next((one for one in _tries(text) if problem(one) is None), None)


def _tries(text: str) -> Iterator[str]:
    bare, commas = _BARE.sub(_quote, text), re.sub(r",(\s*[}\]])", r"\1", text)
    yield commas
    yield bare
    yield _close(text)
    yield _OPENED.sub(r'\1"\2', text)
    yield text.replace("\\", "")
    if text[:1] == text[-1:] and text[:1] in ("'", '"'):
        yield text[1:-1]  # quotes of a shell inside those of another language
    if text.startswith("{{") and text.endswith("}}"):
        yield text[1:-1]  # braces doubled for a template that nobody fills
    single = text.replace("'", '"')
    yield single
    yield re.sub(r"\b(True|False|None)\b", lambda found: _TRUTHS[found[0]], single)
    yield text.replace(";", ",")
    yield re.sub(r"=(?=\s*[\"\d\[{tfn])", ":", text)
    if pairs := re.fullmatch(r"\s*(\w+=\d{1,18})(\s*,\s*\w+=\d{1,18})*\s*", text):
        yield json.dumps({k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", pairs[0])})
    yield _with_commas(text)
    yield _TYPOGRAPHIC.sub('"', text)
    yield "{" + text
    yield _close(_BARE.sub(_quote, commas.replace("'", '"')))


def _with_commas(text: str) -> str:
    """The text with a comma wherever a value is followed by a key."""
    parts, done, value = [], 0, False
    blank = " " if ", " in text or ": " in text else ""
    for found in _PIECE.finditer(text):
        if value and found.group()[0] in '"{[':
            parts += [text[done : found.start()].rstrip(), ",", blank]
            done = found.start()
        value = found.group() not in (",", ":", "{", "[")
    return "".join((*parts, text[done:]))


def _quote(found: re.Match[str]) -> str:
    word = found["word"]
    if word in ("true", "false", "null"):
        return found[0]
    return f"{found['before']}{_TRUTHS.get(word) or json.dumps(word)}"


def _close(text: str) -> str:
    """The text with the brackets closed that it leaves open, and without those too many."""
    opened: list[str] = []
    inside = False
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1 : at] != "\\":
            inside = not inside
        elif not inside and letter in "{[":
            opened.append("}" if letter == "{" else "]")
        elif not inside and letter in "}]" and (not opened or opened.pop() != letter):
            return text[:at] + text[at + 1 :]
    return text + "".join(reversed(opened))


def loses_quotes(found: Flag) -> bool:
    """Whether the JSON stands in the file with its quotes, and the shell takes them away."""
    value, place = found.value or "", found.value_span
    longer = place.end - place.start - len(value) if place is not None else 0
    return longer > 0 and longer % 2 == 0 and value.startswith("{") and '"' not in value


def mend_fix(case: Case, found: Flag, what: str) -> Fix:
    """Write the JSON as it was meant, in words only where the file does not hold it as read."""
    text, place = mend(found.value or ""), found.value_span
    if text is None or place is None or found.unresolved:
        return Fix(text=what)
    said = f"Write it as {text}"
    if loses_quotes(found):
        quote = (place.start, place.end)
        edits = tuple(Edit(file=case.launch.file, start=at, end=at, text="'") for at in quote)
        return Fix(text="Put the JSON in single quotes: the shell takes its own away.", edits=edits)
    if place.end - place.start != len(found.value or ""):
        return Fix(text=f"{said}.")
    if "{" not in (found.value or ""):  # a plain word, which had no need of quotes
        if case.launch.form not in ("shell", "command", "recipe", "document"):
            return Fix(text=f"{said}.")
        text = f"'{text}'"
    edit = Edit(file=case.launch.file, start=place.start, end=place.end, text=text)
    return Fix(text=f"{said}.", edits=(edit,))
