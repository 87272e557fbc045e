"""Which engine starts and which points a step-cost sweep takes, most valuable first."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

BLOCK_RATES = (0.08, 0.06, 0.045, 0.034, 0.025, 0.019, 0.014)  # of positions beyond eight
# Unconditional acceptance by position that the synthetic sampler is told to produce: the GB10
# seed's two positions, then a geometric tail. Acceptance is an input of the sweep, never a result.
RATES = (0.816, 0.635, 0.48, 0.36, 0.27, 0.2, 0.15, 0.11, *BLOCK_RATES)
MOST_GRAPH_TOKENS = 512  # vLLM captures no larger graphs unless told to


@dataclass(frozen=True)
class Point:
    """One closed-loop load: `concurrency` clients, `rounds` x concurrency prompts in all (at least
    worker.LEAST_PROMPTS).
    """

    concurrency: int
    input_tokens: int
    output_tokens: int
    prefix_share: float = 0.0
    rounds: int = 4

    @property
    def key(self) -> str:
        """The load as text, the key of its rows."""
        return f"{self.concurrency}:{self.input_tokens}:{self.output_tokens}:{self.prefix_share:g}"


@dataclass(frozen=True)
class Job:
    """One engine start and its points."""

    label: str
    model: str
    quant: str
    k: int
    points: tuple[Point, ...]
    prefix_caching: bool = False
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 32_960
    env: dict[str, str] = field(default_factory=dict)
    rates: tuple[float, ...] = RATES
    method: str = "mtp"  # or "eagle3", "dflash", "ngram"
    kv_cache_dtype: str = "auto"
    # KV cache in GiB where engines share a GPU; None: what gpu_memory_utilization leaves
    kv_gib: float | None = None
    # token counts of the captured CUDA graphs; empty: the engine's own
    graph_sizes: tuple[int, ...] = ()
    # how often every point is taken in this one engine start; labels of later turns:
    # worker.turn_label
    turns: int = 1

    def as_dict(self) -> dict[str, Any]:
        """Return the job as JSON data."""
        return asdict(self)


def points_main(output_tokens: int = 128) -> tuple[Point, ...]:
    """Concurrency 1..128 at 2048 tokens, 1..32 at 8192, 1 and 8 at 32768."""
    short = [Point(c, 2048, output_tokens) for c in (1, 2, 4, 8, 16, 32, 64, 128)]
    middle = [Point(c, 8192, output_tokens) for c in (1, 4, 16, 32)]
    long = [Point(c, 32768, output_tokens) for c in (1, 8)]
    return tuple(short + middle + long)


def points_decode() -> tuple[Point, ...]:
    """Next to no prompt: the pure verify-cost curve T(B, k)."""
    return tuple(Point(c, 64, 512, rounds=2) for c in (1, 2, 4, 8, 16, 32, 64, 128))


def points_few(output_tokens: int = 128) -> tuple[Point, ...]:
    """Return four loads of 1 to 16 requests, for a short round."""
    return tuple(Point(c, 2048, output_tokens) for c in (1, 4, 16)) + (
        Point(16, 64, 512, rounds=2),
    )


def points_side(output_tokens: int = 128) -> tuple[Point, ...]:
    """A thinner grid for side questions (other weights, other routing)."""
    return tuple(Point(c, 2048, output_tokens) for c in (1, 8, 32)) + (
        Point(4, 8192, output_tokens),
        Point(8, 64, 512, rounds=2),
        Point(64, 64, 512, rounds=2),
    )


def shared_prompt_points(output_tokens: int = 128) -> tuple[Point, ...]:
    """Half of the prompt shared between requests (without caching the sharing changes nothing: see
    points_main), and two points of points_main that share nothing: what caching alone costs, and
    how far two machines agree.
    """
    return (
        tuple(Point(c, 8192, output_tokens, prefix_share=0.5) for c in (1, 4, 16))
        + tuple(Point(c, 2048, output_tokens, prefix_share=0.5) for c in (4, 16))
        + tuple(Point(c, 2048, output_tokens) for c in (1, 16))
    )


def points_shape(depth: bool = False) -> tuple[Point, ...]:
    """The load of `shapes_sweep`: 1 to 64 requests, and a deeper one where asked."""
    wide = tuple(Point(c, 2048, 128, rounds=2) for c in (1, 4, 16, 64))
    return (*wide, Point(16, 8192, 128, rounds=1)) if depth else wide


def shapes_sweep() -> tuple[Job, ...]:
    """Shapes that `sweep` lacks, in order of value, in groups of three engines that fit one 80 GB
    card or, side by side, one of 140 GB (their `kv_gib` is given).
    """
    nine, glm, llama = "qwen3.5-9b", "glm-4.7-flash", "llama-3.1-8b"
    wide, deep = points_shape(), points_shape(depth=True)
    jobs = [_beside(nine, "bf16", k, gib, wide) for k, gib in ((0, 12), (2, 19), (4, 26))]
    jobs += [_beside(glm, "fp8", k, 8.2, wide) for k in (0, 2, 4)]
    jobs += [_beside(llama, "bf16", k, 19, deep, method=m) for k, m in ((0, "mtp"), (2, "eagle3"))]
    return tuple(jobs)


def paths_sweep() -> tuple[Job, ...]:
    """Paths that `sweep` lacks, on Llama 3.1 8B with its EAGLE-3 head, whose engines start within
    two minutes: an FP8 KV cache, half-shared prompts with prefix caching, a small token budget,
    drafts by lookup. In groups of four that stand side by side on one 140 GB card, pairs of which
    fit one of 80 GB.
    """
    deep, llama = points_shape(depth=True), "llama-3.1-8b"
    half = tuple(Point(c, 8192, 128, prefix_share=0.5, rounds=2) for c in (1, 4, 16))
    budget = (Point(4, 8192, 128, rounds=2), Point(16, 2048, 128, rounds=2), Point(1, 2048, 128))
    arms = ((0, "mtp"), (2, "eagle3"))
    paths: tuple[tuple[str, float, tuple[Point, ...], dict[str, Any]], ...] = (
        ("-fp8kv", 11, deep, {"kv_cache_dtype": "fp8"}),
        ("", 19, deep, {}),
        ("-prefix", 12, half, {"prefix_caching": True}),
        ("-mnbt2048", 6, budget, {"max_num_batched_tokens": 2048}),
    )
    jobs = [
        _beside(llama, "bf16", k, gib, points, path, method=method, **settings)
        for path, gib, points, settings in paths
        for k, method in arms
    ]
    few = tuple(Point(c, 2048, 128, rounds=2) for c in (1, 4, 16))
    return (*jobs, _beside(llama, "bf16", 2, 6, few, method="ngram"))


GAP_REQUESTS = (1, 3, 4, 5, 6, 8, 12, 16)


def graphs_sweep() -> tuple[Job, ...]:
    """Which CUDA graph a verified step finds, on Llama 3.1 8B with its EAGLE-3 head: the engine's
    own graph sizes beside one for every number of requests.

    vLLM's second model runner captures full graphs at its sizes rounded up to k + 1 tokens and
    graphs without attention at the sizes themselves; a step takes the smallest that fits, so 4
    requests with k = 2 (12 tokens) miss the full graph of 18 for the other of 16 (vLLM #53407).
    """
    llama = "llama-3.1-8b"
    points = tuple(Point(c, 2048, 128, rounds=1) for c in GAP_REQUESTS)
    every = tuple(3 * c for c in (*range(1, 17), 24, 32, 48, 64))
    return (
        _beside(llama, "bf16", 0, 5.5, points, "-graphs"),
        _beside(llama, "bf16", 2, 5.5, points, "-graphs", method="eagle3"),
        _beside(llama, "bf16", 2, 5.5, points, "-graphs3", method="eagle3", graph_sizes=every),
        *(_beside(llama, "bf16", k, 5.5, points, "-graphs", method="eagle3") for k in (4, 3)),
    )


def deepgemm_sweep() -> tuple[Job, ...]:
    """The dense 27B in block FP8 by the kernel of its products. `default` is what an install with
    FlashInfer takes on Hopper (its own kernel below 32 tokens, DeepGEMM from there on), `deepgemm`
    DeepGEMM alone, `cutlass` neither. Graphs of the measured steps alone are captured.

    An engine needs most of an 80 GB card: each keeps k + 1 recurrent states of 151 MB a request,
    so three drafts end at 32 requests.
    """
    deep = {"VLLM_USE_DEEP_GEMM": "1", "VLLM_DEEP_GEMM_WARMUP": "skip"}
    paths = {
        "default": deep | {"VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER": "1"},
        "deepgemm": deep | {"VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER": "0"},
        "cutlass": {"VLLM_BLOCKSCALE_FP8_GEMM_FLASHINFER": "0"},
    }
    arms = [("default", k) for k in (0, 2, 1, 3)]
    arms += [("deepgemm", 0), ("cutlass", 0), ("deepgemm", 2), ("cutlass", 2)]
    cache = {0: 20.0, 1: 31.0, 2: 41.0, 3: 27.0}  # GiB of KV cache and states, by k
    made = []
    for path, k in arms:
        clients = (1, 2, 4, 8, 16, 32) if k == 3 else (1, 2, 4, 8, 16, 32, 64)
        made.append(
            Job(
                f"qwen3.6-27b-fp8-k{k}-{path}",
                "qwen3.6-27b",
                "fp8",
                k,
                tuple(Point(c, 2048, 128, rounds=1) for c in clients),
                kv_gib=cache[k],
                env=paths[path],
                graph_sizes=tuple((k + 1) * c for c in clients),
                max_num_seqs=max(clients),
                max_model_len=3072,
            )
        )
    return tuple(made)


def blocks_sweep() -> tuple[Job, ...]:
    """Blocks of 7 to 15 drafts that a DFlash head makes in one pass, on a dense model and on a
    mixture: what verifying 8 to 16 tokens a request costs beside a plain step.

    Pairs of the dense model stand side by side on an 80 GB card; the mixture needs one for itself
    (k + 1 recurrent states of 63 MB a request).
    """
    dense = tuple(Point(c, 2048, 128, rounds=1) for c in (1, 8, 16, 32))
    dense += (Point(64, 512, 128, rounds=1),)
    mixture = dense[:4]
    made: list[tuple[str, str, int, float, tuple[Point, ...]]] = [
        ("qwen3-8b", "bf16", k, 11.5, dense) for k in (0, 7, 15, 9)
    ]
    made += [("qwen3.6-35b-a3b", "fp8", k, gib, mixture) for k, gib in ((0, 10), (7, 22), (15, 37))]
    return tuple(
        _beside(
            model,
            quant,
            k,
            gib,
            points,
            "-blocks",
            method="dflash" if k else "mtp",
            graph_sizes=step_graphs(k, points),
        )
        for model, quant, k, gib, points in made
    )


def cache_sweep() -> tuple[Job, ...]:
    """An FP8 KV cache beside one of 16 bits where a step holds many tokens, on Llama 3.1 8B; pairs
    that stand side by side on an 80 GB card.
    """
    points = (Point(64, 2048, 128, rounds=1), Point(16, 8192, 128, rounds=1))
    return tuple(
        _beside(
            "llama-3.1-8b",
            "bf16",
            k,
            gib,
            points,
            f"-cache{bits}",
            method=method,
            kv_cache_dtype=dtype,
            graph_sizes=step_graphs(k, points),
        )
        for k, method in ((0, "mtp"), (2, "eagle3"))
        for bits, dtype, gib in ((16, "auto", 19.5), (8, "fp8", 11.0))
    )


# graphs that calls with short prompts fit, beside those of decode steps
PROMPT_GRAPHS = (64, 72, 80, 96, 128, 160, 192, 256, 272, 320, 384, 448, 512)


def short_sweep() -> tuple[Job, ...]:
    """Prompts of 64 to 2,048 tokens beside the decodes of 1 to 64 requests on the 35B-A3B: what a
    call costs within captured CUDA graphs and beyond; and the steps of 2 to 12 requests up to 8,192
    tokens, where a mixture gains least.
    """
    wide = [Point(c, t, 128, rounds=2) for t in (64, 256, 512, 768, 1024) for c in (1, 4, 16, 64)]
    own = [Point(c, 2048, 128, rounds=2) for c in (1, 4, 16, 64)]
    few = [Point(c, t, 128, rounds=2) for t in (2048, 4096, 8192) for c in (2, 3, 6, 8, 12)]
    made = []
    for k in (0, 2, 1, 3):
        points = tuple((wide if k in (0, 2) else []) + own + few)
        graphs = tuple(sorted({*PROMPT_GRAPHS, *step_graphs(k, points)}))
        most: dict[str, Any] = {"max_num_seqs": 64, "max_model_len": 9216, "graph_sizes": graphs}
        name = f"qwen3.6-35b-a3b-fp8-k{k}-short"
        made.append(Job(name, "qwen3.6-35b-a3b", "fp8", k, points, **most))
    return tuple(made)


def step_graphs(k: int, points: tuple[Point, ...]) -> tuple[int, ...]:
    """Sizes of the graphs that the points' steps need, as far as the engine captures them."""
    sizes = sorted({(k + 1) * point.concurrency for point in points})
    return tuple(size for size in sizes if size <= MOST_GRAPH_TOKENS)


def _beside(
    model: str,
    quant: str,
    k: int,
    gib: float,
    points: tuple[Point, ...],
    path: str = "",
    **more: Any,
) -> Job:
    """An engine that shares its card: its KV cache has `gib` GiB. The label names a method that is
    not MTP.
    """
    method = more.get("method", "mtp")
    name = f"{model}-{quant}-k{k}{path}" + (f"-{method}" if method != "mtp" else "")
    few: dict[str, Any] = {"max_num_seqs": 64, "max_model_len": 9216}
    return Job(name, model, quant, k, points, kv_gib=gib, **few, **more)


def sweep(model: str = "qwen3.6-35b-a3b", quant: str = "fp8", turns: int = 1) -> tuple[Job, ...]:
    """The full list of engine starts in order of value, each point taken `turns` times in its
    start.
    """
    full = points_main() + points_decode()
    name = f"{model}-{quant}"
    jobs = [Job(f"{name}-k{k}", model, quant, k, full) for k in (0, 2, 4, 1, 3)]
    for k in (0, 2):
        jobs.append(
            Job(f"{name}-k{k}-prefix", model, quant, k, shared_prompt_points(), prefix_caching=True)
        )
    jobs += [
        Job(
            f"{name}-k{k}-mnbt2048",
            model,
            quant,
            k,
            (Point(4, 8192, 128), Point(16, 2048, 128), Point(1, 2048, 128)),
            max_num_batched_tokens=2048,
        )
        for k in (0, 2)
    ]
    jobs += [Job(f"{model}-bf16-k{k}", model, "bf16", k, points_side()) for k in (0, 2)]
    jobs += [Job(f"qwen3.6-27b-fp8-k{k}", "qwen3.6-27b", "fp8", k, points_side()) for k in (0, 2)]
    jobs += [Job(f"{name}-k{k}", model, quant, k, points_few()) for k in (6, 8)]
    jobs += [
        Job(
            f"{name}-k{k}-routing-{short}",
            model,
            quant,
            k,
            points_side(),
            env={"VLLM_MOE_ROUTING_SIMULATION_STRATEGY": strategy},
        )
        for strategy, short in (("uniform_random", "uniform"), ("normal_routing", "skewed"))
        for k in (0, 2)
    ]
    return tuple(replace(job, turns=turns) for job in jobs)
