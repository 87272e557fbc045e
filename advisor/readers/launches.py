"""Found commands -> launches: words become tokens with places, and secrets are hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from advisor import engines
from advisor.domain.nouns import Container, CutOff, EnvVar, Launch, Port, Span
from advisor.domain.patterns import lazy_re
from advisor.engines.base import Token
from advisor.engines.images import fork_of_image, split_image
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import store as knowledge
from advisor.readers.containers import ARGS_NAME
from advisor.readers.engine_command import EngineCommand, EnvItem, Surroundings
from advisor.readers.images import counts_for, fork_of_values, version_in, version_in_text
from advisor.readers.reading import Reading
from advisor.readers.relations import relate
from advisor.readers.secrets import HIDDEN, is_secret_flag, is_secret_name
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped, show
from advisor.readers.syntax.placeholders import left_open

if TYPE_CHECKING:
    from advisor.engines.adapter import Adapter

# An organisation and a model, bounded so that a long word is not read again from each letter: the
# 96 letters that huggingface_hub allows a name (utils/_validators.py).
_MODEL_NAME = lazy_re(
    r"(?:\w[\w-]{0,95}/)?[A-Za-z]{2,20}-?\d[\w.]{0,8}-[\w.-]{0,24}\d+(?:\.\d+)?[bB](?:-[\w.-]{1,"
    r"40})?(?![\w])"
)
# A word that means nothing but as a key: long, of small and large letters and digits.
_MIXED = lazy_re(r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[\w+=-]{16,200}")
_FOLDER = lazy_re(r"[~.]?(?:[/\\][\w.-]+)*?[/\\][\w.-]*?(b\d{4,6})[/\\]")  # of a build
_MONTH = lazy_re(r"(\d\d\.\d\d)-py\d")
# what stands between a variable and its value: NAME=value, NAME: value, - name: NAME / value: ...
_ASSIGNS = lazy_re(r"[\"']?[ \t]*[=:][ \t]*[\"']?|[\"']?[ \t]*\r?\n[ \t]*value:[ \t]*[\"']?")

# what a container is said to have just as its reader found it
_AS_FOUND = (
    *("shm_bytes", "ipc_host", "shm_volume", "gpus", "startup_budget_s", "budget_probe"),
    *("chart", "complete", "kind", "name"),
)


class LaunchMaker:
    """Makes the launches of one read file."""

    def __init__(self, reading: Reading) -> None:
        self.source, self.redactor, self.reading = reading.source, reading.redactor, reading
        self.version, self.found, self.slips = reading.version, reading.found, reading.slips
        self.said: dict[str, tuple[str | None, bool]] = {}

    def launches(self) -> tuple[Launch, ...]:
        """Return the launches that were found, in the order of the file."""
        made = [self._launch(found) for found in self.found]
        relate(made, self.reading)
        if made and self.slips:
            clean = self.redactor.clean
            said = (one.replace(message=clean(show(one.message))) for one in self.slips)
            made[0] = made[0].replace(slips=tuple(said))
        return tuple(made)

    def _launch(self, found: EngineCommand) -> Launch:
        adapter = engines.get(found.engine)
        cut = isinstance(found.said, CutOff) and f"not part of the command: {found.said.sentence}"
        notes = [note for note in (cut or found.said,) if isinstance(note, str)]
        tokens = self._tokens(found, adapter, notes)
        version_text, fork, sure = self._version(found)
        about: dict[str, Any] = {
            "version_text": version_text,
            "container": self._container(found.around, found.open_end),
            "file": self.source.name,
            "line": self.source.place(found.at)[0],
            "form": found.form,
            "background": found.background,
        }
        env = [self._env_var(name, item) for name, item in found.env.items()]
        if found.pairs:
            launch = adapter.read_mapping(self._items(found), env, origin=found.origin, **about)
        else:
            launch = adapter.read(tokens, env, **about)
        # llama-server reads options from its environment
        outside = gguf_engine(found.engine) and found.around and found.around.env_elsewhere
        extra: dict[str, Any] = {"open_end": True} if found.open_end or outside else {}
        if isinstance(found.said, CutOff):
            options = self.redactor.clean(show(found.said.options))
            extra["cut_off"] = found.said.replace(options=options)
        if found.strays:
            words = (self._token(word, word.first()) for word in found.strays)
            extra["strays"] = (*map(adapter.stray, words), *launch.strays)
        for stray in extra.get("strays", launch.strays):
            if _MIXED.fullmatch(stray.value or ""):
                self.redactor.learn(stray.value or "")
        if not sure and launch.version_pinned:
            extra["version_pinned"] = False
            why = "is only named in a comment or message: it is taken as a hint"
            notes.append(f"the release {version_text} {why}")
        if not launch.fork and (fork := fork or fork_of_values(launch.flags)):
            extra["fork"] = fork
        if (not launch.model or "${" in launch.model) and found.form not in ("ini", "config-yaml"):
            self._named_model(launch, extra, notes)
        if (given := launch.flag("--config")) is not None:
            extra["open_end"] = True
            notes.append(f"--config {given.value} is not read: whether it speculates is not known")
        told = tuple(self.redactor.clean(show(note)) for note in (*launch.notes, *notes))
        return launch.replace(notes=told, **extra)

    def _named_model(self, launch: Launch, extra: dict[str, Any], notes: list[str]) -> None:
        """A model from outside, where the rest of the file names just one."""
        if len(self.found) > 1 or knowledge.llm_from_text(launch.model or "") is not None:
            return
        known: dict[str, tuple[str, int]] = {}  # models in the file's text, with name and offset
        for said in _MODEL_NAME.finditer(self.source.text[:200_000]):
            model = knowledge.llm_from_text(said.group())
            if model is not None:
                known.setdefault(model.id, (said.group(), said.start()))
        if len(known) == 1:
            name, at = next(iter(known.values()))
            extra["model"] = name
            given, line = launch.model or "what is not in the file", self.source.place(at)[0]
            notes.append(f"the model is {given}; line {line} names {name}, which it is taken for")

    def _items(self, found: EngineCommand) -> list[tuple[Token, Token | None]]:
        items: list[tuple[Token, Token | None]] = []
        for key, value in found.pairs:
            at = key.first() if key.first() >= 0 else found.at
            name = self._token(key, at)
            token = None if value is None else self._token(value, at)
            secret = is_secret_flag("--" + name.text.lstrip("-")) or is_secret_name(name.text)
            if token is not None and secret:
                self.redactor.learn(token.text)
                token = token._replace(text=HIDDEN, span=None)
            items.append((name, token))
        return items

    def _tokens(self, found: EngineCommand, adapter: Adapter, notes: list[str]) -> list[Token]:
        tokens: list[Token] = []
        near, hide = found.at, False
        for number, word in enumerate(found.words):
            first = word.first()
            at = first if first >= 0 else near
            near = at if at >= found.at else near  # a variable's value stands elsewhere
            if not hide and self._is_open_end(found, number, adapter):
                found.open_end = True
                said = "is not set in the file: what it adds to the command is not known"
                notes.append(f"{word.display()} {said}")
                continue
            token = self._token(word, at)
            name, equals, value = token.text.partition("=")
            option = name.startswith("-")
            hide, secret = hide and not option, option and is_secret_flag(name)
            if hide or (equals and secret):
                self.redactor.learn(token.text if hide else value)
                shown = HIDDEN if hide else f"{name}={HIDDEN}"
                token = token._replace(text=shown, span=None, places=())
            hide = hide or (not equals and secret)
            tokens.append(token)
        return tokens

    def _token(self, word: Mapped, near: int) -> Token:
        span = word.span() or self._without_quotes(word)
        place = Span(start=span[0], end=span[1]) if span else None
        unknown = word.has_hole or left_open(word.text)
        places = tuple(word.pos) if span is None and word.text.startswith("{") else ()
        return Token(word.display(), *self.source.place(near), place, unknown, places)

    def _without_quotes(self, word: Mapped) -> tuple[int, int] | None:
        """The place of JSON that no quotes, or double ones, surround: the shell takes its own."""
        if not word.text.startswith("{") or word.has_hole or min(word.pos) < 0:
            return None
        start, end = word.pos[0], word.pos[-1] + 1
        written = self.source.text[start:end]
        lost = written.count('"')
        around = self.source.text[max(start - 1, 0) : start] + self.source.text[end : end + 1]
        if not lost or lost % 2 or written.replace('"', "") != word.text or around.count('"') == 1:
            return None
        return (start - 1, end + 1) if around == '""' else (start, end)

    def _is_open_end(self, found: EngineCommand, number: int, adapter: Adapter) -> bool:
        """Whether an unset variable stands where options do, not where a value does."""
        text = found.words[number].text
        alone = text.startswith(HOLE_OPEN) and text.find(HOLE_CLOSE) == len(text) - 1
        if not alone and text not in ("...", "\u2026", "$@"):
            return False
        if text[1:2] in ("@", "*") or "[@]" in text:
            return True
        before = found.words[number - 1].text if number else ""
        if not number:
            return bool(ARGS_NAME.search(text[1:-1])) or not traits(found.engine).model_first
        if not before.startswith("-") or "=" in before:
            return True
        option = adapter.catalogue.find(before, None)
        return option is not None and option.takes_value is False

    def _env_var(self, name: str, item: EnvItem) -> EnvVar:
        line, column = self.source.place(item.at)
        if item.value is None:
            return EnvVar(name=name, line=line, column=column, unresolved=True)
        if is_secret_name(name):
            self.redactor.learn(item.value.text)
            return EnvVar(name=name, value=HIDDEN, line=line, column=column)
        unknown = item.value.has_hole or left_open(item.value.text)
        return EnvVar(
            name=name, value=item.value.display(), line=line, column=column,
            value_span=_place(item.value), unresolved=unknown,
            span=self._assignment(name, item, item.value.span()),
        )  # fmt: skip

    def _assignment(self, name: str, item: EnvItem, value: tuple[int, int] | None) -> Span | None:
        text = self.source.text
        if item.at < 0 or value is None or not text.startswith(name, item.at):
            return None
        end = item.at + len(name)
        together = value[0] - end < 80 and _ASSIGNS.fullmatch(text[end : value[0]])
        return Span(start=item.at, end=value[1]) if together else None

    def _version(self, found: EngineCommand) -> tuple[str | None, str | None, bool]:
        """Version text, fork, and whether the text fixes what runs or only names it."""
        sure = True
        image = found.around.image_text() if found.around else ""
        counts = image and ("${" in image or counts_for(image, found.engine))
        tag = split_image(image)[1] if counts else None
        told = self.version if isinstance(self.version, str) else None
        version = told or _month(image, tag, found.engine) or version_in(tag)
        if version is None and gguf_engine(found.engine) and found.at >= 0:
            folder = _FOLDER.match(self.source.text, found.at)
            version = folder and folder[1]
        if version is None or version in ("latest", "nightly", "main", "dev"):
            if found.engine not in self.said:  # looked for once a file
                self.said[found.engine] = version_in_text(self.source.text, found.engine)
            said, installed = self.said[found.engine]
            version, sure = (said, installed) if said else (version, True)
        if version is None and isinstance(self.version, Mapping):
            version = self.version.get(found.engine)
        return version, found.fork or (fork_of_image(image) if image else None), sure

    def _container(self, around: Surroundings | None, open_end: bool) -> Container | None:
        if around is None:
            return None
        image, where = around.image_text() or None, around.image
        ports = []
        for number, probe in () if around.host else around.ports:
            line = self.source.place(number.first())[0]
            ports.append(Port(number=int(number.text), probe=probe, line=line, span=_place(number)))
        return Container(
            image=image,
            tag=split_image(image)[1] if image else None,
            gpu_kind="" if open_end else around.gpu_kind,  # on how many is not known
            ports=tuple(ports),
            image_line=self.source.place(where.first())[0] if where is not None else 0,
            image_span=_place(where) if where is not None else None,
            **{name: getattr(around, name) for name in _AS_FOUND},
        )


def _month(image: str, tag: str | None, engine: str) -> str | None:
    """The release that NVIDIA's image of a month is made from."""
    month = _MONTH.match(tag) if tag is not None and engine == "vllm" else None
    if month is None or not split_image(image)[0].endswith("nvidia/vllm"):
        return None
    notes: Mapping[str, str] = engines.get(engine).catalogue.notes["nvidia_months"]["releases"]
    return notes.get(month[1])


def _place(text: Mapped) -> Span | None:
    span = text.span()
    return Span(start=span[0], end=span[1]) if span else None
