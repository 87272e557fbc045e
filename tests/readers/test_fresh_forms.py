"""Forms of public files that were met late: each was once read wrongly, or not at all."""

from __future__ import annotations

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text


def test_a_script_named_after_the_server_is_none() -> None:
    text = "./llama-server-control-api.sh bounce 192.168.1.100:9090\n"
    assert read_text(text, "a.sh").launches == ()
    assert len(read_text("./llama-server-vulkan -m a.gguf\n", "a.sh").launches) == 1


@pytest.mark.parametrize("guard", ['[ -z "$MODEL" ]', '[[ "$MODEL" == "" ]]'])
def test_a_guard_on_what_the_words_set_does_not_end_the_script(guard: str) -> None:
    text = f"""MODEL=""
TP=""
while [ $# -gt 0 ]; do
  case $1 in
    --model) MODEL="$2"; shift 2 ;;
    --tp) TP="$2"; shift 2 ;;
    *) exit 1 ;;
  esac
done
if {guard}; then exit 1; fi
CMD=(vllm serve "$MODEL" --port 8000)
[ -n "$TP" ] && CMD+=(--tensor-parallel-size "$TP")
"${{CMD[@]}}"
"""
    (launch,) = read_text(text, "a.sh").launches
    tp = launch.flag("--tensor-parallel-size")
    assert tp is not None and tp.unresolved


def test_a_shift_in_arithmetic_does_not_hide_the_script() -> None:
    text = 'export SIZE="${SIZE:-$((1 << 30))}"\nvllm serve Qwen/Qwen3-8B --port 1\n'
    assert len(read_text(text, "a.sh").launches) == 1


def test_several_options_of_a_patched_build_are_no_error() -> None:
    text = (
        "python -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable-spec-capture "
        "--spec-capture-method dflash --spec-capture-aux-layer-ids 7 23 51\n"
    )
    found = [one for one in validate(text=text, name="a.sh").findings if one.severity != "info"]
    assert {one.code for one in found} == {"SD101"} and len(found) == 3
    assert {one.severity for one in found} == {"warning"}


def test_a_release_before_the_catalogue_is_not_judged_by_it() -> None:
    text = "pip install vllm==0.7.3\nvllm serve m/A --num-speculative-tokens 1\n"
    assert {one.severity for one in validate(text=text, name="a.sh").findings} <= {"info"}


def test_a_model_named_elsewhere_is_no_wrong_file() -> None:
    text = '# measured with Qwen3.8-27B-FP8\nllama-server -m "$(pick)" --port 1\n'
    assert not [one for one in validate(text=text, name="a.sh").findings if one.code == "SD117"]


def test_a_variable_of_the_cluster_is_no_wrong_number() -> None:
    text = """apiVersion: v1
kind: Pod
spec:
  containers:
    - name: a
      image: vllm/vllm-openai:v0.25.1
      args: ["--model=Qwen/Qwen3-8B", "--max-model-len=$(MAX_LEN)"]
      resources: {limits: {nvidia.com/gpu: 1}}
"""
    report = validate(text=text, name="a.yaml")
    length = report.launches[0].launch.flag("--max-model-len")
    assert length is not None and length.unresolved
    assert not [one for one in report.findings if one.severity == "error"]


def test_a_mark_that_an_installer_fills_is_no_value() -> None:
    text = "[Service]\nExecStart=vllm serve Qwen/Qwen3-8B --port __PORT__\n"
    assert not validate(text=text, name="a.service").findings


def test_options_behind_the_end_of_a_units_command() -> None:
    text = "[Service]\nExecStart=llama-server -m /m/a.gguf \\\n  -np 1\n  --spec-type draft-mtp\n"
    (found,) = [
        one for one in validate(text=text, name="a.service").findings if "SD126" in one.code
    ]
    assert found.line == 4 and found.severity == "error"


