"""Shapes of published files that run and once were called an error: none may be again."""

import pytest

from advisor.lint.validate import validate

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
    assert [
        one.message for one in validate(text, name=name).findings if one.severity == "error"
    ] == []
