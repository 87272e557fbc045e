"""SGLang's other server: `sglang serve` starts its diffusion server for image and video models,
with a parser of its own.

The command itself looks at the model's files; here its name and the options that only that server
has must do. A language model that we know stays one, so that a slip such as --num-gpus is still
told. The names stand in knowledge/engines/other_engines.json.
"""

from __future__ import annotations

import re

from advisor.domain.nouns import Launch
from advisor.engines.names import answer, row
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge

NAME = "sglang-diffusion"


def diffusion_note(launch: Launch) -> str | None:
    """What to say of a launch that starts the diffusion server; None for the language model
    server.
    """
    other = traits(launch.engine).diffusion
    return answer(other) if other is not None and is_diffusion(launch) else None


def is_diffusion(launch: Launch) -> bool:
    """By the override of the model's type, else by the model's name, else by an option that only
    that server has.
    """
    kind = launch.flag("--model-type")
    if kind is not None and kind.value in ("llm", "diffusion"):
        return kind.value == "diffusion"
    known = row(NAME) or {}
    if launch.model and re.search(known["models"], launch.model):
        return True
    if not any(flag.name in known["flags"] for flag in launch.flags):
        return False
    return launch.model is None or knowledge.llm_from_text(launch.model) is None
