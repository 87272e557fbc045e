"""Checkpoints and what an engine needs of them."""

import re

from advisor.domain.nouns import Case, Fix, Flag
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import is_gguf, model_text
from advisor.rules.kit.fixes import add_fix, drop_fix, set_fix
from advisor.rules.kit.flags import spec_keys
from advisor.rules.kit.models import (
    base_name,
    comes_before,
    first_release,
    headless,
    remote_code_kind,
    unusable_head,
    vocabulary,
)
from advisor.rules.kit.releases import asked_release, between, release, version_label

SPLIT = table("compatibility")["split_mtp_publishers"]
FAMILIES = table("compatibility")["no_mtp_families"]
UNUSABLE = (
    "Use a checkpoint that keeps mtp.* unquantised, or drop MTP; the log's acceptance must be "
    "well above 0."
)
ENGINE_NAMES = {"llama-server": "llama.cpp"}
OPTION = "--trust-remote-code"
# what a checkpoint's name says of its format, what the catalogue does where the name is silent, and
# what --quantization asks for
NAMED = (
    *(("nvfp4", r"nvfp4"), ("fp8", r"fp8(?!.*kv)"), ("awq", r"awq"), ("gptq", r"gptq")),
    ("mxfp4", r"^gpt-oss-\d+b$"),  # of others with such experts config.json says fp8, quark ...
)
LISTED = {"fp8": "fp8", "int4": "int4", "awq-int4": "int4", "int8-w8a8": "int8"}
ASKED = {
    **{f"{start}{kind}": kind for start in ("", "auto_") for kind in ("awq", "gptq")},
    **{"awq_marlin": "awq", "gptq_marlin": "gptq", "modelopt_fp4": "nvfp4"},
    **{kind: kind for kind in ("fp8", "bitsandbytes", "gguf", "mxfp4")},
}
# not known, or taken: int4 is any of the two, SGLang quantises FP8 further (from 0.5.16 on)
OPEN = (("int4", "awq"), ("int4", "gptq"), ("fp8", "nvfp4", "sglang"))


@rule("SD213", "error", "gguf", data="compatibility.split_mtp_publishers")
@when(methods="mtp")
def gguf_without_mtp(case: Case) -> Hits:
    """draft-mtp on a GGUF that has no MTP tensors, judging by its name.

    Why: most GGUF files drop the MTP head; publishers who keep it say MTP in the name.
    Bad: llama-server -hf unsloth/Qwen3.6-35B-A3B-GGUF:Q4_K_M --spec-type draft-mtp
    Good: llama-server -hf unsloth/Qwen3.6-35B-A3B-MTP-GGUF:Q4_K_M --spec-type draft-mtp
    Sources: ggml-org/llama.cpp#22673
    """
    name, model = model_text(case).lower(), case.facts.model
    if not name.strip() or "mtp" in name or any(sign in name for sign in "$<{"):
        return
    known = case.facts.checkpoint.keeps_mtp if case.facts.checkpoint else None
    if known or case.plan.draft_model not in (None, "", case.plan.model):
        return  # of the latter the head comes in a file of its own, as Gemma 4's assistant does
    repository = case.flag("--hf-repo")
    if model is not None and model.assistant and repository is not None:
        yield Hit(
            f"{case.model_name} drafts with a separate assistant: this repository must hold "
            f"its GGUF as mtp-*.gguf beside the model",
            flag=repository,
            severity="warning",
            fix="Name the assistant's GGUF with --spec-draft-model, or look for that file.",
            sources=("ggml-org/llama.cpp#23398", "unsloth-mtp-docs"),
        )
        return
    if headless(case):
        yield Hit(
            f"{case.model_name} has no MTP head, so no GGUF of it can draft-mtp",
            flag=case.spec_flag(),
            fix=drop_fix(case, case.spec_flag(), "Leave --spec-type out, or name a draft model."),
        )
        return
    publisher = any(part in name for part in SPLIT["value"])
    files = model.checkpoints if model is not None else ()
    own = next((one.repository for one in files if "mtp-gguf" in one.repository.lower()), None)
    twin = own is not None and own.lower().replace("-mtp-gguf", "-gguf") in name
    yield Hit(
        "draft-mtp needs a GGUF that keeps the MTP tensors; "
        + ("this one has none" if known is False else "the name of this file does not include MTP"),
        flag=case.flag("--hf-repo", "--hf-file", "--model"),
        severity="error" if known is False or twin else "warning" if publisher else "info",
        fix=f"Use a GGUF with MTP in its name{f', such as {own}' if own else ''}.",
    )


