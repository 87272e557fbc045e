from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, env, flag, flags
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.models import longest_context, names_itself
from advisor.rules.kit.policy import is_gguf, model_name

# what lifts the bound: a variable, or options that stretch the positions
OVERRIDE_ENV = {
    "vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
}
STRETCH = (
    "--hf-overrides",
    "--rope-scaling",
    "--rope-theta",
    "--hf-config-path",
    "--json-model-override-args",
    "--override-kv",
    "--rope-scale",
    "--rope-freq-scale",
    "--rope-freq-base",
    "--yarn-orig-ctx",
    "--yarn-ext-factor",
)
ENCODERS: dict[str, int] = table("compatibility")["encoder_contexts"]["value"]
LENGTH_2507 = 262_144  # the Qwen3 models of July 2025, whose name says so
BASE_IS_LONGER = "qwen2.5"  # the base models of this family have 131072, the instruct ones 32768


@rule(
    severity="error",
    engines=("vllm", "sglang", *GGUF_ENGINES),
    sources=(
        "vllm vllm/config/model.py (_get_and_verify_max_len)",
        "sglang python/sglang/srt/configs/model_config.py",
        "sgl-project/sglang#1778",
        "config.json of the models (max_position_embeddings)",
    ),
)
def context_beyond_model(case: Case) -> Iterator[Hit]:
    """A context longer than the model was made for.

    Why: vLLM and SGLang compare it with config.json and refuse to start, unless a variable or a
    stretched position encoding allows it; llama-server caps the context or answers badly beyond.
    Bad: vllm serve Qwen/Qwen3-32B --max-model-len 131072
    Good: vllm serve Qwen/Qwen3-32B --max-model-len 40960
    """
    model, length = case.facts.model, case.plan.max_model_len
    name = case.plan.model or case.launch.model or ""
    encoder = ENCODERS.get(name.lower())
    most = longest_context(model)
    if most is not None and "2507" in name:
        most = max(most, LENGTH_2507)
    most = encoder or most
    if most is None or length is None or length <= most:
        return
    lifted = env(case, OVERRIDE_ENV.get(case.plan.engine, "")) not in (None, "0", "false", "False")
    if lifted or any(found.name.partition(".")[0] in STRETCH for found in flags(case)):
        return
    itself: bool | None = encoder is not None
    if encoder is None and model is not None:
        itself = names_itself(model, name)
        if model.id.startswith(BASE_IS_LONGER) and "instruct" not in name.lower():
            return
    if itself is None:
        return
    whose = name if encoder else model_name(case)
    place = flag(case, "--max-model-len", "--context-length", "--ctx-size")
    slots = (case.plan.max_num_seqs or 1) if is_gguf(case) else 1
    how = OVERRIDE_ENV.get(case.plan.engine)
    yield Hit(
        f"{length:,} tokens exceed the {most:,} that {whose} was made for"
        + (f": the server refuses to start without {how}=1" if how else ""),
        flag=place,
        severity="warning" if is_gguf(case) or not itself else None,
        fix=set_fix(
            case,
            place,
            str(most * slots if place is not None and place.name == "--ctx-size" else most),
            f"Set it to {most} at most, or stretch the positions (YaRN) where the model's card "
            f"says how.",
        ),
    )
