from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge import store as knowledge
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, spec_flag
from advisor.rules.kit.policy import model_name


@rule(
    severity="warning",
    engines=("vllm", "sglang"),
    speculative=True,
    needs=("model",),
    sources=("knowledge/drafters",),
)
def drafter_of_another_model(case: Case) -> Iterator[Hit]:
    """A published EAGLE or DFlash drafter beside a model that it was not trained for.

    Why: it reads the hidden states of its own model. Where the widths differ the server stops while
    loading; where they agree (Qwen3-14B and 32B) it runs, accepts next to nothing, and is slower
    than no drafter.
    Bad: vllm serve Qwen/Qwen3-14B
        --speculative-config '{"method":"eagle3","model":"RedHatAI/Qwen3-32B-speculator.eagle3","num_speculative_tokens":3}'
    Good: vllm serve Qwen/Qwen3-32B
        --speculative-config '{"method":"eagle3","model":"RedHatAI/Qwen3-32B-speculator.eagle3","num_speculative_tokens":3}'
    """
    found = knowledge.drafter_home(case.plan.draft_model) if case.plan.draft_model else None
    if found is None or case.facts.model is None or found[0] == case.facts.model.id:
        return
    _, drafter = found
    own = knowledge.drafters(case.facts.model)
    instead = next((d.repository for d in own if case.plan.engine in d.engines), None)
    yield Hit(
        f"{drafter.repository} was trained for {drafter.target}, not for {model_name(case)}: its "
        f"guesses do not fit",
        flag=flag(case, "--speculative-draft-model-path") or spec_flag(case),
        fix=Fix(
            text=f"Use {instead}."
            if instead
            else "Use a drafter of this very model, or no speculation."
        ),
        sources=drafter.sources,
    )
