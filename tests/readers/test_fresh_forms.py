"""Forms of public files of 2026 that no corpus holds: each was once read wrongly, or not at all."""

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text

POD = """apiVersion: v1
kind: Pod
metadata: {{name: d}}
spec:
  containers:
  - name: d
    image: {}
"""

NOTHING = {
    "a script named after it": ("a.sh", "./llama-server-control-api.sh bounce 1.1.1.1:9090\n"),
    "asked for its version": ("a.sh", "./build/bin/llama-server --version\n"),
    "asked for help": ("a.sh", "./build/bin/llama-server --help | head\n"),
    "an option's value": ("a.sh", "python mirror.py --server-bin /opt/llama-server --port 1\n"),
    "a benchmark": (
        "a.sh",
        "docker run --rm --entrypoint /venv/bin/llama-benchy my/vllm-rocm --base-url "
        "http://127.0.0.1:8000/v1 --model bench --pp 2048 --max-model-len 8192\n",
    ),
    "a docstring": ("a.py", 'def stop():\n    """kill llama-server processes on --port"""\n'),
    "a message": ("a.py", 'print(f"of llama-server, but {m} is none. Try: start --model {m}")\n'),
    "a table of programs": ("a.py", 'T = [("bin/llama-server", "llama"), ("sglang serve", "s")]\n'),
    "names of programs": (
        "a.py",
        'NAMES = ["llama-server.exe", "server.exe", "ik_llama_server"]\n',
    ),
    "another's server": (
        "a.py",
        'subprocess.run(["<BUILD>/examples/server", "--model", "m", "--max-model-len", "1152"])\n',
    ),
    "another's class": (
        "a.py",
        "import os\nfrom tensorrt_llm import LLM\nllm = LLM(model_name='meta/Llama-3.1-8B')\n",
    ),
    "another program of the image": (
        "Dockerfile",
        'FROM vllm/vllm-openai:v0.25.1\nENTRYPOINT []\nCMD ["uvicorn", "app:app"]\n',
    ),
    "another image of the project": (
        "a.yaml",
        POD.format("ghcr.io/vllm-project/semantic-router/dashboard")
        + '    args: ["/app/backend", "-port=8700"]\n',
    ),
    "keys of another program": (
        "a.md",
        "```yaml\nspeculative_num_steps: 4\nspeculative_algo: NEXTN\nnccl_transport: roce\n"
        "speculative_enabled: true\nenable_spec_v2: true\n```\n",
    ),
    "options of another backend": (
        "index.yaml",
        "- name: m\n  backend: vllm-cpp\n  engine_args: {max_num_seqs: 8, max_model_len: 4096}\n",
    ),
    "a benchmark's settings": (
        "a.yaml",
        "apiVersion: a.b/v1\nkind: Bench\nspec:\n"
        "  vllmArgs: {model: qwen3-8b, num-prompts: 9, ignore-eos: true}\n",
    ),
    "the definition of a resource": (
        "crd.yaml",
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n"
        "  properties:\n    command:\n      description: |-\n        Defaults to the entrypoint\n"
        "        (python3 -m vllm.entrypoints.openai.api_server), which the image requires.\n",
    ),
    "a schema of values": (
        "values.schema.json",
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",\n'
        ' "properties": {"vllmConfig": {"type": "object", "properties": {\n'
        '   "dtype": {"type": "string"}, "model": {"type": "string"}}}}}\n',
    ),
    "a diagram": ("a.md", "```\ngateway\n  llama-server / serve_embedding -> models (GGUF)\n```\n"),
}


@pytest.mark.parametrize("kind", NOTHING)
def test_what_starts_no_server(kind: str) -> None:
    name, text = NOTHING[kind]
    assert read_text(text, name).launches == ()


@pytest.mark.parametrize(
    "text",
    ['ok "llama-server built and linked"\n',
     'say "set the variables (see llama-server --help)."\n',
     "nomad alloc logs -task llama-server-router $ID\n",
     "docker exec llama-server ls -la /root/.cache\n",
     "- llama.cpp llama-server with -hf model loading\n",
     'New-NetFirewallRule -DisplayName "llama-server" -Direction Inbound\n'],
)  # fmt: skip
def test_a_line_that_only_names_the_server(text: str) -> None:
    assert read_text(text, "a.sh").launches == ()
    assert read_text(f"```sh\n{text}```\n", "a.md").launches == ()


