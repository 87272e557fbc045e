"""Options and their values by release."""

import re

from advisor.domain.nouns import Case, Fix, Flag
from advisor.engines.arguments.llama_words import mode_of
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.fixes import (
    drop_fix,
    is_release_pinned,
    is_shared,
    joint_fix,
    rename_env_fix,
    rename_fix,
    span_fix,
)
from advisor.rules.kit.flags import (
    catalogue,
    catalogued_version,
    find_removal,
    is_gone_everywhere,
    lookup_spelling,
    option_at_release,
)
from advisor.rules.kit.releases import is_after_build, version_name


@rule("SD102", "error", "catalogued", versioned=True)
def removed_flag(case: Case) -> Hits:
    """A flag that the chosen engine release no longer takes.

    Why: the server refuses to start, often with nothing but its usage text.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --draft-max 8
    Good (version=0.5.0): with --spec-type draft-mtp --spec-draft-n-max for --draft-max
    Sources: the engines' own parsers, catalogued by release; ggml-org/llama.cpp#22397;
        ai-dynamo/dynamo#8693
    """
    known, version = catalogue(case), catalogued_version(case) or catalogue(case).newest
    for given in case.launch.flags:
        removal, option = find_removal(case, given), known.option(given.name, version)
        # the variable of a removed option is not read, but for those at which the server stops
        read = given.origin != "env" or (option is not None and option.env == given.raw)
        if removal is None or not read or is_after_build(case, removal.version):
            continue
        if option_at_release(case, given) == "removed":
            later = f"{version_name(removal.version)} and later" if removal.version else ""
            names = given.raw, "--" + given.raw.replace("_", "-")
            named = any(name.startswith("-") and name in removal.message for name in names)
            gone = is_gone_everywhere(case, given)
            yield Hit(
                removal.message if named else f"{given.raw}: {removal.message}",
                flag=given,
                severity="info" if case.launch.fork and not gone else None,
                fix=successor_fix(case, given),
                sources=(removal.source,) if removal.source else (),
                versions=later or "all catalogued releases",
                everywhere=gone,
            )


def successor_fix(case: Case, found: Flag) -> Fix:
    """Rename where another option means the same, take away what says nothing, else say what to do.

    Safe only where the release is pinned: on another one the old name may be the right one.
    """
    known, version, name = catalogue(case), catalogued_version(case), lookup_spelling(found)
    tables, what = table("compatibility"), f"instead of {found.raw}."
    use, pinned = known.successor(name, version), version is not None and is_release_pinned(case)
    if use and found.origin == "env" and (heir := known.find(use, version)) and heir.env:
        return rename_env_fix(case, found.raw, heir.env, f"Use {heir.env} {what}")
    before = (known.notes.get("removed_before") or {}).get(name)
    if use is None or (before and not before.get("same_value")):
        if use is not None and case.launch.flag(use) is None:
            return Fix(text=f"Use {use} {what}")
        sure = pinned and name in tables["safe_removals"]["value"]
        return span_fix(case, found.span, "", f"Remove {found.raw}.", safe=sure)
    successors = known.notes.get("successors") or {}
    row = successors.get(name) or {}
    value = row.get("value", found.value)
    plain = value is not None and re.fullmatch(r"[\w./:+-]+", value) and found.origin != "env"
    if not plain or found.unresolved:
        return Fix(text=f"Use {use} {what}")
    merged = {name for name, heir in successors.items() if "value" in (heir or {})}
    rivals = [other for other in case.launch.flags if lookup_spelling(other) in merged]
    if "value" in row and len(rivals) > 1:
        return _together(case, use, rivals)
    usual = found.origin == "cli" or (found.value == "false") == found.raw.startswith("no")
    if not usual:  # `mmap = false` in a preset says what `no-mmap` says
        return Fix(text=f"Use {use} {what}")
    if case.plan.method == "ngram" and use.startswith("--spec-draft"):
        return Fix(text=f"Use the option of that n-gram type {what}")
    safe = pinned and name in tables["safe_renames"]["value"] and not is_shared(case, found.span)
    what = f"Write {use} {value} {what}"
    if "value" not in row:
        return rename_fix(case, found, use, what, safe=safe)
    new = f"{use} {value}" if found.origin == "cli" else f"{use.lstrip('-')} = {value}"
    return span_fix(case, found.span, new, what, safe=safe and found.origin in ("cli", "ini"))


def _together(case: Case, use: str, rivals: list[Flag]) -> Fix:
    """Several switches that became one option: --no-mmap and --mlock are --load-mode mlock."""
    value = mode_of(rivals)
    value = value if value == "dio" or "mlock" in value else ""
    names = ", ".join(one.raw for one in rivals)
    what = f"Write {use} {value or 'with one mode'} instead of {names}."
    if not value or any(one.origin != "cli" or one.unresolved for one in rivals):
        return Fix(text=what)
    safe = is_release_pinned(case) and not any(is_shared(case, one.span) for one in rivals)
    texts = (f"{use} {value}", *[""] * (len(rivals) - 1))  # in the place of the first
    fixes = (span_fix(case, one.span, text, what) for one, text in zip(rivals, texts, strict=True))
    return joint_fix(what, *fixes, safe=safe)


@rule("SD104", "error", "catalogued")
@when(needs="version")
def flag_too_new(case: Case) -> Hits:
    """A flag that the pinned release does not have yet.

    Why: the server refuses to start; the flag was taken from a newer release's documentation.
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-scheduled-tokens 4096
    Good (version=0.26.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-scheduled-tokens 4096
    Sources: the engines' own parsers, catalogued by release
    """
    for found in case.launch.flags:
        if option_at_release(case, found) != "too-new":
            continue
        ever = catalogue(case).find(lookup_spelling(found), None)
        since = ever.since if ever else "a later release"
        what = f"Use {case.plan.engine} {since} or newer, or remove {found.raw}."
        yield Hit(
            f"{case.plan.engine} {catalogued_version(case)} has no {found.raw}; it came with "
            f"{since}",
            flag=found,
            fix=drop_fix(case, found, what),
        )
