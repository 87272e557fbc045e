"""Arguments -> flags, as the engines' own parsers walk a command line: argparse (vLLM, SGLang), and
llama.cpp's loop. What a parser would refuse is kept with `known=False`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from advisor.domain.nouns import EnvVar, Flag, Span, StraySwitchValue
from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple
from advisor.engines.base import Match, Token
from advisor.engines.catalogue import Catalogue

_NUMBER = lazy_re(r"-\d*\.?\d+$")
TRUE = frozenset({"1", "true", "on", "yes", "enabled"})
FALSE = frozenset({"0", "false", "off", "no", "disabled"})

# what a switch is given by mistake; a number may be another option's
TRUTHS = (TRUE | FALSE) - {"0", "1"}


class Reader(NamedTuple):
    """The catalogue, the release (None: any) and a second one whose options count as known."""

    catalogue: Catalogue
    version: str | None
    also: str | None = None
    switches: frozenset[str] = frozenset()  # a fork's own options, read but not catalogued
    valued: frozenset[str] = frozenset()

    def match(self, name: str) -> tuple[Match | None, bool]:
        """How the spelling reads, sought in all releases, and whether this one takes it."""
        for version in (self.version, self.also):
            if version is not None or self.version is None:
                match = self.catalogue.match(name, version)
                if match is not None:
                    return match, not match.option.removed
        dashed = name.replace("_", "-")
        return self.catalogue.match(name, None) or self.catalogue.match(dashed, None), False

    def took_many(self, name: str) -> bool:
        """Whether an option of no release took several values, as its successor does."""
        gone = self.catalogue.replacement("--" + name.lstrip("-").replace("_", "-"), None)
        option = self.catalogue.find(gone[0], None) if gone and gone[1] is None else None
        return option is not None and option.many


def is_flag(token: Token) -> bool:
    """Whether the token is an option's name, not a value or a negative number."""
    text = token.text
    if not text.startswith("-") or len(text) == 1:
        return False
    if " " not in text:
        return text.startswith("--") or not _NUMBER.match(text)
    return " " not in text.partition("=")[0]


class Walk:
    """A command line taken apart: flags, positional arguments and values of switches."""

    def __init__(self, tokens: Sequence[Token] = (), flags: Iterable[Flag] = ()) -> None:
        self.tokens, self.at = tokens, 0
        self.switch = ""  # the one just before
        self.flags = list(flags)
        self.positionals: list[Token] = []
        self.switch_values: list[StraySwitchValue] = []

    def options(self) -> Iterator[Token]:
        """The options in turn; other words are values of the switch before or positionals."""
        while self.at < len(self.tokens):
            token, switch = self.tokens[self.at], self.switch
            self.at, self.switch = self.at + 1, ""
            if is_flag(token):
                yield token
            elif switch and token.text.lower() in TRUTHS:
                self.switch_values.append(StraySwitchValue(switch, token.text))
                self.flags[-1] = self.flags[-1].replace(value_span=token.span)
            else:
                self.positionals.append(token)

    def take_values(self, name: str, match: Match | None, reader: Reader) -> list[Token]:
        """The values that follow an option."""
        if match is not None and not match.dotted and match.option.takes_value is False:
            return []
        many = reader.took_many(name) if match is None else match.option.many and not match.dotted
        begun, end = self.at, len(self.tokens)
        while self.at < end and not is_flag(self.tokens[self.at]) and (many or self.at == begun):
            self.at += 1
        values = list(self.tokens[begun : self.at])
        while match is None and self.at < end and _NUMBER.match("-" + self.tokens[self.at].text):
            self.at += 1  # more numbers of an option that is not known
        return values


def walk_argparse(tokens: Sequence[Token], reader: Reader) -> Walk:
    """Flags and positionals of an argparse command line."""
    walk = Walk(tokens)
    for token in walk.options():
        if token.text == "--":
            continue
        name, equals, inline = token.text.partition("=")
        match, known = reader.match(name)
        if match is None and (packed := _packed_flag(token, reader)) is not None:
            walk.flags.append(packed)
            continue
        values = [token._replace(text=inline)] if equals else walk.take_values(name, match, reader)
        if match is not None and match.option.takes_value is False and not match.dotted:
            walk.switch = "" if equals else name
            if equals and inline.lower() in TRUTHS:
                walk.switch_values.append(StraySwitchValue(name, inline))
        walk.flags.append(make_flag(token, name, match, known, values))
    return walk


def _packed_flag(token: Token, reader: Reader) -> Flag | None:
    """A short option with its value in one argument: -O2, -tp4."""
    short = re.match(r"(-[A-Za-z]+)(\d+)$", token.text)
    match, known = reader.match(short[1]) if short else (None, False)
    if short is None or match is None:
        return None
    return make_flag(token, short[1], match, known, [token._replace(text=short[2])])


