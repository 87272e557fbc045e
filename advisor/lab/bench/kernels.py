"""Times of single kernels of vLLM on one GPU: block-FP8 products and a layer of experts.

`python -m advisor.lab.bench.kernels products OUT.jsonl [--paths deepgemm cutlass ...]` takes the
products of one layer of each kind of a dense model by kernel path; `... experts OUT.jsonl` one
layer of experts of a mixture by tokens and routing. Figures are microseconds, medians over replays
of CUDA graphs that go round several sets of weights, so that the cache does not hold them. Both
need vLLM and a GPU; `--share 2/8` only compiles, every eighth product from the third on, so that
several processes can fill DeepGEMM's cache before an engine starts.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from advisor.lab.bench.shapes import SHAPES

TOKENS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 15, 16, 24, 32, 36, 48, 64, 96, 128, 192, 256)
PROMPTS = tuple(range(128, 8193, 128))  # rows that engines compute with prompts
PATHS = ("flashinfer", "deepgemm", "cutlass", "triton")
POOLS = ("pool8", "pool16", "pool32", "pool64", "pool128")
ROUTINGS = ("uniform", *POOLS, "zipf0.5", "zipf1", "zipf1.5")
BLOCK = 128  # weights that share a scale, both ways
SETS = 4  # of weights that replays go round
REPLAYS = 30
DRAWS = 8  # of experts for one number of tokens


def matrices(model: str) -> dict[str, tuple[int, int, int]]:
    """(rows, columns, how many in the model) of a dense model's products, by name."""
    shape = SHAPES[model]
    full, head = shape.layers // 4, 256
    keys, values = shape.key_heads * 128, shape.value_heads * 128
    return {
        "gate_up": (2 * shape.ffn, shape.hidden, shape.layers),
        "down": (shape.hidden, shape.ffn, shape.layers),
        "gdn_in": (2 * keys + 2 * values, shape.hidden, shape.layers - full),
        "gdn_out": (shape.hidden, values, shape.layers - full),
        "attn_in": (2 * (shape.heads + shape.kv_heads) * head, shape.hidden, full),
        "attn_out": (shape.hidden, shape.heads * head, full),
    }


def model_ms(rows: Iterable[Mapping[str, Any]], model: str) -> dict[tuple[str, int], float]:
    """Milliseconds of all products of a model, by path and tokens; rows of one product a line."""
    listed, total = matrices(model), dict[tuple[str, int], float]()
    for row in rows:
        place = (row["path"], row["tokens"])
        total[place] = total.get(place, 0.0) + row["us"] * listed[row["matrix"]][2] / 1e3
    return total


def draw(
    routing: str, tokens: int, experts: int, top: int, chance: random.Random
) -> list[list[int]]:
    """Experts that each of some tokens asks for.

    Parameters
    ----------
    routing : str
        `uniform`; `poolN`, uniform over N experts; `zipfA`, chances that fall with the A-th power
        of an expert's rank.
    tokens, experts, top : int
        How many tokens, experts in all, experts a token.
    chance : random.Random
        Where chances come from.
    """
    weight = [1.0] * experts
    if routing.startswith("pool"):
        weight = [1.0] * int(routing[4:])
    elif routing.startswith("zipf"):
        weight = [1 / (1 + rank) ** float(routing[4:]) for rank in range(experts)]
    names = chance.sample(range(experts), len(weight))
    picked = []
    for _ in range(tokens):  # without putting back: the largest of weighted exponential clocks
        clock = sorted(range(len(weight)), key=lambda i: chance.expovariate(1.0) / weight[i])
        picked.append([names[i] for i in clock[:top]])
    return picked


