"""Settings of all tests."""

import os
from inspect import get_annotations
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from advisor.domain.frozen import Frozen

try:
    from hypothesis.internal.conjecture import providers
except ImportError:  # an older release
    providers = None

# The line on old facts comes with the day: what tests compare must not change with it.
os.environ["ADVISOR_TODAY"] = "2026-11-28"

# Servers that tests start are on this machine, whatever proxy it uses.
for name in ("NO_PROXY", "no_proxy"):
    os.environ[name] = ",".join(filter(None, ["127.0.0.1,localhost", os.environ.get(name)]))

# A test never asserts a time: on a busy machine an example may take longer than 200 ms, and the
# first ones longer than a second to draw.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

# What is drawn follows from the test alone: no change is refused for an example that its author
# never met. `pytest --hypothesis-profile random` draws others each time, as .ci/nightly does.
settings.register_profile("same", derandomize=True, **UNTIMED)
settings.register_profile("random", derandomize=False, print_blob=True, **UNTIMED)
settings.load_profile("same")

# Hypothesis also draws constants of our modules that are loaded, and which ones are depends on the
# tests that ran before. Older releases do not, and have no such function.
_is_ours = getattr(providers, "is_local_module_file", None)
if _is_ours is not None:
    providers.is_local_module_file = lambda path: not settings().derandomize and _is_ours(path)

# Modules that start servers and commands or draw many questions, half of the time of all: the loop
# of a change, `-m "not slow"`, leaves them out; .ci/mutation does not
SECONDS = {
    "test_hostile", "test_no_file", "test_pages", "test_tools", "test_loads", "test_exchange",
    "test_launch", "test_llama_server_grid", "test_plan", "test_plain_install", "test_calibrate",
    "test_own_round_trip", "test_metamorphic", "test_bench_run", "test_addresses", "test_compare",
    "test_render_grid", "test_what_if", "test_one_answer", "test_k_ranges", "test_lines",
    "test_physical_bounds", "test_files", "test_published_layouts", "test_layouts", "test_receipts",
    "test_card", "test_train", "test_evaluate", "test_bounds", "test_first_screen", "test_machines",
    "test_reasons", "test_recommend_consistency",
}  # fmt: skip


def _check_nouns() -> None:
    """In all tests a noun holds no None where its field declares none, which is else mypy's word
    alone: nouns are not checked as they are made.
    """
    make, replace = Frozen.__init__, Frozen.replace
    allowed: dict[type, frozenset[str]] = {}

    def check(self: Frozen, given: dict[str, Any]) -> None:
        kind = type(self)
        if kind not in allowed:
            open_kinds = ("None", "Optional", "Any")
            allowed[kind] = frozenset(
                name
                for base in kind.__mro__
                for name, text in get_annotations(base).items()
                if any(word in str(text) for word in open_kinds)
            )
        empty = {n for n, v in given.items() if v is None and n in kind._names} - allowed[kind]
        assert not empty, f"{kind.__name__} holds None: {empty}"

    def make_and_check(self: Frozen, **given: Any) -> None:
        check(self, given)
        make(self, **given)

    def replace_and_check(self: Frozen, **changes: Any) -> Frozen:
        check(self, changes)
        return replace(self, **changes)

    Frozen.__init__, Frozen.replace = make_and_check, replace_and_check  # type: ignore[method-assign]


_check_nouns()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what takes seconds, and not minutes."""
    for item in items:
        if item.path.stem in SECONDS and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow(of="seconds"))
