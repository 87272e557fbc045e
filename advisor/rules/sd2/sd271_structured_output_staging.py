from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flags
from advisor.rules.kit.releases import affects, defect, version_label

DEFECT = defect("vllm-structured-output-staging")


@rule(severity="info", engines=("vllm",), versioned=True, sources=DEFECT.sources)
def structured_output_staging(case: Case) -> Iterator[Hit]:
    """Grammar-bound output on the vLLM releases that decode it at half the speed.

    Why: since vllm#45424 every structured step allocates a pinned tensor for the grammar's bitmask;
    the same requests took 515 s on 0.21.0, 997 s on 0.24.0 and 987 s on 0.28.0. What speculation
    gains is small beside it.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --structured-outputs-config
        '{"backend":"xgrammar"}'
    Good (version=0.22.1): vllm serve Qwen/Qwen3-8B --max-num-seqs 8 --structured-outputs-config
        '{"backend":"xgrammar"}'
    """
    place = next(
        (one for one in flags(case) if one.name.startswith("--structured-outputs-config")), None
    )
    if place is None or not affects(DEFECT, case):
        return
    yield Hit(
        f"vLLM {version_label(case)} was measured to decode structured outputs at about half the "
        f"speed of 0.21",
        flag=place,
        fix=Fix(
            text="Time structured requests against free ones; where they are slow, try a release "
            "outside 0.24 to 0.28."
        ),
        conflicts=DEFECT.conflicts,
        versions=DEFECT.versions,
    )
