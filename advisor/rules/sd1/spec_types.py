"""Speculation types of llama-server and algorithms of SGLang."""

from advisor.domain.nouns import Case
from advisor.domain.spelling import is_only_near
from advisor.engines.sglang import ALGORITHM, METHODS, UNMODELLED
from advisor.knowledge.rule_data import table
from advisor.readers.syntax.placeholders import to_fill
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import model_text
from advisor.rules.kit.fixes import add_fix, is_release_pinned, set_fix, span_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.releases import between, build_order, is_newest, release, version_label
from advisor.rules.kit.values import nearest, slip

RENAMED = {
    "mtp": "draft-mtp",
    "nextn": "draft-mtp",
    "eagle3": "draft-eagle3",
    "dflash": "draft-dflash",
    "draft": "draft-simple",
}
SINCE = "b9180"
TYPES = table("compatibility")["spec_types_since"]
KNOWN = frozenset(TYPES.keys() - {"sources"}) | {"none", "draft-simple"}
KNOWN |= {"ngram-map-k", "ngram-map-k4v", "ngram-mod"}
STARTERS = (
    *("--spec-type", "--spec-draft-model", "--spec-draft-hf", "--spec-default"),
    *("--lookup-cache-static", "--lookup-cache-dynamic"),
)
NUMBERS = ("--spec-draft-n-max", "--spec-draft-n-min", "--spec-draft-p-min", "--spec-draft-p-split")
DRAFT = "Add --spec-type {} (draft-eagle3 or draft-dflash for such a drafter)."
DRAFTERS = {
    "mtp": "mtp",
    "assistant": "mtp",
    "eagle3": "eagle3",
    "dflash": "dflash",
    "dspark": "dspark",
}
WHAT = "Add --spec-type draft-mtp (for a GGUF with the MTP head), or remove the numbers."
MEANT = {
    "MTP": "NEXTN",
    "DRAFT_MODEL": "STANDALONE",
    "DRAFT": "STANDALONE",
    "EAGLE-3": "EAGLE3",
    "EAGLE2": "EAGLE",
}
TAKEN = (*(word for word in METHODS if word != "MTP"), *UNMODELLED, "NONE")


@rule("SD113", "error", "llama-server", versioned=True)
@when(options="--spec-type")
def spec_type_mtp(case: Case) -> Hits:
    """`--spec-type mtp`, the spelling of the branch before it was merged.

    Why: mainline takes `draft-mtp` and exits at the old word; a fork may ignore it.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type mtp
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    Sources: ggml-org/llama.cpp#22964; ggml-org/llama.cpp#22673; llama-server 0.5.0, run
    """
    found = case.certain("--spec-type")
    words = [word.strip() for word in ((found.value if found else None) or "").split(",")]
    old = [word for word in words if word in RENAMED]
    if found is not None and old and between(release(case), SINCE, None) is not False:
        new, safe = ",".join(RENAMED.get(word, word) for word in words), is_release_pinned(case)
        what = f"Write {new} (not on a fork that keeps the old word)."
        yield Hit(
            f"--spec-type {found.value}: mainline llama.cpp calls it {new}; '{old[0]}' is valid "
            "only on forks and on the branch before the merge",
            flag=found,
            fix=span_fix(case, found.value_span, new, what, safe=safe),
            severity="info" if case.launch.fork else None,
            everywhere="mtp" not in old or is_newest(case),
            versions=f"mainline {SINCE} and later",
        )


@rule("SD114", "error", "llama-server", versioned=True, data="compatibility.spec_types_since")
@when(options="--spec-type")
def spec_type_too_new(case: Case) -> Hits:
    """A speculative type that the llama.cpp build does not have, or that none has.

    Why: llama-server exits on an unknown type.
    Bad (version=b9010): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    Good (version=b9518): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    """
    found, at = case.certain("--spec-type"), release(case)
    if found is None or not found.value:
        return
    for word in (part.strip() for part in found.value.split(",")):
        since = TYPES.get(word) if word != "sources" else None
        lowest = build_order(since)
        if since is not None and at is not None and lowest is not None and at < lowest:
            yield Hit(
                f"llama.cpp {version_label(case)} has no speculative type '{word}'; it is in "
                f"{since} and later",
                flag=found,
                fix=f"Use llama.cpp {since} or newer.",
            )
        elif since is None and word not in KNOWN and word not in RENAMED:
            near = nearest(word, sorted(KNOWN))
            if to_fill(word, named=not slip(word, near)):
                continue
            what = f"Use {near}." if near else "Use draft-mtp for a model with its own MTP head."
            yield Hit(
                f"llama.cpp has no speculative type '{word}'; "
                + (f"did you mean {near}?" if near else f"there are {', '.join(sorted(KNOWN))}"),
                flag=found,
                fix=set_fix(case, found, found.value.replace(word, near), what) if near else what,
                versions="all catalogued builds",
                everywhere=True,
                slip=slip(word, near),
                sole=is_only_near(word, near, KNOWN),
            )


