from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, open_value, spec_flag
from advisor.rules.kit.policy import hardware_name, matches, regime, rows, sources

BACKEND = "TRITON_MLA"


@rule(
    severity="warning",
    speculative=True,
    engines=("vllm",),
    needs=("hardware", "model"),
    sources=sources("regime", "triton_mla"),
)
def triton_mla_verify(case: Case) -> Iterator[Hit]:
    """Speculation with latent attention (MLA) on a GPU where vLLM has only its Triton kernel for
    it.

    Why: FlashMLA, CUTLASS and FlashInfer's MLA kernels need Hopper or B200-class chips. The Triton
    kernel decodes one token a request, so every verify step takes the path of a prompt and reads
    the whole context anew. On a GB10 an EAGLE head that got 1.6 to 2.1 tokens a step accepted ran
    at 0.49 to 0.77 of the baseline speed.
    Bad (hw=rtx-pro-6000): vllm serve zai-org/GLM-4.7-Flash
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (hw=h200): vllm serve zai-org/GLM-4.7-Flash
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    """
    row = next((row for row in rows("regime", "triton_mla") if matches(row, case)), None)
    asked = (case.plan.attention_backend or "").upper()
    if row is None or case.plan.method == "ngram" or (asked and asked != BACKEND):
        return
    if open_value(case, "--attention-backend"):
        return
    yield Hit(
        f"vLLM has only its Triton kernel for MLA on {hardware_name(case)}: a verify step reads "
        f"the context like a prompt; EAGLE "
        "ran at 0.49 to 0.77 of the baseline speed on a GB10",
        flag=flag(case, "--attention-backend") or spec_flag(case),
        fix=Fix(text="Run without speculation, or benchmark both first."),
        sources=tuple(row["sources"]),
        conflicts=tuple(row["conflicts"]),
        effect=regime(case, losses.triton_mla).effect,
    )
