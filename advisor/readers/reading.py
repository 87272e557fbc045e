"""One file's reading: what was found and noted, and the budgets that bound its work."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from advisor.domain.nouns import Slip, Span
from advisor.domain.spelling import is_only_near
from advisor.engines.traits import gguf_engine
from advisor.readers.dispatch import reader
from advisor.readers.engine_command import EngineCommand, Env, is_ik, key_of
from advisor.readers.secrets import Redactor, learn_from_text
from advisor.readers.source import SourceText
from advisor.readers.syntax.mapped import Mapped, show

if TYPE_CHECKING:
    from advisor.readers.syntax.scope import Scope

# a release that outweighs what the file says, or releases by engine where it says none
Told = str | Mapping[str, str] | None
MAX_LAUNCHES = 500
MAX_SLIPS = 500
MAX_STEPS = 50_000
MAX_EXPANDED = 1_000_000  # characters that variables of a file stand for, all uses together
_A_VALUE = 50  # characters that take as long as a value or a word, however short
MAX_WORDS = 5_000


class Reading:
    """Collects what one file holds."""

    def __init__(
        self, source: SourceText, redactor: Redactor | None = None, version: Told = None
    ) -> None:
        self.source = source
        self.version = version  # told by the caller
        self.redactor = redactor or Redactor()
        if redactor is None:
            learn_from_text(self.redactor, source.text)
        self.found: list[EngineCommand] = []
        self.slips: list[Slip] = []  # in the form around the commands
        self.notes: list[str] = list(source.notes)
        self.cut_short = False  # a bound ended the reading: a part of the file was not read
        self.keys: set[tuple[object, ...]] = set()
        self.steps = self.expanded = self.written = 0
        self.form = "command"

    def note(self, text: str, at: int = -1, *, cut_short: bool = False) -> None:
        """Say what was not read or not known, once each; `cut_short`: because of a bound."""
        line = self.source.place(at)[0]
        text = f"line {line}: {show(text)}" if line else show(text)
        if text not in self.notes and len(self.notes) < 50:
            self.notes.append(text)
            self.cut_short = self.cut_short or cut_short

    def slip(
        self,
        message: str,
        at: int,
        end: int | None = None,
        text: str = "",
        stops: bool = True,
        among: Iterable[str] = (),
        sources: Iterable[str] = (),
    ) -> None:
        """Keep a slip once; `text` should stand between the offsets, `among` is what else could."""
        line, column = self.source.place(at)
        span = Span(start=at, end=end) if end is not None and at >= 0 else None
        sole = stops and span is not None and self._is_sole(span, text, among)
        one = Slip(
            message=message, line=line, column=column, span=span, text=text, stops=stops, sole=sole,
            sources=tuple(sources),
        )  # fmt: skip
        if one not in self.slips and len(self.slips) < MAX_SLIPS:
            self.slips.append(one)

    def _is_sole(self, span: Span, text: str, among: Iterable[str]) -> bool:
        """Whether the text says what stands there, but for a letter or two, quotes and signs."""
        written = self.source.text[span.start : span.end]
        bare = re.sub(r"[\W_]", "", written)
        if not bare:
            return bool(text.strip() and written) and not re.search(r"\w", text)
        return bool(text) and (
            bare == re.sub(r"[\W_]", "", text) or is_only_near(written, text, among)
        )

    def step(self) -> bool:
        """Spend one unit of the budget; False when it is spent (noted once)."""
        return self.spend(1)

    def spend(self, units: int) -> bool:
        """Spend as many units as a piece of work is worth."""
        before, self.steps = self.steps, self.steps + units
        if before < MAX_STEPS <= self.steps:
            self.note("the file is too intricate; the rest of it was not read", cut_short=True)
        return self.steps < MAX_STEPS

    def expand(self, values: list[Mapped]) -> bool:
        """Count what a variable stands for; False beyond the file's budget, where it is unknown."""
        if self.expanded < MAX_EXPANDED:
            self.expanded += sum(len(value) + _A_VALUE for value in values)
            if self.expanded >= MAX_EXPANDED:
                note = "its variables come to too much text; what others hold is not known"
                self.note(note, cut_short=True)
        return self.expanded < MAX_EXPANDED

    def repeat(self, characters: int) -> bool:
        """Spend what it takes to read so many characters again."""
        return self.spend(characters // 20)

    def add(self, found: EngineCommand) -> None:
        """Keep a found command, once, up to a bound."""
        if gguf_engine(found.engine) and is_ik(found):
            found.engine = "ik_llama.cpp"
        if len(found.words) > MAX_WORDS:
            note = f"a command of {len(found.words)} words was read up to the first {MAX_WORDS}"
            self.note(note, found.at, cut_short=True)
            found.words = found.words[:MAX_WORDS]
        key = key_of(found)
        if key in self.keys:
            return
        self.written += sum(map(len, found.words))
        much = self.written > MAX_EXPANDED + len(self.source.text)  # aliases repeat what is long
        if much or len(self.found) >= MAX_LAUNCHES:
            what = "too much text" if much else f"more than {MAX_LAUNCHES} servers"
            note = f"the commands of the file come to {what}; the rest of it was not read"
            self.note(note, cut_short=True)
            self.steps = max(self.steps, MAX_STEPS)
            return
        self.keys.add(key)
        self.found.append(found)

    # what one reader asks another for, by name: each is loaded when it is needed

    def command(self, words: list[Mapped], env: Env | None = None, **about: Any) -> bool:
        """Find what the words of a command start; `about` as `command.read_command` takes it."""
        return bool(reader("command")(words, self, env, **about))

    def shell(self, text: Mapped, scope: Scope | None = None, **about: Any) -> bool:
        """Read a shell text (`about` as Shell takes it). Whether it starts an engine."""
        return bool(reader("shell")(text, self, scope, **about).run())

    def inside(self, text: Mapped, depth: int, name: str = "") -> None:
        """Read a text inside another file (a here-document, a ConfigMap's value)."""
        reader("inside")(text, self, depth, name)

    def run_at(self, before: int, at: int) -> None:
        """A program that a variable names stands where it is run, not where the variable is set."""
        for found in self.found[before:]:
            found.at = max(found.at, at)
