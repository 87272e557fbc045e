"""Which kernels an engine uses on a platform: the code of the kernel path, and forks with verify
kernels of their own.
"""

from __future__ import annotations

import re

from advisor.engines.traits import engines_with, gguf_engine
from advisor.perf import arrays as P

SMALL_BATCH_PATHS = ("llamacpp-cuda", "llamacpp-metal", "llamacpp-vulkan", "llamacpp-rocm", "mlx")
# Forks of MLX whose verify kernels run on the matrix units from two tokens on, by their own
# descriptions.
_TILED = re.compile(r"mtplx|mlx-dspark", re.IGNORECASE)


WRAPPERS = ("ollama", "lmstudio")  # which run llama.cpp


def kernel_path(engine: str, arch: int, hints: str = "", hw_class: int = 0) -> int:
    """Code of the kernel path: which kernels this engine uses on this platform. `hints`: text that
    may name a backend.

    llama.cpp on AMD is taken as ROCm unless the text says Vulkan, on Intel and on small integrated
    Radeons (which ROCm does not list as supported) as Vulkan.

    Parameters
    ----------
    engine : str
        Name of the engine.
    arch : int
        Code of the architecture in `arrays.ARCHS`.
    hints : str
        Text that may name a backend, in small letters.
    hw_class : int
        Code of the class of machine.

    Returns
    -------
    int
        Index into `arrays.PATHS`.
    """
    word, text = P.ARCHS[arch], hints.lower()
    nvidia = word.startswith("sm_") or word == "unknown"
    if gguf_engine(engine) or engine in WRAPPERS:
        if word.startswith("apple"):
            name = "llamacpp-metal"
        elif "vulkan" in text or word == "intel":
            name = "llamacpp-vulkan"
        elif "rocm" in text or "hip" in text:
            name = "llamacpp-rocm"
        elif word.startswith("gfx"):
            name = "llamacpp-vulkan" if hw_class == P.CLASSES.index("igpu") else "llamacpp-rocm"
        else:
            name = "llamacpp-cuda"
    elif engine in engines_with("replicas"):
        name = f"{engine}-cuda" if nvidia else "mlx" if word.startswith("apple") else "vllm-other"
    else:
        name = "mlx" if engine == "mlx" else "other"
    return P.PATHS.index(name)


def tiled_kernels(engine: str, version: str) -> float:
    """1.0 where a fork of MLX brings matrix kernels for a few tokens, else 0.0.

    Parameters
    ----------
    engine : str
        Name of the engine.
    version : str
        Text of its release.

    Returns
    -------
    float
        1.0 or 0.0.
    """
    return float(engine == "mlx" and bool(_TILED.search(version)))
