from collections.abc import Iterator

from advisor.domain.nouns import Case, Edit, Fix, Flag
from advisor.readers.images import is_official
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, unread
from advisor.rules.kit.flags import CATALOGUED

FILES = (
    "--model",
    "--model-path",
    "--mmproj",
    "--spec-draft-model",
    "--speculative-draft-model-path",
)
# forms in which all mounts of the container stand beside the command
WHOLE = ("docker-run", "docker-create", "compose", "kubernetes", "quadlet")


@rule(
    severity="error",
    engines=CATALOGUED,
    sources=(
        "https://docs.docker.com/engine/storage/volumes/",
        "https://kubernetes.io/docs/concepts/storage/volumes/",
    ),
)
def path_not_mounted(case: Case) -> Iterator[Hit]:
    r"""A model's file in a container at a path where nothing is mounted.

    Why: an engine's own image holds no models: the server stops because it does not find the file,
    or takes the path for the name of a repository.
    Bad:
        docker run --gpus all -v /srv/models:/model:ro \
            ghcr.io/ggml-org/llama.cpp:server-cuda-b11223 -m /models/Qwen3.6-27B-Q4_K_M.gguf
    Good:
        docker run --gpus all -v /srv/models:/models:ro \
            ghcr.io/ggml-org/llama.cpp:server-cuda-b11223 -m /models/Qwen3.6-27B-Q4_K_M.gguf
    """
    container, launch = case.launch.container, case.launch
    if (
        container is None
        or container.mounts is None
        or container.kind not in WHOLE
        or not container.image
        or not is_official(container.image)
        or "@" in container.image  # a build that somebody chose by its digest may hold more
        or any("${" in one.path for one in container.mounts)
    ):
        return
    paths = [one.path.rstrip("/") for one in container.mounts]
    given: list[tuple[str, Flag | None]] = [
        (found.value or "", found) for name in FILES if (found := flag(case, name)) is not None
    ]
    if launch.model and launch.model not in [one for one, _ in given]:
        given.append((launch.model, None))
    for path, found in given:
        if not path.startswith("/") or path.startswith("/app/") or "${" in path or "<" in path:
            continue
        if any(path == one or path.startswith(f"{one}/") for one in paths) or (
            found is not None and found.unresolved
        ):
            continue
        yield Hit(
            f"{path} is in the container only where its folder is mounted; "
            + (f"mounted are {', '.join(paths[:4])}" if paths else "nothing is"),
            flag=found,
            severity="warning" if unread(case) or not paths else None,
            fix=remount(case, path),
        )


def remount(case: Case, path: str) -> Fix:
    """The mount that differs from the path's folder by a letter or two."""
    from difflib import SequenceMatcher  # start-up: only where a path is not mounted

    container = case.launch.container
    folder = "/".join(path.split("/")[:2])
    near = [
        one
        for one in (container.mounts or () if container is not None else ())
        if one.span is not None and SequenceMatcher(None, one.path, folder).ratio() >= 0.7
    ]
    what = f"Mount the folder of the host at {folder}."
    if len(near) != 1 or near[0].span is None:
        return Fix(text=what)
    place = near[0].span
    edit = Edit(file=case.launch.file, start=place.start, end=place.end, text=folder)
    return Fix(text=what, edits=(edit,))
