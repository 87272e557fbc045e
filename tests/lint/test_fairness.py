"""What is said of files that are fine, of files that are read in part, and of what nobody knows."""

import pytest
from click.testing import CliRunner, Result

from advisor.cli.app import cli
from advisor.lint.report import merge_repeats
from advisor.lint.validate import validate
from advisor.render.findings.text import report_text


def run(*arguments: str, text: str) -> Result:
    return CliRunner().invoke(cli, ["validate", *arguments, "-"], input=text, standalone_mode=False)


def severities(text: str, **told: object) -> dict[str, str]:
    report = validate(text=text, name=str(told.pop("name", "-")), **told)  # type: ignore[arg-type]
    return {found.code: found.severity for found in report.findings}


@pytest.mark.parametrize("size", ['--tensor-parallel-size "$TP"', "-tp ${TP}", "-pp $PP"])
def test_an_unknown_size_is_no_memory_error(size: str) -> None:
    text = f"vllm serve Qwen/Qwen3.5-397B-A17B-FP8 {size}\n"
    report = validate(text=text, hw="h200", gpus=8, concurrency=4, ctx=2048)
    assert not {f.code for f in report.findings} & {"SD301", "SD302", "SD303", "SD304"}
    skipped = {one.code: one.needs for one in report.skipped}
    assert {"SD301", "SD302", "SD303"} <= set(skipped) and skipped["SD301"][0].startswith("--")


LARGE = "vllm serve Qwen/Qwen3.5-397B-A17B-FP8"
NIGHTLY = "docker run --gpus all --ipc=host lmsysorg/sglang:nightly-dev-{day}-14f81a67 {rest}"
GRAPHS = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --cuda-graph-max-bs 8"
DRAFT = "llama-server -m q.gguf -md d.gguf --spec-type draft-simple --spec-draft-n-max 16"


@pytest.mark.parametrize(
    ("text", "told", "code", "severity"),
    [
        (LARGE, {"hw": "h200"}, "SD301", "error"),
        (f"{LARGE} $EXTRA", {"hw": "h200"}, "SD301", None),  # which may spread it
        ("docker run acme/vllm-gb10:7 vllm serve m/A --wombat-mode 8", {}, "SD101", "info"),
        (NIGHTLY.format(day=20260527, rest=GRAPHS), {}, "SD102", None),  # before the renaming
        (NIGHTLY.format(day=20261015, rest=GRAPHS), {}, "SD102", "warning"),
        (NIGHTLY.format(day=20261015, rest=GRAPHS), {}, "SD238", None),
        (DRAFT, {}, "SD405", "warning"),
        (f"{DRAFT} --spec-draft-p-min 0.4", {}, "SD405", "info"),  # ends most drafts before
        ("VLLM_USE_V2=1 \\\n\nvllm serve m/A", {}, "SD136", "warning"),  # no process has it
        ("VLLM_USE_V2=1 \\\nvllm serve m/A", {}, "SD136", None),
    ],
)
def test_severity(text: str, told: dict[str, object], code: str, severity: str | None) -> None:
    assert severities(text + "\n", **told).get(code) == severity


RAY = """applications:
- import_path: ray.serve.llm:build_openai_app
  args: {llm_configs: [{model_loading_config: {model_id: m, model_source: m/A},
    engine_kwargs: {max_num_seq: 4}}]}
"""
GGUF = "vllm serve unsloth/Qwen3.6-27B-GGUF --speculative-config.method mtp"


@pytest.mark.parametrize(
    ("name", "text", "code", "said"),
    [  # argparse takes a word without dashes as an argument, and what follows as another
        ("-", "vllm serve m/A max-num-seqs 4 --port 1", "SD133", ["two plain dashes, --max-num-s"]),
        ("-", "vllm serve m/A max-num-seqs=4 7", "SD133", ["'max-num-seqs=4' is", "'7' belongs"]),
        ("-", "vllm serve m/A enforce-eager 7", "SD133", ["--enforce-eager", "'7' belongs to no"]),
        ("-", "vllm serve m/A --kv-cache-dtype x", "SD107", ["turboquant_k3v4_nc, ..."]),
        ("-", "llama-server -m q.gguf --spec-draft-p-min x", "SD107", ["takes a number, not 'x'"]),
        ("-", "llama-server -m q.gguf --ctx-size x", "SD107", ["takes a whole number, not 'x'"]),
        ("-", 'vllm serve m -cc \'{"pass_config": {"fuse_norm_quant": 5}}\'', "SD131",
         ["'fuse_norm_quant' of pass_config takes true or false, not 5"]),
        ("-", "VLLM_LOGGINGLEVEL=DEBUG vllm serve m", "SD135", ["mean VLLM_LOGGING_LEVEL?"]),
        ("-", GGUF, "SD117", ["does not load the Qwen hybrids or an MTP head from one"]),
        ("a.yaml", RAY, "SD101", ["no option max_num_seq: in full it is max_num_seqs"]),
        ("a.sh", "vllm serve m --port 1 --port 2", "SD121", ["--port is set twice: 2 is used"]),
        ("a.tf", 'cmd = "vllm serve m --port 1 --port 2"', "SD121", []),  # one of them, perhaps
    ],
)  # fmt: skip
def test_what_a_finding_says(name: str, text: str, code: str, said: list[str]) -> None:
    told = [
        one.message for one in validate(text=f"{text}\n", name=name).findings if one.code == code
    ]
    assert [part in one for part, one in zip(said, told, strict=True)] == [True] * len(said), told


