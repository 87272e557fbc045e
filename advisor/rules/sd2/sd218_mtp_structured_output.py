from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag

FLAGS = (
    "--grammar",
    "--grammar-file",
    "--json-schema",
    "--json-schema-file",
    "--grammar-backend",
    "--structured-outputs-config",
)


@rule(
    severity="info",
    speculative=True,
    sources=("sgl-project/sglang#28407", "vllm-project/vllm#46249", "Tanguille/cluster@e6803ff86"),
)
def mtp_structured_output(case: Case) -> Iterator[Hit]:
    """Grammar-bound output together with MTP.

    Why: grammar, verification and the recurrent state had to agree and did not in mid-2026:
    scheduler crashes, rejected tokens, wedged tool calls.
    Bad: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 --grammar-backend
        xgrammar
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good: python3 -m sglang.launch_server --model-path Qwen/Qwen3.6-35B-A3B-FP8 --grammar-backend
        xgrammar
    """
    place = flag(case, *FLAGS)
    if case.plan.method == "mtp" and place is not None and place.value != "none":
        yield Hit(
            f"{place.raw} with MTP: crashes and rejected tokens were reported in mid-2026; test "
            f"it under load",
            flag=place,
            fix=Fix(
                text="Use a release of autumn 2026 or later, or switch MTP off for grammar-bound "
                "requests."
            ),
            conflicts=("vllm#46249 was not reproduced on a later release",),
        )