def walk_llama(tokens: Sequence[Token], reader: Reader) -> Walk:
    """Flags of a llama.cpp command line; `--x=v`, which it refuses, is read as meant."""
    walk = Walk(tokens)
    for token in walk.options():
        name, equals, inline = token.text.partition("=")
        match, known = reader.match(name)
        own = match is None and name in reader.switches | reader.valued
        values: list[Token] = []
        stands_alone = match is not None and match.option.takes_value is False
        if equals:
            values, known = [token._replace(text=inline)], False
        elif name not in reader.switches and not stands_alone and walk.at < len(tokens):
            follows = tokens[walk.at]
            # an option behind an option: the value was forgotten (a bare -fa)
            takes_any = match is not None and match.option.type != "int"
            if not is_flag(follows) or (takes_any and reader.match(follows.text)[0] is None):
                values = [follows]
                walk.at += 1
        walk.switch = name if stands_alone and not equals else ""
        walk.flags.append(make_flag(token, name, match, known or own, values))
    return walk


def make_flag(
    token: Token, name: str, match: Match | None, known: bool, values: Sequence[Token]
) -> Flag:
    """One Flag of a name and its values; a switch is None (on) or "false" (off)."""
    canonical = name
    last = values[-1] if values else token
    value: str | None = None
    if values:
        value = last.text if len(values) == 1 else " ".join(v.text for v in values)
    if match is not None:
        canonical = match.option.name + (f".{match.dotted}" if match.dotted else "")
        if match.option.takes_value is False and not match.dotted:
            value = switch_value(value, match.negated)
    span = value_span = None
    first = values[0].span if values else None
    if first is not None and last.span is not None and last.span.end >= first.start:
        value_span = Span(start=first.start, end=last.span.end)  # of a variable: where it is set
    if token.span is not None and last.span is not None and last.span.end >= token.span.start:
        span = Span(start=token.span.start, end=last.span.end)
        if first == token.span and "=" in token.text:  # --x=v: the tail of the one argument
            value_span = Span(start=token.span.end - len(values[0].text), end=token.span.end)
    return Flag(
        name=canonical, raw=name, value=value, known=known, origin="cli", line=token.line,
        column=token.column, span=span, value_span=value_span,
        unresolved=token.unresolved or any(v.unresolved for v in values),
        places=values[0].places if len(values) == 1 else (),
        name_at=token.span.start if token.span is not None else -1,
    )  # fmt: skip


def switch_value(value: str | None, negated: bool) -> str | None:
    """The value of a switch: None is on, "false" is off."""
    state = not negated
    if value is not None and value.lower() in FALSE:
        state = negated
    elif value is not None and value.lower() not in TRUE:
        return value
    return None if state else "false"


def env_flags(env: Iterable[EnvVar], reader: Reader) -> tuple[tuple[Flag, ...], tuple[EnvVar, ...]]:
    """(flags set by environment variables, the other variables): llama-server's LLAMA_ARG_*."""
    flags: list[Flag] = []
    rest: list[EnvVar] = []
    for var in env:
        target = reader.catalogue.env_options.get(var.name)
        if target is None:
            rest.append(var)
            continue
        name, negated = target
        here = reader.catalogue.option(name, reader.version)
        option = here or reader.catalogue.option(name)
        spoken = (var.value or "").lower() in ("yes", "no")  # words that it does not read
        alone = option is not None and option.takes_value is False and not spoken
        value = switch_value(var.value, negated) if alone else var.value
        flags.append(Flag(
            name=name, raw=var.name, value=value, known=here is not None and not here.removed,
            origin="env", line=var.line, column=var.column, span=var.span,
            value_span=var.value_span, unresolved=var.unresolved,
        ))  # fmt: skip
    return tuple(flags), tuple(rest)


def mapping_flags(
    items: Iterable[tuple[Token, Token | None]], reader: Reader, origin: str
) -> list[Flag]:
    """Flags of keys and values: INI presets, `--config` YAML, Python keywords."""
    flags: list[Flag] = []
    for key, value in items:
        match, known, name = None, False, key.text
        dashed = key.text.replace("_", "-")
        spelt = (f"--{dashed}", f"-{dashed}", f"--{key.text}")
        for name in (key.text,) if key.text.startswith("-") else spelt:
            match, known = reader.match(name)
            if match is not None and (origin == "yaml" or not match.abbreviated):
                break  # the engine puts YAML's keys on its command line, which takes prefixes
        else:
            match, known = None, False
        if match is None and key.text.startswith("LLAMA_ARG_"):
            var = EnvVar(name=key.text, value=value.text if value else None, span=key.span)
            var = var.replace(line=key.line, column=key.column)
            made, _ = env_flags([var], reader)
            flags += [flag.replace(origin=origin) for flag in made]
            if made:
                continue
        if origin == "ini" and reader.catalogue.style == "llama" and "_" in key.text:
            known = False  # a preset's keys are compared as they stand
        spelled = name if match is not None else key.text
        flag = make_flag(key, spelled, match, known, [value] if value else [])
        flags.append(flag.replace(origin=origin, raw=key.text))
    return flags
