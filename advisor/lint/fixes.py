"""Applies fixes to files: whole edits or none, layout and comments kept, written atomically,
idempotent.

Rules edit a flag as a command line would have it ("--flash-attn on", or nothing to take it away);
`shaped` fits that into the form that the place has: items of a YAML list, a key of an INI file, a
line that a backslash continues.
"""

import contextlib
import os
import re
import shlex
import stat
import tempfile
from collections.abc import Sequence
from difflib import unified_diff
from typing import NamedTuple

from advisor.domain.files import read_bytes_safely
from advisor.domain.nouns import AdvisorError, Edit, Finding
from advisor.domain.patterns import lazy_re
from advisor.domain.printable import printable
from advisor.lint.fix_variables import (
    KEYWORD,
    is_closed,
    place_edit,
    remove_keyword,
    requote,
    with_quotes,
)
from advisor.readers.secrets import Redactor, learn_from_text
from advisor.readers.source import MAX_BYTES, SourceText

_ITEM_BEFORE = lazy_re(r"(?P<indent>[ \t]*)-[ \t]+(?P<quote>[\"']?)$")
_FLOW_BARE = lazy_re(r"\[(?:[^\]\"']*,)?[ \t]*(?P<quote>)$")
_TRUTHS = ("on", "off", "yes", "no", "true", "false", "null")  # which YAML reads as other than text
_FLOW_BEFORE = lazy_re(r"[\[,][ \t\r\n]*(?P<quote>[\"'])$")


class FileChange(NamedTuple):
    """One file's text before and after."""

    source: SourceText
    text: str
    applied: tuple[Finding, ...]


def apply_edits(
    source: SourceText, findings: Sequence[Finding], unsafe: bool = False
) -> FileChange:
    """Apply the findings' edits to a text; one that overlaps an earlier one waits."""
    taken: list[Edit] = []
    applied: list[Finding] = []
    for finding in findings:
        fix = finding.fix
        if fix is None or not fix.edits or not (fix.safe or unsafe) or finding.file != source.name:
            continue
        fitted = [shape_edit(source.text, edit) for edit in fix.edits]
        edits = [edit for edit in fitted if edit is not None]
        if len(edits) < len(fitted):
            continue
        new = [edit for edit in edits if edit not in taken]
        if new and any(_overlap(edit, other) for edit in edits for other in taken):
            continue
        taken += new
        applied.append(finding)
    return FileChange(source, apply(source.text, taken), tuple(applied))


