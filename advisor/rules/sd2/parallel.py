"""Parallelism against the shapes of a model and the devices of a container."""

import re
from collections.abc import Iterator

from advisor.domain.nouns import LLM, Case, EnvVar, Fix
from advisor.engines.arguments.fields import depth
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import model_text, number
from advisor.rules.kit.fixes import set_fix, span_fix
from advisor.rules.kit.releases import between, release

TP = ("--tp-size", "--tensor-parallel-size")
BLOCK = 128
NATIVE = tuple(table("compatibility")["fp8_native"]["value"])
# FP8 checkpoints with a scale per channel or tensor, not per block
CHANNEL_WISE = ("dynamic", "w8a8", "redhat", "glm", "nvidia/", "amd/", "mxfp4", "nemotron")
SPREAD = (
    *("--nnodes", "--distributed-executor-backend", "--node-rank", "--dist-init-addr"),
    "--data-parallel-address",
)
GROUPS = ("LeaderWorkerSet", "RayCluster", "RayService", "RayJob", "PodCliqueSet")


@rule("SD215", "error", "vllm sglang")
@when(needs="model")
def block_fp8_tp(case: Case) -> Hits:
    """A block-FP8 checkpoint split over so many GPUs that a shard holds no whole blocks.

    Why: loading fails ("output size is not divisible by block_n").
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 --tp 8
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3-Next-80B-A3B-Instruct-FP8 --tp 4
    Sources: sgl-project/sglang#10852; sgl-project/sglang#19045; vllm-project/vllm#54178;
        vllm-project/vllm#52997; vllm recipe of MiniMax-M2.7
    """
    tp, place = case.plan.tp, case.flag(*TP)
    name, known = model_text(case, made=False).lower(), is_padded(case)
    blocks = "fp8" in name or any(one in name for one in NATIVE)
    if case.facts.model is None or tp <= 1 or known is True or not blocks:
        return
    if any(word in name for word in (*CHANNEL_WISE, "nvfp4", "awq", "int4")):
        return
    for part, rows in parts(case.facts.model, case):
        if rows % tp or (rows // tp) % BLOCK:
            sizes = [n for n in (1, 2, 4, 8) if n < tp and rows % n == 0]
            fits = max((n for n in sizes if (rows // n) % BLOCK == 0), default=1)
            experts = "" if expert_parallel(case) else ", expert parallelism"
            what = f"Use tensor parallelism {fits}{experts}, or a checkpoint without FP8 blocks."
            yield Hit(
                f"block-FP8 with tensor parallelism {tp}: the {part} has {rows} rows, "
                f"{rows / tp:g} on each GPU, and that is no multiple of {BLOCK}; loading fails"
                + ("" if known is None else " before vLLM pads the shards (0.30)"),
                flag=place,
                severity=None if known is None else "warning",
                fix=set_fix(case, place, str(fits), what),
            )
            return


def parts(model: LLM, case: Case) -> Iterator[tuple[str, int]]:
    """The matrices that tensor parallelism splits by rows (sglang 0.5.23 models/qwen2_moe.py)."""
    expert = model.moe_ffn or table("compatibility")["expert_rows"].get(model.id)
    if expert and not expert_parallel(case):
        yield "expert", expert
    if model.shared_ffn and case.value("--moe-a2a-backend") in (None, "none"):
        yield "shared expert", model.shared_ffn
    if model.dense_ffn and not model.is_moe:
        yield "feed-forward layer", model.dense_ffn


def is_padded(case: Case) -> bool | None:
    """Whether the engine loads this model's shards all the same; False where only its release
    decides, None for all others.

    vLLM's recipe for Qwen3.8-Flash-Next-FP8 serves it with expert parallelism on four and eight
    GPUs and with plain tensor parallelism on four; plain tensor parallelism on eight stays out.
    """
    row = table("compatibility")["fp8_blocks_padded"].get(
        case.facts.model.id if case.facts.model else ""
    )
    if not isinstance(row, dict) or row["engine"] != case.plan.engine:
        return None
    parallel = expert_parallel(case)
    since = between(release(case), row["since"], None)
    if since is False or (case.plan.tp > row["max_tp"] and not parallel):
        return None
    return parallel or bool(since)


def expert_parallel(case: Case) -> bool:
    """Whether the launch turns expert parallelism on."""
    return case.flag("--enable-expert-parallel", "--ep-size") is not None


@rule("SD216", "info", "vllm sglang", decides=True, at=TP)
@when(needs="model")
def tp_kv_heads(case: Case) -> Hits:
    """Tensor parallelism against the number of attention and KV heads.

    Why: uneven shares are refused; more GPUs than KV heads keep copies and win no memory.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --tensor-parallel-size 4
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --tensor-parallel-size 2
    Sources: sgl-project/sglang#10852; vllm-project/recipes#335; vllm 0.33.0 vllm/config/model.py
    """
    groups = "--dp-size" if case.flag("--enable-dp-attention") else "--attn-dp-size"
    model, tp = case.facts.model, case.plan.tp // (number(case, groups) or 1)  # share the heads
    if model is None or tp <= 1:
        return
    if model.heads and model.heads % tp:
        yield Hit(
            f"tensor parallelism {tp} does not divide the {model.heads} attention heads: the "
            f"server refuses to start",
            severity="error",
            fix=smaller(case, "Use a size that divides the attention heads."),
        )
    elif model.kv_heads and model.kv_heads % tp and tp % model.kv_heads:
        yield Hit(
            f"tensor parallelism {tp} shares the {model.kv_heads} KV heads unevenly: the server "
            f"stops while it builds the model",
            severity="error",
            fix=smaller(case, "Use a size that divides the KV heads, or a multiple of them."),
        )
    elif model.kv_heads and tp > model.kv_heads:
        yield Hit(
            f"tensor parallelism {tp} is more than the {model.kv_heads} KV heads: every KV head "
            f"is stored {-(-tp // model.kv_heads)} times",
            fix=f"Tensor parallelism {model.kv_heads} and several replicas use the memory "
            f"better, if the model fits.",
        )


def smaller(case: Case, what: str) -> Fix:
    """The next power of two below, which divides the heads of every known model."""
    heads = (case.facts.model.heads if case.facts.model is not None else None) or 0
    size = 1 << ((case.plan.tp - 1).bit_length() - 1)
    if not heads or heads % max(size, 1):
        return Fix(text=what)
    return set_fix(case, case.flag(*TP), str(size), f"{what[:-1]}: {size}.")


@rule("SD267", "error", "vllm sglang")
def tp_exceeds_gpus(case: Case) -> Hits:
    r"""More parallel ranks than GPUs in the container, in CUDA_VISIBLE_DEVICES or in --gpus.

    Why: the server waits for devices that it cannot see, or refuses to start.
    Bad:
        docker run --gpus '"device=0"' --ipc=host vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 \
            --tensor-parallel-size 2
    Good: with '"device=0,1"' for '"device=0"'
    Sources: vllm 0.33.0 vllm/config/parallel.py; Docker and Kubernetes documentation on GPU
        reservations
    """
    container, seen = case.launch.container, visible(case)
    if container is not None and container.chart in GROUPS:
        return  # the ranks are those of all its pods
    held = gpu_count(container.gpus) if container is not None and container.gpus else None
    ranks = case.plan.tp * case.plan.pp * max(case.plan.dp, 1)
    if seen is not None and seen[0] < ranks and case.flag(*SPREAD) is None:
        yield too_few(case, *seen, ranks)
        return
    kind = container.kind if container is not None else ""
    holder = {"slurm": "job", "modal": "function"}.get(kind, "container")
    told = case.facts.gpus  # as many as the launch has ranks, where nobody tells it
    given, where = told, f"{'are' if told > 1 else 'is'} there (--gpus)"
    if held is not None and held <= told:
        given, where = held, f"in the {holder}"
    whole_job = kind == "slurm" and given == held and container is not None and container.complete
    if ranks <= given or (case.flag(*SPREAD) is not None and not whole_job):
        return
    parallel = case.flag(*TP)
    give = f"Give the {holder} {ranks} GPUs" if given == held else f"Serve on {ranks} GPUs"
    lower = f"use tensor parallelism {given}"
    if case.plan.pp != 1:
        lower = f"lower both kinds of parallelism to {given} in all"
    yield Hit(
        f"{ranks} ranks but {given} GPU{'s' if given > 1 else ''} {where}",
        flag=parallel or case.flag("--pipeline-parallel-size", "--pp-size"),
        fix=f"{give}, or {lower}.",
    )


def visible(case: Case) -> tuple[int, EnvVar] | None:
    """How many devices CUDA_VISIBLE_DEVICES lists, and the variable."""
    names = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
    var = next((one for one in reversed(case.launch.env) if one.name in names), None)
    if var is None or var.unresolved or not re.fullmatch(r"[\w/-]+(,[\w/-]+)*", var.value or ""):
        return None
    return len((var.value or "").split(",")), var


def too_few(case: Case, count: int, var: EnvVar, ranks: int) -> Hit:
    """More ranks than devices that a variable lets through."""
    first, parallel = depth((var.value or "").split(",")[0]), case.flag(*TP)
    what = f"List {ranks} devices in {var.name}, or use tensor parallelism {count}."
    fix = Fix(text=what)
    if first is not None and ranks <= 16:
        listed = ",".join(str(first + step) for step in range(ranks))
        fix = span_fix(case, var.value_span, listed, what)
    return Hit(
        f"{ranks} ranks but {var.name} shows {count} GPU{'s' if count > 1 else ''}",
        flag=parallel or var.name,
        line=var.line,
        fix=fix,
    )


def gpu_count(text: str) -> int | None:
    """How many GPUs "2", "0,1" or "device=0,1" mean; None for "all" and for what is not plain."""
    plain = text.strip("\"' ").removeprefix("device=").removeprefix("count=")
    cdi = re.findall(r"[\w.-]+\.com/gpu=([\w:-]+)", plain)  # of podman: nvidia.com/gpu=0
    if cdi:
        return None if "all" in cdi else len(cdi)
    if "device=" in text and re.fullmatch(r"[\w-]+(,[\w-]+)*", plain):
        return len(plain.split(","))
    if re.fullmatch(r"\d{1,9}", plain):
        return int(plain) or None
    return len(plain.split(",")) if re.fullmatch(r"[\w-]+(,[\w-]+)+", plain) else None
