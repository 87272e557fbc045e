from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.releases import affects, defect

DEFECT = defect("llama-mtp-vision")


@rule(
    severity="error",
    engines=("llama-server",),
    speculative=True,
    versioned=True,
    sources=DEFECT.sources,
)
def llama_mtp_vision(case: Case) -> Iterator[Hit]:
    """MTP together with an image projector on a llama.cpp build that cannot do both.

    Why: the first image prompt hits an assertion and the server dies.
    Bad (version=b9200): llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf --mmproj
        /models/mmproj-F16.gguf
        --spec-type draft-mtp
    Good (version=b9300): llama-server -m /models/Qwen3.6-27B-MTP-Q8_0.gguf --mmproj
        /models/mmproj-F16.gguf
        --spec-type draft-mtp
    """
    place = flag(case, "--mmproj", "--mmproj-url")
    met = affects(DEFECT, case)
    if case.plan.method == "mtp" and place is not None and met is not False:
        yield Hit(
            "MTP with an image projector: builds b9180 to b9239 (and the branch before the "
            "merge) die at the first image",
            flag=place,
            severity="info" if met is None else None,  # builds of a few weeks
            fix=Fix(text="Use b9240 or newer, or serve text only (--no-mmproj)."),
            versions=DEFECT.versions,
        )
