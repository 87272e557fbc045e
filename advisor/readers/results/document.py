"""A file as the readers see it: bounded text, whatever packed or prefixed it, and its values where
it is JSON, JSON lines or the YAML of a report. Raises `Unreadable` in one sentence.
"""

import codecs
import hashlib
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

from advisor.domain.facts import AdvisorError
from advisor.domain.files import UnusableFile, number_problem, read_bytes_safely, yaml_safely
from advisor.domain.printable import printable

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64
# the reports of GuideLLM
_YAML = re.compile(r"(?:args|benchmarks|metadata|metrics|results|run|scenario|type_|version):\s")
_LATENCY = re.compile(r"\b(?:time_to_first_token|inter_token_latency)(?:_ms)?:")
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.S)  # strings, and brackets outside
_JSON_LINE = re.compile(r"^(?:\{\s*\"|\[\s*\{)", re.M)


class Unreadable(AdvisorError):
    """A benchmark file that cannot be read, with the reason in one sentence."""


@dataclass(frozen=True)
class Document:
    """One file. `values` holds its JSON values (one, or one a line); empty where it is no JSON."""

    name: str
    text: str
    sha256: str = ""
    values: tuple[Any, ...] = field(default=(), compare=False)

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """The JSON values if all are objects, else none."""
        rows = tuple(v for v in self.values if isinstance(v, dict))
        return rows if len(rows) == len(self.values) else ()

    def parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each object with the name of its part: empty where it is the only one."""
        for number, row in enumerate(self.objects, 1):
            yield f"run {number}" if len(self.objects) > 1 else "", row

    @property
    def object(self) -> dict[str, Any]:
        """The single JSON object of the file, else an empty one."""
        return self.objects[0] if len(self.objects) == 1 else {}


def load(path: Path) -> Document:
    """Read a regular file, or standard input for `-`. Raises Unreadable."""
    name = printable(path.name, 80)
    if name == "-":
        path, name = Path("/dev/stdin"), "standard input"
    try:
        data = read_bytes_safely(path, MAX_BYTES)
    except UnusableFile as error:
        raise Unreadable(f"{name}: {error.reason}") from None
    return parse(name, data)


def parse(name: str, data: bytes) -> Document:
    """Bytes -> Document. Raises Unreadable for what is no text, or broken JSON."""
    if not data.strip():
        raise Unreadable(f"{name}: the file is empty")
    try:
        text = text_of(data, MAX_BYTES)
    except ValueError as error:
        raise Unreadable(f"{name}: {error}") from error
    digest = hashlib.sha256(data).hexdigest()
    bare = without_prefixes(text)
    return Document(name, bare, digest, _json_values(name, bare))


def find_inside(doc: Document) -> Document | None:
    """The result within a page or a log: in code fences, or JSON on lines of its own; else None."""
    parts = re.split(r"^[ \t>]*(?:```|~~~)[^\n]*$", "" if doc.values else doc.text, flags=re.M)
    fenced = "\n".join(parts[1::2]).strip("\n")
    line = _JSON_LINE.search(doc.text) if not doc.values else None
    text = fenced or (doc.text[line.start() :] if line else "")
    try:
        values = _json_values(doc.name, text, tail=True)
    except Unreadable:
        return None
    return Document(doc.name, text, doc.sha256, values) if text else None


def _json_values(name: str, text: str, tail: bool = False) -> tuple[Any, ...]:
    """The JSON values of a text that is JSON; `tail` allows other text after them."""
    start = text.lstrip()
    if _YAML.match(start) and _LATENCY.search(start) and "```" not in start:
        try:
            return (yaml_safely(text, name),)
        except AdvisorError as error:
            raise Unreadable(str(error)) from None
    if not start.startswith(("{", "[{", "[\n", "[ ", "[\r")):
        return ()
    if _too_deep(start):
        raise Unreadable(f"{name}: JSON nested deeper than {MAX_DEPTH} levels")
    decoder = json.JSONDecoder()
    values: list[Any] = []
    at = 0
    while at < len(start):
        try:
            value, at = decoder.raw_decode(start, at)
        except (ValueError, RecursionError) as error:
            if tail and values:
                break
            if not values and not start.startswith(('{"', "{\n", "{ ", "{}", "{\r", "[")):
                return ()  # a log line that begins with a brace
            raise Unreadable(f"{name}: {_json_problem(start, error)}") from error
        values.append(value)
        while at < len(start) and start[at] in " \t\r\n":
            at += 1
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], list) else tuple(values)


def _json_problem(text: str, error: Exception) -> str:
    if not isinstance(error, json.JSONDecodeError):
        return "JSON nested too deeply"
    where = f"line {error.lineno}, column {error.colno}"
    if error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated"):
        return f"the JSON is cut off at {where}; was the benchmark stopped?"
    return f"broken JSON at {where}"


def _too_deep(text: str) -> bool:
    depths = accumulate(
        1 if part[0] in "[{" else -1 if part[0] in "]}" else 0 for part in _PARTS.finditer(text)
    )
    return any(depth > MAX_DEPTH for depth in depths)


MOST_PASSES = 4  # prefixes within prefixes: kubectl's time, compose's service, vLLM's process
SHARE = 0.8  # of the lines must carry a prefix before it is taken off
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIXES = (
    re.compile(r"> ?"),  # quoted in a reply
    re.compile(rf"{_TIME}[ \t]"),  # kubectl logs --timestamps, docker logs -t
    re.compile(r"[A-Za-z0-9][\w.-]{0,60} +\| ?"),  # docker compose logs
    re.compile(  # journalctl, -o short-precise, -o short-full
        r"(?:[A-Z][a-z]{2} +\d{1,2}|[A-Z][a-z]{2} \d{4}-\d\d-\d\d) \d\d:\d\d:\d\d(?:\.\d+)?"
        r"(?: [A-Z]{2,5})? \S{1,80} [\w./@-]{1,60}(?:\[\d+\])?: "
    ),
    re.compile(rf"{_TIME} \S{{1,80}} [\w./@-]{{1,60}}\[\d+\]: "),  # journalctl -o short-iso
    re.compile(r"\([A-Za-z]\w{0,30}(?: [\w=-]{1,30})? pid=\d+\) "),  # vLLM's processes
    re.compile(r"\[(?:pod/)?[\w./-]{1,120}\] (?=\S)"),  # kubectl logs --prefix
)


def text_of(data: bytes, most: int) -> str:
    """The text of a file. Raises ValueError for none, too many bytes, a number without end."""
    text = _ESCAPES.sub("", _decode(_unpack(data, most)))
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # a progress bar returns to its start
    if problem := number_problem(text):
        raise ValueError(problem)
    return text


def _unpack(data: bytes, most: int) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError("the gzip data is damaged") from error
    if len(text) > most:
        raise ValueError(f"unpacks to more than {most // 2**20} MiB")
    if not unpacker.eof:
        raise ValueError("the gzip data is cut off")
    return text


def _decode(data: bytes) -> str:
    refused = "no UTF-8 text; expected a benchmark's JSON, CSV, console output or log"
    try:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            text = data.decode("utf-16")
        else:
            text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = data.decode("cp1252", "replace")  # a console of Windows writes "±" so
        strange = sum(ch == "\ufffd" or (ch < " " and ch not in "\t\r\n\x1b") for ch in text)
        if strange or sum(ch > "\x7e" for ch in text) > 0.02 * len(text):
            raise ValueError(refused) from error
    if "\x00" in text:
        raise ValueError("binary data; expected a benchmark's JSON, CSV, console output or log")
    return text


def without_prefixes(text: str) -> str:
    """The lines without what a log collector put in front of each."""
    lines = text.split("\n")
    for _ in range(MOST_PASSES):
        full = [line for line in lines if line.strip()][:200]
        least = SHARE * max(len(full), 1)
        taken = next((p for p in _PREFIXES if sum(map(bool, map(p.match, full))) >= least), None)
        if taken is None:
            break
        lines = [taken.sub("", line, count=1) if taken.match(line) else line for line in lines]
    return "\n".join(lines)
