class Runner:
    def __init__(self, path="Qwen/Qwen3.5-4B", spec_tokens=2, fp8=False):
        from vllm import LLM
        self.llm = LLM(
            model=path,
            enable_prefix_caching=True,
            max_model_len=2048,
            dtype="bfloat16",
            quantization="fp8" if fp8 else None,
            max_num_seqs=16,
            speculative_config={"method": "mtp", "num_speculative_tokens": spec_tokens} if spec_tokens else None,
        )
