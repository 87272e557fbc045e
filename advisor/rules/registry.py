"""What a rule is, and how rules are found.

A rule is one function in one file `sdNNN_slug.py`; the code and the slug come from the file name.
`_index.py` (generated) lists what each rule asks for, so that `check` imports only the rules that
can speak on a case. A rule file that is not yet in the index is imported and found all the same.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import NamedTuple

from advisor.domain.nouns import AdvisorError, Case, Effect, Fix, Flag, Severity, UnknownFact
from advisor.domain.vocabulary import RuleRow
from advisor.rules import _index

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
FAMILIES = ("sd1", "sd2", "sd3", "sd4", "sd5")  # one folder each
_SECTIONS = ("Why", "Bad", "Good")


class Hit(NamedTuple):
    """What a rule says of one place.

    `flag` is the Flag (or the name) that it is about; `line` only where there is no Flag.
    `versions` names the affected
    releases in words; it is added to the message where the file pins none. Empty `sources` means
    the rule's own.
    """

    message: str
    flag: Flag | str | None = None
    line: int = 0
    fix: Fix | None = None
    severity: Severity | None = None
    sources: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    versions: str = ""
    effect: Effect | None = None  # on the decision: see policy.py
    strength: float = 1.0  # of a loss or caution: below 1 towards the border of what was documented
    k_max: int | None = None
    k_best: int | None = None
    everywhere: bool = False  # every catalogued release refuses it: an error without a pinned one
    slip: bool = False  # and so does any other build: a misspelling of what all of them take
    sole: bool = False  # the server stops as it is, and the fix writes all that can be meant


class Lacking(NamedTuple):
    """Yielded by a rule that found its subject but lacks an input to judge it: reported as skipped,
    never as passed.
    """

    needs: tuple[str, ...]


Check = Callable[[Case], Iterable[Hit | Lacking]]


class Text(NamedTuple):
    """The parts of a rule's docstring."""

    summary: str
    why: str
    bad: Example
    good: Example


class Example(NamedTuple):
    """A text that must (or must not) fire, and what it is judged under: `Bad (version=0.19.1,
    hw=gb10): ...`.

    A text that starts on the line of `Bad:` is one command line, its lines joined; one that starts
    below is literal.
    """

    text: str
    given: dict[str, str]


class Rule(NamedTuple):
    """A declared rule: what it asks for, where its claim comes from, and the function that
    judges.
    """

    code: str
    slug: str
    severity: Severity
    sources: tuple[str, ...]
    engines: tuple[str, ...]
    needs: tuple[str, ...]
    speculative: bool
    versioned: bool
    check: Check
    doc: str

    @property
    def row(self) -> RuleRow:
        """The rule's entry in the index."""
        return RuleRow(
            self.code, self.slug, self.severity, self.engines, self.needs, self.speculative
        )

    @property
    def text(self) -> Text:
        """The parts of the rule's docstring."""
        return parse_doc(self.doc)


FOUND: dict[str, Rule] = {}


def rule(
    *,
    severity: Severity,
    sources: tuple[str, ...],
    engines: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    speculative: bool = False,
    versioned: bool = False,
) -> Callable[[Check], Rule]:
    """Declare the function below as the rule of this file.

    engines: the only engines it speaks on (empty: all). needs: Facts fields, "version" (a release
    is pinned), "file" (only for configurations that were read) or "estimate"; a lacking one makes
    it skipped. speculative: only where the plan speculates. versioned: at most a warning where the
    file pins no catalogued release, unless the hit holds for all of them (`everywhere`), and the
    message says which versions are meant. sources: where its claim comes from; a rule without one
    is refused.
    """
    if not sources:
        raise AdvisorError("a rule without a source is refused: name where its claim comes from")

    def declare(function: Check) -> Rule:
        match = re.fullmatch(r".*\.(sd\d{3})_(\w+)", function.__module__)
        if match is None:
            raise AdvisorError(
                f"a rule lives in a file named sdNNN_slug.py, not in {function.__module__}"
            )
        code, slug = match[1].upper(), match[2].replace("_", "-")
        if code in FOUND and FOUND[code].slug != slug:
            raise AdvisorError(
                f"{code} is used by '{FOUND[code].slug}' and '{slug}': codes are never shared"
            )
        found = Rule(
            code,
            slug,
            severity,
            sources,
            engines,
            needs,
            speculative,
            versioned,
            function,
            function.__doc__ or "",
        )
        FOUND[code] = found
        return found

    return declare