@pytest.mark.parametrize("option", ["--context gpu", "-H tcp://10.0.0.2:1", "--host=tcp://a:1"])
def test_options_of_docker_itself_stand_before_its_command(option: str) -> None:
    text = f"docker {option} run --gpus all vllm/vllm-openai:v0.25.1 --model m\n"
    assert [launch.model for launch in read_text(text, "a.sh").launches] == ["m"]


def test_a_docstring_starts_no_server() -> None:
    text = 'def stop():\n    """kill only llama-server processes whose --port is ours"""\n'
    assert read_text(text, "a.py").launches == ()


def test_another_products_version_is_not_the_engines() -> None:
    text = "docker pull intel/llm-scaler-vllm:0.10.0-b2\nvllm serve Qwen/Qwen3.6-27B-FP8\n"
    assert read_text(text, "a.sh").launches[0].version_text is None


def test_cards_that_a_task_asks_for() -> None:
    text = "resources: {accelerators: H100:2}\nrun: vllm serve Qwen/Qwen3-8B -tp 4\n"
    assert "SD267" in {one.code for one in validate(text=text, name="a.yaml").findings}


# Met in 65 public repositories of 2026 that no corpus holds; what each said is kept in few lines.


def _batch(line: str) -> str:
    return f"""@echo off
set "LLAMA_SERVER="
{line}
if not defined LLAMA_SERVER for /f "delims=" %%F in (`where llama-server.exe`) do if not defined ^
  LLAMA_SERVER set "LLAMA_SERVER=%%F"
if not exist "%LLAMA_SERVER%" (
  echo llama-server.exe not found
)
set "MODE=--reasoning off"
if "%THINKING%"=="1" set "MODE=--reasoning on"
"%LLAMA_SERVER%" --model a.gguf %MODE% --spec-type draft-mtp --spec-draft-n-max 2
"""


@pytest.mark.parametrize(
    "line",
    [
        r'if defined DIR if exist "%DIR%\llama-server.exe" set LLAMA_SERVER=%DIR%\llama-server.exe',
        r"if exist C:\llama\llama-server.exe (set LLAMA_SERVER=C:\llama\llama-server.exe)",
    ],
)
def test_a_conditional_setting_of_a_command_file(line: str) -> None:
    (launch,) = read_text(_batch(line), "a.bat").launches
    assert launch.strays == ()
    flag = launch.flag("--reasoning")
    assert flag is not None and flag.value == "off"


def test_an_empty_entrypoint_leaves_the_command_to_be_the_program() -> None:
    text = """FROM vllm/vllm-openai:v0.25.1
ENTRYPOINT []
CMD ["uvicorn", "app.main:app", "--host", "0.0.0.0", "--port", "8080"]
"""
    assert read_text(text, "Dockerfile").launches == ()


def test_a_recipe_names_its_container() -> None:
    text = """container: vllm-node-b12x:probe
defaults: {port: 8000}
command: |
  vllm serve m --port {port} --attention-backend B12X_MLA_SPARSE
"""
    (launch,) = read_text(text, "a.yaml").launches
    assert launch.container is not None and launch.container.image == "vllm-node-b12x:probe"
    assert (launch.fork or "").startswith("vllm-node-b12x")
    assert all(one.severity != "error" for one in validate(text=text, name="a.yaml").findings)


def test_keys_of_a_program_of_its_own_are_no_settings_of_the_engine() -> None:
    own = "nccl_transport: roce\nspeculative_enabled: true\nenable_spec_v2: true\n"
    text = f"speculative_num_steps: 4\nspeculative_algo: NEXTN\n{own}"
    assert read_text(f"```yaml\n{text}```\n", "a.md").launches == ()
    slips = "max-model-len: 8192\ngpu-memory-utilisation: 0.9\nmax-num-sqes: 4\nmodel: m\n"
    assert len(read_text(slips, "a.yaml").launches) == 1


