"""Taking an environment variable, or a keyword of Python, out of a file, with what only serves it,
in each form.
"""

from __future__ import annotations

import re
import shlex

from advisor.domain.nouns import Edit

# what may stand before an assignment that has its line to itself
_ALONE = re.compile(
    r"\s*(?:-[ \t]+|export[ \t]+|declare[ \t]+-x[ \t]+|(?i:set)[ \t]+|ENV[ "
    r"\t]+|Environment=|\$env:)?[\"']?"
)
_OPTION = re.compile(r"(?:^|(?<=[ \t]))(?:-e|--env)(?:[ \t]+|=)$")
_PREFIX = re.compile(
    r"(?:^|.*[\s;&(])(?:(?:export|env|exec|nohup|sudo|set|ENV)[ \t]+)?(?:[A-Za-z_]\w*=\S+[ \t]+)*$",
    re.S,
)
KEYWORD = re.compile(r"[a-z][a-z0-9_]*[ \t]*=(?!=)")  # of a call in Python
_CONTINUES = ("\\", "^", "`")


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


def remove_variable(text: str, edit: Edit) -> Edit | None:
    """The edit that takes the assignment there away; None where its surroundings are unclear."""
    start, end = with_quotes(text, edit.start, edit.end)
    line = text.rfind("\n", 0, start) + 1
    stop = text.find("\n", end)
    stop = len(text) if stop < 0 else stop
    before, after = text[line:start], text[end:stop].strip()
    below = min(stop + 1, len(text))
    if "\n" in text[start:end]:  # - name: NAME / value: ...
        item = re.fullmatch(r"[ \t]*-[ \t]+name:[ \t]*[\"']?", before)
        return place_edit(edit, line, below) if item and _nothing(after) else None
    if flow := re.search(r"[\[,]\s*$", before):
        return _of_flow(text, edit, start, end, flow.group().strip())
    if option := _OPTION.search(before):
        start, before = line + option.start(), before[: option.start()]
        if not before.strip() and after in _CONTINUES:
            return place_edit(edit, line, below)
        return place_edit(edit, start, _past_blanks(text, end)) if after else None
    if _ALONE.fullmatch(before) and _nothing(after):
        goes_on = text[:line].rstrip("\r\n").endswith(_CONTINUES)  # the line above
        return None if goes_on else place_edit(edit, line, below)
    if _PREFIX.fullmatch(before) and after and not _nothing(after):
        if not before.strip() and after in _CONTINUES:
            return place_edit(edit, line, below)
        blank = text[end : end + 1] in " \t"
        return place_edit(edit, start, _past_blanks(text, end)) if blank else None
    return None


def _of_flow(text: str, edit: Edit, start: int, end: int, opened: str) -> Edit | None:
    """`["NAME=v", ...]`: with one of the commas around it."""
    if after := re.match(r"[ \t]*,[ \t]*", text[end:]):
        return place_edit(edit, start, end + after.end())
    if not re.match(r"\s*\]", text[end:]):
        return None
    head = re.search(r",\s*$", text[:start]) if opened == "," else None
    return place_edit(edit, head.start() if head else start, end)


def with_quotes(text: str, start: int, end: int) -> tuple[int, int]:
    """The place with the quotes of its words: `--flag '{...` ends before the closing one."""
    after = text[end : end + 1]
    if after and after in "'\"":
        if text[start:end].count(after) % 2:
            return start, end + 1
        if text[start - 1 : start] == after:
            return start - 1, end + 1
    return start, end


def _nothing(after: str) -> bool:
    return not after or after.startswith("#")


def _past_blanks(text: str, end: int) -> int:
    while text[end : end + 1] in (" ", "\t"):
        end += 1
    return end


def remove_keyword(text: str, edit: Edit) -> Edit | None:
    """`name=value,` of a call, with its comma, and no line left empty; None for a value that goes
    on.
    """
    end = edit.end + (text[edit.end : edit.end + 1] in ("'", '"'))
    if not re.match(r"\s*[,)]", text[end:]):
        return None
    after = re.match(r"[ \t]*,[ \t]*", text[end:])
    end += after.end() if after else 0
    line = text.rfind("\n", 0, edit.start) + 1
    whole = not text[line : edit.start].strip() and re.match(r"\r?\n", text[end:])
    start = edit.start
    if not after and not whole:  # the last one: the comma before it goes
        start = len(text[:start].rstrip().removesuffix(","))
    return place_edit(edit, line, end + whole.end()) if whole else place_edit(edit, start, end)
