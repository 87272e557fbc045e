"""Each form in which people keep launch commands: engine, arguments, environment, container and
places.
"""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from advisor.domain.nouns import Launch
from advisor.readers import read_text
from advisor.readers.dispatch import form_of
from tests.tables import load_yaml


def one(text: str, name: str = "-") -> Launch:
    read = read_text(text, name)
    assert len(read.launches) == 1, [(launch.engine, launch.line) for launch in read.launches]
    return read.launches[0]


def values(launch: Launch) -> dict[str, str | None]:
    return {flag.name: flag.value for flag in launch.flags}


FORMS = load_yaml(Path(__file__).with_name("spellings.yaml"))


@pytest.mark.parametrize("name", FORMS)
def test_form(name: str) -> None:
    file, engine, model, line, flags, text = FORMS[name].values()
    launch = one(text, file)
    assert (launch.engine, launch.model, launch.line) == (engine, model, line)
    assert {key: values(launch).get(key) for key in flags} == flags


def test_anchors_and_several_services() -> None:
    text = (
        "x-b: &b\n  image: vllm/vllm-openai:v0.25.1\n  ipc: host\n  environment: &e {A: '1'}\n"
        "services:\n  a:\n    <<: *b\n    command: [--model, m/A]\n  b:\n    <<: *b\n"
        "    environment:\n      <<: *e\n      B: '2'\n    command: >\n      --model m/B\n"
    )
    first, second = read_text(text).launches
    assert (first.model, second.model) == ("m/A", "m/B")
    assert first.container.ipc_host and first.container.name == "a"
    assert {var.name for var in second.env} == {"A", "B"}


SCRIPTS = load_yaml(Path(__file__).with_name("scripts.yaml"))["bash"].splitlines()


@pytest.mark.parametrize("line", SCRIPTS)
def test_a_variable_is_what_bash_makes_of_it(line: str) -> None:
    text = f"{line.removeprefix('? ')}\nvllm serve m --port $P\n"
    words = ["env", "-i", "bash", "-c", 'vllm() { echo "$4"; }\n' + text]
    made = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    flag = one(text, "a.sh").flag("--port")
    assert made and flag and (flag.value == made) != flag.unresolved == line.startswith("? ")


def test_what_is_not_set_is_unresolved_and_never_guessed() -> None:
    launch = read_text("vllm serve m/A --max-num-seqs $N $EXTRA --port 1 ${OPTS}\n").launches[0]
    flag = launch.flag("--max-num-seqs")
    assert flag.unresolved and flag.value == "${N}" and values(launch)["--port"] == "1"
    assert all(any(x in note for note in launch.notes) for x in ("EXTRA", "OPTS"))


COUNT = "nvidia-smi -L | wc -l"


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        (f"vllm serve m/A -tp $({COUNT}) --port 1", "-", COUNT),
        (f"vllm serve m/A -tp `{COUNT}` --port 1", "-", COUNT),
        (f"vllm serve m/A -tp ${{TP:-$({COUNT})}} --port 1", "-", COUNT),
        (f"A=(-tp $({COUNT}))\nvllm serve m/A ${{A[@]}} --port 1\n", "a.sh", COUNT),
        ("kind: Pod\napiVersion: v1\nspec:\n  containers:\n  - image: i\n"
         f"    args: [sh, -c, 'vllm serve m/A -tp $({COUNT}) --port 1']\n", "a.yaml", COUNT),
    ],
)  # fmt: skip
def test_what_a_command_prints_is_one_value(text: str, name: str, shown: str) -> None:
    launch = one(text, name)
    flag = launch.flag("--tensor-parallel-size")
    assert flag.unresolved and flag.value == f"${{({shown})}}"
    assert values(launch) == {"--model": "m/A", "--tensor-parallel-size": flag.value, "--port": "1"}


