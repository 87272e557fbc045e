from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import around

SMALL_BYTES = 1 << 30


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    sources=("rwlove/home-ops", "Tanguille/cluster", "vLLM docs, deploying with Docker"),
)
def shm_small(case: Case) -> Iterator[Hit]:
    """Tensor parallelism in a container with the default 64 MB of shared memory.

    Why: the workers talk through /dev/shm; with too little of it the start fails with messages that
    name something else.
    Bad:
        docker run --gpus all vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 --tensor-parallel-size 2
    Good:
        docker run --gpus all --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8
        --tensor-parallel-size 2
    """
    container = case.launch.container
    if (
        container is None
        or container.kind in ("", "systemd", "recipe")  # the tool that runs a recipe sets it
        or not container.image
        or case.launch.form == "env"  # the memory stands where the container is made
        or case.plan.tp * case.plan.pp <= 1
    ):
        return
    if container.ipc_host or container.shm_volume or (container.shm_bytes or 0) >= SMALL_BYTES:
        return
    has = f"{container.shm_bytes >> 20} MiB" if container.shm_bytes else "the default 64 MB"
    yield around(
        case,
        f"{case.plan.tp * case.plan.pp} workers with {has} of shared memory",
        "shm_size",
        "Add ipc: host (--ipc=host), shm_size, or a memory-backed volume at /dev/shm.",
    )
