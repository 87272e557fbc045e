"""The benchmark command for an A/B: each engine's own client, vLLM's for llama-server."""

import json

from advisor.domain.nouns import LLM, Plan
from advisor.domain.shell import shell_words
from advisor.engines.traits import traits
from advisor.engines.versions import parts

# What opens /metrics, without which nobody counts what was accepted; vLLM's is open by itself
METRICS_FLAG = {
    "sglang": "--enable-metrics",
    "llama-server": "--metrics",
    "ik_llama.cpp": "--metrics",
}


def requests(concurrency: int) -> int:
    """How many requests one run of the load sends."""
    return max(4 * concurrency, 16)


def command(
    plan: Plan,
    request: object,
    *,
    prompts: int | None = None,
    seed: int = 1,
    result: str | None = None,
    k: int | None = None,
    method: str | None = None,
    data: str | None = None,
    workload: str | None = None,
    rate: float | None = None,
    temperature: float | None = None,
) -> str:
    """One command line for a `request`'s load (None: 1, 2048, 512), with the prompts of the file
    `data`, else random ones; a temperature left out is the client's own. With `result` the client
    saves that file, with what vLLM's lacks.
    """
    concurrency = int(getattr(request, "concurrency", None) or 1)
    prompt = int(getattr(request, "ctx_tokens", None) or 2048)
    output = int(getattr(request, "output_tokens", None) or 512)
    count = prompts or requests(concurrency)
    port = plan.port or traits(plan.engine).default_port
    model = plan.served_model_name or plan.model or "MODEL"
    sglang = plan.engine == "sglang"
    if data is None:
        load = ["--dataset-name", "random", "--random-input-len", str(prompt)]
        load += ["--random-output-len", str(output)]
        load += ["--random-range-ratio", "1.0"] if sglang else []
    else:
        load = ["--dataset-name", "custom", "--dataset-path", data]
        # the file has the lengths, and the server applies the template
        load += [] if sglang else ["--custom-output-len", "-1", "--skip-chat-template"]
    load += ["--num-prompts", str(count)]
    load += ["--request-rate", f"{rate:g}"] if rate else ["--max-concurrency", str(concurrency)]
    load += ["--seed", str(seed)]
    if temperature is not None:
        body = json.dumps({"temperature": temperature})
        load += ["--extra-request-body", body] if sglang else ["--temperature", f"{temperature:g}"]
    if sglang:
        version = plan.engine_version  # the 0.5.17 wheel has another module than 0.5.12's
        old = version is not None and parts(version) < parts("0.5.17")
        words = ["python3", "-m", f"sglang.{'bench_serving' if old else 'benchmark.serving'}"]
        words += ["--backend", "sglang-oai-chat", "--host", "127.0.0.1"]
        words += ["--port", str(port), "--model", model, *load]
        return shell_words([*words, *(["--output-file", result] if result else [])])
    words = ["vllm", "bench", "serve", "--backend", "openai-chat"]
    words += ["--endpoint", "/v1/chat/completions"]
    words += ["--base-url", f"http://127.0.0.1:{port}", "--model", model]
    if plan.engine != "vllm":
        words += ["--tokenizer", _tokenizer(request)]
    words += [*load, "--ignore-eos"]
    if result:
        words += ["--save-result", "--save-detailed", "--result-filename", result]
        stated = [f"seed={seed}", *([f"method={method}"] if method else [])]
        stated += [f"dataset_name={workload}"] if workload else []
        words += ["--metadata", *stated, *([f"k={k}"] if k is not None else [])]
    return shell_words(words)


def prompt_line(engine: str, text: str, output: int) -> str:
    """A prompt as the client's file has it (custom data, vLLM 0.19.1 to 0.33.0, SGLang 0.5.23)."""
    if engine == "sglang":  # which counts the tokens of the answer that the file has
        turns = [
            {"role": "user", "content": text},
            {"role": "assistant", "content": "a" + " a" * (output - 1)},
        ]
        return json.dumps({"conversations": turns})
    return json.dumps({"prompt": text, "output_tokens": output})


def _tokenizer(request: object) -> str:
    """The unquantised repository, else a placeholder that shows."""
    model = getattr(request, "model", None)
    rows = model.checkpoints if isinstance(model, LLM) else ()
    return next(
        (row.repository for row in rows if row.quant == "bf16" and row.file is None),
        "YOUR-TOKENIZER-REPO",
    )
