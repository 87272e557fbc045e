from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import json_add_fix
from advisor.rules.kit.flags import spec_config
from advisor.rules.kit.releases import between, release

# up to 0.11.0 a model with a head of its own, DeepSeek-V3 or Qwen3-Next, stood in for a missing
# name
OWN_BY_MODEL = "0.11.1"
NEED = ("eagle", "eagle3", "draft_model", "dflash", "medusa", "mlp_speculator")


@rule(
    severity="error",
    engines=("vllm",),
    sources=("vllm-project/vllm@002e77c1 vllm/config/speculative.py",),
)
def spec_config_without_model(case: Case) -> Iterator[Hit]:
    """--speculative-config that names no drafter: neither a model nor a method that needs none.

    Why: an absent method is taken for draft_model, and a method that drafts with a checkpoint of
    its own needs its name. The server stops with "num_speculative_tokens was provided but without
    speculative model".
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8 --speculative-config
        '{"num_speculative_tokens":2}'
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 8
        --speculative-config '{"method":"mtp","num_speculative_tokens":2}'
    """
    if between(release(case), OWN_BY_MODEL, None) is False:
        return
    read = spec_config(case)
    if (
        read is None
        or not read.data
        or read.data.get("model")
        or flag(case, "--spec-model", "--spec-method") is not None
    ):
        return
    method = read.data.get("method")
    if "num_speculative_tokens" not in read.data or (method is not None and method not in NEED):
        return
    if method is None:
        fix = json_add_fix(
            case,
            read.flag,
            "method",
            '"mtp"',
            'Add "method":"mtp" where the model has its own MTP head.',
        )
        yield Hit(
            "the speculative configuration names neither a method nor a model",
            flag=read.flag,
            fix=fix,
        )
        return
    text = (
        'Add "model" with the drafter\'s name, or use "method":"mtp" where the model has a '
        "head of its own."
    )
    yield Hit(
        f"the method '{method}' drafts with a checkpoint of its own, and none is named",
        flag=read.flag,
        fix=Fix(text=text),
    )
