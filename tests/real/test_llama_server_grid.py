"""Twenty emitted launches that differ in slots, context, cache types, split and drafts, started for
real with a tiny model: a request gets the context that the plan promises, on as many slots.
"""

import json
import urllib.error
from pathlib import Path
from typing import Any

import pytest

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.domain.nouns import Launch, Plan, Request
from tests.ports import free_port
from tests.real.test_llama_server_starts import PROMPT, RATE, on_this_machine
from tests.real.tiny_server import QUIET, ask, run_server, wait

PAD = 256  # llama.cpp rounds a sequence's context up to it (src/llama-context.cpp, n_ctx_seq)
# a question; "plan": what is changed in its plan; "off": the arm without speculation is started
CASES: dict[str, dict[str, Any]] = {
    "one user, slots share": {},
    "four users": {"concurrency": 4, "workload": "chat"},
    "four users, off": {"concurrency": 4, "workload": "chat", "off": True},
    "eight users, small share": {"hardware": "rtx3090", "model": "qwen3.6-27b", "concurrency": 8},
    "small card, no head": {"hardware": "rtx3060", "model": "qwen3-4b", "concurrency": 2},
    "two cards by layers": {"hardware": "rtx3090", "gpus": 2, "model": "qwen3.6-27b"},
    "four cards by tensors": {"hardware": "rtx3090", "gpus": 4, "model": "llama-3.3-70b",
                              "concurrency": 4},
    "three cards": {"hardware": "v100", "gpus": 3, "model": "qwen3-32b", "concurrency": 2},
    "amd": {"hardware": "rx7900xtx", "model": "qwen3.6-27b"},
    "apple": {"hardware": "apple-m4-max", "concurrency": 2},
    "unified memory": {"hardware": "strix-halo", "model": "qwen3.5-122b-a10b"},
    "sixteen users": {"hardware": "gb10", "concurrency": 16, "ctx_tokens": 8192},
    "q8_0, eleven users": {"hardware": "h100", "model": "qwen3-8b", "concurrency": 11,
                           "kv_cache_dtype": "q8_0"},
    "q4_0": {"hardware": "rtx4090", "model": "qwen3.6-27b", "kv_cache_dtype": "q4_0"},
    "q5_1, three users": {"hardware": "rtx4090", "model": "qwen3.6-27b", "concurrency": 3,
                          "kv_cache_dtype": "q5_1"},
    "a context that is no multiple": {"max_num_seqs": 3, "max_model_len": 5000, "concurrency": 3},
    "one slot": {"max_num_seqs": 1, "max_model_len": 4000},
    "n-grams": {"method": "ngram"},
    "experts in system memory": {"hardware": "rtx3060", "engine_version": None},
    "batch and no prompt cache": {"concurrency": 2,
                                  "plan": {"max_num_batched_tokens": 512, "prefix_caching": False}},
    "a drafter of its own": {"model": "qwen3-8b",
                             "plan": {"method": "draft_model", "k": 4, "draft_model": "tiny.gguf"}},
}  # fmt: skip


def emit(case: dict[str, Any], model: Path) -> tuple[Plan, Launch]:
    """The plan of a case, the one that drafts where there is one, and its launch."""
    question = {"hardware": "rtx5090", "engine": "llama-server", "engine_version": "0.5.0"} | case
    change = question.pop("plan", {})
    off = question.pop("off", False)
    advice = recommend(Request(**question), what_if=False)
    plan = advice.plan_off if off else advice.candidate or advice.plan
    if "draft_model" in change:
        change = change | {"draft_model": str(model)}
    plan = plan.model_copy(update=change)
    return plan, engines.get("llama-server").to_launch(plan)


def refusal(port: int, tokens: int) -> dict[str, Any]:
    """What the server says of a prompt of so many tokens, more than it takes."""
    with pytest.raises(urllib.error.HTTPError) as raised:
        ask(port, "/completion", {"prompt": [97] * tokens, "n_predict": 1})
    told: dict[str, Any] = json.load(raised.value)["error"]
    return told


@pytest.mark.parametrize("name", CASES)
def test_requests_get_what_is_planned(name: str, server: Path, model: Path, tmp_path: Path) -> None:
    plan, launch = emit(CASES[name], model)
    port, log = free_port(), tmp_path / "server.log"
    arguments = [*on_this_machine(launch, model, port), *QUIET, "--threads", "1"]
    drafts = plan.method not in ("none", "ngram")
    if drafts:
        arguments += ["--spec-synth-rates", ",".join([RATE] * plan.k)]
    with run_server(server, arguments, log):
        wait(port, log)
        props = ask(port, "/props")
        assert props["total_slots"] == plan.max_num_seqs
        given = props["default_generation_settings"]["n_ctx"]
        assert plan.max_model_len <= given < plan.max_model_len + PAD * 2, (given, plan)
        assert {slot["n_ctx"] for slot in ask(port, "/slots")} == {given}
        told = refusal(port, given + 1)
        assert told["type"] == "exceed_context_size_error" and told["n_ctx"] == given
        answer = ask(port, "/completion", PROMPT)
        assert answer["tokens_predicted"] == PROMPT["n_predict"] and not answer["truncated"]
        assert ("draft_n" in answer["timings"]) == drafts or plan.method == "ngram"
