from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.domain.patterns import is_only_near
from advisor.engines.sglang import ALGORITHM, METHODS, UNMODELLED
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, value_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.releases import between, release
from advisor.rules.kit.values import nearest, slip

MEANT = {
    "MTP": "NEXTN",
    "DRAFT_MODEL": "STANDALONE",
    "DRAFT": "STANDALONE",
    "EAGLE-3": "EAGLE3",
    "EAGLE2": "EAGLE",
}
TAKEN = (*(word for word in METHODS if word != "MTP"), *UNMODELLED, "NONE")


@rule(
    severity="error",
    engines=("sglang",),
    versioned=True,
    sources=(
        "sgl-project/sglang python/sglang/srt/speculative/spec_info.py "
        "(SpeculativeAlgorithm.from_string)",
        "sglang 0.5.11 and 0.5.12 parsers",
    ),
)
def sglang_algorithm_unknown(case: Case) -> Iterator[Hit]:
    """A speculative algorithm that SGLang does not have, such as vLLM's `mtp`.

    Why: the parser lets any word through since 0.5.12; the server then stops with "Unknown
    speculative algorithm name". Only a plugin that registers the name makes it known. The model's
    own MTP head is NEXTN here.
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm MTP
        --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8
        --speculative-algorithm NEXTN
        --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4
    """
    found = flag(case, ALGORITHM)
    word = (found.value or "").upper() if found is not None and not found.unresolved else ""
    if found is None or not word:
        return
    if word in TAKEN:
        since = (catalogue(case).notes.get("methods_since") or {}).get(METHODS.get(word, ""))
        if since and between(release(case), since, None) is False:
            what = f"Use sglang {since} or newer."
            yield Hit(
                f"{found.value} came with SGLang {since}",
                flag=found,
                fix=Fix(text=what),
            )
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
        fix=value_fix(case, found, near, text, safe=word in MEANT) if near else Fix(text=text),
        everywhere=word in MEANT or slip(word, near),
        slip=word in MEANT or slip(word, near),
        sole=is_only_near(word, near, TAKEN),
    )
