"""Command lines into words by the shell's rules: quotes, escapes, variables, field splitting."""

from advisor.domain.patterns import lazy_re
from advisor.domain.records import Record, field
from advisor.readers.syntax.mapped import (
    EMPTY,
    HOLE,
    HOLE_CLOSE,
    HOLE_OPEN,
    Mapped,
    hole,
    join,
    synthetic,
)
from advisor.readers.syntax.scope import Scope, Value, closing_index, element, parameter

_NAME_OF = lazy_re(r"\$\{?([A-Za-z_]\w*)")
_OPTION_BEFORE = lazy_re(r"(?:^|[\s\"'])--?[A-Za-z][\w-]*[ =]$")
_EMPTY_DEFAULT = lazy_re(r"\$\{(\w+):?-\}")
_PLAIN = lazy_re(rf"[^\s'\"\\$`{HOLE_OPEN}]+")
_FIELD = lazy_re(rf"(?:{HOLE.pattern}|\S)+")  # a hole may have blanks in its name: $(nvidia-smi -L)
_LOOSE_END = lazy_re(r"[ \t]+\r?\n(?=[ \t]*-)")  # after a backslash that was to continue the line
_SAYS_NOTHING = lazy_re(r"(?:#[^\n]*|:(?:[ \t][^;&|\n]*)?)?")  # `# a comment among the options`
_NAME = lazy_re(r"[A-Za-z_]\w*|[0-9]|[@*#?$!-]")
MAX_WORDS = 20_000
MAX_TEXT = 300_000
MAX_UNCLOSED = 20  # each looked for its end through all of the text


def split_words(
    source: Mapped, scope: Scope | None = None, *, dollars: bool = True
) -> list[Mapped]:
    """All words of a command line, no operators; `dollars=False`: `$` is plain."""
    return _Lexer(source, scope or Scope(), dollars, splits=True).run()


def expand_word(source: Mapped, scope: Scope) -> list[Mapped]:
    """The fields of one word: none (an empty variable), one, or several (`"${A[@]}"`)."""
    if _PLAIN.fullmatch(source.text):
        return [source]
    return _Lexer(source, scope, True, splits=False).run()


def expand_value(source: Mapped, scope: Scope) -> Mapped:
    """One word without field splitting, as on the right side of an assignment."""
    if _PLAIN.fullmatch(source.text) or not source.text:
        return source
    fields = _Lexer(source, scope, True, splits=False, fields_split=False).run()
    if len(fields) <= 1:
        return fields[0] if fields else EMPTY
    return join([part for field in fields for part in (synthetic(" "), field)][1:])


