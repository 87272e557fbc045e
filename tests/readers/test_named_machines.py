"""The GPU and the image that a document names beside its servers."""

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text

POD = """apiVersion: v1
kind: Pod
metadata: {{name: a}}
spec:
  {where}
  containers:
  - {{name: v, image: "vllm/vllm-openai:v0.25.1", args: ["--model", "Qwen/Qwen3-32B"]}}
"""
AFFINITY = """affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
    {nodeSelectorTerms: [{matchExpressions: [{key: nvidia.com/gpu.product, operator: OP,
    values: ["NVIDIA-L40S"]}]}]}}}"""
SKY = "resources: {{accelerators: {kind}}}\nrun: vllm serve Qwen/Qwen3-32B -tp 4\n"
MODAL = """import modal, subprocess
app = modal.App("a")
@app.function(gpu="{kind}")
@modal.web_server(8000)
def serve():
    subprocess.Popen(["vllm", "serve", "Qwen/Qwen3-32B"])
"""
TRUSS = """base_image: {{image: "vllm/vllm-openai:v0.25.1"}}
docker_server: {{start_command: vllm serve Qwen/Qwen3-8B}}
resources: {{accelerator: "{kind}"}}
"""
SLURM = "#!/bin/sh\n#SBATCH --gres=gpu:{kind}\nsrun vllm serve Qwen/Qwen3-32B -tp 4\n"
# of srt-slurm: short keys, and settings of which one alone is SGLang's own
WORKERS = """model: {{path: a, container: "lmsysorg/sglang:v0.5.15"}}
resources: {{gpu_type: {kind}, gpus_per_node: 4}}
backend:
  aggregated_environment: {{SGLANG_X: "1"}}
  sglang_config:
    aggregated: {{model-path: deepseek-ai/DeepSeek-R1, served-model-name: a,
      tensor-parallel-size: 4, speculative-algo: EAGLE, speculative-num-steps: 3}}
"""


def _on(selector: str) -> str:
    return POD.format(where=f"nodeSelector: {{{selector}}}")


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.yaml", _on("cloud.google.com/gke-accelerator: nvidia-l4"), "l4"),
        ("a.yaml", _on('nvidia.com/gpu.product: "Tesla-T4"'), "t4"),
        ("a.yaml", _on('amd.com/gpu.product-name: "AMD_Instinct_MI300X_OAM"'), "mi300x"),
        ("a.yaml", POD.format(where=AFFINITY.replace("OP", "In")), "l40s"),
        ("a.yaml", POD.format(where=AFFINITY.replace("OP", "NotIn")), ""),
        ("a.yaml", _on("gpu: blackwell, accelerator: rocm"), ""),
        ("a.yaml", _on('nvidia.com/gpu.product: "Tesla-T4", accelerator: any'), "t4"),
        ("a.yaml", SKY.format(kind="H100:4"), "h100-sxm"),
        ("a.yaml", SKY.format(kind="{A100-80GB: 4}"), "a100-80gb"),
        ("a.yaml", SKY.format(kind="[L40S:4, H100:4]"), ""),  # either
        ("a.yaml", SKY.format(kind="L40S:4").replace("accelerators", "gpu_type"), "l40s"),
        ("a.yaml", TRUSS.format(kind="B200:8"), "b200"),
        ("a.yaml", WORKERS.format(kind="gb300"), "gb300"),
        ("a.py", MODAL.format(kind="H100!:2"), "h100-sxm"),
        ("a.py", MODAL.format(kind="any"), ""),
        ("a.yaml", SKY.format(kind="L40S:4").replace("-tp 4", "..."), ""),  # on how many?
        ("a.yaml", "gpu: l4\nguide: |\n  ```bash\n  vllm serve Qwen/Qwen3-32B\n  ```\n", ""),
        ("a.sh", SLURM.format(kind="h200:4"), "h200"),
        ("a.sh", SLURM.format(kind="4"), ""),
    ],
)
def test_the_gpu_that_a_file_names(name: str, text: str, kind: str) -> None:
    (launch,) = read_text(text, name).launches
    assert (launch.container.gpu_kind if launch.container else "") == kind


def test_it_is_judged_on_that_gpu_unless_another_is_given() -> None:
    # 61 GiB of weights (32.8e9 parameters, 2 bytes each), of which an L4 has 24 GB
    text = _on("cloud.google.com/gke-accelerator: nvidia-l4")
    for hw, short in ((None, True), ("h200", False)):
        report = validate(text=text, name="a.yaml", hw=hw)
        assert ("SD301" in {one.code for one in report.findings}) == short
        assert "hardware" not in {need for one in report.skipped for need in one.needs}


def test_images_and_settings_that_stand_apart_from_the_command() -> None:
    sky = SKY.replace("resources: {{", 'resources: {{image_id: "docker:vllm/vllm-openai:v0.25.1", ')
    requirements = "requirements:\n  - vllm==0.22.1\nstart: vllm serve Qwen/Qwen3-8B\n"
    for text, release in (
        (sky.format(kind="L40S:4"), "0.25.1"),
        (TRUSS.format(kind="L4"), "0.25.1"),
        (WORKERS.format(kind="b200"), "0.5.15"),
        (requirements, "0.22.1"),
    ):
        (launch,) = read_text(text, "a.yaml").launches
        assert (launch.engine_version, launch.version_pinned, launch.fork) == (release, True, None)
    (launch,) = validate(text=WORKERS.format(kind="b200"), name="a.yaml").launches
    assert (launch.launch.engine, launch.plan.method, launch.plan.k) == ("sglang", "mtp", 3)
    assert [one.name for one in launch.launch.env] == ["SGLANG_X"]
