"""What is known, by names as people write them: the compiled knowledge/index.json with the user's
own YAML files. What it does not know is None or an UnknownFact, never a guess.
"""

import os
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from advisor.domain.nouns import (
    AS_ASKED,
    LLM,
    AdvisorError,
    Checkpoint,
    Drafter,
    DrafterFile,
    Hardware,
    Quant,
    Quantity,
    Source,
    UnknownFact,
)
from advisor.domain.paths import read_data, unseal, user_dirs
from advisor.knowledge import own_files
from advisor.knowledge.names import (
    find_model,
    find_name,
    key_of,
    likely,
    nearest,
    not_covered,
    quant_word,
)
from advisor.knowledge.shapes import approximate, quant_by_rule

Index = Mapping[str, Any]
INDEX = "knowledge/index.json"
REMEDY = "run `advisor knowledge build` or reinstall the package"


@cache
def index() -> Index:
    """The compiled facts. Raises AdvisorError if the index is missing or unreadable."""
    try:
        data: Index = unseal(read_data(INDEX), INDEX, REMEDY)
    except OSError:
        raise AdvisorError(f"{INDEX} is missing: {REMEDY}") from None
    folders = [f for f in user_dirs() if any(map(os.path.isdir, (f"{f}/hardware", f"{f}/llms")))]
    if folders:
        from advisor.knowledge.build import merge_user_files  # start-up: only with own facts

        data = merge_user_files(data, folders)
    return data


OWN_CARD = "(all: `advisor hardware list`; one that is not listed: docs/your-hardware.md)"
OWN_MODEL = "(one of your own: --model ./config.json, or its GGUF file)"


def _find(kind: str, table: str, name: str) -> str:
    keys: dict[str, str] = index()[f"{table}_keys"]
    found = find_name(str(name), keys)
    if found is None:
        if table == "hardware" and (kept_out := not_covered(name)):
            raise NotCovered(kept_out, kind)
        hint = OWN_CARD if table == "hardware" else OWN_MODEL
        if table == "hardware" and re.match(r"\s*\d.?x", str(name).lower()[:8]):
            hint = "(give the number of GPUs with --gpus)"
        raise UnknownFact(kind, str(name)[:80], likely(str(name), keys), hint)
    return found


# ---------------------------------------------------------------- hardware


class NotCovered(UnknownFact):
    """A name that is found under no spelling, as one of a kind of machine that is not covered."""

    def __init__(self, sentence: str, kind: str = "") -> None:
        AdvisorError.__init__(self, sentence)
        self.kind, self.name, self.nearest = kind, "", ()


def hardware_ids() -> tuple[str, ...]:
    """All known accelerators, in the order of the index."""
    return tuple(index()["hardware"])


def hardware(name: str) -> Hardware:
    """One accelerator by id, alias or near spelling, also "apple-m4-pro@48gb"."""
    bare, _, size = str(name).partition("@")
    if not (size.lower().endswith("gb") and size[:-2].isdigit()):
        return _hardware(_find("hardware", "hardware", name))
    known = _hardware(_find("hardware", "hardware", bare))
    memory = Quantity(value=float(size[:-2]), source=AS_ASKED, status="read")
    return known.replace(memory_gb=memory, name=f"{known.name or known.id} {size[:-2]} GB")


@cache
def _hardware(ident: str) -> Hardware:
    return Hardware.from_plain(index()["hardware"][ident])


# ---------------------------------------------------------------- models


def llm_ids() -> tuple[str, ...]:
    """Return the ids of all known models."""
    return tuple(index()["llms"])


def llm(name: str) -> LLM:
    """One model by its own file, else as `llm_by_name`. Raises UnknownFact or AdvisorError."""
    text = str(name).strip()
    if (path := _model_file(text)) is not None:
        from advisor.knowledge.model_files import read_model  # start-up: rarely asked

        return read_model(path, {ident: _llm(ident) for ident in llm_ids()})
    if own_files.is_file_name(text) and (not own_files.may_name(text) or not _ident(text)):
        raise UnknownFact("model", text[:80], (), own_files.refusal(text))
    return llm_by_name(text)


def llm_by_name(name: str) -> LLM:
    """One model by id, alias, near spelling or repository; opens nothing. Raises UnknownFact."""
    found = _ident(name)
    if found is None:
        near = nearest(name.rsplit("/", 1)[-1], index()["llms_keys"])
        raise UnknownFact("model", name[:80], near, OWN_MODEL)
    return _llm(found)


def _ident(name: str) -> str | None:
    return find_name(name, index()["llms_keys"]) or _model_in(name)


def model_path(name: str) -> str:
    """The name as engines take it: a file or folder here becomes a path (./model.gguf)."""
    text = name.strip()
    beside = own_files.is_file_name(text) or _model_file(text) is not None
    return f"./{text}" if beside and "/" not in text else name


def _model_file(text: str) -> str | None:
    keys = index()["llms_keys"]
    return own_files.model_file(text, lambda: key_of(text) in keys or _model_in(text) is not None)


@cache
def _llm(ident: str) -> LLM:
    return LLM.from_plain(index()["llms"][ident])


@lru_cache(maxsize=1024)
def _model_in(text: str) -> str | None:
    known: list[str] | None = index()["repositories"].get(text.strip().lower())
    return known[0] if known else find_model(text, index()["llm_forms"], index()["llm_exclude"])


