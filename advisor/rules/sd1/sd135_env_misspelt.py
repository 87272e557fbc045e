from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.fixes import rename_env_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue

PREFIXES = {"vllm": ("VLLM_",), "sglang": ("SGLANG_", "SGL_"), "llama-server": ("LLAMA_",)}
DEAD = table("compatibility")["dead_env"]  # SD106


@rule(
    severity="warning",
    engines=CATALOGUED,
    sources=(
        "the engines' own lists of variables, catalogued by release",
        "vllm 0.19.1 vllm/envs.py (validate_environ)",
    ),
)
def env_misspelt(case: Case) -> Iterator[Hit]:
    """An environment variable that the engine does not read, but for a slip of spelling.

    Why: a variable of another name sets nothing, and no engine stops at it: the setting is lost.
    Bad: LLAMA_ARG_CONTEXT_SIZE=8192 llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf
    Good: LLAMA_ARG_CTX_SIZE=8192 llama-server -m /models/Qwen3.6-27B-Q4_K_M.gguf
    """
    engine, launch = case.plan.engine, case.launch
    if launch.emitted or launch.fork is not None:
        return
    known = catalogue(case).env_names()
    given = {var.name for var in launch.env} | {
        found.raw for found in launch.flags if found.origin == "env"
    }
    for var in launch.env:
        if not var.name.startswith(PREFIXES[engine]) or var.name in known:
            continue
        near = likely_variable(var.name, known)
        if near is None or near in given or var.name in DEAD.get(engine, {}):
            continue
        yield Hit(
            f"{engine} reads no variable {var.name}; did you mean {near}?",
            flag=var.name,
            line=var.line,
            fix=rename_env_fix(case, var.name, near, f"Rename it to {near}.", safe=False),
        )


@lru_cache(maxsize=1024)
def likely_variable(name: str, known: tuple[str, ...]) -> str | None:
    """The variable that differs by the spelling of one word, as CONTEXT for CTX, or by a letter."""
    words = name.split("_")
    for one in known:
        other = one.split("_")
        differ = [pair for pair in zip(words, other, strict=False) if pair[0] != pair[1]]
        if len(words) == len(other) and len(differ) == 1 and is_short_for(*differ[0]):
            return one
    near = get_close_matches(name, known, 1, 0.93)
    return near[0] if near else None


def is_short_for(one: str, other: str) -> bool:
    """Whether one word is the other cut short: the letters of one stand in the other, in order."""
    short, long = sorted((one, other), key=len)
    rest = iter(long)
    return len(short) > 2 and short[0] == long[0] and all(letter in rest for letter in short)
