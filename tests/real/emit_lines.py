"""Print what the adapters write, as JSON lines for real_parsers.py: every plan shape on every
catalogued release, and every way of drafting of the models most served.
`python -m tests.real.emit_lines`
"""

import json
from collections.abc import Iterator
from itertools import chain, product

from advisor import engines
from advisor.domain.nouns import AdvisorError, Plan
from tests import method_table
from tests.tables import fields


def plans(engine: str, version: str) -> Iterator[Plan]:
    """Plans of many shapes; those that the release cannot run are left out by the caller."""
    base = {"engine": engine, "engine_version": version, "port": 8000, "host": "0.0.0.0"}
    full = base | {"model": "Qwen/Qwen3.6-35B-A3B-FP8", "max_num_seqs": 16}
    full |= {"max_model_len": 8192, "max_num_batched_tokens": 8192}
    if engine != "llama-server":
        full |= {"memory_fraction": 0.85, "reasoning_parser": "qwen3", "pp": 2, "dp": 2}
        full |= {"tool_call_parser": "qwen3_coder"}
    ways = "none=0 mtp=1 eagle3=3 draft_model=4 ngram=4 dflash=8 dspark=4"
    for (method, k), cache, tp in product(
        (*fields(ways).items(), ("mtp", 3)), (None, True, False), (1, 2)
    ):
        drafter = None if method in ("none", "mtp", "ngram") else "a/draft"
        speculation = {"method": method, "k": k, "draft_model": drafter}
        speculation |= {"prefix_caching": cache, "tp": tp}
        yield Plan(**{**base, "model": "Qwen/Qwen3.6-27B"}, **speculation)
        yield Plan(
            **full, **speculation, kv_cache_dtype="q8_0" if engine == "llama-server" else "fp8_e4m3"
        )
    adaptive = full | {"method": "mtp", "k": 3, "k_schedule": ((1, 8, 3), (9, 64, 1))}
    if engine == "sglang":
        yield Plan(**adaptive)
    if engine == "vllm":
        yield Plan(**adaptive, async_scheduling=True, served_model_name="q")
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
                argv = list(adapter.render(launch).argv)
                yield {"engine": engine, "version": version, "argv": argv}


def main() -> None:
    for line in dict.fromkeys(json.dumps(row) for row in chain(lines(), method_table.lines())):
        print(line)


if __name__ == "__main__":
    main()
