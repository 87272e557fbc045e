"""Forms of public files of 2026 that no corpus holds: each was once read wrongly, or not at all.
fresh_forms.yaml has the files.
"""

from pathlib import Path

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text
from tests.tables import load_yaml

FILES = load_yaml(Path(__file__).with_name("fresh_forms.yaml"))


@pytest.mark.parametrize("kind", FILES["nothing"])
def test_what_starts_no_server(kind: str) -> None:
    case = FILES["nothing"][kind]
    assert read_text(case["text"], case["file"]).launches == ()


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


@pytest.mark.parametrize("kind", FILES["servers"])
def test_one_server_with_its_options(kind: str) -> None:
    name, model, options, text = FILES["servers"][kind].values()
    (launch,) = read_text(text, name).launches
    assert launch.model == model and all(one.unresolved for one in launch.strays)
    for option, value in options.items():
        flag = launch.flag(option)
        assert flag is not None and (flag.unresolved if value is None else flag.value == value)
    assert not [one for one in validate(text=text, name=name).findings if one.severity == "error"]


@pytest.mark.parametrize("kind", FILES["judged"])
def test_a_rule_speaks_of_the_one_and_not_of_the_other(kind: str) -> None:
    code, name, good, bad = FILES["judged"][kind].values()
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
    assert validate(str(tmp_path)).cleaner()("a changed prompt") == "a changed prompt"


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
