"""What a machine with a GPU needs for `gpu_starts.py`, written where advisor is installed:
`python -m tests.real.gpu_lines FOLDER [sglang]`.

FOLDER gets launches.jsonl (every distinct launch of the grid's questions about vLLM, or SGLang, in
both arms) and
models/ID-FORM/config.json, the model's real shape with the checkpoint's kind of quantisation; the
same with four layers under models/ID-FORM-short.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from advisor.advice import recommend
from advisor.advice.explain import what_if
from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import shapes
from tests import grid

VERSIONS = {"vllm": "0.25.1", "sglang": "0.5.17"}
SHORT = 4  # layers of a model that is started: three linear ones and a full one

# shapes of the grid's models that the step-cost sweep lacks: knowledge/llms/ID.yaml
MORE = {
    "qwen3.5-35b-a3b": shapes.SHAPES["qwen3.6-35b-a3b"],
    "qwen3.5-122b-a10b": shapes.ModelShape(
        48, 3072, 32, 2, 64, 16, experts=256, topk=8, moe_ffn=1024, shared_ffn=1024
    ),
}
NEXT = "qwen3-next-80b-a3b"
WEIGHTS_4BIT = {
    "num_bits": 4,
    "type": "int",
    "symmetric": True,
    "strategy": "group",
    "group_size": 32,
}
NVFP4 = {
    "num_bits": 4,
    "type": "float",
    "symmetric": True,
    "strategy": "tensor_group",
    "group_size": 16,
}


def form(repository: str) -> str:
    """The kind of quantisation in a checkpoint's config.json, as its publisher writes it."""
    owner, _, name = repository.partition("/")
    if name.endswith("FP8"):
        return "fp8"
    if "NVFP4" in name:
        return "modelopt" if owner in ("nvidia", "YOUR-ORG") else "nvfp4"
    if "GPTQ" in name:
        return "gptq"
    if "AWQ" in name:
        return "packed" if owner == "cyankiwi" else "awq"
    return "bf16"


# What the published 4-bit checkpoints leave in BF16, as patterns: the picture tower (its sizes fit
# no kernel), the draft head, routers and the small projections of the linear layers.
KEPT_PARTS = ("visual", "mtp", "in_proj_a", "in_proj_b", "conv1d", "shared_expert_gate")


def quantisation(kind: str, kept: list[str]) -> dict[str, Any]:
    """The quantization_config of a kind other than fp8; `kept` names the modules left in BF16."""
    if kind == "awq":
        kept = [*kept, *KEPT_PARTS]  # matched as parts of names
    elif kind in ("packed", "nvfp4"):
        kept = ["lm_head", r"re:.*mlp\.gate$", *(f"re:.*{part}.*" for part in KEPT_PARTS)]
    if kind == "awq":
        return {
            "quant_method": "awq",
            "bits": 4,
            "group_size": 128,
            "zero_point": True,
            "version": "gemm",
            "modules_to_not_convert": kept,
        }
    if kind == "gptq":
        return {
            "quant_method": "gptq",
            "bits": 4,
            "group_size": 128,
            "desc_act": False,
            "sym": True,
            "lm_head": False,
        }
    if kind == "modelopt":
        return {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "kv_cache_quant_algo": None,
            "group_size": 16,
            "exclude_modules": kept,
            "ignore": kept,
        }
    weights = WEIGHTS_4BIT if kind == "packed" else NVFP4
    activations = None if kind == "packed" else NVFP4 | {"dynamic": "local"}
    return {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized" if kind == "packed" else "nvfp4-pack-quantized",
        "quantization_status": "compressed",
        "ignore": kept,
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": weights,
                "input_activations": activations,
            }
        },
    }


def next_config(layers: int | None) -> dict[str, Any]:
    """Qwen3-Next's config.json: a text model, so without the family's two levels."""
    shape = shapes.ModelShape(
        48, 2048, 16, 2, 32, 16, experts=512, topk=10, moe_ffn=512, shared_ffn=512
    )
    text = shapes._text(shape, "qwen3_next", layers or shape.layers)
    text |= {
        "architectures": ["Qwen3NextForCausalLM"],
        "model_type": "qwen3_next",
        "vocab_size": 151_936,
        "eos_token_id": 151_645,
        "intermediate_size": 5120,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "norm_topk_prob": True,
        "rope_theta": 10_000_000,
        "rope_scaling": None,
        "transformers_version": "4.57.0",
    }
    del text["rope_parameters"], text["mtp_num_hidden_layers"]
    return text


def config(model: str, kind: str, layers: int | None = None) -> dict[str, Any]:
    """config.json of `model` in one kind of quantisation, whole or cut to `layers`."""
    if model == NEXT:
        out = next_config(layers)
        kept = ["lm_head", "model.embed_tokens", "mtp.fc"]
        for i in range(layers or 48):
            kept += [f"model.layers.{i}.linear_attn.{part}" for part in ("in_proj_ba", "conv1d")]
            kept += [f"model.layers.{i}.mlp.{part}" for part in ("gate", "shared_expert_gate")]
        kept += ["mtp.layers.0.mlp.gate", "mtp.layers.0.mlp.shared_expert_gate"]
        if kind == "fp8":
            out["quantization_config"] = {
                "quant_method": "fp8",
                "activation_scheme": "dynamic",
                "weight_block_size": [128, 128],
                "modules_to_not_convert": kept,
            }
    else:
        with patch.dict(shapes.SHAPES, MORE):
            out = shapes.config(model, "fp8" if kind == "fp8" else "bf16", layers)
            shape = shapes.SHAPES[model]
        kept = shapes._unquantised_modules(shape, layers or shape.layers)
    if kind not in ("bf16", "fp8"):
        out["quantization_config"] = quantisation(kind, kept)
    return out


def checkpoint(argv: tuple[str, ...]) -> str:
    """The repository that a launch loads."""
    return argv[argv.index("--model-path") + 1] if "--model-path" in argv else argv[2]


def rows(engine: str = "vllm") -> list[dict[str, Any]]:
    """Every distinct launch for one engine's release that the grid's questions about it give."""
    found: dict[str, dict[str, Any]] = {}
    for asked in grid.requests():
        if asked.engine != engine:
            continue
        request = asked.model_copy(update={"engine_version": VERSIONS[engine]})
        try:
            with patch.object(what_if, "would_change", return_value=()):
                advice = recommend.recommend(request)
        except AdvisorError:
            continue
        for _, version, argv, env in grid.launches(advice):
            found.setdefault(
                json.dumps([argv, env]),
                {
                    "version": version,
                    "argv": list(argv),
                    "env": env,
                    "hardware": request.hardware,
                    "gpus": request.gpus,
                    "model": request.model,
                    "form": form(checkpoint(argv)),
                    "engine": engine,
                },
            )
    return list(found.values())


def main() -> None:
    folder = Path(sys.argv[1])
    launches = rows(*sys.argv[2:3])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "launches.jsonl").write_text("".join(json.dumps(row) + "\n" for row in launches))
    for model, kind in sorted({(row["model"], row["form"]) for row in launches}):
        for name, layers in ((f"{model}-{kind}", None), (f"{model}-{kind}-short", SHORT)):
            target = folder / "models" / name
            target.mkdir(parents=True, exist_ok=True)
            (target / "config.json").write_text(json.dumps(config(model, kind, layers), indent=1))
    print(f"{len(launches)} launches", file=sys.stderr)


if __name__ == "__main__":
    main()
