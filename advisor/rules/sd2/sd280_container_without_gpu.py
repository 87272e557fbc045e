import re
from functools import lru_cache
from typing import Any

from advisor.domain.nouns import Case, Container, Devices, Fix, Severity
from advisor.domain.patterns import lazy_re
from advisor.engines.images import is_official, split_image
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import flag, integer
from advisor.rules.kit.fixes import at, env_var, span_fix

IMAGES: tuple[dict[str, Any], ...] = tuple(table("compatibility")["image_devices"]["rows"])
WHOLE = ("docker-run", "docker-create", "compose", "kubernetes", "quadlet")
SEEN = "NVIDIA_VISIBLE_DEVICES"
_SERVER = lazy_re(r"(.*:(?:server|full|light))(-b\d+)?")
# options of docker run by which each kind of device is passed in
OPTIONS = {"amd": "--device /dev/kfd --device /dev/dri", "dri": "--device /dev/dri"}


@rule("SD280", "error", "catalogued", data="compatibility.image_devices")
@when(parts="launch.container", needs="file")
def container_without_gpu(case: Case) -> Hits:
    r"""A container that gets no device of the kind that its image is built for.

    Why: a container sees the devices that it asks for, where the host's default runtime adds none.
    vLLM and SGLang stop without; llama-server runs on the processor.
    Bad:
        docker run --ipc=host -p 8000:8000 vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8
    Good: with --gpus all --ipc=host for --ipc=host
    """
    container = case.launch.container
    if container is None or container.devices is None or not container.image:
        return
    # a published image by its tag, in a form that tells all of a container
    stock = is_official(container.image) and not re.search(r"@|\$\{", container.image)
    if container.kind not in WHOLE or not stock:
        return
    needed, devices = device_kind(container.image), container.devices
    if needed == "cpu":
        yield from for_processor(case, container)
    elif needed == "nvidia":
        yield from for_nvidia(case, container, devices)
    elif needed is not None and not devices.privileged:
        yield from for_others(case, container, devices, needed)


@lru_cache(maxsize=256)
def device_kind(image: str) -> str | None:
    """The kind of device that an official image is built for: nvidia, amd, dri or cpu."""
    name, tag = split_image(image.lower())
    for row in IMAGES:
        if re.search(row["image"], name) and re.search(row["tag"], tag or ""):
            return str(row["device"]) if row["device"] else None
    return None


def stops(case: Case) -> Severity | None:
    """Without a device llama-server runs on the processor; the others stop."""
    return "warning" if case.plan.engine == "llama-server" else None


def ends(case: Case) -> str:
    """What the server does without a device."""
    slow = case.plan.engine == "llama-server"
    return "llama-server runs on the processor" if slow else f"{case.plan.engine} stops"


def for_nvidia(case: Case, container: Container, devices: Devices) -> Hits:
    """An image with CUDA: a number of GPUs, the runtime with its variable, or a CDI name."""
    seen, asked = (case.launch.env_value(SEEN) or "").lower(), container.gpus
    named = any("nvidia" in path for path in devices.paths)
    runtime = "nvidia" in (devices.runtime or "")
    var = env_var(case, SEEN)
    hidden = seen in ("none", "void") and container.kind != "docker-create"
    ranks = case.plan.tp * case.plan.pp
    if asked is not None and asked.strip("\"' ") in ("0", "count=0"):
        number = "all" if container.kind != "kubernetes" else str(ranks)
        yield Hit(
            f"the container asks for 0 GPUs: {ends(case)}",
            flag="gpus",
            line=container.image_line,
            severity=stops(case),
            fix=span_fix(case, devices.asked, number, f"Ask for {number}."),
        )
    elif hidden and var is not None:
        # the engine of Docker sets the variable anew where a number of GPUs is asked for
        kept = container.kind == "kubernetes" or (asked is None and not named)
        yield Hit(
            f"{SEEN}={seen} hides all GPUs: {ends(case)}"
            if kept
            else f"{SEEN}={seen} says no GPU, and the container asks for some",
            flag=SEEN,
            line=var.line,
            severity=stops(case) if kept else "warning",
            fix=span_fix(case, var.value_span, "all", f"Write all, or leave {SEEN} out."),
        )
    elif asked is None and not (named or runtime or devices.privileged or seen):
        dri = [path for path in devices.paths if path.startswith("/dev/kfd")]
        beside = f" but {dri[0]}" if dri else ""
        what = "Ask for the GPUs, as docker's --gpus all does."
        text = devices.text.replace("{n}", str(ranks))
        yield Hit(
            f"the image is built for CUDA and the container asks for no GPU{beside}: {ends(case)}",
            flag="gpus",
            line=container.image_line,
            severity=stops(case) if dri else "warning",  # the default runtime may add all
            fix=for_amd(case, container)
            if dri
            else span_fix(case, at(devices.place) if text else None, text, what),
        )


