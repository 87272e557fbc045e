"""advisor: speculative decoding on or off, which k, why, how sure, and the exact flags.

Public door: `recommend`, `predict`, `validate`, `compose`, `explain`. Each is imported on first
use.
"""

import signal
import sys

if getattr(sys, "argv", [""])[0].replace("\\", "/").endswith(("/advisor", "/advisor.exe", "-m")):
    # as a program, until `main` takes Ctrl-C itself: what is still importing ends without traceback
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module
from typing import Any

# door -> "module:function"
_DOORS = {
    "recommend": "advisor.advice.recommend:recommend",
    "validate": "advisor.lint.validate:validate",
    "compose": "advisor.render.deploy.compose:compose",
    "predict": "advisor.advice.rows.predict:predict",
    "explain": "advisor.rules:explain",
}
__all__ = ["compose", "explain", "predict", "recommend", "validate"]


def __getattr__(name: str) -> Any:
    if name in _DOORS:
        module, function = _DOORS[name].split(":")
        door = getattr(import_module(module), function)
        if name != "recommend":
            return door
        from advisor.knowledge.own_files import model_files  # start-up: each door

        return model_files()(door)
    raise AttributeError(f"module 'advisor' has no attribute '{name}'")