def replay_us(call: Callable[[int], object], count: int) -> list[float]:
    """Microseconds of `call`, one figure a replay of a graph that calls it for 0 to count - 1."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for index in range(count):
            call(index)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for index in range(count):
            call(index)
    graph.replay()
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / count)
    return times


def _weights(rows: int, columns: int, sets: int) -> list[tuple[Any, Any]]:
    """Block-FP8 matrices with their scales."""
    import torch

    made = []
    for _ in range(sets):
        noise = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) / 4
        scale = torch.rand(-(-rows // BLOCK), columns // BLOCK, device="cuda") / 100
        made.append((noise.to(torch.float8_e4m3fn), scale))
    return made


def product(path: str, tokens: int, weights: Sequence[tuple[Any, Any]]) -> Callable[[int], object]:
    """One product of some tokens by a path of vLLM's, as a function of the set of weights. The
    tokens are quantised before, but FlashInfer's kernel quantises them itself.
    """
    import torch
    from vllm import _custom_ops as ops
    from vllm.model_executor.layers.quantization.utils import fp8_utils
    from vllm.utils.deep_gemm import fp8_gemm_nt

    rows, columns = weights[0][0].shape
    given = torch.randn(tokens, columns, device="cuda", dtype=torch.bfloat16)
    out = torch.empty(tokens, rows, device="cuda", dtype=torch.bfloat16)
    if path == "flashinfer":
        from flashinfer.gemm import (  # type: ignore[import-not-found,unused-ignore]
            fp8_blockscale_gemm_sm90,
        )

        return lambda i: fp8_blockscale_gemm_sm90(
            given, weights[i][0], None, weights[i][1], out, torch.bfloat16
        )
    deep, triton = path == "deepgemm", path == "triton"
    small, scale = fp8_utils.per_token_group_quant_fp8(
        given,
        BLOCK,
        column_major_scales=not triton,
        tma_aligned_scales=deep,
        use_ue8m0=deep,
    )
    if deep:
        return lambda i: fp8_gemm_nt((small, scale), weights[i], out, is_deep_gemm_e8m0_used=True)
    if triton:
        return lambda i: fp8_utils.w8a8_triton_block_scaled_mm(
            small, weights[i][0], scale, weights[i][1], [BLOCK, BLOCK], torch.bfloat16
        )
    return lambda i: ops.cutlass_scaled_mm(
        small,
        weights[i][0].T,
        out_dtype=torch.bfloat16,
        scale_a=scale,
        scale_b=weights[i][1].T,
    )


def time_products(model: str, paths: Sequence[str]) -> Iterable[dict[str, Any]]:
    """A row for each product, path and number of tokens."""
    for name, (rows, columns, _) in matrices(model).items():
        weights = _weights(rows, columns, SETS)
        for tokens in TOKENS:
            for path in paths:
                times = replay_us(product(path, tokens, weights), SETS)
                yield {
                    "tokens": tokens,
                    "matrix": name,
                    "n": rows,
                    "k": columns,
                    "path": path,
                    "us": round(statistics.median(times), 2),
                }


def compile_share(model: str, paths: Sequence[str], part: int, parts: int) -> None:
    """Run every `parts`-th product once, from the `part`-th on: its kernel is compiled by then."""
    import torch

    todo = [
        (path, size, tokens)
        for tokens in (*TOKENS, *PROMPTS)
        for size in dict.fromkeys(found[:2] for found in matrices(model).values())
        for path in paths
        if path != "flashinfer" or tokens < 32
    ]
    for path, size, tokens in todo[part::parts]:
        product(path, tokens, _weights(*size, 1))(0)
    torch.cuda.synchronize()


def time_experts(model: str, routings: Sequence[str]) -> Iterable[dict[str, Any]]:
    """A row for each routing and number of tokens: one layer of experts in block FP8, without its
    router, the mean over draws of the median replay.
    """
    import torch
    from vllm.model_executor.layers.fused_moe.config import fp8_w8a8_moe_quant_config

    shape, chance = SHAPES[model], random.Random(1)

    def stack(rows: int, columns: int) -> tuple[Any, Any]:
        made = [_weights(rows, columns, 1)[0] for _ in range(shape.experts)]
        return torch.stack([w for w, _ in made]), torch.stack([s for _, s in made])

    layers = []
    for _ in range(SETS):
        (up, up_scale), (down, down_scale) = (
            stack(2 * shape.moe_ffn, shape.hidden),
            stack(shape.hidden, shape.moe_ffn),
        )
        quant = fp8_w8a8_moe_quant_config(up_scale, down_scale, block_shape=[BLOCK, BLOCK])
        layers.append((up, down, quant))
    for tokens in (t for t in TOKENS if t not in (5, 9, 15, 36)):
        given = torch.randn(tokens, shape.hidden, device="cuda", dtype=torch.bfloat16)
        share = torch.full((tokens, shape.topk), 1 / shape.topk, device="cuda")
        for routing in routings:
            draws = [draw(routing, tokens, shape.experts, shape.topk, chance) for _ in range(DRAWS)]
            counts = [[sum(e in one for one in d) for e in range(shape.experts)] for d in draws]
            found = [
                statistics.median(replay_us(_expert_layer(layers, given, share, asked), SETS))
                for asked in draws
            ]
            yield {
                "tokens": tokens,
                "routing": routing,
                "experts_reached": round(
                    statistics.fmean(sum(n > 0 for n in c) for c in counts), 1
                ),
                "most_tokens": round(statistics.fmean(map(max, counts)), 1),
                "layer_us": round(statistics.fmean(found), 2),
            }


def _expert_layer(
    layers: Sequence[tuple[Any, Any, Any]], given: Any, share: Any, asked: list[list[int]]
) -> Callable[[int], object]:
    """One layer of experts as a function of the set of weights."""
    import torch
    from vllm.model_executor.layers.fused_moe.fused_moe import fused_experts

    ids = torch.tensor(asked, device="cuda", dtype=torch.int32)

    def call(i: int) -> object:
        up, down, quant = layers[i]
        return fused_experts(given, up, down, share, ids, quant_config=quant)

    return call


def main(argv: Sequence[str]) -> int:
    """Measure, or only compile; rows are appended to the file as they come."""
    parser = argparse.ArgumentParser(prog="python -m advisor.lab.bench.kernels")
    parser.add_argument("what", choices=["products", "experts"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--paths", nargs="+", choices=PATHS, default=["deepgemm", "cutlass"])
    parser.add_argument("--routings", nargs="+", choices=ROUTINGS, default=list(ROUTINGS))
    parser.add_argument("--share", help="PART/PARTS: compile this share, measure nothing")
    asked = parser.parse_args(argv)
    if asked.share:
        part, parts = map(int, asked.share.split("/"))
        compile_share(asked.model or "qwen3.6-27b", asked.paths, part, parts)
        return 0
    rows = (
        time_products(asked.model or "qwen3.6-27b", asked.paths)
        if asked.what == "products"
        else time_experts(asked.model or "qwen3.6-35b-a3b", asked.routings)
    )
    for row in rows:
        with asked.out.open("a") as sink:
            sink.write(json.dumps(row) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
