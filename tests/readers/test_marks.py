"""Commands whose values another program fills in: make, just, supervisord, str.format,
placeholders, PowerShell, YAML texts.
"""

from __future__ import annotations

import pytest
from effort import at_most

from advisor.domain.nouns import Launch
from advisor.lint.validate import validate
from advisor.readers import read_text

MTP = '{"method":"mtp","num_speculative_tokens":%s}'


def launches(text: str, name: str = "-") -> list[Launch]:
    return list(read_text(text, name).launches)


def one(text: str, name: str = "-") -> Launch:
    found = launches(text, name)
    assert len(found) == 1, [(launch.engine, launch.line, launch.model) for launch in found]
    return found[0]


def value(launch: Launch, name: str) -> str | None:
    flag = launch.flag(name)
    return flag.value if flag is not None else None


def codes(text: str, name: str = "-") -> set[str]:
    return {finding.code for finding in validate(text=text, name=name).findings}


# ---------------------------------------------------------------- make and just

MAKE = """MODEL ?= Qwen/Qwen3.6-27B-FP8  # which
K = 2
SPEC := '{"method":"mtp","num_speculative_tokens":$(K)}'
export VLLM_LOGGING_LEVEL = INFO

.PHONY: serve
serve: ## start it
\t@echo "starting $(MODEL)"
\t-@CUDA_VISIBLE_DEVICES=0 vllm serve $(MODEL) \\
\t\t--served-model-name $$(hostname) --port ${PORT} \\
\t\t--speculative-config $(SPEC)

%s
"""


@pytest.mark.parametrize("name", ["Makefile", "deploy/GNUmakefile", "serve.mk", "-"])
def test_makefile(name: str) -> None:
    launch = one(MAKE % "", name)
    assert (launch.engine, launch.model, launch.line) == ("vllm", "Qwen/Qwen3.6-27B-FP8", 9)
    assert value(launch, "--speculative-config") == MTP % 2
    assert launch.env_value("VLLM_LOGGING_LEVEL") == "INFO"
    port, name_flag = launch.flag("--port"), launch.flag("--served-model-name")
    assert port is not None and port.unresolved and name_flag is not None and name_flag.unresolved


def test_make_functions_and_cycles_are_unknown() -> None:
    launch = one(
        "A = $(B)\nB = $(A)\nN := $(shell nvidia-smi -L | wc -l)\nx:\n\tvllm serve "
        "Qwen/Qwen3.6-27B -tp $(N) --port $(A)\n",
        "Makefile",
    )
    assert all(
        flag.unresolved
        for flag in launch.flags
        if flag.name in ("--tensor-parallel-size", "--port")
    )


def test_make_fix_edits_the_variable() -> None:
    text = (
        "FLAGS = --draft-max 4 -c 4096\nx:\n"
        "\tllama-server -m a-MTP-Q4.gguf --spec-type draft-mtp --parallel 1 $(FLAGS)\n"
    )
    report = validate(text=text, name="Makefile")
    edits = [
        edit
        for found in report.findings
        if found.code == "SD102" and found.fix
        for edit in found.fix.edits
    ]
    assert [text[edit.start : edit.end] for edit in edits] == ["--draft-max"]


# ---------------------------------------------------------------- marks that stay open


# ---------------------------------------------------------------- Python


def test_str_format() -> None:
    text = (
        'import os\nCMD = "vllm serve {model} --port {} --speculative-config '
        '\'{{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":{k}}}\'"\n'
        'os.system(CMD.format(8000, model="Qwen/Qwen3.6-27B", k=2))\n'
    )
    launch = one(text, "a.py")
    assert launch.model == "Qwen/Qwen3.6-27B" and value(launch, "--port") == "8000"
    assert value(launch, "--speculative-config") == MTP % 2


# ---------------------------------------------------------------- YAML that holds commands,
# documents


