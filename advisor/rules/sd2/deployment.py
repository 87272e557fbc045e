"""Images, devices, probes and roll-outs around a server."""

import re
from functools import lru_cache
from typing import Any

from advisor.domain.nouns import Case, Container, Devices, Fix, Severity
from advisor.domain.patterns import lazy_re
from advisor.engines.images import is_official, split_image
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import flag, has_switch, integer
from advisor.rules.kit.fixes import at, env_var, span_fix

FLOATING = ("latest", "nightly", "main", "master", "dev", "stable")
OTHERS = ("", "systemd", "recipe")
BUDGET = table("compatibility")["startup_seconds"]
LEAST = BUDGET["least"]
_SMALL = lazy_re(r"(?i)(?<![\w.])(?:[0-3](?:\.\d+)?)b(?![a-z])")  # parameters, not active ones
KINDS = (
    *("kubernetes", "helm", "helmrelease", "llmkube"),
    *("kubernetes-helmrelease", "kubernetes-llmkube"),
)
IMAGES: tuple[dict[str, Any], ...] = tuple(table("compatibility")["image_devices"]["rows"])
WHOLE = ("docker-run", "docker-create", "compose", "kubernetes", "quadlet")
SEEN = "NVIDIA_VISIBLE_DEVICES"
_SERVER = lazy_re(r"(.*:(?:server|full|light))(-b\d+)?")
# options of docker run by which each kind of device is passed in
OPTIONS = {"amd": "--device /dev/kfd --device /dev/dri", "dri": "--device /dev/dri"}


@rule("SD238", "info")
@when(parts="launch.container")
def image_unpinned(case: Case) -> Hits:
    """An image tag that is not fixed to one release.

    Why: the next pull can bring removed flags and other defaults.
    Bad:
        docker run --gpus all vllm/vllm-openai:latest Qwen/Qwen3.6-35B-A3B-FP8
    Good: with vllm/vllm-openai:v0.25.1 for vllm/vllm-openai:latest
    Sources: compose and Kubernetes documentation on image tags
    """
    container = case.launch.container
    if case.launch.emitted or case.launch.version_pinned or container is None:
        return
    if container.image and floats(container):
        yield Hit(
            f"the image tag '{container.tag or 'latest'}' can change to another release",
            flag="image",
            line=container.image_line,
            fix="Pin a release tag.",
        )


def floats(container: Container) -> bool:
    """Whether the image's tag may name another release tomorrow."""
    image, tag = container.image or "", (container.tag or "latest").lower()
    if container.tag is None and ("$" in image or "/" not in image):
        return False  # a variable names the tag, or it is built here
    if "$" in tag or "sha256:" in tag or "@sha256" in image:
        return False
    server = tag.startswith(("server", "full", "light")) and not any(c.isdigit() for c in tag)
    fixed = sum(sign.isdigit() for sign in tag) >= 8  # a day or a commit
    return server or tag in FLOATING or ("nightly" in tag and not fixed)


@rule("SD240", "warning", "vllm sglang")
@when(parts="launch.container")
def shm_small(case: Case) -> Hits:
    """Tensor parallelism in a container with the default 64 MB of shared memory.

    Why: the workers talk through /dev/shm; the start fails with messages that name something else.
    Bad:
        docker run --gpus all vllm/vllm-openai:v0.25.1 Qwen/Qwen3.6-27B-FP8 --tensor-parallel-size 2
    Good: with --gpus all --ipc=host for --gpus all
    Sources: rwlove/home-ops; Tanguille/cluster; vLLM docs, deploying with Docker
    """
    container, workers = case.launch.container, case.plan.tp * case.plan.pp
    # the tool that runs a recipe sets it; of variables it stands where the container is made
    if container is None or case.launch.form == "env" or container.kind in OTHERS:
        return
    enough = container.ipc_host or container.shm_volume or (container.shm_bytes or 0) >= 1 << 30
    if container.image and workers > 1 and not enough:
        has = f"{container.shm_bytes >> 20} MiB" if container.shm_bytes else "the default 64 MB"
        yield Hit(
            f"{workers} workers with {has} of shared memory",
            flag="shm_size",
            line=container.image_line,
            fix="Add ipc: host (--ipc=host), shm_size, or a memory-backed volume at /dev/shm.",
        )


