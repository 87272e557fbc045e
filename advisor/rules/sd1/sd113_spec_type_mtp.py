from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, value_fix
from advisor.rules.kit.fixes import is_release_pinned
from advisor.rules.kit.releases import between, is_newest, release

RENAMED = {
    "mtp": "draft-mtp",
    "nextn": "draft-mtp",
    "eagle3": "draft-eagle3",
    "dflash": "draft-dflash",
    "draft": "draft-simple",
}
SINCE = "b9180"


@rule(
    severity="error",
    engines=("llama-server",),
    versioned=True,
    sources=("ggml-org/llama.cpp#22964", "ggml-org/llama.cpp#22673", "llama-server 0.5.0, run"),
)
def spec_type_mtp(case: Case) -> Iterator[Hit]:
    """`--spec-type mtp`, the spelling of the branch before it was merged.

    Why: mainline takes `draft-mtp`; the old word is an unknown type and the server exits, or it is
    ignored by a fork.
    Bad (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type mtp
    Good (version=0.5.0): llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf --spec-type draft-mtp
    """
    found = flag(case, "--spec-type")
    if (
        found is None
        or not found.value
        or found.unresolved
        or between(release(case), SINCE, None) is False
    ):
        return
    words = [word.strip() for word in found.value.split(",")]
    old = [word for word in words if word in RENAMED]
    if old:
        new = ",".join(RENAMED.get(word, word) for word in words)
        yield Hit(
            f"--spec-type {found.value}: mainline llama.cpp calls it {new}; '{old[0]}' is valid "
            f"only on forks and on the "
            "branch before the merge",
            flag=found,
            fix=value_fix(
                case,
                found,
                new,
                f"Write {new} (not on a fork that keeps the old word).",
                safe=is_release_pinned(case),
            ),
            severity="info" if case.launch.fork else None,
            everywhere="mtp" not in old or is_newest(case),
            versions=f"mainline {SINCE} and later",
        )
