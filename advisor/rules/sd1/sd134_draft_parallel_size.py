from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import json_drop_fix, json_rename_fix
from advisor.rules.kit.flags import spec_config


@rule(
    severity="error",
    engines=("vllm",),
    sources=(
        "vllm-project/vllm#10483",
        "vllm vllm/config/speculative.py (_verify_and_get_draft_tp, _verify_args)",
    ),
)
def draft_parallel_size(case: Case) -> Iterator[Hit]:
    """A tensor-parallel size of the drafter that vLLM does not support.

    Why: the drafter runs on one GPU or on as many as the model; any other size is refused, and so
    is the key tensor_parallel_size inside --speculative-config.
    Bad: vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":3,
        "draft_tensor_parallel_size":4}'
    Good: vllm serve Qwen/Qwen3-32B --tensor-parallel-size 2 --speculative-config
        '{"method":"draft_model","model":"Qwen/Qwen3-0.6B","num_speculative_tokens":3,
        "draft_tensor_parallel_size":1}'
    """
    read = spec_config(case)
    if read is None or read.data is None:
        return
    own, right = "tensor_parallel_size", "draft_tensor_parallel_size"
    if own in read.data:
        yield Hit(
            f"'{own}' in --speculative-config is refused: the drafter's is '{right}'",
            flag=read.flag,
            fix=json_rename_fix(case, read.flag, own, right, f"Write '{right}'."),
        )
    size, tp = read.data.get(right), case.plan.tp
    sized = not any(one.unresolved and one.name.endswith("tp-size") for one in case.launch.flags)
    sized = sized and not any(
        one.unresolved and one.name == "--tensor-parallel-size" for one in case.launch.flags
    )
    if not isinstance(size, int) or isinstance(size, bool) or size in (1, tp) or not sized:
        return
    what = "Leave it out, or set it to 1" + (f" or {tp}." if tp > 1 else ".")
    yield Hit(
        f"the drafter's tensor parallelism is {size}: vLLM takes 1 or that of the model ({tp})",
        flag=read.flag,
        fix=json_drop_fix(case, read.flag, right, what),
    )
