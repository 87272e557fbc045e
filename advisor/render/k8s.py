"""Advice -> a Kubernetes Deployment and Service for one node.

Recreate, not a rolling update: a second copy would need a second GPU. `$(` is doubled so that no
word is expanded.
"""

from __future__ import annotations

from typing import Any

from advisor.domain.nouns import Advice
from advisor.render import notes, serving
from advisor.render.flags import program
from advisor.render.yaml_text import Noted, document

FORM = "a Kubernetes manifest"
_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "intel": "gpu.intel.com/xe"}
_PROBE_PERIOD_S = 15


def deployment_yaml(advice: Advice) -> str:
    """Deployment and Service as two YAML documents. Raises AdvisorError as compose_yaml does."""
    maker = serving.vendor(advice, FORM)
    name = advice.plan.engine.replace("_", "-").replace(".", "-")
    pod = {"containers": [_container(advice, name, maker)], "volumes": _volumes()}
    meta = {"name": name, "labels": {"app": name}}
    spec = {
        "replicas": 1,
        "strategy": Noted({"type": "Recreate"}, notes.ROLLOUT),
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": pod},
    }
    port = serving.port(advice)
    service = {"selector": {"app": name}, "ports": [{"port": port, "targetPort": port}]}
    title = serving.title(advice, "recommend --format k8s")
    deployment = document(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}, title
    )
    return (
        deployment
        + "---\n"
        + document({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": service})
    )


def _container(advice: Advice, name: str, maker: str) -> dict[str, Any]:
    launch = serving.container_launch(advice)
    words = serving.noted_words(advice, launch, ("$(", "$$("))
    start = list(program(launch.argv))
    told = (
        {"args": words}
        if advice.plan.engine in ("llama-server", "ik_llama.cpp")
        else {"command": start, "args": words}
    )
    port = serving.port(advice)
    probe = {
        "httpGet": {"path": serving.HEALTH_PATH, "port": port},
        "periodSeconds": _PROBE_PERIOD_S,
    }
    budget = -(-serving.startup_seconds(advice) // _PROBE_PERIOD_S)
    gpus = {_RESOURCES[maker]: serving.gpu_count(advice)}
    return {
        "name": name,
        "image": Noted(serving.image(advice, FORM), notes.IMAGE),
        **told,
        "env": [
            {"name": key, "value": value.replace("$(", "$$(")}
            for key, value in advice.launch.env.items()
        ],
        "ports": [{"containerPort": port}],
        "resources": {"limits": gpus},
        "startupProbe": Noted(probe | {"failureThreshold": budget}, notes.STARTUP),
        "readinessProbe": probe,
        "volumeMounts": [
            {"name": "cache", "mountPath": "/root/.cache"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _volumes() -> list[Any]:
    return [
        Noted(
            {"name": "cache", "persistentVolumeClaim": {"claimName": "model-cache"}},
            "a claim of your own; without one every start downloads the weights again",
        ),
        Noted(
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            notes.SHM,
        ),
    ]
