"""The data of the rules: knowledge/rules/<name>.json, read once."""

import json
from functools import cache
from typing import Any

from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import read_data


@cache
def table(name: str) -> Any:
    """knowledge/rules/<name>.json. Raises AdvisorError if it is missing."""
    try:
        return json.loads(read_data(f"knowledge/rules/{name}.json"))
    except OSError:
        raise AdvisorError(
            f"knowledge/rules/{name}.json is missing: reinstall the package"
        ) from None


def number(name: str, key: str) -> float:
    """The value of one row of knowledge/rules/<name>.json, in the unit that its key names."""
    return float(table(name)[key]["value"])
