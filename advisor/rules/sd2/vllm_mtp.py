"""MTP under vLLM."""

from advisor.domain.nouns import Case, Fix
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import k_words
from advisor.rules.kit.fixes import caching_off_fix, rename_fix
from advisor.rules.kit.releases import affects, prefix_caching_on, version_label

PIPELINE = "vllm-mtp-pipeline-parallel"
CACHING = "--enable-prefix-caching"
WHAT = "Use tensor parallelism instead, or drop speculation."


@rule("SD201", "warning", "vllm", defect="vllm-mtp-gdn-illegal-access", unsure="warning", at="k")
@when(methods="mtp", parts="hybrid")
def mtp_gdn_illegal_access(case: Case) -> Hits:
    """MTP on a hybrid (GDN) model with a vLLM release whose verify path can read outside the state.

    Why: workers die after minutes of long or multi-turn traffic, not at boot.
    Bad (version=0.27.1): vllm serve Qwen/Qwen3.6-27B-FP8 --speculative-config
        '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.27.1): vllm serve Qwen/Qwen3.6-27B-FP8
    """
    if case.launch.fork == "vllm-ascend":  # other kernels
        return
    drafts = f" with k={case.plan.k}" if case.plan.k else ""
    yield Hit(
        f"MTP{drafts} on a hybrid model under vLLM {version_label(case)} can end in an illegal "
        "memory access after minutes of multi-turn traffic; a lower k makes it rarer; disabling "
        "speculation is the only workaround",
        severity="info" if case.plan.k <= 1 else None,
        fix="Watch for Xid 31 and worker deaths; use k 1, or switch speculation off until a "
        "release has vllm#50021.",
    )


@rule(
    "SD202", "warning", "vllm", defect="vllm-mtp-prefix-caching-accuracy", unsure="warning",
    at=(CACHING, "spec"),
)  # fmt: skip
@when(methods="mtp", parts="hybrid")
def mtp_prefix_caching_accuracy(case: Case) -> Hits:
    """MTP together with prefix caching on a hybrid model: answers on cache hits can be wrong.

    Why: a state that holds rejected drafts is cached: hits lose needles. A note where k is 1.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B-FP8 --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1): with --no-enable-prefix-caching for --enable-prefix-caching
    """
    caching, how = prefix_caching_on(case), " (on by default from vLLM 0.26.0 on)"
    if caching is False:
        return
    agent = case.facts.workload == "agent"
    tools = agent or case.plan.tool_call_parser
    if case.open_value(CACHING):
        how = " (if the file turns it on)"
    elif caching:
        how = "" if case.plan.prefix_caching is True else " (on by default here)"
    what = (
        "Add --no-enable-prefix-caching, or switch MTP off, or test answers on repeated prefixes."
    )
    yield Hit(
        f"prefix caching{how} with MTP{k_words(case.plan)} on a hybrid under vLLM "
        f"{version_label(case)}: answers on cache hits "
        f"can be wrong{' and tool calls can leak as text' if tools else ''}",
        severity="warning" if (case.plan.k >= 2 or agent) and caching else "info",
        fix=caching_off_fix(case, what),
    )


@rule("SD203", "warning", "vllm", defect="vllm-mtp-prefix-caching-hitrate", unsure="warning")
@when(methods="mtp", parts="hybrid")
def mtp_prefix_caching_hitrate(case: Case) -> Hits:
    """MTP makes prefix caching on a hybrid lose its last block of about 1,000 tokens at every hit.

    Why: the hit rate falls (92 to 71 % in the report, 0 % for short prompts).
    Bad (version=0.19.1): vllm serve Qwen/Qwen3.6-35B-A3B-AWQ --enable-prefix-caching
        --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
    Good (version=0.19.1): with --no-enable-prefix-caching for --enable-prefix-caching
    """
    if not prefix_caching_on(case):
        return
    # SD202 warns then, with the same remedy
    graver = case.plan.k >= 2 or case.facts.workload == "agent"
    how = "" if case.plan.prefix_caching else " (on by default here)"
    what = (
        "Measure with --no-enable-prefix-caching; keep caching where prompts share several "
        "thousand tokens."
    )
    yield Hit(
        f"prefix caching{how} with MTP on a hybrid drops the last matched block (1,056 to 1,584 "
        "tokens) at every hit: short shared prefixes gain nothing, and decode times scatter",
        flag=case.flag(CACHING) or case.spec_flag(),
        severity="info" if graver or (case.facts.prefix_share or 0.0) >= 0.5 else None,
        fix=caching_off_fix(case, what),
    )


@rule("SD204", "error", "vllm", defect=PIPELINE)
@when(methods="mtp")
def mtp_pipeline_parallel(case: Case) -> Hits:
    """MTP with pipeline parallelism.

    Why: NotImplementedError at start or 1 % acceptance, before 0.30's V2 model runner.
    Bad (version=0.25.1): vllm serve Qwen/Qwen3.6-27B --pipeline-parallel-size 4
        --speculative-config '{"method":"mtp","num_speculative_tokens":3}'
    Good (version=0.25.1): with --tensor-parallel-size for --pipeline-parallel-size
    """
    place, runner = case.flag("--pipeline-parallel-size"), "VLLM_USE_V2_MODEL_RUNNER"
    reason = "the draft class refuses it (from 0.30 on the V2 model runner takes it)"
    if affects(PIPELINE, case) is False:
        reason = f"only the V2 model runner takes it, and {runner} turns that off"
        if (case.launch.env_value(runner) or "").lower() not in ("0", "false"):
            return
    if case.plan.pp <= 1:
        return
    fix = Fix(text=WHAT)
    if place and place.origin == "cli" and case.flag("--tensor-parallel-size") is None:
        fix = rename_fix(case, place, "--tensor-parallel-size", WHAT)
    yield Hit(
        f"MTP with pipeline parallelism {case.plan.pp} under vLLM {version_label(case)}: {reason}",
        flag=place,
        fix=fix,
    )
