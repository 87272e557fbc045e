"""A release's own parser, by `releases.environment`: `probe.py dump ENGINE FOLDER` prints options,
JSON classes and environment; `probe.py check ENGINE FOLDER < argv.jsonl` a verdict a line.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import empty_modules  # type: ignore[import-not-found]  # beside this script, as are the next two
import release_facts as facts  # type: ignore[import-not-found]
import release_parsers as parsers  # type: ignore[import-not-found]

EMPTY = {
    "vllm": ("xgrammar", "llguidance"),
    "sglang": ("xgrammar", "llguidance", "IPython", "torchvision", "triton"),
}


def dump(engine: str, folder: Path) -> dict[str, Any]:
    """All that the catalogue holds of one release."""
    if engine == "vllm":
        options = facts.options(parsers.vllm_parser(), facts.vllm_names(folder))
        configs, env = facts.vllm_configs(), facts.vllm_environment()
    else:
        options, configs = facts.options(parsers.sglang_parser(), {}), {}
        env = facts.sglang_environment(folder)
    return {"engine": engine, "options": options, "json_configs": configs, "env": env}


def verdict(
    parser: argparse.ArgumentParser, check: Callable[[Any], str], argv: list[str]
) -> dict[str, object]:
    """The parser's verdict on one command line, without the program's own name."""
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard), contextlib.redirect_stdout(io.StringIO()):
            message = check(parser.parse_args(argv))
    except SystemExit:
        message = (heard.getvalue().strip().splitlines() or ["refused"])[-1]
    except Exception as error:  # whatever a parser raises is its verdict
        message = f"{type(error).__name__}: {error}"
    return {"ok": not message, "message": message[:300]}


def main() -> None:
    """Print the options of the release in a folder as JSON."""
    task, engine, folder = sys.argv[1:4]
    os.environ |= {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}
    empty_modules.install(EMPTY[engine])
    sys.path.insert(0, folder)
    with contextlib.redirect_stdout(sys.stderr):
        release = dump(engine, Path(folder)) if task == "dump" else None
    if release is not None:
        print(json.dumps(release))
        return
    with contextlib.redirect_stdout(sys.stderr):
        parser = parsers.vllm_parser() if engine == "vllm" else parsers.sglang_parser()
        check = parsers.vllm_check() if engine == "vllm" else lambda space: ""
    program = 2 if engine == "vllm" else 3  # `vllm serve`, `python -m sglang.launch_server`
    for line in sys.stdin:
        print(json.dumps(verdict(parser, check, json.loads(line)[program:])))


if __name__ == "__main__":
    main()
