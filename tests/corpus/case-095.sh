#!/bin/bash
set -e
export CUDA_HOME=/opt/cuda
export PATH=/opt/cuda/bin:/usr/local/bin:/usr/bin:/bin
export LD_LIBRARY_PATH=/opt/cuda/lib64
export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1
export NCCL_P2P_DISABLE=1
exec /opt/vllm/bin/vllm serve community/Huihui-Qwen3.6-27B-abliterated-AWQ-MTP \
  --tensor-parallel-size 2 \
  --max-model-len 262144 \
  --gpu-memory-utilization 0.98 \
  --mm-encoder-tp-mode data \
  --kv-cache-dtype fp8 \
  --enable-prefix-caching \
  --enable-chunked-prefill \
  --max-num-batched-tokens 4096 \
  --reasoning-parser qwen3 \
  --enable-auto-tool-choice \
  --tool-call-parser qwen3_coder \
  --max-num-seqs 4 \
  --speculative-config '{"method":"mtp","num_speculative_tokens":3}' \
  --performance-mode interactivity \
  --disable-custom-all-reduce \
  --trust-remote-code \
  --host 0.0.0.0 --port 8000
