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


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve <your-model> --host <host_ip> --port <PORT>\n",
        "vllm serve <org>/<model> --tensor-parallel-size <N>\n",
        "export RANK=<0_TO_7>\nvllm serve Qwen/Qwen3.6-27B --node-rank $RANK\n",
        "vllm serve Qwen/Qwen3.6-27B --speculative-config "
        '\'{"method":"mtp","num_speculative_tokens":<k>}\'\n',
        "vllm serve Qwen/Qwen3.6-27B --speculative-config "
        '\'{"method":"mtp","num_speculative_tokens":{{ k }}}\'\n',
        "vllm serve Qwen/Qwen3.6-27B --speculative-config "
        '\'{"method":"mtp","num_speculative_tokens":2, ...}\'\n',
        "vllm serve {{ vllm_model }} --port {{ vllm_port }} --max-model-len ${{ inputs.ctx }}\n",
        "llama-server -m {model_path} --parallel {slots} -c {ctx} --spec-type draft-mtp\n",
        "llama-server -m <model.gguf> --spec-type draft-mtp --parallel 1\n",
    ],
)
def test_placeholders_are_no_mistakes(text: str) -> None:
    assert not {"SD101", "SD107", "SD108", "SD109", "SD115", "SD213"} & codes(text, "run.sh")


def test_redirections_are_still_redirections() -> None:
    launch = one("vllm serve Qwen/Qwen3.6-27B --port 1 <input >log 2>&1\n", "a.sh")
    assert [flag.name for flag in launch.flags if flag.name != "--model"] == [
        "--port"
    ] and launch.model == "Qwen/Qwen3.6-27B"


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


def test_a_text_that_is_filled_elsewhere() -> None:
    text = (
        'TEMPLATE = "vllm serve {model} --max-model-len {n} --speculative-config '
        '\'{{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":2}}\'"\n'
    )
    assert value(one(text, "a.py"), "--speculative-config") == MTP % 2
    assert not {"SD109", "SD107"} & codes(text, "a.py")


def test_a_program_that_is_imported() -> None:
    text = (
        "import os, subprocess\nfrom common import VLLM_EXE, MODEL\nenv = "
        'os.environ.copy()\nenv["VLLM_ATTENTION_BACKEND"] = "TRITON_ATTN"\n'
        'args = [str(VLLM_EXE), "serve", MODEL, "--port=1"]\nsubprocess.Popen(args, env=env)\n'
    )
    launch = one(text, "a.py")
    assert launch.engine == "vllm" and launch.env_value("VLLM_ATTENTION_BACKEND") == "TRITON_ATTN"


def test_ellipsis_and_arguments_are_unknown() -> None:
    text = (
        'from vllm import LLM\nllm = LLM(model=..., runner=..., speculative_config={"method": '
        '"mtp", "num_speculative_tokens": args.k})\n'
    )
    assert not {"SD107", "SD115", "SD109"} & codes(text, "a.py")


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


def test_documents() -> None:
    fenced = "```%s\nvllm serve Qwen/Qwen3.6-27B --gpu-memory-utilization 0.9 --port %d\n```\n"
    text = (
        fenced % ("bash", 1)
        + fenced % ("sh", 2)
        + '```toml\nmodel = "x"\nmodel_provider = "vllm"\n[p.vllm]\nname = "v"\n```\n'
    )
    assert [launch.form for launch in launches(text, "README.md")] == ["document", "document"]
    assert not {"SD306", "SD101"} & codes(text, "README.md")


def test_settings_of_other_programs_are_no_presets() -> None:
    assert not launches(
        '[profile]\nmodel = "qwen"\nmodel_provider = "vllm"\napproval_policy = '
        '"never"\nsandbox = 1\n',
        "config.ini",
    )
    assert (
        one(
            "[qwen]\nmodel = /m/Qwen3.6-27B.gguf\nctx-size = 4096\nnot-an-option = 1\n",
            "presets.ini",
        ).engine
        == "llama-server"
    )


def test_a_default_is_no_part_of_a_model_name() -> None:
    text = (
        'REPO="${REPO:-cyankiwi/Qwen3.6-35B-A3B-AWQ-4bit}"\nP="$(pwd)/models/${REPO##*/}"\n'
        'vllm serve "$P" --port 1\n'
    )
    assert not (one(text, "a.sh").model or "").startswith("-")


def test_nodes_of_one_cluster_do_not_share_a_device() -> None:
    serve = (
        "vllm serve Qwen/Qwen3.6-27B --gpu-memory-utilization 0.9 --port %d "
        "--data-parallel-address 10.0.0.1 %s"
    )
    assert "SD306" not in codes("\n".join((serve % (1, "&"), serve % (2, "--headless"))), "a.sh")


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


def test_expressions_of_a_pipeline() -> None:
    text = (
        "jobs:\n  a:\n    steps:\n      - run: |\n          vllm serve m/Qwen3.6-27B "
        '--speculative-config \'{"method":"mtp","num_speculative_tokens":${{ matrix.k }}}\'\n'
    )
    report = validate(text=text, name="ci.yml")
    assert report.launches[0].plan.method == "mtp" and not {
        finding.code for finding in report.findings
    } & {
        "SD109",
        "SD115",
    }


def test_a_container_task() -> None:
    text = (
        "- hosts: gpu\n  tasks:\n    - name: run\n      community.docker.docker_container:\n     "
        "   image: vllm/vllm-openai:v0.25.1\n"
        "        command: >-\n          --model m/Qwen3.6-27B --max-num-seqs 16\n"
    )
    launch = one(text, "play.yml")
    assert (launch.engine_version, value(launch, "--max-num-seqs")) == ("0.25.1", "16")


def test_a_chart_that_keeps_the_command_in_the_image() -> None:
    text = (
        "image:\n  repository: vllm/vllm-openai\n  tag: v0.25.1\n"
        '  command: ["vllm", "serve", "/data/", "--port", "1"]\nreplicaCount: 1\n'
    )
    assert one(text, "values.yaml").engine_version == "0.25.1"


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


def test_a_flag_without_a_place_stands_at_its_command() -> None:
    text = (
        "FROM vllm/vllm-openai:v0.25.1\nENV M=m/Qwen3.6-27B\nENTRYPOINT []\n"
        'CMD ["sh", "-c", "exec vllm serve $M --hf-overrides \'{\\"a\\":1}\' --port 1"]\n'
    )
    launch = one(text, "Dockerfile")
    assert {flag.line for flag in launch.flags if flag.name != "--model"} == {4}


def test_a_release_older_than_the_catalogue_is_named() -> None:
    report = validate(
        text="docker run vllm/vllm-openai:v0.17.1 --model Qwen/Qwen3.6-27B --enable-reasoning\n",
        name="a.sh",
    )
    assert any("v0.17.1 is not in the catalogue" in finding.message for finding in report.findings)


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
