"""Images that no registry has: a name or a tag a letter away from an engine's own; and images that
do not start what stands behind them. Each is kept for SD136.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from advisor.domain.patterns import lazy_re
from advisor.readers.images import engine_of_image, is_official, split_image

if TYPE_CHECKING:
    from advisor.readers.engine_command import EngineCommand, Surroundings
    from advisor.readers.reading import Reading
    from advisor.readers.syntax.mapped import Mapped

# an image of a mirror may have tags of its own
_OWN = lazy_re(r"(?:docker\.io/)?(vllm/vllm-openai|lmsysorg/sglang)|(ghcr\.io/ggml-org/llama\.cpp)")
_RELEASE = lazy_re(r"v?(\d+)\.(\d+)(?:\.(\d+))?((?:\.?(?:post|rc|dev)\d+)?(?:[.-][\w.-]+)?)")
_LLAMA_TAG = lazy_re(
    r"(?:server|full|light)(?:-(?:cuda\d*|rocm|vulkan|intel|musa|openvino|s390x))?"
    r"(?:-b\d+)?"
)
_PARTS = lazy_re(r"server|full|light|cuda\d{0,2}(?!\d)|rocm|vulkan|intel|musa|openvino|b?\d{4,6}")
_COMMA = lazy_re(r"[ \t]*,[ \t]*(?=\S)")  # of a list without quotes
# how the `full` image is told what to run: .devops/tools.sh
_PROGRAMS = (
    *("--server", "-s", "--run", "-r", "--run-legacy", "-l", "--convert", "-c", "--bench", "-b"),
    *("--perplexity", "-p", "--quantize", "-q", "--all-in-one", "-a"),
)
NAMES = ("vllm/vllm-openai", "lmsysorg/sglang", "ghcr.io/ggml-org/llama.cpp")
# names that people take for them, of no registry
TAKEN_FOR = {
    "vllm-project/vllm-openai": NAMES[0],
    "vllmproject/vllm-openai": NAMES[0],
    "vllm-openai": NAMES[0],
    "lmsys/sglang": NAMES[1],
    "sgl-project/sglang": NAMES[1],
    "sglang/sglang": NAMES[1],
    "ggml-org/llama.cpp": NAMES[2],
    "ghcr.io/ggml/llama.cpp": NAMES[2],
}


def tag_slip(around: Surroundings, reading: Reading) -> None:
    """Say where an image is nearly an engine's own, or has a tag that none of its releases has."""
    text = around.image_text()
    if around.image is None or not text or "${" in text or "@" in text:
        return
    name, tag = split_image(text)
    bare = name.removeprefix("docker.io/")
    meant = TAKEN_FOR.get(bare) or _near_name(bare)
    if meant is not None:
        if bare == "vllm-openai" and around.kind == "compose":
            return  # built here, it may be
        at = around.image.part(len(name) - len(bare), len(name))
        place = at.span()
        end = place[1] if place else None
        reading.slip(f"no registry has an image {bare}: {meant} is meant", at.first(), end, meant)
        return
    if tag is None or not _OWN.fullmatch(name) or (right := _right_tag(bare, tag)) is None:
        return
    at_tag = (
        around.tag.first() if around.tag is not None else around.image.pos[len(text) - len(tag)]
    )
    end = at_tag + len(tag) if reading.source.text.startswith(tag, at_tag) else None
    reading.slip(f"{name} has no tag {tag}: {right} is meant", at_tag, end, right)


def _near_name(name: str) -> str | None:
    """The engine's own image of which a name is a slip: other dashes, or a letter or two."""
    from difflib import SequenceMatcher

    plain = re.sub(r"[-_.]", "", name.lower())
    for own in NAMES:
        other = re.sub(r"[-_.]", "", own)
        if name == own or name.startswith(f"{own}-") or name.count("/") != own.count("/"):
            continue
        if plain == other or (
            abs(len(plain) - len(other)) <= 2
            and SequenceMatcher(None, plain, other).ratio() >= 0.92
            and is_official(own)
            and not is_official(name)
        ):
            return own
    return None


def _right_tag(name: str, tag: str) -> str | None:
    """The tag that was meant, where the given one is none."""
    if name.endswith("llama.cpp"):
        if _LLAMA_TAG.fullmatch(tag):
            return None
        parts = _PARTS.findall(tag)
        kind = next((one for one in parts if one in ("server", "full", "light")), None)
        build = next((one for one in parts if one.lstrip("b").isdigit()), None)
        rest = [one for one in parts if one not in (kind, build)]
        if len(rest) > 1 or (kind is None and build is None) or len("".join(parts)) < len(tag) - 4:
            return None
        number = f"b{build.lstrip('b')}" if build else None
        right = "-".join(one for one in (kind or "server", *rest, number) if one)
        return right if right != tag else None
    found = _RELEASE.fullmatch(tag)
    if found is None:
        return None
    right = f"v{found[1]}.{found[2]}.{found[3] or 0}{found[4]}"
    return right if right != tag else None


def image_slips(
    around: Surroundings,
    words: list[Mapped],
    own: bool,
    found: list[EngineCommand],
    reading: Reading,
) -> None:
    """Say where an image holds another engine than the one that its words start, and where it
    starts that engine by itself: `own` is whether its entrypoint stands.
    """
    name = around.image_text()
    holds = engine_of_image(name) if name and is_official(name) else None
    if around.image is None or holds is None or len(found) != 1:
        return
    starts = found[0].engine
    if holds not in (starts, "sglang") and not any("install" in word.text for word in words):
        instead = f"an image that holds {starts}"
        reading.slip(f"{name} holds {holds}, no {starts}", around.image.first(), text=instead)
    elif own and starts == holds == "vllm" and [w.text for w in words[:2]] == ["vllm", "serve"]:
        said = f"{name} starts `vllm serve` itself: given again, it counts as the model"
        first, last = words[0].span(), words[1].span()
        comma = _COMMA.match(reading.source.text, last[1]) if last else None
        end = comma.end() if comma else last[1] if last else None
        reading.slip(said, words[0].first(), end if first else None)


def starts_nothing(
    around: Surroundings, engine: str, words: list[Mapped], reading: Reading
) -> None:
    """Say where an image is given an engine's options and starts no server by itself."""
    name, tag = split_image(around.image_text())
    if not words or not words[0].text.startswith("-") or not is_official(name):
        return
    start = ""
    if engine == "sglang":
        start = "python3 -m sglang.launch_server "
        said = f"{name} starts no server by itself: its command begins with {start.strip()}"
    elif engine == "llama-server" and tag and tag.startswith(("full", "light")):
        if words[0].text in _PROGRAMS or tag.startswith("light"):
            return
        start, said = "--server ", f"{name}:{tag} holds several programs: --server names the one"
    if not start:
        return
    at = words[0].first()
    lines = (
        around.kind in ("docker-run", "docker-create", "compose")
        and reading.source.text[at - 1 : at] in " \n"
    )
    before = reading.source.text[max(0, at - 40) : at]
    plain = lines and not re.search(r"-[ \t]+$|[\[,][ \t]*$", before)
    reading.slip(said, at, at if plain else None, start)
