"""Advice -> a complete docker-compose.yml for one machine.

Every string is quoted and every `$` doubled, so that compose takes the words of the launch as they
are.
"""

from __future__ import annotations

from typing import Any

from advisor.advice.recommend import recommend
from advisor.domain.nouns import Advice, Request
from advisor.render import notes, serving
from advisor.render.flags import program
from advisor.render.yaml_text import Noted, document

FORM = "a compose file"
_DOLLAR = ("$", "$$")
_SHM = {"vllm": "8gb", "sglang": "8gb"}
_SHM_MANY = "16gb"


def compose(request: Request | None = None, **fields: Any) -> str:
    """A docker-compose file for the launch that `recommend` answers with; the same arguments."""
    return compose_yaml(recommend(request, **fields))


def compose_yaml(advice: Advice) -> str:
    """The compose file for `advice.launch`.

    Raises AdvisorError where no container reaches the accelerator (Apple), no pinned image is
    known, or the launch spans several machines.
    """
    maker = serving.vendor(advice, FORM)
    service = {"image": Noted(serving.image(advice, FORM), notes.IMAGE), **_command(advice)}
    service |= _gpus(advice, maker)
    service |= _surroundings(advice)
    data: dict[str, Any] = {"services": {advice.plan.engine.replace(".", "-"): service}}
    if advice.plan.engine == "vllm":
        data["volumes"] = {"compile-cache": {}}
    return document(data, serving.title(advice, "compose"))


def _command(advice: Advice) -> dict[str, Any]:
    launch = serving.container_launch(advice)
    words = serving.noted_words(advice, launch, _DOLLAR)
    start = list(program(launch.argv))
    if advice.plan.engine == "vllm":
        return {
            "entrypoint": Noted(
                start, "written out: the image's own entrypoint differs between versions"
            ),
            "command": words,
        }
    if advice.plan.engine == "sglang":
        return {"command": [*start, *words]}
    return {"command": Noted(words, "the image starts llama-server itself")}


def _gpus(advice: Advice, maker: str) -> dict[str, Any]:
    if maker == "nvidia":
        device = {"driver": "nvidia", "count": serving.gpu_count(advice), "capabilities": ["gpu"]}
        return {"deploy": {"resources": {"reservations": {"devices": [device]}}}}
    if maker == "amd":
        return {
            "devices": ["/dev/kfd:/dev/kfd", "/dev/dri:/dev/dri"],
            "group_add": ["video"],
            "security_opt": ["seccomp:unconfined"],
        }
    return {"devices": ["/dev/dri:/dev/dri"]}


def _surroundings(advice: Advice) -> dict[str, Any]:
    plan, port = advice.plan, serving.port(advice)
    shm = _SHM_MANY if serving.gpu_count(advice) > 1 else _SHM.get(plan.engine, "1gb")
    test = ["CMD", "curl", "-fsS", f"http://127.0.0.1:{port}{serving.HEALTH_PATH}"]
    env: dict[str, Any] = {
        name: value.replace(*_DOLLAR) for name, value in advice.launch.env.items()
    }
    env["HF_TOKEN"] = Noted(None, "taken from your shell if it is set there")
    return {
        "shm_size": Noted(shm, notes.SHM),
        "ports": Noted(
            [f"127.0.0.1:{port}:{port}"], "this machine only; drop the address to serve the network"
        ),
        "volumes": _volumes(plan.engine),
        "environment": env,
        "healthcheck": {
            "test": test,
            "interval": "15s",
            "timeout": "10s",
            "retries": 4,
            "start_period": Noted(
                f"{serving.startup_seconds(advice)}s",
                "download, load, compile and graph capture come before the first answer",
            ),
        },
        "restart": "unless-stopped",
    }


def _volumes(engine: str) -> list[str]:
    cache = ["~/.cache/huggingface:/root/.cache/huggingface"]
    if engine == "vllm":
        return [*cache, "compile-cache:/root/.cache/vllm"]
    return cache if engine == "sglang" else [*cache, "~/.cache/llama.cpp:/root/.cache/llama.cpp"]
