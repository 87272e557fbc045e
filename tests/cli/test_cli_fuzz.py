"""Whatever stands in the options: an answer, or exit 2 with one sentence; never a traceback."""

import json
from typing import Any

import click
from cli_run import run
from hypothesis import example, given, settings
from hypothesis import strategies as st

from advisor.cli.app import COMMANDS, cli
from advisor.cli.options import Number
from tests.cli.test_habits import commands
from tests.tables import words

SERVERS = ("serve", "mcp")  # they run until they are stopped; tests/cli/serve starts them

TEXT = st.text(max_size=20)
SHORT = words("-1 0 1 nan inf -inf 1e999 1_0 \u0663 0x10 -- - \x00 \xe9 a,b 1, , %s {}")
ODD = st.sampled_from(["", " ", *SHORT, "9" * 5000])
HARDWARE = st.sampled_from(words("gb10 3090 h100 a100 m4 strix-halo unknown p40 b200 arc"))
MODEL = st.sampled_from(words("qwen3.6-35b-a3b qwen3.6-27b qwen3-next gpt-oss-20b glm-4.5-air "
                              "unknown-moe qwen3.5-397b-a17b"))  # fmt: skip
NAMED = {
    "--hw": HARDWARE,
    "--model": MODEL,
    "--quant": st.sampled_from(words("fp8 bf16 awq-int4 q4_k_m nvfp4 iq2_m mlx-4bit")),
    "--engine": st.sampled_from(
        words("vllm sglang llama-server llama.cpp ollama vllm@0.25.1 sglang@0.5.9 ik_llama.cpp")
    ),
    "--engine-version": st.sampled_from(words("0.19.1 0.33.0 0.5.0 b9235 latest 2f6c815dc")),
    "--acceptance": st.lists(st.floats(-0.2, 1.2), max_size=9).map(
        lambda rates: ",".join(map(str, rates))
    ),
}


def values_of(kind: Any) -> st.SearchStrategy[str]:
    """What an option takes: a choice, or a number from below its least to beyond its most."""
    if isinstance(kind, click.Choice):
        return st.sampled_from(kind.choices)
    low, high = kind.low - 1, 1.2 * kind.high
    drawn = st.integers(int(low), int(high)) if kind.whole else st.floats(low, high)
    return drawn.map(str)


VALUES = NAMED | {
    one.opts[0]: values_of(one.type)
    for one in dict(commands(cli))["recommend"].params
    if isinstance(one.type, click.Choice | Number)
}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A question with some options, each of a fitting kind or odd."""
    argv = ["recommend", f"--hw={draw(st.one_of(HARDWARE, HARDWARE, HARDWARE, ODD, TEXT))}"]
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=6, unique=True)):
        odd = draw(st.integers(0, 9)) == 0
        argv.append(f"{name}={draw(st.one_of(ODD, TEXT) if odd else VALUES[name])}")
    return argv


@given(argv=command_lines())
@example(argv=["recommend", "--hw=gb10", "--acceptance=0,0,0,0,0,0,0,0"])
@example(argv=["recommend", "--hw=gb10", "--concurrency=100000", "--ctx=1", "--output-tokens=1"])
@example(argv=["recommend", "--hw=gb10", "--ctx=10000000", "--model=unknown-moe"])
@example(argv=["recommend", "--hw=\x00"])
@settings(max_examples=120)
def test_no_option_value_ends_in_a_traceback(argv: list[str]) -> None:
    ran = run(*argv)
    assert ran.code in (0, 2), ran
    assert "Traceback" not in ran.err
    if ran.code == 2:
        assert ran.out == "" and ran.err.count("Error: ") == 1
        assert "validation error" not in ran.err  # a library's words instead of ours
    elif "--format=json" in argv:
        json.loads(ran.out)


@given(
    argv=st.lists(
        st.one_of(
            st.sampled_from(
                [*(c for c in COMMANDS if c not in SERVERS), "--help", "-h", "--version", "--"]
            ),
            TEXT.filter(lambda t: "\x00" not in t),
        ),
        max_size=3,
    )
)
@settings(max_examples=60)
def test_no_command_line_ends_in_a_traceback(argv: list[str]) -> None:
    if argv and argv[0] in words("bench train evaluate data predict validate knowledge"):
        argv = [argv[0], "--help"]
    ran = run(*argv)
    assert ran.code in (0, 1, 2), ran
    assert "Traceback" not in ran.err
