import subprocess

MODEL_NAME = "Qwen/Qwen3.5-9B"
VLLM_PORT = 8000
GPU_MEMORY_UTILIZATION = 0.9
MAX_CONTEXT_LENGTH = 32768
DISABLE_PREFIX_CACHING = True
ENABLE_MTP = True


class VLLMBench:
    def start_server(self):
        self.port = VLLM_PORT
        cmd = [
            "vllm",
            "serve",
            MODEL_NAME,
            "--port",
            str(self.port),
            "--host",
            "0.0.0.0",
            "--dtype",
            "bfloat16",
            "--gpu-memory-utilization",
            str(GPU_MEMORY_UTILIZATION),
            "--max-model-len",
            str(MAX_CONTEXT_LENGTH),
        ]
        if DISABLE_PREFIX_CACHING:
            cmd += ["--no-enable-prefix-caching"]
        if ENABLE_MTP:
            cmd += ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}']

        self.process = subprocess.Popen(cmd)