@rule("SD241", "error", "vllm sglang", data="compatibility.startup_seconds")
@when(parts="launch.container")
def probe_budget(case: Case) -> Hits:
    """A startup or liveness probe that gives up before the server is ready.

    Why: loading, compilation and graph capture take 5 to 30 minutes: a crash loop at a cold start.
    Bad:
        apiVersion: v1
        kind: Pod
        metadata: {name: qwen}
        spec:
          containers:
            - image: vllm/vllm-openai:v0.25.1
              command: [vllm, serve, Qwen/Qwen3.6-35B-A3B-FP8]
              startupProbe:
                httpGet: {path: /health, port: 8000}
                periodSeconds: 10
                failureThreshold: 12
    Good: with failureThreshold: 180 for failureThreshold: 12
    """
    container = case.launch.container
    budget, most = container.startup_budget_s if container is not None else None, BUDGET["value"]
    if container is None or budget is None or container.kind not in KINDS or budget >= most:
        return
    name, reach = container.budget_probe, f"periodSeconds x failureThreshold reach {most} s"
    yield Hit(
        f"the {name} probe gives up after {budget:.0f} s; loading with compilation takes 300 to "
        f"{most} s",
        flag=f"{name}Probe",
        line=container.image_line,
        severity=weight(case, budget),
        fix=f"Let {reach}."
        if name == "startup"
        else f"Add a startupProbe whose {reach}: until it passes, the liveness probe waits.",
    )


def weight(case: Case, budget: float) -> Severity:
    """An error where the weights cannot be read in the time; little where most start."""
    if budget >= BUDGET["short"] or _SMALL.search(case.launch.model or ""):
        return "info"
    eager = has_switch(case, "--enforce-eager") or has_switch(case, "--disable-cuda-graph")
    if budget <= LEAST["process_s"] and not eager:  # it compiles and captures graphs first
        return "error"
    model, quant = case.facts.model, case.facts.quant
    if model is None or quant is None or not model.total_params_b or not quant.bits:
        return "warning"
    gigabytes = model.total_params_b * quant.bits / 8
    least = LEAST["overhead_s"] + gigabytes / LEAST["gb_s"]
    return "error" if budget < least and gigabytes >= LEAST["from_gb"] else "warning"


@rule("SD242", "warning")
@when(parts="launch.container")
def rollout_surge(case: Case) -> Hits:
    """A rolling update that needs a second GPU before it frees the first.

    Why: the surge pod waits for a GPU that the old pod holds, and the rollout never ends.
    Bad:
        kind: Deployment
        spec:
          strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
          template:
            spec:
              containers:
                - image: vllm/vllm-openai:v0.25.1
                  command: [vllm, serve, Qwen/Qwen3.6-35B-A3B-FP8]
                  resources: {limits: {nvidia.com/gpu: 1}}
    Good: with Recreate for RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
    Sources: nicolerenee/infra#2067; Tanguille/cluster
    """
    container = case.launch.container
    if container is not None and container.rollout_surge:
        yield Hit(
            "the rolling update starts a second pod before it stops the first, and so needs a "
            "second GPU",
            flag="strategy",
            line=container.image_line,
            # a cluster that grows finds a second one; whoever writes the strategy down has decided
            severity="info" if container.rollout_default else None,
            fix="Use strategy Recreate, or maxUnavailable 1.",
        )


@rule("SD280", "error", "catalogued", data="compatibility.image_devices")
@when(parts="launch.container", needs="file")
def container_without_gpu(case: Case) -> Hits:
    r"""A container that gets no device of the kind that its image is built for.

    Why: vLLM and SGLang stop without one; llama-server runs on the processor.
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
