"""Settings of all tests."""

import os

from hypothesis import HealthCheck, settings

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
