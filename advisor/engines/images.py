"""Which images are the engines' own builds, and which are somebody else's."""

from advisor.domain.nouns import Engine
from advisor.domain.patterns import lazy_re

# nvcr.io/nvidia/vllm and nvcr.io/nvidia/sglang are not among them: NVIDIA builds commits of its own
# (25.12 holds vLLM 0.11.1+9114fd76) under tags that name a month.
# https://docs.nvidia.com/deeplearning/frameworks/vllm-release-notes, vllm-project/vllm#31424
_OFFICIAL: tuple[tuple[Engine, str], ...] = (
    ("vllm", r"(?:^|/)(?:vllm/(?:vllm-openai(?:-[a-z0-9]+)*|vllm)|vllm-openai)$"),
    ("sglang", r"(?:^|/)lmsysorg/sglang(?:-[a-z0-9]+)*$"),
    ("llama-server", r"(?:^|/)(?:ggml-org|ggerganov)/llama\.cpp$"),
)
PRODUCTS = lazy_re(r"ai-dynamo/|runpod/|(^|/)llm-d|kserve/|aibrix|kaito")  # with own releases
_PATTERNS = tuple((engine, lazy_re(pattern)) for engine, pattern in _OFFICIAL)


def split_image(image: str) -> tuple[str, str | None]:
    """Repository and tag: the digest is dropped, a registry's port is no tag."""
    name = image.split("@", 1)[0]
    head, colon, tail = name.rpartition(":")
    return (head, tail) if colon and "/" not in tail else (name, None)


def official_engine(image: str) -> Engine | None:
    """The engine of which the image, or its mirror, is the project's own; else None."""
    name, _ = split_image(image.lower())
    return (
        None if PRODUCTS.search(name) else next((e for e, p in _PATTERNS if p.search(name)), None)
    )


def is_official(image: str) -> bool:
    """Whether the image is a project's own release image (a mirror of it counts)."""
    return official_engine(image) is not None


def fork_of_image(image: str) -> str | None:
    """What other build it is: "vllm-ascend", or the image if it is not the project's."""
    if not image or is_official(image):
        return None
    return "vllm-ascend" if "ascend" in image.lower() else image
