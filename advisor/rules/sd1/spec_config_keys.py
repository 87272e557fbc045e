"""Keys and values of vLLM's --speculative-config."""

from advisor.domain.nouns import Case
from advisor.domain.spelling import is_only_near
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.fixes import json_drop_fix, json_rename_fix
from advisor.rules.kit.flags import (
    catalogue,
    catalogued_version,
    spec_config,
    spec_keys,
)
from advisor.rules.kit.json_text import has_empty_values, mend_fix, problem
from advisor.rules.kit.relations import relate
from advisor.rules.kit.values import nearest, slip
from advisor.rules.sd1.sd131_json_option import words

WHAT = (
    """Write it as '{"method":"mtp","num_speculative_tokens":2}': """
    "double quotes inside single ones."
)
# keys of another release or another world, by what stands in their place
OTHERS = {
    "num_speculative_tokens_per_batch_size": ("disable_by_batch_size",),
    "synthetic_acceptance_length": ("synthetic_acceptance_rate",),
    "model": ("speculative_model", "draft_model", "draft_model_path", "draft", "drafter"),
    "num_speculative_tokens": (
        *("k", "num_draft_tokens", "num_spec_tokens", "draft_tokens", "num_tokens"),
    ),
    "draft_tensor_parallel_size": ("draft_tp", "tensor_parallel_size"),
    "method": ("spec_method", "algorithm", "type"),
}
INSTEAD = {key: use for use, keys in OTHERS.items() for key in keys}
OTHER_KIND = ("disable_by_batch_size",)  # the successor takes another kind of value


@rule("SD109", "error", "vllm")
@when(options="--speculative-config")
def spec_config_json(case: Case) -> Hits:
    """The JSON of --speculative-config is broken.

    Why: the server refuses to start; quotes lost in a shell or a YAML file are the usual cause.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        "{'method':'mtp','num_speculative_tokens':2}"
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2}'
    Sources: vllm 0.19.1 to 0.33.0, parser run
    """
    read = spec_config(case)
    if read is None or read.data is not None or has_empty_values(read.flag):
        return
    text = (read.flag.value or "").strip()
    # quotes that no shell takes away may stand around an object that is whole; typographic ones do
    quoted = text[:1] == text[-1:] == "'" and problem(text[1:-1]) is None
    quoted |= text[:1] in ("\u2018", "\u2019", "\u201c", "\u201d")
    yield Hit(
        f"--speculative-config is not a JSON object: {read.error}",
        flag=read.flag,
        severity="warning" if read.flag.value_span is None and not quoted else None,
        fix=mend_fix(case, read.flag, WHAT),
    )


@rule("SD110", "error", "vllm", versioned=True)
def spec_config_key(case: Case) -> Hits:
    """A key in --speculative-config that this release does not know.

    Why: unknown keys are refused by every catalogued release, so the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"disable_by_batch_size":8}'
    Good (version=0.25.1): with "num_speculative_tokens_per_batch_size":[[1,8,2],[9,64,0]],
        "num_speculative_tokens":2 for "num_speculative_tokens":2,"disable_by_batch_size":8
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run
    """
    (place, data), known = spec_keys(case), catalogue(case)
    keys = known.json_fields("SpeculativeConfig", catalogued_version(case))
    for key in (one for one in data if one not in keys):
        near = INSTEAD.get(key)
        near = near if near in keys else nearest(key, keys)
        ever = known.json_field("SpeculativeConfig", key, None)
        span = ever.get("span") if ever else None
        gone = f" (only {' to '.join(dict.fromkeys(span))} had it)" if span else ""
        free = near and near not in data and key not in OTHER_KIND
        drops = f"Remove '{key}', or use '{near}'." if near else f"Remove '{key}'."
        releases = f"the catalogued releases 0.19.1 to {catalogue(case).newest}"
        yield Hit(
            f"--speculative-config does not take '{key}'{gone}"
            + (f"; the nearest key is '{near}'" if near else ""),
            flag=place,
            fix=json_rename_fix(case, place, key, near, f"Use '{near}'.")
            if near and free
            else json_drop_fix(case, place, key, drops),
            everywhere=ever is None,
            slip=ever is None and slip(key, near),
            sole=ever is None and is_only_near(key, near, keys),
            versions=releases if catalogued_version(case) is None else "",
        )


@rule("SD134", "error", "vllm")
@when(options="--speculative-config")
def draft_parallel_size(case: Case) -> Hits:
    """A tensor-parallel size of the drafter that vLLM does not support.

    Why: a head runs on one GPU or on as many as the model, a draft model on as many alone.
    Bad: vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":3,
        "draft_tensor_parallel_size":4}'
    Good: with "draft_tensor_parallel_size":2 for "draft_tensor_parallel_size":4
    Sources: vllm-project/vllm#10483; vllm vllm/config/speculative.py (_verify_and_get_draft_tp,
        _verify_args); vllm 0.19.1 to 0.33.0 vllm/v1/spec_decode/draft_model.py
        (_raise_if_draft_tp_mismatch)
    """
    place, data = spec_keys(case)
    own, right = "tensor_parallel_size", "draft_tensor_parallel_size"
    if own in data:
        yield Hit(
            f"'{own}' in --speculative-config is refused: the drafter's is '{right}'",
            flag=place,
            fix=json_rename_fix(case, place, own, right, f"Write '{right}'."),
        )
    yield from relate(case, "SD134")


@rule("SD132", "error", "vllm", versioned=True)
@when(options="--speculative-config")
def spec_config_value(case: Case) -> Hits:
    """A backend, quantisation or KV type in --speculative-config that the release does not have.

    Why: the configuration class refuses it and the server does not start.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":2,"attention_backend":"FLASHINFR"}'
    Good (version=0.25.1): with "attention_backend":"FLASHINFER" for "attention_backend":"FLASHINFR"
    Sources: vllm 0.19.1 to 0.33.0 vllm/config/speculative.py, class run
    """
    place, data = spec_keys(case)
    for key, value in data.items():
        if place is not None and key not in ("method", "num_speculative_tokens"):
            yield from words(
                case, place, "SpeculativeConfig", key, value, " in --speculative-config"
            )
    yield from relate(case, "SD132")
