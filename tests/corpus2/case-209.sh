#!/usr/bin/env bash
set -euo pipefail
BENCH_DIR="${BENCH_DIR:-$HOME/bench}"
VENV="${VENV:-/opt/venvs/vllm}"
MODEL_AWQ="${MODEL_AWQ:-/models/qwen36-awq}"
MODEL_FP8="${MODEL_FP8:-/models/qwen36-fp8}"
PORT=8000
export VLLM_USE_DEEP_GEMM=0
export VLLM_USE_FLASHINFER_MOE_FP16=1
COMMON_FLAGS=(
    --served-model-name qwen36-awq
    --tensor-parallel-size 2
    --enable-expert-parallel
    --gpu-memory-utilization 0.85
    --max-model-len 32768
    --max-num-seqs 4
    --enable-chunked-prefill
    --no-enable-prefix-caching
    --enable-auto-tool-choice
    --tool-call-parser qwen3_xml
    --reasoning-parser qwen3
    --mm-encoder-tp-mode data
    --trust-remote-code
    --host 127.0.0.1 --port "$PORT"
)
VLLM_PID=""
launch_vllm() {
    local label="$1"
    shift
    local logfile="$BENCH_DIR/vllm_${label}.log"
    echo ">>> Launching vLLM ($label)"
    "$VENV/bin/vllm" serve "$@" > "$logfile" 2>&1 &
    VLLM_PID=$!
    return 0
}
phase_a_k_sweep() {
        for K in 1 2 3; do
            local label="p_k${K}"
            if launch_vllm "$label" "$MODEL_AWQ" \
                "${COMMON_FLAGS[@]}" \
                --speculative-config "{\"method\":\"mtp\",\"num_speculative_tokens\":${K}}"; then
                echo ok
            fi
        done
}
phase_a_k_sweep
