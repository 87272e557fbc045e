"""Rules never fail on odd input: random options and values, through the readers, every engine."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import engines, rules
from advisor.domain.nouns import Case
from advisor.lint.report import Given
from advisor.lint.validate import check_launch, understand, with_changes
from advisor.readers import read_text

HEADS = {"vllm": "vllm serve Qwen/Qwen3.6-35B-A3B-FP8",
         "sglang": "sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8",
         "llama-server": "llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf"}  # fmt: skip
ODD = st.sampled_from(
    [
        *("", "0", "-1", "1e9", "nan", "inf", "1" + "0" * 20, "1e308", "on", "false", "None"),
        *("128k", "1.5", "x" * 80, "{}", "[]", '{"method":5}', "ä", "a b", "1,2", "${X}"),
    ]
)
JSON = st.sampled_from(
    [
        '{"method":"mtp","num_speculative_tokens":2}',
        '{"method":"mtp","num_speculative_tokens":"x"}',
        '{"method":null,"num_speculative_tokens":true,"min_p":"x","temperature":[]}',
        '{"method":"ngram","prompt_lookup_min":"a","num_speculative_tokens":4}',
        "[1]",
        "{",
    ]
)


@pytest.mark.parametrize("engine", HEADS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rules_take_any_option(engine: str, data: st.DataObject) -> None:
    adapter = engines.get(engine)
    names = st.sampled_from(adapter.catalogue.names())
    words = [HEADS[engine]]
    for name in data.draw(st.lists(names, max_size=6)):
        words += [name, shlex.quote(data.draw(ODD | JSON))]
    if engine == "vllm":
        words += ["--speculative-config", shlex.quote(data.draw(JSON))]
    version = data.draw(st.sampled_from([None, *adapter.versions]))
    read = read_text(" ".join(words), version=version)
    loaded = Given(hw="h100", concurrency=4, ctx=2048, engine_version=version)
    for launch in read.launches:
        for asked in (Given(engine_version=version), loaded):
            told = understand(launch, asked)
            rules.check(Case(facts=told.facts, plan=told.plan, launch=launch))
    report = with_changes(check_launch(read, loaded))
    assert not report.failures
