"""The options of one engine, read both ways: spelling -> option, option -> spelling, at one
catalogued release or (`version=None`) at the newest that has the option.
"""

from collections.abc import Mapping
from typing import Any

from advisor.domain.records import NamedTuple
from advisor.domain.spelling import nearest_word
from advisor.engines.base import Match, Option
from advisor.engines.records import ANY, Records

MAX_KNOWN = 4096  # spellings whose meaning is remembered


class Removal(NamedTuple):
    """An option that is gone: the first release without it (None: not known), its successor."""

    version: str | None
    successor: str | None
    message: str
    source: str = ""


class Values(NamedTuple):
    """The values of an option; `open`: a plug-in may register others."""

    names: tuple[str, ...] = ()
    open: bool = False


class Catalogue(Records):
    """Options, environment and JSON fields of one engine over its releases, oldest first."""

    ALIASES: Mapping[str, str] = {
        "-O": "--optimization-level"
    }  # rewritten by vLLM before its parser sees it

    @property
    def newest(self) -> str:
        """The newest catalogued release."""
        return self.versions[-1]

    def index(self, version: str) -> int:
        """Position of a release, oldest 0."""
        return self._order[version]

    def at_least(self, version: str | None, bound: str) -> bool:
        """Whether `version` is `bound` or newer; an unpinned version counts as the newest."""
        return version is None or self._order[version] >= self._order[bound]

    # ------------------------------------------------------------ options

    def find(self, token: str, version: str | None = None) -> Option | None:
        """The option of this spelling at this release, None where its parser has none."""
        found = self.match(token, version)
        return found.option if found is not None else None

    def match(self, token: str, version: str | None = None) -> Match | None:
        """As `find`, with how it was read; a `=value` part must be cut off before."""
        key = token, version
        if key not in self._matches:
            if len(self._matches) >= MAX_KNOWN:  # of a hostile file
                self._matches.clear()
            self._matches[key] = self._match(token, version)
        return self._matches[key]

    def _match(self, token: str, version: str | None) -> Match | None:
        key = version or ANY
        name, dotted = self.ALIASES.get(token, token), ""
        entry = self._entry(name, key)
        if entry is None:
            name = self._normal(token)
            entry = self._entry(name, key)
            if entry is None and "." in name:
                name, _, dotted = name.partition(".")
                entry = self._entry(name, key)
        abbreviated = False
        if entry is None and self.style == "argparse" and name.startswith("--"):
            name, abbreviated = self._complete(name, key) or name, True
            entry = self._entry(name, key)
        if entry is None:
            return None
        canonical, negated = entry
        option = self.option(canonical, version)
        if option is None or (dotted and not self.takes_json(option)):
            return None
        return Match(option, name, negated, dotted.replace("-", "_"), abbreviated)

    def option(self, name: str, version: str | None = None) -> Option | None:
        """The option of this canonical name (None: at the newest release that has it)."""
        key = (name, version or ANY)
        if key not in self._options:
            self._options[key] = self._resolve(name, version)
        return self._options[key]

    def names(self, version: str | None = None) -> tuple[str, ...]:
        """Return the canonical names of all options of a release, of any release without one."""
        return tuple(dict.fromkeys(name for name, _ in self._table(version or ANY).values()))

    def spelling(self, name: str, version: str | None, negated: bool = False) -> str | None:
        """How to write an option at a release: as it is called, else its first long name."""
        option = self.option(name, version)
        if option is None or option.removed:
            return None
        record = self._records[name]
        off = frozenset(record.get("neg", ()))
        wanted = [flag for flag in option.flags if (flag in off) == negated]
        first = wanted[0] if wanted else None
        if negated:  # the oldest spelling is hidden in new releases but still parsed, valid in most
            hidden = (self._state(record, version) or {}).get("hidden") or ()
            return next((flag for flag in (*hidden, *wanted) if flag.startswith("--no-")), first)
        if name in wanted:
            return name
        return next((flag for flag in wanted if flag.startswith("--")), first)

    def since(self, name: str) -> str | None:
        """The first catalogued release that knows this spelling."""
        return next((version for version in self.versions if self._knows(name, version)), None)

    def default(self, name: str, version: str | None = None) -> object:
        """The parser's default; None if it has none, or if it is not known."""
        option = self.option(name, version)
        return option.default if option is not None else None

    def removal(self, name: str, version: str | None = None) -> Removal | None:
        """When a spelling was dropped, and for what; None if the release takes it or will."""
        if version is not None and self._knows(name, version):
            return None
        gone, successor = self._note("removed_before", name), self._note("successors", name)
        if gone:
            return Removal(None, gone.get("use"), gone["message"], gone.get("source", ""))
        if self._knows(name, self.newest):  # before all others are looked at
            return None
        alive = [version for version in self.versions if self._knows(name, version)]
        if not alive or (version is not None and self._order[alive[0]] > self._order[version]):
            return None
        first_without = self.versions[self._order[alive[-1]] + 1]
        use = self._successor(name, successor)
        instead = f": use {use}" if use else ""
        message = successor.get("message") or f"{name} is gone since {first_without}{instead}"
        source = successor.get("source", f"{self.engine} {first_without} parser")
        return Removal(first_without, use, message, source)

    def successor(self, name: str, version: str | None = None) -> str | None:
        """What to look at in place of a spelling, if it exists at the release."""
        row = self._note("successors", name) or self._note("removed_before", name)
        use = self._successor(name, row)
        return use if use and self._at(use, version) else None

    def replacement(self, name: str, version: str | None = None) -> tuple[str, str | None] | None:
        """(spelling, fixed value or None) that says the same at the release, else None."""
        row, gone = self._note("successors", name), self._note("removed_before", name)
        if not row and (gone.get("same_value") or gone.get("value")):
            row = gone
        use = self._successor(name, row)
        return (use, row.get("value")) if use and self._at(use, version) else None

    def _note(self, table: str, name: str) -> Mapping[str, Any]:
        """What the hand-kept notes say of a spelling; empty where they say nothing."""
        row: Mapping[str, Any] = (self.notes.get(table) or {}).get(name) or {}
        return row

    def _successor(self, name: str, row: Mapping[str, Any]) -> str | None:
        """The spelling to use instead: of the notes, else of the parser."""
        use: str | None = row.get("use") or (self._records.get(name) or {}).get("successor")
        return use

    def _at(self, name: str, version: str | None) -> bool:
        option = self.find(name, version)
        return option is not None and not option.removed

    def takes_json(self, option: Option) -> bool:
        """Whether the option's value is a JSON object."""
        return option.type in (
            "json", "parse_dataclass", "union_dict_and_str", "_parse_type", "<lambda>", "loads",
        )  # fmt: skip

    def spellings(self, version: str | None = None) -> tuple[str, ...]:
        """What a release takes as the name of an option; of any release without one."""
        return tuple(self._table(version or ANY))

    def nearest(self, name: str, version: str | None = None) -> str | None:
        """The known spelling that an unknown one most likely meant."""
        return nearest_word(name, self._table(version or ANY), "option")

    # ------------------------------------------------------------ values

    def values(self, name: str, version: str | None = None) -> Values:
        """What an option takes at a release, by parser, names or fields; empty: anything."""
        option = self.option(name, version)
        if option is None:
            return Values()
        if option.choices or option.values:
            names = option.choices or option.values or ()
            return Values(names, name in self.notes.get("open_lists", ()))
        for config, field in self.notes.get("lists", {}).get(name, ()):
            row = self.json_field(config, field, version) or {}
            if row.get("choices"):
                kind = str(row.get("type", ""))
                return Values(tuple(map(str, row["choices"])), kind.startswith("Union"))
        return Values()

    # ------------------------------------------------------------ JSON fields and environment

    def behaviour(self, name: str, version: str | None) -> Any:
        """A sourced behaviour at a release, None if not recorded."""
        row = self.behaviour_row(name, version)
        return row.get("value") if row is not None else None

    def behaviour_row(self, name: str, version: str | None) -> Mapping[str, Any] | None:
        """As `behaviour`, with the interval and the source: {from, until, value, source}."""
        at = self._order[version] if version is not None else len(self.versions) - 1
        for row in (self.notes.get("behaviours") or {}).get(name, ()):
            first = self._order[row["from"]] if row.get("from") else 0
            last = self._order[row["until"]] if row.get("until") else len(self.versions)
            if first <= at <= last:
                found: Mapping[str, Any] = row
                return found
        return None

    def _resolve(self, name: str, version: str | None) -> Option | None:
        record = self._records.get(name)
        state = self._state(record, version) if record is not None else None
        if record is None or state is None:
            return None
        first, last = record.get("span", (self.versions[0], self.versions[-1]))
        nargs = state.get("nargs")
        return Option(
            name=name.partition("#")[0],
            flags=tuple(state["flags"]),
            takes_value=False if nargs == 0 else None if nargs in ("?", "*") else True,
            many=nargs in ("+", "*"),
            type=state.get("type") or "str",
            default=state.get("default"),
            choices=tuple(state["choices"]) if state.get("choices") else None,
            deprecated=bool(state.get("deprecated")),
            removed=bool(state.get("removed")),
            since=first,
            until=None if last == self.versions[-1] else last,
            env=state.get("env"),
            values=tuple(state["values"]) if state.get("values") else None,
        )

    def _knows(self, spelling: str, version: str) -> bool:
        entry = self._entry(spelling, version) or self._entry(self._normal(spelling), version)
        if entry is None:
            return False
        option = self.option(entry[0], version)
        return option is not None and not option.removed


def image(catalogue: Catalogue, version: str, hardware: object = None) -> str | None:
    """The pinned image of a release for a device's vendor, None where none is known to exist;
    `archs` of a table lists what its images are built for.
    """
    vendor = str(getattr(hardware, "vendor", "nvidia") or "nvidia")
    table = (catalogue.notes.get("images") or {}).get(
        vendor if vendor != "unknown" else "nvidia"
    ) or {}
    row = (table.get("tags") or {}).get(version)
    if not row:
        return None
    arch = str(getattr(hardware, "arch", "") or "")
    if arch and arch not in row and arch not in table.get("archs", (arch,)):
        return None
    tag = row.get(arch, row.get("tag"))
    return f"{full_name(table['repository'])}:{tag}" if tag else None


def full_name(repository: str) -> str:
    """The repository with its registry: Podman and CRI-O refuse a short name under systemd."""
    registry, slash, _ = repository.partition("/")
    named = bool(slash) and (registry == "localhost" or "." in registry or ":" in registry)
    return repository if named else f"docker.io/{repository if slash else f'library/{repository}'}"
