from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.fixes import set_fix

FILES = ("--model", "--hf-file", "--spec-draft-model")
_PART = lazy_re(r"(.*-)(\d{5})(-of-\d{5}\.gguf)")


@rule(severity="error", engines="gguf")
def split_part(case: Case) -> Iterator[Hit]:
    """A later part of a split GGUF given as the model.

    Why: another part than the first stops llama.cpp with an illegal split file index.
    Bad: llama-server -m /models/GLM-4.5-Air-Q4_K_M-00002-of-00002.gguf -ngl 99
    Good: llama-server -m /models/GLM-4.5-Air-Q4_K_M-00001-of-00002.gguf -ngl 99
    Sources: ggml-org/llama.cpp#6187; lemonade-sdk/lemonade#499
    """
    for name in FILES:
        found = flag(case, name)
        part = _PART.fullmatch(found.value or "") if found is not None else None
        if found is None or found.unresolved or part is None or part[2] == "00001":
            continue
        first = f"{part[1]}00001{part[3]}"
        yield Hit(
            f"{found.raw} names part {int(part[2])} of a split GGUF, which is opened by its first",
            flag=found,
            fix=set_fix(case, found, first, f"Write {first.rsplit('/', 1)[-1]}."),
        )
