"""The result files of atlas-bench (inference-atlas); the server's arguments say its drafts."""

from advisor.readers.results.fields import FileLayout, Row, number_at, part_at, text_at
from advisor.readers.results.run import BenchmarkRun

_ENGINES = {"llamacpp": "llama-server", "vllm": "vllm", "sglang": "sglang",
            "tensorrt-llm": "tensorrt-llm"}  # fmt: skip
_K = (
    "args > speculative-config > num_speculative_tokens",
    *("args > speculative-num-steps", "args > spec-draft-n-max", "args > draft-max"),
)
_METHOD = (
    "args > speculative-config > method",
    *("args > speculative-algorithm", "args > spec-type"),
)


def _finish(run: BenchmarkRun, row: Row) -> Row:
    k, method = number_at(row, _K), (text_at(row, _METHOD) or "none").lower()
    return {
        "engine": _ENGINES.get(str(part_at(row, "engine").get("id"))),
        "k": round(k) if k else None,
        "method": method.removeprefix("draft-") if k or method != "none" else "none",
    }


ATLAS = FileLayout(
    format="atlas-bench",
    client="atlas-bench",
    marks=("config_id", "cell_id", "workload > resolved_params", "metrics > output_tok_s"),
    fields={
        "client_version": "raw > harness_version", "engine_version": "engine > version",
        "model": "model > hf_id", "hardware": "hardware > id", "dataset": "workload_id",
        "concurrency": "workload > resolved_params > concurrency",
        "request_rate": "workload > resolved_params > request_rate",
        "seed": "workload > resolved_params > seed",
        "temperature": "workload > resolved_params > temperature",
        "requests": "metrics > requests_ok", "failed": "metrics > requests_failed",
        "duration_s": "metrics > duration_s", "output_tok_s": "metrics > output_tok_s",
        "prompt_tok_s": "metrics > prefill_tok_s",
    },
    totals={
        "input_tokens": "metrics > input_tokens_total",
        "output_tokens": "metrics > output_tokens_total",
    },
    times={f"{name}_ms": f"metrics > {name}_ms > {{}}" for name in ("ttft", "tpot", "itl", "e2e")},
    words={name: name for name in ("mean", "p50", "p90", "p99")},
    finish=_finish,
)  # fmt: skip
LAYOUTS = (ATLAS,)
