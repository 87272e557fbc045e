"""What a rule is, and how rules are found.

A rule is one function under `@rule(...)` in sd1 to sd5; its name is the slug. `_index.py`
(generated) lists what each rule asks for, so that `check` imports only the rules that can speak on
a case.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Literal

from advisor.domain.nouns import AdvisorError, Case, Effect, Fix, Flag, Severity, UnknownFact
from advisor.domain.patterns import lazy_re
from advisor.domain.records import NamedTuple
from advisor.domain.spelling import nearest
from advisor.domain.vocabulary import RuleRow
from advisor.knowledge.rule_data import table
from advisor.rules import _index

GGUF_ENGINES = ("llama-server", "ik_llama.cpp")
FAMILIES = ("sd1", "sd2", "sd3", "sd4", "sd5")  # one folder each
_HEAD = lazy_re(r"^(Why|Bad|Good|Sources)(?: \(([^)\n]*)\))?:[ \n]", re.M)
_CHANGE = lazy_re(
    r"the same|without (?P<gone>.+)|with (?P<more>.+) added|with (?P<swaps>.+ for .+)"
)
Names = str | tuple[str, ...]  # a tuple, or names with blanks between them
GROUPS = {"gguf": GGUF_ENGINES, "catalogued": ("vllm", "sglang", "llama-server")}


class Hit(NamedTuple):
    """What a rule says of one place.

    `flag` is the Flag (or the name) that it is about; `line` only where there is no Flag.
    `versions` names the affected releases in words; it is added to the message where the file pins
    none. Empty `sources`, `conflicts` and `versions` mean those of the rule and its defect. A fix
    that is a text has no edits.
    """

    message: str
    flag: Flag | str | None = None
    line: int = 0
    fix: Fix | str | None = None
    severity: Severity | None = None
    sources: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    row: Mapping[str, Any] | None = None  # of rule data, with the sources and conflicts of the hit
    versions: str = ""
    effect: Effect | None = None  # on the decision: see policy.py
    strength: float = 1.0  # of a loss or caution: below 1 towards the border of what was documented
    k_max: int | None = None
    k_best: int | None = None
    everywhere: bool = False  # every catalogued release refuses it: an error without a pinned one
    slip: bool = False  # and so does any other build (implies everywhere): a misspelling
    sole: bool = False  # the server stops as it is, and the fix writes all that can be meant


class Lacking(NamedTuple):
    """Yielded by a rule that lacks an input: reported as skipped, never as passed."""

    needs: tuple[str, ...]


Hits = Iterable[Hit | Lacking]
Check = Callable[[Case], Hits]


class Example(NamedTuple):
    """A text that must (or must not) fire, and what it is judged under: `Bad (version=0.19.1,
    hw=gb10): ...`.

    A text that starts on the line of `Bad:` is one command line, its lines joined; one that starts
    below is literal. A Good text may say what differs from the bad one: `the same` (under other
    settings), `without WORDS`, `with WORDS added` or `with NEW for OLD; NEW for OLD`.
    """

    text: str
    given: dict[str, str]


class Text(NamedTuple):
    """The parts of a rule's docstring."""

    summary: str
    why: str
    bad: Example
    good: Example


class Rule(NamedTuple):
    """A declared rule: what it asks for, its sources, and the function that judges."""

    code: str
    slug: str
    severity: Severity
    engines: tuple[str, ...]
    needs: tuple[str, ...]
    speculative: bool
    sources: tuple[str, ...]
    versioned: bool
    defect: str
    unsure: Severity | Literal["silent"] | None
    at: tuple[str, ...]
    row: RuleRow
    check: Check
    doc: str

    @property
    def text(self) -> Text:
        """The parts of the rule's docstring."""
        return parse_doc(self.doc)


DECLARED: dict[str, Rule] = {}
ASKED: dict[Check, dict[str, Any]] = {}  # fields of a rule's row, by its function


def when(
    *,
    methods: Names = (),
    options: Names = (),
    parts: Names = (),
    needs: Names = (),
    speculative: bool = False,
) -> Callable[[Check], Check]:
    """Declare what the rule below asks of a case: without it, it is not called.

    methods, options, parts: the method is one of these, one of these options is given, these parts
    of the case are true ("hybrid": the model is one). needs: Facts fields, "version" (a release is
    pinned), "file" (only for configurations that were read) or "estimate"; a lacking one makes it
    skipped. speculative: only where the plan speculates.
    """

    def declare(function: Check) -> Check:
        ways = names(methods)
        speculates = speculative or bool(ways and "none" not in ways)
        asked = {"methods": ways, "options": names(options), "parts": names(parts)}
        ASKED[function] = {"needs": names(needs), "speculative": speculates, **asked}
        return function

    return declare


