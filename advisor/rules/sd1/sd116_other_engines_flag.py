from collections.abc import Iterator

from advisor import engines
from advisor.domain.nouns import Case, Fix, Flag
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags, rename_fix
from advisor.rules.kit.fixes import drop_fix
from advisor.rules.kit.flags import (
    CATALOGUED,
    catalogue,
    lookup_spelling,
    option_at_release,
    owners,
)
from advisor.rules.kit.values import spelling

# One intent in the words of each engine. The value means the same in all of them.
SAME: tuple[dict[str, str], ...] = (
    {"vllm": "--max-model-len", "sglang": "--context-length", "llama-server": "--ctx-size"},
    {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"},
    {"vllm": "--max-num-seqs", "sglang": "--max-running-requests", "llama-server": "--parallel"},
    {"vllm": "--tensor-parallel-size", "sglang": "--tp-size"},
    {"vllm": "--pipeline-parallel-size", "sglang": "--pp-size"},
    {"vllm": "--data-parallel-size", "sglang": "--dp-size"},
    {
        "vllm": "--max-num-batched-tokens",
        "sglang": "--chunked-prefill-size",
        "llama-server": "--batch-size",
    },
    {"vllm": "--served-model-name", "sglang": "--served-model-name", "llama-server": "--alias"},
    {"vllm": "--model", "sglang": "--model-path", "llama-server": "--model"},
    {"vllm": "--tokenizer", "sglang": "--tokenizer-path"},
    {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"},
    {
        "vllm": "--no-enable-prefix-caching",
        "sglang": "--disable-radix-cache",
        "llama-server": "--no-cache-prompt",
    },
    {"vllm": "--lora-modules", "sglang": "--lora-paths"},
    {"vllm": "--language-model-only", "sglang": "--language-only"},
    {"vllm": "--root-path", "sglang": "--fastapi-root-path"},
    {"vllm": "--uvicorn-log-level", "sglang": "--log-level"},
    {"vllm": "--cpu-offload-gb", "sglang": "--cpu-offload-gb"},
    {
        "vllm": "--chat-template",
        "sglang": "--chat-template",
        "llama-server": "--chat-template-file",
    },
)
# The same intent, but the value is worded otherwise.
ALIKE: tuple[dict[str, str], ...] = (
    {
        "vllm": "--speculative-config",
        "sglang": "--speculative-algorithm",
        "llama-server": "--spec-type",
    },
    {"vllm": "--kv-cache-dtype", "sglang": "--kv-cache-dtype", "llama-server": "--cache-type-k"},
    {
        "vllm": "--reasoning-parser",
        "sglang": "--reasoning-parser",
        "llama-server": "--reasoning-format",
    },
    {
        "vllm": "--speculative-config",
        "sglang": "--speculative-draft-model-path",
        "llama-server": "--spec-draft-model",
    },
    {
        "vllm": "--speculative-config",
        "sglang": "--speculative-num-steps",
        "llama-server": "--spec-draft-n-max",
    },
)


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
        if found.known or option_at_release(case, found) != "foreign":
            continue
        theirs = owners(case, found)
        use, same = here(case, found, theirs)
        yield Hit(
            f"{found.raw} is an option of {' and '.join(theirs)}, not of {case.plan.engine}"
            + (f"; here it is {use}" if use else ""),
            flag=found,
            # a build of one's own may take other options, but hardly those that it has a word for
            severity="warning" if case.launch.fork and not same else None,
            fix=mend(case, found, use, same),
        )


def here(case: Case, found: Flag, theirs: tuple[str, ...]) -> tuple[str | None, bool]:
    """(the option of this engine that says it, whether it takes the same value)."""
    for owner in theirs:
        option = engines.get(owner).catalogue.find(lookup_spelling(found), None)
        names = {lookup_spelling(found), option.name if option is not None else ""}
        for table in (SAME, ALIKE):
            for row in table:
                use = row.get(case.plan.engine)
                if row.get(owner) in names and use and catalogue(case).find(use) is not None:
                    return use, table is SAME
    return None, False


def mend(case: Case, found: Flag, use: str | None, same: bool) -> Fix:
    """Return the fix: the option of this engine, or its removal where this engine has none."""
    if use is None:
        return drop_fix(case, found, f"Remove {found.raw}.")
    if not same or found.origin == "env":
        return Fix(text=f"Use {use}.")
    spelled = spelling(case, use)
    return rename_fix(case, found, spelled, f"Use {spelled}.", safe=False)
