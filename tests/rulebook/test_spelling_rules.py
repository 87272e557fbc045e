"""The rules on flags and syntax (SD1) have nothing to say of a launch that we write.

They are not asked for such a launch (rules/checking.py), so that they need not be imported; here
they are.
"""

from functools import cache

import pytest

from advisor import engines
from advisor.advice import judge
from advisor.advice.plans import propose
from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Facts, Plan, Request
from advisor.rules import checking
from advisor.rules.registry import index

RELEASES = [
    (engine, version)
    for engine in ("vllm", "sglang", "llama-server")
    for version in engines.get(engine).versions
]
SPELLING = tuple(row for row in index() if row.code.startswith(checking.SPELLING))
# method asked for, model, hardware, more
ASKED = (
    (None, "qwen3.6-35b-a3b", "gb10", {"concurrency": 16}),
    (None, "qwen3.6-27b", "rtx3090", {"gpus": 2, "kv_cache_dtype": "auto"}),
    ("eagle3", "llama-3.3-70b", "h100", {"gpus": 4}),
    ("dflash", "qwen3-8b", "h100", {"prefix_share": 0.8}),
    (None, "gemma-4-31b", "h200", {"max_num_seqs": 8, "memory_fraction": 0.8}),
)


@cache
def plans(engine: str, version: str) -> tuple[tuple[Facts, Plan], ...]:
    found: list[tuple[Facts, Plan]] = []
    for method, model, hardware, more in ASKED:
        asked = {"hardware": hardware, "model": model, "method": method, **more}
        request = Request.model_validate(asked | {"engine": engine, "engine_version": version})
        try:
            facts = facts_for_request(request)
            base = propose.base_plan(facts, propose.splits(facts)[0])
        except AdvisorError:
            continue
        found += [(facts, plan) for plan in (base, *propose.speculative_plans(facts, base))]
    return tuple(found)


@pytest.mark.parametrize(("engine", "version"), RELEASES)
def test_no_spelling_rule_speaks_on_a_launch_of_ours(engine: str, version: str) -> None:
    made = plans(engine, version)
    assert made
    for facts, plan in made:
        case = judge.case_of(facts, plan)
        rows = [row for row in SPELLING if not row.engines or engine in row.engines]
        findings, _ = checking._check_rows(case, rows)
        assert findings == (), (version, plan.method, [f.message for f in findings])
