"""Advice -> Kubernetes: a Deployment, its Service and the claim for its cache, for one node; or
values for the Helm chart of the vLLM production stack, which writes `vllm serve MODEL --host
--port` and a prefix caching flag itself.
"""

from collections.abc import Sequence
from math import ceil
from typing import Any

from advisor.domain.nouns import Advice, AdvisorError, Flag
from advisor.engines.benchmarks import METRICS_FLAG
from advisor.render import notes
from advisor.render.deploy import serving
from advisor.render.deploy.quoting import NotedValue, document
from advisor.render.deploy.serving import Server
from advisor.render.deploy.settings import setting

FORM = "a Kubernetes manifest"
PROBE_PERIOD_S = 15
RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/xe"}
# labels and taints of NVIDIA's operator; those of others are not known here
_LABELS = {"nvidia": {"nvidia.com/gpu.present": "true"}}
_PRODUCT = "one kind: nvidia.com/gpu.product: NAME, see kubectl get nodes -L nvidia.com/gpu.product"
_PATIENCE = {"timeoutSeconds": 10, "failureThreshold": 8}
_CACHE_EXTRA_GIB = 20  # compiled kernels, and room for another revision's small files
_SECRET_KEYS = {serving.TOKEN: "hf-token"}
_VALUES = "a Helm values file"
CHART = "the vLLM production stack"
# option -> key of the chart's vllmConfig
_KEYS = {
    "--max-model-len": "maxModelLen",
    "--max-num-seqs": "maxNumSeqs",
    "--tensor-parallel-size": "tensorParallelSize",
    "--gpu-memory-utilization": "gpuMemoryUtilization",
    "--enable-prefix-caching": "enablePrefixCaching",
}
_OWN = ("--model", "--host", "--port")
_CPUS, _MEMORY_EXTRA_GIB = 4, 16
_PULL_S = 900  # for the image, before the container starts


def deployment_yaml(advice: Advice) -> str:
    """Claim, Deployment, Service. Raises AdvisorError."""
    server = serving.server(advice, container=FORM)
    label = {"app": server.name}
    meta = _meta(server, server.name) | {"labels": label}
    template: dict[str, Any] = {"labels": label}
    if METRICS_FLAG.get(server.plan.engine) is None:  # others count only where they are told to
        port = str(server.port)
        template["annotations"] = {"prometheus.io/scrape": "true", "prometheus.io/port": port}
    gpu, nodes = RESOURCES[server.vendor], _LABELS.get(server.vendor)
    pod: dict[str, Any] = {
        "enableServiceLinks": NotedValue(
            False, "else a Service named vllm sets VLLM_PORT to an address, and the engine stops"
        ),
        "automountServiceAccountToken": False,
        "tolerations": [{"key": gpu, "operator": "Exists", "effect": "NoSchedule"}],
        **({"nodeSelector": NotedValue(nodes, _PRODUCT)} if nodes else {}),
        "containers": [_container(server)],
        "volumes": _volumes(server),
    }
    deployment = {
        "replicas": 1,
        "progressDeadlineSeconds": server.startup_s + _PULL_S,
        "strategy": NotedValue({"type": "Recreate"}, notes.ROLLOUT),
        "selector": {"matchLabels": label},
        "template": {"metadata": template, "spec": pod},
    }
    ports = [{"name": "http", "port": server.port, "targetPort": server.port}]
    service = {"selector": label, "ports": ports}
    title = serving.title(advice, "recommend --format k8s")
    title.append(serving.key_note(server.plan.engine, "every pod of the cluster"))
    parts: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = []
    if not server.claim:
        cache = _meta(server, f"{server.name}-cache")
        parts.append(("PersistentVolumeClaim", cache, "spec", claim(advice)))
    if server.files:
        parts.append(("ConfigMap", meta, "data", dict(server.files)))
    parts += [("Deployment", meta, "spec", deployment), ("Service", meta, "spec", service)]
    if release := setting(advice, "monitor"):
        pod["containers"][0]["args"] += METRICS_FLAG.get(server.plan.engine, "").split()
        watched = {"selector": {"matchLabels": label}, "endpoints": [{"port": "http"}]}
        labels = {"labels": label | {"release": release}}
        parts.append(("ServiceMonitor", meta | labels, "spec", watched))
    return "---\n".join(_resource(*part, () if i else title) for i, part in enumerate(parts))


