"""Emitted SGLang launches on the real engine; copied beside `gpu_starts.py`.

python gpu_sglang.py ARGUMENTS   # sglang.launch_server for a model without its picture tower
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from gpu_server import Server as Base  # type: ignore[import-not-found]  # beside this script
from gpu_server import model_path, put

ENV = {
    "SGLANG_ENABLE_JIT_DEEPGEMM": "0",
    "HF_HUB_OFFLINE": "1",
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
}
# Several servers share the card, so pools are given; prompts without CUDA graphs start sooner.
ADDED = ["--host", "127.0.0.1", "--load-format", "dummy", "--enable-metrics", "--sleep-on-idle"]
ADDED += ["--max-total-tokens", "262144", "--max-mamba-cache-size", "64"]
ADDED += ["--disable-prefill-cuda-graph", "--served-model-name", "m", "--watchdog-timeout", "600"]
SHARE = "0.5"  # of the card's memory, for servers that start at the same time
LEAKS = "SGLANG_USE_CUDA_IPC_TRANSPORT"  # a ServerArgs sets it for the next of its process


def versions() -> dict[str, str]:
    from importlib.metadata import version

    import torch
    import transformers

    return {
        "sglang": version("sglang"),
        "sglang-kernel": version("sglang-kernel"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "python": sys.version.split()[0],
    }


class Server(Base):  # type: ignore[misc]
    """One `sglang.launch_server` of a launch on this machine, with four layers."""

    counters_wanted = ("sglang:spec_accept_length", "sglang:spec_accept_rate")
    drafts_counter = "sglang:spec_accept_length"
    tokens = 96  # the gauges are written every 40 steps

    def __init__(self, folder: Path, row: dict[str, Any], log: Path, short: bool = True) -> None:
        from gpu_server import port

        self.row, self.log, self.port = row, log, port()
        argv = put(list(row["argv"][3:]), "--model-path", model_path(folder, row, short))
        argv = put(put(argv, "--port", str(self.port)), "--mem-fraction-static", SHARE)
        self.argv = [*argv, *ADDED]
        self.begin = time.monotonic()

    def start(self) -> None:
        self.spawn([sys.executable, __file__, *self.argv], ENV)


def configs(folder: Path, out: Path, limit: float) -> bool:
    """Every launch through SGLang's parser and ServerArgs, its model's configuration included."""
    import torch
    from sglang.srt.server_args import prepare_server_args

    begin, gpus = time.monotonic(), [1]
    torch.cuda.device_count = lambda: gpus[0]  # a launch is told of as many as it asks for
    told: dict[str, Any] = {"versions": versions(), "accepted": 0, "not_reached": 0, "refused": []}
    told |= {"by": {}, "only_the_model_path_changed": True}
    todo = [json.loads(line) for line in (folder / "launches.jsonl").read_text().splitlines()]
    spent = []
    for row in todo:
        if time.monotonic() - begin > limit:
            told["not_reached"] += 1
            continue
        os.environ.pop(LEAKS, None)
        gpus[0], since = row["gpus"], time.monotonic()
        try:
            argv = put(list(row["argv"][3:]), "--model-path", model_path(folder, row))
            made = prepare_server_args(argv)
            made.get_model_config()
            want = "--speculative-algorithm" in argv
            if (made.speculative_algorithm is not None) != want:
                raise RuntimeError(f"speculative_algorithm is {made.speculative_algorithm}")
        except (Exception, SystemExit) as refusal:
            text = f"{type(refusal).__name__}: {refusal}"
            told["refused"].append({**row, "message": text[-1200:]})
        else:
            told["accepted"] += 1
            key = f"{row['model']} {row['form']} {'on' if want else 'off'}"
            told["by"][key] = told["by"].get(key, 0) + 1
        spent.append(round(time.monotonic() - since, 2))
    told |= {"seconds": round(time.monotonic() - begin, 1), "launches": len(todo)}
    told["median_seconds"] = sorted(spent)[len(spent) // 2]
    out.write_text(json.dumps(told, indent=1))
    print({key: value for key, value in told.items() if key not in ("refused", "by")}, flush=True)
    for text in sorted({row["message"][:400] for row in told["refused"]})[:12]:
        print("REFUSED", text, flush=True)
    return bool(told["accepted"] == len(todo))


def main() -> None:
    """As `python -m sglang.launch_server`, without pictures: their processor is not at hand, and
    the option that leaves them out can only be set to true on a command line.
    """
    from sglang import launch_server
    from sglang.srt.server_args import ServerArgs

    parse = ServerArgs.from_cli_args

    def text_only(space: Any) -> Any:
        space.enable_multimodal = False
        return parse(space)

    ServerArgs.from_cli_args = text_only
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    try:
        launch_server.run_server(prepare_server_args(sys.argv[1:]))
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main()
