"""NixOS and home-manager modules: `services.llama-cpp`, `services.llama-swap`, OCI containers,
units, and texts that hold a configuration. Only names that the file itself binds are followed;
nothing is evaluated.
"""

from __future__ import annotations

import json
import re

from advisor.readers.containers import Ran, container_command
from advisor.readers.forms.llama_swap import expanded
from advisor.readers.forms.presets import Pair, preset
from advisor.readers.reading import Found, Reading, Surroundings
from advisor.readers.syntax.mapped import EMPTY, Mapped, hole, join, literal, made
from advisor.readers.syntax.nix_syntax import (
    Call,
    Expr,
    Function,
    List,
    Name,
    Parser,
    Set,
    Text,
    nested,
)
from advisor.readers.syntax.words import split_words

MAX_TEXT, MAX_DEPTH, MAX_VALUE = 400_000, 40, 100_000
CHARACTERS_A_STEP = 100  # of the reading's budget, for texts that are put together
_CONCATENATED = (
    "concatStringsSep",
    "concatStrings",
    "escapeShellArgs",
    "toString",
    "escapeShellArg",
    "unwords",
)
_SCALAR = re.compile(r"-?\d+(\.\d+)?|true|false")


def read_nix(reading: Reading) -> None:
    """Every server that the module sets up."""
    reading.form = "nix"
    text = reading.source.text
    if len(text) > MAX_TEXT:
        reading.note(f"a Nix file of {len(text)} characters is not read")
        return
    parser = Parser(text)
    tree = parser.expression()
    Module(reading, parser.bindings).walk(tree, (), 0)


