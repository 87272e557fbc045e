"""No command line, however odd, makes a reader fall over; what it cannot use it
keeps.
"""

import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import engines
from advisor.domain.nouns import AdvisorError, EnvVar
from advisor.engines import Token


def spellings(name: str) -> list[str]:
    """Every option of every release, whole, cut short and with a dotted tail."""
    adapter = engines.get(name)
    names = {option for version in adapter.versions for option in adapter.catalogue.names(version)}
    return sorted({text for option in names for text in (option, option[:-1], option + ".a.b")})


WORDS = {name: spellings(name) for name in ("vllm", "sglang", "llama-server")}
ODD = ["", "-", "--", "---", "--=", "-=1", "--no-", "{", '{"a":', "[[[", "null", "-1", "1e999",
       "nan", "128k", "128k9"]  # fmt: skip
ODD += ["$X", "${X}", "é", "\x00", "--speculative-config", "9" * 400]
ODD += [
    '{"method":5,"num_speculative_tokens":[1]}',
    '{"method":"mtp","num_speculative_tokens":true}',
]
ODD += ['{"num_speculative_tokens_per_batch_size":[[1,2]],"model":3}']
ODD += ["mtp:n_max=,=", ",,", "draft-mtp,", "-O", "-O9x", "-tp"]
RELEASE = st.from_regex(r"v?\d{1,3}\.\d{1,3}\.\d{1,3}[-+.]?\w{0,8}", fullmatch=True)
BUILD = st.from_regex(r"b\d{1,9}", fullmatch=True)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server", "ik_llama.cpp"])
@settings(max_examples=60)
@given(data=st.data())
def test_any_arguments(engine: str, data: st.DataObject) -> None:
    pool = WORDS.get(engine, WORDS["llama-server"])
    word = (
        st.sampled_from(pool)
        | st.sampled_from(ODD)
        | st.text(max_size=8)
        | st.integers(-9, 99999).map(str)
    )
    words = data.draw(st.lists(word, max_size=14))
    version = data.draw(st.sampled_from((None, "latest", "b9235", "0.25.1", "0.5.12", "nonsense")))
    adapter = engines.get(engine)
    env = [
        EnvVar(name=n, value=v)
        for n, v in (("LLAMA_ARG_N_PARALLEL", "x"), ("SGLANG_ENABLE_SPEC_V2", None), ("X", "1"))
    ]
    launch = adapter.read(
        [Token(w, 1, 0, None, "$" in w) for w in words], env, version_text=version
    )
    plan = adapter.to_plan(launch)
    kept = sum(w.startswith("-") and len(w) > 1 for w in words)
    assert len(launch.flags) <= kept + 1 + len(env)
    rendered = adapter.render(launch)
    # continued lines, but not a backslash and a line feed inside quotes
    line = re.sub(r"(\"[^\"]*\"|'[^']*')|\\\n", lambda m: m.group(1) or " ", rendered.text)
    if "$'" not in line:  # which bash reads, and shlex does not: tests/cli/test_terminal.py
        assert "\x00" in line or shlex.split(line)[-len(rendered.argv) :] == list(rendered.argv)
    for target in (adapter.versions[0], adapter.newest):
        try:
            adapter.to_launch(plan.model_copy(update={"engine_version": target}))
        except AdvisorError:
            pass


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
@settings(max_examples=50)
@given(text=st.text(max_size=20) | RELEASE | BUILD)
def test_any_version_text(engine: str, text: str) -> None:
    found = engines.get(engine).resolve_version(text)
    assert found.version is None or found.version in engines.get(engine).versions
    assert not found.pinned or found.version is not None
