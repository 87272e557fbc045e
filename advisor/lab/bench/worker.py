"""One engine start of a step-cost sweep: runs in its own process, with vLLM importable and a GPU in
sight.

`python -m advisor.lab.bench.worker --job JOB.json --out ROWS.jsonl [--deadline EPOCH_S] [--go FILE]
[--time FILE]`

With `--go` the imports are done at once and the engine waits until the file exists; with `--time`
it warms its shapes and waits for that file before it times anything.

Weights are random and draft acceptance is synthetic, so the rows are step *costs*; acceptance is an
input. Points whose key already stands in the output for this label are skipped, so a broken run is
taken up where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.lab.bench import host
from advisor.lab.bench.point_rows import load_row, prompt_calls
from advisor.lab.bench.power import Meter
from advisor.lab.bench.shapes import config_of, vocabulary

START = time.time()
# A machine without flashinfer or DeepGEMM takes these paths; said in the rows because a default
# install may differ.
ENV = {
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
IMPORTED = "IMPORTED"  # the log line that says that vLLM is imported
BOOT = "BOOT "  # starts the log line that says the engine serves
WARM = "WARM "  # and the one that says that every shape ran once
LEAST_PROMPTS = 12  # per timed point: with fewer, one stray compilation decides the figure
DRAFTER = "drafter"  # the folder of a drafter that is a model of its own, in the model's
JITTER = 0.5  # output lengths drawn from osl * (1 +- JITTER): equal lengths lock the arms into step


class Driver:
    """A closed loop of clients on one engine."""

    def __init__(
        self, engine: Any, sampling: Any, seed: int = 1, ids: tuple[int, int] = (1000, 200_000)
    ) -> None:
        self.engine, self.sampling, self.ids = engine, sampling, ids
        self.random = random.Random(seed)
        self.span = (0.0, 0.0)  # of the last run, in seconds of time.perf_counter
        self.serial = 0

    def prompts(self, point: dict[str, Any], count: int) -> list[list[int]]:
        """Return random prompts of token ids, with the point's share of a common prefix."""
        shared = int(point["input_tokens"] * point.get("prefix_share", 0.0))
        head = [self.random.randrange(*self.ids) for _ in range(shared)]
        rest = point["input_tokens"] - shared
        return [
            head + [self.random.randrange(*self.ids) for _ in range(rest)] for _ in range(count)
        ]

    def run(self, point: dict[str, Any], count: int) -> dict[str, Any]:
        """Serve `count` prompts with at most `concurrency` at a time; returns the row's
        measurements (ms, tok/s).
        """
        texts = self.prompts(point, count)
        clients, target = point["concurrency"], point["output_tokens"]
        added: dict[int, float] = {}
        first: dict[int, float] = {}
        last: dict[int, float] = {}
        tokens: dict[int, int] = {}
        gaps: list[tuple[float, float]] = []
        calls: list[tuple[int, int, float]] = []
        updates = live = sent = done = 0
        self.serial += 1
        begin = before = time.perf_counter()
        while done < count:
            while live < clients and sent < count:
                length = max(2, round(target * (1 + JITTER * (2 * self.random.random() - 1))))
                name = f"{self.serial}-{sent}"
                self.engine.add_request(
                    name, {"prompt_token_ids": texts[sent]}, self.sampling(length)
                )
                added[sent] = time.perf_counter()
                sent, live = sent + 1, live + 1
            outputs = self.engine.step()
            now = time.perf_counter()
            known = len(first)
            for output in outputs:
                index = int(output.request_id.split("-")[1])
                new = len(output.outputs[0].token_ids)
                if new:
                    if index in first:
                        gaps.append((last[index], now))
                        updates += 1
                    else:
                        first[index] = now
                    last[index] = now
                    tokens[index] = tokens.get(index, 0) + new
                if output.finished:
                    live, done = live - 1, done + 1
            if outputs:
                calls.append((len(first) - known, len(outputs), now - before))
                before = now
        self.span = (begin, time.perf_counter())
        wall = self.span[1] - begin
        return {
            **load_row(wall, added, first, last, tokens, gaps, updates),
            "prompt_calls": prompt_calls(calls),
        }


def engine_arguments(job: dict[str, Any], model_dir: str) -> dict[str, Any]:
    """Keyword arguments of vLLM's LLM() for one job."""
    k, method = job["k"], job.get("method", "mtp")
    speculative: dict[str, Any] | None = None
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
            speculative["model"] = f"{model_dir}/{DRAFTER}"
    made = {
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
    }
    if job.get("graph_sizes"):
        made["compilation_config"] = {"cudagraph_capture_sizes": sorted(job["graph_sizes"])}
    if job.get("kv_gib"):  # engines share the card: the share is only what must be free
        made["kv_cache_memory_bytes"] = int(job["kv_gib"] * 2**30)
        made["gpu_memory_utilization"] = 0.05
    return made


def cache_type(job: Mapping[str, Any]) -> str:
    """Type of the job's KV cache, as rows write it."""
    asked = str(job.get("kv_cache_dtype", "auto"))
    return "bf16" if asked == "auto" else asked