@pytest.mark.parametrize("remark", ["`# number of seqs`", "$(: number of seqs)", "`#`", "`: x`"])
def test_comments_among_the_options(remark: str) -> None:
    launch = one(f"vllm serve m/A \\\n --max-num-seqs 4 {remark} \\\n --port 1 {remark}\n", "a.sh")
    assert (
        values(launch) == {"--model": "m/A", "--max-num-seqs": "4", "--port": "1"}
        and not launch.notes
    )
    assert launch.flag("--port").line == 3


SERVE = {"--model": "m/A", "--port": "1", "--max-num-seqs": "4"}
PIECES = {
    "f-string": 'm = "m/A"\nos.system(f"vllm serve m/A --port 1 --max-num-seqs {4} -tp {n}")\n',
    "f-string of a format": 'os.system(f"vllm serve {m} --port 1 --max-num-seqs {4:{w}}")\nm, w '
    '= "x", 2\n'.replace("{m}", "m/A"),
    "sum": 'm = "m/A"\nos.system("vllm serve " + m + " --port 1" + " --max-num-seqs " + str(4))\n',
    "percent": 'os.system("vllm serve m/A --port %d --max-num-seqs %s" % (1, "4"))\n',
    "grown text": 'cmd = "vllm serve m/A --port 1"\nif True:\n    cmd += " --max-num-seqs '
    '4"\nos.system(cmd)\n',
    "assigned sum": 'cmd = "vllm serve m/A --port 1"\ncmd = cmd + " --max-num-seqs" + " 4"\n',
    "sum of a name": 'cmd = "vllm serve m/A --port 1"\nsubprocess.run(cmd + " --max-num-seqs 4", '
    "shell=True)\n",
    "option of a condition": 'cmd = "vllm serve m/A --port 1" + (" --max-num-seqs 4" if x '
    'else "")\n',
}


@pytest.mark.parametrize("name", PIECES)
def test_a_python_text_is_read_once_and_whole(name: str) -> None:
    found = values(one("import os, subprocess\n" + PIECES[name], "a.py"))
    found.pop("--tensor-parallel-size", None)
    assert found == SERVE


@pytest.mark.parametrize(
    "program",
    ["LLM(model='m/A', speculative_config=dict(method='mtp', num_speculative_tokens=2))",
     "k = {'model': 'm/A'}\nk['speculative_config'] = {'method': 'mtp'}\n"
     "k['speculative_config']['x'] = 1\nk['speculative_config'] = dict(method='mtp', "
     "num_speculative_tokens=2)\nLLM(**k)",
     "def f():\n  s = {'method': 'mtp'}\n  s['num_speculative_tokens'] = 2\n"
     "  k = dict(model='m/B')\n  k.update(model='m/A', speculative_config=s)\n  return LLM(**k)",
     "base = {'method': 'mtp', 'num_speculative_tokens': 1}\nk = dict(model='m/A')\n"
     "k |= {'speculative_config': {**base, 'num_speculative_tokens': 2}}\nLLM(**k)"],
)  # fmt: skip
def test_dictionaries_of_a_program(program: str) -> None:
    launch = one("from vllm import LLM\n" + program + "\n", "a.py")
    assert launch.model == "m/A"
    config = '{"method": "mtp", "num_speculative_tokens": 2}'
    assert values(launch)["--speculative-config"] == config


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("PORT := 1\nserve:\n\t@vllm serve m/A \\\n\t  --port 1\n", "Makefile"),
        ("serve:\n\t-@vllm serve m/A --port 1\n", "Makefile"),
        ("run:\n    @/opt/bin/vllm serve m/A --port 1\n", "justfile"),
        ("until vllm serve m/A --port 1; do sleep 5; done\n", "a.sh"),
        ("while ! vllm serve m/A --port 1; do sleep 5; done\n", "a.sh"),
        ("until curl -s localhost:1; do sleep 5; done\nvllm serve m/A --port 1\n", "a.sh"),
        ('sbatch -N 1 --wrap="vllm serve m/A --port 1"\n', "a.sh"),
        ("uvx vllm@0.28.0 serve m/A --port 1\n", "a.sh"),
    ],
)
def test_commands_with_something_before_them(text: str, name: str) -> None:
    launch = one(text, name)
    assert values(launch) == {"--model": "m/A", "--port": "1"}
    assert launch.line == text.count("\n", 0, text.index("vllm")) + 1
    assert launch.version_text == ("0.28.0" if "@0" in text else None)


