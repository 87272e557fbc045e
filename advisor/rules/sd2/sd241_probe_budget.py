from collections.abc import Iterator

from advisor.domain.nouns import Case, Severity
from advisor.domain.patterns import lazy_re
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import around, has_switch

BUDGET = table("compatibility")["startup_seconds"]
LEAST = BUDGET["least"]
_SMALL = lazy_re(r"(?i)(?<![\w.])(?:[0-3](?:\.\d+)?)b(?![a-z])")  # parameters, not active ones
KINDS = (
    "kubernetes",
    "helm",
    "helmrelease",
    "llmkube",
    "kubernetes-helmrelease",
    "kubernetes-llmkube",
)


@rule(
    severity="error",
    engines=("vllm", "sglang"),
    sources=tuple(BUDGET["sources"]),
)
def probe_budget(case: Case) -> Iterator[Hit]:
    """A startup or liveness probe that gives up before the server is ready.

    Why: download, loading, compilation and graph capture take 5 to 30 minutes, and more with MTP; a
    shorter budget makes a crash loop at the first cold start.
    Bad:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: qwen}
        spec:
          selector: {matchLabels: {app: qwen}}
          template:
            metadata: {labels: {app: qwen}}
            spec:
              containers:
                - name: vllm
                  image: vllm/vllm-openai:v0.25.1
                  command: [vllm, serve, Qwen/Qwen3.6-35B-A3B-FP8]
                  startupProbe:
                    httpGet: {path: /health, port: 8000}
                    periodSeconds: 10
                    failureThreshold: 12
    Good:
        apiVersion: apps/v1
        kind: Deployment
        metadata: {name: qwen}
        spec:
          selector: {matchLabels: {app: qwen}}
          template:
            metadata: {labels: {app: qwen}}
            spec:
              containers:
                - name: vllm
                  image: vllm/vllm-openai:v0.25.1
                  command: [vllm, serve, Qwen/Qwen3.6-35B-A3B-FP8]
                  startupProbe:
                    httpGet: {path: /health, port: 8000}
                    periodSeconds: 10
                    failureThreshold: 180
    """
    container = case.launch.container
    budget = container.startup_budget_s if container is not None else None
    if (
        container is None
        or budget is None
        or container.kind not in KINDS
        or budget >= BUDGET["value"]
    ):
        return
    name = container.budget_probe
    yield around(
        case,
        f"the {name} probe gives up after {budget:.0f} s; loading with compilation takes 300 to "
        f"{BUDGET['value']} s",
        f"{name}Probe",
        f"Let periodSeconds x failureThreshold reach {BUDGET['value']} s."
        if name == "startup"
        else f"Add a startupProbe whose periodSeconds x failureThreshold reach {BUDGET['value']} "
        "s: until it passes, the liveness probe waits.",
        weight(case, budget),
    )


def weight(case: Case, budget: float) -> Severity:
    """An error where the weights alone cannot be read in the time; little where most servers start
    within it.
    """
    if budget >= BUDGET["short"] or _SMALL.search(case.launch.model or ""):
        return "info"
    if budget <= LEAST["process_s"] and compiles(case):
        return "error"
    model, quant = case.facts.model, case.facts.quant
    if model is None or quant is None or not model.total_params_b or not quant.bits:
        return "warning"
    gigabytes = model.total_params_b * quant.bits / 8
    least = LEAST["overhead_s"] + gigabytes / LEAST["gb_s"]
    return "error" if budget < least and gigabytes >= LEAST["from_gb"] else "warning"


def compiles(case: Case) -> bool:
    """Whether the server compiles and captures graphs before it answers, as it does by default."""
    return not (has_switch(case, "--enforce-eager") or has_switch(case, "--disable-cuda-graph"))