# ---------------------------------------------------------------- discovery


def rule_files() -> tuple[str, ...]:
    """Module names of all rule files, sorted: `sd101_unknown_flag`, ..."""
    here = os.path.dirname(__file__)
    names = (name for family in FAMILIES for name in os.listdir(os.path.join(here, family)))
    return tuple(
        sorted(
            name[:-3]
            for name in names
            if name.startswith("sd") and name[2:5].isdigit() and name.endswith(".py")
        )
    )


@cache
def index() -> tuple[RuleRow, ...]:
    """One row per rule, by code; from the generated index, and from the files themselves where it
    lacks them.
    """
    known = {module_name(row): row for row in _index.ROWS}
    rows = [known[name] if name in known else load(name).row for name in rule_files()]
    return tuple(sorted(rows))


@cache
def decisive_rows() -> tuple[RuleRow, ...]:
    """The rules that can change what is decided; one that is not yet in the generated index counts
    among them.
    """
    return tuple(row for row in index() if row.code not in _index.INFORMING)


def load(name: str) -> Rule:
    """The rule of one file."""
    code = name[:5].upper()
    if code not in FOUND:
        import_module(f"advisor.rules.{name[:3]}.{name}")
    if code not in FOUND:
        raise AdvisorError(f"advisor/rules/{name[:3]}/{name}.py declares no rule")
    return FOUND[code]


def module_name(row: RuleRow) -> str:
    """Return the name of the module that defines the rule."""
    return f"{row.code.lower()}_{row.slug.replace('-', '_')}"


def load_row(row: RuleRow) -> Rule:
    """Import the rule of an index entry and return it."""
    return FOUND.get(row.code) or load(module_name(row))


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code. Imports them all: for listings and tests, not for the hot path."""
    return tuple(load_row(row) for row in index())


def get_rule(code: str) -> Rule:
    """A rule by code or slug. Raises UnknownFact naming the nearest."""
    wanted = code.strip().lower().replace("_", "-")
    for row in index():
        if wanted in (row.code.lower(), row.slug):
            return load_row(row)
    from difflib import get_close_matches

    names = [row.code.lower() for row in index()] + [row.slug for row in index()]
    near = get_close_matches(wanted, names, 3, 0.5)
    raise UnknownFact("rule", code, tuple(n.upper() if n.startswith("sd") else n for n in near))


# ---------------------------------------------------------------- docstrings


def parse_doc(doc: str) -> Text:
    """Split a rule's docstring into summary, Why, Bad and Good. Raises AdvisorError naming what is
    missing.
    """
    import inspect

    body = inspect.cleandoc(doc)
    parts: dict[str, tuple[str, str]] = {}
    heads = list(re.finditer(r"^(Why|Bad|Good)(?: \(([^)\n]*)\))?:[ \n]", body, re.M))
    for i, head in enumerate(heads):
        end = heads[i + 1].start() if i + 1 < len(heads) else len(body)
        inner = body[head.end() : end]
        literal = body[head.end() - 1] == "\n"
        parts[head[1]] = (
            head[2] or "",
            inspect.cleandoc("\n" + inner).strip() if literal else " ".join(inner.split()),
        )
    summary = " ".join(body[: heads[0].start()].split()) if heads else ""
    missing = [name for name in _SECTIONS if not parts.get(name, ("", ""))[1]]
    if not summary or missing:
        raise AdvisorError(
            f"rule docstring lacks {', '.join(missing) or 'a summary'}: {body[:60]!r}"
        )
    return Text(
        summary, " ".join(parts["Why"][1].split()), _example(parts["Bad"]), _example(parts["Good"])
    )


def _example(part: tuple[str, str]) -> Example:
    given = dict(item.split("=", 1) for item in part[0].replace(" ", "").split(",") if item)
    return Example(part[1], given)
