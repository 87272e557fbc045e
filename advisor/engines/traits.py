"""What sets one engine apart from another, apart from its options: asked by name of the trait, so
that no other room compares engine names.

What it does not know: options and their history (the catalogue), and what a release changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from advisor.domain.nouns import Engine


@dataclass(frozen=True, slots=True)
class EngineTraits:
    """One engine's habits. Sources: its own documentation and the parsers of its releases."""

    name: Engine
    port: int  # where the launches that we write listen
    default_port: int  # where it listens unless told
    health: str  # path that answers once the model is loaded
    listens_locally: bool  # on 127.0.0.1 alone unless --host says otherwise
    pool: Literal["paged", "slots"]  # KV in pages that requests share, or a fixed part per slot
    states_in_pool: bool  # recurrent states live in pages of the KV pool
    replicas: bool  # tensor parallel ranks and replicas of them; else layers spread over devices
    gguf: bool  # loads GGUF files
    k_range: tuple[int, ...]  # draft tokens to try; beyond, published sweeps only lose
    schedules_k: bool  # takes a k per batch size
    memory_share: bool  # takes a share of the accelerator's memory as an option
    quantizes_at_load: tuple[str, ...]  # quantisations it makes of 16 bit weights while loading
    runs_repository_code: bool  # asks for consent before it runs code of a repository
    cache_types: tuple[str, ...]  # KV data types below 16 bit, the usual first
    writable: bool = True  # launches are written for it
    shm: str | None = None  # shared memory that its workers need in a container
    api_key_env: str | None = None  # variable that holds the key which requests must carry
    caches: tuple[str, ...] = ()  # folders of ~/.cache that outlive a container: weights, kernels
    image_starts: bool = False  # the image's entrypoint is the server, so that only options follow


_TRAITS: dict[Engine, EngineTraits] = {
    "vllm": EngineTraits(
        name="vllm",
        port=8000,
        default_port=8000,
        health="/health",
        listens_locally=False,
        pool="paged",
        states_in_pool=True,
        replicas=True,
        gguf=False,
        k_range=(1, 2, 3, 4, 5),
        schedules_k=True,
        memory_share=True,
        quantizes_at_load=("fp8",),
        runs_repository_code=True,
        cache_types=("fp8", "fp8_e4m3"),
        shm="8gb",
        api_key_env="VLLM_API_KEY",
        caches=("huggingface", "vllm"),
    ),
    "sglang": EngineTraits(
        name="sglang",
        port=8000,
        default_port=30000,
        health="/health",
        listens_locally=True,
        pool="paged",
        states_in_pool=False,
        replicas=True,
        gguf=False,
        k_range=(1, 2, 3, 4),
        schedules_k=False,
        memory_share=True,
        quantizes_at_load=("fp8",),
        runs_repository_code=True,
        cache_types=("fp8_e4m3", "fp8_e5m2"),
        shm="8gb",
        caches=("huggingface",),
    ),
    "llama-server": EngineTraits(
        name="llama-server",
        port=8080,
        default_port=8080,
        health="/health",
        listens_locally=True,
        pool="slots",
        states_in_pool=False,
        replicas=False,
        gguf=True,
        k_range=(1, 2, 3, 4, 5, 6),
        schedules_k=False,
        memory_share=False,
        quantizes_at_load=(),
        runs_repository_code=False,
        cache_types=("q8_0",),
        api_key_env="LLAMA_API_KEY",
        caches=("huggingface", "llama.cpp"),
        image_starts=True,
    ),
    "ik_llama.cpp": EngineTraits(
        name="ik_llama.cpp",
        port=8080,
        default_port=8080,
        health="/health",
        listens_locally=True,
        pool="slots",
        states_in_pool=False,
        replicas=False,
        gguf=True,
        k_range=(1, 2, 3),
        schedules_k=False,
        memory_share=False,
        quantizes_at_load=(),
        runs_repository_code=False,
        cache_types=("q8_0",),
        writable=False,
        api_key_env="LLAMA_API_KEY",
        caches=("huggingface", "llama.cpp"),
        image_starts=True,
    ),
}


def traits(engine: Engine) -> EngineTraits:
    """The traits of an engine."""
    return _TRAITS[engine]
