from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import GGUF_ENGINES, flag, integer, is_hybrid
from advisor.rules.kit.fixes import drop_fix, is_release_pinned, set_fix


@rule(
    severity="info",
    engines=GGUF_ENGINES,
    sources=("Tanguille/cluster models.ini", "lmstudio-ai/lmstudio-bug-tracker#1563"),
)
def cache_reuse_hybrid(case: Case) -> Iterator[Hit]:
    """--cache-reuse on a hybrid model.

    Why: recurrent state cannot be shifted, so llama-server ignores the option; context checkpoints
    do that work.
    Bad: llama-server -m /models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf --cache-reuse 256
    Good: llama-server -m /models/Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf --ctx-checkpoints 32
    """
    reuse, checkpoints = flag(case, "--cache-reuse"), flag(case, "--ctx-checkpoints")
    if not is_hybrid(case):
        return
    if reuse is not None and (integer(reuse.value) or 0) > 0:
        yield Hit(
            "--cache-reuse is ignored on a hybrid; keep --ctx-checkpoints at 32 or more instead",
            flag=reuse,
            fix=drop_fix(case, reuse, "Remove --cache-reuse.", safe=is_release_pinned(case)),
        )
    if checkpoints is not None and integer(checkpoints.value) == 0:
        yield Hit(
            "no context checkpoints on a hybrid: a changed prompt is recomputed from its start",
            flag=checkpoints,
            fix=set_fix(
                case,
                checkpoints,
                "32",
                "Keep --ctx-checkpoints at 32 where prompts share their beginning.",
            ),
        )
