import re
from collections.abc import Iterator, Mapping
from typing import Any

from advisor.domain.nouns import Case, Severity
from advisor.rules import Hit, rule, when
from advisor.rules.kit.case import compute_arch, spec_flag, speculates
from advisor.rules.kit.data import hardware_name, rows
from advisor.rules.kit.releases import between, release, version_label

Row = Mapping[str, Any]
NVIDIA_FIX = "Use llama-server, which is built for older chips too"
AMD_FIX = "Use llama-server, with Vulkan or built for this chip."
APPLE_FIX = "Switch speculation off, or use llama-server, whose MTP runs on Metal."


@rule(
    severity="error",
    engines="vllm sglang",
    data="chips.least_capability chips.rocm_not_built chips.no_speculation",
)
@when(needs="hardware")
def chip_below_engine(case: Case) -> Iterator[Hit]:
    """A chip that the engine's release has no kernels for, or refuses by its compute capability, or
    does not speculate on.

    Why: the server ends while loading: vLLM asks for capability 7.0, from 0.20.0 on for 7.5, SGLang
    for 7.5; ROCm builds hold the architectures they were compiled for. On Apple chips SGLang drafts
    nothing.
    Bad (hw=v100, version=0.25.1): vllm serve Qwen/Qwen3-8B --max-model-len 8192
    Good (hw=v100, version=0.19.1): vllm serve Qwen/Qwen3-8B --max-model-len 8192
    """
    arch = compute_arch(case) or ""
    hit = below_capability(case, arch) if arch.startswith("sm_") else not_built(case, arch)
    hit = hit or no_speculation(case, arch)
    if hit is not None:
        yield hit


def no_speculation(case: Case, arch: str) -> Hit | None:
    """A backend without a path for speculation, which need not stop."""
    for row in rows("chips", "no_speculation"):
        if row["engine"] == case.plan.engine and arch in row["archs"] and speculates(case.plan):
            return Hit(
                f"{hardware_name(case)}: {row['text']}",
                flag=spec_flag(case),
                fix=APPLE_FIX,
                severity="warning",
                sources=tuple(row["sources"]),
                effect="veto",
            )
    return None


def below_capability(case: Case, arch: str) -> Hit | None:
    """The lowest demand of capability that the chip misses."""
    digits = re.match(r"sm_(\d+)", arch)
    chip = int(digits[1]) if digits else 1000
    for row in rows("chips", "least_capability"):
        applies = row["since"] is None or between(release(case), row["since"], None)
        if (
            row["engine"] != case.plan.engine
            or chip >= row["below"]
            or applies is False
            or _other_build(case, row)
        ):
            continue
        since = f" from {row['since']} on" if row["since"] else ""
        until = f", or a {case.plan.engine} release before {row['since']}" if row["since"] else ""
        needs = f"{case.plan.engine}{since} needs {_capability_text(row['below'])}"
        message = f"{hardware_name(case)} has compute capability {_capability_text(chip)}; {needs}"
        return Hit(
            message if applies else f"{message} (the release is not pinned)",
            fix=f"{NVIDIA_FIX}{until}.",
            severity=_severity(case, "error" if applies else "warning"),
            sources=tuple(row["sources"]),
        )
    return None


def not_built(case: Case, arch: str) -> Hit | None:
    """An AMD architecture outside the released builds."""
    for row in rows("chips", "rocm_not_built"):
        if row["engine"] != case.plan.engine or arch not in row["archs"]:
            continue
        official = _image(case) in row.get("images", ())
        own = "" if official or row["severity"] == "error" else "; only a build of your own can run"
        return Hit(
            f"{hardware_name(case)} is {arch}; the released ROCm builds of {case.plan.engine} are "
            f"for {row['built_for']}{own}",
            fix=AMD_FIX,
            severity=_severity(case, "error" if official else row["severity"]),
            sources=tuple(row["sources"]),
        )
    return None


def _image(case: Case) -> str | None:
    """The image's repository without registry, tag and digest."""
    container = case.launch.container
    if container is None or not container.image:
        return None
    return container.image.partition("@")[0].removeprefix("docker.io/").partition(":")[0]


def _other_build(case: Case, row: Row) -> bool:
    """Whether the file names a variant of the release whose list of chips was not read."""
    return "other_build" in row and row["other_build"] in version_label(case)


def _severity(case: Case, found: Severity) -> Severity:
    """A fork is compiled for chips of its own choice."""
    return "warning" if case.launch.fork is not None else found


def _capability_text(capability: int) -> str:
    return f"{capability // 10}.{capability % 10}"
