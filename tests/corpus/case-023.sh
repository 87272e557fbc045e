#!/usr/bin/env bash
./llama-server -hf community/Qwen3.6-27B-MTP-GGUF:Q8_0 -sm tensor -np 1 \
  --chat-template-kwargs "{\"preserve_thinking\": true}" --spec-type mtp --spec-draft-n-max 3
