from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import flags, replace_fix, version_name
from advisor.rules.spelling import CATALOGUED, catalogue, catalogued_version, gone, standing, written
from advisor.types import Case, Fix, Flag


@rule(
    severity="error",
    engines=CATALOGUED,
    needs=("launch",),
    versioned=True,
    sources=("the engines' own parsers, catalogued by release", "ggml-org/llama.cpp#22397", "ai-dynamo/dynamo#8693"),
)
def removed_flag(case: Case) -> Iterator[Hit]:
    """A flag that the chosen engine release no longer takes.

    Why: the server refuses to start, often with nothing but its usage text.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --draft-max 8
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp --spec-draft-n-max 8
    """
    for found in flags(case):
        removal = gone(case, found) if found.origin != "env" and standing(case, found) == "removed" else None
        if removal is None:
            continue
        yield Hit(
            removal.message if found.raw in removal.message else f"{found.raw}: {removal.message}",
            flag=found,
            fix=successor_fix(case, found),
            sources=(removal.source,) if removal.source else (),
            versions=f"{version_name(removal.version)} and later" if removal.version else "all catalogued releases",
        )


def successor_fix(case: Case, found: Flag) -> Fix:
    """Rename where one flag takes the other's place with the same value; otherwise say what to do."""
    use = catalogue(case).successor(written(found), catalogued_version(case))
    if use is None:
        return Fix(text=f"Remove {found.raw}.")
    option = catalogue(case).find(use, catalogued_version(case))
    plain = found.value is not None and not found.unresolved and " " not in found.value and option is not None
    if not plain or found.origin != "cli" or (option and option.takes_value is False):
        return Fix(text=f"Use {use} instead of {found.raw}.")
    return replace_fix(case, found, f"{use} {found.value}", f"Rename {found.raw} to {use}.", safe=True)
