"""The compiled records of one engine's options, and the indexes over their spellings."""

import json
from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal

from advisor.domain.paths import read_data
from advisor.engines.base import Match, Option

Style = Literal["argparse", "llama"]
ANY = "any"


class Records:
    """Options, environment and JSON fields as compiled, oldest release first."""

    def __init__(self, engine: str, style: Style, underscores: bool) -> None:
        data: dict[str, Any] = json.loads(read_data(f"knowledge/engines/{engine}.json"))
        self.engine = engine
        self.style = style
        self.underscores = underscores  # the parser reads --max_model_len as --max-model-len
        self.versions: tuple[str, ...] = tuple(data["versions"])
        self.notes: Mapping[str, Any] = data["notes"]
        self._records: dict[str, dict[str, Any]] = data["options"]
        self._configs: dict[str, dict[str, dict[str, Any]]] = data["json_configs"]
        self._order = {version: index for index, version in enumerate(self.versions)}
        self._spellings: dict[str, dict[str, tuple[str, bool]]] = {}
        self._sorted: dict[str, list[str]] = {}
        self._options: dict[tuple[str, str], Option | None] = {}
        self._matches: dict[tuple[str, str | None], Match | None] = {}

    @cached_property
    def _cold(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(read_data(f"knowledge/engines/{self.engine}_cold.json"))
        return data

    def _config(self, name: str) -> dict[str, dict[str, Any]]:
        if name in self._configs:
            return self._configs[name]
        matches: dict[str, dict[str, Any]] = self._cold["json_configs"].get(name, {})
        return matches

    def json_field(
        self, config: str, name: str, version: str | None = None
    ) -> dict[str, Any] | None:
        """A field of a JSON option: {type, default, choices, limits}, or None."""
        record = self._config(config).get(name)
        return self._state(record, version) if record is not None else None

    def json_fields(self, config: str, version: str | None = None) -> tuple[str, ...]:
        """Return the keys of a JSON option that a release knows."""
        rows = self._config(config).items()
        return tuple(name for name, row in rows if self._state(row, version) is not None)

    def env(self, name: str, version: str | None = None) -> dict[str, Any] | None:
        """A variable that the engine reads: {type, default, span}, or None."""
        record = self._cold["env"].get(name)
        return self._state(record, version) if record is not None else None

    def env_names(self) -> tuple[str, ...]:
        """The environment variables that any catalogued release reads."""
        return tuple(self._cold["env"])

    @cached_property
    def env_options(self) -> dict[str, tuple[str, bool]]:
        """(canonical option, negated) that environment variables set, by name (llama-server)."""
        table: dict[str, tuple[str, bool]] = {}
        for name, record in self._records.items():
            has_off, env = bool(record.get("neg")), record.get("env")
            for _, change in record.get("was", ()):
                if old := change.get("env"):
                    table.setdefault(old, (name, "_NO_" in old and has_off))
            if env:
                table[env] = (name, False)
                if has_off:
                    table.setdefault(env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"), (name, True))
        return table

    def _normal(self, token: str) -> str:
        if not self.underscores or not token.startswith("--"):
            return token
        head, dot, tail = token.partition(".")
        return head.replace("_", "-") + dot + tail

    def _complete(self, name: str, key: str) -> str | None:
        """The full spelling of a prefix that begins those of one option alone."""
        if len(name) < 4:
            return None
        if key not in self._sorted:
            self._sorted[key] = sorted(s for s in self._table(key) if s.startswith("--"))
        spellings = self._sorted[key]
        start = bisect_left(spellings, name)
        table = self._table(key)
        matches: list[str] = []
        for spelling in spellings[start:]:
            if not spelling.startswith(name):
                break
            if matches and table[spelling] != table[matches[0]]:
                return None
            matches.append(spelling)
        return matches[0] if matches else None

    def _table(self, key: str) -> dict[str, tuple[str, bool]]:
        """spelling -> (canonical name, negated) at one release, or over all of them."""
        table = self._spellings.get(key)
        if table is None:
            table = self._spellings[key] = {}
            for name, record in self._records.items():
                off = set(record.get("neg", ()))
                for flag in self._all_spellings(record, key):
                    if flag.startswith("-") and (flag not in table or key != ANY):
                        table[flag] = (name, flag in off)
        return table

    def _entry(self, spelling: str, key: str) -> tuple[str, bool] | None:
        """As `_table` has it, for one spelling, without the table of a release."""
        if key == ANY or key in self._spellings:
            return self._table(key).get(spelling)
        for name in reversed(self._owners.get(spelling, ())):
            record = self._records[name]
            if spelling in self._all_spellings(record, key):
                return name, spelling in record.get("neg", ())
        return None

    @cached_property
    def _owners(self) -> dict[str, list[str]]:
        """spelling -> the options that have it at some release."""
        owners: dict[str, list[str]] = {}
        for name, record in self._records.items():
            for flag in self._all_spellings(record, ANY):
                if flag.startswith("-"):
                    owners.setdefault(flag, []).append(name)
        return owners

    def _all_spellings(self, record: dict[str, Any], key: str) -> list[str]:
        if key != ANY:
            state = self._state(record, key)
            return [] if state is None else [*state["flags"], *(state.get("hidden") or ())]
        flags = [*record["flags"], *(record.get("hidden") or ())]
        for _, change in record.get("was", ()):
            flags += [*(change.get("flags") or ()), *(change.get("hidden") or ())]
        return flags

    def _state(self, record: dict[str, Any], version: str | None) -> dict[str, Any] | None:
        """The record as it was at a release; None if it was absent."""
        if version is None:
            return record
        at = self._order[version]
        first, last = record.get("span", (self.versions[0], self.versions[-1]))
        if not self._order[first] <= at <= self._order[last] or version in record.get("absent", ()):
            return None
        state = record
        for until, change in record.get("was", ()):
            if at <= self._order[until]:
                state = {**state, **change}
        return state
