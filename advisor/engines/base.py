"""What readers hand over (`Token`) and catalogues hand back (`Option`, `Match`). Of a `Flag`:
`name` is the first long spelling of the newest release; a switch is None (on) or "false" (off); a
model without a flag is `--model` with `raw` ""; a JSON key is a flag of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from advisor.domain.records import NamedTuple

if TYPE_CHECKING:
    from advisor.domain.nouns import Span


class Token(NamedTuple):
    """One argument, or a key or value of a file: text after quoting, with its place."""

    text: str
    line: int = 0
    column: int = 0
    span: Span | None = None  # None: built from variables, not editable
    unresolved: bool = False  # the text still contains a variable that the file does not set
    places: tuple[int, ...] = ()  # of a mapping as JSON: where each character stands, or -1


class Option(NamedTuple):
    """One option of one engine at one version (or at its last version, where none is asked)."""

    name: str  # canonical: the first long spelling
    flags: tuple[str, ...]  # all spellings at this version
    takes_value: bool | None  # True: needs one, False: a switch, None: optional
    many: bool  # takes several values (nargs + or *)
    type: str
    default: object
    choices: tuple[str, ...] | None
    deprecated: bool
    removed: bool  # the parser knows it only to refuse it
    since: str  # first catalogued version that has it
    until: str | None  # last catalogued version that has it; None = the newest has it
    env: str | None = None  # environment variable that sets it (llama-server)
    values: tuple[str, ...] | None = None  # names checked at the start; a plug-in may add others


class Match(NamedTuple):
    """How a spelling was understood."""

    option: Option
    spelling: str  # the full spelling that the parser resolves it to
    negated: bool = False  # the off form of a switch
    dotted: str = ""  # "method" of "--speculative-config.method"
    abbreviated: bool = False


class VersionMatch(NamedTuple):
    """What a version text means: a catalogued version or None; `pinned` if one release."""

    version: str | None
    pinned: bool
    note: str = ""
    too_old: bool = False  # below the first catalogued release
