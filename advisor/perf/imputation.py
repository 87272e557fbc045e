"""Explicit stand-ins for what a point does not know: one table or formula per quantity, each
with its reason. They are coarse: whoever predicts must widen the interval where they were used.
"""

import numpy as np

from advisor.domain.sourced import sourced
from advisor.knowledge.imputed import table
from advisor.perf import arrays as P
from advisor.perf.arrays import Floats, Mask
from advisor.perf.sizes.device import FULL_GRAPHS_LOST

QUANT_NAMES = (
    "bytes_mixer", "bytes_ffn", "bytes_lm_head", "bytes_mtp", "bytes_mtp_lm_head", "quant_bits",
)  # fmt: skip

HYBRID_CACHING = sourced(
    2600, "release", "vLLM 0.26.0 config/model.py: on by default for hybrid models too", "read"
)


def value(name: str) -> float:
    """One value of the table for a model or load of which nothing else is known."""
    return table("values")[name]


def _table(values: dict[str, float], words: tuple[str, ...], codes: P.Codes) -> Floats:
    return np.array([values.get(word, 0.0) for word in words])[codes]


def _fill_unknown(array: Floats, otherwise: Floats | float) -> Floats:
    missing = np.isnan(array)
    return np.where(missing, otherwise, array) if missing.any() else array


def impute(points: P.Points) -> P.Points:
    """The same points with a documented value for every unknown that physics needs."""
    if points.filled:
        return points
    filled: dict[str, Floats] = {}
    filled.update(_fill_hardware(points))
    filled.update(_fill_quant(points, filled))
    filled.update(_fill_model(points))
    filled.update(_fill_load(points, filled))
    return points.replace(**filled, filled=True)


def _fill_hardware(p: P.Points) -> dict[str, Floats]:
    """Rates from bandwidth and architecture; a rate of 0: the hardware lacks the format."""

    def per_arch(quantity: str) -> Floats:
        return _table(table("architectures", quantity), P.ARCHS, p.arch)

    bw = _fill_unknown(p.bw, _table(table("classes"), P.CLASSES, p.hw_class))
    bw = np.where(np.isnan(p.bw) & p.is_arch(*P.APPLE), table("classes")["apple"], bw)
    fp32 = _fill_unknown(p.fp32, bw * per_arch("fp32_per_bandwidth"))
    bf16 = _fill_unknown(p.bf16, fp32 * per_arch("bf16_over_fp32"))
    datacenter = p.hw_class == P.CLASSES.index("datacenter")
    stated = np.array([table("links").get(word, np.nan) for word in P.LINKS])[p.link]
    usual = np.where(datacenter, value("link_datacenter"), value("link_other"))
    own = _fill_unknown(p.link_bw, usual)
    reached = value("link_share") * own
    link = np.where(np.isnan(stated), reached, np.fmin(reached, stated))
    # the card's own link is PCIe: its generation counts
    link = np.where((p.link == P.LINKS.index("pcie")) & (own < value("pcie_most")), reached, link)
    nvlink = p.link == P.LINKS.index("nvlink")
    link = np.where(nvlink, np.fmax(reached, value("nvlink_least")), link)
    unified = (p.hw_class == P.CLASSES.index("unified")).astype(float)
    return {
        "bw": bw,
        "fp32": fp32,
        "bf16": bf16,
        "fp8": _fill_unknown(p.fp8, per_arch("fp8_over_bf16") * bf16),
        "fp4": _fill_unknown(p.fp4, per_arch("fp4_over_bf16") * bf16),
        "int8": _fill_unknown(p.int8, bf16 * per_arch("int8_over_bf16")),
        "link_bw": link,
        "unified": _fill_unknown(p.unified, unified),
    }


def _fill_quant(p: P.Points, filled: dict[str, Floats]) -> dict[str, Floats]:
    """An unstated quantisation. vLLM, SGLang: the weights as most models are published, 16 bit
    (DeepSeek: fp8), if they leave a quarter of the memory free; else fp8 where the card has it
    and that fits, else four bits. Others: four bits.

    Plain arms of sources that state none bear the 16 bit out: 27B on two H20 10.3 ms, 8B on one
    H100 7.5 ms, on one A40 29 ms.
    """
    families = [P.QUANT_FAMILIES.index(n) for n in ("bf16", "fp8", "int4", "mlx", "gguf-k")]
    server = p.is_path(*P.SERVED)
    gguf = p.is_path(*P.LLAMACPP)
    gpus = np.fmax(_fill_unknown(p.gpus, 1.0), _fill_unknown(p.tp, 1.0))
    room = value("weights_room") * p.memory_bytes * gpus
    native8 = (p.family == P.FAMILIES.index("deepseek")) & (filled["fp8"] > 0)
    plain = server & ~native8 & (2 * p.total_params <= room)
    eight = server & (filled["fp8"] > 0) & ~(p.total_params > room)
    codes = np.select([plain, eight, server, p.is_path("mlx"), gguf], families, default=0)
    family = np.where(p.quant_family > 0, p.quant_family, codes)
    out = {"kv_bytes": _fill_unknown(p.kv_bytes, 2.0)}  # engines default to 16 bit KV
    # a GGUF of experts in MXFP4 has Q8_0 beside them where the original has 16 bit
    most = np.where(gguf & (family == P.QUANT_FAMILIES.index("mxfp4")), value("gguf_rest"), np.inf)
    for name in QUANT_NAMES:
        own = _fill_unknown(
            getattr(p, name), _table(table("quant_families", name), P.QUANT_FAMILIES, family)
        )
        out[name] = own if name == "quant_bits" else np.fmin(own, most)
    return out


