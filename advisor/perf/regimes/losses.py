"""How far a case lies in regimes of which losses were published, 0 to 1.

A "loss" is documented for this very regime, a "caution" for a neighbour of it, or with evidence
that conflicts. The rules (advisor/rules/sd4) say it to the user, and the estimate takes it in
(prediction/documented.py). Numbers and sources stand in knowledge/rules/regime.json.
"""

import re
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from typing import Any

from advisor.domain.records import NamedTuple
from advisor.engines.traits import engines_with, gguf_engine
from advisor.knowledge.rule_data import table
from advisor.perf.regimes.setting import (
    Mask,
    Number,
    Setting,
    between,
    choose,
    greater,
    lesser,
    matches,
    nearness,
    negate,
    of_regime,
)

COPYING = ("code", "agent", "rag", "summarization")  # answers that repeat their prompt
FULL_Q8_GAIN = "gfx1151"  # Strix Halo gains with 8-bit weights (1.9x to 2.1x)
NAN = float("nan")


class Strength(NamedTuple):
    """How far a case is in a regime: of documented losses of its own, and of cautions; `size` is
    the speed-up of those losses, NaN where their sources give none.
    """

    loss: Number = 0.0
    caution: Number = 0.0
    size: Number = NAN


def _rows(key: str) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = table("regime")[key]
    return rows


def _any(key: str, s: Setting) -> Mask:
    return reduce(or_, (matches(row, s) for row in _rows(key)), False)


def _gguf(s: Setting) -> Mask:
    return s.engine.each(lambda name: name is not None and gguf_engine(name))


def _serves(s: Setting) -> Mask:
    return s.engine.among(engines_with("replicas"))


def long_prefill_nearness(s: Setting) -> Number:
    """How near a load is to several long prompts at once on unified memory, 0 to 1."""
    prompts = nearness(s.ctx, of_regime("long_prefill_ctx_tokens"))
    near = lesser(prompts, nearness(s.streams, of_regime("long_prefill_concurrency")))
    return (_serves(s) & s.known & s.unified) * near


def long_prefill(s: Setting) -> Strength:
    """Several long prompts on unified memory: a loss if long beside their answers (SD402)."""
    strength = long_prefill_nearness(s)
    gained, lost = (of_regime(f"long_prefill_{name}_over_output") for name in ("gain", "prompt"))
    bound = between(s.ctx / s.output, gained, lost)
    own = _any("long_prefill", s)  # kin, other models and unified machines, is warned of only
    return Strength(own * strength * bound, negate(own) * strength)


def kernel_switch(s: Setting) -> Strength:
    """A verify step beyond llama.cpp's kernels for few tokens, whatever the draft (SD405)."""
    limit = of_regime("kernel_switch_tokens")
    beyond = (s.streams * (s.k + 1) > limit) & (s.streams * 2 > limit) & (s.streams <= limit)
    here = _gguf(s) & (s.k > 0) & negate(s.vendor.among(("apple",)))
    return Strength(caution=1.0 * (here & beyond))


def lookup(s: Setting) -> Strength:
    """N-gram lookup on text that does not repeat its prompt (SD406)."""
    here = s.method.among(("ngram",)) & negate(s.suffix)
    copying = s.workload.among(COPYING)
    size = of_regime("ngram_general")
    return Strength(1.0 * (here & negate(copying)), 1.0 * (here & copying), size)


def lookup_states(s: Setting) -> Strength:
    """Lookups of llama-server on recurrent models, drafts too short for a state's copy (SD429)."""
    here = _gguf(s) & s.hybrid & s.method.among(("ngram",))
    short, long = (of_regime(f"lookup_states_{name}_k") for name in ("short", "long"))
    return Strength((1.0 - between(s.k, short, long)) * here, size=of_regime("lookup_states"))


def gguf_streams(s: Setting) -> Strength:
    """llama-server with several requests at once (SD408)."""
    left = _gguf(s) & s.known
    veto = of_regime("gguf_concurrency_veto")
    loss: Number = 0.0
    caution: Number = 0.0
    for row in _rows("gguf_concurrency"):
        fits = left & matches(row, s)
        left = left & negate(fits)
        several = fits * nearness(s.streams, row["from"])
        many = fits * between(s.streams, row["from"], veto) * bool(row["veto"])
        loss, caution = greater(loss, many), greater(caution, several)
    return Strength(loss, caution)


@cache
def apple_chip(hardware: str | None) -> str | None:
    """The generation of an Apple chip by its id ("4" of apple-m4-max), None where it has none."""
    found = re.search(r"-m(\d)", hardware or "")
    return found[1] if found else None


def _apple(hardware: str | None) -> str:
    """What is documented of one chip: "support", "veto" (a loss), or "caution" of its neighbours.
    A model card that finds no gain, without a figure, is no loss: mixtures gained on an M1 Max, an
    M4 Pro and an M5 Max (m1maxlab, asiaimtp).
    """
    measured = table("regime")["apple_generations"].get(apple_chip(hardware) or "")
    effect = str(measured["effect"]) if measured is not None else "caution"
    return "caution" if effect == "veto" and hardware not in measured["chips"] else effect