def test_values_of_a_chart_are_no_compose_file() -> None:
    text = """image: {repository: vllm/vllm-openai, tag: v0.25.1,
  command: [vllm, serve, /data/, --dtype, bfloat16]}
probe: {image: curl}
gpuModels: [T4]
"""
    assert not validate(text=text, name="values.yaml", select=("SD136",)).findings


def test_a_document_with_front_matter_is_markdown() -> None:
    text = """---
base_model: m
---
```sh
llama-server -hf a/b-GGUF --embeddings
```
Or use `llama-embedding`, as in:
```sh
llama-embedding -hf a/b-GGUF
```
"""
    (launch,) = read_text(text, "modelcard.template").launches
    assert launch.strays == ()


def test_a_sum_in_angle_brackets_stands_for_a_value() -> None:
    text = "```bash\nllama-server -m a.gguf -c <4096 * np> -np <np> -cb\n```\n"
    (launch,) = read_text(text, "a.md").launches
    assert [flag.raw for flag in launch.flags if flag.unresolved] == ["-c", "-np"]


def test_a_program_called_server_with_options_of_another_engine() -> None:
    words = '["<BUILD>/examples/server", "--model", "m", "--max-model-len", "1152"]'
    assert read_text(f"subprocess.run({words})\n", "a.py").launches == ()


def test_a_default_that_refuses_is_not_the_case_that_is_meant() -> None:
    text = """case "${TARGET}" in
  a) ARGS=(vllm serve m --max-num-seqs 64) ;;
  b) ARGS=(vllm serve n --max-num-seqs 128) ;;
  *) usage; exit 2 ;;
esac
docker run -d --gpus all "${IMAGE}" "${ARGS[@]}"
"""
    (launch,) = read_text(text, "a.sh").launches
    assert launch.model == "m"


def test_a_condition_that_rests_on_itself_is_not_decided() -> None:
    text = "x = x or a\nif x or x or x:\n    cmd = ['vllm', 'serve', 'm']\nrun(cmd)\n"
    read = read_text(text, "a.py")
    assert len(read.launches) == 1 and read.notes == ()


@pytest.mark.parametrize("asked", ["--version", "--help | head", "-h", "--list-devices"])
def test_a_program_that_is_asked_for_its_version_starts_nothing(asked: str) -> None:
    assert read_text(f"./build/bin/llama-server {asked}\n", "a.sh").launches == ()


def test_a_table_that_names_programs_starts_none() -> None:
    text = 'TABLE = [("build/bin/llama-server", "llama", 8099), ("sglang serve", "sglang", 3)]\n'
    assert read_text(text, "a.py").launches == ()


def test_a_diagram_that_names_the_server_starts_none() -> None:
    text = "```\ngateway\n  llama-server / serve_embedding -> models (GGUF)\n```\n"
    assert read_text(text, "a.md").launches == ()


def test_an_image_that_takes_its_environment_may_add_options() -> None:
    text = """services:
  a:
    image: own-vllm:1
    environment: [MODEL=Qwen/Qwen3-8B, TOOL_CALL_PARSER=qwen3_coder]
"""
    assert not validate(text=text, name="compose.yaml", select=("SD125",)).findings


