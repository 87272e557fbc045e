"""Tool calls, structured output and sampling with speculation."""

import re

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import certain, flag, k_words, model_name
from advisor.rules.kit.models import base_name
from advisor.rules.kit.releases import version_label

FLAGS = (
    *("--grammar", "--grammar-file", "--json-schema", "--json-schema-file"),
    *("--grammar-backend", "--structured-outputs-config"),
)
ROW = table("compatibility")["wrong_tool_parsers"]
FAMILIES = table("compatibility")["parser_families"]


@rule("SD217", "info", "vllm", defect="vllm-mtp-tool-call-streaming", unsure="info")
@when(methods="mtp", parts="plan.tool_call_parser")
def mtp_tool_call_streaming(case: Case) -> Hits:
    """MTP with a tool-call parser: streamed tool calls can come out empty or malformed.

    Why: the parser can see a whole call in one delta. A warning for agent work, else a note.
    Bad (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder
    """
    yield Hit(
        f"tool calls streamed with MTP{k_words(case.plan)} under vLLM {version_label(case)} can "
        f"come out empty or malformed",
        flag=flag(case, "--tool-call-parser"),
        severity="warning" if case.facts.workload == "agent" else None,
        fix="Test streamed tool calls; otherwise disable streaming, or MTP, for tool calls.",
    )


@rule("SD218", "info")
@when(methods="mtp", options=FLAGS)
def mtp_structured_output(case: Case) -> Hits:
    """Grammar-bound output together with MTP.

    Why: reports of mid-2026: scheduler crashes, rejected tokens, wedged tool calls.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --grammar-backend xgrammar
        --speculative-algorithm NEXTN --speculative-num-steps 3 --speculative-eagle-topk 1
        --speculative-num-draft-tokens 4
    Good: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --grammar-backend xgrammar
    Sources: sgl-project/sglang#28407; vllm-project/vllm#46249; Tanguille/cluster@e6803ff86
    """
    place = flag(case, *FLAGS)
    if place is not None and place.value != "none":
        yield Hit(
            f"{place.raw} with MTP: crashes and rejected tokens were reported in mid-2026; test "
            f"it under load",
            flag=place,
            fix="Use a release of autumn 2026 or later, or switch MTP off for grammar-bound "
            "requests.",
            conflicts=("vllm#46249 was not reproduced on a later release",),
        )


@rule("SD219", "warning", "vllm sglang", data="compatibility.wrong_tool_parsers")
@when(needs="model", parts="facts.model")
def tool_parser_mismatch(case: Case) -> Hits:
    """A tool-call parser of another model family.

    Why: Qwen3.5 and later write calls in XML; a JSON parser such as hermes leaves them in the text.
    Bad: vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --enable-auto-tool-choice --tool-call-parser hermes
    Good: with qwen3_coder for hermes
    """
    parser, id_ = case.plan.tool_call_parser, case.facts.model.id if case.facts.model else ""
    if parser not in ROW["parsers"] or not id_.startswith(tuple(ROW["models"])):
        yield from other_family(case)
        return
    yield Hit(
        f"the tool-call parser '{parser}' is not for {model_name(case)}: calls can stay in the "
        "text",
        flag=flag(case, "--tool-call-parser"),
        fix=f"Use {' or '.join(ROW['use'])} to match the chat template.",
        conflicts=tuple(ROW["conflicts"]),
    )


def other_family(case: Case) -> Hits:
    """A parser of tool calls or of reasoning that is written for models of other names."""
    name = base_name(case.plan.model or case.launch.model or "")
    if flag(case, "--chat-template") is not None or not re.search(FAMILIES["models"], name):
        return
    for option, rows in FAMILIES["value"].items():
        found = certain(case, option)
        pattern = rows.get(found.value or "") if found is not None else None
        if found is None or pattern is None or re.search(pattern, name):
            continue
        meant = [one for one, own in rows.items() if re.search(rf"^(?:{own})", name)]
        yield Hit(
            f"the parser '{found.value}' is for other models than {name}: its output stays in the "
            "text",
            flag=found,
            fix=f"Take the parser of this family, such as {meant[0]}."
            if len(meant) == 1
            else "Take the one of this family.",
            row=FAMILIES,
        )
