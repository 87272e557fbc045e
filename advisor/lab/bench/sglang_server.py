"""One SGLang server over a model's shape with random weights, started by a step-cost sweep.

`python -m advisor.lab.bench.sglang_server '{"model": ..., "quant": ..., "k": 2, ...}'`

Settings that keep a start short and the step as it is: CUDA graphs for the batch sizes that are
measured, none for prompts. No tokenizer is loaded: prompts are token ids.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from advisor.lab.bench.shapes import config_of

SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def arguments(asked: dict[str, Any], folder: str) -> dict[str, Any]:
    """Keyword arguments of SGLang's ServerArgs for one job."""
    k, clients = asked["k"], asked["clients"]
    made: dict[str, Any] = {
        "model_path": folder,
        "load_format": "dummy",
        "skip_tokenizer_init": True,
        "enable_multimodal": False,
        "attention_backend": "fa3",
        "sampling_backend": "pytorch",
        "disable_radix_cache": True,
        "context_length": asked["context"],
        "max_running_requests": clients,
        "max_total_tokens": max(65_536, 2 * clients * asked["context"]),
        "mem_fraction_static": 0.80,
        "cuda_graph_bs_decode": [size for size in SIZES if size <= clients] or [1],
        "disable_prefill_cuda_graph": True,
        "incremental_streaming_output": True,
        "disable_overlap_schedule": not asked["overlap"],
        "host": "127.0.0.1",
        "port": asked["port"],
    }
    if asked.get("beside"):  # other servers on this card: their schedulers must not spin
        made |= {"sleep_on_idle": True, "max_total_tokens": clients * asked["context"] * 3 // 4}
    if k:
        made |= {
            "speculative_algorithm": "NEXTN",
            "speculative_num_steps": k,
            "speculative_eagle_topk": 1,
            "speculative_num_draft_tokens": k + 1,
        }
    if k and asked.get("method") == "eagle3":
        made |= {
            "speculative_algorithm": "EAGLE3",
            "speculative_draft_model_path": f"{folder}/drafter",
        }
    if k and asked.get("tree"):
        topk, tokens = asked["tree"]
        made |= {"speculative_eagle_topk": topk, "speculative_num_draft_tokens": tokens}
    return made


def main() -> None:
    """Start the server; returns when it ends."""
    asked = json.loads(sys.argv[1])
    folder = tempfile.mkdtemp(prefix="shape-")
    Path(folder, "config.json").write_text(json.dumps(config_of(asked)))
    if draft := asked.get("draft_config"):
        Path(folder, "drafter").mkdir()
        Path(folder, "drafter", "config.json").write_text(Path(draft).read_text())
    # SGLang's own imports take half a minute: not for those who only list jobs.
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.server_args import ServerArgs

    launch_server(ServerArgs(**arguments(asked, folder)))


if __name__ == "__main__":
    main()
