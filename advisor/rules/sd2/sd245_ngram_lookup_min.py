from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.case import calls_tools, spec_flag
from advisor.rules.kit.fixes import json_add_fix, json_fix
from advisor.rules.kit.flags import spec_config
from advisor.rules.sd1.sd111_spec_method_unknown import is_suffix_decoding

SAFE_MIN = 8


@rule(
    severity="info",
    engines=("vllm",),
    speculative=True,
    sources=("vllm-project/vllm#56077", "vllm-project/vllm#40875"),
)
def ngram_lookup_min(case: Case) -> Iterator[Hit]:
    """N-gram speculation that copies after two matching tokens.

    Why: with prompt_lookup_min at its default most drafts are wrong, and tool calls were reported
    corrupted; a longer match keeps the drafts that pay. A warning where tool calls are parsed.
    Bad: vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice --tool-call-parser qwen3_coder
        --speculative-config '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}'
    Good: vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice --tool-call-parser qwen3_coder
        --speculative-config
        '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":12,"prompt_lookup_min":8}'
    """
    read = spec_config(case)
    if case.plan.method != "ngram" or read is None or read.data is None or is_suffix_decoding(case):
        return
    least = read.data.get("prompt_lookup_min")
    if isinstance(least, int) and least >= SAFE_MIN:
        return
    yield Hit(
        f"n-gram drafts after {least if least is not None else 'the default of 2'} matching "
        f"tokens are mostly wrong",
        flag=spec_flag(case),
        severity="warning" if calls_tools(case) else None,
        fix=lookup_fix(case, read.flag, isinstance(least, int), read.data.get("prompt_lookup_max")),
    )


def lookup_fix(case: Case, place: Flag, given: bool, most: object) -> Fix:
    """An edit only where the largest length leaves room for it."""
    what = f'Set "prompt_lookup_min":{SAFE_MIN}, and use n-gram for copying and editing only.'
    if not isinstance(most, int) or most < SAFE_MIN:
        return Fix(text=what)
    key = "prompt_lookup_min"
    return (json_fix if given else json_add_fix)(case, place, key, str(SAFE_MIN), what)
