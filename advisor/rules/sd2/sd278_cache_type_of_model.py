from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, flags, replace_fix, unread
from advisor.rules.kit.fixes import add_fix

OPTION = "--kv-cache-dtype"


@rule(
    severity="error",
    engines=("vllm",),
    needs=("model",),
    sources=("vllm recipe of DeepSeek-V4-Flash", "vllm models/deepseek_v4/attention.py"),
)
def cache_type_of_model(case: Case) -> Iterator[Hit]:
    """A KV cache type that vLLM's class for this model does not take.

    Why: the attention of DeepSeek-V4 keeps its cache in fp8 alone; with auto or 16 bits the server
    stops with "DeepseekV4 only supports fp8 kv-cache format".
    Bad: vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 4
    Good: vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size 4 --kv-cache-dtype fp8
    """
    model, found = case.facts.model, flag(case, OPTION)
    needed = model.kv_cache_dtype if model is not None else None
    if model is None or needed is None or (found is not None and found.unresolved):
        return
    if found is not None and (found.value or "") not in ("auto", "bfloat16", "float16"):
        return
    text = f"Set {OPTION} {needed}."
    first = next((one for one in flags(case) if one.raw.startswith("--")), None)
    yield Hit(
        f"{model.name or model.id} takes no KV cache but {needed} in vLLM: the server stops while "
        f"it loads",
        flag=found or flag(case, "--model"),
        severity="warning" if found is None and unread(case) else None,
        fix=add_fix(case, first, OPTION, needed, text)
        if found is None
        else replace_fix(case, found, f"{found.raw} {needed}", text, safe=True),
    )
