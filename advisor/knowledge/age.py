"""How old the facts are: the newest dated source, the newest release of each engine."""

import os
from datetime import UTC, date, datetime
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.domain.sourced import sourced
from advisor.knowledge import store

TODAY = "ADVISOR_TODAY"  # stops the clock: tests and generated files do not change with the day
STALE_DAYS = sourced(60, "days", "own choice: two months", "chosen")


def today() -> str:
    """Today's date in UTC, YYYY-MM-DD. Raises AdvisorError for an ADVISOR_TODAY that is none."""
    text = os.environ.get(TODAY) or datetime.now(UTC).date().isoformat()
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise AdvisorError(f"{TODAY} is no date: write it as YYYY-MM-DD, or unset it") from None


def facts_age() -> dict[str, Any]:
    """`date`, YYYY-MM-DD, and `releases`, the newest by engine."""
    return dict(store.index()["facts"])


def facts_line(old: str = "", engine: str = "") -> str:
    """The same in words, of one engine or of all; `old` stands behind the day."""
    age = facts_age()
    releases = ", ".join(
        f"{name} {release}" for name, release in age["releases"].items() if engine in ("", name)
    )
    return f"Facts of {age['date']}{old}; newest releases known: {releases}"


def stale_line(engine: str = "") -> str:
    """The same with the number of days, empty up to STALE_DAYS."""
    days = (date.fromisoformat(today()) - date.fromisoformat(facts_age()["date"])).days
    return facts_line(f" ({days} days old)", engine) if days > STALE_DAYS else ""
