"""The router in front of the servers of a plan: nginx. Each class has a path (`/chat/v1/...`);
`/v1/...` goes by the header `X-Class`, without one to the first class.
"""

from collections.abc import Sequence

from advisor.domain.records import NamedTuple

PORT = 9000
IMAGE = "docker.io/library/nginx:1.28.0-alpine"


class Route(NamedTuple):
    """Where the requests of some classes go."""

    name: str  # letters, digits and dashes
    classes: tuple[str, ...]
    host: str
    port: int


def nginx_conf(routes: Sequence[Route], listen: str = f"127.0.0.1:{PORT}") -> str:
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
