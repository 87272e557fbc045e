import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags, rename_fix
from advisor.rules.kit.flags import CATALOGUED, catalogue, owners, standing

# The same intent in another engine's words: flag -> engine -> its flag.
SAME: dict[str, dict[str, str]] = {
    "--max-model-len": {"sglang": "--context-length", "llama-server": "--ctx-size"},
    "--context-length": {"vllm": "--max-model-len", "llama-server": "--ctx-size"},
    "--ctx-size": {"vllm": "--max-model-len", "sglang": "--context-length"},
    "--gpu-memory-utilization": {"sglang": "--mem-fraction-static"},
    "--mem-fraction-static": {"vllm": "--gpu-memory-utilization"},
    "--max-num-seqs": {"sglang": "--max-running-requests", "llama-server": "--parallel"},
    "--max-running-requests": {"vllm": "--max-num-seqs", "llama-server": "--parallel"},
    "--speculative-config": {"sglang": "--speculative-algorithm", "llama-server": "--spec-type"},
    "--speculative-algorithm": {"vllm": "--speculative-config", "llama-server": "--spec-type"},
    "--spec-type": {"vllm": "--speculative-config", "sglang": "--speculative-algorithm"},
}


@rule(
    severity="error",
    engines=CATALOGUED,
    sources=("the engines' own parsers, catalogued by release",),
)
def other_engines_flag(case: Case) -> Iterator[Hit]:
    """A flag of another engine.

    Why: the server refuses to start. Command lines get mixed when a recipe is carried over.
    Bad: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --gpu-memory-utilization 0.9
    Good: llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --ctx-size 32768
    """
    for found in flags(case):
        if found.known or standing(case, found) != "foreign":
            continue
        theirs = " and ".join(owners(case, found))
        use = SAME.get(found.name, {}).get(case.plan.engine)
        if use is not None and catalogue(case).find(use) is None:
            use = None
        yield Hit(
            f"{found.raw} is an option of {theirs}, not of {case.plan.engine}"
            + (f"; here it is {use}" if use else ""),
            flag=found,
            severity="warning" if case.launch.fork else None,
            fix=rename_fix(case, found, use, f"Use {use}.", safe=False)
            if use and found.origin == "cli" and re.fullmatch(r"[\d.]+", found.value or "")
            else Fix(text=f"Use {use}." if use else f"Remove {found.raw}."),
        )
