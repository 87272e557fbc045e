"""What rules ask of a case, said once: flags and where they stand, versions, documented defects,
other data rows.

Rules hold relations only; releases, thresholds and names that a vendor may change stand in
knowledge/rules/*.json and in the engine catalogues.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

from advisor import engines
from advisor.domain.nouns import AdvisorError, Case, Edit, Fix, Flag, Launch, Plan
from advisor.domain.paths import knowledge_dir
from advisor.engines import model_names
from advisor.rules.kit.feasible import feasible

GGUF_ENGINES = ("llama-server", "ik_llama.cpp")
_COMPLETE = (
    "vllm",
    "sglang",
)  # whose catalogues have every minor release; of llama.cpp's builds they have a few
Release = tuple[int, ...]

# ---------------------------------------------------------------- data rows


@cache
def table(name: str) -> Any:
    """knowledge/rules/<name>.json. Raises AdvisorError if it is missing."""
    path = knowledge_dir() / "rules" / f"{name}.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AdvisorError(
            f"knowledge/rules/{name}.json is missing: reinstall the package"
        ) from None


class Defect(NamedTuple):
    """A documented defect of some releases: since and until are inclusive; until None = no fixed
    release known.
    """

    id: str
    since: str | None
    until: str | None
    note: str
    sources: tuple[str, ...]
    conflicts: tuple[str, ...]

    @property
    def versions(self) -> str:
        if self.since and self.until:
            return self.since if self.since == self.until else f"{self.since} to {self.until}"
        if self.since:
            return f"{self.since} and later (no fixed release known)"
        return f"releases up to {self.until}" if self.until else "all releases"


@cache
def defect(name: str) -> Defect:
    row = table("defects")[name]
    return Defect(
        name,
        row.get("since"),
        row.get("until"),
        row.get("note", ""),
        tuple(row["sources"]),
        tuple(row.get("conflicts", ())),
    )


def affects(found: Defect, case: Case) -> bool | None:
    """Whether the case's release is among the affected ones; None where it is not known and can be
    one of them.
    """
    at = release(case)
    if (
        at is None
        and not case.launch.emitted
        and case.launch.version_text is None
        and case.plan.engine in _COMPLETE
    ):
        fits = [parse_release(one) for one in feasible(case)]
        if fits and not any(between(one, found.since, found.until) for one in fits):
            return False
    return between(at, found.since, found.until)


def between(at: Release | None, since: str | None, until: str | None) -> bool | None:
    """since <= at <= until. None where `at` is unknown."""
    if at is None:
        return None
    low, high = parse_release(since), parse_release(until)
    return (low is None or at >= low) and (high is None or at <= _ceiling(high))


def _ceiling(at: Release) -> Release:
    return (*at, 1 << 30)  # 0.5.13 as an upper end includes 0.5.13.post1


# ---------------------------------------------------------------- versions


def release(case: Case) -> Release | None:
    """The release as comparable numbers, also where it is only a hint (a fork's tag); None if the
    text names none.

    llama.cpp: b9235 is (0, 9235); commits and semantic versions take the build number of the
    catalogue's row.
    """
    if case.plan.engine in GGUF_ENGINES:
        return _build(case)
    texts = [case.plan.engine_version]
    if not case.launch.emitted:
        texts = [case.launch.version_text, case.launch.engine_version]
    for text in texts:
        found = parse_release(text)
        if found is not None:
            return found
    return None


def _build(case: Case) -> Release | None:
    text = case.launch.version_text
    found = parse_release(text)
    if found is not None and len(found) == 2:
        return found
    version = case.launch.engine_version
    return build_order(version)


def build_order(version: str | None) -> Release | None:
    """The place of a catalogued llama.cpp version (b9445, 63d93d173, 0.5.0) among the build
    numbers; None if unknown.
    """
    found = parse_release(version)
    if version is None or (found is not None and len(found) == 2):
        return found
    rows = engines.get("llama-server").catalogue.notes.get("builds") or ()
    return next(((0, int(row["order"])) for row in rows if row["id"] == version), None)


def version_name(version: str | None) -> str:
    """A catalogued version for messages: a llama.cpp commit gets its build number."""
    order = build_order(version) if version and not re.match(r"b?\d+(\.|$)", version) else None
    return f"about b{order[1]}" if order else version or "an unknown release"


@lru_cache(maxsize=256)
def parse_release(text: str | None) -> Release | None:
    """Numbers of "0.25.1", "v0.25.1-cu130", "0.5.10.post1" (a fourth number) or "b9235"."""
    if not text or "nightly" in text or "branch" in text:
        return None
    build = re.search(r"(?:^|[^0-9a-z])b(\d{4,6})(?![0-9a-f])", text)
    if build:
        return (0, int(build[1]))
    match = re.search(r"(?<![\d.])v?(\d+)\.(\d+)\.(\d+)(?:\.?post(\d+))?", text)
    if match is None:
        return None
    return tuple(int(part) for part in match.groups() if part is not None)


def version_label(case: Case) -> str:
    """The version for messages, as written where it is known."""
    return case.launch.version_text or case.launch.engine_version or "(unpinned)"


# ---------------------------------------------------------------- flags


def flag(case: Case, *names: str) -> Flag | None:
    """The last flag of the launch with one of these canonical names."""
    for name in names:
        found = case.launch.flag(name)
        if found is not None:
            return found
    return None


def flags(case: Case) -> tuple[Flag, ...]:
    return case.launch.flags


def value(case: Case, *names: str) -> str | None:
    """The resolved value of a flag of the launch."""
    found = flag(case, *names)
    if found is not None:
        return None if found.unresolved else found.value
    return None


def open_value(case: Case, *names: str) -> bool:
    """Whether the launch gives one of these options a value that only a variable knows: set, but
    not a noun of the plan.
    """
    found = flag(case, *names)
    return found is not None and found.unresolved


def has_switch(case: Case, *names: str) -> bool:
    """Whether a switch is on: given bare or with a true value."""
    found = flag(case, *names)
    return found is not None and (found.value or "true").lower() not in ("false", "0", "off", "no")


_OUTSIDE = re.compile(
    r"not read|not known|is not set|sourced|too deeply|by \*\*|from outside|envFrom"
)
_NOT_OUTSIDE = re.compile(r"the argument '|is not catalogued|is read as|blanks follow")


def unread(case: Case) -> bool:
    """Whether more flags may come from what was not read: a variable without a value, an ignored
    env file. A note on the release, or on what stands there and was not understood, is none.
    """
    if any(found.unresolved for found in case.launch.flags):
        return True
    notes = (note for note in case.launch.notes if not _NOT_OUTSIDE.search(note))
    return any(_OUTSIDE.search(note) for note in notes)


def integer(text: str | None) -> int | None:
    """A whole number as engines write it: 8192, 128k (x 1000), 128K (x 1024); None if it is none."""
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)([kKmMgG]?)\s*", text or "")
    if match is None:
        return None
    scale = {"": 1, "k": 10**3, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}[
        match[2]
    ]
    return int(float(match[1]) * scale)


def env(case: Case, name: str) -> str | None:
    """The value of an environment variable of the launch."""
    return case.launch.env_value(name)


def spec_flag(case: Case) -> Flag | None:
    """The flag that turns speculation on, for the place of a finding."""
    return flag(
        case,
        "--speculative-config",
        "--spec-method",
        "--spec-model",
        "--speculative-algorithm",
        "--spec-type",
        "--spec-draft-model",
        "--spec-draft-n-max",
    )


def k_flag(case: Case) -> Flag | None:
    """The flag that sets the number of draft tokens, else the one that turns speculation on."""
    names = ("--spec-tokens", "--speculative-num-steps", "--spec-draft-n-max")
    return flag(case, *names) or spec_flag(case)


def env_line(launch: Launch | None, name: str) -> int:
    return next((var.line for var in reversed(launch.env) if var.name == name), 0) if launch else 0


# ---------------------------------------------------------------- models and plans


def is_hybrid(case: Case) -> bool | None:
    """Whether the model has recurrent layers: by its shape, else by its name; None where neither
    tells.
    """
    if case.facts.model is not None:
        return case.facts.model.is_hybrid
    return model_names.hybrid(model_text(case)) or None


def k_words(plan: Plan) -> str:
    """The text " k=2" for messages; nothing where the number of draft tokens is not known (a
    variable, the engine's own choice).
    """
    return f" k={plan.k}" if plan.k else ""


def speculates(plan: Plan) -> bool:
    return plan.method != "none"


def model_text(case: Case) -> str:
    """Every name under which the file calls the model, for markers in names."""
    texts = [case.plan.model or "", case.launch.model or ""]
    names = (
        "--model",
        "--hf-repo",
        "--hf-file",
        "--model-path",
        "--served-model-name",
        "--alias",
        "--quantization",
    )
    texts += [found.value or "" for found in flags(case) if found.name in names]
    return " ".join(texts)


# ---------------------------------------------------------------- fixes


def replace_fix(case: Case, found: Flag, text: str, what: str, *, safe: bool) -> Fix:
    """Replace a flag with its value; edits only where the text stands literally in the file."""
    if found.span is None:
        return Fix(text=what, safe=False)
    edit = Edit(file=case.launch.file, start=found.span.start, end=found.span.end, text=text)
    return Fix(text=what, safe=safe, edits=(edit,))


def rename_fix(case: Case, found: Flag, use: str, what: str, *, safe: bool) -> Fix:
    """Replace a flag's name only, so that quotes, `=` and list items around it stay as they are."""
    if found.span is None or not found.raw:
        return Fix(text=what, safe=False)
    name = use if found.raw.startswith("-") else use.lstrip("-")
    if found.origin == "python" or "_" in found.raw:
        name = name[:2] + name[2:].replace("-", "_")
    start = found.span.start
    return Fix(
        text=what,
        safe=safe,
        edits=(Edit(file=case.launch.file, start=start, end=start + len(found.raw), text=name),),
    )


def value_fix(case: Case, found: Flag, text: str, what: str, *, safe: bool) -> Fix:
    """Replace a flag's value only."""
    if found.value_span is None:
        return Fix(text=what, safe=False)
    edit = Edit(
        file=case.launch.file, start=found.value_span.start, end=found.value_span.end, text=text
    )
    return Fix(text=what, safe=safe, edits=(edit,))


# ---------------------------------------------------------------- relations that several rules ask
# for


def prefix_caching_on(case: Case) -> bool | None:
    """Whether vLLM caches prefixes of this hybrid: as told, else the release's default; None where
    neither is known.
    """
    if case.plan.prefix_caching is not None:
        return case.plan.prefix_caching
    if open_value(case, "--enable-prefix-caching"):
        return None
    return between(
        release(case),
        table("compatibility")["unknown_hybrid_prefix_caching"]["vllm_default_on_since"],
        None,
    )


def calls_tools(case: Case) -> bool:
    """Whether the server parses tool calls on its own, or the workload is an agent's."""
    return case.facts.workload == "agent" or bool(case.plan.tool_call_parser)


def fp8_kv(case: Case) -> bool:
    return (case.plan.kv_cache_dtype or "").lower().startswith("fp8")


def on_rocm(case: Case) -> bool | None:
    """Whether the server runs on ROCm: by the hardware, else by the image's name; None where
    neither tells.
    """
    if case.facts.hardware is not None:
        return case.facts.hardware.vendor == "amd"
    container = case.launch.container
    text = (
        f"{case.launch.version_text or ''} {container.image or ''}:{container.tag or ''}"
        if container
        else ""
    )
    if "rocm" in text.lower() or "gfx" in text.lower():
        return True
    return False if "cu1" in text or "cuda" in text.lower() else None


def compute_arch(case: Case) -> str | None:
    """sm_90, sm_120 ... of the hardware; None where it is not known."""
    return case.facts.hardware.arch if case.facts.hardware else None
