"""How the catalogue stands to a flag: taken, gone, not there yet, another engine's, unknown."""

import json
from functools import lru_cache
from typing import Any, Literal

from advisor import engines
from advisor.domain.nouns import Case, Flag, Launch
from advisor.domain.records import NamedTuple
from advisor.engines.arguments.speculative_json import scalar
from advisor.engines.catalogue import Catalogue, Removal
from advisor.rules.kit.json_text import problem
from advisor.rules.kit.releases import possible
from advisor.rules.registry import GGUF_ENGINES

Standing = Literal["taken", "removed", "too-new", "foreign", "unknown"]
CATALOGUED = ("vllm", "sglang", "llama-server")
# read by `sglang serve` itself, which chooses the server by it and takes it out
WRAPPERS = {("sglang", "--model-type"), ("vllm", "--disaggregation-mode")}
DYNAMO = "--dyn-"  # as the second: read by NVIDIA Dynamo's workers, which pass on what is left


def catalogue(case: Case) -> Catalogue:
    """Return the option catalogue of the case's engine."""
    return engines.get(case.plan.engine).catalogue


def catalogued_version(case: Case) -> str | None:
    """The catalogued release of the case, or None."""
    version = case.launch.engine_version
    return version if version in catalogue(case).versions else None


def lookup_spelling(found: Flag) -> str:
    """The spelling to look up: as on a command line, canonical for variables."""
    dashed = found.raw.replace("_", "-")
    if found.raw.startswith("-"):
        return dashed
    return f"--{dashed}" if found.origin != "env" and len(found.raw) > 3 else found.name


def option_at_release(case: Case, found: Flag) -> Standing:
    """How the engine takes a flag at the case's release (or at any release where none is known)."""
    return _look_up(case.plan.engine, catalogued_version(case), lookup_spelling(found), found.known)


@lru_cache(maxsize=8192)
def _look_up(engine: str, version: str | None, name: str, taken: bool) -> Standing:
    known = engines.get(engine).catalogue
    option = known.find(name, version or known.newest)
    if option is not None and not option.removed and taken:
        return "taken"
    if _find_removal(engine, version, name):
        return "removed"
    if version is not None and not taken:
        ever = known.match(name, None)
        if ever is not None and known.index(ever.option.since) > known.index(version):
            return "too-new"
    if (
        taken
        or name in ("--", "-", "--help", "-h", "--version")  # these start no server
        or "." in name
        or (engine, name) in WRAPPERS
        or name.startswith(DYNAMO)
    ):
        return "taken"
    if option is not None and not option.removed:
        return "unknown"  # the engine's own, but for its underscores or its =
    return "foreign" if _owners(engine, name) else "unknown"


def find_removal(case: Case, found: Flag) -> Removal | None:
    """The removal that hits this flag at the case's release, or any without one."""
    return _find_removal(case.plan.engine, catalogued_version(case), lookup_spelling(found))


@lru_cache(maxsize=8192)
def _find_removal(engine: str, version: str | None, name: str) -> Removal | None:
    known = engines.get(engine).catalogue
    removal = known.removal(name)
    if removal is None or removal.version is None or version is None:
        return removal
    return removal if known.index(version) >= known.index(removal.version) else None


def owners(case: Case, found: Flag) -> tuple[str, ...]:
    """Other engines that know this spelling in full."""
    return _owners(case.plan.engine, lookup_spelling(found))


def is_gone_everywhere(case: Case, found: Flag) -> bool:
    """Whether no catalogued release that takes the other options takes this spelling."""
    known, name = catalogue(case), lookup_spelling(found)
    return not any(
        option is not None and not option.removed
        for option in (known.find(name, version) for version in possible(case, found))
    )


@lru_cache(maxsize=1024)
def _owners(own: str, name: str) -> tuple[str, ...]:
    named = []
    for engine in CATALOGUED:
        if engine == own or (own in GGUF_ENGINES and engine in GGUF_ENGINES):
            continue
        match = engines.get(engine).catalogue.match(name, None)
        if match is not None and not match.abbreviated and name.startswith("--"):
            named.append(engine)
    return tuple(named)


class SpecConfig(NamedTuple):
    """The JSON of --speculative-config; `data` is None where it is broken."""

    flag: Flag
    data: dict[str, Any] | None
    error: str = ""


_read: tuple[Launch | None, SpecConfig | None] = (None, None)


def spec_config(case: Case) -> SpecConfig | None:
    """The launch's --speculative-config; None without one, or with a variable in it."""
    global _read  # noqa: PLW0603 - one slot: a dozen rules ask for that of the same launch in a row
    if _read[0] is not case.launch:
        _read = (case.launch, _read_config(case))
    return _read[1]


def spec_keys(case: Case) -> tuple[Flag | None, dict[str, Any]]:
    """The flag of --speculative-config and its keys; None and none where it cannot be read."""
    read = spec_config(case)
    return (read.flag, read.data) if read is not None and read.data is not None else (None, {})


def _read_config(case: Case) -> SpecConfig | None:
    found = case.flag("--speculative-config")
    if found is None:  # --speculative-config.key value: the keys together
        prefix = "--speculative-config."
        parts = [one for one in case.launch.flags if one.name.startswith(prefix)]
        if not parts or any(one.unresolved for one in parts):
            return None
        data = {one.name.removeprefix(prefix): scalar(one.value) for one in parts}
        return SpecConfig(parts[0], data)
    if found.value is None:
        return None
    error = problem(found.value)
    if error is None:
        return SpecConfig(found, json.loads(found.value))
    return None if found.unresolved else SpecConfig(found, None, error)


def spec_choices(case: Case, key: str) -> tuple[str, ...]:
    """The values of a key of --speculative-config; empty where it takes any."""
    row = catalogue(case).json_field("SpeculativeConfig", key, catalogued_version(case)) or {}
    return tuple(str(choice) for choice in row.get("choices") or ())
