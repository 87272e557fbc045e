import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Container, EnvVar, Fix
from advisor.engines.arguments.fields import depth
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix, span_fix

SPREAD = (
    "--nnodes",
    "--distributed-executor-backend",
    "--node-rank",
    "--dist-init-addr",
    "--data-parallel-address",
)

GROUPS = ("LeaderWorkerSet", "RayCluster", "RayService", "RayJob", "PodCliqueSet")


@rule(severity="error", engines="vllm sglang")
def tp_exceeds_gpus(case: Case) -> Iterator[Hit]:
    r"""More parallel ranks than GPUs in the container, in CUDA_VISIBLE_DEVICES or in --gpus.

    Why: the server waits for devices that it cannot see, or refuses to start.
    Bad:
        docker run --gpus '"device=0"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    Good:
        docker run --gpus '"device=0,1"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    Sources: vllm 0.33.0 vllm/config/parallel.py; Docker and Kubernetes documentation on GPU
        reservations
    """
    container, seen = case.launch.container, visible(case)
    if container is not None and container.chart in GROUPS:
        return  # the ranks are those of all its pods
    held = gpu_count(container.gpus) if container is not None and container.gpus else None
    ranks = case.plan.tp * case.plan.pp
    if case.plan.engine == "vllm" or flag(case, "--enable-dp-attention") is None:
        ranks *= max(case.plan.dp, 1)
    if seen is not None and seen[0] < ranks and flag(case, *SPREAD) is None:
        yield from too_few(case, *seen, ranks, held)
        return
    if seen is not None and held is not None and container is not None:
        yield from beyond(case, container, seen[1], held, ranks)
    holders = {"slurm": "job", "modal": "function"}
    holder = holders.get(container.kind, "container") if container is not None else "container"
    told = case.facts.gpus  # as many as the launch has ranks, where nobody tells it
    given, where = told, f"{'are' if told > 1 else 'is'} there (--gpus)"
    if held is not None and held <= told:
        given, where = held, f"in the {holder}"
    if ranks <= given or flag(case, *SPREAD) is not None:
        return
    parallel = flag(case, "--tensor-parallel-size", "--tp-size")
    give = f"Give the {holder} {ranks} GPUs" if given == held else f"Serve on {ranks} GPUs"
    lower = "use tensor parallelism"
    if case.plan.pp != 1:
        lower = "lower both kinds of parallelism to"
    what = f"{give}, or {lower} {given}{'' if case.plan.pp == 1 else ' in all'}."
    yield Hit(
        f"{ranks} ranks but {given} GPU{'s' if given > 1 else ''} {where}",
        flag=parallel or flag(case, "--pipeline-parallel-size", "--pp-size"),
        fix=more_devices(case, ranks, what) if held == given else what,
    )


def more_devices(case: Case, ranks: int, what: str) -> Fix:
    """As many devices as ranks, where their number or list is in the file."""
    container = case.launch.container
    if container is None or container.devices is None or container.gpus is None or ranks > 16:
        return Fix(text=what)
    plain = container.gpus.strip("\"' ")
    numbers, text = plain.removeprefix("device=").split(","), str(ranks)
    if not plain.isdigit():
        first = depth(numbers[0])
        if container.kind != "docker-run" or first is None or numbers != row(first, len(numbers)):
            return Fix(text=what)
        text = f'"device={",".join(row(first, ranks))}"'
    # a list in a shell has quotes of its own, since docker ends it at a comma
    length = len(plain) + (0 if plain.isdigit() else 2)
    asked = container.devices.asked
    places = tuple(place for place in asked if place.end - place.start == length)
    return span_fix(case, places, text, what)


def row(first: int, count: int) -> list[str]:
    """So many numbers of devices from the first on."""
    return [str(first + step) for step in range(count)]


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
    first = depth((var.value or "").split(",")[0])
    parallel = flag(case, "--tensor-parallel-size", "--tp-size")
    what = f"List {ranks} devices in {var.name}, or use tensor parallelism {count}."
    fix = Fix(text=what)
    if held != count and first is not None and var.value_span is not None and ranks <= 16:
        fix = span_fix(case, var.value_span, ",".join(row(first, ranks)), what)
    elif case.plan.pp * case.plan.dp == 1:
        fix = set_fix(case, parallel, str(count), what)
    yield Hit(
        f"{ranks} ranks but {var.name} shows {count} GPU{'s' if count > 1 else ''}",
        flag=parallel or var.name,
        line=var.line,
        fix=fix,
    )


def beyond(case: Case, container: Container, var: EnvVar, held: int, ranks: int) -> Iterator[Hit]:
    """Devices by their numbers on the host: those of a container are numbered from 0."""
    numbers = (var.value or "").split(",")
    good = next((at for at, one in enumerate(numbers) if (depth(one) or 0) >= held), None)
    if good is None or container.devices is None:
        return
    inside = ",".join(row(0, min(held, len(numbers))))
    has = f"{held} GPU{'s, numbered from 0' if held > 1 else ', number 0'}"
    yield Hit(
        f"{var.name}={var.value} in a container that has {has}",
        flag=var.name,
        line=var.line,
        severity=None if good < ranks else "warning",
        fix=span_fix(case, var.value_span, inside, f"Write {inside}, or leave {var.name} out."),
    )


def gpu_count(text: str) -> int | None:
    """How many GPUs "2", "0,1" or "device=0,1" mean; None for "all" and for what is not plain."""
    plain = text.strip("\"' ").removeprefix("device=").removeprefix("count=")
    if "device=" in text and re.fullmatch(r"[\w-]+(,[\w-]+)*", plain):
        return len(plain.split(","))
    if re.fullmatch(r"\d{1,9}", plain):
        return int(plain) or None
    return len(plain.split(",")) if re.fullmatch(r"[\w-]+(,[\w-]+)+", plain) else None
