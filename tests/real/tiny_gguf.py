"""A GGUF of Qwen3.5's mixture of experts with an MTP head: the real tensors' names and layout, a
few hundred thousand random weights, and a vocabulary of bytes. llama-server loads it, answers with
noise, and drafts.
"""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

ARCH = "qwen35moe"
EMBED, VOCAB, LAYERS, EVERY = 128, 512, 4, 4  # every fourth layer attends, the others are recurrent
HEADS, KV_HEADS, HEAD = 4, 2, 32
EXPERTS, USED, EXPERT = 4, 2, 64
KEY, KEY_HEADS, VALUE_HEADS, KERNEL = 32, 2, 4, 4
SECTIONS = [2, 2, 2, 0]
CONTEXT = 1 << 20  # the server gives a slot no more than the model has

Tensor = tuple[str, np.ndarray]


def write(path: Path, seed: int = 0) -> Path:
    """Write the model; the same seed gives the same file."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(str(path), ARCH)
    _describe(writer)
    _vocabulary(writer)
    for name, values in _tensors(rng):
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _describe(writer: gguf.GGUFWriter) -> None:
    writer.add_name("tiny random qwen35moe with an MTP head")
    writer.add_block_count(LAYERS + 1)  # the last one is the MTP head
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(EMBED)
    writer.add_feed_forward_length(EXPERT)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e7)
    writer.add_rope_dimension_count(2 * sum(SECTIONS))
    writer.add_rope_dimension_sections(SECTIONS)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_expert_feed_forward_length(EXPERT)
    writer.add_expert_shared_feed_forward_length(EXPERT)
    writer.add_ssm_conv_kernel(KERNEL)
    writer.add_ssm_state_size(KEY)
    writer.add_ssm_group_count(KEY_HEADS)
    writer.add_ssm_time_step_rank(VALUE_HEADS)
    writer.add_ssm_inner_size(KEY * VALUE_HEADS)
    writer.add_uint32(f"{ARCH}.full_attention_interval", EVERY)
    writer.add_uint32(f"{ARCH}.nextn_predict_layers", 1)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)


def _vocabulary(writer: gguf.GGUFWriter) -> None:
    """256 bytes as GPT-2 spells them, one merge, fillers, and the end of a text."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    spelled = {byte: chr(byte) for byte in shown}
    spelled |= {byte: chr(256 + number) for number, byte in enumerate(hidden)}
    fillers = [f"<t{number}>" for number in range(257, VOCAB - 1)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(
        [*(spelled[byte] for byte in range(256)), "ab", *fillers, "<|endoftext|>"]
    )
    writer.add_token_types([1] * (VOCAB - 1) + [3])
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(VOCAB - 1)
    writer.add_bos_token_id(VOCAB - 1)
    writer.add_add_bos_token(False)


def _tensors(rng: np.random.Generator) -> Iterator[Tensor]:
    def noise(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape) / np.sqrt(shape[-1])

    yield "token_embd.weight", rng.standard_normal((VOCAB, EMBED))
    yield "output.weight", noise(VOCAB, EMBED)
    yield "output_norm.weight", np.ones(EMBED)
    for layer in range(LAYERS + 1):
        attends = layer == LAYERS or (layer + 1) % EVERY == 0
        for name, values in _block(rng, attends):
            yield f"blk.{layer}.{name}", values
    yield f"blk.{LAYERS}.nextn.eh_proj.weight", noise(EMBED, 2 * EMBED)
    for norm in ("enorm", "hnorm", "shared_head_norm"):
        yield f"blk.{LAYERS}.nextn.{norm}.weight", np.ones(EMBED)


def _block(rng: np.random.Generator, attends: bool) -> Iterator[Tensor]:
    def noise(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape) / np.sqrt(shape[-1])

    yield "attn_norm.weight", np.ones(EMBED)
    yield "post_attention_norm.weight", np.ones(EMBED)
    if attends:
        yield "attn_q.weight", noise(2 * HEADS * HEAD, EMBED)  # the query and its gate
        yield "attn_k.weight", noise(KV_HEADS * HEAD, EMBED)
        yield "attn_v.weight", noise(KV_HEADS * HEAD, EMBED)
        yield "attn_output.weight", noise(EMBED, HEADS * HEAD)
        yield "attn_q_norm.weight", np.ones(HEAD)
        yield "attn_k_norm.weight", np.ones(HEAD)
    else:
        inner = KEY * VALUE_HEADS
        mixed = 2 * KEY * KEY_HEADS + inner
        yield "attn_qkv.weight", noise(mixed, EMBED)
        yield "attn_gate.weight", noise(inner, EMBED)
        yield "ssm_conv1d.weight", rng.standard_normal((mixed, KERNEL)) / 2
        yield "ssm_dt.bias", rng.standard_normal(VALUE_HEADS)
        yield "ssm_a", -rng.uniform(0.1, 4.0, VALUE_HEADS)
        yield "ssm_beta.weight", noise(VALUE_HEADS, EMBED)
        yield "ssm_alpha.weight", noise(VALUE_HEADS, EMBED)
        yield "ssm_norm.weight", np.ones(KEY)
        yield "ssm_out.weight", noise(EMBED, inner)
    yield "ffn_gate_inp.weight", noise(EXPERTS, EMBED)
    yield "ffn_gate_exps.weight", noise(EXPERTS, EXPERT, EMBED)
    yield "ffn_up_exps.weight", noise(EXPERTS, EXPERT, EMBED)
    yield "ffn_down_exps.weight", noise(EXPERTS, EMBED, EXPERT)
    yield "ffn_gate_inp_shexp.weight", noise(EMBED)
    yield "ffn_gate_shexp.weight", noise(EXPERT, EMBED)
    yield "ffn_up_shexp.weight", noise(EXPERT, EMBED)
    yield "ffn_down_shexp.weight", noise(EMBED, EXPERT)