@pytest.mark.parametrize(
    "text",
    [
        "deployment:\n  - server_cmd: >\n      vllm serve Qwen/Qwen3.6-27B\n      --port 1\n     "
        " --additional-config\n        '{\"a\":true}'\n",
        "serveCommand: vllm serve Qwen/Qwen3.6-27B --port 1\nreplicas: 2\n",
        "job:\n  script:\n    - pip install vllm\n    - M=Qwen/Qwen3.6-27B\n    - vllm serve $M "
        "--port 1\n",
        "runcmd:\n  - [apt-get, update]\n  - vllm serve Qwen/Qwen3.6-27B --port 1\n",
        "write_files:\n  - path: /etc/systemd/system/vllm.service\n    content: |\n      "
        "[Service]\n      ExecStart=/usr/bin/vllm serve Qwen/Qwen3.6-27B --port 1\n",
        "guide: |\n  ## Start\n\n  ```bash\n  vllm serve Qwen/Qwen3.6-27B \\\n    --port "
        "1\n  ```\n",
        "envs:\n  M: Qwen/Qwen3.6-27B\nrun: |\n  vllm serve $M --port 1\n",
    ],
)
def test_commands_in_yaml(text: str) -> None:
    launch = one(text, "x.yaml")
    assert launch.model == "Qwen/Qwen3.6-27B" and value(launch, "--port") == "1"
    assert "SD108" not in codes(text, "x.yaml")


# ---------------------------------------------------------------- files that other files hold or
# make


def test_a_script_that_writes_a_unit() -> None:
    text = (
        "D=/opt/models\nF=Qwen3.6-27B-MTP-Q4_K_M.gguf\ncat > /etc/systemd/system/x.service <<EOF\n"
        "[Unit]\nDescription=x\n\n[Service]\nExecStart=/usr/local/bin/llama-server \\\\\n"
        "    --model ${D}/${F} \\\\\n    --threads $(nproc) --host \\$HOST\nEOF\n"
    )
    launch = one(text, "install.sh")
    assert launch.model == "/opt/models/Qwen3.6-27B-MTP-Q4_K_M.gguf"
    threads, host = launch.flag("--threads"), launch.flag("--host")
    assert threads is not None and threads.unresolved and host is not None and not launch.notes


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vllm.service.j2", "[Service]\nExecStart=/x/vllm serve {{ model }} --port 1\n"),
        (
            "docker-compose.yml.example",
            "services:\n  v:\n    image: vllm/vllm-openai:v0.25.1\n    command: --model "
            "m/Qwen3.6-27B --port 1\n",
        ),
        ("run.sh.template", "exec vllm serve ${MODEL} --port 1 $EXTRA\n"),
    ],
)
def test_templates_of_files(name: str, text: str) -> None:
    assert value(one(text, name), "--port") == "1"


def test_speculation_in_an_env_file() -> None:
    text = (
        "VLLM_IMAGE=vllm/vllm-openai:v0.25.1\nMODEL_ID=m/Qwen3.6-27B\nVLLM_SPECULATIVE_CONFIG='"
        + MTP % 4
        + "'\nVLLM_ATTENTION_BACKEND=FLASHINFER\n"
    )
    launch = one(text, ".env")
    assert (
        value(launch, "--speculative-config") == MTP % 4
        and launch.flag("--attention-backend") is None
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.ps1", "$x = 1" + " " * 200_000 + "y\n& llama-server -m a.gguf\n"),
        ("a.ps1", "[int]" * 5_000 + "x = 1\n" + "@(" * 3_000 + "\n"),
        ("a.cmd", "set A=1" + " " * 200_000 + "y\nllama-server.exe -m a.gguf\n"),
        (
            "Makefile",
            "A = " + "$(A)" * 3_000 + "\nB = " + "$(" * 3_000 + "\nx:\n\tvllm serve $(A) $(B)\n",
        ),
        ("Makefile", "x:\n" + "\tvllm serve m --port 1 \\\n" * 2_000),
        (
            "justfile",
            "x := "
            + '"a" + ' * 5_000
            + '"b"\ns a='
            + "(" * 1_000
            + ":\n    vllm serve {{x}} "
            + "{{" * 5_000
            + "\n",
        ),
        ("a.sh", "vllm serve " + "<a" * 50_000 + "\n" + "{{a" * 20_000 + "\n"),
        ("a.rst", (".. code-block:: sh\n" + "   vllm serve m\n") * 600),
        ("a.yaml", "a:\n  command: vllm serve m --gpu-memory-utilization 0.9\n" * 500),
    ],
    ids=range(9),
)
def test_hostile_texts_take_no_time(name: str, text: str) -> None:
    with at_most(400):
        validate(text=text, name=name)