def write_shape(job: dict[str, Any], folder: Path) -> None:
    """The model's config.json, with that of its draft head where it has one of its own."""
    (folder / "config.json").write_text(json.dumps(config_of(job)))
    if job.get("draft_config"):
        (folder / DRAFTER).mkdir()
        (folder / DRAFTER / "config.json").write_text(Path(job["draft_config"]).read_text())


def finished_keys(path: Path, label: str) -> set[str]:
    """Keys of the points that the output already holds for this label."""
    if not path.exists():
        return set()
    rows = (json.loads(line) for line in path.read_text().splitlines() if line.strip())
    return {row["key"] for row in rows if row.get("label") == label}


def turn_label(label: str, turn: int) -> str:
    """The label of a start's rows when its points are taken for the `turn`-th time."""
    return label if turn == 1 else f"{label}-again{turn}"


def missing_points(job: dict[str, Any], out: Path) -> list[tuple[str, dict[str, Any]]]:
    """(label of the turn, point) for what the output lacks: every point once before any is taken
    again.
    """
    labels = [turn_label(job["label"], turn) for turn in range(1, job.get("turns", 1) + 1)]
    seen = {label: finished_keys(out, label) for label in labels}
    return [
        (label, p) for label in labels for p in job["points"] if point_key(p) not in seen[label]
    ]


def main(argv: list[str] | None = None) -> int:
    """Measure the points that a job still lacks and return the exit status."""
    parser = argparse.ArgumentParser(prog="advisor.lab.bench.worker")
    parser.add_argument("--job", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--deadline", type=float, default=float("inf"))
    parser.add_argument("--go", type=Path)
    parser.add_argument("--time", type=Path)
    asked = parser.parse_args(argv)
    job = json.loads(Path(asked.job).read_text())
    out = Path(asked.out)
    todo = missing_points(job, out)
    if not todo:
        return 0
    for name, value in {**ENV, **job.get("env", {})}.items():
        os.environ.setdefault(name, value)
    import vllm  # noqa: F401  (slow: done before the machine is free)

    print(IMPORTED, file=sys.stderr, flush=True)
    await_file(asked.go)
    return measure(job, todo, out, asked.deadline, asked.time)


def await_file(file: Path | None) -> None:
    """Wait until the file exists; exits with the process that would have made it."""
    parent = os.getppid()
    while file is not None and not file.exists():
        if os.getppid() != parent:
            sys.exit(4)
        time.sleep(0.1)


def point_key(point: dict[str, Any]) -> str:
    """Return the load as text, the key of its rows."""
    load = ":".join(str(point[name]) for name in ("concurrency", "input_tokens", "output_tokens"))
    return f"{load}:{point.get('prefix_share', 0.0):g}"


def measure(
    job: dict[str, Any],
    todo: list[tuple[str, dict[str, Any]]],
    out: Path,
    deadline: float,
    time_file: Path | None = None,
) -> int:
    """Start the engine and take every point that is left before the deadline; 3 when it cut the
    list short.
    """
    folder = tempfile.mkdtemp(prefix="shape-")
    write_shape(job, Path(folder))
    ngram = job.get("method") == "ngram"
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
    base = {key: job[key] for key in ("model", "quant", "k", "prefix_caching", "max_num_seqs")}
    base |= {
        "max_num_batched_tokens": job["max_num_batched_tokens"],
        "rates": list(job["rates"][: job["k"]]),
        "env": job.get("env", {}),
        "method": job.get("method", "mtp"),
        "kv_cache_dtype": cache_type(job),
        "kv_gib": job.get("kv_gib"),
        "graph_sizes": list(job.get("graph_sizes", ())),
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(0),
        "boot_s": round(time.time() - START, 1),
    }
    cache = engine.vllm_config.cache_config
    base |= {"kv_blocks": cache.num_gpu_blocks, "block_size": cache.block_size}
    ids = (1000, 1008) if ngram else (1000, min(200_000, vocabulary(config_of(job)) - 2000))
    driver, meter = Driver(engine, sampling, ids=ids), Meter()
    print(BOOT + json.dumps(base), file=sys.stderr, flush=True)
    driver.run({"concurrency": 2, "input_tokens": 256, "output_tokens": 32}, 2)
    # The first run of a shape pays kernel compilation: all of it before anything is timed.
    for point in {point_key(point): point for _, point in todo}.values():
        if time.time() < deadline:
            driver.run(point, point["concurrency"])
    print(WARM + job["label"], file=sys.stderr, flush=True)
    await_file(time_file)
    for label, point in todo:
        if time.time() > deadline:
            print("DEADLINE before", point_key(point), file=sys.stderr, flush=True)
            return 3
        speed, before = host.loop_ms(), host.now()
        row = driver.run(point, max(LEAST_PROMPTS, point["rounds"] * point["concurrency"]))
        row |= {"host_loop_ms": speed, **host.shares(before, host.now())}
        row |= meter.between(*driver.span)
        if row["power_w"] is not None:
            row["joule_per_token"] = round(row["power_w"] / row["output_tok_s"], 4)
        text = json.dumps({"label": label, **base, **point, "key": point_key(point), **row})
        with out.open("a") as sink:
            sink.write(text + "\n")
    print("DONE", round(time.time() - START, 1), file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
