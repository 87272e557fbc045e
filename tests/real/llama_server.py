"""Check llama-server command lines (JSON lines on stdin) with a real binary: `llama-server FLAGS
--version` leaves with 0 only if every flag before it parses. Only lines for the release of the
binary are tried.

    python tests/real/llama_server.py path/to/llama-server < lines.jsonl
"""

import json
import os
import subprocess
import sys

VERSION = "0.5.0"
CANARIES = (["--no-such-flag"], ["--draft-max", "8"], ["--spec-type", "mtp"], ["--no-mmap"])


# the value must be a device of this very build, which has none
DEVICES = {"-dev", "--device", "-devd", "--device-draft", "--spec-draft-device", "-mmdev",
           "--mmproj-device"}  # fmt: skip


def without_devices(arguments: list[str]) -> list[str]:
    """For a CPU build: no devices, and no --rpc, which connects while it is parsed."""
    if "--rpc" in arguments:
        at = arguments.index("--rpc")
        arguments = arguments[:at] + arguments[at + 2 :]
    named = zip(["", *arguments], arguments, strict=False)
    return ["none" if before in DEVICES else word for before, word in named]


def accepts(binary: str, arguments: list[str], env: dict[str, str]) -> tuple[bool, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LLAMA_")}
    done = subprocess.run(
        [binary, *arguments, "--version"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=clean | env,
    )
    return done.returncode == 0, "; ".join(done.stderr.strip().splitlines()[:3])


def main() -> int:
    binary = sys.argv[1]
    for canary in CANARIES:
        if accepts(binary, canary, {})[0]:
            raise RuntimeError(f"the server took {canary}: the check is broken")
    tried: set[str] = set()
    refused = 0
    for text in sys.stdin:
        row = json.loads(text)
        key = json.dumps([row["argv"], row.get("env")])
        if row["engine"] != "llama-server" or row["version"] != VERSION or key in tried:
            continue
        tried.add(key)
        good, message = accepts(binary, without_devices(row["argv"][1:]), row.get("env") or {})
        if not good:
            refused += 1
            print(f"  {message}\n    {' '.join(row['argv'])}")
    print(f"llama-server {VERSION}: {len(tried) - refused} accepted, {refused} refused")
    return 1 if refused or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