HELM = """kind: Deployment
apiVersion: apps/v1
spec:
  containers:
  - image: vllm/vllm-openai:v0.25.1
    command: [sh, -c]
    args:
    - STYLE
{{- if .Values.top }}
      vllm serve m/A END
        {{- if .Values.spec }}
        --spec-tokens 2 END
        {{- end }}
{{ if .Values.long }}{{/* at the margin */}}
{% if x %}
        --max-num-seqs 4 END
      {{- end }}
        --served-model-name
          {{ .Values.name }} END
        --port 1
      {{- end }}
    ports: [{containerPort: 1}]
"""


@pytest.mark.parametrize(("style", "end"), [("|", "\\\\"), (">", ""), (">-", ""), ("|-", "\\\\")])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_control_lines_of_a_chart_do_not_end_a_command(style: str, end: str, newline: str) -> None:
    text = HELM.replace("STYLE", style).replace("END", end.replace("\\\\", "\\"))
    text = text.replace(
        "--served-model-name\n", "--served-model-name " + end.replace("\\\\", "\\") + "\n"
    ).replace("\n", newline)
    if style.startswith(">"):  # YAML keeps the line breaks of what stands deeper
        text = text.replace("        --", "      --").replace("          {{ .V", "      {{ .V")
    launch = one(text, "a.yaml")
    assert launch.line == 10
    assert {
        name: value for name, value in values(launch).items() if name != "--served-model-name"
    } == {"--model": "m/A", "--spec-tokens": "2", "--max-num-seqs": "4", "--port": "1"}
    assert launch.flag("--served-model-name").unresolved
    for name, line in (("--spec-tokens", 12), ("--max-num-seqs", 16), ("--port", 20)):
        flag = launch.flag(name)
        assert (flag.line, text[flag.value_span.start : flag.value_span.end]) == (line, flag.value)


def test_an_open_toggle_is_read_as_on_and_said() -> None:
    text = 'E=""\nif [ "${ON}" = 1 ]; then E="--spec-tokens 2"; fi\nvllm serve m/A $E --port 1\n'
    read = read_text(text, "a.sh")
    assert values(read.launches[0])["--spec-tokens"] == "2"
    assert any("does not decide" in note for note in read.notes)


def test_wrapper_images_pass_their_environment() -> None:
    text = (
        "services:\n  s:\n    image: x/my-sglang:latest\n    environment:\n"
        "      MODEL_ID: Qwen/Qwen3.6-27B\n      EXTRA_ARGS: ${E:---speculative-algorithm NEXTN}\n"
    )
    launch = one(text)
    assert (
        launch.model == "Qwen/Qwen3.6-27B" and values(launch)["--speculative-algorithm"] == "NEXTN"
    )


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "# image: lmsysorg/sglang:v0.5.15-cu130\npython3 -m sglang.launch_server "
            "--model-path m/A",
            "v0.5.15-cu130",
        ),
        ("pip install vllm==0.19.1\nvllm serve m/A --port 1", "0.19.1"),
        ("uv run --with vllm==0.26.0 vllm serve m/A --port 1", "0.26.0"),
        ("docker run ghcr.io/ggml-org/llama.cpp:server-cuda-b9235 -m q.gguf", "b9235"),
        ("docker run vllm/vllm-openai@sha256:663f9b2f m/A --port 1", None),
    ],
)
def test_versions(text: str, version: str | None) -> None:
    assert one(text, "a.sh" if "\n" in text else "-").version_text == version


