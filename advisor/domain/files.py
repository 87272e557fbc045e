"""Opens what a user names, with guards: a pipe that never ends, or 40 kB of `{` for a YAML parser,
are one sentence here.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from advisor.domain.nouns import AdvisorError
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import printable

MAX_DEPTH = 64
MAX_NODES = 100_000
MAX_LINE = 2**20
_INHERITED = re.compile(r"/dev/(?:stdin|fd/(\d{1,6}))|/proc/self/fd/(\d{1,6})")
MOST_DIGITS = 300
_LONG_NUMBER = lazy_re(rf"[0-9]{{{MOST_DIGITS + 1}}}")


class UnusableFile(AdvisorError):
    """A file that cannot be used: `reason` without its name, and the line or 0."""

    def __init__(self, name: str, reason: str, line: int = 0) -> None:
        self.reason, self.line = reason, line
        super().__init__(f"{name}: line {line}: {reason}" if line else f"{name}: {reason}")


@contextmanager
def open_safely(path: str | os.PathLike[str], limit: int | None = None) -> Iterator[IO[bytes]]:
    """A regular file opened for reading bytes. Raises UnusableFile."""
    name = printable(os.fspath(path))
    descriptor = _open_descriptor(path, name)
    try:
        about = os.fstat(descriptor)
        if stat.S_ISDIR(about.st_mode):
            raise UnusableFile(name, "is a directory; name the files in it")
        is_pipe = stat.S_ISFIFO(about.st_mode) or stat.S_ISSOCK(about.st_mode)
        inherited = is_pipe and _inherited_descriptor(path) is not None
        if not stat.S_ISREG(about.st_mode) and not inherited:
            raise UnusableFile(name, "is not a regular file; only regular files are read")
        if limit is not None and about.st_size > limit:
            raise UnusableFile(name, too_large(about.st_size, limit))
    except BaseException:
        os.close(descriptor)
        raise
    with os.fdopen(descriptor, "rb") as stream:
        yield stream


def _inherited_descriptor(path: str | os.PathLike[str]) -> int | None:
    """The number of a descriptor that the shell opened: `-` as /dev/stdin, `<(command)`."""
    found = _INHERITED.fullmatch(os.fspath(path))
    return None if found is None else int(found.group(1) or found.group(2) or 0)


def _open_descriptor(path: str | os.PathLike[str], name: str) -> int:
    """A descriptor that no pipe holds up, or the shell's own as it is. Raises UnusableFile."""
    number = _inherited_descriptor(path)
    if number is not None:
        try:
            return os.dup(number)
        except OSError as error:
            raise UnusableFile(name, f"cannot be opened ({_reason(error)})") from None
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        raise UnusableFile(name, "there is no such file") from None
    except IsADirectoryError:
        raise UnusableFile(name, "is a directory; name the files in it") from None
    except (OSError, ValueError) as error:
        raise UnusableFile(name, f"cannot be opened ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or "the name is not valid").lower()


def number_problem(text: str) -> str | None:
    """What is wrong with a text that holds a number of more digits than Python makes."""
    if _LONG_NUMBER.search(text) is None:
        return None
    return f"holds a number of more than {MOST_DIGITS} digits; shorten it"


def too_large(size: int, limit: int) -> str:
    """What is wrong with a file that is too large."""
    unit, word = (1e6, "MB") if limit >= 1_000_000 else (1e3, "kB")
    return f"has {size / unit:.0f} {word}; files of up to {limit / unit:.0f} {word} are read here"


def read_bytes_safely(path: str | os.PathLike[str], limit: int) -> bytes:
    """The bytes of a regular file of at most `limit` bytes. Raises UnusableFile."""
    name = printable(os.fspath(path))
    with open_safely(path, limit) as stream:
        try:
            data = stream.read(limit + 1)
        except OSError as error:
            raise UnusableFile(name, f"cannot be read ({_reason(error)})") from None
    if len(data) > limit:
        raise UnusableFile(name, too_large(len(data), limit))
    return data


def read_text_safely(path: str | os.PathLike[str], limit: int) -> str:
    """The UTF-8 text of a regular file of at most `limit` bytes. Raises UnusableFile."""
    try:
        return read_bytes_safely(path, limit).decode("utf-8-sig")
    except UnicodeDecodeError:
        name = printable(os.fspath(path))
        raise UnusableFile(name, "is not UTF-8 text; save it as UTF-8") from None


def read_yaml_safely(path: str | os.PathLike[str], limit: int) -> Any:
    """One YAML document of plain types, without aliases. Raises UnusableFile."""
    return yaml_safely(read_text_safely(path, limit), printable(os.fspath(path)))


def yaml_safely(text: str, name: str) -> Any:
    """One YAML document of plain types from a text. Raises UnusableFile."""
    import yaml  # start-up: answers need no YAML

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        check_nesting(yaml.parse(text, Loader=loader), name)
        data = yaml.load(text, Loader=loader)
    except RecursionError:
        raise UnusableFile(name, "is nested too deeply") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 0
        reason = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UnusableFile(name, f"not YAML: {printable(reason, 200)}", line) from None
    check_plain(data, name)
    return data


def check_nesting(events: Iterator[Any], name: str) -> None:
    """Raise UnusableFile for YAML events that nest too deeply, are too many, or hold aliases."""
    depth = 0
    for count, event in enumerate(events, 1):
        kind = type(event).__name__
        line = event.start_mark.line + 1
        if kind == "AliasEvent":
            raise UnusableFile(name, "YAML aliases (*name) are not allowed here", line)
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            depth += 1
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            depth -= 1
        if depth > MAX_DEPTH:
            raise UnusableFile(name, f"is nested deeper than {MAX_DEPTH} levels", line)
        if count > MAX_NODES:
            raise UnusableFile(name, f"has more than {MAX_NODES} YAML nodes")


def check_plain(data: Any, name: str, where: str = "") -> None:
    """Raise UnusableFile where a text holds a character that a terminal would obey or not draw."""
    if isinstance(data, str):
        text = data.replace("\n", " ").replace("\t", " ")
        if printable(text, len(text)) != text:
            what = f"holds a character that cannot be shown ({printable(data, 60)})"
            raise UnusableFile(name, f"{printable(where, 100) or 'the text'}: {what}")
    elif isinstance(data, dict):
        for key, value in data.items():
            inner = f"{where}.{key}" if where else str(key)
            check_plain(key, name, inner)
            check_plain(value, name, inner)
    elif isinstance(data, list | tuple):
        for number, value in enumerate(data):
            check_plain(value, name, f"{where}[{number}]")


def lines_safely(stream: IO[str], name: str) -> Iterator[str]:
    """The lines of a stream of any length. Raises UnusableFile for one above 1 MB."""
    while line := stream.readline(MAX_LINE):
        if len(line) >= MAX_LINE:
            raise UnusableFile(name, f"has a line of more than {MAX_LINE // 2**20} MB")
        yield line
