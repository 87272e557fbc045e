from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.models import comes_before, first_release
from advisor.rules.kit.releases import asked_release, release, version_label

ENGINE_NAMES = {"llama-server": "llama.cpp"}


@rule(
    severity="error",
    engines=("vllm", "sglang", "llama-server"),
    needs=("model",),
    sources=("vllm-project/recipes", "sgl-project/sgl-cookbook", "ggml-org/llama.cpp"),
)
def release_before_model(case: Case) -> Iterator[Hit]:
    """An engine release that is older than the model, or than drafting with its MTP head.

    Why: the architecture is unknown to it and loading fails, or it loads through a fallback and
    repeats one word; a llama.cpp build that knows the model may still refuse its MTP head.
    Bad (version=0.15.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    model = case.facts.model
    at = asked_release(case.facts) if case.launch.emitted else release(case)
    if model is None:
        return
    name, engine = model.name or model.id, ENGINE_NAMES.get(case.plan.engine, case.plan.engine)
    verb, row = "is older than", first_release(model.id, case.plan.engine)
    if case.plan.method == "mtp" and (row is None or not comes_before(at, row)):
        verb = f"does not draft with the {'assistant' if model.assistant else 'MTP head'} of"
        row = first_release(model.id, case.plan.engine, "mtp_since")
    if row is None or not comes_before(at, row):
        return
    yield Hit(
        f"{engine} {version_label(case)} {verb} {name}, which needs {row['since']}",
        flag="image",
        # a fork may have the model ported back
        severity="info" if case.launch.fork else None,
        line=case.launch.container.image_line if case.launch and case.launch.container else 0,
        fix=Fix(text=f"Use {engine} {row['since']} or newer."),
        sources=tuple(row["sources"]),
    )
