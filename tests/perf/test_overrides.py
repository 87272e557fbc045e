"""Which experts `--override-tensor` moves: against Python's own matcher, and bounded for any."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.perf.sizes import weights as overrides

NAMES = [f"blk.{n}.ffn_{kind}_exps.weight" for n in range(24) for kind in overrides.TENSORS]
PARTS = st.sampled_from(
    [*"bkl.0129_fu()|*+?^$", r"\d", r"\.", ".*", "(a|b)", "[0-9]", "[^x]", "{2}", "(?:", "exps"]
)


@given(st.lists(PARTS, max_size=9).map("".join))
def test_a_pattern_is_searched_as_a_regular_expression_is(pattern: str) -> None:
    try:
        expected = [re.search(pattern, name) is not None for name in NAMES[3:]]
    except re.error:
        expected = [True] * 69  # the engine stops on it
    override = overrides.Override(pattern, host=True)
    if overrides._readings(pattern) <= overrides.MAX_READINGS:
        assert overrides.host_layers((override,), 1, 23) == pytest.approx(sum(expected) / 3)


@pytest.mark.parametrize(
    ("told", "layers"),
    [
        ([r"\.ffn_(up|down|gate)_exps\.weight=CPU"], 23),
        ([r"blk\.[0-9]+\.ffn_(gate|up|down)_exps\.weight=CUDA_Host"], 23),
        (["exps=CUDA0"], 0),
        ([r"blk\.(1[0-9])\.ffn=CPU"], 10),
        ([r"blk\.(1[0-9])\.=CPU,blk\.[2-5]\.=CPU"], 14),
        ([r"\.ffn_(up|gate)_exps=CPU"], 23 * 2 / 3),
        ([r"blk\.[1-4]\.=CUDA0,exps=CPU"], 19),  # the first that matches decides
        ([r"blk\.[1-4]\.=CUDA0", "exps=CPU"], 19),
        (["exps=CPU", r"blk\.[1-4]\.=CUDA0"], 23),
        (["attn=CPU"], 0),
        (["blk.1.ffn_up_exps=CPU"], 1 / 3),
        (["exps"], 0),  # no buffer
        (["(?!x)y=CPU"], 23),  # not read: nothing is said to be too large
    ],
)
def test_layers_of_a_value(told: list[str], layers: float) -> None:
    """Of 24, the first one having no experts."""
    found = tuple(one for value in told for one in overrides.read_overrides(value))
    assert overrides.host_layers(found, 1, 23) == pytest.approx(layers, abs=1e-5)


@pytest.mark.parametrize(
    ("pattern", "tried"),
    [
        (r"([6-8]|[1-9][0-9])\.ffn_(gate|up|down)_exps\.", True),
        (r"blk\.\d+\.ffn_.*_(gate|up|down)_exps", True),
        (f"blk.({'|'.join(map(str, range(40)))}).ffn.*", True),
        ("(.*)*" * 30 + "Q", False),
        ("(.|.)" * 55 + "Q", False),
        (".*" * 140 + "Q", False),
        (".?" * 30 + "Q", False),
        ("((.?){9}){9}" * 20, False),
        (r"(.)\1*\1*Q", False),
        ("(" * 300, False),
    ],
)
def test_a_pattern_with_too_many_readings_is_not_tried(pattern: str, tried: bool) -> None:
    assert (overrides._readings(pattern) <= overrides.MAX_READINGS) == tried
    if not tried:
        assert overrides.host_layers((overrides.Override(pattern, host=True),), 0, 60) == 60
