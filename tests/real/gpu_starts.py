"""Emitted launches of vLLM or SGLang against the real engine on a machine with a GPU:
docs/research/gpu-starts.md.

    python gpu_starts.py configs FOLDER OUT.json         # each builds the engine's configuration
    python gpu_starts.py starts FOLDER OUT.json [--ab DIR]  # some are started, asked, stopped

FOLDER comes from `python -m tests.real.gpu_lines`. Nothing of the package is imported: the engine
alone.
Of a launch only the model's path changes for `configs`; what `starts` adds is ADDED in
gpu_server.py, and the
KV cache is cut so that several engines share the card.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gpu_sglang  # type: ignore[import-not-found]
import gpu_tokenizer  # type: ignore[import-not-found]  # beside this script, as is the next
from gpu_server import ADDED, ENV, Server, model_path  # type: ignore[import-not-found]

WANTED = (
    ("qwen3.6-35b-a3b", "fp8"),
    ("qwen3.6-27b", "fp8"),
    ("qwen3.5-9b", "bf16"),
    ("qwen3-next-80b-a3b", "fp8"),
    ("qwen3.6-35b-a3b", "bf16"),
    ("qwen3.5-35b-a3b", "gptq"),
    ("qwen3.5-9b", "packed"),
    ("qwen3.6-35b-a3b", "awq"),
)  # both arms of each
SEATS = 8  # engines at a time
AB_S = 70.0  # kept of the time limit for the A/B
RATES = (0.816, 0.635, 0.48, 0.36)  # forced acceptance by position, in the A/B alone
ADVISOR = "import sys; from advisor.cli.app import main; sys.exit(main())"


def launches(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "launches.jsonl").read_text().splitlines()]


def versions() -> dict[str, str]:
    import torch
    import transformers
    import vllm

    return {
        "vllm": vllm.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none",
        "python": sys.version.split()[0],
    }


def configs(folder: Path, out: Path, limit: float) -> bool:
    """Every launch through vLLM's parser, its checks of a `serve` line and create_engine_config."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
    begin = time.monotonic()
    gpus = [1]
    # a launch for several GPUs is told of as many as it asks for
    type(current_platform).device_count = classmethod(lambda _: gpus[0])
    told = {"versions": versions(), "accepted": 0, "not_reached": 0, "refused": [], "by": {}}
    told |= {"only_the_model_path_changed": True, "seconds_by_launch": []}
    todo = launches(folder)
    for row in todo:
        if time.monotonic() - begin > limit:
            told["not_reached"] += 1
            continue
        gpus[0] = row["gpus"]
        since = time.monotonic()
        try:
            argv = [model_path(folder, row), *row["argv"][3:]]
            space = parser.parse_args(argv)
            space.model = space.model_tag
            validate_parsed_serve_args(space)
            made = AsyncEngineArgs.from_cli_args(space).create_engine_config(
                UsageContext.OPENAI_API_SERVER
            )
            want = "--speculative-config" in argv
            if (made.speculative_config is not None) != want:
                raise RuntimeError(f"speculative_config is {made.speculative_config}")
        except (Exception, SystemExit) as refusal:
            text = f"{type(refusal).__name__}: {refusal}"
            told["refused"].append({**row, "message": text[-1200:]})
        else:
            told["accepted"] += 1
            key = f"{row['model']} {row['form']} {'on' if want else 'off'}"
            told["by"][key] = told["by"].get(key, 0) + 1
        told["seconds_by_launch"].append(round(time.monotonic() - since, 2))
    told["seconds"] = round(time.monotonic() - begin, 1)
    spent = sorted(told.pop("seconds_by_launch"))
    told["median_seconds"] = spent[len(spent) // 2]
    told["launches"] = len(todo)
    out.write_text(json.dumps(told, indent=1))
    print({key: value for key, value in told.items() if key not in ("refused", "by")}, flush=True)
    for text in sorted({row["message"][:400] for row in told["refused"]})[:12]:
        print("REFUSED", text, flush=True)
    return told["accepted"] == len(todo)


def requests(argv: list[str]) -> int:
    """The requests that a launch serves at once."""
    name = "--max-num-seqs" if "--max-num-seqs" in argv else "--max-running-requests"
    return int(argv[argv.index(name) + 1])


def drafts(argv: list[str]) -> bool:
    return "--speculative-config" in argv or "--speculative-algorithm" in argv


def pair(rows: list[dict[str, Any]], model: str, form: str) -> list[dict[str, Any]]:
    """Both arms of one model and kind for one GPU, an H200 if one was asked about."""
    fits = [
        row
        for row in rows
        if (row["model"], row["form"]) == (model, form)
        and row["gpus"] == 1
        and requests(row["argv"]) <= 64
        and not row["hardware"].startswith(("apple", "strix", "mi300", "rx"))
    ]
    fits.sort(key=lambda row: row["hardware"] not in ("h200", "h100-sxm"))
    arms = [[r for r in fits if drafts(r["argv"]) is on] for on in (False, True)]
    return [found[0] for found in arms if found]


def one(folder: Path, row: dict[str, Any], log: Path, until: float) -> dict[str, Any]:
    """Start, one chat request, speculation counters, stop."""
    told = {key: row[key] for key in ("argv", "env", "hardware", "model", "form")}
    if time.monotonic() > until - 60:
        return {**told, "ok": False, "message": "not reached"}
    server = (gpu_sglang.Server if row["engine"] == "sglang" else Server)(folder, row, log)
    told["started_with"] = server.argv[1:]
    server.start()
    try:
        server.wait(until)
        told["seconds_to_health"] = round(time.monotonic() - server.begin, 1)
        body = {"model": "m", "max_tokens": server.tokens, "temperature": 0.7, "ignore_eos": True}
        body["messages"] = [{"role": "user", "content": "Say what a draft model is for."}]
        answer = json.loads(server.ask("/v1/chat/completions", body))
        told["usage"] = answer["usage"]
        told["counters"] = server.counters()
        drafted = told["counters"].get(server.drafts_counter, 0.0)
        told["ok"] = answer["usage"]["completion_tokens"] == server.tokens and (
            drafts(row["argv"]) == (drafted > 0)
        )
    except Exception as failure:
        told |= {"ok": False, "message": f"{type(failure).__name__}: {failure}"}
        told["log_tail"] = server.tail()
    finally:
        told["exit"] = server.stop()
    told["seconds"] = round(time.monotonic() - server.begin, 1)
    print(
        "ok" if told["ok"] else "FAILED",
        row["model"],
        row["form"],
        row["hardware"],
        told.get("seconds_to_health"),
        told.get("counters"),
        told.get("message", ""),
        flush=True,
    )
    return told


def both_arms(folder: Path, logs: Path) -> list[Server]:
    """The servers of an A/B: Qwen3.5-9B whole, the arm with drafts with forced acceptance."""
    found = []
    for row in pair(launches(folder), "qwen3.5-9b", "bf16"):
        on = "--speculative-config" in row["argv"]
        server = Server(folder, row, logs / f"ab-{'on' if on else 'off'}.log", short=False)
        if on:
            at = server.argv.index("--speculative-config") + 1
            chosen = json.loads(server.argv[at])
            k = chosen["num_speculative_tokens"]
            chosen |= {
                "rejection_sample_method": "synthetic",
                "synthetic_acceptance_rates": list(RATES[:k]),
                "draft_sample_method": "probabilistic",
            }
            server.argv[at] = json.dumps(chosen)
        server.start()
        found.append(server)
    return found


def measure(servers: list[Server], into: Path, until: float) -> list[dict[str, Any]]:
    """`advisor bench run` of each arm, one after the other, the other server idle."""
    told = []
    for server in servers:
        on = "--speculative-config" in server.argv
        command = [sys.executable, "-c", ADVISOR, "bench", "run", str(into)]
        command += ["--url", f"http://127.0.0.1:{server.port}", "--arm", "on" if on else "off"]
        command += ["--model", "qwen3.5-9b", "--hw", "h200", "--concurrency", "8", "--ctx", "512"]
        command += ["--output-tokens", "192", "--requests", "24", "--seeds", "2"]
        if on:
            chosen = json.loads(server.argv[server.argv.index("--speculative-config") + 1])
            command += ["--k", str(chosen["num_speculative_tokens"])]
        result: dict[str, Any] = {"command": command[3:], "server": server.argv}
        try:
            server.wait(until)
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=max(5.0, until - time.monotonic()),
                check=False,
            )
            result |= {"exit": done.returncode, "out": done.stdout[-4000:]}
            result["err"] = done.stderr[-2000:]
            result["counters"] = server.counters()
        except Exception as failure:
            result |= {"message": f"{type(failure).__name__}: {failure}", "log": server.tail()}
        print("AB", json.dumps(result)[:3500], flush=True)
        told.append(result)
    return told


