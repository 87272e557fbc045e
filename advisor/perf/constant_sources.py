"""Where each constant of the physics core comes from, and how far a fit may move it."""

from __future__ import annotations

from typing import NamedTuple


class Provenance(NamedTuple):
    """Where a constant comes from, and how wide its prior is."""

    source: str
    status: str  # read, derived, assumed
    log_sd: float  # prior width of log(true / default)


CONSTANT_SOURCES: dict[str, Provenance] = {
    "eta_bw": Provenance(
        "AIConfigurator systems/*.yaml, mem_bw_empirical_scaling_factor 0.8; Strix Halo 212 of "
        "256 GB/s; llama.cpp off CUDA and ROCm vLLM lower by their published baselines",
        "read",
        0.15,
    ),
    "hbm_read": Provenance(
        "vLLM and SGLang on Hopper and B200 over other cards, whose eta_bw a fit puts at 0.75: "
        "Llama 3.1 8B in BF16, 17.7 GB of keys and values beside 16.1 GB of weights take 5.6 ms "
        "more, 3.2 TB/s of 3.35 (H100), and 16.1 GB of weights 4.7 ms of 4.8 TB/s (H200); own runs",
        "derived",
        0.0,
    ),
    "expert_bw": Provenance(
        "small grouped GEMMs reach a little less of the bandwidth than dense ones", "assumed", 0.25
    ),
    "mfu_gemm": Provenance(
        "less than on Hopper (mfu_gemm_wgmma), whose tile instructions are asynchronous",
        "assumed",
        0.3,
    ),
    "mfu_gemm_wgmma": Provenance(
        "H100, H200, B200: Qwen3 8B with its DFlash head, vLLM, 512 to 1,024 tokens on an H100, 29 "
        "us per token, 0.64 of peak (own runs); DeepGEMM's products of a 27B at 256 tokens 0.6; "
        "SpecDecode-Bench, Llama-3.1-8B: 21 us per token, 0.77",
        "measured",
        0.0,
    ),
    "mfu_attention": Provenance(
        "decode attention with a few query tokens fills a fraction of a tile", "assumed", 0.5
    ),
    "mfu_attention_wgmma": Provenance(
        "H100, H200, B200: FlashMLA reaches 580 of 989 TFLOP/s, FlashAttention-3 up to 740",
        "read",
        0.3,
    ),
    "verify_serial_s": Provenance(
        "per KV token and layer where verify attention is not split over the KV cache: 45 ns (RTX "
        "3090 Ti, vllm-project/"
        "flash-attention #190), 27 ns (RTX 4090, vllm #54691); SGLang's Triton kernel about 100 "
        "ns (sglang #39316); "
        "vLLM's on gfx1201 172 ns (vllm #51995)",
        "derived",
        0.2,
    ),
    "rho": Provenance(
        "text; 0.34 (GLM-5.2, ml-explore/mlx #3801); 0.32 to 0.46 (Cohere blog 2026-04-21)",
        "derived",
        0.15,
    ),
    "skew": Provenance(
        "lognormal sigma of expert popularity, from the step time of GB10's 16 plain "
        "streams (67 ms)",
        "derived",
        0.4,
    ),
    "layer_launch_s": Provenance(
        "14 kernels a layer at 3 us (AIConfigurator mem_empirical_constant_latency); llama.cpp: "
        "27B on RTX 3090, "
        "23.48 ms less "
        "its bytes",
        "derived",
        0.4,
    ),
    "wide_launch": Provenance(
        "launches of a layer with 16-bit weights over one that quantises its activations: Llama "
        "3.1 8B in BF16 at one request, 0.3 to 0.5 ms beyond its bytes for 32 layers (vLLM and "
        "SGLang, H100 and H200, own runs)",
        "derived",
        0.0,
    ),
    "moe_layer_launch_s": Provenance(
        "llama.cpp: 35B-A3B on RTX 3090 at 139.9 tok/s less bytes and 30 us a layer", "derived", 0.4
    ),
    "host_s": Provenance(
        "SpecDecode-Bench overhead 1.2 ms per step on H100; about half hidden by async scheduling",
        "derived",
        0.5,
    ),
    "host_seq_s": Provenance("scheduling and detokenising one sequence", "assumed", 0.6),
    "dense_seq_s": Provenance(
        "llama.cpp on CUDA, models without experts: what a further sequence costs the card beside "
        "its token. Llama 3.1 8B, H100, 16 to 32 sequences 15.5 to 25.2 ms, 16 to 32 tokens of one "
        "sequence 8.3 to 10.4 (own llama-batched-bench)",
        "measured",
        0.0,
    ),
    "sampler_passes": Provenance(
        "float32 logits read or written while sampling; steps of 128 to 512 tokens with blocks of "
        "Qwen3 8B on an H100 are 2 to 8 % too long with 6 passes, 9 to 20 % with 30 (own runs)",
        "derived",
        0.0,
    ),
    "sample_s": Provenance(
        "llama.cpp samples on one CPU thread, by vocabulary entry: 2.9 ns on the host of an H200 "
        "(own runs); desktop processors assumed three times as fast",
        "derived",
        0.0,
    ),
    "sample_server_cpu": Provenance(
        "host of an H200 over a desktop processor, see sample_s", "assumed", 0.0
    ),
    "spec_step_s": Provenance(
        "rejection sampler, draft input preparation; SpecDecode-Bench draft_c_fixed 2.1 ms",
        "assumed",
        0.6,
    ),
    "spec_seq_s": Provenance(
        "rejection and draft bookkeeping of one sequence, on the host", "assumed", 0.8
    ),
    "piecewise_layer_s": Provenance(
        "about 8 eager launches of 12 us a layer once FULL graphs are lost", "assumed", 0.5
    ),
    "eager_layer_s": Provenance(
        "without CUDA graphs a step takes the host's launches where they are longer than the "
        "GPU's work: 1.3 ms a layer for "
        "Qwen3.8-27B on A100 and H100 PCIe, 1.2 ms for Gemma-4-26B-A4B on GB10, at most 0.8 ms "
        "for Gemma-4-31B on A100",
        "derived",
        0.4,
    ),
    "prefix_verify_s": Provenance(
        "vLLM, recurrent layers, prefix caching: copies of states at page boundaries in a verify "
        "step; none in a baseline "
        "step",
        "assumed",
        0.8,
    ),
    "mmvq_share": Provenance(
        "5.55 ms per extra token, 27B Q4_K, RTX 3090: 9.7 TOPS of 35.6 fp32; AMD counts "
        "dual-issue peak; Metal, "
        "Vulkan and MLX "
        "assumed",
        "derived",
        0.4,
    ),
    "unpack_tokens": Provenance(
        "llama.cpp on CUDA: unpacking K-quants takes the vector kernel as long as computing so "
        "many tokens, which is longer than reading on cards of much bandwidth: 27B Q4_K in 11.5 "
        "ms, 1.45 TB/s, on an H100 and on an H200 alike (own runs of b11312)",
        "measured",
        0.0,
    ),
    "unpack_q8_tokens": Provenance(
        "the same of Q8_0, whose tokens cost 0.7 of a K-quant's: 27B in 14.3 ms beside launches "
        "and sampling, 2.0 TB/s of 3.35 (H100, one slot, own runs of b11312)",
        "measured",
        0.0,
    ),
    "metal_repeat": Provenance(
        "llama.cpp on Metal: cost of a token in the kernel that reads K-quants anew for each of 2 "
        "or 3 tokens, over one in the "
        "small-batch kernel from 4 on; 1.5 to 1.9 on an M1 Max and an M5 Pro",
        "derived",
        0.2,
    ),
    "metal_apple9": Provenance(
        "llama.cpp on Metal, M3 and M4: cost of a token of K-quants in the small-batch kernel, "
        "over one on other chips at their "
        "rates; 2.2 to 2.6 on two M3 Ultra and an M4",
        "derived",
        0.2,
    ),
    "mmq_fixed": Provenance(
        "35.43 / 23.48 ms, 27B Q4_K, RTX 3090; other platforms assumed alike", "read", 0.2
    ),
    "mmq_fixed_dp4a": Provenance(
        "cards without int8 tensor cores keep the vector kernel's instruction in tiles",
        "assumed",
        0.3,
    ),
    "mmq_moe": Provenance(
        "llama.cpp #15525, RTX 3090, DeepSeek-V2-Lite Q4_0: 11.0, 13.7, 16.8 and 20.4 ms for steps "
        "of 2, 4, 8 and 16 tokens, 0.24 ms an expert more, whose read takes 0.17 ms at 80 % of the "
        "bandwidth; Vulkan #25356: 65 ms at 8 sequences, 109 at 9",
        "derived",
        0.1,
    ),
    "mmq_moe_gain": Provenance(
        "llama.cpp's tiled kernel over its vector kernel for experts that meet a few tokens each: "
        "0.45 ms a token (RTX 3090, llama.cpp #15525), 0.40 (H100, own llama-batched-bench)",
        "derived",
        0.0,
    ),
    "mmq_moe_layer_s": Provenance(
        "llama.cpp uses no CUDA graph where experts meet more tokens than the vector kernel takes, "
        "and sorts the tokens by experts: 4.3 ms between 8 and 9 sequences beyond what a sequence "
        "costs, 40 layers of 35B-A3B (H100, own llama-batched-bench)",
        "measured",
        0.0,
    ),
    "verify_layer_s": Provenance("llama.cpp gives up its CUDA graph for batches", "assumed", 0.8),
    "draft_pass_s": Provenance(
        "launch of one draft pass, part of SpecDecode-Bench's 2.1 ms; llama.cpp builds a graph",
        "assumed",
        0.6,
    ),
    "draft_layer_s": Provenance(
        "a separate draft model launches its layers one by one: vLLM ran it without CUDA graphs "
        "(vllm #47460); llama.cpp about "
        "4 ms a pass of a 0.5B draft on GTX 1080 Ti and RTX 5060 Ti",
        "derived",
        0.5,
    ),
    "draft_scale": Provenance("multiplier on the whole draft pass, for a fit", "assumed", 0.3),
    "ngram_host_s": Provenance(
        "matching on the CPU; vLLM gives up asynchronous scheduling for lookups (#31998)",
        "assumed",
        0.7,
    ),
    "dflash_layers": Provenance(
        "outside vLLM and SGLang on NVIDIA, where a fit finds more than the 5 to 8 layers that "
        "published drafters have",
        "assumed",
        0.4,
    ),
    "dspark_token_s": Provenance("a small sequential head per drafted token", "assumed", 0.7),
    "state_checkpoint_s": Provenance(
        "llama.cpp, hybrid model with a separate draft: 50 to 100 ms a cycle unexplained in one "
        "publication, about 10 ms in "
        "another (RTX 3090 both)",
        "derived",
        0.9,
    ),
    "lookup_copy_layer_s": Provenance(
        "llama-server b11312 with --spec-type ngram-*, H100: 23 ms a slot and cycle beyond the "
        "step for 30 recurrent layers (35B-A3B), 38 ms for 48 (27B, 4 bit and BF16 alike): copied "
        "out layer by layer before each draft, and back after a refused one (own runs)",
        "measured",
        0.0,
    ),
    "host_layer_s": Provenance(
        "a layer's hand-over to the processor and back: llama-server b11312, experts of 10 and 40 "
        "layers of 35B-A3B in the host's memory of an H100, 1 to 24 tokens a step, 13 points "
        "within 14 % (own runs)",
        "measured",
        0.0,
    ),
    "host_memory_share": Provenance(
        "the same points: 68 GB/s of the experts that uniform routing reaches, where as many "
        "threads read 101 GB/s",
        "measured",
        0.0,
    ),
    "host_memory_speed": Provenance(
        "1, or 2 in the other state of switch_host_memory", "chosen", 0.0
    ),
    "host_copy_bw": Provenance(
        "the same machine, 40 tokens a step: 25 ms a layer for 326 MB; copies of pageable memory "
        "7 to 12 GB/s, pinned 54 (own runs)",
        "measured",
        0.0,
    ),
    "state_reads": Provenance(
        "each draft position writes its own recurrent state; MLX keeps snapshots and runs "
        "layers again",
        "assumed",
        0.4,
    ),
    "state_copies": Provenance(
        "llama.cpp on CUDA: a sequence's recurrent state of 63 MB takes 0.22 ms, as five readings "
        "or writings where two are needed (35B-A3B, H100, own llama-batched-bench)",
        "measured",
        0.0,
    ),
    "allreduce_s": Provenance("one small all-reduce over NVLink with launch", "assumed", 0.5),
    "allreduce_pcie_s": Provenance("one small all-reduce over PCIe", "assumed", 0.5),
    "allreduce_net_s": Provenance("one small all-reduce over RoCE", "assumed", 0.6),
    "mfu_prefill": Provenance(
        "GB10, 35B-A3B FP8: 32,768 prompt tokens in 4.0 to 4.7 s (baseline TTFT of the tests "
        "B and C)",
        "derived",
        0.3,
    ),
    "mfu_prefill_dense": Provenance(
        "half of SpecDecode-Bench's 0.77, hybrid layers", "assumed", 0.3
    ),
    "prefill_call_s": Provenance(
        "about 1 ms a layer launched one by one; SGLang and llama.cpp by their published TTFT",
        "derived",
        0.5,
    ),
    "prefill_linear_s": Provenance(
        "vLLM 0.25.1, recurrent layers, which no graph holds beside prompts: calls within captured "
        "sizes take 45 to 48 ms more than a step with 30 of them (35B-A3B, H100 and H200) and 64 "
        "with 48 (27B, H200; own runs)",
        "measured",
        0.0,
    ),
    "prefill_layer_s": Provenance(
        "vLLM 0.25.1, a layer launched kernel by kernel beyond captured sizes",
        "assumed",
        0.0,
    ),
    "prefill_moe_s": Provenance(
        "vLLM 0.25.1, the experts of a layer beyond captured sizes: a call takes 112 and 125 ms "
        "with 40 such layers and 30 recurrent ones (35B-A3B, H200 and H100), 102 to 119 with 46 "
        "(GLM-4.7-Flash, H200; own runs), less the other layers",
        "measured",
        0.0,
    ),
    "prefill_scale": Provenance(
        "multiplier on prefill; SGLang: TTFT of 8192 tokens at one stream, H200, 35B-A3B and 27B",
        "derived",
        0.4,
    ),
    "prompt_rate": Provenance(
        "multiplier on the published rates of long prompts (rates.PROMPT_SHARE), which agree "
        "within a fifth where two sources have one card",
        "derived",
        0.0,
    ),
    "verify_scale": Provenance(
        "multiplier on what a verify step costs beyond a baseline step, for a fit", "assumed", 0.15
    ),
}