def rule(
    code: str,
    severity: Severity,
    engines: Names = (),
    *,
    data: Names = (),
    defect: str = "",
    unsure: Severity | Literal["silent"] | None = None,
    at: Names = (),
    versioned: bool = False,
    decides: bool | None = None,
) -> Callable[[Check], Rule]:
    """Declare the function below as a rule.

    engines: the only engines, or groups of them, it speaks on (empty: all). versioned: at most a
    warning where the file pins no catalogued release, unless the hit holds for all of them
    (`everywhere`), and the message says which versions are meant. decides: whether it can give an
    error or an effect on the decision (by default where its severity is an error). defect: a row of
    defects.json, from which sources, conflicts and affected versions come. unsure: the rule is
    called only where the defect can be there; where only the release decides that, it speaks at
    this severity, or keeps silent. at: the place of a hit that names none: the first of these
    options, "spec" (what turns speculation on) or "k" (the draft tokens). The sources of the claim
    stand in the docstring (`Sources: a; b`) or in the rows that `data` names, "FILE.ROW" in
    knowledge/rules; a rule without one is refused.
    """

    def declare(function: Check) -> Rule:
        module = function.__module__.removeprefix("advisor.rules.")
        slug, doc = function.__name__.replace("_", "-"), function.__doc__ or ""
        if sys.version_info >= (3, 13):  # which takes the margin of docstrings away
            doc = re.sub(r"\n(?=[^\n])", "\n    ", doc)
        if not re.fullmatch(r"SD\d{3}", code):
            raise AdvisorError(f"the rule {slug} in {module} names no code of the form SDNNN")
        if code in DECLARED and DECLARED[code].slug != slug:
            raise AdvisorError(
                f"{code} is used by '{DECLARED[code].slug}' and '{slug}': codes are never shared"
            )
        rows = names(data) or ((f"defects.{defect}",) if defect else ())
        said = " ".join(doc.partition("\n    Sources: ")[2].split())
        sources = (*(said.split("; ") if said else ()), *data_sources(*rows))
        if not sources:
            raise AdvisorError(f"{code} has no source: name where its claim comes from")
        asked = ASKED.get(function) or {"needs": (), "speculative": False}
        decisive = severity == "error" if decides is None else decides
        speaks_on = tuple(one for word in names(engines) for one in GROUPS.get(word, (word,)))
        row = RuleRow(code, slug, severity, speaks_on, module=module, decides=decisive, **asked)
        pinned, place = versioned or bool(defect), names(at)
        DECLARED[code] = Rule(*row[:6], sources, pinned, defect, unsure, place, row, function, doc)
        return DECLARED[code]

    return declare


def data_sources(*paths: str) -> tuple[str, ...]:
    """The sources of rows of rule data, "FILE.ROW", or of each row of a list: each once, in order.
    Raises KeyError for a row that is not there.
    """
    found: list[str] = []
    for path in paths:
        name, _, key = path.partition(".")
        row = table(name)[key]
        for part in row if isinstance(row, list) else [row] if "sources" in row else row.values():
            found += part["sources"]
    return tuple(dict.fromkeys(found))


def names(words: Names) -> tuple[str, ...]:
    """The names of a declaration."""
    return tuple(words.split()) if isinstance(words, str) else words


class Defect(NamedTuple):
    """A documented defect of some releases: since and until are inclusive. `until` is the last one
    with a report, None where every later one is affected; a fix is named in the row's `fixed_in`,
    and `open` says that none is known though the report was read again later.
    """

    id: str
    since: str | None
    until: str | None
    note: str
    open: bool
    sources: tuple[str, ...]
    conflicts: tuple[str, ...]

    @property
    def versions(self) -> str:
        """The affected releases in words, "" for all."""
        if self.since and self.until:
            return self.since if self.since == self.until else f"{self.since} to {self.until}"
        if self.since:
            return f"{self.since} and later (no fixed release known)"
        return f"releases up to {self.until}" if self.until else ""


