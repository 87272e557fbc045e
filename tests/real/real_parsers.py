"""Check emitted command lines against the released engines' own parsers.

    python tests/real/real_parsers.py --lines FILE [--engine vllm] [--version 0.33.0] [--jobs 2]

FILE (or - for stdin) holds one JSON object a line: {"engine", "version", "argv"}. Every refused
line is printed with the parser's message; the exit status is 1 if there was any. Nothing is
installed but the parsers' imports: wheels are downloaded with --no-deps, their .py files unpacked,
the wheels deleted. All of it is kept under $ADVISOR_CACHE, else .cache/ of the repository, so that
only the first run is slow.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# newest, oldest, and each release where a flag that is emitted or migrated changed
VERSIONS = {
    "vllm": ("0.19.1", "0.20.2", "0.21.0", "0.24.0", "0.25.1", "0.26.0", "0.28.0", "0.33.0"),
    "sglang": ("0.5.9", "0.5.10", "0.5.11", "0.5.12", "0.5.14", "0.5.18", "0.5.20", "0.5.23"),
}


# refused by every release: a parser that takes these judges nothing
CANARIES = {
    "vllm": (
        ["vllm", "serve", "m", "--no-such-flag", "1"],
        [
            "vllm",
            "serve",
            "m",
            "--speculative-config",
            '{"method":"mtp","num_speculative_tokens":2,"no_such_key":1}',
        ],
        [
            "vllm",
            "serve",
            "m",
            "--speculative-config",
            '{"method":"mtp","num_speculative_tokens":0}',
        ],
    ),
    "sglang": (
        ["python", "-m", "sglang.launch_server", "--model-path", "m", "--no-such-flag", "1"],
    ),
}


def cache() -> Path:
    root = os.environ.get("ADVISOR_CACHE")
    folder = (Path(root) if root else HERE.parents[1] / ".cache") / "real-parsers"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(folder: Path) -> Path:
    """The interpreter of one virtual environment that serves every release; built once."""
    python = folder / "venv" / "bin" / "python"
    done = folder / "venv" / ".complete"
    wanted = (HERE / "requirements.txt").read_text(encoding="utf-8")
    if done.is_file() and done.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    index = os.environ.get(
        "ADVISOR_TORCH_INDEX"
    )  # e.g. https://download.pytorch.org/whl/cpu for the small build
    if index:
        subprocess.run([*install, "--index-url", index, "torch"], check=True)
    subprocess.run([*install, "-r", str(HERE / "requirements.txt")], check=True)
    done.write_text(wanted, encoding="utf-8")
    return python


def unpacked(folder: Path, python: Path, engine: str, version: str) -> Path:
    """The folder with a release's .py files and metadata; downloaded once, never installed."""
    target = folder / f"{engine}-{version}"
    if (target / ".complete").is_file():
        return target
    work = folder / f"{engine}-{version}.part"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    pip = [
        str(python),
        "-m",
        "pip",
        "download",
        "-qq",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary",
        ":all:",
    ]
    subprocess.run([*pip, "-d", str(work), f"{engine}=={version}"], check=True)
    wheel = next(work.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        keep = [
            name
            for name in archive.namelist()
            if name.endswith((".py", ".json", "/METADATA", "/entry_points.txt"))
        ]
        archive.extractall(work, keep)
    wheel.unlink()
    (work / ".complete").touch()
    shutil.rmtree(target, ignore_errors=True)
    work.rename(target)
    return target


def check(
    python: Path, engine: str, folder: Path, lines: list[list[str]]
) -> list[dict[str, object]]:
    """The release's verdict on each line. Raises RuntimeError if its parser could not be built."""
    command = [str(python), str(HERE / "worker.py"), engine, str(folder)]
    text = "".join(json.dumps(argv) + "\n" for argv in lines)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=600, check=False, cwd=folder
    )
    if done.returncode:
        raise RuntimeError(f"{folder.name}: the parser could not be built\n{done.stderr[-2000:]}")
    return [json.loads(row) for row in done.stdout.splitlines()]


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
    text_in = (
        sys.stdin.read()
        if options.lines == "-"
        else Path(options.lines).read_text(encoding="utf-8")
    )
    groups: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    for text in text_in.splitlines():
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
        verdicts = check(
            python, engine, unpacked(folder, python, engine, version), canaries + lines
        )
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
