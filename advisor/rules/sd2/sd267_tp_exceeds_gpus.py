import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Edit, EnvVar, Fix
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
    r"""More parallel ranks than GPUs in the container, in CUDA_VISIBLE_DEVICES or in --gpus.

    Why: the server waits for devices that it cannot see, or refuses to start.
    Bad:
        docker run --gpus '"device=0"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    Good:
        docker run --gpus '"device=0,1"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    """
    container, seen = case.launch.container, visible(case)
    held = gpu_count(container.gpus) if container is not None and container.gpus else None
    ranks = case.plan.tp * case.plan.pp
    if case.plan.engine == "vllm" or flag(case, "--enable-dp-attention") is None:
        ranks *= max(case.plan.dp, 1)
    if seen is not None and seen[0] < ranks and flag(case, *SPREAD) is None:
        yield from too_few(case, *seen, ranks, held)
        return
    holder = "job" if container is not None and container.kind == "slurm" else "container"
    told = (
        case.facts.gpus
    )  # where nobody tells it, as many as the launch has ranks: fewer were told
    given, where = (
        (held, f"in the {holder}")
        if held is not None and held <= told
        else (told, f"{'are' if told > 1 else 'is'} there (--gpus)")
    )
    if ranks <= given or flag(case, *SPREAD) is not None:
        return
    give = f"Give the {holder} {ranks} GPUs" if given == held else f"Serve on {ranks} GPUs"
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


def visible(case: Case) -> tuple[int, EnvVar] | None:
    """How many devices CUDA_VISIBLE_DEVICES lists, and the variable."""
    for var in reversed(case.launch.env):
        if var.name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            if var.unresolved or not re.fullmatch(r"[\w/-]+(,[\w/-]+)*", var.value or ""):
                return None
            return len((var.value or "").split(",")), var
    return None


def too_few(case: Case, count: int, var: EnvVar, ranks: int, held: int | None) -> Iterator[Hit]:
    """More ranks than devices that a variable lets through."""
    numbers = (var.value or "").split(",")
    parallel = flag(case, "--tensor-parallel-size", "--tp-size")
    what = f"List {ranks} devices in {var.name}, or use tensor parallelism {count}."
    first = numbers[0]
    place = var.value_span
    edits: tuple[Edit, ...] = ()
    if held != count and first.isdigit() and place is not None and ranks <= 16:
        text = ",".join(str(int(first) + at) for at in range(ranks))
        edits = (Edit(file=case.launch.file, start=place.start, end=place.end, text=text),)
    elif case.plan.pp * case.plan.dp == 1:
        edits = set_fix(case, parallel, str(count), what).edits
    yield Hit(
        f"{ranks} ranks but {var.name} shows {count} GPU{'s' if count > 1 else ''}",
        flag=parallel or var.name,
        line=var.line,
        fix=Fix(text=what, edits=edits),
    )


def gpu_count(text: str) -> int | None:
    """How many GPUs "2", "0,1" or "device=0,1" mean; None for "all" and for what is not plain."""
    plain = text.strip("\"' ").removeprefix("device=").removeprefix("count=")
    if "device=" in text and re.fullmatch(r"[\w-]+(,[\w-]+)*", plain):
        return len(plain.split(","))
    if re.fullmatch(r"\d+", plain):
        return int(plain) or None
    return len(plain.split(",")) if re.fullmatch(r"[\w-]+(,[\w-]+)+", plain) else None