def test_what_a_macro_sets_the_command_may_set_anew() -> None:
    text = """macros:
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
    assert not validate(text=text, name="config.yaml", select=("SD121",)).findings
    text = "llama-server -m a.gguf \\\n -b 2048 \\\n -b 512\n"
    assert validate(text=text, name="a.sh", select=("SD121",)).findings


def test_containers_that_are_only_created_do_not_run_at_once() -> None:
    one = "docker create --gpus all vllm/vllm-openai:v0.25.1 m --gpu-memory-utilization 0.9\n"
    assert not validate(text=one + one, name="a.sh", select=("SD306",)).findings
    both = (one + one).replace("create", "run -d")
    assert validate(text=both, name="a.sh", select=("SD306",)).findings


@pytest.mark.parametrize(
    "text",
    [
        'ok "llama-server built and linked"\n',
        'fail "llama-server not runnable after build"\n',
        'title "llama-server (launchd: ${LABEL})"\n',
        'say "set the variables (see llama-server --help)."\n',
        "nomad alloc logs -task llama-server-router $ID\n",
        "docker stats llama-server --no-stream --format table\n",
        "docker exec llama-server ls -la /root/.cache\n",
        "docker compose logs -f llama-server --tail 50\n",
        "- llama.cpp llama-server with -hf model loading\n",
        'New-NetFirewallRule -DisplayName "llama-server" -Direction Inbound\n',
    ],
)
def test_a_line_that_only_names_the_server(text: str) -> None:
    assert read_text(text, "a.sh").launches == ()
    assert read_text(f"```sh\n{text}```\n", "a.md").launches == ()


def test_the_servers_path_as_an_option_of_another_program() -> None:
    text = "uv run python mirror.py --server-bin /opt/llama-server --model-path a.gguf\n"
    assert read_text(text, "a.sh").launches == ()


@pytest.mark.parametrize(
    "text",
    [
        "docker exec -d box vllm serve Qwen/Qwen3-8B --max-num-seqs 8\n",
        """podman exec --user me box bash -lc '
  cd "$HOME" && VLLM_X=1 vllm serve Qwen/Qwen3-8B --port 1
'\n""",
        """ssh h 'docker exec box env A=1 zsh -lc "vllm serve Qwen/Qwen3-8B --port 1"'\n""",
    ],
)
def test_a_server_that_is_started_in_a_container_that_runs(text: str) -> None:
    (launch,) = read_text(text, "a.sh").launches
    assert launch.model == "Qwen/Qwen3-8B"


def test_a_shell_text_behind_two_dashes() -> None:
    text = """apiVersion: v1
kind: Pod
spec:
  containers:
    - image: rocm/vllm:latest
      command: [/bin/bash, -lc, --]
      args: ["ray start --head && vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2"]
"""
    (launch,) = read_text(text, "a.yaml").launches
    assert launch.model == "Qwen/Qwen3-8B"


def test_doubled_braces_of_a_recipe_without_defaults() -> None:
    text = """container: vllm-node-b12x
command: |
  vllm serve m --speculative-config '{{"method":"mtp","num_speculative_tokens":4}}'
"""
    (found,) = validate(text=text, name="a.yaml").launches
    assert found.plan.k == 4


@pytest.mark.parametrize("value", ["iso3", "ktq2", "turbo3_tcq", "planar3", "tq3_0"])
def test_a_cache_type_of_a_fork(value: str) -> None:
    text = f"llama-server -m a.gguf -fa on --cache-type-k {value} --cache-type-v {value}\n"
    assert all(one.severity != "error" for one in validate(text=text, name="a.sh").findings)


@pytest.mark.parametrize("value", ["q8_1", "q6_0", "fp8", "int8", "nvfp4"])
def test_a_cache_type_of_no_fork(value: str) -> None:
    text = f"llama-server -m a.gguf -fa on --cache-type-k {value}\n"
    assert any(one.severity == "error" for one in validate(text=text, name="a.sh").findings)


def test_a_value_that_an_older_release_took() -> None:
    text = "docker run --gpus all vllm/vllm-openai:v0.8.5 --model m --quantization nvfp4\n"
    assert all(one.severity != "error" for one in validate(text=text, name="a.sh").findings)


