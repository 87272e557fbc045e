"""One SGLang server over a model's shape with random weights, started by a step-cost sweep.

CUDA graphs for the batch sizes that are measured, none for prompts; prompts are token ids.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from advisor.lab.bench import shapes

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def arguments(job: dict[str, Any], folder: str) -> dict[str, Any]:
    """Keyword arguments of SGLang's ServerArgs for one job."""
    k, clients = job["k"], job["clients"]
    out: dict[str, Any] = {
        "model_path": folder,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "enable_multimodal": False,
        "attention_backend": "fa3",
        "sampling_backend": "pytorch",
        "disable_radix_cache": True,
        "context_length": job["context"],
        "max_running_requests": clients,
        "max_total_tokens": max(65_536, 2 * clients * job["context"]),
        "mem_fraction_static": 0.80,
        "cuda_graph_bs_decode": [size for size in SIZES if size <= clients] or [1],
        "disable_prefill_cuda_graph": True,
        "incremental_streaming_output": True,
        "disable_overlap_schedule": not job["overlap"],
        "host": "127.0.0.1",
        "port": job["port"],
    }
    if job.get("beside"):  # other servers on this card: their schedulers must not spin
        out |= {"sleep_on_idle": True, "max_total_tokens": clients * job["context"] * 3 // 4}
    if not k:
        return out
    topk, tokens = job.get("tree") or (1, k + 1)
    out |= {"speculative_algorithm": "NEXTN", "speculative_num_steps": k}
    out |= {"speculative_eagle_topk": topk, "speculative_num_draft_tokens": tokens}
    if job.get("method") == "eagle3":
        out["speculative_algorithm"] = "EAGLE3"
        out["speculative_draft_model_path"] = f"{folder}/drafter"
    return out


def main() -> None:
    """Start the server; returns when it ends."""
    job = json.loads(sys.argv[1])
    folder = tempfile.mkdtemp(prefix="shape-")
    shapes.write(job, Path(folder))
    # SGLang's own imports take half a minute: not for those who only list jobs.
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import ServerArgs

    launch_server(ServerArgs(**arguments(job, folder)))


if __name__ == "__main__":
    main()