@pytest.mark.parametrize(("value", "meant"), [("no", "0"), ("off", "0"), ("yes", "1"), ("on", "1")])
def test_a_truth_word_of_a_numbered_variable_is_its_number(value: str, meant: str) -> None:
    for name in ("VLLM_TRACE_FUNCTION", "VLLM_USE_DEEP_GEMM"):
        (found,) = validate(text=f"{name}={value} vllm serve m\n", select=["SD135"]).findings
        assert [edit.text for edit in found.fix.edits] == [meant]


def test_told_kv_memory_is_in_the_bill() -> None:
    large = "vllm serve Qwen/Qwen3-32B-FP8 --max-model-len 40960"
    assert "SD303" not in severities(large, hw="h200")
    assert "SD303" in severities(f"{large} --kv-cache-memory-bytes 1G", hw="h200")


def test_a_fix_of_slots_is_below_what_fits() -> None:
    for slots in (64, 200, 512):
        text = (
            f"vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs {slots} "
            f"--kv-cache-memory-bytes 2G\n"
        )
        (found,) = validate(text=text, hw="h200", select=["SD307"]).findings
        assert found.fix and found.fix.edits and 1 <= int(found.fix.edits[0].text) < slots


@pytest.mark.parametrize(
    "command",
    [
        "docker run --entrypoint vllm vllm/vllm-openai:v0.25.1 bench serve --model m/A "
        "--num-prompts 10",
        "docker run vllm/vllm-openai:v0.25.1 vllm bench serve --model m/A --ignore-eos",
        "vllm bench serve --model m/A",
        "kubectl logs $POD -c llama-server -f",
        "kubectl logs deployment/llama-server --tail=50",
    ],
)
def test_what_starts_no_server_is_not_read(command: str) -> None:
    assert not validate(text=command + "\n").launches


POD = """apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.25.1
      args: [--model, Qwen/Qwen3-8B, --gpu-memory-utilization, "0.9", --port, "{port}"]
      resources: {{limits: {{nvidia.com/gpu: 1}}}}
"""


def test_pods_with_devices_of_their_own_do_not_add_up() -> None:
    text = "---\n".join(POD.format(name=name, port=port) for name, port in (("a", 1), ("b", 2)))
    report = validate(text=text, name="pods.yaml")
    assert len(report.launches) == 2 and "SD306" not in {f.code for f in report.findings}


SERVICE = """  {n}:
    profiles: [{n}]
    image: vllm/vllm-openai:v0.25.1
    command: --model Qwen/Qwen3-8B --gpu-memory-utilization 0.9
"""
CHART = """    - {{name: {n}, repository: vllm/vllm-openai, tag: v0.25.1, modelURL: Qwen/Qwen3-8B,
       requestGPU: 1, vllmConfig: {{extraArgs: ['--gpu-memory-utilization', '0.9']}}}}
"""


@pytest.mark.parametrize(
    ("name", "head", "each"),
    [
        ("compose.yaml", "services:\n", SERVICE),  # profiles are started one at a time
        ("values.yaml", "servingEngineSpec:\n  modelSpec:\n", CHART),
    ],
)
def test_shares_of_servers_that_run_apart_do_not_add_up(name: str, head: str, each: str) -> None:
    report = validate(text=head + "".join(each.format(n=n) for n in "abc"), name=name)
    assert len(report.launches) == 3 and "SD306" not in {f.code for f in report.findings}


