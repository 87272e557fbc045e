from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag

ROW = table("compatibility")["wrong_tool_parsers"]


@rule(
    severity="warning", engines=("vllm", "sglang"), needs=("model",), sources=tuple(ROW["sources"])
)
def tool_parser_mismatch(case: Case) -> Iterator[Hit]:
    """A tool-call parser of another model family.

    Why: Qwen3.5 and later write tool calls in an XML form; a JSON parser such as hermes leaves them
    in the text.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-auto-tool-choice --tool-call-parser hermes
    Good: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-auto-tool-choice --tool-call-parser
        qwen3_coder
    """
    parser, model = case.plan.tool_call_parser, case.facts.model
    if (
        model is None
        or parser not in ROW["parsers"]
        or not model.id.startswith(tuple(ROW["models"]))
    ):
        return
    yield Hit(
        f"the tool-call parser '{parser}' is not for {model.name or model.id}: calls can stay in "
        f"the text",
        flag=flag(case, "--tool-call-parser"),
        fix=Fix(text=f"Use {' or '.join(ROW['use'])} to match the chat template."),
        conflicts=tuple(ROW["conflicts"]),
    )