def test_one_files_words_stay_in_what_is_said_of_another(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.env").write_text("MASTER_KEY=changed\n")
    (tmp_path / "changed.sh").write_text("vllm serve m --max-num-sqes 4\n")
    report = validate(str(tmp_path))
    assert report.cleaner()("a changed prompt") == "a changed prompt"


def test_shift_drops_as_many_as_it_says() -> None:
    text = """serve() {
  local name=$1 port=$2; shift 2
  vllm serve m "$@" --port $port
}
serve a 8080 --max-num-seqs 4
"""
    (launch,) = read_text(text, "a.sh").launches
    assert launch.strays == () and [flag.name for flag in launch.flags[1:]] == [
        "--max-num-seqs",
        "--port",
    ]


def test_what_a_loop_of_a_command_file_holds_is_not_known() -> None:
    text = """@echo off
for %%I in ("%~dp0..") do set "ROOT=%%~fI"
llama-server.exe -m "%ROOT%\\Qwen3.6-27B-MTP-Q4_K_M.gguf" --spec-type draft-mtp
"""
    (launch,) = read_text(text, "a.bat").launches
    assert launch.model is not None and launch.model.startswith("${I}")


def test_a_script_that_a_dockerfile_writes() -> None:
    text = """FROM vllm-own:1
RUN <<'WRAPPER'
cat > /usr/local/bin/run <<'SH'
exec vllm serve "Qwen/Qwen3-8B" --max-model-len 4096 "$@"
SH
chmod 0555 /usr/local/bin/run
WRAPPER
ENTRYPOINT ["/usr/local/bin/run"]
"""
    (launch,) = read_text(text, "Dockerfile").launches
    assert launch.model == "Qwen/Qwen3-8B"


def test_the_definition_of_a_resource_starts_nothing() -> None:
    text = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  properties:
    command:
      description: |-
        Defaults to the entrypoint
        (python3 -m vllm.entrypoints.openai.api_server), which the image requires.
"""
    assert read_text(text, "crd.yaml").launches == ()


def test_words_in_braces_stand_for_a_value() -> None:
    text = "```sh\nvllm serve {your model directory} --max-num-seqs 4\n{ echo a; }\n```\n"
    (launch,) = read_text(text, "a.md").launches
    assert launch.flag("--max-num-seqs") is not None
    assert not validate(text=text, name="a.md", select=("SD133",)).findings


def test_a_function_that_starts_a_server_each_time_it_is_called() -> None:
    text = """start() {
  docker run --rm --gpus all --name "$1" vllm/vllm-openai:v0.25.1 m --gpu-memory-utilization 0.9
}
start a
start b
"""
    assert not validate(text=text, name="a.sh", select=("SD306",)).findings


def test_a_schema_of_values_gives_no_values() -> None:
    text = """{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
 "properties": {"vllmConfig": {"type": "object", "properties": {
   "dtype": {"type": "string"}, "model": {"type": "string"}}}}}
"""
    assert read_text(text, "values.schema.json").launches == ()


def test_a_class_of_another_library_is_no_engine() -> None:
    for line in ("from tensorrt_llm import LLM", "from torch_geometric.nn import GAT, LLM"):
        text = f"import os\n{line}\nllm = LLM(model_name='meta-llama/Llama-3.1-8B-Instruct')\n"
        assert read_text(text, "app.py").launches == (), line
    for line in ("from vllm import LLM", "from verl.third_party.vllm import LLM"):
        assert len(read_text(f"{line}\nllm = LLM(model='Qwen/Qwen3-8B')\n", "app.py").launches) == 1


def test_what_a_program_of_its_own_fills_in_is_not_known() -> None:
    text = """vllm serve m --port=${PORT:-} ${accelerator.executionArgs} \\
  --no-enable-log-requests --kv-transfer-config '{"kv_role":"kv_both"${accelerator.kvJson}}' \\
  --kv-events-config '{"topic":$(TOPIC)}' --max-model-len REPLACE_MAX_MODEL_LEN
"""
    (launch,) = read_text(text, "a.sh").launches
    known = {one.name: one.unresolved for one in launch.flags}
    assert known.pop("--max-model-len") and "--enable-log-requests" in known
    assert known.pop("--port") and known.pop("--kv-transfer-config")
    assert known.pop("--kv-events-config") and not launch.strays
    errors = [one for one in validate(text=text, name="a.sh").findings if one.severity == "error"]
    assert not errors


def test_weights_that_vllm_makes_fp8_at_load_have_no_blocks() -> None:
    text = "vllm serve {} --tensor-parallel-size 8 --quantization fp8\n"
    model = "baidu/ERNIE-4.5-300B-A47B-PT"
    assert not validate(text=text.format(model), name="a.sh", select=("SD215",)).findings
    model = "Qwen/Qwen3-Next-80B-A3B-Instruct-FP8"
    assert validate(text=text.format(model), name="a.sh", select=("SD215",)).findings


def test_images_of_other_programs_of_a_project() -> None:
    text = """apiVersion: v1
kind: Pod
metadata: {name: d}
spec:
  containers:
  - name: d
    image: ghcr.io/vllm-project/semantic-router/dashboard
    args: ["/app/backend", "-port=8700"]
"""
    assert read_text(text, "a.yaml").launches == ()
    assert len(read_text(text.replace("semantic-router/dashboard", "vllm-omni"), "a").launches) == 1


def test_an_operator_places_each_of_its_servers() -> None:
    text = """apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: d}
