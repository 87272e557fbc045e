"""Words of a command line, or keys and values of a file, to a Launch."""

import re
from collections.abc import Callable, Sequence
from typing import ClassVar, TypedDict, Unpack

from advisor.domain.nouns import AdvisorError, Container, EnvVar, Flag, Launch
from advisor.domain.patterns import lazy_re
from advisor.engines.arguments.reading import (
    Reader,
    Walk,
    env_flags,
    mapping_flags,
    walk_argparse,
    walk_llama,
)
from advisor.engines.base import Token, VersionMatch
from advisor.engines.images import fork_of_image
from advisor.engines.writer import Writer


class About(TypedDict, total=False):
    """Where a launch stands, and what is known of its release and container."""

    version_text: str | None
    container: Container | None
    file: str
    line: int
    form: str
    background: bool


class LaunchReader(Writer):
    """The part of an adapter that reads: releases, and options with their places in the file."""

    # what stands before the options on a command line
    ENTRY: ClassVar[re.Pattern[str]] = lazy_re(r"$^")

    # ------------------------------------------------------------ versions

    def resolve_version(self, text: str | None) -> VersionMatch:
        """The release of a tag or text; floating tags and branches pin nothing."""
        from advisor.engines.versions import resolve_release  # start-up: only with a release named

        return resolve_release(self.name, self.versions, text)

    def known_version(self, version: str | None) -> str | None:
        """The version itself if catalogued. Raises AdvisorError naming the nearest."""
        if version is None or version in self.catalogue.versions:
            return version
        found = self.resolve_version(version)
        if found.version is None:
            raise AdvisorError(f"{self.name} {version} is not catalogued: {found.note}")
        return found.version

    # ------------------------------------------------------------ reading

    def read(
        self, tokens: Sequence[Token], env: Sequence[EnvVar] = (), **about: Unpack[About]
    ) -> Launch:
        """A Launch of arguments as the process sees them, without a leading program."""
        walk = walk_llama if self.STYLE == "llama" else walk_argparse
        arguments = self._arguments(tokens)
        return self._launch(lambda reader: walk(arguments, reader), env, about)

    def read_mapping(
        self,
        items: Sequence[tuple[Token, Token | None]],
        env: Sequence[EnvVar] = (),
        *,
        origin: str = "yaml",
        **about: Unpack[About],
    ) -> Launch:
        """A Launch of keys and values: `--config` YAML, INI presets, keywords."""
        about = {"form": "config", **about}
        return self._launch(
            lambda reader: Walk(flags=mapping_flags(items, reader, origin)), env, about
        )

    def _reader(self, version: VersionMatch) -> Reader:
        return Reader(self.catalogue, version.version)

    def _arguments(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens after the program's own name."""
        for count in range(min(len(tokens), 6), 0, -1):
            if self.ENTRY.fullmatch(" ".join(token.text for token in tokens[:count])):
                return list(tokens[count:])
        return list(tokens)

    def _launch(
        self, walk_with: Callable[[Reader], Walk], env: Sequence[EnvVar], about: About
    ) -> Launch:
        version_text, container = about.get("version_text"), about.get("container")
        version = self.resolve_version(version_text)
        reader = self._reader(version)
        first, rest = env_flags(env, reader) if self.STYLE == "llama" else ((), tuple(env))
        walk = walk_with(reader)
        flags = (*first, *walk.flags)
        notes = [
            f"a switch takes no value: {stray.switch} is followed by '{stray.value}'"
            for stray in walk.switch_values
        ]
        if version.note:
            notes.append(version.note)
        named = {flag.name: flag.value for flag in flags if flag.value}  # the last one counts
        model = next((named[name] for name in self.MODEL_FLAGS if name in named), None)
        left = walk.positionals
        if model is None and left and self.STYLE == "argparse" and not left[0].text.startswith("$"):
            token = left.pop(0)
            model = token.text
            flags = (self._model_flag(token), *flags)
        notes += [f"the argument '{_short(token.text)}' was not read" for token in left]
        return Launch(
            engine=self.engine,
            engine_version=version.version,
            version_text=version_text,
            version_pinned=version.pinned,
            fork=self._fork(version_text, container),
            model=model,
            flags=flags,
            env=rest,
            container=container,
            file=about.get("file", ""),
            line=about.get("line", 0) or (walk.flags[0].line if walk.flags else 0),
            form=about.get("form", "command"),
            background=about.get("background", False),
            notes=tuple(notes),
            strays=tuple(map(self.stray, left)),
            stray_switch_values=tuple(walk.switch_values),
            too_old=version.too_old,
        )

    def stray(self, token: Token) -> Flag:
        """An argument that belongs to no option."""
        return self._model_flag(token).replace(name="")

    def _model_flag(self, token: Token) -> Flag:
        return Flag(
            name=self.MODEL_FLAGS[0], raw="", value=token.text, line=token.line,
            column=token.column, span=token.span, value_span=token.span,
            unresolved=token.unresolved,
        )  # fmt: skip

    def _fork(self, version_text: str | None, container: Container | None) -> str | None:
        """The image that is none of the engine's own; None for those and where none is named."""
        return fork_of_image((container.image or "") if container is not None else "")


def _short(words: str) -> str:
    return words if len(words) <= 40 else words[:37] + "..."
