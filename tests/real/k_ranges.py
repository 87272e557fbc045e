"""Check emitted ranges of k against the loaders of the newest vLLM and SGLang themselves.

    python tests/real/k_ranges.py [--vllm 0.33.0] [--sglang 0.5.23]

For every answer of a grid of questions the adaptive configuration is loaded by SGLang's own
`AdaptiveSpeculativeParams` and the schedule by vLLM's own `build_dynamic_sd_schedule_lookup`; both
must give the intended k at every batch size. Canaries must be refused. The wheels come and are kept
as in real_parsers.py.
"""

import argparse
import importlib.util
import json
import logging
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from advisor.advice.explore.axes import series
from advisor.advice.explore.sweep import sweep
from advisor.domain.nouns import AdvisorError, Plan, Request
from advisor.engines.extract.releases import cache, unpack
from advisor.engines.k_ranges import KRangeArguments, schedule_arguments

Ranges = tuple[tuple[int, int, int], ...]
QUESTIONS = [
    {"hardware": hardware, "model": model}
    for hardware in ("gb10", "h100", "h200", "rtx5090", "b200", "a100-80gb")
    for model in ("qwen3.6-27b", "qwen3.6-35b-a3b", "qwen3.5-9b")
]
MADE: tuple[Ranges, ...] = (  # beside those that the questions give
    ((1, 8, 3), (9, 64, 1)),
    ((1, 1, 4), (2, 15, 2), (16, 127, 1), (128, 256, 0)),
    ((1, 4, 0), (5, 32, 3)),
)


def load(path: Path, name: str, empty: dict[str, dict[str, Any]]) -> Any:
    """A module of a release by itself; what it imports of its own package is made empty."""
    for module, names in empty.items():
        made = types.ModuleType(module)
        made.__dict__.update(names)
        sys.modules[module] = made
    spec = importlib.util.spec_from_file_location(name, path)
    module_found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module_found)
    return module_found


def sglang_loader(folder: Path) -> Any:
    nothing = lambda *_, **__: None  # noqa: E731
    packages = ("sglang", "sglang.srt", "sglang.srt.arg_groups", "sglang.srt.speculative")
    stubs = {name: {} for name in packages} | {
        "sglang.srt.arg_groups.overrides": {"resolved_view": nothing, "resolving_view": nothing},
        "sglang.srt.runtime_context": {"attn_dp_enabled_of": nothing},
        "sglang.srt.speculative.spec_info": {"SpeculativeAlgorithm": None},
        "sglang.srt.utils": {"log_info_on_rank0": nothing},
    }
    path = folder / "sglang/srt/speculative/adaptive_spec_params.py"
    return load(path, "adaptive_spec_params", stubs)


def check_sglang(loader: Any, made: KRangeArguments, rows: Ranges) -> None:
    """The tiers give the intended k at every batch size, and the initial k is one of them."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(made.file_text)
        file.flush()
        steps = loader.resolve_candidate_steps_from_config(file.name)
        told = int(made.arguments[made.arguments.index("--speculative-num-steps") + 1])
        assert told in steps, (told, steps)
        params = loader.AdaptiveSpeculativeParams(told, file.name)
        for first, last, k in rows:
            for size in range(first, last + 1):
                assert params.get_steps_for_batch(size) == k, (size, k)


def check_vllm(module: Any, made: KRangeArguments, rows: Ranges) -> None:
    told = json.loads(made.arguments[1])
    table = module.build_dynamic_sd_schedule_lookup(
        told["num_speculative_tokens_per_batch_size"], rows[-1][1], told["num_speculative_tokens"]
    )
    for first, last, k in rows:
        assert table[first : last + 1] == [k] * (last - first + 1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vllm", default="0.33.0")
    parser.add_argument("--sglang", default="0.5.23")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    folder, python = cache(), Path(sys.executable)
    loader = sglang_loader(unpack(folder, python, "sglang", options.sglang))
    module = load(
        unpack(folder, python, "vllm", options.vllm) / "vllm/v1/spec_decode/dynamic/utils.py",
        "dynamic_utils",
        {},
    )
    _canaries(loader, module)
    counts = {"sglang": 0, "vllm": 0}
    for engine, version in (("sglang", options.sglang), ("vllm", options.vllm)):
        check = check_sglang if engine == "sglang" else check_vllm
        judge = loader if engine == "sglang" else module
        plan = Plan(engine=engine, engine_version=version, model="m", method="mtp", k=1)
        tables = [(rows, schedule_arguments(plan, rows)) for rows in MADE]
        for question in QUESTIONS:
            request = Request(engine=engine, engine_version=version, **question)
            try:
                found = sweep(request, {"concurrency": series(1, 256)}).k_ranges
            except AdvisorError:
                continue
            tables += [
                (one.rows, KRangeArguments(one.arguments, one.file_name, one.file_text))
                for one in found
                if one.arguments
            ]
        for rows, words in tables:
            check(judge, words, rows)
            counts[engine] += 1
        print(f"{engine} {version}: {counts[engine]} accepted, each batch size at its k")
    return 0


def _canaries(loader: Any, module: Any) -> None:
    """What both must refuse: a loader that takes these judges nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write('{"1": {"candidate_steps": [-1]}}')
        file.flush()
        _refusal(lambda: loader.resolve_candidate_steps_from_config(file.name))
    _refusal(lambda: module.build_dynamic_sd_schedule_lookup([[2, 4, 1]], 8, 1))


def _refusal(call: Any) -> None:
    try:
        call()
    except ValueError:
        return
    raise SystemExit("a loader took what it must refuse: the check is broken")


if __name__ == "__main__":
    sys.exit(main())