@rule("SD214", "warning", "vllm sglang", decides=True, at="spec")
@when(methods="mtp")
def mtp_head_unusable(case: Case) -> Hits:
    """MTP on a model without a head, or on a checkpoint whose head is missing or quantised away.

    Why: where only the checkpoint lacks it, the loader says nothing and acceptance is 0 to 1 %.
    Bad: vllm serve Qwen/Qwen3-32B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Good: vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Sources: z-lab/paroquant#42; sgl-project/sglang#35797; noonghunna/club-3090#1052
    """
    if case.plan.draft_model not in (None, "", case.plan.model):
        return  # a checkpoint of its own holds the head, as Gemma 4's assistant does
    model, checkpoint = case.facts.model, case.facts.checkpoint
    if headless(case):
        name = case.model_name if model else base_name(case.plan.model or "")
        yield Hit(
            f"{name} has no MTP head: the server refuses to draft with one",
            severity="error",
            fix=without(case),
            sources=(model.source,) if model and model.source else tuple(FAMILIES["sources"]),
        )
    elif checkpoint is not None and checkpoint.keeps_mtp is False:
        yield Hit(
            f"{checkpoint.repository} has no usable MTP head",
            severity="error",
            fix=UNUSABLE,
            sources=(checkpoint.source,),
        )
    elif row := unusable_head(model_text(case)):
        yield Hit(
            f"{row['text']}: check the log's acceptance before trusting MTP here",
            severity=row["severity"],
            fix=UNUSABLE,
            row=row,
        )


def without(case: Case) -> Fix:
    """Another drafter where one is published, else no speculation."""
    own = knowledge.drafters(case.facts.model) if case.facts.model is not None else ()
    other = next((one for one in own if case.plan.engine in one.engines), None)
    if other is not None:
        return Fix(text=f"Draft with {other.repository} ({other.method}), or without speculation.")
    what = "Serve it without speculation, or with a drafter of its own."
    return drop_fix(case, case.spec_flag(), what) if case.plan.engine == "vllm" else Fix(text=what)


@rule("SD239", "error", "catalogued")
@when(needs="model")
def release_before_model(case: Case) -> Hits:
    """An engine release that is older than the model, or than drafting with its MTP head.

    Why: loading fails, or falls back and repeats one word; or the MTP head alone is refused.
    Bad (version=0.15.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Sources: vllm-project/recipes; sgl-project/sgl-cookbook; ggml-org/llama.cpp
    """
    model, engine = case.facts.model, ENGINE_NAMES.get(case.plan.engine, case.plan.engine)
    at = asked_release(case.facts) if case.launch.emitted else release(case)
    if model is None:
        return
    verb, row = "is older than", first_release(model.id, case.plan.engine)
    if case.plan.method == "mtp" and (row is None or not comes_before(at, row)):
        verb = f"does not draft with the {'assistant' if model.assistant else 'MTP head'} of"
        row = first_release(model.id, case.plan.engine, "mtp_since")
    if row is not None and comes_before(at, row):
        yield Hit(
            f"{engine} {version_label(case)} {verb} {case.model_name}, which needs {row['since']}",
            flag="image",
            # a fork may have the model ported back
            severity="info" if case.launch.fork else None,
            line=case.launch.container.image_line if case.launch.container else 0,
            fix=f"Use {engine} {row['since']} or newer.",
            row=row,
        )


@rule("SD273", "error", "vllm sglang", data="compatibility.needs_remote_code")
def remote_code(case: Case) -> Hits:
    """A model that is loaded by code of its own repository, without --trust-remote-code.

    Why: the server stops with "requires you to execute the configuration file".
    Bad: vllm serve moonshotai/Kimi-K2-Instruct --tensor-parallel-size 8
    Good: vllm serve moonshotai/Kimi-K2-Instruct --tensor-parallel-size 8 --trust-remote-code
    """
    model = case.launch.model or ""
    name, gguf = base_name(model), ".gguf" in model.lower()
    if not name or case.launch.emitted or case.flag(OPTION) is not None:
        return
    # SGLang has classes of its own for some of them, and documents launches without the option
    kind = remote_code_kind(name, case.plan.engine)
    if kind is not None and not gguf and not name.endswith("-gguf"):
        beside = next((one for one in case.launch.flags if one.raw.startswith("--")), None)
        yield Hit(
            f"{model} is loaded by code of its repository, which needs {OPTION}",
            flag=case.flag("--model", "--model-path"),
            severity=kind if case.plan.engine == "vllm" else "warning",
            fix=add_fix(case, beside, OPTION, None, f"Add {OPTION} after reading that code."),
        )


