from collections.abc import Iterator

from advisor.domain.nouns import Case, Container, Fix
from advisor.rules import Hit, rule

FLOATING = ("latest", "nightly", "main", "master", "dev", "stable")


@rule(
    severity="info",
    sources=("compose and Kubernetes documentation on image tags",),
)
def image_unpinned(case: Case) -> Iterator[Hit]:
    """An image tag that is not fixed to one release.

    Why: the next pull can bring removed flags, changed defaults and other numbers; findings that
    depend on the version cannot be sure.
    Bad:
        docker run --gpus all vllm/vllm-openai:latest Qwen/Qwen3.6-35B-A3B-FP8
    Good:
        docker run --gpus all vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-35B-A3B-FP8
    """
    container = case.launch.container
    if (
        case.launch.emitted
        or container is None
        or not container.image
        or case.launch.version_pinned
    ):
        return
    if floats(container):
        yield Hit(
            f"the image tag '{container.tag or 'latest'}' can change to another release",
            flag="image",
            line=container.image_line,
            fix=Fix(text="Pin a release tag."),
        )


def floats(container: Container) -> bool:
    """Whether the image's tag may name another release tomorrow."""
    tag = (container.tag or "latest").lower()
    if "$" in tag or (container.tag is None and "$" in (container.image or "")):
        return False  # a variable names the tag
    if container.tag is None and "/" not in (container.image or ""):
        return False  # built here
    if "sha256:" in tag or "@sha256" in (container.image or ""):
        return False
    return (
        tag in FLOATING
        or "nightly" in tag
        or (tag.startswith(("server", "full", "light")) and not any(c.isdigit() for c in tag))
    )
