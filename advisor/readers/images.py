"""Which engine an image holds and which version its tag names; and SGLang's diffusion server, which
`sglang serve` starts for models of images and video.
"""

import re
from collections.abc import Iterable

from advisor.domain.nouns import Engine, Flag, Launch
from advisor.domain.patterns import lazy_re
from advisor.engines.images import PRODUCTS, official_engine, split_image
from advisor.engines.names import answer, row
from advisor.engines.traits import traits
from advisor.knowledge import store as knowledge

_NAMES: tuple[tuple[str, Engine], ...] = (
    (r"ik[-_]?llama", "ik_llama.cpp"),
    (r"sglang|\bsgl\b", "sglang"),
    (r"vllm", "vllm"),
    (r"llama[-_.]?(cpp|server)|llamacpp|llama\.cpp", "llama-server"),
)

_OTHERS = lazy_re(
    r"ollama|llama[-_]?(index|stack|factory|guard|swap)|open-?webui|localai|litellm|tgi"
    r"|text-generation|tabby|exllama|lmdeploy|tensorrt"
)

# which have images of other programs too: vllm-project/semantic-router
_PROJECTS = lazy_re(r"(?<![^/])(?:vllm|sgl)-project/")
_BUILD = lazy_re(r"(?<![a-z0-9])(b\d{3,6})(?![0-9])")


def engine_of_image(image: str) -> Engine | None:
    """The engine that an image's name speaks of, None if it does not."""
    name, tag = split_image(image.lower())
    if _OTHERS.search(name) or (tag or "").startswith("light"):  # llama-cli
        return None
    if (own := official_engine(name)) is not None:
        return own
    name = _PROJECTS.sub("", name)
    for text in (name, tag or ""):
        for pattern, engine in _NAMES:
            if re.search(pattern, text):
                return engine
        if "llama" in name.rsplit("/", 1)[-1]:
            return "llama-server"
    return None


# KV cache types that only forks of llama.cpp have
_FORK_VALUES = lazy_re(r"[kv]?tq[1-4]\w*|(?!fp|int|nvfp|mxfp|float|bfloat|half)[a-z]{3,}[0-9]\w*")


def fork_of_values(flags: Iterable[Flag]) -> str | None:
    """The fork that a value gives away, where the image does not."""
    given = {one.name: (one.value or "").lower() for one in flags}
    caches = (given.get(f"--cache-type-{one}", "") for one in "kv")
    found = (f"a llama.cpp fork with {x} caches" for x in filter(_FORK_VALUES.fullmatch, caches))
    return "vllm-ascend" if given.get("--quantization") == "ascend" else next(found, None)


def counts_for(image: str, engine: str) -> bool:
    """Whether an image's tag can be the engine's release: not another product's."""
    name = split_image(image.lower())[0]
    pairs = ((engine, engine), ("llama-server", "ik_llama.cpp"))
    return (engine_of_image(name), engine) in pairs and not PRODUCTS.search(name)


def version_in(tag: str | None) -> str | None:
    """The version text in a tag: a build number, a release, or the tag itself (latest, nightly)."""
    build = _BUILD.search((tag or "").lower())
    return build[1] if build else tag or None


_SAID = lazy_re(
    r"(?<![\w-])(?P<engine>vllm|sglang|llama\.?cpp|llama-server)\b[ \t]*"
    r"(?:==|@|:|version|release)?[ \t]*"
    r"(?P<version>v?\d+\.\d+\.\d+(?:\.?(?:rc|post|dev)\d+)*|b\d{4,6})\b(?!\.\d)",
    re.I,
)

_COMMENT_IMAGE = lazy_re(
    r"^[ \t]*(?:#|//|REM|::|;)+[ \t]*(?:docker[ -])?image[ \t]*[:=][ \t]*[\"'`]?([\w./-]+:[\w.-]+)"
    r"|--container-image(?:=|[ \t]+)[\"']?(?:dockerd?://)?(?:[\w.-]+@)?([\w./#-]+:[\w.-]+)"
    r"|^[ \t]*(?:export )?(\w+)=[\"']?(?:dockerd?://)?([\w./#-]+:[\w.-]+)[\"']?[ \t]*$"
    r"(?=[\s\S]{0,20000}--container-image(?:=|[ \t]+)[\"']?\$\{?\3\b)",
    re.I | re.M,
)

INSTALL = lazy_re(
    r"(?:(?:pip3?|uv|uvx|pipx|conda|mamba)\b[^\n]*?[ \t\"'=]|pip_install\([^()]{0,400}?[\"']"
    r"|^[ \t]*-[ \t]*[\"']?)"
    r"(?P<engine>vllm|sglang)(?:\[[\w,]+\])?(?:==|@)(?P<version>\d[\w.]*)",
    re.I | re.M,
)


def image_comment(text: str) -> tuple[str, int] | None:
    """The image of an `# image: name:tag` comment of a script or of Slurm, and its offset."""
    found = _COMMENT_IMAGE.search(text)  # Slurm's has # behind the registry (Pyxis)
    return found and (
        found[found.lastindex or 0].replace("#", "/"),
        found.start(found.lastindex or 0),
    )


def version_in_text(text: str, engine: str) -> tuple[str | None, bool]:
    """A version in the text, and whether it is installed (else only said)."""
    llama = ("llama.cpp", "llamacpp", "llama-server")
    words = {"vllm": ("vllm",), "sglang": ("sglang",)}.get(engine, llama)
    text = text[:100_000]
    low = text.lower()
    possible = (INSTALL, _SAID) if "==" in low or "@" in low else (_SAID,)
    for pattern in possible if any(word in low for word in words) else ():
        for found in pattern.finditer(text):
            if found.group("engine").lower() in words:
                return found.group("version"), pattern is INSTALL
    return None, False


NAME = "sglang-diffusion"


def diffusion_note(launch: Launch) -> str | None:
    """What to say of the diffusion server; None for the language model server."""
    other = traits(launch.engine).diffusion
    return answer(other) if other is not None and is_diffusion(launch) else None


def is_diffusion(launch: Launch) -> bool:
    """By the model's type or name, else by an option that only that server has."""
    kind = launch.flag("--model-type")
    if kind is not None and kind.value in ("llm", "diffusion"):
        return kind.value == "diffusion"
    known = row(NAME) or {}
    if launch.model and re.search(known["models"], launch.model):
        return True
    has = any(flag.name in known["flags"] for flag in launch.flags)
    return has and (launch.model is None or knowledge.llm_from_text(launch.model) is None)