def _fill_model(p: P.Points) -> dict[str, Floats]:
    """Shape from total and active parameters.

    Layers and width follow the published models (35B-A3B 40 x 2048 ... 671B-A37B 61 x 7168; 4B 36,
    27B 64 dense).
    """
    of = table("values")
    sparse = np.where(p.active_params < of["mixture_below"] * p.total_params, 1.0, 0.0)
    is_moe = _fill_unknown(p.is_moe, sparse)
    moe = is_moe > 0
    usual = np.where(moe, of["total_params_moe"], of["total_params_dense"])
    total = _fill_unknown(p.total_params, usual)
    usual = np.where(moe, of["active_share"] * total, total)
    active = np.fmin(_fill_unknown(p.active_params, usual), total)
    depth: Floats = np.where(
        moe,
        of["layers_moe"] * np.power(total / 1e9, of["layers_moe_power"]),
        of["layers_dense"] * np.power(total / 1e9, of["layers_dense_power"]),
    )
    layers = np.fmax(_fill_unknown(p.layers, np.round(depth)), 1.0)
    step = of["width_step"]
    width: Floats = np.round(np.sqrt(active / (of["layer_params"] * layers)) / step) * step
    hidden = np.fmax(_fill_unknown(p.hidden, width), step)
    head = np.fmin(of["vocabulary"] * hidden, of["lm_head_most"] * active)
    head = _fill_unknown(p.lm_head_params, head)
    experts, topk, moe_layers, expert = _fill_experts(p, moe, total, active, layers)
    rest = np.fmax(active - topk * expert * moe_layers - head, of["core_least"] * active)
    in_moe, in_dense = of["mixer_share_moe"], of["mixer_share_dense"]
    mixer = _fill_unknown(p.mixer_params, np.where(moe, in_moe * rest, in_dense * rest))
    shared = _fill_unknown(p.shared_params, np.where(moe, (1 - in_moe) * rest, 0.0))
    dense_ffn = _fill_unknown(p.dense_ffn_params, np.where(moe, 0.0, (1 - in_dense) * rest))
    block = mixer / layers + dense_ffn / layers + 2 * hidden**2 + experts * expert
    hybrid = _fill_unknown(p.is_hybrid, (p.family == P.FAMILIES.index("qwen3.5")).astype(float))
    recurrent = np.where(hybrid > 0, np.round(of["linear_share"] * layers), 0.0)
    linear = _fill_unknown(p.linear_layers, recurrent)
    attention = _fill_unknown(p.attn_layers, layers - linear)
    state = linear * of["state_bytes"] * np.sqrt(hidden / of["state_width"])
    draft = np.fmin(of["draft_params"], of["draft_most"] * active)
    return {
        "is_moe": is_moe,
        "is_hybrid": hybrid,
        "total_params": total,
        "active_params": active,
        "layers": layers,
        "hidden": hidden,
        "lm_head_params": head,
        "experts": experts,
        "topk": topk,
        "moe_layers": moe_layers,
        "expert_params": expert,
        "mixer_params": mixer,
        "shared_params": shared,
        "dense_ffn_params": dense_ffn,
        "mtp_params": _fill_unknown(p.mtp_params, block),
        "linear_layers": linear,
        "attn_layers": attention,
        "global_layers": _fill_unknown(p.global_layers, attention),
        "window": _fill_unknown(p.window, 0.0),
        "swa_kv_elems": _fill_unknown(p.swa_kv_elems, 0.0),
        "swa_head_dim": _fill_unknown(p.swa_head_dim, 0.0),
        "draft_head_params": _fill_unknown(p.draft_head_params, head),
        "heads": _fill_unknown(p.heads, np.fmax(np.round(hidden / of["head_dim"]), 1.0)),
        "head_dim": _fill_unknown(p.head_dim, of["head_dim"]),
        "state_bytes": _fill_unknown(p.state_bytes, state),
        "kv_elems": _fill_unknown(p.kv_elems, attention * of["kv_elems"]),
        "sparse_keys": _fill_unknown(p.sparse_keys, np.inf),
        "index_bytes": _fill_unknown(p.index_bytes, 0.0),
        "draft_params": _fill_unknown(p.draft_params, draft),
    }


