"""Shell scripts and single command lines."""

from __future__ import annotations

import re
from itertools import islice

from advisor.domain.patterns import lazy_re
from advisor.readers.containers import engine_by_options
from advisor.readers.dispatch import reader
from advisor.readers.engine_command import EngineCommand, Surroundings
from advisor.readers.images import image_comment
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import HOLE_CLOSE, HOLE_OPEN, Mapped, literal
from advisor.readers.syntax.shell import parse
from advisor.readers.syntax.words import split_words

_SPACED = lazy_re(
    r"^(?:[ \t]*export[ \t]+(?=\w+[ \t]*=)|(?=[A-Z][A-Z0-9_]+[ \t]+=[ \t]))([A-Za-z_]\w*)"
    r"([ \t]+=[ \t]*|=[ \t]+)(?=[\w\"'/$])",
    re.M,
)
_SET = lazy_re(r"(?:^|[\s;(])(?:export[ \t]+|local[ \t]+|readonly[ \t]+)?([A-Za-z_]\w*)=", re.M)
_BARE_JSON = lazy_re(r"(?<=[ \t=])\"\{\"[A-Za-z_]\w*\":[^\n\\]{0,2000}?\}\"(?=[ \t]|\\|\r?$)", re.M)
_DEFAULTED = lazy_re(r"\$\{([A-Za-z_]\w*):?=")  # ${NAME:=value}
# names that are tested, or have a default where none is set: they come from outside
_OUTSIDE = lazy_re(
    r"(?:(?:\[|\btest)[ \t]+(?:![ \t]+)?-[nzv][ \t]+[\"']?\$?\{?|\$\{(?=\w+:?[-+?]))(\w+)"
)
_NAME = lazy_re(r"\$\{?([A-Za-z_]\w*)\}?")
_USED = lazy_re(r"\$\{?([A-Za-z_]\w*)\}?(?![:\w\[-])")
_TYPESET = lazy_re(
    r"^(?![ \t]*#|.*\becho\b).*?[ =](\u201c([^\u201c\u201d\n]*)\u201d)(?=[ \t]*\\?$|[ \t])", re.M
)
_ASKED = lazy_re(
    r"^#SBATCH[ \t]+--?(gpus-per-node|gres|gpus|G|nodes|N)(?:=|[ \t]+)(?:gpu:)?"
    r"(?:[\w.-]*[A-Za-z][\w.-]*:)?(\d{1,6})\b",
    re.M,
)
_GRES = lazy_re(r"^#SBATCH[ \t]+--gres(?:=|[ \t]+)gpu(=)\w", re.M)
_TASKS = lazy_re(r"^#SBATCH[ \t]+--ntasks-per-node(?:=|[ \t]+)(\d{1,6})\b", re.M)
# srun of a server without a number of tasks of its own, or ranks told by its variables
_EACH = lazy_re(
    r"^[ \t]*(?:exec[ \t]+)?srun[ \t]+(?![^\n]*(?:-n[ \t]*\d|--ntasks|bash|\bsh\b))"
    r"[^\n]*\b(?:vllm[ \t]+serve|sglang|llama-server)\b",
    re.M,
)
_NEARLY = lazy_re(r"^(#[ \t]+SBATCH|#SBACTH|#SBTACH|#sbatch|#Sbatch)[ \t]+--?[a-zA-Z]", re.M)
_QUOTED = lazy_re(r"\\.|(?<![\w$\\{])#[^\n]*|'[^']*'|\"(?:[^\"\\]|\\.)*\"|(['\"])", re.S)
MAX_NAMES = 100  # arrays of a script, and mentions of them, that are compared
_ARRAY = lazy_re(r"^[ \t]*(?:(?:local|declare|readonly|typeset)[ \t]+(?:-a[ \t]+)?)?(\w+)=\(", re.M)
_ITEMS = lazy_re(r"\$\{(\w+)\[[@*]\]\}")
_PLAIN = lazy_re(r"\$(?:\{(\w+)\}|(\w+)\b(?!\[))")


def read_script(reading: Reading) -> None:
    """A whole file."""
    read_shell(literal(reading.source.text), reading)


