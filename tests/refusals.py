"""What the rules say that a release's own parser refuses of a command line."""

from collections.abc import Sequence

from advisor import engines
from advisor.domain.nouns import Case
from advisor.engines import Token
from advisor.lint.report import Given
from advisor.lint.validate import understand
from advisor.rules.checking import check

SYNTAX = [f"SD1{code:02}" for code in (1, 2, 4, 7, 8, 9, 10, 11, 14, 15, 27, 30, 31, 32)]


def refusals(engine: str, argv: Sequence[str], version: str) -> list[str]:
    """One sentence each; none where the release takes the arguments."""
    launch = engines.get(engine).read([Token(word) for word in argv], version_text=version)
    judged = understand(launch, Given())
    case = Case(facts=judged.facts, plan=judged.plan, estimate=None, launch=launch)
    return [
        *(f"{flag.value} is no option" for flag in launch.strays),
        *(one.message for one in check(case, select=SYNTAX)[0] if one.severity == "error"),
    ]