@cache
def get_defect(name: str) -> Defect:
    """Return a known defect of an engine. Raises KeyError for a name that is not in the data."""
    row = table("defects")[name]
    return Defect(
        name, row.get("since"), row.get("until"), row.get("note", ""), "open" in row,
        tuple(row["sources"]), tuple(row.get("conflicts", ())),
    )  # fmt: skip


def rule_modules() -> tuple[str, ...]:
    """The modules of rules below advisor.rules, sorted: `sd1.sd101_unknown_flag`, ..."""
    here = os.path.dirname(__file__)
    return tuple(
        f"{family}.{name[:-3]}"
        for family in FAMILIES
        for name in sorted(os.listdir(os.path.join(here, family)))
        if name.endswith(".py") and name != "__init__.py"
    )


@cache
def index() -> tuple[RuleRow, ...]:
    """One row per rule, by code, from the generated index."""
    return _index.ROWS


@cache
def decisive_rows() -> tuple[RuleRow, ...]:
    """The rules that can change what is decided."""
    return tuple(row for row in index() if row.decides)


def load_row(row: RuleRow) -> Rule:
    """Import the rule of an index entry and return it."""
    if row.code not in DECLARED:
        import_module(f"advisor.rules.{row.module}")
    return DECLARED[row.code]


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by code. Imports them all: for listings and tests, not for the hot path."""
    return tuple(load_row(row) for row in index())


def is_removed(code: str) -> bool:
    """Whether an earlier release had this rule: a family numbers its codes on, none comes twice."""
    wanted, codes = code.strip().upper(), [row.code for row in index()]
    family = [each for each in codes if each[:3] == wanted[:3] and len(each) == len(wanted)]
    return wanted[2:].isdigit() and wanted not in codes and wanted < max(family, default="")


def get_rule(code: str) -> Rule:
    """A rule by code or slug. Raises UnknownFact naming the nearest."""
    wanted = code.strip().lower().replace("_", "-")
    for row in index():
        if wanted in (row.code.lower(), row.slug):
            return load_row(row)
    if is_removed(code):
        raise UnknownFact("rule", code, hint="(removed: CHANGELOG.md says why)")
    names = [row.code.lower() for row in index()] + [row.slug for row in index()]
    near = nearest(wanted, names, "name", 3)
    raise UnknownFact("rule", code, tuple(n.upper() if n.startswith("sd") else n for n in near))


def parse_doc(doc: str) -> Text:
    """Split a rule's docstring. Raises AdvisorError naming what is missing."""
    import inspect

    body = inspect.cleandoc(doc)
    heads = list(_HEAD.finditer(body))
    ends = [*(head.start() for head in heads[1:]), len(body)]
    parts: dict[str, Example] = {}
    for head, end in zip(heads, ends, strict=True):
        inner, literal = body[head.end() : end], body[head.end() - 1] == "\n"
        text = inspect.cleandoc("\n" + inner).strip() if literal else " ".join(inner.split())
        settings = (head[2] or "").replace(" ", "").split(",")
        parts[head[1]] = Example(text, dict(one.split("=", 1) for one in settings if one))
    summary = " ".join(body[: heads[0].start()].split()) if heads else ""
    missing = [name for name in ("Why", "Bad", "Good") if name not in parts or not parts[name].text]
    if not summary or missing:
        lacks = ", ".join(missing) or "a summary"
        raise AdvisorError(f"rule docstring lacks {lacks}: {body[:60]!r}")
    bad, good = parts["Bad"], parts["Good"]
    good = good._replace(text=apply_change(bad.text, good.text))
    return Text(summary, " ".join(parts["Why"].text.split()), bad, good)


def apply_change(bad: str, good: str) -> str:
    """The good text in full, where it says only what differs from the bad one. Raises AdvisorError
    for words that the bad one does not hold once.
    """
    change = _CHANGE.fullmatch(good)
    if change is None or good == "the same":
        return bad if change else good
    if more := change["more"]:
        return f"{bad} {more}"
    pairs = [pair.split(" for ") for pair in (change["swaps"] or "").split("; ") if pair]
    for new, old in pairs or [("", f" {change['gone']}")]:
        if bad.count(old) != 1:
            raise AdvisorError(f"rule docstring: {old!r} does not stand once in {bad!r}")
        bad = bad.replace(old, new)
    return bad
