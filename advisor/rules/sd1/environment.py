"""Environment variables."""

import re
from functools import lru_cache
from typing import Any

from advisor import engines
from advisor.domain.nouns import Case, EnvVar
from advisor.domain.patterns import lazy_re
from advisor.domain.spelling import nearest_word
from advisor.knowledge.rule_data import table
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.fixes import rename_env_fix, span_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.releases import between, release
from advisor.rules.kit.values import is_within, nearest, word_apart

DEAD = table("compatibility")["dead_env"]
PREFIXES = {"vllm": ("VLLM_",), "sglang": ("SGLANG_", "SGL_"), "llama-server": ("LLAMA_",)}
AROUND = table("compatibility")["variables"]  # of the libraries below the engines
KNOWN: tuple[str, ...] = tuple(name for row in AROUND.values() for name in row["value"])
# of libraries: words and numbers; another value is passed over
VALUES: dict[str, dict[str, Any]] = table("compatibility")["variable_values"]
NUMBERS = frozenset(table("compatibility")["variable_numbers"]["value"])
_FAMILY = lazy_re(
    r"HF_|HUGG|CUDA_|NVIDIA_|NCCL_|GLOO_|ROCR_|HIP_|HSA_|PYTORCH_|OMP_|GGML_|TOKENIZERS_|TRANSFORM"
)
# names that people give a token of Hugging Face, and that no library reads
TOKENS = ("HUGGINGFACE_TOKEN", "HF_API_TOKEN", "HF_ACCESS_TOKEN", "HUGGINGFACE_HUB_TOKEN")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")  # of Python's logging
_TRUTH = lazy_re(r"[01]|true|false", re.I)
_WIDE_TRUTH = lazy_re(r"[01]|true|false|yes|no|y|n", re.I)
_INT = lazy_re(r"\s*[+-]?\d+\s*")
_FLOAT = lazy_re(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*")
_LITERAL = lazy_re(r"'([^']*)'")
_DEVICE = r"(?:-?\d+|(?:GPU|MIG)-[\w/-]+)"
_DEVICES = lazy_re(rf"\s*{_DEVICE}(?:\s*,\s*{_DEVICE})*\s*,?\s*")
_SPLIT = lazy_re(r"[;,|:\s]+")


@rule("SD106", "warning", "vllm sglang", versioned=True)
def dead_env(case: Case) -> Hits:
    """An environment variable that the release no longer reads.

    Why: the setting is silently ignored; a benchmark then compares two equal servers.
    Bad (version=0.25.1):
        export VLLM_ATTENTION_BACKEND=FLASH_ATTN
        vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --attention-backend FLASH_ATTN
    Sources: vllm 0.19.1 vllm/envs.py; sglang 0.5.14 to 0.5.23 environ.py
    """
    at = release(case)
    for name, row in DEAD[case.plan.engine].items() if not case.launch.emitted else ():
        early, value = between(at, row["since"], None) is False, case.launch.env_value(name)
        if value is not None and not early:
            lines = (var.line for var in reversed(case.launch.env) if var.name == name)
            same = value == row.get("same")  # as VLLM_USE_V1=1, which is done anyway
            instead = f"use {row['use']}" if "flag" in row else row["use"].removeprefix("nothing: ")
            yield Hit(
                f"{name} has no effect from {case.plan.engine} {row['since']} on; {instead}",
                flag=name,
                line=next(lines, 0),
                fix=f"Remove {name}; {instead}.",
                # nothing is lost
                severity="info" if case.plan.engine == "sglang" or same else None,
                row=row,
                versions=f"{row['since']} and later",
            )


@rule("SD135", "warning", "catalogued", decides=True, data="compatibility.variables")
def env_misspelt(case: Case) -> Hits:
    """An environment variable that nothing reads, or whose value nothing reads.

    Why: a variable of another name sets nothing, and no engine stops at it: the setting is lost. A
    value that is no number, or none of the words that vLLM lists, stops the server.
    Bad: LLAMA_ARG_CONTEXT_SIZE=8192 llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf
    Good: LLAMA_ARG_CTX_SIZE=8192 llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf
    Sources: the engines' own lists of variables, catalogued by release; vllm 0.19.1 vllm/envs.py
        (validate_environ, env_with_choices); sgl-project/sglang python/sglang/srt/environ.py
        (EnvBool, EnvInt)
    """
    engine, launch = case.plan.engine, case.launch
    if launch.emitted or not launch.env:
        return
    known = catalogue(case).env_names()
    given = {var.name for var in launch.env} | {
        found.raw for found in launch.flags if found.origin == "env"
    }
    for var in launch.env:
        own = var.name.startswith(PREFIXES[engine])
        if var.name in known or var.name in KNOWN:
            if (hit := bad_value(case, var)) is not None:
                yield hit
            continue
        if launch.fork is not None:
            continue  # it may read variables of its own
        near = likely_variable(var.name, known) if own else None
        if not own and _FAMILY.match(var.name):
            near = likely_around(var.name)
        if var.name in TOKENS and launch.container is not None and launch.container.image:
            near = None if given & {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"} else "HF_TOKEN"
        if near is None or near in given or var.name in DEAD.get(engine, {}):
            continue
        if own and set(near.split("_")) < set(var.name.split("_")):
            continue  # a word more makes a name of the script's own
        if near.startswith("LLAMA_ARG_") and near.removeprefix("LLAMA_ARG_") in var.name:
            option = variables(engine).get(near)  # a name of the script's own for what it passes on
            if any(found.name == option for found in launch.flags):
                continue
        reader = engine if own else "no library here"
        yield Hit(
            f"{reader} reads {'no' if own else 'a'} variable {var.name}; did you mean {near}?",
            flag=var.name,
            line=var.line,
            fix=rename_env_fix(case, var.name, near, f"Rename it to {near}."),
        )


@lru_cache(maxsize=4)
def variables(engine: str) -> dict[str, str]:
    """The option that each variable stands for."""
    known = engines.get(engine).catalogue
    options = [known.find(name, None) for name in known.names()]
    return {one.env: one.name for one in options if one is not None and one.env}


@lru_cache(maxsize=1024)
def likely_variable(name: str, known: tuple[str, ...]) -> str | None:
    """The variable that differs by the spelling of one word, as CONTEXT for CTX, or by a letter."""
    if name.startswith("LLAMA_ARG_"):  # of the option that it speaks of: LLAMA_ARG_NGL of -ngl
        find, option = engines.get("llama-server").catalogue.find, name[10:].lower()
        taken = (find(f"{dash}{option.replace('_', '-')}", None) for dash in ("--", "-"))
        own = next(filter(None, taken), None)
        if own is not None and own.env in known:
            return own.env
    words = name.split("_")
    for one in known:
        short, long = sorted(word_apart(words, one.split("_")) or ("", ""), key=len)
        if len(short) > 2 and short[0] == long[0] and is_within(short, long):
            return one  # one word is the other cut short
    plain = {one.replace("_", ""): one for one in known}
    if (same := plain.get(name.replace("_", ""))) is not None:
        return same
    mixed = [one for one in known if sorted(one.split("_")) == sorted(words)]
    if len(mixed) == 1:
        return mixed[0]
    if name.startswith("LLAMA_") and (full := f"LLAMA_ARG_{name[6:]}") in known:
        return full
    return nearest_word(name, known, "variable")


@lru_cache(maxsize=1024)
def likely_around(name: str) -> str | None:
    """The variable of a library that differs by a letter or two."""
    for one in KNOWN:
        pair = word_apart(name.split("_"), one.split("_"))
        if pair and nearest_word(pair[0], [pair[1]], "word of a variable") is not None:
            return one
    return nearest_word(name, KNOWN, "library's variable", lambda one: one.replace("_", ""))


def bad_value(case: Case, var: EnvVar) -> Hit | None:
    """The hit of a value that is not read."""
    value = var.value
    if value is None or var.unresolved or "$" in value or value.startswith("<"):
        return None
    if var.name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        return bad_devices(case, var, value)
    if var.name in VALUES or var.name in NUMBERS:
        return bad_word(case, var, value)
    kind = str((catalogue(case).env(var.name, catalogued_version(case)) or {}).get("type", ""))
    words = LEVELS if var.name == "VLLM_LOGGING_LEVEL" else tuple(_LITERAL.findall(kind))
    if words and (kind.startswith("Literal") or words is LEVELS):
        if not value or value.lower() in {word.lower() for word in words}:
            return None
        stops = case.launch.fork is None  # another build may have more of them
        return hit(case, var, f"it takes {', '.join(words)}", nearest(value, words), stops=stops)
    plain = kind.removesuffix(" | None").removeprefix("Env").lower()
    truth = _WIDE_TRUTH if case.plan.engine == "sglang" else _TRUTH
    pattern = {"int": _INT, "float": _FLOAT, "bool": truth}.get(plain)
    if pattern is None or not value or pattern.fullmatch(value.strip()):
        return None
    if plain == "bool" and _INT.fullmatch(value):
        return None
    meant = {"yes": "1", "on": "1", "no": "0", "off": "0"}.get(value.lower())
    if plain == "bool":
        meant = meant or nearest(value, ("true", "false"))
    what = {"int": "a whole number", "float": "a number", "bool": "0 or 1"}[plain]
    return hit(case, var, f"it takes {what}", meant, stops=case.plan.engine == "vllm")


def bad_word(case: Case, var: EnvVar, value: str) -> Hit | None:
    """The hit of a value that a library below the engines passes over."""
    row = VALUES.get(var.name)
    if row is None:
        if not value or re.fullmatch(r"-?\d+(?:,\d+)*", value.strip()):
            return None
        number = {"true": "1", "yes": "1", "on": "1", "false": "0", "no": "0", "off": "0"}
        return hit(case, var, "it takes a number", number.get(value.lower()), stops=False)
    words = row["value"]
    known = {word.lower() for word in words}
    given = [one.strip() for one in value.split(",")]
    if not value or all(one.lower() in known for one in given):
        return None
    right = [one if one.lower() in known else nearest(one, words) for one in given]
    meant = ",".join(one for one in right if one) if all(right) else None
    return hit(case, var, f"it takes {', '.join(words)}", meant, stops="stops" in row)


def bad_devices(case: Case, var: EnvVar, value: str) -> Hit | None:
    """A list of devices that is none."""
    none = value.strip().lower() in ("", "none", "void", "nodevfiles")
    filled = to_fill(value, named=True) and not value.startswith(("GPU", "MIG"))
    if none or filled or _DEVICES.fullmatch(value):
        return None
    parts = [part for part in _SPLIT.split(value.strip(" '\"[]()")) if part]
    numbers = [re.sub(r"^(?:cuda:?|gpu:?)", "", part, flags=re.I) for part in parts]
    meant = ",".join(numbers) if all(one.isdigit() for one in numbers) else None
    if (ends := re.fullmatch(r"(\d)-(\d{1,2})", value)) and int(ends[1]) < int(ends[2]) < 16:
        meant = ",".join(map(str, range(int(ends[1]), int(ends[2]) + 1)))
    return hit(case, var, "it takes numbers with commas between them", meant, stops=True)


def hit(case: Case, var: EnvVar, said: str, meant: str | None, *, stops: bool) -> Hit:
    """The hit of one value."""
    what = f"Write {meant}." if meant is not None else f"Give {var.name} another value: {said}."
    return Hit(
        f"{var.name} does not take '{var.value}': {said}",
        flag=var.name,
        line=var.line,
        severity="error" if stops else None,
        fix=span_fix(case, var.value_span if meant is not None else None, meant or "", what),
    )
