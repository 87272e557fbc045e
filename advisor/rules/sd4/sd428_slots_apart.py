from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_switch
from advisor.rules.kit.policy import streams


@rule(
    severity="info",
    engines=("llama-server",),
    needs=("concurrency",),
    sources=(
        "ggml-org/llama.cpp#25840",
        "llama.cpp b11312: llama_batch_allocr::split_equal",
        "bench-h100-llama-b11312: slots side by side and one apart",
        "bench-h100-llama-places: one to four groups of slots",
    ),
)
def slots_apart(case: Case) -> Iterator[Hit]:
    """More llama-server slots than requests, each slot with a KV buffer of its own.

    Why: a batch whose busy slots are not neighbours is cut into groups of neighbours. Each group is
    a pass of its own and no graph is used again. On an H100 a step of the 27B with one slot apart
    took 1.2 to 1.9 times as long, one of the 35B-A3B with four slots apart 4.6 times; with
    --kv-unified nothing is cut.
    Bad (concurrency=4): llama-server -m Qwen3.6-27B-MTP-UD-Q4_K_XL.gguf -c 131072 --parallel 16
    Good (concurrency=4): llama-server -m Qwen3.6-27B-MTP-UD-Q4_K_XL.gguf -c 131072 --parallel 4
    """
    explicit, slots, running = flag(case, "--parallel"), case.plan.max_num_seqs, streams(case)
    if explicit is None or slots is None or running is None or has_switch(case, "--kv-unified"):
        return
    if 2 <= running < slots:
        yield Hit(
            f"{running} requests on {slots} slots: where their slots are not neighbours, a step is "
            "several passes, 1.2 to 4.6 times as long on an H100",
            flag=explicit,
            fix=Fix(text=f"Use --parallel {running}, or add --kv-unified (-c is then shared)."),
        )
