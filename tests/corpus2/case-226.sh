export VLLM_OFFLOAD_WEIGHTS_BEFORE_QUANT=0 
export VLLM_WORKER_MULTIPROC_METHOD=spawn 
python3 -m vllm.entrypoints.openai.api_server \
    --model "$MODEL_PATH" \
    --served-model-name "$MODEL_NAME" \
    --dtype=float16 \
    --enforce-eager \
    --port 8000 \
    --gpu-memory-util=0.9 \
    --max-num-batched-tokens 16384 \
    --max-model-len  16384 \
    --block-size 64 \
    --quantization fp8 \
    --speculative_config='{"method": "eagle3", "model": "/llm/models/Qwen3-32B-Eagle", "num_speculative_tokens": 5}' \
    -tp=4