ARGUMENTS = """MODEL=""
TP=""
while [ $# -gt 0 ]; do
  case $1 in
    --model) MODEL="$2"; shift 2 ;;
    --tp) TP="$2"; shift 2 ;;
    *) exit 1 ;;
  esac
done
if [ -z "$MODEL" ]; then exit 1; fi
CMD=(vllm serve "$MODEL" --port 8000)
[ -n "$TP" ] && CMD+=(--tensor-parallel-size "$TP")
"${CMD[@]}"
"""
CHOICE = """case "${TARGET}" in
  a) ARGS=(vllm serve m --max-num-seqs 64) ;;
  b) ARGS=(vllm serve n --max-num-seqs 128) ;;
  *) usage; exit 2 ;;
esac
docker run -d --gpus all "${IMAGE}" "${ARGS[@]}"
"""
WRITTEN = """FROM vllm-own:1
RUN <<'WRAPPER'
cat > /usr/local/bin/run <<'SH'
exec vllm serve "m" --max-model-len 4096 "$@"
SH
WRAPPER
ENTRYPOINT ["/usr/local/bin/run"]
"""
BATCH = r"""@echo off
set "LLAMA_SERVER="
if defined DIR if exist "%DIR%\llama-server.exe" set LLAMA_SERVER=%DIR%\llama-server.exe
if not exist "%LLAMA_SERVER%" (
  echo llama-server.exe not found
)
set "MODE=--reasoning off"
if "%THINKING%"=="1" set "MODE=--reasoning on"
"%LLAMA_SERVER%" --model a.gguf %MODE% --spec-type draft-mtp --spec-draft-n-max 2
"""
# the file, its text, the model, and options with their values (None: set, but not known)
Option = dict[str, str | None]
SERVERS: dict[str, tuple[str, str, str | None, Option]] = {
    "a guard on arguments": ("a.sh", ARGUMENTS, None, {"--tensor-parallel-size": None}),
    "a shift in arithmetic": ("a.sh", 'S="${S:-$((1 << 30))}"\nvllm serve m --port 1\n', "m", {}),
    "a default that refuses": ("a.sh", CHOICE, "m", {"--max-num-seqs": "64"}),
    "shift of two": ("a.sh",
                     's() {\n  local n=$1 p=$2; shift 2\n  vllm serve m "$@" --port $p\n}\n'
                     "s a 8080 --max-num-seqs 4\n", "m",
                     {"--max-num-seqs": "4", "--port": "8080"}),
    "in a running container": ("a.sh", "docker exec -d box vllm serve m --port 1\n", "m", {}),
    "in a shell of it": (
        "a.sh",
        "podman exec --user me box bash -lc '\n  cd \"$HOME\" && X=1 vllm serve m --port 1\n'\n",
        "m", {"--port": "1"},
    ),
    "of another machine": ("a.sh",
                           """ssh h 'docker exec box env A=1 zsh -lc "vllm serve m --port 1"'\n""",
                           "m", {"--port": "1"}),
    "options of docker itself": (
        "a.sh", "docker -H tcp://10.0.0.2:1 run --gpus all vllm/vllm-openai:v0.25.1 --model m\n",
        "m", {},
    ),
    "a value from outside": (
        "a.sh", 'MMPROJ="${MMPROJ:-}"\nif [ -z "$MMPROJ" ]; then exit 2; fi\n'
        'EXTRA="--mmproj $MMPROJ --jinja"\nllama-server -m a.gguf $EXTRA --port 1\n', "a.gguf",
        {"--mmproj": None, "--port": "1"},
    ),
    "values of a program of its own": (
        "a.sh",
        "vllm serve m --port=${PORT:-} ${accelerator.executionArgs} --max-model-len REPLACE_LEN "
        """--kv-transfer-config '{"kv_role":"kv_both"${accelerator.kvJson}}'\n""", "m",
        {"--port": None, "--max-model-len": None, "--kv-transfer-config": None},
    ),
    "a conditional setting": ("a.bat", BATCH, "a.gguf", {"--reasoning": "off"}),
    "sums in angle brackets": ("a.md",
                               "```bash\nllama-server -m a.gguf -c <4096 * np> -np <np> -cb\n```\n",
                               "a.gguf", {"--ctx-size": None, "--parallel": None}),
    "front matter": ("modelcard.template",
                     "---\nbase_model: m\n---\n```sh\nllama-server -hf a/b-GGUF --embeddings\n```\n"
                     "Or use `llama-embedding`, as in:\n```sh\nllama-embedding -hf a/b-GGUF\n```\n",
                     "a/b-GGUF", {}),
    "words in braces": (
        "a.md", "```sh\nvllm serve {your model directory} --max-num-seqs 4\n{ echo a; }\n```\n",
        None, {"--max-num-seqs": "4"},
    ),
    "a condition on itself": (
        "a.py", "x = x or a\nif x or x:\n    cmd = ['vllm', 'serve', 'm']\nrun(cmd)\n", "m", {},
    ),
    "a fork of the library": (
        "a.py", "from verl.third_party.vllm import LLM\nllm = LLM(model='m')\n", "m", {},
    ),
    "llama-cpp-python": (
        "a.py", 'from llama_cpp import Llama\nllm = Llama(model_path="/m/q.gguf", n_ctx=4096)\n',
        "/m/q.gguf", {"--ctx-size": "4096"},
    ),
    "a script that it writes": ("Dockerfile", WRITTEN, "m", {"--max-model-len": "4096"}),
    "a shell behind dashes": (
        "a.yaml",
        POD.format("rocm/vllm:latest") + "    command: [/bin/bash, -lc, --]\n"
        '    args: ["ray start --head && vllm serve m --tensor-parallel-size 2"]\n',
        "m", {"--tensor-parallel-size": "2"},
    ),
    "variables of one another": (
        "a.yaml", POD.format("vllm/vllm-openai:v0.25.1")
        + "    args: [--model, $(M), --served-model-name, $$(M)]\n"
        "    env: [{name: O, value: Qwen}, {name: M, value: $(O)/Qwen3-8B}]\n",
        "Qwen/Qwen3-8B", {"--served-model-name": "$$(M)"},
    ),
    "a recipe without defaults": (
        "a.yaml", "container: vllm-node-b12x:probe\ncommand: |\n"
        """  vllm serve m --speculative-config '{{"method":"mtp","num_speculative_tokens":4}}'\n""",
        "m", {"--speculative-config": '{"method":"mtp","num_speculative_tokens":4}'},
    ),
    "a note of the release": ("a.yaml", "model: m\nmax-model-len: 8192\nvllm-release: v2.24.0\n",
                              "m", {"--max-model-len": "8192"}),
    "make": ("Makefile", "M := Qwen/Qwen3.6-27B\ns:\n\t@vllm serve $(M) \\\n\t  --port 1\n",
             "Qwen/Qwen3.6-27B", {"--port": "1"}),
    "docker in make": ("Makefile",
                       "r:\n\tdocker run --rm vllm/vllm-openai:v0.25.1 --model m --port $(P)\n",
                       "m", {"--port": None}),
    "what a shell prints in make": (
        "Makefile", "T := $(shell nvidia-smi -L | wc -l)\nr: ; vllm serve m --port 1 -tp $(T)\n",
        "m", {"--port": "1", "--tensor-parallel-size": None},
    ),
    "a default in just": (
        "justfile", "m := env_var_or_default('M', 'a.gguf')\ns:\n    @llama-server -m {{m}} -c 1\n",
        "a.gguf", {"--ctx-size": "1"},
    ),
    "a session": ("a.md", "```bash\n$ vllm serve m \\\n>   --port 1\nINFO vllm: --x\n$ ls\n```\n",
                  "m", {"--port": "1"}),
    "statements in a line": (
        "a.yaml", "d:\n  image: vllm/vllm-openai:v0.25.1\n  command: >-\n    --model m\n"
        "    {% if a %}--max-model-len 4096{% endif %} --port {% if b %}1{% else %}2{% endif %}\n",
        "m", {"--max-model-len": "4096", "--port": None},
    ),
    "a shell in make": ("Makefile", "r:\n\tbash -c 'uv run vllm serve m --port 1'\n", "m",
                        {"--port": "1"}),
    "just": ("justfile", "m := 'a.gguf'\ns:\n    @llama-server -m {{m}} --spec-type draft-mtp\n",
             "a.gguf", {"--spec-type": "draft-mtp"}),
    "powershell": ("a.ps1",
                   "$m = 'C:\\a.gguf'\n$a = @('-c',\n 4096)\n& .\\llama-server.exe -m $m `\n  @a\n",
                   "C:\\a.gguf", {"--ctx-size": "4096"}),
    "a here-document of Terraform": (
        "a.tf", "user_data = <<-EOF\n  #!/bin/sh\n  vllm serve m --port 1\nEOF\n",
        "m", {"--port": "1"},
    ),
    "a script of Nix": (
        "a.nix",
        "{ s = ''\n  exec ${pkgs.llama-cpp}/bin/llama-server -m a.gguf \\\n    -c 4096\n''; }\n",
        "a.gguf", {"--ctx-size": "4096"},
    ),
    "str.format": (
        "a.py", 'import os\nC = "vllm serve {model} --port {} --speculative-config '
        '\'{{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":{k}}}\'"\n'
        'os.system(C.format(8000, model="m", k=2))\n', "m",
        {"--port": "8000", "--speculative-config": '{"method":"mtp","num_speculative_tokens":2}'},
    ),
    "a folded command": (
        "a.yaml",
        "d:\n  - server_cmd: >\n      vllm serve m\n      --port 1\n      --additional-config\n"
        "        '{\"a\":true}'\n", "m", {"--port": "1"},
    ),
    "a job's script": (
        "a.yaml",
        "job:\n  script:\n    - pip install vllm\n    - M=m\n    - vllm serve $M --port 1\n",
        "m", {"--port": "1"},
    ),
    "cloud-init": ("a.yaml",
                   "write_files:\n  - path: /etc/systemd/system/vllm.service\n    content: |\n"
                   "      [Service]\n      ExecStart=/usr/bin/vllm serve m --port 1\n", "m",
                   {"--port": "1"}),
    "a document in YAML": ("a.yaml",
                           "guide: |\n  ```bash\n  vllm serve m \\\n    --port 1\n  ```\n", "m",
                           {"--port": "1"}),
    "a task with variables": ("a.yaml", "envs:\n  M: m\nrun: |\n  vllm serve $M --port 1\n", "m",
                              {"--port": "1"}),
    "a unit that a script writes": (
        "install.sh", "D=/m\ncat > /etc/systemd/system/x.service <<EOF\n[Service]\n"
        "ExecStart=/usr/local/bin/llama-server \\\\\n    --model ${D}/a.gguf \\\\\n"
        "    --threads $(nproc) --host \\$HOST\nEOF\n", "/m/a.gguf", {"--threads": None},
    ),
    "a template of a unit": ("vllm.service.j2",
                             "[Service]\nExecStart=/x/vllm serve {{ model }} --port 1\n", None,
                             {"--port": "1"}),
    "an example of a compose file": (
        "docker-compose.yml.example",
        "services:\n  v:\n    image: vllm/vllm-openai:v0.25.1\n    command: --model m --port 1\n",
        "m", {"--port": "1"},
    ),
    "an environment file": (
        ".env", "VLLM_IMAGE=vllm/vllm-openai:v0.25.1\nMODEL_ID=m\n"
        """VLLM_SPECULATIVE_CONFIG='{"method":"mtp","num_speculative_tokens":4}'\n""", "m",
        {"--speculative-config": '{"method":"mtp","num_speculative_tokens":4}'},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SERVERS)
def test_one_server_with_its_options(kind: str) -> None:
    name, text, model, options = SERVERS[kind]
    (launch,) = read_text(text, name).launches
    assert launch.model == model and all(one.unresolved for one in launch.strays)
    for option, value in options.items():
        flag = launch.flag(option)
        assert flag is not None and (flag.unresolved if value is None else flag.value == value)
    assert not [one for one in validate(text=text, name=name).findings if one.severity == "error"]


CALLED = """start() {
  docker run --rm --gpus all --name "$1" vllm/vllm-openai:v0.25.1 m --gpu-memory-utilization 0.9
}
start a
start b
"""
MACROS = """macros:
  base: llama-server --port 1 -b 2048
models:
  z:
    cmd: ${base} -m z.gguf
    ttl: 10
    aliases: [z]
  a:
    cmd: |
      ${base} -m a.gguf
      -b 512
"""
GROUP = """apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a}
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
          - name: vllm
            image: vllm/vllm-openai:v0.28.0
            command: [sh, -c, "bash multi-node-serving.sh leader --ray_cluster_size=2; vllm serve
              Qwen/Qwen3-32B --tensor-parallel-size 8 --pipeline-parallel-size 2"]
            resources: {limits: {nvidia.com/gpu: "8"}}
"""
BLOCKS = "vllm serve {} --tensor-parallel-size 8 --quantization fp8\n"
KIND = "llama-server -m a.gguf -fa on --cache-type-k {}\n"
# the code, the file, a text that it does not judge, and one that it does ("": other tests' matter)
JUDGED = {
    "each call of a function": ("SD306", "a.sh", CALLED, ""),
    "what a macro sets": ("SD121", "config.yaml", MACROS,
                          MACROS.replace("${base} -m", "llama-server -b 2048 -m")),
    "FP8 made at load": ("SD215", "a.sh", BLOCKS.format("baidu/ERNIE-4.5-300B-A47B-PT"),
                         BLOCKS.format("Qwen/Qwen3-Next-80B-A3B-Instruct-FP8")),
    "an image with options of its own": (
        "SD125", "a.yaml",
        "services:\n  a:\n    image: own-vllm:1\n    environment: [MODEL=m, TOOL_CALL_PARSER=q]\n",
        "",
    ),
    "ranks of a group": (
        "SD267", "a.yaml", GROUP, GROUP.replace("leaderworkerset.x-k8s.io", "example.com")
        .replace("LeaderWorkerSet", "Server"),
    ),
    "a fork's cache type": ("SD107", "a.sh", KIND.format("turbo3_tcq"), KIND.format("q8_1")),
    "Dynamo's own options": ("SD101", "a.sh",
                             "python3 -m dynamo.vllm --model m --disaggregation-mode decode\n",
                             ""),
    "cards that a task asks for": (
        "SD267", "a.yaml", "resources: {accelerators: H100:4}\nrun: vllm serve m -tp 4\n",
        "resources: {accelerators: H100:2}\nrun: vllm serve Qwen/Qwen3-8B -tp 4\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", JUDGED)
def test_a_rule_speaks_of_the_one_and_not_of_the_other(kind: str) -> None:
    code, name, good, bad = JUDGED[kind]
    found = [validate(text=text, name=name, select=(code,)).findings for text in (good, bad)]
    quiet, loud = ({one.severity for one in part} & {"warning", "error"} for part in found)
    assert not quiet and (loud or not bad)


def test_several_options_of_a_patched_build_are_no_error() -> None:
    text = (
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable-spec-capture "
        "--spec-capture-method dflash --spec-capture-aux-layer-ids 7 23 51\n"
    )
    found = [one for one in validate(text=text, name="a.sh").findings if one.severity != "info"]
    assert [(one.code, one.severity) for one in found] == [("SD101", "warning")] * 3


def test_a_release_before_the_catalogue_is_not_judged_by_it() -> None:
    text = "pip install vllm==0.7.3\nvllm serve m/A --num-speculative-tokens 1\n"
    assert {one.severity for one in validate(text=text, name="a.sh").findings} <= {"info"}


def test_one_files_words_stay_in_what_is_said_of_another(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.env").write_text("MASTER_KEY=changed\n")
    (tmp_path / "changed.sh").write_text("vllm serve m --max-num-sqes 4\n")
    report = validate(str(tmp_path))
    assert report.cleaner()("a changed prompt") == "a changed prompt"


def test_the_name_of_an_engine_is_no_secret() -> None:
    text = "vllm serve m --api-key vllm --max-num-sqes 4\n"
    (found,) = validate(text=text, name="a.sh", select=("SD101",)).findings
    assert found.message.startswith("vllm has no option")


def test_a_service_of_ray_holds_its_models_as_text() -> None:
    text = """apiVersion: ray.io/v1
kind: RayService
metadata: {name: a}
spec:
  serveConfigV2: |
    applications:
      - name: llms
        import_path: ray.serve.llm:build_openai_app
        args:
          llm_configs:
            - model_loading_config: {model_id: a, model_source: Qwen/Qwen3-8B}
              engine_kwargs:
                max_model_len: 8192
      - args:
          decode_config: {model_loading_config: {model_id: b}, engine_kwargs: {seed: 1}}
"""
    launch, decode = read_text(text, "a.yaml").launches
    length = launch.flag("--max-model-len")
    assert (launch.model, launch.form, decode.model) == ("Qwen/Qwen3-8B", "ray-serve", "b")
    assert text[length.value_span.start : length.value_span.end] == "8192"


def test_a_function_of_modal_has_the_gpus_of_its_decorator() -> None:
    text = """import subprocess
import modal
app = modal.App()
N = 2

@app.cls(gpu=f"H100:{N}")
class Server:
    @modal.web_server(port=8000)
    def serve(self):
        subprocess.Popen(["vllm", "serve", "Qwen/Qwen3-32B", "--tensor-parallel-size", "4"])

@app.function(gpu="A100-80GB")
def other():
    subprocess.Popen("vllm serve Qwen/Qwen3-8B --port 8001", shell=True)
"""
    first, second = sorted(read_text(text, "a.py").launches, key=lambda one: one.line)
    assert (first.container.gpus, second.container.gpus) == ("2", "1")
    assert [port.number for port in first.container.ports] == [8000]
    found = validate(text=text, name="a.py").findings
    messages = [one.message for one in found if one.severity == "error"]
    assert messages == ["4 ranks but 2 GPUs in the function"]
