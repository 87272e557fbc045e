"""What is varied: `concurrency=1..128` or Python values -> checked axes; ranges are geometric."""

from collections.abc import Mapping, Sequence
from math import exp, isfinite, log, prod
from typing import Any

from advisor.advice.explore.values import Value
from advisor.domain.nouns import LIMITS, AdvisorError
from advisor.domain.printable import printable
from advisor.domain.records import NamedTuple
from advisor.domain.spelling import nearest_word

POINTS = 20
MOST_LOADS = 2000  # of a sweep, all axes together
MOST_K = 16
WHOLE = ("k", "concurrency", "ctx_tokens", "output_tokens", "gpus")
REAL = ("prefix_share", "output_spread", "temperature")
ALIASES = {"ctx": "ctx_tokens", "output": "output_tokens", "users": "concurrency"}
K_LIMITS = (0, 31)


class Axes(NamedTuple):
    """The varied fields with their values, and the k of the curves (None: as proposed)."""

    fields: tuple[tuple[str, tuple[Value, ...]], ...]
    ks: tuple[int, ...] | None

    @property
    def numeric(self) -> str | None:
        """The field along which curves run: the first numeric one with several values."""
        return next((name for name, values in self.fields if len(values) > 1), None)


def axes(vary: Mapping[str, Sequence[Value]]) -> Axes:
    """Check what is varied. Raises AdvisorError for a field, value or count that cannot be."""
    fields: dict[str, tuple[Any, ...]] = {}
    for given, values in vary.items():
        name = _field(given)
        if isinstance(values, str) or not values:
            raise AdvisorError(f"'{printable(given, 40)}' needs a list of values to vary")
        if len(values) > MOST_LOADS:
            raise AdvisorError(f"{len(values):,} values of '{given}' are more than {MOST_LOADS:,}")
        fields[name] = tuple(sorted({_check_value(name, x) for x in values}))
    ks = fields.pop("k", None)
    if ks is not None and len(ks) > MOST_K:
        raise AdvisorError(f"{len(ks)} values of k are more than the {MOST_K} of one sweep")
    total = prod(len(values) for values in fields.values())
    if total > MOST_LOADS:
        raise AdvisorError(f"{total:,} loads are more than the {MOST_LOADS:,} of one sweep")
    return Axes(tuple(fields.items()), ks)


def _field(given: str) -> str:
    """The field of a request (or k) by its name. Raises AdvisorError for what cannot be varied."""
    name = ALIASES.get(given, given)
    if name not in (*WHOLE, *REAL):
        known = (*WHOLE[:2], "ctx", *WHOLE[3:], *REAL)
        nearest = nearest_word(given, known, "field")
        hint = f" Did you mean '{nearest}'?" if nearest else ""
        what = f"what can: {', '.join(known)}.{hint}"
        raise AdvisorError(f"'{printable(given, 40)}' cannot be varied; {what}")
    return name


def parse_axis(text: str) -> tuple[str, tuple[Value, ...]]:
    """`name=1..128` or `name=1,4,16` -> the name and its values. Raises AdvisorError for others."""
    name, _, listed = text.partition("=")
    name = name.strip()
    if not name or not listed.strip():
        raise AdvisorError(
            f"'{printable(text, 40)}': write what varies as NAME=1..128 or NAME=1,4,16"
        )
    field, values = _field(name), []
    for part in listed.split(","):
        low, dots, high = part.partition("..")
        values += _range(name, field, low, high) if dots else [_number(name, part)]
    return name, tuple(values)


def _range(name: str, field: str, low: str, high: str) -> list[Value]:
    # checked before a series is made of them
    first, last = (_check_value(field, _number(name, end)) for end in (low, high))
    if last < first:
        raise AdvisorError(f"{name}={low}..{high} runs backwards: write the smaller number first")
    if field == "k":
        return [*range(int(first), int(last) + 1)]
    return series(first, last, whole=field in WHOLE)


def series(first: float, last: float, points: int = POINTS, whole: bool = True) -> list[Value]:
    """At most `points` values with both ends: nearly geometric if whole, else even."""
    if not whole:
        step = (last - first) / (points - 1)
        return [first + step * i for i in range(points)] if last > first else [first]
    low, high = int(first), int(last)
    if high - low < points:
        return [*range(low, high + 1)]
    values: list[Value] = []
    last = low
    for left in range(points - 1, 0, -1):  # from each value on, the rest is geometric again
        values.append(last)
        last = max(last + 1, round(last * exp(log(high / last) / left)))
    return [*values, high]


def _check_value(name: str, value: Value) -> Value:
    low, high = LIMITS.get(name, K_LIMITS)
    whole = name in WHOLE
    fine = not isinstance(value, (bool, str)) and isfinite(value) and low <= value <= high
    if not fine or (whole and not isinstance(value, int)):
        kind = "a whole number" if whole else "a number"
        text = printable(str(value), 40)
        raise AdvisorError(f"{name}={text} is not {kind} from {low:,} to {high:,}")
    return value


def _number(name: str, text: str) -> int | float:
    """A number; `8k` is 8192, as in the options of a question."""
    plain = text.strip()
    factor = {"k": 1024, "m": 1024**2}.get(plain[-1:].lower())
    try:
        if factor is not None and plain[:-1].isascii() and plain[:-1].isdigit():
            return int(plain[:-1]) * factor
        return int(plain) if plain.isascii() and plain.isdigit() else float(plain)
    except ValueError:
        raise AdvisorError(
            f"{printable(name, 40)}: '{printable(plain, 40)}' is not a number"
        ) from None