def for_amd(case: Case, container: Container) -> Fix:
    """The image of the same release that is built for ROCm."""
    where, name = container.image_span, split_image(container.image or "")[0]
    if where is None or not name.endswith("vllm/vllm-openai"):
        return Fix(text="Take an image that is built for ROCm.")
    what = f"Take {name}-rocm, which is built for ROCm."
    return span_fix(case, at(where.start, len(name)), f"{name}-rocm", what)


def for_others(case: Case, container: Container, devices: Devices, kind: str) -> Hits:
    """An image for AMD's or Intel's devices, which are files of the host."""
    wanted = "/dev/kfd" if kind == "amd" else "/dev/dri"
    if any(path.startswith(("/dev/dri", wanted)) for path in devices.paths):
        if kind == "amd" and not any(path.startswith(wanted) for path in devices.paths):
            yield missing_path(case, container, devices, kind, wanted)
        return
    if any("/" in path and not path.startswith("/") for path in devices.paths):
        return  # a CDI name, or a resource of Kubernetes
    if devices.runtime or any(one.path in ("/dev", wanted) for one in container.mounts or ()):
        return
    if container.mounts is None or (kind == "dri" and container.gpus is not None):
        return  # Vulkan runs on NVIDIA's devices too
    yield missing_path(case, container, devices, kind, wanted)


def missing_path(case: Case, container: Container, devices: Devices, kind: str, wanted: str) -> Hit:
    """The hit of an image whose device file is not passed in."""
    alone = container.kind == "docker-run" and not devices.paths
    place = at(devices.place) if alone else None
    what = f"Pass {' and '.join(OPTIONS[kind].split()[1::2])} into the container."
    return Hit(
        f"the image is built for {'ROCm' if kind == 'amd' else 'devices of /dev/dri'} and the "
        f"container gets no {wanted}: {ends(case)}",
        flag="devices",
        line=container.image_line,
        severity="warning",
        fix=span_fix(case, place, f" {OPTIONS[kind]}", what),
    )


def for_processor(case: Case, container: Container) -> Hits:
    """An image of llama-server that has code for the processor alone, told to use a GPU."""
    layers = flag(case, "--gpu-layers")
    number = integer(layers.value) if layers is not None and not layers.unresolved else None
    told = layers is not None and (layers.value in ("all", "auto") or (number or 0) > 0)
    asks = container.gpus is not None and container.gpus not in ("0", "none")
    if not asks and not (told and number):
        return
    where, place, kind = container.image_span, None, ""
    image = _SERVER.fullmatch(container.image or "")
    if asks and where is not None and image and where.end - where.start == len(image[0]):
        kind = image[1].rpartition(":")[2]
        place = at(where.start + len(image[1]) - len(kind), len(kind))
    does = f"{layers.raw} does nothing" if layers is not None and told else "no GPU is used"
    what = "Take the image that is built for the GPU, such as server-cuda."
    yield Hit(
        f"the image {container.image} has code for the processor alone: {does}",
        flag=layers,
        line=container.image_line,
        severity="warning",
        fix=span_fix(case, place, f"{kind}-cuda", what),
    )
