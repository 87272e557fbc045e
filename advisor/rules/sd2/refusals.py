"""What does not go together: options with options, and speculation with options and outputs."""

import re
from collections.abc import Mapping
from typing import Any

from advisor.domain.nouns import Case, Flag
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import capability, k_words, number, rows
from advisor.rules.kit.fixes import add_fix, drop_fix, set_fix
from advisor.rules.kit.releases import between, release, version_label, within

ROW = table("compatibility")["wrong_tool_parsers"]
ROWS = rows("compatibility", "speculation_beside")
PAIRS = table("compatibility")["option_pairs"]
STRICT = "VLLM_ENFORCE_STRICT_TOOL_CALLING"
# options whose number divides the ranks, or the number of another option, and what is beside them
DIVISORS = tuple(map(tuple, table("compatibility")["divisors"]["value"]))


@rule("SD217", "info", "vllm", defect="vllm-mtp-tool-call-streaming", unsure="info")
@when(methods="mtp", parts="plan.tool_call_parser")
def mtp_tool_call_streaming(case: Case) -> Hits:
    """MTP with a tool-call parser: streamed tool calls can come out empty or malformed.

    Why: the parser can see a whole call in one delta; the grammar of strict calls in 0.23.0
    ended requests at a rejected draft. A warning then and for agent work, else a note.
    Bad (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1, workload=agent): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-auto-tool-choice
        --tool-call-parser qwen3_coder
    """
    strict = (case.launch.env_value(STRICT) or "true").lower() in ("true", "1")
    ends = strict and within(case, "0.23.0", "0.23.0") is True
    yield Hit(
        f"tool calls streamed with MTP{k_words(case.plan)} under vLLM {version_label(case)} can "
        f"come out empty or malformed{', or end the request' if ends else ''}",
        flag=case.flag("--tool-call-parser"),
        severity="warning" if ends or case.facts.workload == "agent" else None,
        fix="Test streamed tool calls; otherwise disable streaming, or MTP, for tool calls.",
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
        return
    text = f"Use {' or '.join(ROW['use'])} to match the chat template."
    yield Hit(
        f"the tool-call parser '{parser}' is not for {case.model_name}: calls can stay in the text",
        flag=case.flag("--tool-call-parser"),
        fix=set_fix(case, "--tool-call-parser", ROW["use"][0], text),
        conflicts=tuple(ROW["conflicts"]),
    )


@rule("SD285", "error", "catalogued ik_llama.cpp", data="compatibility.speculation_beside")
@when(speculative=True)
def speculation_beside(case: Case) -> Hits:
    """Speculation beside an option that the release refuses with it, or that takes its effect away.

    Why: SGLang drafts beside LoRA, pipelines and DP attention with some algorithms alone; a
    drafter's keys and values do not reach the server that decodes; experts on the host make drafts
    dear.
    Bad (version=0.5.12): python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B
        --speculative-algorithm EAGLE3 --speculative-draft-model-path AngelSlim/Qwen3-8B_eagle3
        --enable-lora --lora-paths a=/x
    Good (version=0.5.20): the same
    """
    for row in ROWS:
        given = case.flag(*row["options"])
        on = case.has_switch(*row["options"]) is not row.get("off", False)
        if given is None or not on or not _applies(case, row, given):
            continue
        ends = [f"{x} {row[y]}" for x, y in (("from", "since"), ("up to", "until")) if row[y]]
        known = between(release(case), row["since"], row["until"])
        if known is not False:
            yield Hit(
                row["text"],
                flag=given,
                severity=row.get("unsure", "warning")
                if ends and known is None
                else row.get("severity"),
                fix=set_fix(case, given, row["use"], row["fix"])
                if "use" in row
                else drop_fix(case, given, row["fix"])
                if "drop" in row
                else row["fix"],
                row=row,
                versions=" ".join(ends),
            )


def _applies(case: Case, row: Mapping[str, Any], given: Flag) -> bool:
    """Whether the engine, the method, the model and what stands beside the option are the row's."""
    facts, plan = case.facts, case.plan
    model = facts.model.id if facts.model else (plan.model or "").rpartition("/")[2].lower()
    vendor = facts.hardware.vendor if facts.hardware else ""
    extra = {name for name, value in plan.extra if value != "false"}
    return (
        plan.engine in row["engine"].split()
        and plan.method not in row.get("but", ())
        and plan.method in row.get("methods", (plan.method,))
        and any(model.startswith(name) for name in row.get("models", ("",)))
        and vendor in row.get("vendors", (vendor,))
        and capability(case) not in row.get("capabilities", ())
        and plan.attention_backend in row.get("backends", (plan.attention_backend,))
        and plan.kv_cache_dtype in row.get("kv_types", (plan.kv_cache_dtype,))
        and ("env" not in row or case.launch.env_value(row["env"][0]) == row["env"][1])
        and row.get("holds", "") in (given.value or "") not in row.get("unless", ())
        and ("beside" not in row or row["beside"] in extra or case.has_switch(row["beside"]))
        and ("absent" not in row or not case.has_switch(row["absent"]))
    )


@rule("SD286", "error", "vllm", data="chips.sparse_attention")
@when(needs="hardware model")
def sparse_attention_without_kernel(case: Case) -> Hits:
    """A model with sparse attention on an NVIDIA card that no released kernel serves.

    Why: every backend of sparse MLA asks for compute capability 9, 10 or 12; others find none.
    Bad (hw=a100-80gb, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    Good (hw=h200, version=0.33.0): vllm serve deepseek-ai/DeepSeek-V3.2 -tp 8
    """
    chip, name = capability(case), case.facts.model.id if case.facts.model else ""
    for row in rows("chips", "sparse_attention") if chip is not None else ():
        own = name.startswith(tuple(row["models"])) and chip not in row["capabilities"]
        if own and between(release(case), row["since"], None) is not False:
            needed = " or ".join(map(str, row["capabilities"]))
            yield Hit(
                f"{case.model_name} has sparse attention, whose kernels in vLLM need compute "
                f"capability {needed}; {case.hardware_name} has {chip}",
                fix="Use llama-server with a GGUF of it, another model, or a newer card.",
                severity="warning" if case.launch.fork is not None else None,
                row=row,
            )


@rule("SD279", "error", "catalogued", data="compatibility.option_pairs")
def options_at_odds(case: Case) -> Hits:
    """Two options of which one refuses the other, does nothing beside it, or needs it.

    Why: the server stops at some combinations; of others it passes over one option.
    Bad: sglang serve --model-path Qwen/Qwen3-8B --disable-radix-cache --enable-hierarchical-cache
    Good: sglang serve --model-path Qwen/Qwen3-8B --enable-hierarchical-cache
    """
    arch = case.facts.model.arch if case.facts.model else ""
    for row in PAIRS:
        given = case.flag(row["option"])
        if (
            given is not None
            and row["engine"] == case.plan.engine
            and case.has_switch(row["option"])
            and re.match(row.get("value", ""), given.value or "", re.I)
            and ("arch" not in row or (arch and row["arch"] not in arch))
        ):
            yield from judge(case, row, given)
    yield from uneven(case)
    yield from nodes(case)


def judge(case: Case, row: dict[str, Any], given: Flag) -> Hits:
    """The hits of one pair."""
    if row["option"] == "--enable-dp-lm-head" and case.plan.dp <= 1:
        return  # switched off with the attention
    if "needs" in row:
        # a chart has keys of its own for some options
        hidden = case.launch.form == "helm-values" or case.unread()
        if hidden or case.flag(*row["needs"]) is not None:
            return
        need = row["needs"][0]
        what = row.get("fix", f"Add {need}.")
        yield Hit(
            f"{given.raw} {'is refused' if row['stops'] else 'does nothing'} without {need}",
            flag=given,
            severity=None if row["stops"] else "warning",
            fix=add_fix(case, given, need, None, what) if row.get("switch") else what,
        )
        return
    other = case.flag(row["excludes"])
    meets = other is not None and (other.value or "").startswith(row.get("with", ""))
    if other is None or not meets or not case.has_switch(row["excludes"]):
        return
    last = max((given, other), key=lambda one: (one.line, one.column))
    said = [f"{one.raw} {one.value}" if "value" in row else one.raw for one in (given, other)]
    idle = given if row.get("idle") != "other" else other
    yield Hit(
        f"{' and '.join(said)} exclude each other: the server refuses both"
        if row["stops"]
        else f"{idle.raw} does nothing beside {(other if idle is given else given).raw}",
        flag=given,
        severity=None if row["stops"] else "warning",
        fix=drop_fix(case, last, f"Take one of the two away, {last.raw} or the other."),
    )


def uneven(case: Case) -> Hits:
    """Numbers that must divide the tensor-parallel ranks, or the number of another option."""
    for engine, option, what, of, beside, source in DIVISORS:
        given, parts = case.certain(option), number(case, option) or 1
        whole = max(number(case, of) or 0, 0) if of else case.plan.tp
        if engine != case.plan.engine or given is None or parts <= 1 or not whole % parts:
            continue
        if case.has_switch(beside) if beside else case.plan.pp == 1 and case.flag("--tp-size"):
            divisors = (one for one in range(1, parts + 1) if whole % one == 0)
            fits = (whole - whole % parts or parts) if of else max(divisors)
            text = (
                f"Use a {f'multiple of {parts}' if of else f'divisor of {whole}'}, such as {fits}."
            )
            yield Hit(
                f"{parts} {what} do not divide {whole} {of or 'tensor-parallel ranks'}: the server "
                "refuses to start",
                flag=given,
                fix=set_fix(case, case.flag(of) or given, str(fits), text),
                sources=(source,),
            )


def nodes(case: Case) -> Hits:
    """Several nodes without the address at which they meet, or a rank at or above their number."""
    rank, count = number(case, "--node-rank"), number(case, "--nnodes") or 0
    more = case.launch.image_adds_options or case.launch.open_end
    alone = case.flag("--dist-init-addr") is None and not more
    if case.plan.engine == "sglang" and count > 1 and alone:
        yield Hit(
            f"{count} nodes without --dist-init-addr: each waits for the others at its own address",
            flag=case.flag("--nnodes"),
            fix="Add --dist-init-addr with the address and a port of the first node.",
            sources=("sglang 0.5.23 python/sglang/srt/server_args.py (PortArgs.init_new)",),
        )
    if rank is not None and 0 < count <= rank:
        yield Hit(
            f"node rank {rank} of {count} node{'s' if count > 1 else ''}: ranks run from 0 to "
            f"{count - 1}, so the group never forms",
            flag=case.flag("--node-rank"),
            fix=f"Give each node its own rank from 0 to {count - 1}.",
            sources=("sgl-project/sglang#5457",),
        )
