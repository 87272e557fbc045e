from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, rule
from advisor.rules.kit.models import first_release
from advisor.rules.kit.releases import between, release, version_label


@rule(
    severity="error",
    engines=("vllm", "sglang"),
    needs=("model",),
    sources=("vllm-project/recipes", "sgl-project/sgl-cookbook"),
)
def release_before_model(case: Case) -> Iterator[Hit]:
    """An engine release that is older than the model.

    Why: the architecture is unknown to it and loading fails, or it loads through a fallback and
    repeats one word.
    Bad (version=0.15.0): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    Good (version=0.25.1): vllm serve Qwen/Qwen3.6-35B-A3B-FP8
    """
    model = case.facts.model
    row = first_release(model.id, case.plan.engine) if model is not None else None
    if model is None or row is None:
        return
    if between(release(case), row["since"], None) is False:
        yield Hit(
            f"{case.plan.engine} {version_label(case)} is older than "
            f"{model.name or model.id}, which needs {row['since']}",
            flag="image",
            # a fork may have the model ported back
            severity="info" if case.launch.fork else None,
            line=case.launch.container.image_line if case.launch and case.launch.container else 0,
            fix=Fix(text=f"Use {case.plan.engine} {row['since']} or newer."),
            sources=tuple(row["sources"]),
        )
