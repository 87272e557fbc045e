"""Engines: one adapter each, `get("vllm")`, loaded on first use and kept."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, assert_never

from advisor.domain.nouns import AdvisorError, UnknownFact
from advisor.engines.base import Match, Option, Token, VersionMatch

if TYPE_CHECKING:
    from advisor.domain.nouns import Engine
    from advisor.engines.adapter import Adapter

__all__ = [
    "ENGINES", "Match", "Option", "Token", "VersionMatch", "canonical", "get", "no_mtp_answer",
]  # fmt: skip

ENGINES: tuple[Engine, ...] = ("vllm", "sglang", "llama-server", "ik_llama.cpp")

_ALIASES: dict[str, Engine] = {
    "vllm": "vllm", "vllmascend": "vllm", "sglang": "sglang", "sgl": "sglang",
    "llamaserver": "llama-server", "llamacpp": "llama-server", "llama": "llama-server",
    "ikllamacpp": "ik_llama.cpp", "ikllama": "ik_llama.cpp",
}  # fmt: skip


@lru_cache(maxsize=256)
def canonical(name: str) -> Engine | None:
    """The engine's canonical name, or None if it is not one that we can launch."""
    return _ALIASES.get("".join(ch for ch in name.lower() if ch.isalnum()))


@cache
def _load(engine: Engine) -> Adapter:
    match engine:
        case "vllm":
            from advisor.engines.vllm import VllmAdapter  # start-up: one engine of three

            return VllmAdapter()
        case "sglang":
            from advisor.engines.sglang import SglangAdapter  # start-up: one engine of three

            return SglangAdapter()
        case "llama-server" | "ik_llama.cpp":
            from advisor.engines.llama_server import (  # start-up: only the engine asked about
                LlamaServerAdapter,
            )  # start-up: one engine of three

            return LlamaServerAdapter(engine)
        case _:
            assert_never(engine)


def get(engine: str) -> Adapter:
    """The adapter of an engine. Raises UnknownFact, AdvisorError for one without an MTP path."""
    known = canonical(engine)
    if known is None:
        plain = no_mtp_answer(engine)
        if plain is not None:
            raise AdvisorError(plain)
        raise UnknownFact("engine", engine, ("vllm", "sglang", "llama-server"))
    return _load(known)


def no_mtp_answer(name: str) -> str | None:
    """What to say of an engine without an MTP path, None for any other."""
    from advisor.engines.names import answer  # start-up: engines without MTP

    return answer(name)
