"""The benchmark command for an A/B: each engine's own client, or vLLM's client against
llama-server's chat endpoint.

Bounded: the number of prompts follows the concurrency, so that one arm takes about two minutes on
the slow side. What it does not know: the acceptance of your text; random prompts draft worse or
better than real ones.
"""

from __future__ import annotations

import shlex

from advisor.domain.nouns import LLM, Plan

DEFAULT_PORT = {"vllm": 8000, "sglang": 30000, "llama-server": 8080, "ik_llama.cpp": 8080}

_LINE = {"sglang": 'one {"conversations": [...]} a line'}


def own_prompts(engine: str) -> str:
    """One sentence on how the same client sends prompts of the user's own: drafts of random tokens
    are accepted more or less often than those of text that people ask for. Sources: vLLM's docs,
    benchmarking/cli; the options of sglang.bench_serving.
    """
    line = _LINE.get(engine, 'one {"prompt": "..."} a line')
    return (
        f"Random prompts draft unlike your text: better, put your own in a file, {line}, and give "
        f"--dataset-name custom "
        "--dataset-path FILE instead of the random options."
    )


def command(plan: Plan, request: object) -> str:
    """One command line; `request` needs concurrency, ctx_tokens and output_tokens (None: 1, 2048,
    512).
    """
    concurrency = int(getattr(request, "concurrency", None) or 1)
    prompt = int(getattr(request, "ctx_tokens", None) or 2048)
    output = int(getattr(request, "output_tokens", None) or 512)
    count = max(4 * concurrency, 16)
    port = plan.port or DEFAULT_PORT[plan.engine]
    model = plan.served_model_name or plan.model or "MODEL"
    lengths = (
        "--dataset-name",
        "random",
        "--random-input-len",
        str(prompt),
        "--random-output-len",
        str(output),
    )
    if plan.engine == "sglang":
        words = [
            "python",
            "-m",
            "sglang.bench_serving",
            "--backend",
            "sglang-oai-chat",
            "--host",
            "127.0.0.1",
        ]
        words += ["--port", str(port), "--model", model, *lengths, "--random-range-ratio", "1.0"]
        words += ["--num-prompts", str(count), "--max-concurrency", str(concurrency), "--seed", "1"]
        return shlex.join(words)
    words = [
        "vllm",
        "bench",
        "serve",
        "--backend",
        "openai-chat",
        "--endpoint",
        "/v1/chat/completions",
    ]
    words += ["--base-url", f"http://127.0.0.1:{port}", "--model", model]
    if plan.engine != "vllm":
        words += ["--tokenizer", _tokenizer(request)]
    words += [
        *lengths,
        "--num-prompts",
        str(count),
        "--max-concurrency",
        str(concurrency),
        "--ignore-eos",
        "--seed",
        "1",
    ]
    return shlex.join(words)


def _tokenizer(request: object) -> str:
    """The unquantised repository, whose tokenizer the client counts with; a visible placeholder
    where none is known.
    """
    model = getattr(request, "model", None)
    rows = model.checkpoints if isinstance(model, LLM) else ()
    return next(
        (row.repository for row in rows if row.quant == "bf16" and row.file is None),
        "YOUR-TOKENIZER-REPO",
    )
