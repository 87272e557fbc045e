"""The compose files of plans for several workloads and the router in them, given to the tools that
will read them, as deploy_tools does for one server; `.ci/deploy-tools` calls it.
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import yaml

from advisor.advice.explore.mix import WorkClass, WorkMix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.render.explore.plan import plan_compose
from tests.real import deploy_tools

LONG = WorkClass(name="documents", concurrency=4, ctx_tokens=8192, workload="rag")
CHAT = WorkClass(name="chat", concurrency=8, ctx_tokens=2048, output_tokens=256, workload="chat")
MIXES = (
    WorkMix(hardware="gb10", engine="vllm", classes=(CHAT, LONG)),
    WorkMix(
        hardware="h100", gpus=2, interconnect="nvlink", model="qwen3.6-27b", classes=(CHAT, LONG)
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


def main() -> int:
    counts: dict[str, list[int]] = {}
    for mix in MIXES:
        plan = plan_mix(mix)
        for number, layout in enumerate(plan.layouts):
            if not layout.instances:
                continue
            text = plan_compose(plan.model_copy(update={"chosen": number}))
            conf = yaml.safe_load(text)["configs"]["router"]["content"].replace("$$", "$")
            with tempfile.TemporaryDirectory() as place:
                for name, content, check in (
                    ("docker-compose.yml", text, deploy_tools.compose),
                    ("nginx.conf", conf, nginx),
                ):
                    path = Path(place) / name
                    path.write_text(content)
                    problem = check(path)
                    count = counts.setdefault(check.__name__, [0, 0])
                    count[0] += not problem
                    count[1] += 1
                    if problem:
                        print(f"{layout.title} {name}: {problem[:1000]}", file=sys.stderr)
    print(json.dumps({kind: f"{good} of {all_}" for kind, (good, all_) in counts.items()}))
    return 1 if not counts or any(good != all_ for good, all_ in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
