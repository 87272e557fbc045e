import re
from typing import Any

from advisor.domain.nouns import Case, Flag
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, rule
from advisor.rules.kit.case import certain, compute_arch, flag, has_switch, number, unread
from advisor.rules.kit.fixes import add_fix, drop_fix, set_fix

BLACKWELL = table("compatibility")["blackwell_backends"]
PAIRS = table("compatibility")["option_pairs"]


@rule("SD279", "error", "catalogued", data="compatibility.option_pairs")
def options_at_odds(case: Case) -> Hits:
    """Two options of which one refuses the other, does nothing beside it, or needs it.

    Why: the server stops at some combinations; of others it passes over one option.
    Bad: sglang serve --model-path Qwen/Qwen3-8B --disable-radix-cache --enable-hierarchical-cache
    Good: sglang serve --model-path Qwen/Qwen3-8B --enable-hierarchical-cache
    """
    for row in PAIRS:
        given = flag(case, row["option"])
        if row["engine"] == case.plan.engine and given and has_switch(case, row["option"]):
            yield from judge(case, row, given)
    for relation in (experts, backends, groups, ranks, first_address, shards):
        yield from relation(case)


def judge(case: Case, row: dict[str, Any], given: Flag) -> Hits:
    """The hits of one pair."""
    if row["option"] == "--enable-dp-lm-head" and case.plan.dp <= 1:
        return  # switched off with the attention
    if "needs" in row:
        # a chart has keys of its own for some options
        hidden = case.launch.form == "helm-values" or unread(case)
        if hidden or flag(case, *row["needs"]) is not None:
            return
        need = row["needs"][0]
        what = f"Add {need}."
        yield Hit(
            f"{given.raw} {'is refused' if row['stops'] else 'does nothing'} without {need}",
            flag=given,
            severity=None if row["stops"] else "warning",
            fix=add_fix(case, given, need, None, what) if row.get("switch") else what,
        )
        return
    other = flag(case, row["excludes"])
    if other is None or not has_switch(case, row["excludes"]):
        return
    last = max((given, other), key=lambda one: (one.line, one.column))
    idle = given if row.get("idle") != "other" else other
    yield Hit(
        f"{given.raw} and {other.raw} exclude each other: the server refuses both"
        if row["stops"]
        else f"{idle.raw} does nothing beside {(other if idle is given else given).raw}",
        flag=given,
        severity=None if row["stops"] else "warning",
        fix=drop_fix(case, last, f"Take one of the two away, {last.raw} or the other."),
    )


def backends(case: Case) -> Hits:
    """An attention backend of SGLang that is written for Blackwell, on an older device, or
    FlashAttention 3 above compute capability 9.0.
    """
    arch = compute_arch(case) or ""
    if case.plan.engine != "sglang":
        return
    given = flag(case, "--attention-backend")
    if given and given.value in BLACKWELL["value"] and re.fullmatch(r"sm_[789]\d", arch):
        yield Hit(
            f"{given.value} is for Blackwell: on {arch} the server refuses to start",
            flag=given,
            fix="Use fa3, flashinfer or triton, or leave the choice to SGLang.",
        )
    for part in ("", "prefill-", "decode-"):
        given = flag(case, f"--{part}attention-backend")
        if given is not None and given.value == "fa3" and re.fullmatch(r"sm_1\d\d\w?", arch):
            what = "Use flashinfer or triton, or leave the choice to SGLang."
            yield Hit(
                f"fa3 runs on compute capability 8.0 to 9.0: on {arch} the server stops",
                flag=given,
                fix=set_fix(case, given, "flashinfer", what),
                sources=("sgl-project/sglang#12360",),
            )


def shards(case: Case) -> Hits:
    """Nodes and expert groups of SGLang that do not divide the tensor-parallel ranks."""
    tp = number(case, "--tp-size")
    if case.plan.engine != "sglang" or tp is None or case.plan.pp > 1:
        return
    for name, what in (("--nnodes", "nodes"), ("--ep-size", "expert-parallel groups")):
        parts = number(case, name) or 1
        if parts > 1 and tp % parts:
            yield Hit(
                f"{parts} {what} do not divide {tp} tensor-parallel ranks",
                flag=flag(case, name),
                fix=f"Use a divisor of {tp}, or other ranks.",
                sources=("sgl-project/sglang python/sglang/srt/server_args.py",),
            )


def experts(case: Case) -> Hits:
    """Expert parallelism of a model without experts."""
    given, model = flag(case, "--enable-expert-parallel"), case.facts.model
    on = case.plan.engine == "vllm" and has_switch(case, "--enable-expert-parallel")
    if given and on and model is not None and model.arch == "dense" and not model.experts:
        yield Hit(
            f"{model.name} has no experts: the server refuses expert parallelism",
            flag=given,
            fix=drop_fix(case, given, f"Remove {given.raw}."),
        )


def groups(case: Case) -> Hits:
    """Data-parallel attention of SGLang, whose groups must divide the tensor-parallel ranks."""
    given, on = certain(case, "--dp-size"), has_switch(case, "--enable-dp-attention")
    tp, parts = case.plan.tp, case.plan.dp
    if given is not None and on and case.plan.engine == "sglang" and parts > 1 and tp % parts:
        fits = max(one for one in range(1, tp + 1) if tp % one == 0 and one <= parts)
        yield Hit(
            f"{parts} groups of data-parallel attention do not divide {tp} tensor-parallel "
            "ranks: the server refuses to start",
            flag=given,
            fix=set_fix(case, given, str(fits), f"Use a divisor of {tp}, such as {fits}."),
        )


def first_address(case: Case) -> Hits:
    """Several nodes without the address at which they meet."""
    nodes = number(case, "--nnodes") or 1
    alone = flag(case, "--dist-init-addr") is None and not unread(case)
    if case.plan.engine == "sglang" and nodes > 1 and alone:
        yield Hit(
            f"{nodes} nodes without --dist-init-addr: each waits for the others at its own address",
            flag=flag(case, "--nnodes"),
            fix="Add --dist-init-addr with the address and a port of the first node.",
            sources=("sglang 0.5.23 python/sglang/srt/server_args.py (PortArgs.init_new)",),
        )


def ranks(case: Case) -> Hits:
    """A node's rank at or above the number of nodes: ranks begin at 0."""
    rank, nodes, last = number(case, "--node-rank"), number(case, "--nnodes") or 0, "--node-rank"
    if rank is not None and 0 < nodes <= rank:
        yield Hit(
            f"node rank {rank} of {nodes} node{'s' if nodes > 1 else ''}: ranks run from 0 to "
            f"{nodes - 1}, so the group never forms",
            flag=flag(case, last),
            fix=set_fix(case, last, str(nodes - 1), f"Write {nodes - 1}, the last node's rank.")
            if rank == nodes
            else f"Give each node its own rank from 0 to {nodes - 1}.",
            sources=("sgl-project/sglang#5457",),
        )