spec:
  services:
    decode:
      resources: {limits: {gpu: "4"}}
      extraPodSpec: {mainContainer: {image: "vllm/vllm-openai:v0.25.1",
        env: [{name: CUDA_VISIBLE_DEVICES, value: "0"}],
        args: ["--model", "Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.9"]}}
    prefill:
      resources: {limits: {gpu: "4"}}
      extraPodSpec: {mainContainer: {image: "vllm/vllm-openai:v0.25.1",
        env: [{name: CUDA_VISIBLE_DEVICES, value: "0"}],
        args: ["--model", "Qwen/Qwen3-8B", "--gpu-memory-utilization", "0.9"]}}
"""
    assert len(read_text(text, "a.yaml").launches) == 2
    assert not validate(text=text, name="a.yaml", select=("SD306",)).findings


def test_the_name_of_an_engine_is_no_secret() -> None:
    text = "vllm serve m --api-key vllm --max-num-sqes 4\n"
    (found,) = validate(text=text, name="a.sh", select=("SD101",)).findings
    assert found.message.startswith("vllm has no option")


def test_keywords_of_llama_cpp_python() -> None:
    text = """from llama_cpp import Llama
llm = Llama(model_path="/m/Qwen3-8B-Q4_K_M.gguf", n_gpu_layers=-1, n_ctx=4096)
"""
    (launch,) = read_text(text, "a.py").launches
    size = launch.flag("--ctx-size")
    assert launch.model == "/m/Qwen3-8B-Q4_K_M.gguf" and size is not None and size.value == "4096"
    report = validate(text=text, name="a.py")
    assert not [one for one in report.findings if one.code in ("SD101", "SD116")]


def test_a_message_and_a_benchmark_are_no_launch() -> None:
    text = 'print(f"A model of llama-server, but {m} is not one. Try: start --model {m}")\n'
    assert read_text(text, "a.py").launches == ()
    text = "kind: Bench\nspec:\n  vllmArgs: {model: qwen3-8b, num-prompts: 9, ignore-eos: true}\n"
    assert read_text(f"apiVersion: a.b/v1\n{text}", "a.yaml").launches == ()


def test_options_that_dynamo_reads_itself() -> None:
    text = "python3 -m dynamo.vllm --model Qwen/Qwen3-32B --disaggregation-mode decode\n"
    assert not validate(text=text, name="a.sh", select=("SD116", "SD101")).findings


def test_a_command_of_an_image_may_be_empty() -> None:
    text = 'FROM vllm/vllm-openai:v0.25.1\nENTRYPOINT ["vllm", "serve", "Qwen/Qwen3-8B"]\nCMD \n'
    assert len(read_text(text, "Dockerfile").launches) == 1


def errors(text: str, name: str) -> list[str]:
    return [f.message for f in validate(text=text, name=name).findings if f.severity == "error"]


def test_a_benchmark_in_an_engines_image_is_no_server() -> None:
    text = (
        "docker run --rm --entrypoint /venv/bin/llama-benchy my/vllm-rocm --base-url "
        "http://127.0.0.1:8000/v1 --model bench --pp 2048 --tg 128 --max-model-len 8192\n"
    )
    assert read_text(text, "a.sh").launches == ()


def test_ranks_of_a_group_are_those_of_all_its_pods() -> None:
    start = "bash multi-node-serving.sh leader --ray_cluster_size=2; vllm serve Qwen/Qwen3-32B"
    text = f"""apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: a}}
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate:
      spec:
        containers:
          - name: vllm
            image: vllm/vllm-openai:v0.28.0
            command: [sh, -c, "{start} --tensor-parallel-size 8 --pipeline-parallel-size 2"]
            resources: {{limits: {{nvidia.com/gpu: "8"}}}}
