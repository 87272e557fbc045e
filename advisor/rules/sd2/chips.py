"""Chips that an engine or a quantisation has no kernels for."""

import re

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import compute_arch, rows
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.models import base_name
from advisor.rules.kit.relations import all_hold, relate
from advisor.rules.kit.releases import between, release, version_label


@rule(
    "SD268",
    "error",
    "vllm sglang",
    data="chips.least_capability chips.rocm_not_built chips.lacking",
)
@when(needs="hardware")
def chip_below_engine(case: Case) -> Hits:
    """A chip for which the engine has no kernels, or which it refuses or does not speculate on.

    Why: the server ends while loading: vLLM asks for capability 7.0, from 0.20.0 on for 7.5, SGLang
    for 7.5; ROCm builds hold the architectures they were compiled for. On Apple chips SGLang drafts
    nothing.
    Bad (hw=v100, version=0.25.1): vllm serve Qwen/Qwen3-8B --max-model-len 8192
    Good (hw=v100, version=0.19.1): vllm serve Qwen/Qwen3-8B --max-model-len 8192
    """
    arch = compute_arch(case) or ""
    hit = below_capability(case, arch) if arch.startswith("sm_") else not_built(case, arch)
    if hit := hit or lacks_path(case, arch):
        yield hit


def lacks_path(case: Case, arch: str) -> Hit | None:
    """A backend without a path for a method, a model, a k or so many ranks."""
    for row in rows("chips", "lacking"):
        here = row["engine"] == case.plan.engine and arch in row["archs"]
        if here and all_hold(case, row["if"]) is not None:
            return Hit(
                f"{case.hardware_name}: {row['text']}",
                flag=case.flag(row["at"]) if "at" in row else case.spec_flag(),
                fix=row["fix"],
                severity=row["severity"],
                row=row,
                effect="veto",
            )
    return None


def below_capability(case: Case, arch: str) -> Hit | None:
    """The lowest demand of capability that the chip misses."""
    digits = re.match(r"sm_(\d+)", arch)
    chip = int(digits[1]) if digits else 1000
    for row in rows("chips", "least_capability"):
        applies = row["since"] is None or between(release(case), row["since"], None)
        # the list of chips of another build was not read
        other = "other_build" in row and row["other_build"] in version_label(case)
        if row["engine"] != case.plan.engine or chip >= row["below"] or applies is False or other:
            continue
        since = f" from {row['since']} on" if row["since"] else ""
        until = f", or a {case.plan.engine} release before {row['since']}" if row["since"] else ""
        needs = f"{case.plan.engine}{since} needs {row['below'] / 10:.1f}"
        message = f"{case.hardware_name} has compute capability {chip / 10:.1f}; {needs}"
        return Hit(
            message if applies else f"{message} (the release is not pinned)",
            fix=f"Use llama-server, which is built for older chips too{until}.",
            # a fork is compiled for chips of its own choice
            severity="error" if applies and case.launch.fork is None else "warning",
            row=row,
        )
    return None


def not_built(case: Case, arch: str) -> Hit | None:
    """An AMD architecture outside the released builds."""
    for row in rows("chips", "rocm_not_built"):
        if row["engine"] != case.plan.engine or arch not in row["archs"]:
            continue
        image = (case.launch.container and case.launch.container.image) or ""
        name = image.partition("@")[0].removeprefix("docker.io/").partition(":")[0]
        official = name in row.get("images", ())
        own = "" if official or row["severity"] == "error" else "; only a build of your own can run"
        return Hit(
            f"{case.hardware_name} is {arch}; the released ROCm builds of {case.plan.engine} are "
            f"for {row['built_for']}{own}",
            fix="Use llama-server, with Vulkan or built for this chip.",
            severity="warning" if case.launch.fork else "error" if official else row["severity"],
            row=row,
        )
    return None


@rule("SD272", "error", "vllm sglang", data="chips.quant_needs relations.SD272")
@when(needs="hardware")
def quant_below_device(case: Case) -> Hits:
    """A quantisation or a type that the engine has no kernel for on the device.

    Why: the engine compares the method's least compute capability with the device and stops.
    Bad (hw=v100, version=0.19.1): vllm serve Qwen/Qwen3-8B-FP8 --max-model-len 8192
    Good (hw=a100-80gb, version=0.19.1): vllm serve Qwen/Qwen3-8B-FP8 --max-model-len 8192
    """
    quant = case.facts.quant
    if case.facts.hardware is None or case.launch.fork is not None:
        return
    yield from relate(case, "SD272")
    for row in rows("chips", "quant_needs"):
        if row["engine"] != case.plan.engine or quant is None or quant.id not in row["quants"]:
            continue
        applies = between(release(case), row.get("since"), row.get("until"))
        if applies is None:  # a launch without a release runs a newer one
            applies = False if "until" in row else None if "since" in row else True
        short = "below" not in row or below(case, row["below"])
        if applies is False or not short or all_hold(case, row.get("if", ())) is None:
            continue
        least = f" below compute capability {row['below'] / 10:g}" if "below" in row else ""
        does = row.get("text", f"does not run {{}} on {{}}{least}")
        yield Hit(
            f"{case.plan.engine} {does.format(quant.id, case.hardware_name)}",
            flag=case.flag("--quantization") or case.flag("--model", "--model-path"),
            severity=row.get("severity") if applies else "warning",
            fix=row["fix"] if "fix" in row else otherwise(case),
            row=row,
        )
        return


def below(case: Case, tenths: int) -> bool:
    """Whether the device's compute capability is known and lies below one, in tenths."""
    digits = re.match(r"sm_(\d+)", compute_arch(case) or "")
    return digits is not None and int(digits[1]) < tenths


def otherwise(case: Case) -> Fix:
    """Leave the option out where it alone asks for the format; else another checkpoint."""
    asked, name = case.flag("--quantization"), base_name(case.launch.model or "")
    what = "Take a checkpoint in 16 bit, or a GGUF with llama-server."
    if asked is None or re.search(r"fp8|fp4|awq|gptq|int[48]|\d-?bit", name):
        return Fix(text=what)
    return drop_fix(case, asked, f"Leave {asked.raw} out, and serve it in 16 bit.")