def _fill_experts(
    p: P.Points, moe: Mask, total: Floats, active: Floats, layers: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Experts, experts of a token, layers with experts and parameters of one expert; (N,) each, 0
    in dense models. What a mixture holds beyond its active part is experts.
    """

    def of_mixture(stated: Floats, otherwise: Floats | float) -> Floats:
        return np.where(moe, _fill_unknown(np.where(stated > 0, stated, np.nan), otherwise), 0.0)

    experts = of_mixture(p.experts, value("experts"))
    topk = np.fmin(of_mixture(p.topk, value("experts_per_token")), experts)
    moe_layers = of_mixture(p.moe_layers, layers)
    share = np.divide(topk, experts, out=np.zeros_like(topk), where=experts > 0)
    all_experts = np.where(moe, (total - active) / np.fmax(1 - share, value("experts_least")), 0.0)
    count = experts * moe_layers
    each = np.divide(all_experts, count, out=np.zeros_like(topk), where=count > 0)
    return experts, topk, moe_layers, of_mixture(p.expert_params, each)


def _fill_load(p: P.Points, filled: dict[str, Floats]) -> dict[str, Floats]:
    """Load and limits: one stream of 512 in and out, the engine's limits, no shared prefix."""
    of, vllm = table("values"), p.is_engine("vllm")
    server = p.is_path(*P.SERVED)
    concurrency = np.fmax(_fill_unknown(p.concurrency, of["concurrency"]), 1.0)
    tp = np.fmax(_fill_unknown(p.tp, np.where(server, _fill_unknown(p.gpus, 1.0), 1.0)), 1.0)
    output = np.fmax(_fill_unknown(p.output_tokens, of["output_tokens"]), 1.0)
    usual = np.where(p.is_path(*P.LLAMACPP, "mlx"), of["input_tokens_local"], of["input_tokens"])
    tokens_in = _fill_unknown(p.input_tokens, _fill_unknown(p.depth_tokens, usual))
    big = p.memory_bytes >= of["big_batches_bytes"]
    wide = np.where(vllm, big, p.is_path("sglang-cuda"))
    budget = np.where(wide, of["budget_big"], of["budget_small"])
    slots = np.where(vllm, np.where(big, of["seqs_big"], of["seqs_small"]), of["unlimited_seqs"])
    # synthetic prompts come with forced, equal output lengths
    fixed = p.workload == P.WORKLOADS.index("random")
    spread = _fill_unknown(p.output_spread, np.where(fixed, 0.0, of["output_spread"]))
    lost = vllm & (p.method > 0) & ~p.is_method("ngram")
    lost &= p.is_arch("sm_120", "sm_121")
    lost &= np.isnan(p.version) | (p.version <= np.dot(FULL_GRAPHS_LOST, (100**2, 100, 1)))
    lost &= filled["kv_bytes"] == 1.0  # FlashInfer is the backend there for an fp8 KV cache
    # on by default, but for hybrid models in vLLM only since 0.26.0
    uncached = vllm & (filled["is_hybrid"] > 0) & (p.version < HYBRID_CACHING)
    requests = np.fmax(of["run_requests"], of["run_rounds"] * concurrency)
    return {
        "concurrency": concurrency,
        "tp": tp,
        "attention_groups": _fill_unknown(p.attention_groups, 1.0),
        "expert_ranks": _fill_unknown(p.expert_ranks, 1.0),
        "stages": _fill_unknown(p.stages, 1.0),
        "residual_streams": _fill_unknown(p.residual_streams, 1.0),
        "gpus": np.fmax(_fill_unknown(p.gpus, tp), tp),
        "input_tokens": np.fmax(tokens_in, 1.0),
        "depth_tokens": _fill_unknown(p.depth_tokens, tokens_in),
        "output_tokens": output,
        "prefix_caching": _fill_unknown(p.prefix_caching, np.where(uncached, 0.0, 1.0)),
        "prefix_share": _fill_unknown(p.prefix_share, 0.0),
        "host_base": _fill_unknown(p.host_base, 0.0),
        "host_spec": _fill_unknown(p.host_spec, 0.0),
        "max_num_seqs": _fill_unknown(p.max_num_seqs, slots),
        "max_num_batched_tokens": np.fmax(
            _fill_unknown(p.max_num_batched_tokens, budget), of["budget_least"]
        ),
        "n_requests": np.fmax(_fill_unknown(p.n_requests, requests), 1.0),
        "output_spread": np.clip(spread, 0.0, of["output_spread_most"]),
        "piecewise": _fill_unknown(p.piecewise, lost.astype(float)),
        "eager": _fill_unknown(p.eager, 0.0),
        "k": np.where(p.method == 0, 0.0, p.k),
        "verify_tokens": np.where(p.method == 0, 1.0, _fill_unknown(p.verify_tokens, p.k + 1)),
    }
