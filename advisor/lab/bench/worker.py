"""One engine start of a step-cost sweep: `worker JOB.json ROWS.jsonl DEADLINE`.

Weights are random and acceptance is synthetic: rows are step *costs*.
"""

import json
import os
import random
import statistics
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

START = time.time()
LEAST_PROMPTS = 12  # per timed point: with fewer, one stray compilation decides the figure
JITTER = 0.5  # output lengths drawn from osl * (1 +- JITTER): equal lengths lock the arms into step
# The paths of a machine without flashinfer or DeepGEMM; a default install may differ.
ENV = {
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
Data = dict[str, Any]  # a job, a point or a row as JSON
Span = tuple[float, float]  # begin, end


class TimedRequest(NamedTuple):
    """One request that was answered to its end."""

    sent: float
    at: list[float]  # when each token came
    steps: list[float]  # when the first token of each step came


def quantile(values: Sequence[float], share: float) -> float | None:
    """Nearest-rank quantile of sorted values; None where there are none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None where there are no values."""
    return statistics.fmean(values) if values else None


def ms(seconds: float | None) -> float | None:
    """Rounded milliseconds."""
    return None if seconds is None else round(1e3 * seconds, 4)


def outside(spans: Sequence[Span], gaps: Sequence[Span]) -> list[float]:
    """Lengths of the gaps that no span touches: nobody waited for a first token then."""
    starts = [low for low, _ in sorted(spans)]
    ends = list(accumulate((high for _, high in sorted(spans)), max))
    free = ((low, high, bisect_left(starts, high)) for low, high in gaps)
    return sorted(high - low for low, high, at in free if not at or ends[at - 1] <= low)


def closed_row(requests: Sequence[TimedRequest], wall: float) -> dict[str, Any]:
    """Figures of a closed loop of clients that took `wall` seconds."""
    ttft = sorted(one.at[0] - one.sent for one in requests)
    tpot = sorted((one.at[-1] - one.at[0]) / max(1, len(one.at) - 1) for one in requests)
    gaps = [gap for one in requests for gap in pairwise(one.steps)]
    decode = outside([(one.sent, one.at[0]) for one in requests], gaps)
    itl = sorted(high - low for low, high in gaps)
    total = sum(len(one.at) for one in requests)
    return {
        "prompts": len(requests),
        "wall_s": round(wall, 4),
        "output_tok_s": round(total / wall, 2),
        "ttft_ms": ms(mean(ttft)),
        "ttft_p99_ms": ms(quantile(ttft, 0.99)),
        "tpot_ms": ms(mean(tpot)),
        "tpot_p50_ms": ms(quantile(tpot, 0.5)),
        "tpot_p99_ms": ms(quantile(tpot, 0.99)),
        "itl_p50_ms": ms(quantile(itl, 0.5)),
        "itl_p99_ms": ms(quantile(itl, 0.99)),
        "decode_step_p50_ms": ms(quantile(decode, 0.5)),
        "decode_step_mean_ms": ms(mean(decode)),
        "decode_steps": len(decode),
        "acceptance_length": round((total - len(requests)) / max(1, len(gaps)), 4),
        "tokens": total,
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
        """Serve `count` prompts, `concurrency` at a time; the row's figures."""
        texts, requests = self.prompts(point, count), list[TimedRequest]()
        live = done = 0
        self.serial += 1
        begin = time.perf_counter()
        while done < count:
            while live < point["concurrency"] and len(requests) < count:
                spread = 1 + JITTER * (2 * self.random.random() - 1)
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
        return closed_row(requests, time.perf_counter() - begin)


def engine_arguments(job: Data, model_dir: str) -> Data:
    """Keyword arguments of vLLM's LLM() for one job."""
    k, method = job["k"], job["method"]
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
        if job["draft_config"]:
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
        "kv_cache_dtype": job["kv_cache_dtype"],
        "seed": 0,
        "tensor_parallel_size": job["gpus"].count(",") + 1,
        "mm_encoder_tp_mode": "data",  # block FP8 of a vision tower does not split
    }
    if job["graph_sizes"]:
        out["compilation_config"] = {"cudagraph_capture_sizes": sorted(job["graph_sizes"])}
    return out


def write_shape(job: Data, folder: Path) -> int:
    """Write config.json, with that of a drafter; how many token ids the model has."""
    config = json.loads(Path(job["config"]).read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config))
    if job["draft_config"]:
        (folder / "drafter").mkdir()
        (folder / "drafter" / "config.json").write_text(Path(job["draft_config"]).read_text())
    return int(config.get("text_config", config)["vocab_size"])


def main() -> None:
    """Measure the points of a job before the deadline; exits with 3 when it cut the list short."""
    job, rows, deadline = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2], sys.argv[3]
    for name, value in {**ENV, **job["env"]}.items():
        os.environ.setdefault(name, value)
    folder = tempfile.mkdtemp(prefix="shape-")
    vocabulary, ngram = write_shape(job, Path(folder)), job["method"] == "ngram"
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
    left_out = ("points", "max_model_len", "config", "draft_config")
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
    ids = (1000, 1008) if ngram else (1000, min(200_000, vocabulary - 2000))
    sys.exit(take(Driver(engine, sampling, ids=ids), job["points"], base, rows, float(deadline)))


def take(driver: Driver, points: list[Data], base: Data, rows: str, deadline: float) -> int:
    """Append a row for every point before the deadline; 3 when it cut the list short."""
    driver.run({"concurrency": 2, "input_tokens": 256, "output_tokens": 32}, 2)
    # The first run of a shape pays kernel compilation: all of it before anything is timed.
    for point in points:
        if time.time() < deadline:
            driver.run(point, point["concurrency"])
    for point in points:
        if time.time() > deadline:
            return 3
        row = driver.run(point, max(LEAST_PROMPTS, point["rounds"] * point["concurrency"]))
        with Path(rows).open("a") as sink:
            sink.write(json.dumps({**base, **point, **row}) + "\n")
    return 0


if __name__ == "__main__":
    main()
