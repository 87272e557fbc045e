import re
from collections.abc import Iterator

from advisor.domain.nouns import Case, Fix
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, rule
from advisor.rules.kit.case import flag
from advisor.rules.kit.models import base_name

ROW = table("compatibility")["wrong_tool_parsers"]
FAMILIES = table("compatibility")["parser_families"]


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
    if model is None:
        return
    if parser not in ROW["parsers"] or not model.id.startswith(tuple(ROW["models"])):
        yield from other_family(case)
        return
    yield Hit(
        f"the tool-call parser '{parser}' is not for {model.name or model.id}: calls can stay in "
        f"the text",
        flag=flag(case, "--tool-call-parser"),
        fix=Fix(text=f"Use {' or '.join(ROW['use'])} to match the chat template."),
        conflicts=tuple(ROW["conflicts"]),
    )


def other_family(case: Case) -> Iterator[Hit]:
    """A parser of tool calls or of reasoning that is written for models of other names."""
    name = base_name(case.plan.model or case.launch.model or "")
    if flag(case, "--chat-template") is not None or not re.search(FAMILIES["models"], name):
        return
    for option, rows in FAMILIES["value"].items():
        found = flag(case, option)
        pattern = rows.get(found.value or "") if found is not None else None
        if found is None or pattern is None or found.unresolved or re.search(pattern, name):
            continue
        meant = [one for one, own in rows.items() if re.search(rf"^(?:{own})", name)]
        what = (
            f"Take the parser of this family, such as {meant[0]}."
            if len(meant) == 1
            else "Take the one of this family."
        )
        yield Hit(
            f"the parser '{found.value}' is for other models than {name}: its output stays in the "
            "text",
            flag=found,
            fix=Fix(text=what),
            sources=tuple(FAMILIES["sources"]),
        )