def read_shell(text: Mapped, reading: Reading, depth: int = 0) -> None:
    """A script, or a command; `depth` above 0 where it stands inside another text."""
    reading.form = "shell" if "\n" in text.text.strip() else "command"
    around = None
    said = image_comment(text.text)
    if said is not None:
        around = Surroundings(
            image=literal(said[0], said[1]) if not depth else None, kind="comment"
        )
    reading.shell(text, around=around, depth=depth)
    if not depth or "export" in text.text:
        _spaced_settings(text, reading)
    if not depth:
        _check_quotes(text, reading)
        _open_quote(text, reading)
    if "#SBATCH" in text.text:
        _slurm(text, reading)
    if '"{"' in text.text:
        _inner_quotes(text, reading)
    if "=(" in text.text and "zsh" not in text.text[:40]:
        _whole_arrays(text, reading)
    if not reading.found and not depth:
        _bare_options(text, reading)
        if not reading.found and parse(text.text).type == "ERROR":
            reader("text")(reading)  # the grammar does not read it


def _check_quotes(text: Mapped, reading: Reading) -> None:
    """Names in single quotes, names that nothing sets but a letter away, quotes of a typesetter."""
    from difflib import get_close_matches  # start-up: only for a script with variables

    given = set(_SET.findall(text.text)[:1_000]) | set(_DEFAULTED.findall(text.text)[:1_000])
    for word in (one for command in reading.found for one in command.words):
        place = word.span() if "$" in word.text else None
        named = next((one for one in _NAME.finditer(word.text) if one[1] in given), None)
        if named is not None and place is not None:
            start, end = place[0] - 1, place[1] + 1
            if reading.source.text[start:end] == f"'{word.text}'":
                said = f"single quotes keep {named[0]} as it stands: no value takes its place"
                meant = re.sub(r'["\\`]', lambda sign: f"\\{sign[0]}", word.text)
                reading.slip(said, start, end, f'"{meant}"')
    used = list(islice(_USED.finditer(text.text), 1_000))
    names = {found[1] for found in used}
    outside = {found[1] for found in islice(_OUTSIDE.finditer(text.text), 1_000)}
    for found in used if given else ():
        name, at = found[1], text.pos[found.start(1)]
        if name in given | outside or at < 0 or len(name) < 4 or not name.isupper():
            continue
        near = get_close_matches(name, given - names, 1, 0.8)
        if near:
            said = f"nothing here sets {name}: {near[0]} is meant"
            reading.slip(said, at, at + len(name), near[0], stops=False)  # the host may set it
    for found in islice(_TYPESET.finditer(text.text), MAX_NAMES):
        at, end = text.pos[found.start(1)], text.pos[found.end(1) - 1] + 1
        if at >= 0 and end - at == len(found[1]):
            said = "a shell knows no typographic quotes: they are passed on as they stand"
            reading.slip(said, at, end, f'"{found[2]}"')


def _inner_quotes(text: Mapped, reading: Reading) -> None:
    """JSON in double quotes, whose own quotes end those of the shell and vanish."""
    words = {word.first() for one in reading.found for word in one.words}
    for found in islice(_BARE_JSON.finditer(text.text), MAX_NAMES):
        at, end = text.pos[found.start()], text.pos[found.end() - 1] + 1
        if at < 0 or end - at != len(found[0]) or words.isdisjoint(range(at, at + 3)):
            continue
        inner = found[0][1:-1]
        plain = "$" not in inner and "'" not in inner and "`" not in inner
        escaped = inner.replace('"', '\\"')
        said = "the quotes of the JSON end those around it: the server gets it without any"
        reading.slip(said, at, end, f"'{inner}'" if plain else f'"{escaped}"')


def _open_quote(text: Mapped, reading: Reading) -> None:
    """A quote that nothing closes, where the grammar finds an error too."""
    if "<<" in text.text or "$'" in text.text or len(text) > 50_000:
        return
    found = next((one for one in _QUOTED.finditer(text.text) if one[1]), None)
    if found is None or not parse(text.text).has_error:
        return
    at = text.pos[found.start()]
    word = re.compile(r"[^\s\\;|&]*").match(text.text, found.end())
    end = at + 1 + len(word[0]) if word is not None else None
    reading.slip("a quote is left open: the shell stops there", end or at, end, found[1])


