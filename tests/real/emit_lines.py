"""Print what the adapters write, as JSON lines for real_parsers.py: every plan shape on every
catalogued release, and old command lines and the corpus migrated to every release. `python -m
tests.real.emit_lines`
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from advisor import engines
from advisor.domain.nouns import AdvisorError, Plan
from advisor.engines import Token

OLD = {
    "vllm": (
        "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-model-len 128k --max_num_seqs=32 -tp 2 "
        "--swap-space 4 --disable-log-requests"
        ' --speculative-config \'{"method":"qwen3_next_mtp","num_speculative_tokens":2}\'',
        "vllm serve Qwen/Qwen3.5-27B-FP8 --speculative-config.method mtp "
        "--speculative-config.num_speculative_tokens 3"
        " --enable-prefix-caching --kv-cache-dtype fp8 --enable-auto-tool-choice "
        "--tool-call-parser qwen3_coder"
        " --reasoning-parser qwen3 --trust-remote-code --calculate-kv-scales "
        "--mamba-cache-mode align",
        "vllm serve m -sc "
        '\'{"method":"mtp","num_speculative_tokens":2,"rejection_sample_method":"synthetic",'
        '"synthetic_acceptance_rate":0.7}\' --gpu-memory-util 0.85 -O2 '
        "--compilation-config.cudagraph_mode PIECEWISE",
        "vllm serve m --spec-method mtp --spec-tokens 2 --max-num-active-seqs 8 "
        "--disable-prefix-caching",
    ),
    "sglang": (
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 --tp 2 "
        "--speculative-algo NEXTN"
        " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
        "--mem-fraction-static 0.8",
        "python -m sglang.launch_server --model m/Qwen3.5-9B --mamba-scheduler-strategy "
        "extra_buffer --cuda-graph-max-bs 16"
        " --speculative-algorithm EAGLE --disable-cuda-graph --context-length 8192 "
        "--trust-remote-code",
        "sglang serve --model-path m --mamba-radix-cache-strategy extra_buffer "
        "--cuda-graph-max-bs-decode 32 --disable-radix-cache"
        " --speculative-draft-window-size 64 --speculative-adaptive --max-running-requests 16",
    ),
    "llama-server": (
        "llama-server -m /models/q.gguf -ngl 99 -c 32768 -np 4 -fa -ctk q8_0 -ctv q8_0 "
        "--draft-max 8 --draft-min 1 -md /m/d.gguf",
        "llama-server -hf u/Q-MTP-GGUF:UD-Q4_K_XL --spec-type draft-mtp --spec-draft-n-max 2 "
        "--no-mmap --jinja -fa on -b 4096",
        "llama-server -m a.gguf --mlock --mmap --cache-reuse 256 --slot-save-path /tmp -t 8 "
        "--no-webui --metrics --flash-attn on",
    ),
}


def plans(engine: str, version: str) -> Iterator[Plan]:
    """Plans of many shapes; those that the release cannot run are left out by the caller."""
    base = {"engine": engine, "engine_version": version, "port": 8000, "host": "0.0.0.0"}
    full = base | {
        "model": "Qwen/Qwen3.6-35B-A3B-FP8",
        "max_num_seqs": 16,
        "max_model_len": 8192,
        "max_num_batched_tokens": 8192,
    }
    if engine != "llama-server":
        full |= {
            "memory_fraction": 0.85,
            "reasoning_parser": "qwen3",
            "tool_call_parser": "qwen3_coder",
            "pp": 2,
            "dp": 2,
        }
    for (method, k, draft), cache, tp in product(
        (
            ("none", 0, None),
            ("mtp", 1, None),
            ("mtp", 3, None),
            ("eagle3", 3, "a/draft"),
            ("draft_model", 4, "a/draft"),
            ("ngram", 4, None),
            ("dflash", 8, "a/draft"),
            ("dspark", 4, "a/draft"),
        ),
        (None, True, False),
        (1, 2),
    ):
        speculation = {
            "method": method,
            "k": k,
            "draft_model": draft,
            "prefix_caching": cache,
            "tp": tp,
        }
        yield Plan(**{**base, "model": "Qwen/Qwen3.6-27B"}, **speculation)
        yield Plan(
            **full, **speculation, kv_cache_dtype="q8_0" if engine == "llama-server" else "fp8_e4m3"
        )
    schedule = ((1, 8, 3), (9, 64, 1))
    if engine == "sglang":
        yield Plan(**full, method="mtp", k=3, k_schedule=schedule)
    if engine == "vllm":
        yield Plan(
            **full,
            method="mtp",
            k=3,
            k_schedule=schedule,
            async_scheduling=True,
            served_model_name="q",
        )
        yield Plan(
            **full, async_scheduling=False, quantization="fp8", attention_backend="FLASHINFER"
        )


def lines() -> Iterator[dict[str, object]]:
    for engine in ("vllm", "sglang", "llama-server"):
        adapter = engines.get(engine)
        for version in adapter.versions:
            for plan in plans(engine, version):
                try:
                    launch = adapter.to_launch(plan)
                except AdvisorError:
                    continue
                yield {
                    "engine": engine,
                    "version": version,
                    "argv": list(adapter.render(launch).argv),
                }
            for old in OLD[engine]:
                launch = adapter.read([Token(word) for word in shlex.split(old)])
                try:
                    moved, _ = adapter.migrate(launch, version)
                except AdvisorError:  # the release has no such method
                    continue
                yield {
                    "engine": engine,
                    "version": version,
                    "argv": list(adapter.render(moved).argv),
                }


def corpus_lines() -> Iterator[dict[str, object]]:
    """Every launch of the corpus, migrated to every catalogued release; lines with unresolved
    variables are left out.
    """
    from advisor.lint import validate

    for path in sorted((Path(__file__).resolve().parents[1] / "corpus").rglob("case-*")):
        for launch in validate.read_path(str(path)).launches:
            adapter = engines.get(launch.engine)
            if launch.engine not in OLD or launch.fork == "ik_llama.cpp":
                continue
            for version in adapter.versions:
                try:
                    argv = adapter.argv(adapter.migrate(launch, version)[0])
                except AdvisorError:  # the release has no such method
                    continue
                if not any("$" in word for word in argv):
                    yield {"engine": launch.engine, "version": version, "argv": list(argv)}


def main() -> None:
    for line in dict.fromkeys(json.dumps(row) for row in (*lines(), *corpus_lines())):
        print(line)


if __name__ == "__main__":
    main()
