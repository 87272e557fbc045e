#!/bin/bash
MTP_SERVER_BIN=~/llama.cpp-mtp/build/bin/llama-server
MTP_MODEL_PATH=~/models/Qwen3.6-35B-A3B-MTP-UD-Q4_K_M.gguf
PORT=8080
case "$1" in
    mtp)
            if pgrep -x "llama-server" > /dev/null; then
                pkill -x "llama-server"
                sleep 2
            fi

            nohup $MTP_SERVER_BIN \
                -m $MTP_MODEL_PATH \
                -fitt 1600 \
                -c 65536 \
                -n 32768 \
                -fa on \
                -np 1 \
                -ctk q8_0 \
                -ctv q8_0 \
                -ctkd q8_0 \
                -ctvd q8_0 \
                -ctxcp 64 \
                --no-mmap \
                --mlock \
                --threads 6 \
                --batch-size 1024 \
                --ubatch-size 512 \
                --spec-type mtp \
                --spec-draft-n-max 2 \
                --chat-template-kwargs '{"preserve_thinking": true}' \
                --host 0.0.0.0 --port $PORT \
                --timeout 300 --metrics > /tmp/llama-server.log 2>&1 &
            docker start open-webui > /dev/null 2>&1
            ;;
    stop)
            pkill -x llama-server
            ;;
esac