"""
    (launch,) = read_text(text, "a.yaml").launches
    assert launch.flag("--pipeline-parallel-size") is not None
    assert not errors(text, "a.yaml")
    alone = text.replace("leaderworkerset.x-k8s.io/v1", "example.com/v1")
    assert errors(alone.replace("LeaderWorkerSet", "Server"), "a.yaml")


def test_an_image_that_the_reader_is_to_fill_in() -> None:
    text = (
        "docker run --rm --entrypoint /usr/bin/llama-server my/llama-server@sha256:PIN_YOUR_DIGEST "
        "-m /models/a.gguf --port 8080\n"
    )
    assert not errors(text, "a.sh")


def test_a_value_from_outside_within_quotes() -> None:
    text = """MMPROJ="${MMPROJ:-}"
if [ -z "$MMPROJ" ]; then exit 2; fi
EXTRA="--mmproj $MMPROJ --jinja"
llama-server -m /models/a.gguf $EXTRA --port 8080
"""
    (launch,) = read_text(text, "a.sh").launches
    found = launch.flag("--mmproj")
    assert found is not None and found.unresolved and launch.flag("--jinja") is not None
    assert not errors(text, "a.sh")


def test_a_note_of_the_release_beside_the_options() -> None:
    text = "model: Qwen/Qwen3-8B\nmax-model-len: 8192\nvllm-release: v2.24.0\n"
    (launch,) = read_text(text, "a.yaml").launches
    assert [flag.raw for flag in launch.flags] == ["model", "max-model-len"]
    assert not errors(text, "a.yaml") and errors(text.replace("release", "releases"), "a.yaml")


def test_names_of_programs_are_no_command() -> None:
    text = 'NAMES = ["llama-server.exe", "server.exe", "ik_llama_server"]\n'
    assert read_text(text, "a.py").launches == ()
    run = 'import subprocess\nsubprocess.run(["llama-server", "-m", "a.gguf"])\n'
    assert len(read_text(run, "a.py").launches) == 1


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
    assert decode.model == "b"
    found = launch.flag("--max-model-len")
    assert launch.model == "Qwen/Qwen3-8B" and found is not None and found.value_span is not None
    place = found.value_span
    assert text[place.start : place.end] == "8192" and launch.form == "ray-serve"


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
    assert first.container is not None and first.container.gpus == "2"
    assert [port.number for port in first.container.ports] == [8000]
    assert second.container is not None and second.container.gpus == "1"
    assert errors(text, "a.py") == ["4 ranks but 2 GPUs in the function"]


def test_options_of_another_backend_are_no_vllm() -> None:
    text = "- name: m\n  backend: {}\n  engine_args: {{max_num_seqs: 8, max_model_len: 4096}}\n"
    assert read_text(text.format("vllm-cpp"), "index.yaml").launches == ()
    assert len(read_text(text.format("cuda12-vllm"), "index.yaml").launches) == 1
