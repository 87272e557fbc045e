"""What the adapters share: fields between launch and plan, by `FIELDS` of each. Unset stays None:
an engine's default is never written into a plan.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import ClassVar

from advisor.domain.nouns import AdvisorError, EnvVar, Flag, Launch, Plan
from advisor.engines import names
from advisor.engines.arguments.fields import RANKS, Bounds, Extras, Field, Nouns, whole, within
from advisor.engines.catalogue import Catalogue, image
from advisor.engines.launch_reader import LaunchReader

HasHead = Callable[[str], bool]  # of a model's name: whether it brings an MTP head


class Adapter(LaunchReader):
    """All that the rest of the package needs to know of an engine; base of the three adapters."""

    FIELDS: ClassVar[Mapping[str, Field]] = {}
    # options whose number is a part of what `_read_meaning` reads
    COUNTS: ClassVar[Mapping[str, Bounds]] = {}

    # ------------------------------------------------------------ launch -> plan

    def to_plan(self, launch: Launch, *, own_mtp: HasHead | None = None) -> Plan:
        """What the launch means; `own_mtp(model)`: whether it has a head (default: by name)."""
        nouns: Nouns = {}
        extra: Extras = []
        for flag in launch.flags:
            if flag.name in self.MODEL_FLAGS:
                continue
            field = None if flag.unresolved else self.FIELDS.get(flag.name)
            try:
                if field is not None:
                    nouns[field.noun] = field.read(flag.value)
                    continue
            except ValueError:
                pass
            extra.append((flag.name, flag.value))
        nouns["model"] = launch.model
        env = {var.name: var.value for var in launch.env if var.value is not None}
        self._read_meaning(launch, nouns, extra, env, own_mtp or names.own_mtp)
        self._leave_ranks(nouns, extra)
        return Plan(
            engine=launch.engine,
            engine_version=launch.engine_version,
            extra=tuple(extra),
            env=tuple(env.items()),
            **nouns,
        )

    def _leave_ranks(self, nouns: Nouns, extra: Extras) -> None:
        """Take the kinds of parallelism out that together ask for more devices than can be."""
        ranks = {name: field for name, field in self.FIELDS.items() if field.bounds == RANKS}
        given = {name: field for name, field in ranks.items() if field.noun in nouns}
        if prod(nouns[field.noun] for field in given.values()) > RANKS[1]:
            extra += [(name, field.write(nouns.pop(field.noun))) for name, field in given.items()]

    def not_taken(self, launch: Launch, plan: Plan) -> tuple[str, ...]:
        """Options whose number no server starts with: the plan lacks them and says nothing."""
        if not plan.extra:
            return ()
        open_ones = {flag.name for flag in launch.flags if flag.unresolved}
        names = []
        for name, value in plan.extra:
            field, bounds = self.FIELDS.get(name), self.COUNTS.get(name)
            if bounds is not None:
                taken = (count := whole(value)) is not None and within(count, bounds)
            elif field is not None and field.bounds is not None:
                taken = False
            else:
                continue
            if not taken and name.partition(".")[0] not in open_ones:
                names.append(name)
        return tuple(dict.fromkeys(names))

    def _read_meaning(
        self, launch: Launch, nouns: Nouns, extra: Extras, env: dict[str, str], own_mtp: HasHead
    ) -> None:
        """The engine's own part: takes what it understands out of `extra`."""
        raise NotImplementedError

    # ------------------------------------------------------------ plan -> launch

    def canonical(self, plan: Plan) -> Plan:
        """What this engine can say: `to_plan(to_launch(plan)) == canonical(plan)`."""
        return plan

    def to_launch(self, plan: Plan) -> Launch:
        """The launch of a plan, spelled for its version. Raises AdvisorError."""
        plan = self.canonical(plan)
        version = self.known_version(plan.engine_version)
        written = list(self._write_fields(plan, version))
        env = dict(plan.env)
        written += self._write_meaning(plan, version, env)
        written += [(name, value) for name, value in plan.extra if not self._is_consumed(name)]
        flags = tuple(write_flag(self.catalogue, name, value, version) for name, value in written)
        self._refuse_unknown(flags, version)
        if plan.model is not None:
            flags = (*self._write_model(plan.model), *flags)
        return Launch(
            engine=plan.engine,
            engine_version=version,
            version_text=version,
            version_pinned=version is not None,
            model=plan.model,
            flags=flags,
            env=tuple(EnvVar(name=name, value=value) for name, value in env.items()),
            emitted=True,
        )

    def _write_fields(self, plan: Plan, version: str | None) -> list[tuple[str, str | None]]:
        given, rows = {name for name, _ in plan.extra}, []
        for name, field in self.FIELDS.items():
            value = getattr(plan, field.noun)
            if value is None or value == field.skip or name in given:
                continue
            if self.catalogue.option(name, version) is None:
                raise self.lacks(name, self.catalogue.since(name), version)
            rows.append((name, field.write(value)))
        return rows

    def _refuse_unknown(self, flags: Sequence[Flag], version: str | None) -> None:
        """Raise AdvisorError for an option, or a listed value of one, that the release lacks."""
        plugged = any(flag.name.endswith("-parser-plugin") for flag in flags)
        for flag in flags:
            option = self.catalogue.find(flag.raw or flag.name, version)
            if option is None or option.removed:
                raise self.lacks(flag.name, self.catalogue.since(flag.name), version)
            listed = () if plugged else option.values or ()
            if listed and flag.value is not None and flag.value not in listed:
                raise AdvisorError(
                    f"{self.name} {version or self.newest} has no '{flag.value}' for "
                    f"{flag.name}: it has {', '.join(listed)}"
                )

    def lacks(self, what: str, since: str | None, version: str | None) -> AdvisorError:
        """The error for what a release does not have."""
        known = f"it is known from {since}" if since else "no catalogued release has it"
        return AdvisorError(f"{self.name} {version or self.newest} has no {what}: {known}")

    def _write_meaning(self, plan: Plan, version: str | None, env: dict[str, str]) -> Extras:
        raise NotImplementedError

    def _is_consumed(self, name: str) -> bool:
        """Whether an entry of `extra` is written by `_write_meaning` (a key of a JSON option)."""
        return False

    def _write_model(self, model: str) -> tuple[Flag, ...]:
        return (Flag(name=self.MODEL_FLAGS[0], raw="", value=model),)

    def image(self, version: str | None, hardware: object = None) -> str | None:
        """The container image of a release, only where a source shows that it exists; else None."""
        return image(self.catalogue, version or self.newest, hardware)

    def usual(self, hardware: object = None) -> tuple[str, bool]:
        """The release to write for unless told: the newest with an image for this hardware, else
        with any; and which of the two.
        """
        for known in (hardware, None):
            for version in reversed(self.versions):
                if self.image(version, known) is not None:
                    return version, known is hardware
        return self.newest, False

    def label(self, version: str | None, asked: str | None = None) -> str:
        """A release as its server names it, for a question that asked for `asked`."""
        return version or ""

    def effective_prefix_caching(self, plan: Plan, hybrid: bool | None = None) -> bool | None:
        """Whether it is on with the release's default; `hybrid` None: by name."""
        if plan.prefix_caching is not None:
            return plan.prefix_caching
        if hybrid is None:
            hybrid = plan.model is not None and names.hybrid(plan.model)
        key = "prefix_caching_default_hybrid" if hybrid else "prefix_caching_default"
        value = self.catalogue.behaviour(key, plan.engine_version)
        return value if isinstance(value, bool) else None


@lru_cache(maxsize=1024)  # the arms of a question share most of their flags
def write_flag(catalogue: Catalogue, name: str, value: str | None, version: str | None) -> Flag:
    """A flag as the release spells it."""
    option = catalogue.option(name, version)
    negated = value == "false" and option is not None and option.takes_value is False
    spelling = catalogue.spelling(name, version, negated) if option is not None else None
    known = option is not None and not option.removed
    return Flag(name=name, raw=spelling or name, value=value, known=known)
