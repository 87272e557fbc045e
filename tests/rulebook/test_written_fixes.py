"""What a fix writes into a launch, a line each: `[as it stood -> as the engine reads it]`."""

import re

import pytest

from advisor.lint.validate import validate

SGLANG = "python -m sglang.launch_server --model-path m"
FIXES = f"""
SD133: vllm serve m [max-model-len -> --max-model-len] 8192
SD133: vllm serve m [\u2014max-num-seqs -> --max-num-seqs] 4
SD133: vllm serve m [max-model-len=8192 -> --max-model-len=8192] --port 1
SD101: vllm serve m [--gpu-memory-utilisation -> --gpu-memory-utilization] 0.9
SD101: {SGLANG} [--context-lenght -> --context-length] 4096
SD101: llama-server -m q.gguf [--context-size -> --ctx-size] 4096
SD101: llama-server -m q.gguf [--temp=0.7 -> --temp 0.7]
SD116: vllm serve m [--ctx-size -> --max-model-len] 4096
SD116: vllm serve m [--parallel -> --max-num-seqs] 4
SD116: {SGLANG} [--gpu-memory-utilization -> --mem-fraction-static] 0.8
SD116: llama-server -m q.gguf [--max-model-len -> --ctx-size] 4096
SD107: vllm serve m --kv-cache-dtype [q8_0 -> fp8]
SD107: vllm serve m --dtype [bf16 -> bfloat16]
SD107: vllm serve m --max-num-seqs [four -> 4]
SD107: vllm serve m --gpu-memory-utilization [90% -> 0.9]
SD107: vllm serve m --reasoning-parser [qwen-3 -> qwen3]
SD107: {SGLANG} --attention-backend [flash-infer -> flashinfer]
SD107: llama-server -m q.gguf --cache-type-k [fp8 -> q8_0]
SD107: llama-server -m q.gguf --device [cuda:0,cuda:1 -> CUDA0,CUDA1]
SD107: llama-server -m q.gguf -c [32k -> 32768]
SD107: llama-server -m q.gguf --split-mode [rows -> row]
SD130: vllm serve m [--enable-prefix-caching true -> --enable-prefix-caching]
SD130: vllm serve m [--enforce-eager=true -> --enforce-eager]
SD102: llama-server -m q.gguf [--no-mmap=true -> --load-mode none]
SD110: vllm serve m --speculative-config '{{"[num_spec_tokens -> num_speculative_tokens]": 2}}'
SD111: vllm serve m --speculative-config '{{"method": ["mpt" -> "mtp"]}}'
SD127: {SGLANG} --speculative-algorithm [EAGEL3 -> EAGLE3]
SD127: {SGLANG} --speculative-algorithm [MTP -> NEXTN]
SD113: llama-server -m q.gguf --spec-type [mtp -> draft-mtp]
SD114: llama-server -m q.gguf --spec-type [draft-mpt -> draft-mtp]
SD135: [VLLM_LOGING_LEVEL -> VLLM_LOGGING_LEVEL]=DEBUG vllm serve m
SD135: VLLM_USE_DEEP_GEMM=[no -> 0] vllm serve m
SD135: [LLAMA_ARG_NGL -> LLAMA_ARG_N_GPU_LAYERS]=99 llama-server -m q.gguf
SD135: [NCCL_P2P_DISABLED -> NCCL_P2P_DISABLE]=1 vllm serve m
"""


@pytest.mark.parametrize("line", FIXES.strip().splitlines())
def test_a_fix_writes_what_the_engine_reads(line: str) -> None:
    code, marked = line.split(": ", 1)
    text, mended = (re.sub(r"\[(.+?) -> (.+?)\]", rf"\{part}", marked) for part in (1, 2))
    (finding,) = [one for one in validate(text=text, name="a.sh").findings if one.code == code]
    (edit,) = finding.fix.edits
    assert text[: edit.start] + edit.text + text[edit.end :] == mended