class Module:
    def __init__(self, reading: Reading, bindings: dict[str, Expr]) -> None:
        self.reading, self.names = reading, dict(bindings)
        self.applied: set[int] = set()  # functions that the file calls: their bodies are read there
        self.dotted: dict[
            int, tuple[Set, dict[str, Expr]]
        ] = {}  # sets that names look into; held, so that an id stays its own

    # -------------------------------------------------------------- what starts a server

    def walk(self, node: Expr, path: tuple[str, ...], depth: int) -> None:
        if depth > MAX_DEPTH or not self.reading.step():
            return
        if isinstance(node, Set):
            self._set(node, path, depth)
        elif isinstance(node, Function):
            self.walk(node.body, path, depth + 1)
        elif isinstance(node, Text | Call | List) and not self._command(node, path):
            for item in () if isinstance(node, Text) else node.items:
                self.walk(item, path, depth + 1)
        if depth == 0:
            for name, value in self.names.items():
                if id(value) not in self.applied:
                    self.walk(value, (name,), 1)

    def _set(self, node: Set, path: tuple[str, ...], depth: int) -> None:
        fields = nested(node)
        if path[-1:] == ("llama-cpp",) and self._llama_cpp(node, fields):
            return
        models = self._inner(fields, "models")
        if models is not None and self._llama_swap(models, self._inner(fields, "macros")):
            return
        if (
            "image" in fields
            and "cmd" in fields
            and isinstance(self.followed(fields["cmd"][0]), List | Call)
        ):
            self._container(node, fields)
            return
        for name, (value, _) in fields.items():
            self.walk(value, (*path, name), depth + 1)

    def _inner(self, fields: dict[str, tuple[Expr, int]], name: str) -> Set | None:
        value = self.followed(fields[name][0]) if name in fields else None
        return value if isinstance(value, Set) else None

    def _llama_cpp(self, node: Set, fields: dict[str, tuple[Expr, int]]) -> bool:
        """`services.llama-cpp`: keys without dashes in `settings` and `modelsPreset`, words in
        `extraFlags`.
        """
        before = len(self.reading.found)
        settings, presets = self._inner(fields, "settings"), self._inner(fields, "modelsPreset")
        for name, (value, at) in nested(presets).items() if presets is not None else ():
            if isinstance(given := self.followed(value), Set):
                preset(made(name, at), self._keys(given), self.reading)
        if settings is not None:
            preset(made("settings", settings.at), self._keys(settings), self.reading)
        if "model" in fields:
            words = [made("--model", node.at), self.text(fields["model"][0])]
            words += self.words(fields["extraFlags"][0]) if "extraFlags" in fields else []
            around = Surroundings(kind="nix", name="llama-cpp")
            self.reading.add(Found("llama-server", words, {}, node.at, "nix", around))
        return len(self.reading.found) > before

    def _keys(self, node: Set) -> list[Pair]:
        text = self.reading.source.text
        return [
            (literal(name, at) if text.startswith(name, at) else made(name, at), self.text(value))
            for name, (value, at) in nested(node).items()
        ]

    def _llama_swap(self, models: Set, macros: Set | None) -> bool:
        """`settings.models.<name>.cmd` with the macros beside it."""
        from advisor.readers.command import read_command

        shared = (
            {name: self.text(value) for name, (value, _) in nested(macros).items()}
            if macros is not None
            else {}
        )
        before = len(self.reading.found)
        for name, (value, at) in nested(models).items():
            model = self.followed(value)
            command = nested(model).get("cmd") if isinstance(model, Set) else None
            if command is None:
                continue
            known = len(self.reading.found)
            line = expanded(self.text(command[0]), shared, 0)
            around = Surroundings(kind="llama-swap", name=name)
            read_command(split_words(line, dollars=False), self.reading, {}, around=around, at=at)
            for found in self.reading.found[known:]:
                found.at = at
        return len(self.reading.found) > before

    def _container(self, node: Set, fields: dict[str, tuple[Expr, int]]) -> None:
        around = Surroundings(image=self.text(fields["image"][0]), kind="nix")
        entrypoint = [self.text(fields["entrypoint"][0])] if "entrypoint" in fields else None
        container_command(
            Ran(around, entrypoint, self.words(fields["cmd"][0]), {}), self.reading, node.at
        )

    def _command(self, node: Text | Call | List, path: tuple[str, ...]) -> bool:
        """A text with a command or a whole configuration in it; whether it was read."""
        from advisor.readers import read_inside

        if isinstance(node, List) and path[-1:] not in (
            ("ExecStart",),
            ("command",),
            ("ProgramArguments",),
        ):
            return False
        text = self._spaced(node) if isinstance(node, List) else self.text(node)
        if " -" not in text.text and "\n" not in text.text:
            return False
        before = len(self.reading.found)
        read_inside(text, self.reading, 1, path[-1] if path and "." in path[-1] else "")
        self.reading.form = "nix"
        for found in (
            self.reading.found[before:]
            if "\n" not in text.text.strip() and not isinstance(node, Text)
            else ()
        ):
            found.at = node.at  # its words come from all over the file
        return len(self.reading.found) > before

    # -------------------------------------------------------------- values

    def followed(self, node: Expr, depth: int = 0) -> Expr:
        """A name to what the file binds to it, through `a.b` into a set."""
        while isinstance(node, Name) and depth < 10:
            depth += 1
            head, _, rest = node.text.partition(".")
            value = self.names.get(node.text, self.names.get(head))
            if value is None or (node.text not in self.names and not rest):
                break
            if node.text not in self.names:
                value = self.followed(value, depth)
                inner = self._named(value).get(rest) if isinstance(value, Set) else None
                if inner is None:
                    break
                value = inner
            node = value
        return node

    def _named(self, node: Set) -> dict[str, Expr]:
        """The values of a set by their dotted names, the first of each; put together once, since
        lists ask for them again.
        """
        if id(node) not in self.dotted:
            self.dotted[id(node)] = (
                node,
                {".".join(names): value for names, value, _ in reversed(node.pairs)},
            )
        return self.dotted[id(node)][1]

    def _together(self, parts: list[Mapped]) -> Mapped:
        """Texts as one, charged by its length: a file can name a long one over and over."""
        size = sum(map(len, parts))
        return (
            join(parts)
            if size <= MAX_VALUE and self.reading.spend(size // CHARACTERS_A_STEP)
            else hole("...")
        )

    def text(self, node: Expr, depth: int = 0) -> Mapped:
        """A value as text; what the file does not hold is a hole."""
        node = self.followed(node)
        if depth > 12 or not self.reading.step():
            return hole("...")
        if isinstance(node, Name):
            return (
                literal(node.text, node.at)
                if _SCALAR.fullmatch(node.text)
                else hole(node.text, node.at)
            )
        if isinstance(node, Text):
            return self._string(node, depth)
        if isinstance(node, List):
            return self._spaced(node, depth)
        if isinstance(node, Set):
            return made(json.dumps(self._data(node, depth)), node.at)
        return self._called(node, depth) if isinstance(node, Call) else hole("...")

    def _string(self, node: Text, depth: int) -> Mapped:
        parts: list[Mapped] = []
        for part in node.parts:
            if isinstance(part, Name | Text | List | Set | Function | Call):
                parts.append(self.text(part, depth + 1))
            else:
                start, end, said = part
                parts.append(
                    literal(said, start) if end - start == len(said) else made(said, start)
                )
        whole = self._together(parts)
        return _dedented(whole) if node.indented else whole

    def _spaced(self, node: Expr, depth: int = 0) -> Mapped:
        return self._together(
            [part for word in self.words(node, depth) for part in (made(" "), word)][1:]
        )

    def words(self, node: Expr, depth: int = 0) -> list[Mapped]:
        """The items of a list, and of lists put together with `++`."""
        node = self.followed(node)
        if isinstance(node, List):
            return [self.text(item, depth + 1) for item in node.items]
        if isinstance(node, Call) and depth < 8:
            return [
                word
                for item in node.items
                if isinstance(self.followed(item), List | Call)
                for word in self.words(item, depth + 1)
            ]
        return []

    def _called(self, node: Call, depth: int) -> Mapped:
        """The functions that put a command together; any other is not known."""
        if not node.items:
            return EMPTY
        head = self.followed(node.items[0])
        rest = node.items[1:]
        if isinstance(head, Function) and rest:
            return self._applied(head, rest[0], depth)
        name = head.text.rpartition(".")[2] if isinstance(head, Name) else ""
        if name.startswith("concatStrings") and rest:
            return self._joined(rest, name, depth)
        if name in _CONCATENATED and rest:
            return self.text(rest[0], depth + 1)
        if name == "toJSON" and rest:
            return self.text(rest[0], depth + 1)
        if name in ("getExe", "getExe'", "getBin") and rest:
            known = self.text(rest[-1], depth + 1)
            return (
                made("llama-server", node.at)
                if name == "getExe" and "llama" in known.text
                else known
            )
        if name == "fetchurl" and rest and isinstance(given := self.followed(rest[0]), Set):
            return next(
                (
                    self.text(value, depth + 1)
                    for names, value, _ in given.pairs
                    if names == ("url",)
                ),
                hole(name, node.at),
            )
        if (
            name
            in (
                "writeText",
                "writeShellScript",
                "writeShellScriptBin",
                "writeScript",
                "writeScriptBin",
                "toFile",
            )
            and len(rest) > 1
        ):
            return self.text(rest[1], depth + 1)
        if rest and isinstance(rest[0], Name) and rest[0].text == "+":
            return self._together(
                [
                    self.text(item, depth + 1)
                    for item in node.items
                    if not (isinstance(item, Name) and item.text == "+")
                ]
            )
        return hole(name or "...", node.at)

    def _joined(self, rest: tuple[Expr, ...], name: str, depth: int) -> Mapped:
        separator = self.text(rest[0], depth + 1) if name == "concatStringsSep" else EMPTY
        words = [
            word
            for item in rest[name == "concatStringsSep" :]
            for word in self.words(item, depth + 1)
        ]
        return self._together([part for word in words for part in (made(separator.text), word)][1:])

    def _applied(self, function: Function, argument: Expr, depth: int) -> Mapped:
        """A function of the file with what it is given, its defaults for the rest."""
        given = self.followed(argument)
        self.applied.add(id(function))
        bound: dict[str, Expr] = {
            name: value for name, value in function.defaults.items() if value is not None
        }
        if isinstance(given, Set):
            bound |= {names[0]: value for names, value, _ in given.pairs if len(names) == 1}
        if function.whole:
            bound = {function.whole: given}
        kept, self.names = self.names, {**self.names, **bound}
        try:
            return self.text(function.body, depth + 1)
        finally:
            self.names = kept

    def _data(self, node: Expr, depth: int) -> object:
        node = self.followed(node)
        if isinstance(node, Set) and depth < 8:
            return {".".join(names): self._data(value, depth + 1) for names, value, _ in node.pairs}
        if isinstance(node, List) and depth < 8:
            return [self._data(item, depth + 1) for item in node.items]
        said = self.text(node, depth + 1).shown()
        return json.loads(said) if isinstance(node, Name) and _SCALAR.fullmatch(said) else said


def _dedented(text: Mapped) -> Mapped:
    """An indented string without the blanks that all its lines begin with."""
    lines = [(found.start(), found.end()) for found in re.finditer(r"[^\n]*\n|[^\n]+", text.text)]
    filled = [text.text[start:end] for start, end in lines if text.text[start:end].strip()]
    margin = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    if not margin:
        return text
    return join(
        [
            text.part(min(start + margin, end - 1 if text.text[end - 1] == "\n" else end), end)
            for start, end in lines
        ]
    )