def test_shared_memory_anywhere_in_the_file_counts() -> None:
    text = (
        "services:\n  a:\n    image: vllm/vllm-openai:v0.25.1\n"
        "    command: --model Qwen/Qwen3-32B --tensor-parallel-size 2\n"
    )
    assert "SD240" in severities(text, name="compose.yaml")
    given = "x-common: &common\n  shm_size: 32GB\n" + text
    assert "SD240" not in severities(given, name="compose.yaml")


@pytest.mark.parametrize(("n", "others"), [(2, [0, 0]), (3, [2]), (8, [7])])
def test_one_remark_on_three_services_or_more_is_said_once(n: int, others: list[int]) -> None:
    service = (
        "  s{n}:\n    image: vllm/vllm-openai:v0.25.1\n"
        "    environment: [CUDA_VISIBLE_DEVICES={n}]\n"
        "    command: --model Qwen/Qwen3-8B --gpu-memory-utilization 0.9{n} --port {n}\n"
    )
    text = "services:\n" + "".join(service.format(n=i) for i in range(n))
    report = validate(text=text, name="compose.yaml", hw="gb10")
    assert [found.code for found in report.findings].count("SD305") == n  # each keeps its fix
    told = [len(more) for one, more in merge_repeats(report.findings) if one.code == "SD305"]
    assert told == others and report_text(report).count("SD305") == len(others)
    assert ("also on lines" in report_text(report)) == (n > 2)


def test_two_remarks_stay_two() -> None:
    text = "vllm serve m/A --max-num-sqes 4\nvllm serve m/B --max-num-sqes 4 --port 2\n"
    assert report_text(validate(text=text)).count("SD101") == 2


def test_what_a_bound_cuts_off_is_no_pass() -> None:
    text = "".join(f"vllm serve Qwen/Qwen3-8B --port {8000 + n}\n" for n in range(510))
    told = run(text=text)
    assert told.return_value == 2 and "the rest was not checked" in told.output
    assert run("--skip-unrelated", text=text).return_value == 2
    large = "vllm serve Qwen/Qwen3-8B --port 1\n" + "#" * 600_001
    assert run("--skip-unrelated", text=large).return_value == 2


@pytest.mark.parametrize(
    "tag", ["v0.19.0", "v0.20.0", "v0.20.1", "v0.22.0", "v0.23.1", "v0.25.0", "v0.27.0"]
)
def test_a_tag_inside_a_catalogued_minor_is_pinned(tag: str) -> None:
    text = f"docker run vllm/vllm-openai:{tag} --model Qwen/Qwen3-8B --max-num-sqes 8\n"
    report = validate(text=text)
    assert report.launches[0].launch.version_pinned
    assert [f.severity for f in report.findings if f.code == "SD101"] == ["error"]
    assert not any("not pinned" in f.message for f in report.findings)


@pytest.mark.parametrize(
    ("image", "launch", "code", "said"),
    [
        *((image, "vllm serve M --max-num-sqes 8", "SD101", said)
          for image, said in (
              ("vllm/vllm-openai@sha256:" + "a" * 64, "digest"),
              ("ghcr.io/acme/vllm-gb10:7", "assuming that ghcr.io/acme/vllm-gb10"),
              ("nvcr.io/nvidia/vllm:25.09-py3", "assuming that nvcr.io/nvidia/vllm"),
              ("rocm/vllm-dev:nightly", "assuming that rocm/vllm-dev"),
              ("vllm/vllm-openai:nightly", "assuming that nightly"))),
        *(("ghcr.io/acme/vllm-own:7", f"vllm serve M {option}", code, meant)
          for option, code, meant in (
              ("--dtype fp16", "SD107", "float16"), ("--dtype bf16", "SD107", "bfloat16"),
              ("--distributed-executor-backend multiprocessing", "SD107", "mp"),
              ('--kv-transfer-config \'{"kv_role":"consumer"}\'', "SD131", "kv_consumer"))),
        ("ghcr.io/acme/sglang-own:7",
         "python3 -m sglang.launch_server --model-path M --dtype bf16", "SD107", "bfloat16"),
    ],
)  # fmt: skip
def test_a_slip_on_another_build_is_an_error_that_says_what_is_assumed_or_meant(
    image: str, launch: str, code: str, said: str
) -> None:
    text = f"docker run {image} {launch.replace(' M ', ' Qwen/Qwen3-8B ')}\n"
    (found,) = (f for f in validate(text=text).findings if f.code == code)
    assert found.severity == "error" and said in found.message