def _slurm(text: Mapped, reading: Reading) -> None:
    """The GPUs that a batch script asks for, on all its nodes."""
    asked = {one[1]: one for one in _ASKED.finditer(text.text)}
    one = next((asked[one] for one in ("gpus-per-node", "gres", "gpus", "G") if one in asked), None)
    nodes = asked.get("nodes", asked.get("N"))
    each = one is not None and one[1] not in ("gpus", "G") and nodes is not None
    gpus = int(one[2]) * (int(nodes[2]) if each and nodes is not None else 1) if one else 0
    for found in reading.found:
        if found.around is None:
            found.around = Surroundings(kind="slurm")
        if one is not None and gpus and found.around.gpus is None:
            found.around.gpus = str(gpus)
            if str(gpus) == one[2]:
                found.around.asked, found.around.whole = [text.part(*one.span(2))], True
    if odd := _GRES.search(text.text):
        said = "--gres takes gpu:TYPE:NUMBER: a colon comes after gpu"
        at = text.pos[odd.start(1)]
        reading.slip(said, at, at + 1, ":")
    tasks = _TASKS.search(text.text)
    if tasks and int(tasks[1]) > 1 and "SLURM_PROCID" not in text.text and _EACH.search(text.text):
        said = f"srun starts the server {tasks[1]} times on each node: one task is meant"
        at = text.pos[tasks.start(1)]
        reading.slip(said, at, at + len(tasks[1]), "1")
    for line in islice(_NEARLY.finditer(text.text), MAX_NAMES):
        at = text.pos[line.start(1)]
        said = "sbatch reads #SBATCH with nothing between: this line is a comment to it"
        reading.slip(said, at, at + len(line[1]), "#SBATCH", stops=False)


def _whole_arrays(text: Mapped, reading: Reading) -> None:
    """`"$ARGS"` of an array passes its first item alone; `"${ARG[@]}"` of none, nothing."""
    from difflib import get_close_matches  # start-up: only for a script with arrays

    arrays = set(_ARRAY.findall(text.text)[:MAX_NAMES])
    for found in islice(_ITEMS.finditer(text.text), MAX_NAMES):
        name, at = found[1], text.pos[found.start(1)]
        near = get_close_matches(name, arrays, 1, 0.85) if name not in arrays else []
        if near and at >= 0 and not re.search(rf"\b{name}\b(?!\[[@*]\])", text.text):
            said = f"nothing sets {name}: {near[0]} is meant"
            reading.slip(said, at, at + len(name), near[0], stops=False)
    for found in islice(_PLAIN.finditer(text.text), 10_000):
        name = found[1] or found[2]
        at = text.pos[found.start()]
        if name in arrays and at >= 0:
            whole = f"${{{name}[@]}}"
            said = f"{found.group()} is the first item of an array alone: {whole} is meant"
            reading.slip(said, at, at + len(found.group()), whole, stops=False)


def _spaced_settings(text: Mapped, reading: Reading) -> None:
    """`export NAME = value`, and `NAME = value`: the shell takes `=` and the value for names, or
    NAME for a program, and NAME stays unset.
    """
    for found in _SPACED.finditer(text.text):
        if not found.group().lstrip().startswith("export") and "<<" in text.text:
            continue  # it may stand in a text of another language
        at, end = text.pos[found.start(2)], text.pos[found.end(2) - 1] + 1
        if end - at == found.end(2) - found.start(2):
            said = f"the shell does not set {found.group(1)}: spaces stand around its ="
            reading.slip(said, at, end, "=", stops=_is_word(found.group(1), reading))


def _is_word(name: str, reading: Reading) -> bool:
    """Whether a variable stands alone as an argument of a server, which then lacks it."""
    whole = f"{HOLE_OPEN}{name}{HOLE_CLOSE}"
    return any(word.text == whole for one in reading.found for word in one.words)


def _bare_options(text: Mapped, reading: Reading) -> None:
    """Arguments without a program: told by whose options they are."""
    if len(text) > 20_000 or ("--" not in text.text and " -" not in text.text):
        return
    words = split_words(text, dollars=False)
    engine = engine_by_options(words) if words and words[0].text.startswith("-") else None
    if engine is not None:
        reading.add(EngineCommand(engine, words, {}, words[0].first(), "command"))