def _overlap(one: Edit, other: Edit) -> bool:
    empty = one.start == one.end or other.start == other.end
    return (one.start < other.end and other.start < one.end) or (empty and one.start == other.start)


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with edits that do not overlap. Raises AdvisorError for a place outside it."""
    for edit in sorted(set(edits), key=lambda one: (one.start, one.end), reverse=True):
        if not 0 <= edit.start <= edit.end <= len(text):
            raise AdvisorError(f"{edit.file}: a fix points outside the file; read the file again")
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


# ---------------------------------------------------------------- fitting an edit into its form


def shape_edit(text: str, edit: Edit) -> Edit | None:
    """The edit as the form of its place needs it; an edit of a value only stays as it is. None: the
    form is not one that can be edited without guessing.
    """
    if edit.text.startswith("-") and not is_closed(edit.text):
        return None
    if edit.start == edit.end:
        return _addition(text, edit)
    if edit.text and not edit.text.startswith("-"):
        return requote(text, edit)
    inside = text[edit.start : edit.end]
    depth = inside.count("${") - inside.count("}")
    if depth > 0:  # the flag ends within the default of a variable
        if depth > 1 or text[edit.end : edit.end + 1] != "}":
            return None
        edit = place_edit(edit, edit.start, edit.end + 1, edit.text)
    if not edit.text and KEYWORD.match(inside):
        return remove_keyword(text, edit)
    line = text.rfind("\n", 0, edit.start) + 1
    if item := _ITEM_BEFORE.search(text[line : edit.start]):
        return _list_item(text, edit, line, item)
    around = text[max(0, edit.start - 200) : edit.start]
    if flow := _FLOW_BEFORE.search(around) or _FLOW_BARE.search(around):
        return _flow_item(text, edit, flow.group("quote"))
    edit = place_edit(edit, *with_quotes(text, edit.start, edit.end), edit.text)
    return edit if edit.text else _word(text, edit, line)


def _addition(text: str, edit: Edit) -> Edit | None:
    """Something new before a flag: an item, a line of its own where the flag has one, or words."""
    line = text.rfind("\n", 0, edit.start) + 1
    before, newline = text[line : edit.start], "\r\n" if "\r\n" in text else "\n"
    if edit.text.endswith("\n"):  # a key of its own line
        own = f"{edit.text[:-1]}{newline}{before}"
        return None if before.strip() else place_edit(edit, edit.start, edit.start, own)
    if not edit.text.startswith("-"):
        return edit
    if item := _ITEM_BEFORE.search(before):
        joint, quote = f"{newline}{item['indent']}- ", _quotes_of(text)
        words = joint.join(_yaml_word(word, quote) for word in shlex.split(edit.text))
        at = edit.start - len(item["quote"])
        return place_edit(edit, at, at, words + joint) if item.start() == 0 else None
    around = text[max(0, edit.start - 200) : edit.start]
    if flow := _FLOW_BEFORE.search(around) or _FLOW_BARE.search(before):
        quote, at = flow["quote"], edit.start - len(flow["quote"])
        words = "".join(f"{quote}{word}{quote}, " for word in shlex.split(edit.text))
        return place_edit(edit, at, at, words)
    rest = text[edit.start : _line_end(text, edit.start)]
    ends = re.search(r"(?<=[ \t])[\\^`](?=\r?$)", rest)
    if not before.strip() and ends:
        own = f"{edit.text} {ends.group()}{newline}{before}"
        return place_edit(edit, edit.start, edit.start, own)
    word, quote = re.match(r"[\w.-]+", rest), before[-1:]
    quoted = word and quote in ("'", '"') and rest[word.end() :][:1] == quote
    at = edit.start - bool(quoted and not before[:-1].rstrip().endswith((":", "=")))
    return place_edit(edit, at, at, f"{edit.text} ")


def _line_end(text: str, at: int) -> int:
    """Where the line ends, before its newline."""
    stop = text.find("\n", at)
    return stop if stop >= 0 else len(text)


def _list_item(text: str, edit: Edit, line: int, item: re.Match[str]) -> Edit:
    """`- --flag` and the item of its value: one item a word, or no lines at all."""
    start, end = edit.start - len(item["quote"]), _after_quote(text, edit.end)
    if not edit.text:
        stop = _line_end(text, end)
        rest = text[end:stop].strip()
        if rest and not rest.startswith("#"):
            return place_edit(edit, start, end)
        return place_edit(edit, line, min(stop + 1, len(text)))
    if item.start() > 0:
        return edit
    newline = "\r\n" if text[:line].endswith("\r\n") else "\n"
    quote, plain = _quotes_of(text), not item["quote"]
    words = [_yaml_word(word, quote, plain) for word in shlex.split(edit.text)]
    return place_edit(edit, start, end, f"{newline}{item['indent']}- ".join(words))


def _flow_item(text: str, edit: Edit, quote: str) -> Edit:
    """`["--flag", "value"]`, or `[--flag, value]`."""
    start, end = edit.start - len(quote), _after_quote(text, edit.end)
    if edit.text:
        words = ", ".join(f"{quote}{word}{quote}" for word in shlex.split(edit.text))
        return place_edit(edit, start, end, words)
    after = re.match(r"[ \t\r\n]*,[ \t]*", text[end:])
    if after and text[end + after.end() : end + after.end() + 1] in ("\n", "\r"):
        start = len(text[:start].rstrip(" \t"))
    if after:
        return place_edit(edit, start, end + after.end())
    before = re.search(r",[ \t\r\n]*$", text[:start])
    return place_edit(edit, before.start() if before else start, end)


def _after_quote(text: str, end: int) -> int:
    return end + 1 if text[end : end + 1] in ("'", '"') else end


def _quotes_of(text: str) -> str:
    """The quotes that a file's list items have."""
    return '"' if text.count('- "') > text.count("- '") else "'"


