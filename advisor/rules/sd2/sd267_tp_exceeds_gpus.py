import re
from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix

SPREAD = (
    "--nnodes",
    "--distributed-executor-backend",
    "--node-rank",
    "--dist-init-addr",
    "--data-parallel-address",
)


@rule(
    severity="error",
    engines=("vllm", "sglang"),
    sources=(
        "vllm 0.33.0 vllm/config/parallel.py",
        "Docker and Kubernetes documentation on GPU reservations",
    ),
)
def tp_exceeds_gpus(case: Case) -> Iterator[Hit]:
    r"""More tensor- and pipeline-parallel ranks than GPUs in the container or in --gpus.

    Why: the server waits for devices that it cannot see, or refuses to start.
    Bad:
        docker run --gpus '"device=0"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    Good:
        docker run --gpus '"device=0,1"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    """
    container = case.launch.container
    held = gpu_count(container.gpus) if container is not None and container.gpus else None
    ranks = case.plan.tp * case.plan.pp
    told = (
        case.facts.gpus
    )  # where nobody tells it, as many as the launch has ranks: fewer were told
    given, where = (
        (held, "in the container")
        if held is not None and held <= told
        else (told, f"{'are' if told > 1 else 'is'} there (--gpus)")
    )
    if ranks <= given or flag(case, *SPREAD) is not None:
        return
    give = f"Give the container {ranks} GPUs" if given == held else f"Serve on {ranks} GPUs"
    yield Hit(
        f"{ranks} ranks but {given} GPU{'s' if given > 1 else ''} {where}",
        flag=flag(case, "--tensor-parallel-size", "--tp-size")
        or flag(case, "--pipeline-parallel-size", "--pp-size"),
        fix=set_fix(
            case,
            flag(case, "--tensor-parallel-size", "--tp-size") if case.plan.pp == 1 else None,
            str(given),
            f"{give}, or use tensor parallelism {given}."
            if case.plan.pp == 1
            else f"{give}, or lower both kinds of parallelism to {given} in all.",
        ),
    )


def gpu_count(text: str) -> int | None:
    """How many GPUs "2", "0,1" or "device=0,1" mean; None for "all" and for what is not plain."""
    plain = text.strip("\"' ").removeprefix("device=").removeprefix("count=")
    if "device=" in text and re.fullmatch(r"[\w-]+(,[\w-]+)*", plain):
        return len(plain.split(","))
    if re.fullmatch(r"\d+", plain):
        return int(plain) or None
    return len(plain.split(",")) if re.fullmatch(r"[\w-]+(,[\w-]+)+", plain) else None
