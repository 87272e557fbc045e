"""Check emitted command lines against the released engines' own parsers.

    python tests/real/real_parsers.py --lines FILE [--engine vllm] [--version 0.33.0] [--jobs 2]

FILE (or - for stdin) holds one JSON object a line: {"engine", "version", "argv"}. Every refused
line is printed with the parser's message; the exit status is 1 if there was any. Nothing is
installed but the parsers' imports: wheels are downloaded with --no-deps, their .py files unpacked,
the wheels deleted. All of it is kept under $ADVISOR_CACHE, else ~/.cache/advisor, so that only the
first run is slow.
"""

import argparse
import json
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from advisor.engines.extract.releases import cache, environment, probe, unpack

# newest, oldest, and each release where a flag that is emitted changed
VERSIONS = {
    "vllm": ["0.19.1", "0.20.2", "0.21.0", "0.22.1", "0.24.0", "0.25.1", "0.26.0", "0.28.0",
             "0.30.0", "0.33.0"],
    "sglang": ["0.5.9", "0.5.10", "0.5.11", "0.5.12", "0.5.14", "0.5.16", "0.5.18", "0.5.20",
               "0.5.22", "0.5.23"],
}  # fmt: skip
_SPECULATIVE = ["vllm", "serve", "m", "--speculative-config"]
# refused by every release: a parser that takes these judges nothing
CANARIES = {
    "vllm": [
        ["vllm", "serve", "m", "--no-such-flag", "1"],
        [*_SPECULATIVE, '{"method":"mtp","num_speculative_tokens":2,"no_such_key":1}'],
        [*_SPECULATIVE, '{"method":"mtp","num_speculative_tokens":0}'],
    ],
    "sglang": [
        ["python", "-m", "sglang.launch_server", "--model-path", "m", "--no-such-flag", "1"]
    ],
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--lines", required=True, help="JSONL file of emitted command lines, - for stdin"
    )
    parser.add_argument("--engine", choices=tuple(VERSIONS), help="only this engine")
    parser.add_argument("--version", help="only this release")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    source = Path("/dev/stdin" if options.lines == "-" else options.lines)
    groups: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    for text in source.read_text(encoding="utf-8").splitlines():
        row = json.loads(text)
        groups[row["engine"], row["version"]].append(row["argv"])
    chosen = [
        (engine, version)
        for engine, versions in VERSIONS.items()
        for version in versions
        if groups[engine, version]
        and options.engine in (None, engine)
        and options.version in (None, version)
    ]
    folder = cache()
    python = environment(folder)

    def one(pair: tuple[str, str]) -> int:
        engine, version = pair
        lines = [
            json.loads(text) for text in dict.fromkeys(json.dumps(argv) for argv in groups[pair])
        ]
        canaries = list(CANARIES[engine])
        text = "".join(json.dumps(argv) + "\n" for argv in canaries + lines)
        verdicts = probe(python, "check", engine, unpack(folder, python, engine, version), text)
        if any(row["ok"] for row in verdicts[: len(canaries)]):
            raise RuntimeError(
                f"{engine} {version} took a line that it must refuse: the check is broken"
            )
        verdicts = verdicts[len(canaries) :]
        refused = [(argv, row) for argv, row in zip(lines, verdicts, strict=True) if not row["ok"]]
        print(
            f"{engine} {version}: {len(lines) - len(refused)} accepted, {len(refused)} refused",
            flush=True,
        )
        for argv, row in refused[:20]:
            print(f"  {row['message']}\n    {' '.join(argv)}", flush=True)
        return len(refused)

    with ThreadPoolExecutor(options.jobs) as pool:
        refused = sum(pool.map(one, chosen))
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
