"""What a model's name and facts tell rules: its vocabulary, whether it has an MTP head, whether it
is the published model itself.
"""

import re
from functools import lru_cache
from typing import Any

from advisor.domain.nouns import LLM, Case, Severity
from advisor.domain.patterns import lazy_re
from advisor.domain.versions import Release, parse_release
from advisor.knowledge import heads
from advisor.knowledge import store as knowledge
from advisor.knowledge.rule_data import table
from advisor.readers.syntax.placeholders import to_fill

# words of a name that change neither the length nor the head: roles, formats, publishers' marks
_SAME = lazy_re(
    r"instruct|chat|it|base|2507|thinking|fp8|fp4|nvfp4|mxfp4|awq|gptq|int[48]|w[48]a(8|16)"
    r"|[234568]bit|bnb|dynamic|gguf|mtp"
    r"|bf16|f16|fp16|i?q\d\w*|ud|xl|[klmsx]{1,2}|0|1|a\d+b|autoround|quantized|marlin|block"
    r"|static|speculator|hf|meta|hub"
)
Row = dict[str, Any]
_LONGER = lazy_re(r"\d+(k|m)(?![a-z0-9])|1m|yarn|long|ctx|rope|abliterated", re.I)
_DRAFTER = lazy_re(
    r"(instruct|sglang|speculator|specforge|drafter?|eagle[-_]?3?|dflash|dspark|head|chat)", re.I
)


def base_name(text: str) -> str:
    """The last part of a repository, path or GGUF file, in lower case."""
    name = text.rstrip("/").replace("\\", "/").rsplit("/", 1)[-1].partition(":")[0]
    return name.removesuffix(".gguf").lower()


def remote_code_kind(name: str, engine: str) -> Severity | None:
    """How sure it is that an engine loads a model, by its base name, with code of its repository
    alone; None where it does not. SGLang has classes of its own for those that are not certain.
    """
    row = table("compatibility")["needs_remote_code"]
    kinds: tuple[Severity, ...] = ("error", "warning") if engine == "vllm" else ("error",)
    return next((kind for kind in kinds if _any_of(tuple(row[kind])).search(name)), None)


def writes_remote_code(text: str, engine: str, version: str | None) -> bool:
    """Whether a launch of ours carries --trust-remote-code: what `remote_code_kind` names, and what
    the oldest transformers that this release allows has no class for.
    """
    name, at = base_name(text), parse_release(version)
    if remote_code_kind(name, engine) is not None:
        return True
    return at is not None and any(
        engine in one
        and at <= (parse_release(one[engine]) or ())
        and re.search(rf"(?<![a-z0-9]){one['name']}", name)
        for one in table("compatibility")["needs_remote_code"]["written_up_to"]
    )


def first_release(model: str, engine: str, table_name: str = "model_since") -> Row | None:
    """The row of the first release of an engine that has a model's architecture (`model_since`) or
    drafts with its MTP head (`mtp_since`), by the model's id: `since`, `sources`, and `lacks` where
    releases between the two were not read. None where every known release has it or nobody looked.
    """
    listed = table("compatibility")[table_name]
    rows = [row for row in listed if row["engine"] == engine and model.startswith(row["model"])]
    return max(rows, key=lambda row: len(row["model"]), default=None)


def comes_before(at: Release | None, row: Row) -> bool:
    """Whether a release is known not to have what a row of `first_release` is about."""
    last, since = parse_release(row.get("lacks")), parse_release(row["since"])
    return at is not None and (at <= last if last is not None else at < (since or ()))


@lru_cache(maxsize=16)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern at the start of a word for all of them: to compile each takes far longer."""
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(patterns)})")


def names_itself(model: LLM, text: str) -> bool | None:
    """Whether a name is the published model's; None for one of another length."""
    name = base_name(text)
    if any(one.repository.lower() == text.lower() for one in model.checkpoints):
        return True
    if _LONGER.search(name):
        return None
    known = set(re.split(r"[-_. ]", f"{model.id} {model.name or ''}".lower()))
    rest = [word for word in re.split(r"[-_. ]", name) if word and word not in known]
    return all(_SAME.fullmatch(word) for word in rest)


def unusable_head(text: str) -> Row | None:
    """The report on the MTP head of a checkpoint of this name, if there is one."""
    name = text.lower()
    if "mtp" in name.replace('"method":"mtp"', ""):
        return None
    rows = table("compatibility")["mtp_head_unusable"]
    return next((row for row in rows if row["marker"] in name), None)


@lru_cache(maxsize=512)
def no_head(name: str) -> bool:
    """Whether a name belongs to a family that is published without an MTP head."""
    low = base_name(name)
    patterns = table("compatibility")["no_mtp_families"]["value"]
    return "mtp" not in low and any(re.search(rf"(?<![a-z]){one}", low) for one in patterns)


def headless(case: Case) -> bool:
    """Whether the model itself has no MTP head, by its configuration or its family's."""
    model, name = case.facts.model, case.plan.model or case.launch.model or ""
    if "mtp" in base_name(name) or to_fill(name):
        return False
    known = heads.head(model).has if model is not None else None
    return no_head(name) if known is None else not known


@lru_cache(maxsize=512)
def vocabulary(name: str) -> int | None:
    """The size of a model's vocabulary as its configuration pads it; None where it is not known."""
    low = base_name(name)
    for family, size in table("compatibility")["vocabularies"]["value"]:
        if re.search(rf"(?<![a-z]){family}", low):
            return int(size)
    found = knowledge.llm_from_text(name)
    return found.vocab if found is not None else None


@lru_cache(maxsize=512)
def target_of(draft: str) -> LLM | None:
    """The model that a drafter's name says it was made for, whatever else the name says."""
    words = re.sub(r"[-_.]{2,}", "-", _DRAFTER.sub("", base_name(draft))).strip("-_.")
    return knowledge.llm_from_text(words) or knowledge.llm_from_text(draft)
