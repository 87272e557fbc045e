"""Every file of plans for several workloads, given to the tool that will read it, as deploy_tools
does for one server; `.ci/deploy-tools` calls it.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from advisor.advice.explore.mix import WorkClass, WorkMix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.domain.nouns import AdvisorError
from advisor.render.explore.plan_folder import FORMS, folder
from tests.real import deploy_tools

LONG = WorkClass(name="documents", concurrency=4, ctx_tokens=8192, workload="rag")
CHAT = WorkClass(name="chat", concurrency=8, ctx_tokens=2048, output_tokens=256, workload="chat")
MIXES = (
    WorkMix(hardware="gb10", engine="vllm", classes=(CHAT, LONG)),
    WorkMix(
        hardware="h100",
        gpus=2,
        interconnect="nvlink",
        model="qwen3.6-27b",
        classes=(CHAT, LONG),
    ),
    WorkMix(hardware="h200", engine="sglang", classes=(CHAT, LONG)),
    WorkMix(hardware="mi300x", gpus=2, classes=(CHAT, LONG)),
    WorkMix(hardware="rtx3090", gpus=2, engine="llama-server", classes=(CHAT, LONG)),
)


def nginx(path: Path) -> str:
    """What `nginx -t` says; a missing nginx is an error."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        return "nginx is not installed"
    head = f"pid {path.parent}/nginx.pid;\nerror_log {path.parent}/error.log;\n"
    text = path.read_text()
    path.write_text(head + text)
    said = deploy_tools.run([program, "-t", "-c", str(path)], path.parent)
    path.write_text(text)
    return said


def tool(name: str):  # type: ignore[no-untyped-def]
    """The check of a file, by its name; None for what only people and programs of their own
    read.
    """
    if name == "docker-compose.yml":
        return deploy_tools.compose
    if name == "nginx.conf":
        return nginx
    if name == "serve.yaml":
        return deploy_tools.ray
    if name.endswith(".sh"):
        return deploy_tools.bash
    return deploy_tools.kubernetes if name.startswith(("deployment", "router")) else None


def main() -> int:
    counts: dict[str, list[int]] = {}
    for mix in MIXES:
        made = plan_mix(mix)
        for form in FORMS:
            for number, layout in enumerate(made.layouts):
                try:
                    files = folder(made, form, number)
                except AdvisorError:
                    continue
                with tempfile.TemporaryDirectory() as place:
                    for name, text in files.items():
                        (Path(place) / name).write_text(text)
                    for name in files:
                        check = tool(name)
                        if check is None:
                            continue
                        said = check(Path(place) / name)
                        count = counts.setdefault(check.__name__, [0, 0])
                        count[0] += not said
                        count[1] += 1
                        if said:
                            print(f"{form} {layout.title} {name}: {said[:1000]}", file=sys.stderr)
    print(json.dumps({kind: f"{good} of {all_}" for kind, (good, all_) in counts.items()}))
    wanted = {"compose", "nginx", "ray", "bash", "kubernetes"}
    few = sorted(wanted - counts.keys())
    if few:
        print(f"no file to judge: {', '.join(few)}", file=sys.stderr)
    return 1 if few or any(good != all_ for good, all_ in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
