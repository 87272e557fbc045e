"""The JSON Schemas (draft 2020-12) of what the commands print and read, by name."""

from importlib import import_module

from advisor.domain.nouns import AdvisorError
from advisor.render.objects import DIALECT, Schema

# what `advisor schema NAME` prints -> what makes it
SCHEMAS = {
    "recommend": "advisor.render.json_out:ANSWER.document",
    "validate": "advisor.render.findings.json_out:validate_schema",
    "sweep": "advisor.render.explore.json_out:SWEEP.document",
    "policy": "advisor.render.explore.json_out:POLICY.document",
    "compare": "advisor.render.explore.compare:COMPARISON.document",
    "compare-loads": "advisor.render.explore.compare:LOADS.document",
    "why-not": "advisor.render.explore.compare:WHY_NOT.document",
    "plan": "advisor.render.explore.plan:PLAN.document",
    "results": "advisor.render.own_runs:results_schema",
    "ab": "advisor.render.own_runs:ab_schema",
    "receipt": "advisor.render.receipt:receipt_schema",
    "hardware": "advisor.domain.nouns:Hardware.model_json_schema",
    "model": "advisor.domain.nouns:LLM.model_json_schema",
}


def named_schema(name: str) -> Schema:
    """The schema of one command. Raises AdvisorError for a name that has none."""
    target = SCHEMAS.get(name)
    if target is None:
        raise AdvisorError(f"no schema is called '{name}'; there are {', '.join(SCHEMAS)}")
    modules = {known: import_module(known.partition(":")[0]) for known in SCHEMAS.values()}
    maker = modules[target]  # all of them: a shape may hold nouns of another
    for attribute in target.partition(":")[2].split("."):
        maker = getattr(maker, attribute)
    schema: Schema = maker()  # type: ignore[operator]
    return {"$schema": DIALECT} | schema