def llm_from_text(text: str) -> LLM | None:
    """The base model that a repository, file name or path speaks of, also of a fine-tune."""
    ident = _model_in(text) if text else None
    return _llm(ident) if ident else None


def shape_of(model: LLM) -> LLM:
    """The shape for physics: its own, its proxy's, or made of counts. Raises AdvisorError."""
    if model.layers is not None and model.mixer_params_b is not None:
        return model
    if model.proxy:
        return _llm(_find("model", "llms", model.proxy))
    if model.total_params_b:
        return approximate(model)
    raise AdvisorError(
        f"the shape of {model.name or model.id} is not known: add total_params_b and "
        "active_params_b in a model file (see `advisor models show qwen3.6-35b-a3b`)"
    )


def known_shape(model: LLM) -> LLM | None:
    """The same, or None where none of them is known."""
    try:
        return shape_of(model)
    except AdvisorError:
        return None


def checkpoints(model: LLM) -> tuple[Checkpoint, ...]:
    """All published checkpoints, those beside the drafters last; of a user's model, his alone."""
    if model.checkpoints and model.checkpoints[0].source == AS_ASKED:
        return model.checkpoints
    beside = _drafter_file(model.id)
    return (*model.checkpoints, *(beside.checkpoints if beside is not None else ()))


def checkpoint(
    model: LLM, quant: Quant | str, engine: str | None, method: str = "mtp"
) -> Checkpoint | None:
    """A repository of the model at this quantisation; with MTP one that keeps its tensors, with an
    inside drafter one that holds it. None where none is known.
    """
    wanted = quant if isinstance(quant, str) else quant.id
    fitting = (
        c
        for c in checkpoints(model)
        if c.quant == wanted and (not engine or not c.engines or engine in c.engines)
    )
    if method == "none":
        return next(fitting, None)
    heads = method == "mtp"
    held = {name for d in drafters(model) if d.method == method for name in d.inside}
    return min(
        (c for c in fitting if not heads or c.keeps_mtp is not False),
        key=lambda c: (c.repository not in held, heads and c.keeps_mtp is not True),
        default=None,
    )


def drafters(model: LLM) -> tuple[Drafter, ...]:
    """The published drafters of a model for every engine, the preferred first."""
    found = _drafter_file(model.id)
    return found.drafters if found is not None else ()


@cache
def drafter_home(repository: str) -> tuple[str, Drafter] | None:
    """(model id, drafter) of a published drafter's repository, None for one that no file names."""
    wanted = repository.strip().lower()
    for ident in index().get("drafters", {}):
        found = _drafter_file(ident)
        for one in found.drafters if found is not None else ():
            if one.repository.lower() == wanted:
                return ident, one
    return None


@cache
def _drafter_file(ident: str) -> DrafterFile | None:
    found = index().get("drafters", {}).get(ident)
    return DrafterFile.from_plain(found) if found is not None else None


# ---------------------------------------------------------------- quantisations


def quant_ids() -> tuple[str, ...]:
    """Return the ids of all known quantisations."""
    return tuple(index()["quants"])


def quant(name: str) -> Quant:
    """One quantisation by id or alias, else by its family's rule. Raises UnknownFact."""
    keys: dict[str, str] = index()["quants_keys"]
    key = key_of(str(name))
    ident = keys.get(key) or keys.get(key.replace(".", ""))
    if ident:
        return _quant(ident)
    made = quant_by_rule(str(name), index()["quants"])
    if made is not None:
        return Quant.from_plain(made)
    ident = find_name(str(name), keys)
    if ident is None:
        hint = "(for example fp8, awq-int4, nvfp4, q4_k_m)"
        raise UnknownFact("quantisation", str(name)[:80], nearest(str(name), keys), hint)
    return _quant(ident)


@cache
def _quant(ident: str) -> Quant:
    return Quant.from_plain(index()["quants"][ident])


def quant_from_text(text: str) -> Quant | None:
    """The quantisation that a repository name, GGUF file name or path speaks of, or None."""
    known: list[str] | None = index()["repositories"].get(text.strip().lower()) if text else None
    if known and known[1]:
        return _quant(known[1])
    word = quant_word(text) if text else None
    if word is None:
        return None
    try:
        return quant(word)
    except UnknownFact:
        return None


# ---------------------------------------------------------------- methods, sources, thresholds


def source(ident: str) -> Source:
    """A citation by id. Raises UnknownFact."""
    return Source.from_plain({"id": ident, **_entry("source", ident)})


def _entry(kind: str, ident: str) -> dict[str, Any]:
    table: dict[str, Any] = index()[f"{kind}s"]
    if ident not in table:
        raise UnknownFact(kind, ident[:80], nearest(ident, {key_of(name): name for name in table}))
    entry: dict[str, Any] = table[ident]
    return entry


def source_of(ident: str) -> Source | None:
    """The entry of a source, None where it is a citation of its own."""
    return source(ident) if ident in index()["sources"] else None


@cache
def threshold(ident: str) -> Quantity:
    """A sourced number that code uses. Raises UnknownFact."""
    row = _entry("threshold", ident)
    return Quantity(value=row["value"], source=row["source"], status=row.get("status", "read"))