class _Lexer(Record):
    """One pass over the text; `parts` is the word being built, `words` those that are done."""

    source: Mapped
    scope: Scope
    dollars: bool
    splits: bool
    depth: int = 0
    fields_split: bool = True
    words: list[Mapped] = field(default_factory=list)
    parts: list[Mapped] = field(default_factory=list)
    started: bool = False
    size: int = 0
    unclosed: int = 0

    def run(self) -> list[Mapped]:
        text, i = self.source.text, 0
        while i < len(text) and len(self.words) < MAX_WORDS:
            i = self.step(text, i)
        self.end_word()
        return self.words

    def add(self, part: Mapped) -> None:
        self.started = True
        self.size += len(part)
        if self.size < MAX_TEXT:  # a variable that doubles itself stops growing here
            self.parts.append(part)

    def end_word(self) -> None:
        if self.started:
            self.words.append(join(self.parts))
            self.parts, self.started = [], False

    def step(self, text: str, i: int) -> int:
        """Consume one construct that begins at `i`; the index after it."""
        char = text[i]
        if char == "\\":
            return self.escape(text, i)
        if char == "'" or (char == "`" and self.dollars):
            end = text.find(char, i + 1)
            end = len(text) if end < 0 else end
            inside = self.source.part(i + 1, end)
            self.add(inside) if char == "'" else self.substitution(inside, quoted=False)
            return end + 1
        if char == '"':
            return self.read_double_quoted(text, i + 1)
        if char == "$" and self.dollars:
            return self.dollar(text, i)
        if char.isspace() and self.splits:
            self.end_word()
            return i + 1
        found = HOLE.match(text, i) if char == HOLE_OPEN else _PLAIN.match(text, i)
        end = found.end() if found else i + 1
        self.add(self.source.part(i, end))
        return end

    def escape(self, text: str, i: int) -> int:
        if text.startswith("\r\n", i + 1):
            return i + 3
        if text.startswith("\n", i + 1):
            return i + 2
        if (loose := _LOOSE_END.match(text, i + 1)) is not None:
            return loose.end()
        self.add(self.source.part(i + 1, i + 2))
        return i + 2

    def dollar(self, text: str, i: int) -> int:
        following = text[i + 1 : i + 2]
        if following == "'":
            return self.step(text, i + 1)  # $'...': its escapes are not read
        if following == '"':
            return self.read_double_quoted(text, i + 2)
        end, value = self.reference(text, i)
        outside = _EMPTY_DEFAULT.match(text, i)
        if outside and value is EMPTY and self.parts and self.parts[-1].text.endswith("="):
            value = hole(outside[1], self.source.pos[i])  # --port=${PORT:-}: it is set elsewhere
        self.add_unquoted(value)
        return end

    def add_unquoted(self, value: Value) -> None:
        """Field splitting of an unquoted expansion."""
        for number, item in enumerate(value if isinstance(value, list) else [value]):
            if len(self.words) >= MAX_WORDS:
                return
            if number:
                self.end_word()
            if not self.fields_split:
                self.add(item)
                continue
            pieces = list(_FIELD.finditer(item.text))
            if pieces and pieces[0].start() > 0:
                self.end_word()
            for index, piece in enumerate(pieces):
                if index:
                    self.end_word()
                self.add(item.part(*piece.span()))
            if pieces and pieces[-1].end() < len(item):
                self.end_word()

    def read_double_quoted(self, text: str, i: int) -> int:
        self.add(EMPTY)
        start = i
        while i < len(text):
            char = text[i]
            if char == '"':
                if i > start:
                    self.add(self.source.part(start, i))
                return i + 1
            if char == "\\" and text[i + 1 : i + 2] in ("$", "`", '"', "\\", "\n"):
                self.add(self.source.part(start, i))
                if text[i + 1] != "\n":
                    self.add(self.source.part(i + 1, i + 2))
                i = start = i + 2
            elif char == HOLE_OPEN:
                i = max(i, text.find(HOLE_CLOSE, i)) + 1
            elif char == "$" and self.dollars:
                self.add(self.source.part(start, i))
                named = _NAME_OF.match(text, i)
                i, value = self.reference(text, i)
                at = named.start() if named else 0
                if value is EMPTY and named and _OPTION_BEFORE.search(text[max(0, at - 60) : at]):
                    value = hole(named[1], self.source.pos[at])  # it is set elsewhere
                self.add_quoted(value)
                start = i
            elif char == "`" and self.dollars:
                self.add(self.source.part(start, i))
                end = text.find("`", i + 1)
                end = len(text) if end < 0 else end
                self.substitution(self.source.part(i + 1, end), quoted=True)
                i = start = end + 1
            else:
                i += 1
        self.add(self.source.part(start, len(text)))
        return i

    def add_quoted(self, value: Value) -> None:
        """`"$X"` is one field, `"$@"` and `"${A[@]}"` are as many as there are values."""
        if isinstance(value, Mapped):
            self.add(value)
            return
        if not value and not any(part.text for part in self.parts):
            self.parts, self.started = [], False  # an empty "$@" is no word at all
        for number, item in enumerate(value):
            if len(self.words) >= MAX_WORDS:
                return
            if number and self.fields_split:
                self.end_word()
            elif number:
                self.add(synthetic(" "))
            self.add(item)

    def reference(self, text: str, i: int) -> tuple[int, Value]:
        """The value of the `$...` at `i` and the index after it."""
        at, following = self.source.pos[i], text[i + 1 : i + 2]
        close = -1
        if following in ("{", "(") and self.unclosed < MAX_UNCLOSED:
            close = closing_index(text, i + 1)
            self.unclosed += close < 0
        if following == "{" and close > 0:
            return close + 1, parameter(self.source.part(i + 2, close), self.scope, self.inner)
        if following == "(" and close > 0:
            if text.startswith("((", i + 1) and text[close - 1] == ")":
                return close + 1, hole("((...))", at)
            return close + 1, self.substitute(self.source.part(i + 2, close))
        found = _NAME.match(text, i + 1)
        if not found:
            return i + 1, self.source.part(i, i + 1)
        value = element(self.scope, found.group(), None)
        return found.end(), hole(found.group(), at) if value is None else value

    def inner(self, body: Mapped) -> Mapped:
        """The default in `${NAME:-default}`: a word of its own."""
        if self.depth > 20:
            return body
        words = _Lexer(body, self.scope, True, False, self.depth + 1, fields_split=False).run()
        return words[0] if len(words) == 1 else join(words)

    def substitute(self, body: Mapped) -> Mapped:
        if _SAYS_NOTHING.fullmatch(body.text.strip()):
            return EMPTY
        known = self.scope.substitute(body) if self.scope.substitute else None
        return hole("(" + body.text.strip()[:30] + ")", body.first()) if known is None else known

    def substitution(self, body: Mapped, quoted: bool) -> None:
        value = self.substitute(body)
        self.add(value) if quoted else self.add_unquoted(value)
