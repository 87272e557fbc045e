"""Images, devices, probes and roll-outs around a server."""

from advisor.domain.nouns import Case, Container, Severity
from advisor.domain.patterns import lazy_re
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when

FLOATING = ("latest", "nightly", "main", "master", "dev", "stable")
BUDGET = table("compatibility")["startup_seconds"]
LEAST = BUDGET["least"]
_SMALL = lazy_re(r"(?i)(?<![\w.])(?:[0-3](?:\.\d+)?)b(?![a-z])")  # parameters, not active ones
KINDS = (
    *("kubernetes", "helm", "helmrelease", "llmkube"),
    *("kubernetes-helmrelease", "kubernetes-llmkube"),
)
# what says how much shared memory a container has; an image or a recipe leaves it to what runs it
HOSTS = ("compose", "docker-run", "docker-create", "quadlet", *KINDS, "helm-values")


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
    fixed = case.launch.emitted or case.launch.version_pinned
    if container is not None and container.image and not fixed and floats(container):
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
    if container is None or container.kind not in HOSTS or workers == 1 or not container.image:
        return
    size = container.shm_bytes  # a chart or an operator may give what the file does not say
    small = container.complete if size is None else size < 1 << 30
    if small and not (container.ipc_host or container.shm_volume):
        has = f"{size >> 20} MiB" if size else "the default 64 MB"
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
    eager = case.has_switch("--enforce-eager") or case.has_switch("--disable-cuda-graph")
    if budget <= LEAST["process_s"] and not eager:  # it compiles and captures graphs first
        return "error"
    model, quant = case.facts.model, case.facts.quant
    if model is None or quant is None or not model.total_params_b or not quant.bits:
        return "warning"
    gigabytes = model.total_params_b * quant.bits / 8
    least = LEAST["overhead_s"] + gigabytes / LEAST["gb_s"]
    return "error" if budget < least and gigabytes >= LEAST["from_gb"] else "warning"
