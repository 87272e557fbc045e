"""A fixed grid of requests over hardware, model, quant, engine, version, load and goal; `python -m
tests.grid` prints the emitted launches as JSON lines for the real engine parsers.
"""

import json
import random
import sys
from collections.abc import Iterator
from functools import cache
from unittest.mock import patch

from advisor import engines
from advisor.advice import recommend
from advisor.advice.explain import what_if
from advisor.domain.nouns import Advice, AdvisorError, Request

HARDWARE = (
    ("gb10", 1, None), ("gb10", 2, "roce"), ("rtx3090", 1, None), ("rtx3090", 2, "pcie"),
    ("rtx4090", 1, None), ("rtx5090", 1, None), ("rtx-pro-6000", 1, None), ("a100-80gb", 1, None),
    ("h100-sxm", 1, None), ("h200", 1, None), ("h200", 4, "nvlink"), ("b200", 1, None),
    ("mi300x", 1, None), ("apple-m4-max", 1, None), ("apple-m5-pro", 1, None),
    ("apple-m3-ultra", 1, None), ("strix-halo", 1, None), ("l40s", 2, "pcie"),
    ("rx7900xtx", 1, None), ("v100", 1, None),
)  # fmt: skip
MODELS = ("qwen3.6-35b-a3b", "qwen3.6-27b", "qwen3.5-35b-a3b", "qwen3.5-122b-a10b",
          "qwen3-next-80b-a3b", "qwen3.5-9b")  # fmt: skip
GOALS = ("balanced", "throughput", "tpot", "ttft")
LOADS = (
    (1, 2048), (1, 32768), (2, 512), (4, 8192), (8, 2048), (16, 2048), (32, 1024), (64, 4096),
    (128, 2048),
)  # fmt: skip
WORKLOADS = ("mixed", "chat", "code", "agent", "rag", "creative")
SIZE = 2000


def requests(size: int = SIZE, seed: int = 20261120) -> Iterator[Request]:
    """`size` requests, the same every time: every engine version occurs, the rest evenly."""
    draw = random.Random(seed)
    versions = [
        (name, v)
        for name in ("vllm", "sglang", "llama-server")
        for v in (None, *engines.get(name).versions)
    ]
    for number in range(size):
        engine, version = versions[number % len(versions)]
        hardware, gpus, link = draw.choice(HARDWARE)
        concurrency, ctx = draw.choice(LOADS)
        ggufs = (None, "q4_k_m", "q8_0", "ud-q4_k_xl")
        quants = (None, None, "bf16", "fp8", "awq-int4", "nvfp4")
        yield Request(
            hardware=hardware,
            gpus=gpus,
            interconnect=link,
            model=draw.choice(MODELS),
            quant=draw.choice(ggufs if engine == "llama-server" else quants),
            engine=engine,
            engine_version=version,
            concurrency=concurrency,
            ctx_tokens=ctx,
            output_tokens=draw.choice((128, 512, 2048)),
            workload=draw.choice(WORKLOADS),
            prefix_share=draw.choice((0.0, 0.0, 0.3, 0.8)),
            goal=draw.choice(GOALS),
        )


@cache
def advices(
    part: int = 0, parts: int = 1, size: int = SIZE
) -> tuple[tuple[Request, Advice | AdvisorError], ...]:
    """Every `parts`-th request with its advice, or the one-sentence refusal."""
    found: list[tuple[Request, Advice | AdvisorError]] = []
    for request in [*requests(size)][part::parts]:
        try:  # what would change the answer asks a dozen other questions for each
            with patch.object(what_if, "would_change", return_value=()):
                found.append((request, recommend.recommend(request)))
        except AdvisorError as refusal:
            found.append((request, refusal))
    return tuple(found)


def launches(advice: Advice) -> Iterator[tuple[str, str | None, tuple[str, ...], dict[str, str]]]:
    """(engine, version, argv, env) of every launch that the advice shows."""
    pairs = (
        (advice.plan, advice.launch),
        (advice.candidate, advice.launch_on),
        (advice.plan, advice.launch_off),
    )
    for plan, launch in pairs:
        if launch is not None and plan is not None:
            yield plan.engine, plan.engine_version, launch.argv, dict(launch.env)


def main() -> None:
    names = ("engine", "version", "argv", "env")
    lines = dict.fromkeys(
        json.dumps(dict(zip(names, launch, strict=True)))
        for _, advice in advices()
        if isinstance(advice, Advice)
        for launch in launches(advice)
    )
    print("\n".join(lines))
    print(f"{len(lines)} launches from {SIZE} requests", file=sys.stderr)


if __name__ == "__main__":
    main()