@rule("SD274", "error", "vllm sglang gguf", data="compatibility.vocabularies")
@when(methods="draft_model", parts="plan.draft_model")
def draft_vocabulary(case: Case) -> Hits:
    """A draft model with another vocabulary than the model that it drafts for.

    Why: draft tokens are numbers of the target's vocabulary.
    Bad: vllm serve meta-llama/Llama-3.3-70B-Instruct --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}'
    Good: with Qwen/Qwen3-32B for meta-llama/Llama-3.3-70B-Instruct
    Sources: vllm vllm/config/speculative.py (verify_equal_vocab_size_if_draft_model);
        sgl-project/sglang#24051; ggml-org/llama.cpp#3812
    """
    draft, model = case.plan.draft_model or "", case.plan.model or case.launch.model or ""
    ours, theirs = vocabulary(model), vocabulary(draft)
    if ours is None or theirs is None or draft == model:
        return
    mixed = spec_keys(case)[1].get("use_heterogeneous_vocab")
    # llama.cpp lets the sizes differ by so many
    if abs(ours - theirs) > (128 if is_gguf(case) else 0) and not mixed:
        place = case.flag("--speculative-draft-model-path", "--spec-draft-model")
        yield Hit(
            f"{base_name(draft)} has a vocabulary of {theirs:,} tokens, {base_name(model)} one of "
            f"{ours:,}: it cannot draft for it",
            flag=place or case.spec_flag(),
            severity="warning" if is_gguf(case) else None,
            fix="Take a small model of the same family, whose config.json has the same size.",
        )


@rule("SD276", "error", "vllm sglang")
@when(options="--quantization")
def quant_of_another_checkpoint(case: Case) -> Hits:
    """--quantization that names another format than the checkpoint is in.

    Why: the server compares it with config.json and stops; left out, the checkpoint's own is taken.
    Bad: vllm serve Qwen/Qwen3-32B-FP8 --quantization awq
    Good: vllm serve Qwen/Qwen3-32B-AWQ --quantization awq_marlin
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/model.py (_verify_quantization) and the
        override_quantization_method of modelopt.py and mxfp4.py, which heed no option;
        vllm-project/vllm#19050; sglang 0.5.9 to 0.5.23 configs/model_config.py
    """
    given, model = case.certain("--quantization"), (case.launch.model or "").lower()
    asked, listed = given and ASKED.get((given.value or "").lower()), case.facts.checkpoint
    named = [kind for kind, pattern in NAMED if re.search(pattern, base_name(model))]
    held, *others = named or [LISTED.get(listed.quant, "") if listed else ""]
    engine, modelopt = case.plan.engine, model.startswith("nvidia/")
    if not (given and asked and held) or others or held == asked:
        return
    if (held, asked) in OPEN or (held, asked, engine) in OPEN:
        return
    new = held == "mxfp4" and between(release(case), "0.20.2", None) is not False
    aside = engine == "vllm" and (modelopt or new)
    unsure = modelopt or held == "nvfp4" or case.launch.fork
    yield Hit(
        f"{given.raw} {given.value} on a checkpoint in {held}: "
        + ("vLLM leaves that aside" if aside else "the server stops where config.json says so too"),
        flag=given,
        severity="info" if aside else "warning" if unsure else None,
        fix=other_kernel(case, given, held)
        or drop_fix(case, given, f"Leave {given.raw} out: the checkpoint states its format."),
    )


def other_kernel(case: Case, found: Flag, held: str) -> Fix | None:
    """The same kernel for the format that the checkpoint is in: awq_marlin for gptq_marlin."""
    kind, _, kernel = (found.value or "").partition("_")
    if {kind, held} != {"awq", "gptq"} or kernel not in ("", "marlin"):
        return None
    use = f"{held}_{kernel}" if kernel else held
    return set_fix(case, found, use, f"Write {use}, or leave {found.raw} out.")
