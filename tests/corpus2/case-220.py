# ruff: noqa
import os, shlex, subprocess, sys


def command(
    model_dir,
    served_name="m",
    port=8000,
    max_model_len=32768,
    gpu_mem=0.9,
    max_num_seqs=16,
    images_per_prompt=2,
    tool_parser="qwen3_coder",
    reasoning_parser="qwen3",
    kv_cache_dtype="auto",
    mtp_tokens=2,
    extra=None,
):
    max_model_len = int(os.environ.get("VLLM_MAX_MODEL_LEN", max_model_len))
    cmd = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        model_dir,
        "--served-model-name",
        served_name,
        "--port",
        str(port),
        "--host",
        "127.0.0.1",
        "--max-model-len",
        str(max_model_len),
        "--gpu-memory-utilization",
        str(gpu_mem),
        "--max-num-seqs",
        str(max_num_seqs),
        "--limit-mm-per-prompt",
        '{"image": %d}' % images_per_prompt,
        "--no-enable-prefix-caching",
        "--trust-remote-code",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        tool_parser,
    ]
    if reasoning_parser and reasoning_parser != "none":
        cmd += ["--reasoning-parser", reasoning_parser]
    if kv_cache_dtype and kv_cache_dtype != "auto":
        cmd += ["--kv-cache-dtype", kv_cache_dtype]
    if mtp_tokens > 0:
        cmd += ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": %d}' % mtp_tokens]
    extra = os.environ.get("VLLM_EXTRA_ARGS", "") if extra is None else extra
    if extra:
        cmd += shlex.split(extra)
    return cmd


subprocess.run(command("/models/Qwen3.5-9B"))
