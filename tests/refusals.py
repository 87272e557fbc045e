"""What the rules say that a release's own parser refuses of a command line."""

from __future__ import annotations

from collections.abc import Sequence

from advisor import engines
from advisor.domain.nouns import Case
from advisor.engines import Token
from advisor.lint.report import Given
from advisor.lint.validate import understand
from advisor.rules.checking import check

SYNTAX = "SD101 SD102 SD104 SD107 SD108 SD109 SD110 SD111 SD114 SD115 SD119 SD127 SD130 SD131 SD132"


def refusals(engine: str, argv: Sequence[str], version: str) -> list[str]:
    """One sentence each; none where the release takes the arguments."""
    launch = engines.get(engine).read([Token(word) for word in argv], version_text=version)
    judged = understand(launch, Given())
    case = Case(facts=judged.facts, plan=judged.plan, estimate=None, launch=launch)
    findings, _ = check(case, select=SYNTAX.split())
    return [
        *(f"{flag.value} is no option" for flag in launch.strays),
        *(finding.message for finding in findings if finding.severity == "error"),
    ]
