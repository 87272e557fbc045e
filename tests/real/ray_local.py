"""Runs inside Ray's own Python: a local Ray with GPUs that are not there, `serve run FILE` on it,
and one chat. The engine takes the arguments that Ray hands to vLLM as vLLM's own class does, and
answers with them.

    python ray_local.py FILE RESULT
"""

import json
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from typing import Any

import ray
import yaml
from ray import serve
from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionResponse
from ray.llm._internal.serve.core.engine.protocol import LLMEngine
from ray.serve.scripts import run
from vllm.engine.arg_utils import AsyncEngineArgs

GPUS = 16
START_S = 540.0


class EchoEngine(LLMEngine):
    """An engine without a model."""

    def __init__(self, llm_config: Any) -> None:
        self.config = llm_config

    async def start(self) -> None:
        """Read the arguments. Raises ValueError or TypeError for one that vLLM does not have."""
        engine = self.config.get_engine_config()
        words = engine.get_initialization_kwargs()
        AsyncEngineArgs(**words)
        self.words = engine.frontend_kwargs | words

    async def chat(self, request: Any, raw_request_info: Any = None) -> AsyncIterator[Any]:
        """The arguments, as the words of the answer."""
        message = {"role": "assistant", "content": json.dumps(self.words, default=str)}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield ChatCompletionResponse(model=request.model, choices=[choice], usage=usage)

    async def check_health(self) -> None:
        """Always well."""

    def routing_stats(self) -> dict[str, Any]:
        """None."""
        return {}

    completions = embeddings = transcriptions = resolve_lora = reset_prefix_cache = chat


def replicas() -> dict[str, Any]:
    """What became of the one application: its state, message and running servers of the model."""
    (application,) = serve.status().applications.values()
    counts = [
        deployment.replica_states.get("RUNNING", 0)
        for name, deployment in application.deployments.items()
        if name.startswith("LLMServer")
    ]
    texts = [application.message, *(one.message for one in application.deployments.values())]
    state = {"state": str(application.status.value), "replicas": sum(counts)}
    return state | {"message": " ".join(filter(None, texts))[-3000:]}


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def main() -> None:
    with open(sys.argv[1]) as file:
        listen = yaml.safe_load(file)["http_options"]
    ray.init(num_gpus=GPUS, num_cpus=GPUS, include_dashboard=False, log_to_driver=False)
    run.main([sys.argv[1], "--non-blocking"], standalone_mode=False)
    until = time.monotonic() + START_S
    told = replicas()
    while told["state"] in ("NOT_STARTED", "DEPLOYING") and time.monotonic() < until:
        if "rror" in told["message"]:  # a replica is tried again and again
            break
        time.sleep(1)
        told = replicas()
    if told["state"] == "RUNNING":
        base = f"http://{listen['host']}:{listen['port']}/v1"
        (model,) = (one["id"] for one in ask(f"{base}/models")["data"])
        words = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        answer = ask(f"{base}/chat/completions", words)
        told |= {"model": model, "words": json.loads(answer["choices"][0]["message"]["content"])}
    serve.shutdown()
    with open(sys.argv[2], "w") as result:
        json.dump(told, result)


if __name__ == "__main__":
    main()
