"""A small real tokenizer for a model of random weights; copied beside `gpu_starts.py`."""

from __future__ import annotations

import json
from pathlib import Path

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>")
SPECIAL += ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n"
)


def write_tokenizer(folder: Path, size: int) -> None:
    """A byte-level tokenizer whose vocabulary is filled up to `size` with words no text holds."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in printable] + [chr(256 + i) for i in range(256 - len(printable))]
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    for i in range(256, size - len(SPECIAL)):
        vocabulary[f"w{i}w"] = i
    start = len(vocabulary)
    added = [
        {
            "id": start + i,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": text.startswith("<|"),
        }
        for i, text in enumerate(SPECIAL)
    ]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    whole = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {**bytes_, "use_regex": True},
        "post_processor": None,
        "decoder": {**bytes_, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    about = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "chat_template": TEMPLATE,
        "model_max_length": 262144,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


def write_all(folder: Path) -> None:
    """One for each shape; of full size only where the model is started: it loads slowly."""
    for config in (folder / "models").glob("*/config.json"):
        shape = json.loads(config.read_text())
        words = shape.get("text_config", shape)["vocab_size"]
        started = config.parent.name.endswith("-short") or config.parent.name == "qwen3.5-9b-bf16"
        write_tokenizer(config.parent, words if started else 300)
