import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.perf.regimes import losses
from advisor.rules import Hit, rule
from advisor.rules.kit.case import k_flag, spec_flag
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import hardware_name, is_sparse_moe, regime, sources

_STATED = "a model card of 2026-05 found no gain with the 35B-A3B on Apple Silicon"


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    needs=("hardware",),
    sources=sources("regime", "apple_generations"),
)
def apple_llama(case: Case) -> Iterator[Hit]:
    """Speculation with llama.cpp on Apple Silicon: it depends on the chip and on the number of
    drafts.

    Why: a step of 2 or 3 tokens of a K-quant reads the weights anew for every token on Metal, one
    of 4 reads them once: an M1 Max loses with 2 drafts what it gains with 3. An M4 has little
    compute to spare for either; an M5 gains at every depth.
    Bad (hw=apple-m4): llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf -c 16384 --parallel 1 --spec-type
        draft-mtp
        --spec-draft-n-max 2
    Good (hw=apple-m4): llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf -c 16384 --parallel 1
    """
    hw = case.facts.hardware
    if hw is None or hw.vendor != "apple":
        return
    chip, effect = losses.apple_chip(hw.id), regime(case, losses.apple).effect
    measured = table("regime")["apple_generations"].get(chip) if chip else None
    sparse = is_sparse_moe(case)
    stated = bool(
        chip and sparse
    )  # what a model card says of the 35B-A3B holds where nothing was measured
    if measured is None:
        what = (
            f"M{chip} was not measured with llama.cpp"
            if chip
            else "the chip is not named, and the result depends on it"
        )
        todo = (
            "Measure with speculation off and with 3 drafts."
            if chip
            else "Name the chip, for example --hw apple-m5-pro."
        )
        todo = "Switch speculation off, or measure it with 3 drafts." if stated else todo
        yield Hit(
            f"{what}: with 3 drafts an M1 Max and an M5 gain, an M4 loses"
            + (f"; {_STATED}" if stated else ""),
            flag=spec_flag(case),
            fix=Fix(text=todo),
            effect=effect,
        )
        return
    told, best = measured["told"], int(measured["k_best"])
    if measured["effect"] == "support":
        # experts are read token by token at any depth, so 2 drafts are as good as 3 there
        wasted = case.plan.k in (1, 2) and not sparse and _rereads(case)
        tokens = case.plan.k + 1
        yield Hit(
            f"{told}; Metal reads K-quant weights {tokens} times for a step of {tokens} tokens"
            if wasted
            else told,
            flag=k_flag(case) if wasted else None,
            severity="warning" if wasted else "info",
            fix=k_fix(
                case, best, f"Draft {best} tokens: a step of {best + 1} reads the weights once."
            )
            if wasted
            else None,
            conflicts=("a model card of 2026-05 found no gain on Apple Silicon (seed004)",),
            effect="support",
            k_best=best,
        )
        return
    here = (
        measured["effect"] == "veto" and hw.id in measured["chips"]
    )  # larger chips of the generation were not measured
    off = here or stated
    advice = (
        "Switch speculation off with llama.cpp; an MLX server with MTP gained 1.1x to 1.2x "
        "(M3 Ultra)."
    )
    yield Hit(
        f"{hardware_name(case)}, measured on {told}"
        + (f"; {_STATED}" if stated and not here else ""),
        flag=spec_flag(case),
        fix=Fix(text=advice if off else f"Draft {best} token, or measure."),
        conflicts=(
            "an M1 Max and an M5 Pro gain with 3 drafts and the same engine (m1maxlab, m5pro)",
        ),
        effect=effect,
    )


def _rereads(case: Case) -> bool:
    """Whether the weights are of a type that Metal reads anew for each of 2 or 3 tokens; unknown
    counts as no.
    """
    quant = case.facts.quant
    return quant is not None and bool(re.search(r"q\d_k", quant.id))
