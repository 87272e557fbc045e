"""100,000 rows in one call of `predict_columns`: settings that repeat, different rows of one H200
(whose cell holds most of the measured pairs), and a sweep over models, cards, engines and k; beside
the bare import of click, pydantic and numpy, in processor time. Ends with 1 where a ratio is more
than `MARGIN` times the recorded one.

    python tests/benchmarks/bench_predict.py [rounds] [--record]

Wanted is at most 1 s of processor time each, on a machine that does nothing else.
"""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from advisor.prediction.predict_table import predict_columns
from tests.benchmarks.bench_cold_start import BARE, judge, least_ratios, time_code

ROWS = 100_000
Columns = dict[str, list[str]]
MODELS = {
    "qwen3.6-35b-a3b": ("fp8", "bf16", "nvfp4"), "qwen3.6-27b": ("fp8", "bf16"),
    "qwen3-8b": ("bf16", "fp8"), "llama-3.3-70b-instruct": ("fp8", "awq"), "glm-4.6": ("fp8",),
    "gpt-oss-120b": ("mxfp4",), "deepseek-v3.2": ("fp8",),
}  # fmt: skip
HARDWARE = ("h200", "h100-sxm", "gb10", "rtx5090", "rtx3090", "a100-80gb", "b200", "l40s")


def few_settings() -> Columns:
    """144 settings, again and again."""
    few = [
        ("qwen3.6-35b-a3b", "fp8", hardware, str(k), str(streams), str(tokens))
        for hardware in ("gb10", "h200", "rtx5090")
        for k in (1, 2, 3, 4)
        for streams in (1, 4, 16, 64)
        for tokens in (512, 2048, 8192)
    ]
    names = ("model", "quant", "hardware", "k", "concurrency", "input_tokens")
    columns = zip(*(few[i % len(few)] for i in range(ROWS)), strict=True)
    made = {name: list(cells) for name, cells in zip(names, columns, strict=True)}
    return made | {"output_tokens": ["512"] * ROWS} | same(("vllm", "mtp", "output_tok_s"))


def of_one_card() -> Columns:
    """Different prompts, answers, k and requests on one H200, of which no GPU count is said."""
    draw = random.Random(2)
    return {
        "model": ["qwen3.6-35b-a3b"] * ROWS,
        "quant": ["fp8"] * ROWS,
        "hardware": ["h200"] * ROWS,
        "k": numbers(draw, 1, 4),
        "concurrency": numbers(draw, 1, 128),
        "input_tokens": numbers(draw, 64, 32_768),
        "output_tokens": numbers(draw, 32, 4096),
    } | same(("vllm", "mtp", "output_tok_s"))


def sweep() -> Columns:
    """What a user's sweep varies, all at once."""
    draw = random.Random(1)
    models = draw.choices(list(MODELS), k=ROWS)
    gpus = draw.choices(("1", "2", "4", "8"), k=ROWS)
    return {
        "model": models,
        "quant": [draw.choice(MODELS[model]) for model in models],
        "hardware": draw.choices(HARDWARE, k=ROWS),
        "engine": draw.choices(("vllm", "sglang"), k=ROWS),
        "spec_method": draw.choices(("mtp", "eagle3", "ngram"), k=ROWS),
        "speedup_metric": draw.choices(("output_tok_s", "tpot", "ttft"), k=ROWS),
        "workload": draw.choices(("code", "chat", "mixed", ""), k=ROWS),
        "k": numbers(draw, 1, 8),
        "concurrency": numbers(draw, 1, 256),
        "input_tokens": numbers(draw, 64, 32_768),
        "output_tokens": numbers(draw, 32, 4096),
        "gpu_count": gpus,
        "tp": gpus,
    }


def numbers(draw: random.Random, least: int, most: int) -> list[str]:
    """A column of whole numbers."""
    return [str(draw.randint(least, most)) for _ in range(ROWS)]


def same(words: tuple[str, str, str]) -> Columns:
    """Engine, method and metric, the same in every row."""
    names = ("engine", "spec_method", "speedup_metric")
    return {name: [word] * ROWS for name, word in zip(names, words, strict=True)}


def main() -> None:
    """Print the figures; rounds alternate, so that a busy machine slows all."""
    words = [word for word in sys.argv[1:] if word != "--record"]
    rounds = int(words[0]) if words else 3
    tables = {"repeated": few_settings(), "one H200": of_one_card(), "sweep": sweep()}
    spent: dict[str, list[float]] = {"bare": []} | {name: [] for name in tables}

    def measure() -> dict[str, float]:
        for _ in range(rounds):
            spent["bare"] += [time_code(BARE, cache).cpu_s for _ in range(3)]
            for name, columns in tables.items():
                start = time.process_time()
                predict_columns(columns, ROWS)
                spent[name].append(time.process_time() - start)
        ratios = least_ratios(spent)
        for name in tables:
            print(
                f"{ROWS:,} rows, {name:9} {min(spent[name]):5.2f} s of processor time, the least "
                f"of {len(spent[name])}: {ratios[name]:5.1f} bare imports"
            )
        return {f"{name.replace(' ', '_').lower()}_cpu": ratios[name] for name in tables}

    with tempfile.TemporaryDirectory() as cache:
        time_code(BARE, cache)
        judge(measure, "--record" in sys.argv)


if __name__ == "__main__":
    main()
