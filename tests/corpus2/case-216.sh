export LLAMA_ARG_N_GPU_LAYERS=all
export LLAMA_ARG_N_GPU_LAYERS_DRAFT=all
export LLAMA_ARG_SPEC_DRAFT_CACHE_TYPE_K=q8_0
export LLAMA_ARG_NO_MMPROJ=1
export LLAMA_ARG_CHAT_TEMPLATE_KWARGS='{"preserve_thinking":true}'
export LLAMA_ARG_SPEC_DRAFT_N_MAX=16
export LLAMA_ARG_SPEC_DRAFT_P_MIN=0.8
export LLAMA_ARG_SPEC_TYPE=draft-mtp

command -v llama-server

llama-server -hf unsloth/Qwen3.6-27B-MTP-GGUF:Q6_K -fa on -ub 1024 \
--temp 0.6 --top-p 0.95 --top-k 20 --min-p 0.0 --presence-penalty 0.0 --repeat-penalty 1.0 \
--alias LocalLLM "$@"
