"""Bytes of a result file as plain text: packed by gzip, in PowerShell's UTF-16, in colour,
or with what a log collector puts in front of every line.

Bounded in size; raises ValueError in one sentence part where the bytes are no text.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib

MOST_PASSES = 4  # prefixes within prefixes: kubectl's time, compose's service, vLLM's process
SHARE = 0.8  # of the lines must carry a prefix before it is taken off

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIXES = (
    re.compile(rf"{_TIME} "),  # kubectl logs --timestamps, docker logs -t
    re.compile(r"[A-Za-z0-9][\w.-]{0,60} +\| ?"),  # docker compose logs
    re.compile(r"[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \S{1,80} [\w./@-]{1,60}(?:\[\d+\])?: "),
    re.compile(rf"{_TIME} \S{{1,80}} [\w./@-]{{1,60}}\[\d+\]: "),  # journalctl -o short-iso
    re.compile(r"\([A-Za-z]\w{0,30}(?: [\w=-]{1,30})? pid=\d+\) "),  # vLLM's processes
    re.compile(r"\[(?:pod/)?[\w./-]{1,120}\] (?=\S)"),  # kubectl logs --prefix
)
_DOCKER_LINE = {"log", "stream", "time", "attrs"}


def text_of(data: bytes, most: int) -> str:
    """The text of a file. Raises ValueError where it is none, or larger than `most` bytes."""
    return _clean(_decode(_unpack(data, most)))


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
        elif len(data) > 3 and data[1:200:2].count(0) > 0.9 * len(data[1:200:2]):
            text = data.decode("utf-16-le")
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


def _clean(text: str) -> str:
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "\r" in text:  # a progress bar returns to the start of its line
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def without_prefixes(text: str) -> str:
    """The lines without what a log collector put in front of each; the same text where none did."""
    lines = _docker_lines(text) or text.split("\n")
    for _ in range(MOST_PASSES):
        full = [line for line in lines if line.strip()]
        taken = next((p for p in _PREFIXES if _is_carried(p, full)), None)
        if taken is None:
            break
        lines = [taken.sub("", line, count=1) if taken.match(line) else line for line in lines]
    return "\n".join(lines)


def _is_carried(prefix: re.Pattern[str], lines: list[str]) -> bool:
    sample = lines[:200]
    return bool(sample) and sum(bool(prefix.match(s)) for s in sample) >= SHARE * len(sample)


def _docker_lines(text: str) -> list[str]:
    """The lines in the JSON of docker's json-file driver; empty where the text is none."""
    if not text.startswith('{"log":'):
        return []
    out = []
    for line in text.splitlines():
        try:
            row = json.loads(line) if line.strip() else {"log": ""}
        except (ValueError, RecursionError):
            return []
        if not isinstance(row, dict) or not row.keys() <= _DOCKER_LINE:
            return []
        out.append(str(row.get("log", "")).rstrip("\n"))
    return out


def in_fences(text: str) -> str:
    """What stands between the code fences of a pasted page; empty where there are none."""
    parts = re.split(r"^[ \t>]*(?:```|~~~)[^\n]*$", text, flags=re.M)
    return "\n".join(parts[1::2]).strip("\n")
