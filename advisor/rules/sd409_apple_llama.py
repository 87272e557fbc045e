import re
from collections.abc import Iterator

from advisor.rules import Hit, rule
from advisor.rules.asking import spec_flag, table
from advisor.rules.policy import hardware_name, sources, veto_unless_measured
from advisor.types import Case, Fix


@rule(
    severity="warning",
    speculative=True,
    engines=("llama-server", "ik_llama.cpp"),
    needs=("hardware",),
    sources=sources("regime", "apple_generations"),
)
def apple_llama(case: Case) -> Iterator[Hit]:
    """Speculation with llama.cpp on Apple Silicon: it depends on the chip.

    Why: up to the M4 the GPU has little compute to spare for verifying, and measured rows lose; the M5's matrix units change
    that, and all measured rows gain.
    Bad (hw=apple-m4): llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf -c 16384 --parallel 1 --spec-type draft-mtp
        --spec-draft-n-max 2
    Good (hw=apple-m4): llama-server -m Qwen3.6-27B-MTP-Q4_K_M.gguf -c 16384 --parallel 1
    """
    hw, known = case.facts.hardware, table("regime")["apple_generations"]
    if hw is None or hw.vendor != "apple":
        return
    chip = re.search(r"-m(\d)", hw.id)
    generation = int(chip[1]) if chip else None
    if generation in known["gains"]:
        yield Hit(
            f"{hardware_name(case)}: all 12 rows of an M5 Pro gain (27B, k=1 to 4: 1.04x to 1.80x, best with Q8_0)",
            severity="info",
            conflicts=(
                "a model card of 2026-05 says that Apple Silicon gains nothing (seed004); no M5 was measured then",
            ),
            effect="support",
            k_best=known["k_best"],
        )
    elif generation in known["loses"]:
        yield Hit(
            f"{hardware_name(case)}: five of six rows of an M4 are at or below 1 (0.76x to 1.00x, code 1.11x), and a model "
            f"card of 2026-05 found no gain on Apple Silicon; M1 to M3 were not measured with llama.cpp",
            flag=spec_flag(case),
            fix=Fix(
                text="Switch speculation off with llama.cpp; an MLX server with MTP is another matter (1.1x to 1.2x, M3 Ultra)."
            ),
            conflicts=("an M5 Pro gains 1.04x to 1.80x with the same engine (m5pro)",),
            effect=veto_unless_measured(case),
        )
    else:
        yield Hit(
            "the chip is not named, and that decides: rows of an M4 lose, rows of an M5 Pro gain",
            flag=spec_flag(case),
            fix=Fix(text="Name the chip, for example --hw apple-m5-pro."),
            effect="caution",
        )
