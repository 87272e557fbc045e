"""Which repository a launch names: a published quantisation, or 16 bit weights to quantise."""

import os

from advisor import engines
from advisor.domain.nouns import AS_ASKED, LLM, Checkpoint, Facts, Hardware, Quant, Request
from advisor.domain.records import NamedTuple
from advisor.domain.sourced import sourced
from advisor.engines.traits import gguf_engine, traits
from advisor.knowledge import store as knowledge
from advisor.knowledge.model_files import READ
from advisor.knowledge.names import quant_word

PLACEHOLDER_ORG = "YOUR-ORG/"  # before the name of a checkpoint that nobody is known to publish
FULL = "bf16"
# beyond it, a published checkpoint of the device's own formats comes first
MOST_MADE_GB = sourced(
    600, "GB", "own choice: 16 bit weights that are read and quantised at every start", "chosen"
)
KEPT = sourced(
    0.9, "share of the usable memory", "for 16-bit weights while the card quantises them", "assumed"
)


class Reference(NamedTuple):
    """What a launch names: the model, and the value of --quantization where it is needed."""

    model: str
    quantization: str | None = None
    known: bool = True


def reference(facts: Facts, method: str) -> Reference:
    """The model's repository at this quantisation, or one to quantise, or a placeholder."""
    model, quant = facts.model, facts.quant
    own, engine = own_name(facts.request), engines.canonical(facts.engine or "")
    if own is not None and quant is not None:
        # GGUF files or a folder
        if engine is not None and traits(engine).gguf == ("gguf" in own.lower()):
            at_start = quant.id in traits(facts.engine).quantizes_at_load and not (
                model is not None and knowledge.checkpoint(model, quant, facts.engine, "none")
            )
            return Reference(own, quant.id if at_start else None)
        # its files are not of the form that is loaded
        last_part = own.rstrip("/").rsplit("/", 1)[-1].partition(":")[0] or "MODEL"
        return Reference(f"{PLACEHOLDER_ORG}{last_part}-{quant.id.upper()}", known=False)
    if model is not None and quant is not None:
        published = knowledge.checkpoint(model, quant, facts.engine, method)
        if published is not None:
            return Reference(address(published))
        if (full := at_load(facts, method)) is not None:
            return Reference(address(full), quant.id)
    name = model.name or model.id if model is not None else "MODEL"
    word = (quant.id if quant is not None else "QUANT").upper()
    return Reference(f"{PLACEHOLDER_ORG}{name.replace(' ', '-')}-{word}", known=False)


def own_name(request: Request | None) -> str | None:
    """The repository, file of one or folder that is not listed: served by its own name."""
    name = request.model.strip() if request is not None else ""
    if "/" not in name or "://" in name or len(name) > 400:
        return None
    folder = name.removesuffix("/config.json")  # which is what an engine takes
    if folder in (".", "..") or folder != name:
        return os.path.abspath(folder) if folder in (".", "..") else folder
    repository, _, file = name.lower().partition(":")
    if (known := knowledge.index()["repositories"].get(repository)) is None:
        return name
    files = {c.file for c in knowledge.llm_by_name(known[0]).checkpoints if c.file is not None}
    return name if file and files and file not in map(str.lower, files) else None


def with_own(model: LLM, own: str) -> LLM:
    """The model with the user's repository as its only checkpoint: it has other weights."""
    gguf = "gguf" in own.lower()
    loads = tuple(name for name in engines.ENGINES if gguf_engine(name) == gguf)
    named = knowledge.quant_from_text(own)
    read = [row.quant for row in model.checkpoints if row.source == READ]
    folders = (row for row in model.checkpoints if row.file is None)
    # where no name tells: as the model itself is published, 16 bits for most
    native = next((row.quant for row in folders if quant_word(row.repository) is None), FULL)
    quants = read or [named.id if named is not None else native]
    if gguf and named is None:  # such a repository holds a file of each step
        known = map(knowledge.quant, knowledge.quant_ids())
        quants = [quant.id for quant in known if set(loads) & set(quant.engines)]
    rows = tuple(
        Checkpoint(quant=quant_id, repository=own, engines=loads, source=AS_ASKED)
        for quant_id in quants
    )
    return model.replace(checkpoints=rows)


def is_own(model: LLM) -> bool:
    """Whether the model is a user's repository or folder, taken for the one it names."""
    return any(row.source == AS_ASKED for row in model.checkpoints)


def address(checkpoint: Checkpoint) -> str:
    """A checkpoint as an engine takes it: the file of a GGUF behind a colon."""
    file = "" if checkpoint.file is None else f":{checkpoint.file}"
    return f"{checkpoint.repository}{file}"


def at_load(facts: Facts, method: str) -> Checkpoint | None:
    """The 16 bit checkpoint that the engine can quantise at load, where it fits; else None."""
    model, quant, engine = facts.model, facts.quant, engines.canonical(facts.engine or "")
    if model is None or quant is None or engine is None:
        return None
    size, params = facts.device.memory_gb, model.total_params_b
    if quant.id not in traits(engine).quantizes_at_load or size is None or params is None:
        return None
    full = knowledge.checkpoint(model, FULL, facts.engine, method)
    return full if 2 * params <= KEPT * size.value * facts.gpus else None


def available(facts: Facts) -> bool:
    """Whether a repository of this quantisation exists or the user can make it."""
    model, quant, engine = facts.model, facts.quant, facts.engine
    if model is None or quant is None or engine is None:
        return False
    if knowledge.checkpoint(model, quant, engine, "none") or at_load(facts, "none"):
        return True
    # a user can make a GGUF of each step from tensors of his own
    own = is_own(model) and not any("gguf" in c.repository.lower() for c in model.checkpoints)
    return own and gguf_engine(engine)


def made_late(facts: Facts) -> bool:
    """Whether the quantisation would be made of a very large 16 bit checkpoint at every start."""
    model, quant = facts.model, facts.quant
    if model is None or quant is None or 2 * (model.total_params_b or 0.0) <= MOST_MADE_GB:
        return False
    at_start = at_load(facts, "none") is not None
    return at_start and knowledge.checkpoint(model, quant, facts.engine, "none") is None


def others(model: LLM, engine: str, hw: Hardware, tried: tuple[str, ...]) -> tuple[Quant, ...]:
    """Published quantisations that run here, without `tried`: the model's own, then most bits."""
    ids = [*dict.fromkeys(row.quant for row in knowledge.checkpoints(model))]
    runs = [
        quant
        for quant in (knowledge.quant(name) for name in ids if name not in tried)
        if engine in (quant.engines or (engine,)) and hw.arch in (quant.archs or (hw.arch,))
        if knowledge.checkpoint(model, quant, engine, "none") is not None
    ]
    return tuple(sorted(runs, key=lambda quant: (quant.id != ids[0], -(quant.bits or 0.0))))
