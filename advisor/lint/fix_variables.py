"""Quotes around an edit, and a keyword of Python taken out of its call."""

import re
import shlex

from advisor.domain.nouns import Edit

KEYWORD = re.compile(r"[a-z][a-z0-9_]*[ \t]*=(?!=)")  # of a call in Python


def place_edit(edit: Edit, start: int, end: int, text: str = "") -> Edit:
    """An edit of the same file at another place."""
    return Edit(file=edit.file, start=start, end=end, text=text)


def is_closed(words: str) -> bool:
    """Whether words of a command line close each quote that they open."""
    try:
        shlex.split(words)
    except ValueError:
        return False
    return True


def requote(text: str, edit: Edit) -> Edit | None:
    """A value whose double quotes would end those around it: single ones; None if it has both."""
    around = text[edit.start - 1 : edit.start] + text[edit.end : edit.end + 1]
    if around != '""' or '"' not in edit.text or "\\" in edit.text:
        return edit
    whole = place_edit(edit, edit.start - 1, edit.end + 1, f"'{edit.text}'")
    return whole if "'" not in edit.text else None


def with_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """The place with the quotes of its words: `--flag '{...` ends before the closing one."""
    after = text[end : end + 1]
    if after and after in "'\"":
        if text[start:end].count(after) % 2:
            return start, end + 1
        if text[start - 1 : start] == after:
            return start - 1, end + 1
    return start, end


def remove_keyword(text: str, edit: Edit) -> Edit | None:
    """`name=value,` of a call with its comma, no line left empty; None for a longer value."""
    end = edit.end + (text[edit.end : edit.end + 1] in ("'", '"'))
    if not re.match(r"\s*[,)]", text[end:]):
        return None
    after = re.match(r"[ \t]*,[ \t]*", text[end:])
    end += after.end() if after else 0
    line = text.rfind("\n", 0, edit.start) + 1
    whole = not text[line : edit.start].strip() and re.match(r"\r?\n", text[end:])
    before = len(text[: edit.start].rstrip().removesuffix(","))
    start = edit.start if after or whole else before  # the last one: the comma before it goes
    return place_edit(edit, line, end + whole.end()) if whole else place_edit(edit, start, end)
