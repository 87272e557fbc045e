"""Emitted Ray Serve files on a real Ray without a GPU: its controller places as many replicas as
the file says, each gets what the launch says, and one chat is answered. `.ci/ray` calls this.

    python -m tests.real.ray_serve RAY_PYTHON
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from advisor import engines, recommend
from advisor.domain.nouns import Advice
from advisor.engines.extract.releases import cache, environment, unpack
from advisor.render.deploy.ray import for_ray
from advisor.render.forms import FORMS
from tests.ports import free_port

HERE = Path(__file__).parent
CASES: tuple[dict[str, Any], ...] = (
    {"gpus": 2, "model": "qwen3.6-35b-a3b", "concurrency": 512},  # replicas
    {"gpus": 2, "model": "qwen3.6-27b", "tp": 2},  # a pair of ranks that drafts
    {"gpus": 16, "model": "deepseek-v3.1"},  # over two machines
)


def search_path() -> str:
    """Where Ray's Python finds vLLM, its imports and the stand-in for its engine."""
    python = environment(cache())
    vllm = unpack(cache(), python, "vllm", engines.get("vllm").catalogue.notes["ray"][0]["vllm"])
    (site,) = (python.parent.parent / "lib").glob("python3*/site-packages")
    return os.pathsep.join(map(str, (HERE, vllm, site)))


def start(python: str, path: str, text: str) -> dict[str, Any]:
    """What became of a file."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "serve.yaml").write_text(text)
        env = os.environ | {"RAYLLM_VLLM_ENGINE_CLS": "ray_local:EchoEngine", "PYTHONPATH": path}
        env |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": folder}
        command = [python, HERE / "ray_local.py", "serve.yaml", "told.json"]
        done = subprocess.run(
            command, cwd=folder, env=env, timeout=900, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])
        told: dict[str, Any] = json.loads((Path(folder) / "told.json").read_text())
        return told


def differences(advice: Advice, told: dict[str, Any]) -> list[str]:
    """What the servers have that the plan has not."""
    plan, words = advice.plan, told.get("words", {})
    wanted = {
        "model": plan.model,
        "max_num_seqs": plan.max_num_seqs,
        "max_model_len": plan.max_model_len,
        "tensor_parallel_size": plan.tp,
        "enable_prefix_caching": plan.prefix_caching,
        "gpu_memory_utilization": plan.memory_fraction,
    }
    usual = {"tensor_parallel_size": 1}
    wrong = [
        f"{name}: {words.get(name, usual.get(name))}, not {value}"
        for name, value in wanted.items()
        if words.get(name, usual.get(name)) != value
    ]
    drafts = (words.get("speculative_config") or {}).get("num_speculative_tokens", 0)
    wrong += [f"drafts {drafts}, not {plan.k}"] if drafts != plan.k else []
    count = told["replicas"]
    return wrong + ([f"{count} replicas, not {plan.dp}"] if count != plan.dp else [])


def main() -> int:
    python, path = sys.argv[1], search_path()
    bad = 0
    for case in CASES:
        asked = {"hardware": "h100", "engine": "vllm", "what_if": False, **case}
        advice = for_ray(recommend(**asked))
        advice = advice.model_copy(update={"settings": (("port", str(free_port())),)})
        text = FORMS["ray"].write(advice)
        told = start(python, path, text)
        wrong = differences(advice, told) if told["state"] == "RUNNING" else [told["message"]]
        bad += bool(wrong)
        print(f"{told['state']}, {told['replicas']} replicas, {case}", *wrong, sep="\n  ")
    refused = start(python, path, text.replace("max_num_seqs:", "no_such_option:"))
    if refused["state"] == "RUNNING" or "no_such_option" not in refused["message"]:
        print(f"accepted an option that vLLM does not have: {refused}", file=sys.stderr)
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
