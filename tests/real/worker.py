"""Parse command lines with one release's own parser: python worker.py ENGINE UNPACKED_WHEEL <
argv.jsonl > verdicts.jsonl

Each input line is a JSON list of arguments (program included); each output line {"ok": bool,
"message": str}. Runs in the environment of requirements.txt, without a GPU and without the engine
being installed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import sys

import stubs

HOLLOW = {
    "vllm": ("xgrammar", "llguidance"),
    "sglang": ("xgrammar", "llguidance", "IPython", "torchvision", "triton"),
}
# where make_arg_parser has been, newest first
VLLM_PARSERS = (
    "vllm.entrypoints.common.cli_args",
    "vllm.entrypoints.launchers.cli_args",
    "vllm.entrypoints.serve.cli_args",
    "vllm.entrypoints.openai.cli_args",
    "vllm.entrypoints.cli.serve",
)
ABOUT_THE_MODEL = ("target_model", "NoneType", "draft_model_config", "model_config")


def vllm_parser():
    """(parser, extra check) of `vllm serve` under a pretended CUDA platform."""
    from vllm import platforms
    from vllm.platforms.interface import Platform, PlatformEnum

    def method(value):
        return classmethod(lambda cls, *args, **kwargs: value)

    names = {
        "_enum": PlatformEnum.CUDA,
        "device_name": "cuda",
        "device_type": "cuda",
        "dispatch_key": "CUDA",
    }
    names |= {"ray_device_key": "GPU", "dist_backend": "nccl", "supported_quantization": []}
    names |= {
        "device_control_env_var": "CUDA_VISIBLE_DEVICES",
        "get_device_capability": method(None),
    }
    names |= {"is_async_output_supported": method(True), "check_and_update_config": method(None)}
    platforms._current_platform = type("PretendedCuda", (Platform,), names)()
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    make = None
    for name in VLLM_PARSERS:
        try:
            make = getattr(importlib.import_module(name), "make_arg_parser", None)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("vllm."):
                raise
        if make is not None:
            break
    if make is None:
        raise RuntimeError(
            "this release keeps make_arg_parser elsewhere: add its module to VLLM_PARSERS"
        )
    return make(FlexibleArgumentParser(prog="vllm serve")), vllm_check()


def vllm_check():
    """Judge --speculative-config by the fields of the release's SpeculativeConfig; the target model
    is not there.
    """
    from pydantic import ValidationError
    from vllm.config import SpeculativeConfig

    def check(space):
        config = space.speculative_config
        if config is None:
            return ""
        if not isinstance(config, dict):
            return f"--speculative-config is {type(config).__name__}"
        try:
            SpeculativeConfig(**config)
        except ValidationError as error:
            wrong = [
                row
                for row in error.errors()
                if not any(word in row["msg"] for word in ABOUT_THE_MODEL)
            ]
            return "; ".join(f"{'.'.join(map(str, row['loc']))}: {row['msg']}" for row in wrong)
        except (AttributeError, TypeError, ValueError, AssertionError) as error:
            return "" if any(word in str(error) for word in ABOUT_THE_MODEL) else str(error)
        return ""

    return check


def sglang_parser():
    """(parser, extra check) of `python -m sglang.launch_server`."""
    import transformers
    from transformers.models.auto import configuration_auto

    plain = configuration_auto._LazyConfigMapping.register
    configuration_auto._LazyConfigMapping.register = lambda self, key, value, exist_ok=False: plain(
        self,
        key,
        value,
        exist_ok=True,  # older wheels register what a newer transformers already has
    )
    register = transformers.AutoConfig.register
    transformers.AutoConfig.register = staticmethod(
        lambda kind, config, exist_ok=False: register(kind, config, exist_ok=True)
    )
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang.launch_server")
    ServerArgs.add_cli_args(parser)
    return parser, lambda space: ""


def judge(parser, check, argv):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            message = check(parser.parse_args(argv))
    except SystemExit:
        message = (said.getvalue().strip().splitlines() or ["refused"])[-1]
    except Exception as error:  # whatever a parser raises is its verdict
        message = f"{type(error).__name__}: {error}"
    return {"ok": not message, "message": message[:300]}


def main():
    engine, folder = sys.argv[1:3]
    os.environ.update(
        HF_HUB_OFFLINE="1",
        CUDA_VISIBLE_DEVICES="",
        VLLM_LOGGING_LEVEL="ERROR",
        VLLM_NO_USAGE_STATS="1",
    )
    stubs.install(*HOLLOW[engine])
    sys.path.insert(0, folder)
    program = 2 if engine == "vllm" else 3  # `vllm serve`, `python -m sglang.launch_server`
    with contextlib.redirect_stdout(sys.stderr):
        parser, check = vllm_parser() if engine == "vllm" else sglang_parser()
    for line in sys.stdin:
        print(json.dumps(judge(parser, check, json.loads(line)[program:])))


if __name__ == "__main__":
    main()
