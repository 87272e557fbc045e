"""Stand-ins for what was not read: a shape from parameter counts, a quantisation from its family;
each is flagged in the entry's note.
"""

import re
from typing import Any

from advisor.domain.nouns import LLM
from advisor.domain.patterns import lazy_re
from advisor.domain.sourced import sourced
from advisor.knowledge.names import key_of

_GGUF = lazy_re(r"^(ud)?(i?q|tq)(\d)(k|ks|km|kl|kxl|xxs|xs|s|m|nl|0|1|kss)?$")

ACTIVE_SHARE = sourced(
    0.05, "share", "active by total parameters: median of the listed mixtures of 150B up", "derived"
)


def approximate(model: LLM) -> LLM:
    """A shape from total and active parameters, by ratios of the listed models (mixer 27 % of a
    dense hybrid, 4 % of a large mixture; lm_head 1.5 to 5 %).
    """
    total = float(model.total_params_b or 0.0)
    active = float(model.active_params_b or total * (ACTIVE_SHARE if model.is_moe else 1))
    vocab = model.vocab or 200_000
    sparse = active < 0.7 * total or model.is_moe
    hidden = model.hidden or _near(
        1024, 8192, 1024 * max(1.0, total**0.45) if not sparse else 1024 * active**0.35 * 1.5
    )
    layers = model.layers or _near(24, 96, 30 * total**0.22 if not sparse else 24 * total**0.18)
    head = vocab * hidden / 1e9
    mixer = 0.27 * total if not sparse else min(0.45 * active, 0.1 * total)
    fields: dict[str, Any] = {"vocab": vocab, "hidden": hidden, "layers": layers}
    fields |= {"lm_head_params_b": head, "mixer_params_b": mixer}
    body = max(total - mixer - 2 * head, 0.3 * total)
    if sparse:
        experts, topk = model.experts or 256, model.experts_per_token or 8
        fields |= {"experts": experts, "experts_per_token": topk, "moe_layers": layers}
        fields |= {"expert_params_m": 1e3 * body / (experts * layers), "shared_params_b": 0.0}
    fields["dense_ffn_params_b"] = 0.0 if sparse else body
    per_layer = 1024 if sparse else 2048
    attention = layers // 4 if model.is_hybrid else layers
    fields["kv_elems_per_token"] = model.kv_elems_per_token or per_layer * attention
    if model.is_hybrid:
        linear = layers - attention
        fields |= {"full_attention_layers": attention, "linear_layers": linear}
        fields["state_mb_per_seq"] = 2.4 * linear
    known = {name: value for name in fields if (value := getattr(model, name)) is not None}
    note = (
        f"{model.note} Shape approximated from {total:g}B total and {active:g}B active parameters."
    ).strip()
    return model.replace(**fields | known, note=note)


def _near(low: int, high: int, value: float) -> int:
    return int(min(max(round(value / 8) * 8, low), high))


def quant_by_rule(name: str, known: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """An unseen quantisation of a known family (ud-q5_k_m, mlx-5bit) as fields of a Quant."""
    key = key_of(name).removesuffix("gguf")
    if found := re.search(
        r"^(?:mlx|oq|omlx)(?:community)?q?(\d(?:\.\d+)?)(?:bit|bpw)?$|^(\d)bitmlx$", key
    ):
        bits = float(found.group(1) or found.group(2)) + 0.5
        return _flat(name, "mlx", bits, ["mlx"], "mlx-layout") if 1.5 < bits < 17 else None
    if found := re.search(r"^exl[23](\d+(?:\.\d+)?)(?:bpw|bit)?$", key):
        bits = float(found.group(1))
        return _flat(name, "exl3", bits, ["exllamav3"], "exl3-layout") if 1 <= bits <= 8 else None
    if found := re.search(r"^(?:int|w)([2-8])(?:a16|bit)?$", key):
        bits = float(found.group(1)) + 0.25
        family = "int4" if bits < 6 else "int8"
        made = _flat(name, family, bits, ["vllm", "sglang"], "awq-gptq-layout")
        whole = ("bytes_lm_head", "bytes_embedding", "bytes_mtp", "bytes_mtp_lm_head")
        return made | dict.fromkeys(whole, 2.0)
    return _gguf_by_rule(name, key, known)


def _gguf_by_rule(name: str, key: str, known: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    found = _GGUF.match(key)
    if not found:
        return None
    ud, kind, digit, tail = found.groups()
    plain = _kin(kind, digit, tail or "", known)
    if plain is None:
        return None
    made = {
        **plain,
        "id": name.lower(),
        "aliases": [],
        "note": f"As {plain['id']}, by the rule of its family.",
    }
    if ud:  # Unsloth's dynamic mixes keep the mixer a step higher
        mixer = max(plain["bytes_mixer"], min(plain["bytes_ffn"] + 0.1, 1.0625))
        made.update(bytes_mixer=mixer, bits=plain["bits"] + 0.1)
    return made


def _kin(
    kind: str, digit: str, tail: str, known: dict[str, dict[str, Any]]
) -> dict[str, Any] | None:
    head = f"{kind}{digit}"
    spelled = {key_of(ident): entry for ident, entry in known.items()}
    ends = (tail, tail.removesuffix("xl") + "m", "km", "m", "xs", "k", "0")
    kin = [spelled[head + end] for end in ends if head + end in spelled]
    kin += [entry for ident, entry in spelled.items() if ident.startswith(head)]
    return kin[0] if kin else None


def _flat(name: str, family: str, bits: float, engines: list[str], source: str) -> dict[str, Any]:
    parts = ("mixer", "ffn", "lm_head", "embedding", "mtp", "mtp_lm_head")
    made: dict[str, Any] = {"id": name.lower(), "family": family, "bits": bits}
    made |= {f"bytes_{part}": round(bits / 8, 4) for part in parts}
    note = "By the rule of its family: bits as named."
    return made | {"engines": engines, "source": source, "note": note}
