"""One engine start of a step-cost sweep: vLLM in this process, servers by `served_worker`.

`--go FILE`: imports at once, the engine when the file exists; `--time FILE`: warms its shapes, then
waits for that file. Weights are random and acceptance is synthetic: rows are step *costs*. Points
whose key stands in the output for this label are skipped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from advisor.lab.bench import protocol, served_worker, shapes
from advisor.lab.bench.machine import Meter
from advisor.lab.bench.protocol import Data, Todo
from advisor.lab.bench.timing import TimedRequest, closed_row

START = time.time()
# The paths of a machine without flashinfer or DeepGEMM; a default install may differ.
ENV = {
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


class Driver:
    """A closed loop of clients on one engine of vLLM."""

    def __init__(
        self, engine: Any, sampling: Any, seed: int = 1, ids: tuple[int, int] = (1000, 200_000)
    ) -> None:
        self.engine, self.sampling, self.ids = engine, sampling, ids
        self.random = random.Random(seed)
        self.serial = 0

    def prompts(self, point: Data, count: int) -> list[list[int]]:
        """Random prompts of token ids, with the point's share of a common prefix."""

        def some(length: int) -> list[int]:
            return [self.random.randrange(*self.ids) for _ in range(length)]

        shared = int(point["input_tokens"] * point.get("prefix_share", 0.0))
        head = some(shared)
        return [head + some(point["input_tokens"] - shared) for _ in range(count)]

    def run(self, point: Data, count: int) -> Data:
        """Serve `count` prompts, `concurrency` at a time; the row's figures and their span."""
        texts, requests = self.prompts(point, count), list[TimedRequest]()
        live = done = 0
        self.serial += 1
        begin = time.perf_counter()
        while done < count:
            while live < point["concurrency"] and len(requests) < count:
                spread = 1 + protocol.JITTER * (2 * self.random.random() - 1)
                prompt = {"prompt_token_ids": texts[len(requests)]}
                sampling = self.sampling(max(2, round(point["output_tokens"] * spread)))
                self.engine.add_request(f"{self.serial}-{len(requests)}", prompt, sampling)
                requests.append(TimedRequest(time.perf_counter(), [], []))
                live += 1
            outputs = self.engine.step()
            now = time.perf_counter()
            for output in outputs:
                request = requests[int(output.request_id.split("-")[1])]
                if new := len(output.outputs[0].token_ids):
                    request.steps.append(now)
                    request.at.extend([now] * new)
                if output.finished:
                    live, done = live - 1, done + 1
        end = time.perf_counter()
        return closed_row(requests, end - begin) | {"span": (begin, end)}


def engine_arguments(job: Data, model_dir: str) -> Data:
    """Keyword arguments of vLLM's LLM() for one job."""
    k, method = job["k"], job.get("method", "mtp")
    speculative: Data | None = None
    if k:
        speculative = {
            "method": method,
            "num_speculative_tokens": k,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": list(job["rates"][:k]),
        }
        if method == "ngram":
            speculative |= {"prompt_lookup_min": 1, "prompt_lookup_max": 2}
        else:
            speculative["draft_sample_method"] = "probabilistic"
        if job.get("draft_config"):
            speculative["model"] = f"{model_dir}/drafter"
    out = {
        "model": model_dir,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "max_model_len": job["max_model_len"],
        "gpu_memory_utilization": 0.90,
        "max_num_seqs": job["max_num_seqs"],
        "max_num_batched_tokens": job["max_num_batched_tokens"],
        "enable_prefix_caching": job["prefix_caching"],
        "language_model_only": True,
        "disable_log_stats": True,
        "speculative_config": speculative,
        "gdn_prefill_backend": "triton",
        "kv_cache_dtype": job.get("kv_cache_dtype", "auto"),
        "seed": 0,
        "tensor_parallel_size": job.get("gpus", "").count(",") + 1,
        "mm_encoder_tp_mode": "data",  # block FP8 of a vision tower does not split
    }
    if job.get("graph_sizes"):
        out["compilation_config"] = {"cudagraph_capture_sizes": sorted(job["graph_sizes"])}
    if job.get("kv_gib"):  # engines share the card: the share is only what must be free
        out["kv_cache_memory_bytes"] = int(job["kv_gib"] * 2**30)
        out["gpu_memory_utilization"] = 0.05
    return out


def main(argv: list[str] | None = None) -> int:
    """Measure the points that a job still lacks and return the exit status."""
    parser = argparse.ArgumentParser(prog="advisor.lab.bench.worker")
    for name, kind in (("job", Path), ("out", Path), ("deadline", float), ("go", Path)):
        parser.add_argument(f"--{name}", type=kind)
    parser.add_argument("--time", type=Path)
    parser.set_defaults(deadline=float("inf"))
    given = parser.parse_args(argv)
    job = json.loads(given.job.read_text())
    todo = protocol.missing_points(job, given.out)
    if not todo:
        return 0
    served = "engine" in job
    if not served:
        for name, value in {**ENV, **job.get("env", {})}.items():
            os.environ.setdefault(name, value)
        import vllm  # noqa: F401  (slow: done before the machine is free)

    protocol.note(protocol.IMPORTED)
    protocol.await_file(given.go)
    run = served_worker.measure if served else measure
    return run(job, todo, given.out, given.deadline, given.time)


def measure(
    job: Data, todo: Todo, out: Path, deadline: float, time_file: Path | None = None
) -> int:
    """Start vLLM and take what is left before the deadline; 3 when it cut the list short."""
    folder = tempfile.mkdtemp(prefix="shape-")
    shapes.write(job, Path(folder))
    ngram = job["method"] == "ngram"
    import torch  # type: ignore[import-not-found,unused-ignore]
    import vllm
    from vllm import LLM, SamplingParams
    from vllm.sampling_params import RequestOutputKind

    def sampling(length: int) -> Any:
        return SamplingParams(
            temperature=1.0,
            max_tokens=length,
            min_tokens=length,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            # lookups find their drafts in every step: eight words, in prompts and answers
            allowed_token_ids=list(range(1000, 1008)) if ngram else None,
        )

    engine = LLM(**engine_arguments(job, folder)).llm_engine
    cache = engine.vllm_config.cache_config
    left_out = ("label", "points", "max_model_len", "turns", "config", "draft_config")
    base = {name: value for name, value in job.items() if name not in left_out} | {
        "rates": list(job["rates"][: job["k"]]),
        "kv_cache_dtype": {"auto": "bf16"}.get(job["kv_cache_dtype"], job["kv_cache_dtype"]),
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(0),
        "boot_s": round(time.time() - START, 1),
        "kv_blocks": cache.num_gpu_blocks,
        "block_size": cache.block_size,
    }
    entries = shapes.vocabulary(shapes.config_of(job))
    ids = (1000, 1008) if ngram else (1000, min(200_000, entries - 2000))
    driver, meter = Driver(engine, sampling, ids=ids), Meter()
    protocol.note(protocol.BOOT + json.dumps(base))
    driver.run({"concurrency": 2, "input_tokens": 256, "output_tokens": 32}, 2)
    # The first run of a shape pays kernel compilation: all of it before anything is timed.
    for point in {point["key"]: point for _, point in todo}.values():
        if time.time() < deadline:
            driver.run(point, point["concurrency"])
    protocol.note(protocol.WARM + job["label"])
    protocol.await_file(time_file)

    def run(point: Data) -> Data:
        return driver.run(
            point, max(protocol.LEAST_PROMPTS, point["rounds"] * point["concurrency"])
        )

    return protocol.take(todo, out, deadline, base, meter, run)


if __name__ == "__main__":
    sys.exit(main())
