"""The argument parsers of released engines, built without a GPU; for `probe` alone."""

from __future__ import annotations

import argparse
import importlib
import types
import typing
from collections.abc import Callable
from typing import Any

# where make_arg_parser has been, newest first
VLLM_PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.serve.cli_args",
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.cli.serve",
)
ABOUT_THE_MODEL = ("target_model", "NoneType", "draft_model_config", "model_config")
Check = Callable[[Any], str]


def vllm_parser() -> argparse.ArgumentParser:
    """The parser of `vllm serve` as on a CUDA machine."""
    platforms: Any = importlib.import_module("vllm.platforms")
    interface = importlib.import_module("vllm.platforms.interface")

    def constant(value: object) -> Any:
        return classmethod(lambda cls, *args, **kwargs: value)

    names = {
        "_enum": interface.PlatformEnum.CUDA, "device_name": "cuda", "device_type": "cuda",
        "dispatch_key": "CUDA", "ray_device_key": "GPU", "dist_backend": "nccl",
        "supported_quantization": [], "device_control_env_var": "CUDA_VISIBLE_DEVICES",
        "get_device_capability": constant(None), "is_async_output_supported": constant(True),
        "check_and_update_config": constant(None),
    }  # fmt: skip
    platforms._current_platform = type("PretendedCuda", (interface.Platform,), names)()
    flexible = importlib.import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
    for name in VLLM_PARSERS:
        make = getattr(module(name), "make_arg_parser", None)
        if make is not None:
            return typing.cast(argparse.ArgumentParser, make(flexible(prog="vllm serve")))
    raise RuntimeError("make_arg_parser is elsewhere in this release: extend VLLM_PARSERS")


def module(name: str) -> types.ModuleType | None:
    """A module of the release, or None where this release has none of that name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("vllm."):
            raise
        return None


def vllm_check() -> Check:
    """A check of --speculative-config by SpeculativeConfig, without a target model."""
    refused = importlib.import_module("pydantic").ValidationError
    speculative = importlib.import_module("vllm.config").SpeculativeConfig

    def check(space: Any) -> str:
        config = space.speculative_config
        if config is None:
            return ""
        if not isinstance(config, dict):
            return f"--speculative-config is {type(config).__name__}"
        try:
            speculative(**config)
        except refused as error:
            said = [f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in error.errors()]
            return "; ".join(one for one in said if not any(w in one for w in ABOUT_THE_MODEL))
        except (AttributeError, TypeError, ValueError, AssertionError) as error:
            return "" if any(word in str(error) for word in ABOUT_THE_MODEL) else str(error)
        return ""

    return check


def sglang_parser() -> argparse.ArgumentParser:
    """The parser of `python -m sglang.launch_server`."""
    transformers = importlib.import_module("transformers")
    auto = importlib.import_module("transformers.models.auto.configuration_auto")
    plain, register = auto._LazyConfigMapping.register, transformers.AutoConfig.register
    # older wheels register what a newer transformers already has
    auto._LazyConfigMapping.register = lambda self, key, value, exist_ok=False: plain(
        self, key, value, exist_ok=True
    )
    transformers.AutoConfig.register = staticmethod(
        lambda kind, made, exist_ok=False: register(kind, made, exist_ok=True)
    )
    parser = argparse.ArgumentParser(prog="sglang.launch_server")
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return parser
