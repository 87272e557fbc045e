"""A launch to the words of its engine's command line, as its release spells them, and their quoting
for a shell: literal text is dead, and a variable that the file does not set stays one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from advisor.domain.nouns import Engine, Flag, Launch, LaunchText
from advisor.domain.patterns import lazy_re
from advisor.domain.shell import shell_word
from advisor.engines.catalogue import Catalogue
from advisor.engines.records import Style

# what is not known is one item, also with blanks in it: ${(seq 1 64)}
ITEM = lazy_re(r"(?:\$\{[^{}]*\}|\S)+")


class Writer:
    """The part of an adapter that writes: what its engine is called and how words stand
    together.
    """

    name: ClassVar[str] = ""
    STYLE: ClassVar[Style] = "argparse"
    UNDERSCORES: ClassVar[bool] = True
    PROGRAM: ClassVar[tuple[str, ...]] = ()
    MODEL_FLAGS: ClassVar[tuple[str, ...]] = ("--model",)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The options of every catalogued release."""
        return Catalogue(self.name, self.STYLE, self.UNDERSCORES)

    @property
    def engine(self) -> Engine:
        """The engine's name."""
        return self.name  # type: ignore[return-value]

    @property
    def versions(self) -> tuple[str, ...]:
        """All catalogued releases, oldest first."""
        return self.catalogue.versions

    @property
    def newest(self) -> str:
        """The newest catalogued release."""
        return self.catalogue.newest

    def argv(self, launch: Launch) -> tuple[str, ...]:
        """The argument vector, program included. No shell is involved."""
        return tuple(part for group, _ in self._groups(launch) for part in group)

    @property
    def program(self) -> tuple[str, ...]:
        """The words that start the server."""
        return self.PROGRAM

    def units(self, launch: Launch) -> tuple[tuple[str, ...], ...]:
        """The words that stand together, after the program: a positional model, then each option
        with its values.
        """
        (head, _), *groups = self._groups(launch)
        model = head[len(self.PROGRAM) :]
        return tuple(unit for unit in (model, *(words for words, _ in groups)) if unit)

    def render(self, launch: Launch) -> LaunchText:
        """Ready to paste: env assignments, then one option a line, shell-quoted."""
        variables = {var.name: var for var in launch.env if var.value is not None}
        env = {name: var.value or "" for name, var in variables.items()}
        live = [is_live(var.value, var.unresolved) for var in variables.values()]
        lines = [
            f"{name}={join([env[name]], open_)}" for name, open_ in zip(env, live, strict=True)
        ]
        lines += [join(group, open_) for group, open_ in self._groups(launch)]
        return LaunchText(argv=self.argv(launch), env=env, text=" \\\n  ".join(lines))

    def _groups(self, launch: Launch) -> list[tuple[tuple[str, ...], bool]]:
        """(words that stand together, whether one of them is an unset variable to be expanded)."""
        head = list(self.PROGRAM)
        groups: list[tuple[tuple[str, ...], bool]] = []
        for flag in launch.flags:
            if self._environment_sets(flag, launch.engine_version):
                continue
            if flag.raw == "" and flag.name in self.MODEL_FLAGS:
                head.append(flag.value or "")
            else:
                live = is_live(flag.value, flag.unresolved and "$" not in flag.raw)
                groups.append((self._words(flag, launch.engine_version), live))
        return [(tuple(head), False), *groups]

    def _environment_sets(self, flag: Flag, version: str | None) -> bool:
        """Whether a variable of unknown value sets this option: a secret handed down by the
        host.
        """
        option = self.catalogue.option(flag.name, version) or self.catalogue.option(flag.name)
        takes_value = option is not None and option.takes_value is True
        return flag.origin == "env" and flag.value is None and takes_value

    def _words(self, flag: Flag, version: str | None) -> tuple[str, ...]:
        off = flag.value == "false"
        spelling = flag.raw or flag.name
        if flag.origin != "cli":
            spelling = self.catalogue.spelling(flag.name, version, off) or flag.name
        option = self.catalogue.option(flag.name, version) or self.catalogue.option(flag.name)
        if flag.value is None or (off and option is not None and option.takes_value is False):
            return (spelling,)
        if option is not None and option.many:
            items = ITEM.findall(flag.value) if flag.unresolved else flag.value.split(" ")
            return (spelling, *items)
        number = re.fullmatch(r"-\d+(\.\d+)?", flag.value)
        if self.STYLE == "argparse" and flag.value.startswith("-") and not number:
            return (f"{spelling}={flag.value}",)
        return (spelling, flag.value)


_VARIABLE = lazy_re(r"\$\{[A-Za-z_]\w*\}")


def join(words: Sequence[str], live: bool) -> str:
    """Shell words; with `live` the one that holds the variable is written so that the shell expands
    it.
    """
    return " ".join(
        _live(word) if live and _VARIABLE.search(word) else shell_word(word) for word in words
    )


def write_file(name: str, text: str) -> str:
    """The shell command that writes a small file of whole lines."""
    lines = " ".join(shell_word(line) for line in text.splitlines())
    return f"printf '%s\\n' {lines} > {shell_word(name)}"


def is_live(value: str | None, unresolved: bool) -> bool:
    """Whether a value's only dollar is that of its unset variable.

    Of several dollars nothing tells which ones stood in single quotes, so that all of them stay
    dead; the same for what is no plain variable, and for `!`, which an interactive shell would
    expand.
    """
    if not unresolved or value is None or value.count("$") != 1 or "!" in value:
        return False
    return _VARIABLE.search(value) is not None


def _live(word: str) -> str:
    return '"' + re.sub(r'(["\\`])', r"\\\1", word) + '"'
