import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.domain.patterns import lazy_re
from advisor.knowledge import store as knowledge
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, spec_flag, unread
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.models import headless

_THIRD = lazy_re(r"eagle[-_]?3(?![\d.])", re.I)
NEED = ("eagle3", "draft_model", "dflash", "dspark")


@rule(
    severity="error",
    engines=("sglang",),
    speculative=True,
    sources=("sglang 0.5.9 to 0.5.23 server_args.py (speculative_draft_model_path)",),
)
def sglang_drafter_missing(case: Case) -> Iterator[Hit]:
    """EAGLE3, STANDALONE, DFLASH, or EAGLE on a model without an MTP head, without a draft model.

    Why: these draft with a checkpoint of their own; without its path the server stops, or loads the
    target a second time as its own drafter.
    Bad: python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct
        --speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good: python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B-Instruct
        --speculative-algorithm EAGLE3 --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
        --speculative-draft-model-path jamesliu1/sglang-EAGLE3-Llama-3.1-Instruct-8B
    """
    given = flag(case, "--speculative-draft-model-path")
    algorithm = flag(case, "--speculative-algorithm")
    if given is not None and algorithm is not None and algorithm.value == "EAGLE":
        if _THIRD.search(given.value or "") and not given.unresolved:
            yield Hit(
                f"{given.value} is an EAGLE-3 head: under EAGLE it gets other states than it was "
                "trained on, and nearly nothing is accepted",
                flag=algorithm,
                severity="warning",
                fix=set_fix(case, algorithm, "EAGLE3", "Write EAGLE3."),
                sources=("sgl-project/sglang#21272",),
            )
        return
    alone = case.plan.method == "eagle" and headless(case)  # EAGLE may name the model's own head
    if given is not None or (case.plan.method not in NEED and not alone):
        return
    own = knowledge.drafters(case.facts.model) if case.facts.model is not None else ()
    named = next(
        (d.repository for d in own if d.method == case.plan.method and "sglang" in d.engines), None
    )
    yield Hit(
        f"{case.plan.method} drafts with a checkpoint of its own, and none is named",
        flag=spec_flag(case),
        severity="warning" if unread(case) else None,
        fix=Fix(text=f"Add --speculative-draft-model-path {named or 'with its name'}."),
    )
