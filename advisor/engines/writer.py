"""A launch to the words of its engine's command line, as its release spells them."""

import re
from functools import cached_property
from typing import ClassVar

from advisor.domain.nouns import Engine, Flag, Launch, LaunchText
from advisor.domain.patterns import lazy_re
from advisor.domain.shell import shell_word, shell_words
from advisor.engines.catalogue import Catalogue
from advisor.engines.records import Style

# what is not known is one item, also with blanks in it: ${(seq 1 64)}
ITEM = lazy_re(r"(?:\$\{[^{}]*\}|\S)+")


class Writer:
    """The part of an adapter that writes."""

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
        return tuple(part for group in self._groups(launch) for part in group)

    @property
    def program(self) -> tuple[str, ...]:
        """The words that start the server."""
        return self.PROGRAM

    def units(self, launch: Launch) -> tuple[tuple[str, ...], ...]:
        """Words that stand together after the program: a model, an option with its values."""
        head, *groups = self._groups(launch)
        return tuple(unit for unit in (head[len(self.PROGRAM) :], *groups) if unit)

    def render(self, launch: Launch) -> LaunchText:
        """Ready to paste: env assignments, then one option a line, shell-quoted."""
        env = {var.name: var.value for var in launch.env if var.value is not None}
        lines = [f"{name}={shell_word(value)}" for name, value in env.items()]
        lines += map(shell_words, self._groups(launch))
        return LaunchText(argv=self.argv(launch), env=env, text=" \\\n  ".join(lines))

    def _groups(self, launch: Launch) -> list[tuple[str, ...]]:
        """The words that stand together, the program with its model first."""
        head = list(self.PROGRAM)
        groups: list[tuple[str, ...]] = []
        for flag in launch.flags:
            if self._environment_sets(flag, launch.engine_version):
                continue
            if flag.raw == "" and flag.name in self.MODEL_FLAGS:
                head.append(flag.value or "")
            else:
                groups.append(self._words(flag, launch.engine_version))
        return [tuple(head), *groups]

    def _environment_sets(self, flag: Flag, version: str | None) -> bool:
        """Whether an unknown variable sets this option: a secret of the host."""
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


def write_file(name: str, text: str) -> str:
    """The shell command that writes a small file of whole lines."""
    lines = " ".join(shell_word(line) for line in text.splitlines())
    return f"printf '%s\\n' {lines} > {shell_word(name)}"