def _yaml_word(word: str, quote: str = "'", plain: bool = True) -> str:
    bare = re.fullmatch(r"[A-Za-z_/.-][\w/.=:@+-]*", word) and not word.endswith(":")
    if plain and bare and word.lower() not in _TRUTHS:
        return word
    if quote == '"' and "\\" not in word and '"' not in word:
        return f'"{word}"'
    return "'" + word.replace("'", "''") + "'"


def _word(text: str, edit: Edit, line: int) -> Edit:
    """A flag taken out of a command line: with its blanks, and no line left empty or dangling."""
    start, end, stop = edit.start, edit.end, _line_end(text, edit.end)
    rest, before = text[end:stop].strip(), text[line:start].strip()
    if not before and rest in ("", "\\", "^", "`"):
        # of the last line of a command the one above must not go on
        head = None if rest else re.search(r"[ \t]*[\\^`]\r?\n$", text[:line])
        below = min(stop + 1, len(text))
        return place_edit(edit, head.start(), stop) if head else place_edit(edit, line, below)
    kept = text[line : max(line, start - 1)] if not before else ""  # the next word keeps the indent
    while start > line and text[start - 1] in " \t":
        start -= 1
    return place_edit(edit, start, end, kept)


# ---------------------------------------------------------------- showing and writing


def diff(change: FileChange) -> str:
    """The change as a unified diff, "" if there is none."""
    name = change.source.name.lstrip("/")
    return "".join(
        line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"
        for line in unified_diff(
            change.source.text.splitlines(keepends=True),
            change.text.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
    )


def redacted_diff(change: FileChange, redactor: Redactor) -> str:
    """The diff without the secrets that may stand on the lines around a change."""
    learn_from_text(redactor, change.source.text)
    return redactor.clean(diff(change))


def write(change: FileChange) -> bool:
    """Replace the file in one step; owner, mode, extended attributes, a link that leads to it,
    encoding and newlines are kept. False if nothing changed.

    Raises AdvisorError where that is not possible: the file is write-protected, has other hard
    links, belongs to someone whose file we cannot make, or was changed since it was read.
    """
    if change.text == change.source.text:
        return False
    path = os.path.realpath(change.source.name)
    data = change.source.bom + change.text.encode(change.source.encoding)
    before = change.source.bom + change.source.text.encode(change.source.encoding)
    temporary = ""
    try:
        _refuse(path, os.stat(path))
        handle, temporary = tempfile.mkstemp(prefix=".advisor-", dir=os.path.dirname(path))
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            _take_over(path, temporary)
            os.fsync(stream.fileno())
        if read_bytes_safely(path, MAX_BYTES) != before:
            raise AdvisorError(f"{printable(path)}: was changed while it was judged; run again")
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        reason = (error.strerror or "error").lower()
        raise AdvisorError(f"{printable(path)}: cannot be written ({reason})") from None
    finally:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
    return True


def _refuse(path: str, about: os.stat_result) -> None:
    """Raise AdvisorError for a file that a new one in its place would not be the same as."""
    name = printable(path)
    if not about.st_mode & 0o222 or not os.access(path, os.W_OK):
        raise AdvisorError(f"{name}: is write-protected: chmod u+w it, or use --diff")
    if about.st_nlink > 1:
        raise AdvisorError(
            f"{name}: has {about.st_nlink} hard links, which a fix would break: use --diff"
        )


def _take_over(path: str, temporary: str) -> None:
    """Give a new file the owner, extended attributes and mode of the old one. Raises OSError."""
    about = os.stat(path)
    made = os.stat(temporary)
    if (made.st_uid, made.st_gid) != (about.st_uid, about.st_gid):
        os.chown(temporary, about.st_uid, about.st_gid)
    if hasattr(os, "listxattr"):
        for name in os.listxattr(path):
            os.setxattr(temporary, name, os.getxattr(path, name))
    os.chmod(temporary, stat.S_IMODE(about.st_mode))  # last: a change of owner takes bits away