def _meta(server: Server, name: str) -> dict[str, Any]:
    return {"name": name} | ({"namespace": server.namespace} if server.namespace else {})


def _resource(
    kind: str, meta: dict[str, Any], key: str, body: dict[str, Any], title: Sequence[str] = ()
) -> str:
    """One resource as a YAML document."""
    groups = {"Deployment": "apps/v1", "ServiceMonitor": "monitoring.coreos.com/v1"}
    head = {"apiVersion": groups.get(kind, "v1"), "kind": kind, "metadata": meta}
    return document(head | {key: body}, title)


def claim(advice: Advice) -> dict[str, Any]:
    """The claim that keeps the downloaded weights and compiled kernels between starts."""
    return {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": f"{cache_gib(advice)}Gi"}},
    }


def cache_gib(advice: Advice) -> int:
    """Room for the weights and compiled kernels, GiB."""
    return ceil(serving.weights_gib(advice) * 1.1) + _CACHE_EXTRA_GIB


def _escape(text: str) -> str:
    return text.replace("$(", "$$(")


def environment(server: Server) -> list[Any]:
    """Variables of the launch, and the secrets from an optional Secret of the server's name."""
    env: list[Any] = [{"name": name, "value": _escape(value)} for name, value in server.env.items()]
    for name in server.secrets:
        key = {"name": server.name, "key": _SECRET_KEYS.get(name, "api-key"), "optional": True}
        env.append({"name": name, "valueFrom": {"secretKeyRef": key}})
    return env


def startup_probe(server: Server) -> dict[str, Any]:
    """Waits as long as the server may load in silence."""
    return _probe(server) | {"failureThreshold": ceil(server.startup_s / PROBE_PERIOD_S)}


def _probe(server: Server) -> dict[str, Any]:
    return {
        "httpGet": {"path": server.traits.health, "port": server.port},
        "periodSeconds": PROBE_PERIOD_S,
    }


def _container(server: Server) -> dict[str, Any]:
    words = server.noted_words(_escape)
    command = {} if server.traits.image_starts else {"command": list(server.program)}
    secret = f"kubectl create secret generic {server.name} --from-literal=hf-token=..."
    safe: dict[str, Any] = {"allowPrivilegeEscalation": False}
    if server.vendor != "amd":  # ROCm needs more system calls
        safe["seccompProfile"] = {"type": "RuntimeDefault"}
    return {
        "name": server.name,
        "image": NotedValue(server.image, notes.IMAGE),
        **command,
        "args": words,
        "env": NotedValue(environment(server), secret),
        "ports": [{"containerPort": server.port}],
        "resources": {
            "requests": {"cpu": _CPUS, "memory": f"{_MEMORY_EXTRA_GIB + int(server.shm[:-2])}Gi"},
            "limits": {RESOURCES[server.vendor]: server.gpus},
        },
        "securityContext": NotedValue(safe, "the image runs as root"),
        "startupProbe": NotedValue(startup_probe(server), notes.STARTUP),
        "readinessProbe": _probe(server),
        "livenessProbe": NotedValue(_probe(server) | _PATIENCE, "a hung engine is started again"),
        "volumeMounts": [
            {"name": "cache", "mountPath": "/root/.cache"},
            {"name": "shm", "mountPath": "/dev/shm"},
            *(
                {"name": "files", "mountPath": serving.inside(name), "subPath": name}
                for name, _ in server.files
            ),
            *own_mount(server),
        ],
    }