def test_no_fix_writes_a_cache_type_that_the_engine_lacks() -> None:
    text = "llama-server -m q.gguf -fa on --cache-type-k q8_1 --cache-type-v q8_0\n"
    fixes = [found.fix for found in validate(text=text).findings if found.fix]
    assert fixes and not any("q8_1 for both" in fix.text for fix in fixes)
    assert not any("q8_1" in edit.text for fix in fixes for edit in fix.edits)


@pytest.mark.parametrize("kind", ["#", "  # the image", "\t"])
def test_docker_run_that_a_comment_cuts_is_said(kind: str) -> None:
    text = (
        f"docker run -d --gpus all \\ {kind}\n  --ipc=host \\\n  vllm/vllm-openai:v0.25.1 \\\n"
        f"  --model Qwen/Qwen3-8B \\\n  --max-num-seqs 8\n"
    )
    assert "SD126" in {found.code for found in validate(text=text).findings}


def test_json_of_unknown_variables_is_not_judged() -> None:
    text = (
        'T=""\nA=(--override-generation-config "{\\"temperature\\":$T,\\"top_k\\":20}")\n'
        'vllm serve Qwen/Qwen3-8B "${A[@]}"\n'
    )
    assert "SD131" not in severities(text)


@pytest.mark.parametrize(
    "text",
    ["vllm serve Qwen/Qwen-Image-Edit --omni --num-gpus 2 --usp 2",
     "llama-server -m q.gguf -md d.gguf --spec-type draft-dspark  # llama.cpp b10236",
     "vllm serve nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8 --tensor-parallel-size 4",
     "vllm serve amd/gpt-oss-120b-w-mxfp4-a-fp8 --tensor-parallel-size 8"],
)  # fmt: skip
def test_what_others_run_is_no_error(text: str) -> None:
    assert "error" not in severities(text + "\n").values()


def test_a_file_that_refers_to_itself_is_no_traceback() -> None:
    text = (
        'import subprocess\na = "x" if a or b else "y"\nb = "x" if a or b else "y"\n'
        'subprocess.run(["vllm", "serve", a])\n'
    )
    report = validate(text=text, name="loop.py")
    assert report.cut_short or report.launches


PROBES = """  startupProbe: {httpGet: {path: /health, port: 8080}}
  livenessProbe: {httpGet: {path: /health, port: 8080}}
"""
FILES = {
    "a mapping of variables, where another operator's kind has one (substratusai/kubeai)": (
        "model.yaml",
        "apiVersion: kubeai.org/v1\nkind: Model\nspec:\n  url: hf://Qwen/Qwen3-8B\n"
        "  args:\n    - --max-num-seqs=8\n    - --kv-cache-dtype=fp8\n"
        '  env:\n    VLLM_LOGGING_LEVEL: "INFO"\n',
    ),
    "a value named vllm (vllm-project/guidellm, benchmarks)": (
        "bench.sh",
        "python3 benchmark_serving.py --backend vllm --model Qwen/Qwen3-8B --num-prompts 100\n",
    ),
    "a name that Nix sets (hellas-ai/nix-strix-halo)": (
        "flake.nix",
        '{ apps = {\n  llama-server = ap pkgs.llama-cpp "llama-server" "Run llama-server";\n}; }\n',
    ),
    "the budget of a probe that a chart's values give (AI-Hypercomputer/gpu-recipes)": (
        "deployment.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - image: vllm/vllm-openai:v0.25.1\n"
        "        args: [--model, meta-llama/Llama-3.3-70B-Instruct]\n"
        "        startupProbe:\n          httpGet: {path: /health, port: 8000}\n"
        "          failureThreshold: {{ .Values.probe.failures }}\n",
    ),
    "a command whose options stand elsewhere (InftyAI/llmaz)": (
        "vllm.yaml",
        "kind: BackendRuntime\nspec:\n"
        "  command: [python3, -m, vllm.entrypoints.openai.api_server]\n"
        "  image: vllm/vllm-openai\n" + PROBES,
    ),
    "a connector that somebody's image brings (vllm-project/aibrix)": (
        "deepseek.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n"
        "      - image: aibrix-cn-beijing.cr.volces.com/aibrix/vllm-openai:v0.8.5\n"
        '        command: [sh, -c, "vllm serve m/A --kv-transfer-config '
        """'{\\"kv_connector\\":\\"AIBrixOffloadingConnector\\",\\"kv_role\\":\\"kv_both\\"}'"]\n""",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_runs_has_no_error(kind: str) -> None:
    name, text = FILES[kind]
    assert [x.message for x in validate(text, name=name).findings if x.severity == "error"] == []
