vllm serve Qwen/Qwen3.8-Flash-Next-FP8 \  
  --tensor-parallel-size 8 \  
  --max-num-seqs 256 \  
  --gpu-memory-utilization 0.90 \  
  --enable-prefix-caching \  
  --no-enable-flashinfer-autotune \  
  --enable-auto-tool-choice \  
  --tool-call-parser qwen3_xml \  
  --reasoning-parser qwen3 \  
  --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
