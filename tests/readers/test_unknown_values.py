"""Values that the file does not tell (`$SEQS`, `{{ .Values.seqs }}`): set, but unknown."""

from typing import Any

import pytest

from advisor.lint.apply_fixes import apply_rounds
from advisor.lint.report import Report
from advisor.lint.validate import validate

HYBRID = "vllm serve Qwen/Qwen3.6-27B-FP8"
MTP = '--speculative-config \'{"method":"mtp","num_speculative_tokens":2}\''
SGLANG = "sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm NEXTN"
SGLANG += " --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
LLAMA = "llama-server -m /models/Qwen3.6-27B-MTP-Q4_K_M.gguf"
HELM = """apiVersion: apps/v1
kind: Deployment
metadata: {name: a}
spec:
  template:
    spec:
      containers:
        - name: a
          image: vllm/vllm-openai:v0.28.0
          args: ["--model", "Qwen/Qwen3.6-27B-FP8", "--max-num-seqs", "{{ .Values.seqs }}"]
"""


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        ("SD307", f"{HYBRID} --max-num-seqs $SEQS", {"engine_version": "0.28.0"}),
        ("SD307", f"{HYBRID} --max-model-len $LEN", {"engine_version": "0.28.0"}),
        ("SD307", HELM, {}),
        ("SD305", f"{HYBRID} --max-num-seqs 16 --gpu-memory-utilization $GMU", {"hw": "gb10"}),
        ("SD236", f"{SGLANG} --max-running-requests $N", {"concurrency": 64}),
        ("SD230", f"{SGLANG} --mamba-scheduler-strategy $S", {"engine_version": "0.5.10"}),
        ("SD209", f"{LLAMA} --ctx-size 1048576 --parallel $N --spec-type draft-mtp",
         {"engine_version": "b10752"}),
        ("SD424", f"{HYBRID} --max-num-seqs 4 --attention-backend $B {MTP}",
         {"hw": "rtx4090", "concurrency": 1, "ctx": 65536}),
        ("SD426", f"vllm serve zai-org/GLM-4.7-Flash --attention-backend $B {MTP}",
         {"hw": "rtx-pro-6000"}),
        ("SD425", "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128 "
         f"--max-cudagraph-capture-size $C {MTP.replace('2', '4')}",
         {"hw": "h200", "concurrency": 128}),
    ],
)  # fmt: skip
def test_an_unknown_value_is_not_an_unset_one(code: str, text: str, told: dict[str, Any]) -> None:
    assert code not in {one.code for one in validate(text=text + "\n", **told).findings}


def test_prefix_caching_of_unknown_state_is_said_as_such() -> None:
    text = (
        "from vllm import LLM\nimport sys\n"
        'LLM(model="Qwen/Qwen3.6-27B-FP8", max_num_seqs=8, enable_prefix_caching=sys.argv[1],'
    )
    text += ' speculative_config={"method": "mtp", "num_speculative_tokens": 3})\n'
    found = validate(text=text, name="a.py", engine_version="0.28.0").findings
    assert "SD203" not in {finding.code for finding in found}
    (one,) = [finding for finding in found if finding.code == "SD202"]
    assert "by default" not in one.message and one.severity == "info"


def test_a_kv_type_that_is_not_known_makes_the_pool_unsure() -> None:
    text = (
        "vllm serve Qwen/Qwen3.6-27B-AWQ --max-model-len 262144 --max-num-seqs 2 "
        "--kv-cache-dtype $KV\n"
    )
    found = validate(text=text, hw="rtx3090").findings
    assert {finding.severity for finding in found if finding.code == "SD303"} <= {"warning"}


def test_draft_tokens_of_unknown_number_are_not_none() -> None:
    text = (
        f"{HYBRID} --max-num-seqs 8 --enable-prefix-caching --enable-auto-tool-choice "
        f"--tool-call-parser qwen3_coder --speculative-config "
        f'"{{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":$K}}"\n'
    )
    found = {
        finding.code: finding.message
        for finding in validate(text=text, engine_version="0.25.1", workload="agent").findings
    }
    assert {"SD202", "SD217"} <= found.keys()
    assert not any("k=0" in message for message in found.values())


@pytest.mark.parametrize(
    "text",
    [f"{SGLANG} --max-running-requests $N",
     f"{HYBRID} --max-num-seqs $SEQS --max-model-len 131072"],
)  # fmt: skip
def test_no_fix_adds_a_flag_that_is_there(text: str) -> None:
    def judge(text: str, name: str) -> Report:
        return validate(text=text, name=name, concurrency=64, select=["SD236", "SD307"])

    report = judge(text + "\n", "-")
    assert apply_rounds(report.reads[0].source, report, judge, unsafe=True).text == text + "\n"