def starts(folder: Path, out: Path, limit: float, ab: Path | None, skip: int) -> bool:
    begin = time.monotonic()
    logs = Path("/tmp/gpu-starts-logs")
    logs.mkdir(exist_ok=True)
    rows = launches(folder)
    todo = [row for model, form in WANTED[skip:] for row in pair(rows, model, form)]
    sglang = rows[0]["engine"] == "sglang"
    told: dict[str, Any] = {"versions": gpu_sglang.versions() if sglang else versions()}
    told |= (
        {"added": gpu_sglang.ADDED, "env": gpu_sglang.ENV}
        if sglang
        else {
            "added": ADDED,
            "env": ENV,
        }
    )
    told["layers"] = 4
    arms = both_arms(folder, logs) if ab else []
    try:
        until = begin + limit - (AB_S if ab else 20)
        with ThreadPoolExecutor(SEATS) as pool:
            told["starts"] = []
            tasks = [
                pool.submit(one, folder, row, logs / f"{n}.log", until)
                for n, row in enumerate(todo)
            ]
            for task in tasks:
                told["starts"].append(task.result())
                out.write_text(json.dumps(told, indent=1))
        told["started"] = sum(row["ok"] for row in told["starts"])
        out.write_text(json.dumps(told, indent=1))
        if ab:
            told["ab"] = measure(arms, ab, begin + limit - 15)
    finally:
        for server in arms:
            server.stop()
    told["seconds"] = round(time.monotonic() - begin, 1)
    out.write_text(json.dumps(told, indent=1))
    print(told["started"], "of", len(todo), "started, asked and stopped", flush=True)
    return told["started"] == len(todo)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("tokenizers", "configs", "starts"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--limit", type=float, default=500, help="seconds")
    parser.add_argument("--ab", type=Path, help="also an A/B, into this folder")
    parser.add_argument("--skip", type=int, default=0, help="so many of WANTED")
    options = parser.parse_args()
    folder = options.folder.resolve()
    gpu_tokenizer.write_all(folder)
    os.environ.update(ENV)
    if options.task == "tokenizers":
        return 0
    if options.out is None:
        parser.error("name the result file after the folder")
    if options.task == "configs":
        sglang = launches(folder)[0]["engine"] == "sglang"
        build = gpu_sglang.configs if sglang else configs
        return 0 if build(folder, options.out, options.limit) else 1
    return 0 if starts(folder, options.out, options.limit, options.ab, options.skip) else 1


if __name__ == "__main__":
    sys.exit(main())