def test_probe_and_shared_memory_of_a_deployment() -> None:
    text = (
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n"
        "      containers:\n      - image: vllm/vllm-openai:v0.25.1\n"
        "        args: [--model, m/A]\n        startupProbe: {initialDelaySeconds: 30, "
        "periodSeconds: 10, failureThreshold: 18}\n        resources: {limits: {nvidia.com/gpu: "
        "2}}\n      volumes:\n      - {name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}\n"
    )
    container = one(text).container
    assert (container.startup_budget_s, container.gpus) == (210.0, "2")
    assert (container.shm_bytes, container.shm_volume) == (8 * 2**30, True)


@pytest.mark.parametrize("flag", ["-e ", "--env ", "--env="])
def test_the_environment_of_docker_run(flag: str) -> None:
    launch = one(f"docker run {flag}HF_HOME=/x vllm/vllm-openai:v0.25.1 --model m/A\n", "-")
    assert launch.env_value("HF_HOME") == "/x"


@pytest.mark.parametrize(
    ("size", "gib"), [("16g", 16), ("512m", 0.5), ("17179869184", 16), ("1gb", 1)]
)
def test_shared_memory_of_docker_run_is_in_its_units(size: str, gib: float) -> None:
    """As docker's own RAMInBytes reads them: powers of two."""
    text = f"docker run --gpus all --shm-size {size} vllm/vllm-openai:v0.25.1 --model m/A\n"
    assert one(text, "-").container.shm_bytes == gib * 2**30


def test_a_service_that_extends_another_is_not_whole() -> None:
    text = "services:\n  a:\n    EXTENDS\n    image: vllm/vllm-openai\n    command: --model m/A\n"
    for line, whole in (("ipc: host", True), ("extends: {file: b.yaml, service: c}", False)):
        assert one(text.replace("EXTENDS", line)).container.complete is whole


