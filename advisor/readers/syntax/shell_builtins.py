"""What the shell's own commands do to what is known: `set`, `shift`, `read`, `eval`, `source`,
`exit`, `return`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.readers.syntax.mapped import Mapped, hole, join, literal
from advisor.readers.syntax.shell_state import ShellState


def do_exit(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `exit`: the script ends."""
    return True


def do_return(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `return`: the function, or a sourced script, ends."""
    shell.returning = True
    return True


def do_set(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `set`: positional parameters; notes `set -a`."""
    for i, word in enumerate(words):
        if word.text == "--":
            shell.scope.args = words[i + 1 :]
        elif word.text in ("-a", "-o") and words[-1].text in ("-a", "allexport"):
            shell.reading.note("set -a: variables set after it are taken as exported", at)
    return False


def do_shift(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `shift`: drops the first positional parameter, or as many as it says."""
    count = words[-1].text if words else ""
    if shell.scope.args:
        shell.scope.args = shell.scope.args[int(count[:4]) if count.isdecimal() else 1 :]
    return False


def do_eval(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `eval`: reads its words as a command, at most eight levels deep."""
    spaced = [part for word in words for part in (literal(" ", -2), word)][1:]
    inner = type(shell)(
        join(spaced),
        shell.reading,
        shell.scope,
        around=shell.around,
        depth=shell.depth + 1,
        passed=shell.passed,
    )
    if shell.depth < 8:
        inner.run()
        shell.scope.substitute = shell.output_of
    return False


def do_source(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """Run `source`: notes that the other file is not read."""
    if words:
        shell.reading.note(f"{words[0].display()} is sourced and not read", at)
    return False


def do_read(shell: ShellState, words: list[Mapped], at: int) -> bool:
    """`IFS=, read -ra ARGS <<< "$EXTRA"` splits what the file knows; all else that is read comes
    from outside.
    """
    names = [word.text for word in words if re.fullmatch(r"[A-Za-z_]\w*", word.text)]
    as_list = any(re.fullmatch(r"-[a-z]*a[a-z]*", word.text) for word in words)
    known = shell.here if shell.here is not None and not shell.here.has_hole else None
    marks = shell.separators
    if known is None or (as_list and len(names) != 1):
        shell.scope.values.update((name, hole(name, at)) for name in names)
    elif as_list:
        piece = f"[^{re.escape(marks)}]+" if marks.strip() else r"\S+"
        shell.scope.values[names[0]] = [
            known.part(*one.span()) for one in re.finditer(piece, known.text)
        ]
    else:
        _read_fields(shell, names, known, f"[{re.escape(marks)}]" if marks.strip() else r"\s+")
    return False


def _read_fields(shell: ShellState, names: list[str], known: Mapped, mark: str) -> None:
    """`IFS='|' read -r name file <<< "$ENTRY"`: one field for each name, all that is left for the
    last.
    """
    start = len(known) - len(known.text.lstrip()) if mark == r"\s+" else 0
    for name in names[:-1]:
        found = re.compile(mark).search(known.text, start)
        end, after = found.span() if found is not None else (len(known), len(known))
        shell.scope.values[name], start = known.part(start, end), after
    for name in names[-1:]:
        shell.scope.values[name] = known.part(
            start, max(start, len(known.text.rstrip()) if mark == r"\s+" else len(known))
        )


BUILTINS: dict[str, Callable[[ShellState, list[Mapped], int], bool]] = {
    "exit": do_exit,
    "return": do_return,
    "set": do_set,
    "shift": do_shift,
    "eval": do_eval,
    "source": do_source,
    ".": do_source,
    "read": do_read,
}
