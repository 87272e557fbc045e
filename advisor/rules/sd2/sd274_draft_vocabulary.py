from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flag, spec_flag
from advisor.rules.kit.flags import spec_config
from advisor.rules.kit.models import base_name, vocabulary

NEAR = 128  # llama.cpp lets the sizes differ by so many


@rule(
    severity="error",
    engines=("vllm", "sglang", *GGUF_ENGINES),
    speculative=True,
    sources=(
        "vllm vllm/config/speculative.py (verify_equal_vocab_size_if_draft_model)",
        "sgl-project/sglang#24051",
        "ggml-org/llama.cpp#3812",
        *table("compatibility")["vocabularies"]["sources"],
    ),
)
def draft_vocabulary(case: Case) -> Iterator[Hit]:
    """A draft model with another vocabulary than the model that it drafts for.

    Why: draft tokens are numbers of the target's vocabulary. vLLM refuses unequal sizes; SGLang
    refuses them or, before it checked, answered with wrong tokens; llama-server gives up drafting
    or translates each token, which costs more than it gains.
    Bad: vllm serve meta-llama/Llama-3.3-70B-Instruct
        --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}'
    Good: vllm serve Qwen/Qwen3-32B
        --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":4}'
    """
    draft, model = case.plan.draft_model, case.plan.model or case.launch.model
    if case.plan.method != "draft_model" or not draft or not model or draft == model:
        return
    ours, theirs = vocabulary(model), vocabulary(draft)
    gguf = case.plan.engine in GGUF_ENGINES
    if ours is None or theirs is None or abs(ours - theirs) <= (NEAR if gguf else 0):
        return
    read = spec_config(case) if case.plan.engine == "vllm" else None
    if read is not None and (read.data or {}).get("use_heterogeneous_vocab"):
        return
    yield Hit(
        f"{base_name(draft)} has a vocabulary of {theirs:,} tokens, {base_name(model)} one of "
        f"{ours:,}: it cannot draft for it",
        flag=flag(case, "--speculative-draft-model-path", "--spec-draft-model") or spec_flag(case),
        severity="warning" if gguf else None,
        fix=Fix(text="Take a small model of the same family, whose config.json has the same size."),
    )
