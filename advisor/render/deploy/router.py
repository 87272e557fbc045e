"""Servers of a plan -> the configuration of an existing router in front of them: nginx, or LiteLLM.

Each class has a path of its own (`/chat/v1/...`); a request to `/v1/...` goes by its header
`X-Class`, without one to the first class. Answers are streamed, so nothing is buffered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from advisor.render.deploy.quoting import document

PORT = 9000
IMAGE = "nginx:1.28.0-alpine"
LOCAL = "127.0.0.1"


class Route(NamedTuple):
    """Where the requests of some classes go."""

    name: str  # letters, digits and dashes
    classes: tuple[str, ...]
    host: str
    port: int
    model: str  # as its server is asked for it


def nginx_conf(routes: Sequence[Route], listen: str = f"{LOCAL}:{PORT}") -> str:
    """A complete nginx.conf, for nginx 1.18 and later."""
    lines = [
        "# a path for each class, /CLASS/v1/...; /v1/... goes by the header X-Class",
        "worker_processes auto;",
        "events { worker_connections 1024; }",
        "http {",
        "    access_log off;",
        *(
            f"    upstream {route.name} {{ server {route.host}:{route.port}; keepalive 32; }}"
            for route in routes
        ),
        "    map $http_x_class $by_class {",
        f"        default {routes[0].name};",
        *(f"        {name} {route.name};" for route in routes for name in route.classes),
        "    }",
        "    server {",
        f"        listen {listen};",
        "        client_max_body_size 64m;",
        "        # answers are streamed, and a long one may take minutes",
        "        proxy_http_version 1.1;",
        '        proxy_set_header Connection "";',
        "        proxy_set_header Host $host;",
        "        proxy_buffering off;",
        "        proxy_request_buffering off;",
        "        proxy_read_timeout 1h;",
        "        proxy_send_timeout 1h;",
        '        location = /healthz { return 200 "ok\\n"; }',
    ]
    for route in routes:
        lines += [
            f"        location /{name}/ {{ proxy_pass http://{route.name}/; }}"
            for name in route.classes
        ]
    lines += ["        location / { proxy_pass http://$by_class; }", "    }", "}"]
    return "\n".join(lines) + "\n"


def litellm_yaml(routes: Sequence[Route]) -> str:
    """A configuration of the LiteLLM proxy: the model's name is the class's."""
    rows: list[dict[str, Any]] = [
        {
            "model_name": name,
            "litellm_params": {
                "model": f"openai/{route.model}",
                "api_base": f"http://{route.host}:{route.port}/v1",
                "api_key": "none",
            },
        }
        for route in routes
        for name in route.classes
    ]
    head = [
        f"pip install 'litellm[proxy]', then: litellm --config litellm.yaml --host {LOCAL} "
        f"--port {PORT}",
        "ask for the class as the model; the servers ask for no key unless theirs is set",
    ]
    return document({"model_list": rows}, head)


def compose_service() -> dict[str, Any]:
    """The router's service. It shares the machine's network, on which the servers' ports are open
    to this machine only.
    """
    return {
        "image": IMAGE,
        "network_mode": "host",
        "volumes": ["./nginx.conf:/etc/nginx/nginx.conf:ro"],
        "restart": "unless-stopped",
    }


def quadlet_unit(servers: Sequence[str]) -> str:
    """The router as a Podman Quadlet beside the servers' units."""
    after = " ".join(f"{name}.service" for name in servers)
    return "\n".join(
        [
            "# the router in front of the servers; nginx.conf lies beside this file",
            "[Unit]",
            "Description=router",
            f"After={after}",
            "",
            "[Container]",
            "ContainerName=router",
            f"Image=docker.io/library/{IMAGE}",
            "Network=host",
            "Volume=%E/containers/systemd/nginx.conf:/etc/nginx/nginx.conf:ro,Z",
            "",
            "[Service]",
            "Restart=on-failure",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        ]
    )


def kubernetes(routes: Sequence[Route]) -> str:
    """The router as ConfigMap, Deployment and Service."""
    label = {"app": "router"}
    meta = {"name": "router", "labels": label}
    container = {
        "name": "nginx",
        "image": IMAGE,
        "ports": [{"containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": PORT}},
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [
            {"name": "conf", "mountPath": "/etc/nginx/nginx.conf", "subPath": "nginx.conf"}
        ],
    }
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [{"name": "conf", "configMap": {"name": "router"}}],
    }
    parts: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {"nginx.conf": nginx_conf(routes, str(PORT))},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": label},
                "template": {"metadata": {"labels": label}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": label, "ports": [{"port": PORT, "targetPort": PORT}]},
        },
    ]
    return "---\n".join(document(part) for part in parts)
