"""Shell scripts and single command lines."""

import re

from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import is_only_near, nearest_word
from advisor.readers.containers import engine_by_options
from advisor.readers.dispatch import reader
from advisor.readers.engine_command import EngineCommand, Surroundings, gpu_kind
from advisor.readers.images import image_comment
from advisor.readers.reading import Reading
from advisor.readers.syntax.mapped import Mapped, literal
from advisor.readers.syntax.shell import parse
from advisor.readers.syntax.words import split_words

_ASKED = lazy_re(
    r"^#SBATCH[ \t]+--?(gpus-per-node|gres|gpus|G|nodes|N)(?:=|[ \t]+)(?:gpu:)?"
    r"(?:([\w.-]*[A-Za-z][\w.-]*):)?(\d{1,6})\b",
    re.M,
)
_COMMENT = lazy_re(r"^[ \t]*#[^\n]*", re.M)
_SET = lazy_re(r"(?:^|[\s;(])([A-Z][A-Z0-9_]{3,})(?:\[[^\]\n]*\])?\+?=", re.M)
_USED = lazy_re(r"\$\{?([A-Z][A-Z0-9_]{3,})")


def read_script(reading: Reading) -> None:
    """A whole file."""
    read_shell(literal(reading.source.text), reading)


def read_shell(text: Mapped, reading: Reading, depth: int = 0) -> None:
    """A script, or a command; `depth` above 0 where it stands inside another text."""
    reading.form = "shell" if "\n" in text.text.strip() else "command"
    around = None
    if (said := image_comment(text.text)) is not None:
        around = Surroundings(image=None if depth else literal(*said), kind="comment")
    reading.shell(text, around=around, depth=depth)
    if "#SBATCH" in text.text:
        _slurm(text, reading)
    if reading.found and not depth:
        _check_names(text, reading)
    if not reading.found and not depth:
        _bare_options(text, reading)
        if not reading.found and parse(text.text).type == "ERROR":
            reader("text")(reading)  # the grammar does not read it


def _check_names(text: Mapped, reading: Reading) -> None:
    """Variables that only another spelling sets."""
    code = _COMMENT.sub(lambda found: " " * len(found[0]), text.text)
    known, used = ({one[1] for one in every.finditer(code)} for every in (_SET, _USED))
    for one in _USED.finditer(code) if known - used else ():
        meant = None if one[1] in known else nearest_word(one[1], known - used, "key")
        if meant and is_only_near(one[1], meant, known - used):
            said = f"${one[1]} is set nowhere here; '{meant}' is, and is not used"
            reading.slip(said, *one.span(1), meant, stops=False)


def _slurm(text: Mapped, reading: Reading) -> None:
    """The GPUs that a batch script asks for, on all its nodes."""
    asked = {one[1]: one for one in _ASKED.finditer(text.text)}
    one = next((asked[one] for one in ("gpus-per-node", "gres", "gpus", "G") if one in asked), None)
    nodes = asked.get("nodes", asked.get("N"))
    each = one is not None and one[1] not in ("gpus", "G") and nodes is not None
    gpus = int(one[3]) * (int(nodes[3]) if each and nodes is not None else 1) if one else 0
    for found in reading.found:
        found.around = found.around or Surroundings(kind="slurm")
        found.around.complete &= nodes is not None  # else it says what a node has
        if one is not None and gpus and found.around.gpus is None:
            found.around.gpus, found.around.gpu_kind = str(gpus), gpu_kind(one[2] or "")


def _bare_options(text: Mapped, reading: Reading) -> None:
    """Arguments without a program: told by whose options they are."""
    if len(text) > 20_000 or ("--" not in text.text and " -" not in text.text):
        return
    words = split_words(text, dollars=False)
    engine = engine_by_options(words) if words and words[0].text.startswith("-") else None
    if engine is not None:
        reading.add(EngineCommand(engine, words, {}, words[0].first(), "command"))