def _volumes(server: Server) -> list[Any]:
    shm = {"medium": "Memory", "sizeLimit": f"{server.shm[:-2]}Gi"}
    cache = {"claimName": server.claim or f"{server.name}-cache"}
    return [
        {"name": "cache", "persistentVolumeClaim": cache},
        NotedValue({"name": "shm", "emptyDir": shm}, notes.SHM),
        *([{"name": "files", "configMap": {"name": server.name}}] if server.files else []),
        *own_volume(server),
    ]


def own_mount(server: Server) -> list[Any]:
    """Where the container sees a model of the user's own."""
    own = server.mount
    return [] if own is None else [{"name": "model", "mountPath": own.target, "readOnly": True}]


def own_volume(server: Server) -> list[Any]:
    """The folder of the node that holds a model of the user's own."""
    if server.mount is None:
        return []
    volume = {"name": "model", "hostPath": {"path": server.mount.source}}
    return [NotedValue(volume, "each node that may run this needs it there; or mount a claim")]


def helm_values(advice: Advice) -> str:
    """The values file. Raises AdvisorError unless for vLLM, and as compose_yaml does."""
    server = serving.server(advice, container=_VALUES)
    if server.vendor != "nvidia":
        raise AdvisorError(f"{_VALUES} is written for NVIDIA only: {CHART} asks for nvidia.com/gpu")
    engine = {
        "containerPort": server.port,
        "strategy": NotedValue({"type": "Recreate"}, notes.ROLLOUT),
        "startupProbe": NotedValue(startup_probe(server), notes.STARTUP),
        "modelSpec": [_model(advice, server)],
    }
    title = serving.title(advice, "recommend --format helm")
    title += [
        "helm repo add vllm https://vllm-project.github.io/production-stack",
        "helm install NAME vllm/vllm-stack -f FILE",
        serving.key_note("vllm", "every pod of the cluster")
        + ": servingEngineSpec.vllmApiKey names a Secret",
    ]
    return document({"servingEngineSpec": engine}, title)


def _model(advice: Advice, server: Server) -> dict[str, Any]:
    repository, _, tag = server.image.rpartition(":")
    spec: dict[str, Any] = {
        "name": server.name,
        "repository": NotedValue(repository, notes.IMAGE),
        "tag": tag,
        "modelURL": server.plan.model or "",
        "replicaCount": 1,
        "requestCPU": _CPUS,
        "requestMemory": f"{cache_gib(advice) + _MEMORY_EXTRA_GIB}Gi",
        "requestGPU": server.gpus,
        "pvcStorage": f"{cache_gib(advice)}Gi",
        "vllmConfig": _vllm_config(server),
    }
    if server.mount is not None:
        spec |= {"extraVolumes": own_volume(server), "extraVolumeMounts": own_mount(server)}
    if server.env:
        spec["env"] = [{"name": name, "value": value} for name, value in server.env.items()]
    return spec


def _vllm_config(server: Server) -> dict[str, Any]:
    """The options that the chart has keys for, the rest as they are."""
    keys: dict[str, Any] = {"enablePrefixCaching": server.plan.prefix_caching is not False}
    rest: list[str | NotedValue] = []
    units = dict(zip((unit[0] for unit in server.units), server.units, strict=True))
    noted = dict(zip(units, server.notes, strict=True))
    for flag in server.launch.flags:
        if flag.name in _OWN or flag.name == "--enable-prefix-caching":
            continue
        note = noted.get(flag.raw, "")
        if flag.name in _KEYS:
            value = typed_value(flag)
            keys[_KEYS[flag.name]] = NotedValue(value, note) if note else value
        else:
            head, *values = units[flag.raw]
            rest += [NotedValue(head, note) if note else head, *values]
    return keys | {"extraArgs": rest}


def typed_value(flag: Flag) -> int | float | str | None:
    """The value as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(flag.value or "")
        except ValueError:
            continue
    return flag.value
