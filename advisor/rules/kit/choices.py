"""A word that is on no list: what is said of it, and what was meant."""

from __future__ import annotations

import json
from collections.abc import Sequence

from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules.kit.fixes import json_fix
from advisor.rules.kit.values import nearest, slip
from advisor.rules.registry import Hit

_LISTED = 8


def not_a_choice(
    case: Case,
    flag: Flag,
    key: str,
    given: str,
    choices: Sequence[str],
    *,
    where: str = "",
    versions: str = "all catalogued releases",
    everywhere: bool = True,
) -> Hit:
    """The hit of a key of a JSON option whose value is none of the choices."""
    near = nearest(given, choices)
    listed = ", ".join(choices[:_LISTED]) + (", ..." if len(choices) > _LISTED else "")
    what = f"Use '{near}'." if near else f"Use one of {listed}"
    return Hit(
        f"'{key}'{where} does not take '{given}'; "
        + (f"did you mean {near}?" if near else f"it takes {listed}"),
        flag=flag,
        fix=json_fix(case, flag, key, json.dumps(near), what) if near else Fix(text=what),
        versions=versions,
        everywhere=everywhere,
        slip=slip(given, near),
    )
