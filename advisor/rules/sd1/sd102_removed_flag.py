import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags, rename_fix, replace_fix
from advisor.rules.kit.fixes import is_release_pinned, is_shared
from advisor.rules.kit.flags import (
    CATALOGUED,
    catalogue,
    catalogued_version,
    find_removal,
    is_gone_everywhere,
    lookup_spelling,
    option_at_release,
)
from advisor.rules.kit.releases import version_name


@rule(
    severity="error",
    engines=CATALOGUED,
    versioned=True,
    sources=(
        "the engines' own parsers, catalogued by release",
        "ggml-org/llama.cpp#22397",
        "ai-dynamo/dynamo#8693",
    ),
)
def removed_flag(case: Case) -> Iterator[Hit]:
    """A flag that the chosen engine release no longer takes.

    Why: the server refuses to start, often with nothing but its usage text.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --draft-max 8
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
        --spec-draft-n-max 8
    """
    for found in flags(case):
        removal = (
            find_removal(case, found)
            if found.origin != "env" and option_at_release(case, found) == "removed"
            else None
        )
        if removal is None:
            continue
        yield Hit(
            removal.message if found.raw in removal.message else f"{found.raw}: {removal.message}",
            flag=found,
            fix=successor_fix(case, found),
            sources=(removal.source,) if removal.source else (),
            versions=f"{version_name(removal.version)} and later"
            if removal.version
            else "all catalogued releases",
            everywhere=is_gone_everywhere(case, found),
        )


def successor_fix(case: Case, found: Flag) -> Fix:
    """Rename where another option means the same, take away what says nothing, else say what to do.

    Safe only where the release is pinned: on another one the old name may be the right one.
    """
    known, version, name = catalogue(case), catalogued_version(case), lookup_spelling(found)
    tables = table("compatibility")
    use = known.successor(name, version)
    before = (known.notes.get("removed_before") or {}).get(name)
    if use is None or (before and not before.get("same_value")):
        sure = (
            version is not None
            and is_release_pinned(case)
            and name in tables["safe_removals"]["value"]
        )
        return removal_fix(case, found, use, sure)
    successors = known.notes.get("successors") or {}
    row = successors.get(name) or {}
    value = row.get("value", found.value)
    if (
        value is None
        or found.unresolved
        or not re.fullmatch(r"[\w./:+-]+", value)
        or found.origin == "env"
    ):
        return Fix(text=f"Use {use} instead of {found.raw}.")
    rivals = [
        other for other in flags(case) if "value" in (successors.get(lookup_spelling(other)) or {})
    ]
    if "value" in row and len(rivals) > 1:
        return _together(case, found, use, rivals)
    usual = found.origin == "cli" or (found.value == "false") == found.raw.startswith("no")
    if not usual:  # `mmap = false` in a preset says what `no-mmap` says
        return Fix(text=f"Use {use} instead of {found.raw}.")
    if case.plan.method == "ngram" and use.startswith("--spec-draft"):
        return Fix(text=f"Use the option of that n-gram type instead of {found.raw}.")
    safe = (
        version is not None
        and is_release_pinned(case)
        and name in tables["safe_renames"]["value"]
        and not is_shared(case, found.span)
    )
    what = f"Write {use} {value} instead of {found.raw}."
    if "value" not in row:
        return rename_fix(case, found, use, what, safe=safe)
    new = f"{use} {value}" if found.origin == "cli" else f"{use.lstrip('-')} = {value}"
    return replace_fix(case, found, new, what, safe=safe and found.origin in ("cli", "ini"))


def _together(case: Case, found: Flag, use: str, rivals: list[Flag]) -> Fix:
    """Several switches that became one option: --no-mmap and --mlock are --load-mode mlock."""
    words = {one.name for one in rivals if one.value != "false"}
    locked = (
        "mlock"
        if any(one.name == "--mmap" and one.value == "false" for one in rivals)
        else "mmap+mlock"
    )
    value = "dio" if "--direct-io" in words else locked if "--mlock" in words else None
    what = (
        f"Write {use} {value or 'with one mode'} instead of {', '.join(one.raw for one in rivals)}."
    )
    literal = all(one.origin == "cli" and one.span and not one.unresolved for one in rivals)
    if value is None or not literal:
        return Fix(text=what)
    edits = [
        replace_fix(case, one, f"{use} {value}" if one is rivals[0] else "", what, safe=False)
        for one in rivals
    ]
    safe = is_release_pinned(case) and not any(is_shared(case, one.span) for one in rivals)
    return Fix(text=what, safe=safe, edits=tuple(edit for one in edits for edit in one.edits))


def removal_fix(case: Case, found: Flag, use: str | None, safe: bool) -> Fix:
    """Return the fix: the replacement where one exists, else the removal of the flag."""
    if use is not None and case.launch.flag(use) is None:
        return Fix(text=f"Use {use} instead of {found.raw}.")
    return replace_fix(case, found, "", f"Remove {found.raw}.", safe=safe)
