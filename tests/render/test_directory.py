"""The folder of an answer: SGLang's draft steps by batch size where another k pays for fewer
requests.
"""

from __future__ import annotations

import json
import shlex

import pytest

from advisor import engines, recommend
from advisor.render.directory import folder


def words(script: str) -> list[str]:
    return shlex.split(script.partition("exec ")[2].replace("\\\n", " "))


def test_sglang_gets_its_draft_steps_by_batch_size() -> None:
    advice = recommend(hardware="h200", engine="sglang", concurrency=16, what_if=False)
    files = folder(advice)
    steps = {
        int(key): row["candidate_steps"] for key, row in json.loads(files["adaptive.json"]).items()
    }
    assert list(steps) == sorted(steps) and min(steps) == 1 and len(steps) > 1
    assert max(steps) <= (advice.plan.max_num_seqs or 0)
    ks = [k for (k,) in steps.values()]
    assert ks == sorted(ks, reverse=True) and ks[-1] == (advice.candidate and advice.candidate.k)
    argv = words(files["run-adaptive.sh"])
    version = advice.plan.engine_version or engines.get("sglang").newest
    assert engines.get("sglang").problems(argv, version) == ()
    assert argv[argv.index("--speculative-adaptive-config") + 1] == "adaptive.json"
    assert argv[argv.index("--speculative-num-steps") + 1] == str(ks[0])
    fixed, adaptive = (set(words(files[name])) for name in ("run-on.sh", "run-adaptive.sh"))
    assert {"--model-path", "--context-length"} <= fixed & adaptive
    assert "run-adaptive.sh" in files["README.md"]


@pytest.mark.parametrize("asked", [{"engine": "vllm"}, {"engine": "sglang", "concurrency": 1}])
def test_no_steps_file_where_one_k_does(asked: dict[str, object]) -> None:
    base = {"hardware": "h200", "concurrency": 16, "what_if": False}
    files = folder(recommend(**(base | asked)))  # type: ignore[arg-type]
    assert "adaptive.json" not in files and "run-adaptive.sh" not in files