@rule("SD124", "warning", "llama-server")
def spec_numbers_without_type(case: Case) -> Hits:
    """Draft lengths without a speculative type or a draft model.

    Why: --spec-type defaults to none: nothing is drafted, and two equal servers are compared.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-draft-n-max 2
    Good: with --spec-type draft-mtp added
    Sources: llama-server 0.5.0 --help: --spec-type defaults to none; ggml-org/llama.cpp#25345
    """
    given = [found for found in case.launch.flags if found.name in NUMBERS]
    draft = case.flag("--spec-draft-model", "--spec-draft-hf")
    kind, version = case.flag("--spec-type", "--spec-default"), case.launch.engine_version
    # older builds draft with a draft model alone; so does a file with options of that time
    dated = any(found.name.startswith("--draft") for found in case.launch.flags)
    alone = catalogue(case).behaviour("draft_model_alone_drafts", version)
    alone = alone or (version is None and dated)
    if draft is not None and (kind is None or kind.value == "none") and not alone:
        # the build is known, newest by its image, or has options of the newer ones
        recent = version is not None or is_newest(case)
        recent = recent or any(found.raw.startswith("--spec-") for found in case.launch.flags)
        name = (draft.value or "").lower()
        meant = "draft-" + next((DRAFTERS[one] for one in DRAFTERS if one in name), "simple")
        what = DRAFT.format(meant)
        yield Hit(
            f"{draft.raw} without --spec-type: the draft model is loaded and nothing is drafted",
            flag=draft,
            severity=None if recent else "info",
            fix=add_fix(case, draft, "--spec-type", meant, what)
            if kind is None
            else set_fix(case, kind, meant, what),
        )
    elif given and case.flag(*STARTERS) is None:
        yield Hit(
            f"{given[0].raw} without --spec-type or a draft model: nothing is drafted",
            flag=given[0],
            fix=add_fix(case, given[0], "--spec-type", "draft-mtp", WHAT)
            if "mtp" in model_text(case).lower()
            else WHAT,
        )


@rule("SD127", "error", "sglang", versioned=True)
@when(options="--speculative-algorithm")
def sglang_algorithm_unknown(case: Case) -> Hits:
    """A speculative algorithm that SGLang does not have, such as vLLM's `mtp`.

    Why: the parser takes any word since 0.5.12, and the server stops. The own MTP head is NEXTN
    here.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm MTP
    Good: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN
    Sources: sgl-project/sglang python/sglang/srt/speculative/spec_info.py
        (SpeculativeAlgorithm.from_string); sglang 0.5.11 and 0.5.12 parsers
    """
    found = case.certain(ALGORITHM)
    word = (found.value or "").upper() if found is not None else ""
    if found is None or not word:
        return
    if word in TAKEN:
        since = (catalogue(case).notes.get("methods_since") or {}).get(METHODS.get(word, ""))
        if since and between(release(case), since, None) is False:
            what = f"Use sglang {since} or newer."
            yield Hit(f"{found.value} came with SGLang {since}", flag=found, fix=what)
        return
    option = catalogue(case).find(ALGORITHM, catalogued_version(case))
    if option is not None and option.choices:  # the parser itself refuses it: SD107
        return
    near = MEANT.get(word) or nearest(word, TAKEN)
    text = f"Use {near}." if near else f"Use one of {', '.join(TAKEN[:7])}."
    yield Hit(
        f"SGLang has no speculative algorithm {found.value}"
        + (f"; it calls it {near}" if word in MEANT else ""),
        flag=found,
        fix=span_fix(case, found.value_span, near, text, safe=word in MEANT) if near else text,
        slip=word in MEANT or slip(word, near),
        sole=is_only_near(word, near, TAKEN),
    )
