"""Advice -> values for the Helm chart of the vLLM production stack (router, engines, autoscaling).

Keys: the chart's values.yaml and values.schema.json. The chart writes `vllm serve MODEL --host
--port` and a prefix caching flag itself, so that these come from its keys.
"""

from __future__ import annotations

from typing import Any

from advisor.domain.nouns import Advice, AdvisorError, Flag
from advisor.render import notes
from advisor.render.deploy import serving
from advisor.render.deploy.k8s import cache_gib, startup_probe
from advisor.render.deploy.quoting import NotedValue, document
from advisor.render.deploy.serving import Server

FORM = "a Helm values file"
CHART = "the vLLM production stack"
# option -> key of vllmConfig
_KEYS = {
    "--max-model-len": "maxModelLen",
    "--max-num-seqs": "maxNumSeqs",
    "--tensor-parallel-size": "tensorParallelSize",
    "--gpu-memory-utilization": "gpuMemoryUtilization",
    "--enable-prefix-caching": "enablePrefixCaching",
}
_OWN = ("--model", "--host", "--port")
_CPUS, _MEMORY_EXTRA_GIB = 4, 16


def helm_values(advice: Advice) -> str:
    """The values file. Raises AdvisorError for other engines than vLLM, and as compose_yaml
    does.
    """
    if serving.vendor(advice, FORM) != "nvidia":
        raise AdvisorError(f"{FORM} is written for NVIDIA only: {CHART} asks for nvidia.com/gpu")
    server = serving.server(advice, container=FORM)
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
    repository, _, tag = serving.image(advice, FORM).rpartition(":")
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
        "vllmConfig": _config(server),
    }
    if server.env:
        spec["env"] = [{"name": name, "value": value} for name, value in server.env.items()]
    return spec


def _config(server: Server) -> dict[str, Any]:
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
