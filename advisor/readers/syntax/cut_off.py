"""Options behind the end of a command, where a backslash is missing or a comment ends it."""

from advisor.domain.launches import CutOff, CutOffCause
from advisor.domain.patterns import lazy_re
from advisor.engines.images import is_official
from advisor.readers.containers import engine_by_options
from advisor.readers.docker_run import docker_run
from advisor.readers.engine_command import EngineCommand
from advisor.readers.images import engine_of_image
from advisor.readers.programs import RUNTIMES, base_name
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped

_REMARK = lazy_re(r"(?:^|(?<=[ \t;&|]))#")
_OPTION = lazy_re(r"[ \t]*(--[A-Za-z][\w.-]*|-[A-Za-z]{1,6})(?=[ \t=]|\r?$)")
# a backslash, then blanks or a carriage return: meant to continue, as the next line's option says
LOOSE_END = lazy_re(r"\\(?:[ \t]+\r?|\r)(?=\n[ \t]*-)")
_EMPTY = lazy_re(r"\\\r?\n(?:[ \t]*\r?\n)+(?=[ \t]*-)")
# an open one ends with the line: else each is tried anew
_QUOTED = lazy_re(r"'[^'\n]*'?|\"(?:[^\"\\\n]|\\.)*\"?")
_IMAGE_LINE = lazy_re(r"[ \t]*([\w.-]+(?:/[\w.-]+)+(?:[:@][\w.:-]+)?)(?=[ \t]|\r?$)")
MAX_LINES, MAX_NAMED = 80, 4


def options_behind(
    source: Mapped, end: int, reading: Reading, image: bool = False
) -> CutOff | None:
    """The options behind a command that ends here; with `image` the first may be an image."""
    lines = source.part(end, min(len(source), end + 20_000)).text.split("\n")[:MAX_LINES]
    # from the command's own line on; it goes on where a backslash ends it
    at, remark, open_line = end, False, True
    names: list[str] = []
    first = -1
    for line in lines:
        body = _QUOTED.sub(lambda found: "_" * len(found.group()), line)
        cut = _REMARK.search(body)
        said = body[: cut.start()] if cut is not None else body
        if not open_line and said.strip():
            found = _OPTION.match(said)
            if found is None and image and not names:
                found = _IMAGE_LINE.match(said)
                found = found if found is not None and engine_of_image(found.group(1)) else None
            if found is None:
                break
            names.append(found.group(1))
            first = source.pos[at + found.start(1)] if first < 0 else first
        elif not open_line or not said.strip():
            remark = remark or (cut is not None and first < 0)
        open_line = cut is None and said.rstrip(" \t\r").endswith("\\")
        at += len(line) + 1
    if not names:
        return None
    return _cut_off(names, first, "comment" if remark else "no sign", reading)


def options_after_blanks(command: Mapped, reading: Reading) -> CutOff | None:
    """The options behind a backslash with blanks, where the command ends; else None."""
    loose = LOOSE_END.search(command.text) or _EMPTY.search(command.text)
    if loose is None:
        return None
    cause: CutOffCause = "empty line" if "\n" in loose.group() else "blanks"
    names: list[str] = []
    first, at = -1, loose.end()
    for line in command.part(at, len(command)).text.split("\n")[:MAX_LINES]:
        if (found := _OPTION.match(line)) is not None:
            names.append(found.group(1))
            first = command.pos[at + found.start(1)] if first < 0 else first
        at += len(line) + 1
    return _cut_off(names, first, cause, reading) if names else None


def _cut_off(names: list[str], first: int, cause: CutOffCause, reading: Reading) -> CutOff:
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    options = f"{', '.join(names[:MAX_NAMED])}{more}"
    return CutOff(options=options, line=reading.source.place(first)[0], cause=cause)


_IMAGE = lazy_re(r"[\w.-]+(?:/[\w.-]+)+(?:[:@][\w.:-]+)?")


def cut_container(
    words: list[Mapped], command: Mapped, source: Mapped, end: int, reading: Reading
) -> None:
    """`docker run` that ends before its image or before the server's options."""
    while words and base_name(words[0].text) in ("exec", "sudo"):
        words = words[1:]
    if not words or base_name(words[0].text) not in RUNTIMES:
        return
    said = options_after_blanks(command, reading) or options_behind(source, end, reading, True)
    ran = docker_run(words, 0, reading, None) if said else None
    if ran is None and not any(word.text in ("run", "create") for word in words[1:3]):
        return
    around = ran.around if ran is not None else None
    image = around.image_text() if around is not None else ""
    engine: str | None = engine_of_image(image) if image else None
    if said and engine is None:
        below = source.part(end, min(len(source), end + 20_000)).text
        images = (found.group() for found in _IMAGE.finditer(below))
        engine = next((engine_of_image(one) for one in images if is_official(one)), None)
        options = [Mapped(found, []) for found in _OPTION.findall(below)]
        engine = engine or engine_by_options(options)
    if said and engine:
        reading.add(
            EngineCommand(engine, [], {}, words[0].first(), reading.form, around, said=said)
        )
