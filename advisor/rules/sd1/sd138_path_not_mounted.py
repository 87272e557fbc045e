import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Container, Edit, Fix, Flag
from advisor.domain.patterns import lazy_re
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag, has_stock_image, unread
from advisor.rules.kit.fixes import set_fix
from advisor.rules.kit.flags import CATALOGUED

FILES = (
    "--model",
    "--model-path",
    "--mmproj",
    "--spec-draft-model",
    "--speculative-draft-model-path",
    "--chat-template",
    "--chat-template-file",
    "--lora",
    "--api-key-file",
    "--ssl-key-file",
    "--ssl-keyfile",
    "--tokenizer-path",
)
HOME = "/root/.cache/huggingface"
CACHES = ("HF_HUB_CACHE", "HF_HOME", "TRANSFORMERS_CACHE", "HUGGINGFACE_HUB_CACHE")
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
ROOT = ("0", "root", "0:0", "root:root")
_CACHE = lazy_re(r"huggingface|hf[-_]?(?:cache|home|hub)", re.I)
_REPOSITORY = lazy_re(r"[\w-][\w.-]*/[\w.-]+")
_RELATIVE = lazy_re(r"\.{1,2}/[\w./-]+|[\w-]+(?:/[\w.-]+)*\.jinja2?")
# forms in which all mounts of the container stand beside the command


@rule(
    severity="error",
    engines=CATALOGUED,
    sources=(
        "https://docs.docker.com/engine/storage/volumes/",
        "https://kubernetes.io/docs/concepts/storage/volumes/",
    ),
)
def path_not_mounted(case: Case) -> Iterator[Hit]:
    r"""A file in a container at a path where nothing is mounted, or a cache that it cannot use.

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
        or not has_stock_image(container)
        or any("${" in one.path for one in container.mounts)
    ):
        return
    yield from cache(case, container)
    paths = [one.path.rstrip("/") for one in container.mounts]
    given: list[tuple[str, Flag | None]] = [
        (found.value or "", found) for name in FILES if (found := flag(case, name)) is not None
    ]
    if launch.model and launch.model not in [one for one, _ in given]:
        given.append((launch.model, None))
    for path, found in given:
        template = found is not None and found.name.startswith("--chat-template")
        if template and not path.startswith("/") and not workdir(case):
            if _RELATIVE.fullmatch(path) and not paths_hold(path, paths):
                yield Hit(
                    f"{path} of the host is not in the container",
                    flag=found,
                    severity="warning" if unread(case) else None,
                    fix=Fix(text="Mount the file, and give its path in the container."),
                )
            continue
        if not path.startswith(("/", "~/")) or path.startswith("/app/"):
            continue
        if "${" in path or "<" in path or (found is not None and found.unresolved):
            continue
        if any(path == one or path.startswith(f"{one}/") for one in paths):
            continue
        if path.startswith("~/") and container.kind not in ("docker-run", "compose"):
            continue
        yield Hit(
            f"{path} is in the container only where its folder is mounted; "
            + (f"mounted are {', '.join(paths[:4])}" if paths else "nothing is"),
            flag=found,
            severity="warning" if unread(case) or not paths else None,
            fix=at_mount(case, container, path, found) or remount(case, path),
        )


def at_mount(case: Case, container: Container, path: str, found: Flag | None) -> Fix | None:
    """The path in the container of what is given by its path on the host."""
    for mount in container.mounts or ():
        source = mount.source.rstrip("/")
        if len(source) > 1 and path.startswith(f"{source}/"):
            meant = f"{mount.path.rstrip('/')}{path.removeprefix(source)}"
            what = f"Write {meant}, its path in the container."
            return set_fix(case, found, meant, what) if found is not None else Fix(text=what)
    return None


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


def workdir(case: Case) -> bool:
    """Whether the container's folder is another than the image's own."""
    container = case.launch.container
    return container is None or container.kind not in ("docker-run", "compose")


def paths_hold(path: str, mounted: list[str]) -> bool:
    """Whether a mount may hold a relative path: one below the image's folder of work."""
    return any(one.endswith(path.rsplit("/", 1)[-1]) or "workspace" in one for one in mounted)


def cache(case: Case, container: Container) -> Iterator[Hit]:
    """The cache of Hugging Face: mounted where nothing looks for it, read-only, closed to the user,
    or needed and not there.
    """
    launch, model = case.launch, case.launch.model or ""
    if case.plan.engine not in ("vllm", "sglang") or unread(case):
        return
    named = [value for name in CACHES if (value := launch.env_value(name))]
    if any("$" in one for one in named) or not _REPOSITORY.fullmatch(model):
        return
    moved = any(launch.env_value(name) for name in ("HOME", "XDG_CACHE_HOME"))
    place = named[0].rstrip("/") if named else HOME
    mounts = container.mounts or ()
    holds = [
        one
        for one in mounts
        if place == one.path.rstrip("/") or f"{place}/".startswith(one.path.rstrip("/") + "/")
    ]
    values = [one.value or "" for one in launch.flags] + [one.value or "" for one in launch.env]
    astray = [
        one
        for one in mounts
        if one not in holds
        and _CACHE.search(one.source)
        and not one.path.startswith(place)
        and not any(value.startswith(one.path.rstrip("/")) for value in values)
    ]
    if astray and not holds and not moved:
        where = astray[0].span
        edit = (
            Edit(file=launch.file, start=where.start, end=where.end, text=place) if where else None
        )
        yield Hit(
            f"{astray[0].path} is not where {case.plan.engine} looks for its cache, {place}: each "
            "new container downloads the model again",
            line=container.image_line,
            severity="warning",
            fix=Fix(text=f"Mount it at {place}.", edits=(edit,) if edit is not None else ()),
        )
    offline = any(
        (launch.env_value(name) or "").lower() in ("1", "true", "yes") for name in OFFLINE
    )
    if offline and not holds and not moved and container.kind != "kubernetes":
        yield Hit(
            f"{model} is to be read offline, and nothing is mounted at its cache, {place}",
            line=container.image_line,
            fix=Fix(text=f"Mount the cache at {place}, or leave the variable out."),
        )
    elif holds and not offline and any("ro" in one.mode.split(",") for one in holds):
        yield Hit(
            f"the cache at {holds[0].path} is read-only: a model that is not there yet cannot be "
            "downloaded",
            line=container.image_line,
            severity="warning",
            fix=Fix(text="Mount it without ro, or say HF_HUB_OFFLINE=1."),
        )
    user = container.user
    if user is not None and user not in ROOT and "$" not in user and not named and not moved:
        yield Hit(
            f"user {user} cannot write below /root, where {case.plan.engine} keeps its cache",
            line=container.image_line,
            fix=Fix(text="Set HOME or HF_HOME to a folder of that user."),
        )