MOUNTED = """apiVersion: apps/v1
kind: Deployment
spec:
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec:
      volumes: [{name: data, emptyDir: {}}]
      initContainers: [{name: i, image: busybox, volumeMounts: [{name: dat, mountPath: /d}]}]
      containers: [{name: v, image: vllm/vllm-openai, args: [--model, m/A]}]
"""
STACK = """servingEngineSpec:
  modelSpec:
  - {name: a, repository: vllm/vllm-openai, tag: v0.25.1, modelURL: m/A,
     vllmConfig: {maxmodellen: 4096}}
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [(MOUNTED, "no volume is named dat"), (STACK, "'maxModelLen' is meant")],
)
def test_a_slip_of_a_form_is_said(text: str, said: str) -> None:
    assert [said in slip.message for slip in one(text, "a.yaml").slips] == [True]


def test_configmap_and_markdown_hold_files() -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n    models:\n      q:\n"
        "        cmd: llama-server -m /m/q.gguf --spec-type draft-mtp\n"
    )
    launch = one(text)
    assert launch.engine == "llama-server" and launch.line == 7
    read = read_text(
        "# T\n```bash\nvllm serve m/A --port 1\n```\nx\n```yaml\nservices:\n  a: {image: "
        "'vllm/vllm-openai:v0.25.1', command: '--model m/B'}\n```\n",
        "a.md",
    )
    assert [found.model for found in read.launches] == ["m/A", "m/B"]


@pytest.mark.parametrize("lead", ["", "-", "@", ":", "+", "!", "!!", "-+"])
def test_the_prefixes_of_a_units_command_are_no_part_of_it(lead: str) -> None:
    text = f"[Service]\nExecStart={lead}/usr/bin/vllm serve m --port 1\n"
    assert [one.model for one in read_text(text, "a.service").launches] == ["m"]


DIFFUSION = [
    "sglang serve --model-path Qwen/Qwen-Image --num-gpus 2 --webui --port 30010",
    "sglang serve --model-path Wan-AI/Wan2.2-T2V-A14B-Diffusers --num-gpus 4 --host 0.0.0.0",
    "sglang serve --model-path black-forest-labs/FLUX.1-dev --port 3000",
    "sglang serve --model-path $MODEL --num-gpus 2 --ulysses-degree 2",
    "sglang serve --model-path /models/own --model-type diffusion",
    "docker run --gpus all lmsysorg/sglang:v0.5.15 sglang serve --model-path "
    "Tongyi-MAI/Z-Image-Turbo --num-gpus 1",
]
LANGUAGE = [
    "sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --num-gpus 2",
    "sglang serve --model-path /models/own --tp-size 2",
    "sglang serve Qwen/Qwen3-8B --model-type llm --port 30000",
    "python3 -m sglang.launch_server --model-path Qwen/Qwen3-VL-30B-A3B-Instruct --port 30000",
    "vllm serve Qwen/Qwen-Image --omni",
]


@pytest.mark.parametrize("text", [*DIFFUSION, *LANGUAGE])
def test_the_diffusion_server_alone_is_no_language_model_server(text: str) -> None:
    read = read_text(text, "a.sh")
    assert len(read.launches) == (text in LANGUAGE)
    assert any("diffusion server" in note for note in read.notes) == (text in DIFFUSION)


@pytest.mark.parametrize("case", load_yaml(Path(__file__).with_name("forms.yaml")))
def test_a_form_as_its_documentation_has_it(case: dict[str, Any]) -> None:
    launches = read_text(case["text"], case["file"]).launches
    around = [box and (box.gpus, box.name or None) for box in (one.container for one in launches)]
    rows = [
        [one.engine, one.model, *(box or (None, None)), {x.name: x.value for x in one.flags}]
        for one, box in zip(launches, around, strict=True)
    ]
    assert rows == case["launches"]
    assert [slip.message for one in launches for slip in one.slips] == case.get("slips", [])


@pytest.mark.parametrize(
    ("form", "name", "text"),
    [
        ("script", "a.sh", "vllm serve m"), ("script", "a.yaml", "vllm serve m\n"),
        ("yaml", "a.sh", "# c\nservices:\n  a: 1\n"), ("yaml", "a.yaml", "[1]"),
        ("ini", "a.sh", "[a]\nctx-size = 1\n"), ("batch", "a.sh", "vllm serve m ^\n --port 1\n"),
        ("script", "a.cmd", "vllm serve m\n"), ("batch", "a.cmd", "set A=1\n"),
        ("python", "a", "#!/usr/bin/python3\nx"), ("script", "a.yaml", "#!/bin/sh\nx"),
        ("unit", "a.ini", "[Service]\nExecStart=x\n"), ("unit", "a", "[Container]\nImage=x\n"),
        ("ini", "a.ini", "[a]\nb = 1\n"), ("yaml", "a.yaml.j2", "a: 1\n"),
        ("text", "Makefile", "a: b"), ("text", "x.mk", "a"), ("text", "justfile", "a"),
        ("dockerfile", "Dockerfile.gpu", "x"), ("dockerfile", "-", "FROM a/b:1\nCMD c\n"),
        ("env", ".env.local", "x"), ("env", "-", "A=1\nexport B=2\n"), ("script", "-", "A=1\nx\n"),
        ("markdown", "-", "# a\n```sh\nx\n```\n"), ("yaml", "-", '{"a": 1}'),
        ("ini", "-", "[a]\nmodel = b\n"), ("batch", "-", "@echo off\nx\n"), ("yaml", "-", "a:\n b"),
        ("text", "-", "a:\n\tvllm serve m\n"), ("text", "-", "a := 'b'\nc:\n    vllm {{a}}\n"),
        ("python", "-", "from vllm import LLM\nLLM(model='m')\n"), ("text", "a.ps1", "x"),
    ],
)  # fmt: skip
def test_the_form_of_a_text_by_its_name_and_what_it_says(form: str, name: str, text: str) -> None:
    assert form_of(name, text) == form