def apple(s: Setting) -> Strength:
    """llama.cpp on Apple chips, by generation (SD409)."""
    here = _gguf(s) & s.vendor.among(("apple",))
    loss = here & s.hardware.each(lambda name: _apple(name) == "veto")
    caution = here & s.hardware.each(lambda name: _apple(name) == "caution")
    return Strength(1.0 * loss, 1.0 * caution, _apple_size(s))


def _apple_size(s: Setting) -> Number:
    """Speed-up by draft tokens where a chip's own rows tell it, their log middle; else NaN."""
    size: Number = NAN
    rows = table("regime")["apple_generations"].values()
    for row in (row for row in rows if isinstance(row, dict)):
        for k, ratio in enumerate(row.get("speedup_by_k", ()), 1):
            last = k == len(row["speedup_by_k"])
            here = s.hardware.among(row["chips"]) & ((s.k >= k) if last else (s.k == k))
            size = choose(here, ratio, size)
    return size


def saturated_sglang(s: Setting) -> Strength:
    """MTP on a saturated SGLang server (SD410): three owners' dense models lost there. Mixtures
    gained, that of the published profile among them, so that the profile is said but not taken in.
    """
    mixture = s.model_arch.each(lambda name: (name or "").endswith("moe"))
    here = s.engine.among(engines_with("running")) & s.method.among(("mtp",)) & negate(mixture)
    return Strength(caution=here * nearness(s.streams, of_regime("sglang_saturated_concurrency")))


def creative(s: Setting) -> Strength:
    """Creative text with few active parameters, at the drafts that are not too long (SD412)."""
    few = s.k <= of_regime("creative_k_max_sparse")
    return Strength(caution=1.0 * (s.workload.among(("creative",)) & s.sparse & few & (s.k > 0)))


def q8_on_rdna(s: Setting) -> Strength:
    """Q8_0 weights on RDNA cards in llama.cpp (SD420)."""
    archs = [arch for arch in table("regime")["q8_rdna"]["archs"] if arch != FULL_Q8_GAIN]
    return Strength(caution=1.0 * (_gguf(s) & s.quant.among(("q8_0",)) & s.arch.among(archs)))


def long_context(s: Setting) -> Strength:
    """Depths at which one kernel path is known to lose (SD422)."""
    return Strength(caution=1.0 * (_serves(s) & _any("long_context_losses", s)))


def external_draft(s: Setting) -> Strength:
    """A separate draft model for a hybrid target in llama.cpp (SD205)."""
    return Strength(1.0 * (_gguf(s) & s.method.among(("draft_model",)) & s.hybrid))


def serial_verify(s: Setting) -> Strength:
    """Verify attention that walks the context in one block (SD424)."""
    fits: Mask = False
    none = s.backend.each(lambda name: not name)
    for row in _rows("serial_verify"):
        open_way = none & s.wide_kv if row["wide_kv_only"] else none
        fits = fits | matches(row, s) & (open_way | s.backend.among(row["backends"]))
    own = _any("long_context_losses", s)  # SD422 has the figures
    return Strength(caution=1.0 * (fits & negate(s.latent) & negate(own)))


def triton_mla(s: Setting) -> Strength:
    """Latent attention with vLLM's Triton kernel alone (SD426): a loss where it was measured, and a
    caution for other models and chips, which read another share of context and weights.
    """
    kernel = s.backend.each(lambda name: not name or name == "TRITON_MLA")
    here = _any("triton_mla", s) & negate(s.method.among(("ngram",))) & kernel
    measured = _rows("triton_mla")[0]
    own = matches(measured, s)
    return Strength(1.0 * (here & own), 1.0 * (here & negate(own)), float(measured["value"]))


def sparse_draft(s: Setting) -> Strength:
    """A separate draft model beside few active parameters in vLLM (SD427)."""
    here = _any("draft_model_sparse", s)
    (row,) = _rows("draft_model_sparse")
    return Strength(1.0 * (here & (s.k >= 2)), 1.0 * (here & (s.k < 2)), float(row["value"]))


def lone_loss(s: Setting) -> Strength:
    """A loss of one setting that few prompts showed: too few to be trained on, and no more than a
    caution, which is gone `from` so many requests at once on (SD430).
    """
    caution: Number = 0.0
    for row in _rows("lone_losses"):
        few = 1.0 - between(s.streams, 1, row["from"])
        caution = greater(caution, 1.0 * matches(row, s) * few)
    return Strength(caution=caution)


# `external_draft` and `serial_verify` are none of them: the estimate prices the states that are
# saved and restored, and attention that is not split, and is uncertain whether a build does so
# (prediction/switches.py).
REGIMES = (
    long_prefill,
    kernel_switch,
    lookup,
    lookup_states,
    gguf_streams,
    apple,
    saturated_sglang,
    creative,
    q8_on_rdna,
    long_context,
    triton_mla,
    sparse_draft,
    lone_loss,
)


def strongest(s: Setting) -> Strength:
    """The strongest of all regimes: several rest on the same reports, so they do not add up."""
    loss: Number = 0.0
    caution: Number = 0.0
    size: Number = NAN
    for regime in REGIMES:
        made = regime(s)
        size = choose(made.loss > loss, made.size, size)
        loss, caution = greater(loss, made.loss), greater(caution, made.caution)
    return Strength(loss, caution, size)
