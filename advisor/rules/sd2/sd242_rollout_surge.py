from collections.abc import Iterator

from advisor.domain.nouns import Case
from advisor.rules import Hit, rule
from advisor.rules.kit.case import around


@rule(severity="warning", sources=("nicolerenee/infra#2067", "Tanguille/cluster"))
def rollout_surge(case: Case) -> Iterator[Hit]:
    """A rolling update that needs a second GPU before it frees the first.

    Why: the surge pod waits for a GPU that the old pod holds, and the rollout never ends.
    Bad:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: qwen}
        spec:
          strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
          selector: {matchLabels: {app: qwen}}
          template:
            metadata: {labels: {app: qwen}}
            spec:
              containers:
                - name: vllm
                  image: vllm/vllm-openai:v0.25.1
                  command: [vllm, serve, Qwen/Qwen3.6-35B-A3B-FP8]
                  resources: {limits: {nvidia.com/gpu: 1}}
    Good:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: qwen}
        spec:
          strategy: {type: Recreate}
          selector: {matchLabels: {app: qwen}}
          template:
            metadata: {labels: {app: qwen}}
            spec:
              containers:
                - name: vllm
                  image: vllm/vllm-openai:v0.25.1
                  command: [vllm, serve, Qwen/Qwen3.6-35B-A3B-FP8]
                  resources: {limits: {nvidia.com/gpu: 1}}
    """
    container = case.launch.container
    if container is not None and container.rollout_surge:
        yield around(
            case,
            "the rolling update starts a second pod before it stops the first, and so needs a "
            "second GPU",
            "strategy",
            "Use strategy Recreate, or maxUnavailable 1.",
            # a cluster that grows finds a second one; whoever writes the strategy down has decided
            "info" if container.rollout_default else None,
        )
