"""Every form of deployment, given to the tool that will read it: docker compose, systemd-analyze,
podman's quadlet generator, a strict Kubernetes validator, Ray Serve's own model and bash.

`.ci/deploy-tools` installs the tools and calls this; a tool that is missing is an error unless
`ADVISOR_SKIP` names its form.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from advisor.domain.nouns import Advice, AdvisorError
from advisor.render.forms import FORMS
from tests.grid import advices

SKIPPED = os.environ.get("ADVISOR_SKIP", "").split()  # forms
QUESTIONS = 67  # of the grid, evenly: every engine occurs
_RAY = (
    "import sys, yaml; from ray.serve.schema import ServeDeploySchema; "
    "ServeDeploySchema.model_validate(yaml.safe_load(open(sys.argv[1])))"
    " if hasattr(ServeDeploySchema, 'model_validate')"
    " else ServeDeploySchema.parse_obj(yaml.safe_load(open(sys.argv[1])))"
)


def run(command: list[str], folder: Path, env: dict[str, str] | None = None) -> str:
    """What the tool complains of; empty if it accepts."""
    made = subprocess.run(command, cwd=folder, env={**os.environ, **(env or {})},
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    said = (made.stdout + made.stderr).strip()
    return said or f"exit status {made.returncode}" if made.returncode else ""


def compose(path: Path) -> str:
    return run([os.environ["DOCKER_COMPOSE"], "-f", path.name, "--profile", "*", "config", "-q"],
               path.parent, {"HF_TOKEN": "x", "VLLM_API_KEY": "x", "API_KEY": "x"})  # fmt: skip


def systemd(path: Path) -> str:
    """systemd-analyze needs the program of ExecStart to exist: a stand-in of that name."""
    text = path.read_text()
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    program = start.removeprefix("ExecStart=").lstrip("-@:+!").split()[0].strip('"')
    path.write_text(text.replace(program, "/bin/true", 1))
    made = subprocess.run(["systemd-analyze", "verify", "--man=no", path.name], cwd=path.parent,
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    # an unknown key is a warning there, and the exit status stays 0
    ours = [line for line in made.stderr.splitlines() if path.name in line or path.stem in line]
    return "\n".join(ours) or ("" if not made.returncode else made.stderr or "exit status")


def quadlet(path: Path) -> str:
    """Its warnings count too: it exits 0 for an image without its registry."""
    made = subprocess.run([os.environ["QUADLET"], "-dryrun", "-user"], cwd=path.parent,
                          env={**os.environ, "QUADLET_UNIT_DIRS": str(path.parent)},
                          capture_output=True, text=True, timeout=600, check=False)  # fmt: skip
    warned = [line for line in made.stderr.splitlines() if "warning" in line.lower()]
    return "\n".join(warned) or (made.stderr.strip() or "exit status" if made.returncode else "")


def program(*words: str) -> Callable[[Path], str]:
    """A program that takes the file's name; one in capitals is named by the environment."""
    return lambda path: run([*(os.environ.get(w, w) for w in words), path.name], path.parent)


TOOLS: dict[str, Callable[[Path], str]] = {
    "docker-run": program("bash", "-n"), "compose": compose, "systemd": systemd, "quadlet": quadlet,
    "k8s": program("KUBERNETES_VALIDATE", "--strict"), "ray": program("RAY_PYTHON", "-c", _RAY),
}  # fmt: skip
# what each tool must refuse: a check that accepts everything proves nothing
BROKEN = {
    "docker-run": "docker run 'unclosed",
    "compose": "services:\n  llm:\n    image: x\n    prots: [80]\n",
    "systemd": "[Service]\nExecStrat=/x\nExecStart=/x\n",
    "quadlet": "[Container]\nImage=vllm/vllm-openai:v0.32.0\n",  # a warning, and exit status 0
    "k8s": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {replicas: many}\n",
    "ray": "applications:\n- route_prefix: /\n",
}


def check(form: str, text: str) -> str:
    """What the form's tool complains of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / FORMS[form].file
        path.write_text(text)
        return TOOLS[form](path)


def main() -> int:
    answered = [held for _, held in advices(0, 2000 // QUESTIONS) if isinstance(held, Advice)]
    counts: dict[str, list[int]] = {}
    for form in TOOLS.keys() & set(SKIPPED):
        print(f"NOT CHECKED, as ADVISOR_SKIP says: {form}", file=sys.stderr)
        del TOOLS[form], BROKEN[form]
    blind = [form for form, text in BROKEN.items() if not check(form, text)]
    if blind:
        print(f"accepted a broken file: {', '.join(blind)}", file=sys.stderr)
        return 1
    for form in TOOLS:
        for number, advice in enumerate(answered):
            try:
                text = FORMS[form].write(advice)
            except AdvisorError:  # the form cannot hold the answer
                continue
            complaint = check(form, text)
            count = counts.setdefault(form, [0, 0])
            count[0] += not complaint
            count[1] += 1
            if complaint:
                print(f"{form}, question {number}: {complaint[:2000]}\n{text}", file=sys.stderr)
    print(json.dumps({kind: f"{good} of {all_}" for kind, (good, all_) in counts.items()}))
    few = [form for form in TOOLS if counts.get(form, [0, 0])[1] < len(answered) // 4]
    if few:
        print(f"too few files to judge: {', '.join(few)}", file=sys.stderr)
    return 1 if few or any(good != all_ for good, all_ in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
