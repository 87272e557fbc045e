"""SGLang's scheduler and Mamba cache."""

from advisor.domain.nouns import Case
from advisor.knowledge.rule_data import table
from advisor.rules import Hit, Hits, Lacking, rule, when
from advisor.rules.kit.case import is_hybrid, on_rocm
from advisor.rules.kit.fixes import add_fix, set_fix
from advisor.rules.kit.flags import catalogue, catalogued_version
from advisor.rules.kit.relations import relate
from advisor.rules.kit.releases import affects, version_label

INTERVAL = ("--mamba-track-interval", "--page-size")
STRATEGY = ("--mamba-scheduler-strategy", "--mamba-radix-cache-strategy")
WHAT = (
    "Set the mamba strategy to extra_buffer (before 0.5.14: --mamba-scheduler-strategy), or "
    "--disable-radix-cache."
)
CAP = table("compatibility")["sglang_running_requests"]


@rule("SD230", "error", "sglang", defect="sglang-no-extra-buffer")
@when(speculative=True, parts="hybrid")
def sglang_extra_buffer_missing(case: Case) -> Hits:
    """Speculation on a hybrid with the radix cache but without extra_buffer state slots.

    Why: 0.5.10 to 0.5.13 refuse to start on CUDA; 0.5.9 drops the cache; later `auto` is right.
    Bad (version=0.5.10): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm
        NEXTN
    Good (version=0.5.10): with --mamba-scheduler-strategy extra_buffer added
    """
    strategy = (case.plan.mamba_strategy or "auto").lower()
    off = case.has_switch("--disable-radix-cache") or case.plan.prefix_caching is False
    if off or on_rocm(case) or strategy.startswith("extra_buffer") or case.open_value(*STRATEGY):
        return
    explicit, affected = strategy == "no_buffer", affects("sglang-no-extra-buffer", case)
    # the emitter adds what the release needs
    if not explicit and (case.launch.emitted or affected is False):
        return
    dropped = affects("sglang-no-extra-buffer-drops-cache", case)
    name = "--mamba-radix-cache-strategy"
    option = catalogue(case).find(name, catalogued_version(case))
    if option is None or option.removed:
        name = "--mamba-scheduler-strategy"
    place = case.flag(*STRATEGY)
    yield Hit(
        f"speculation on a hybrid with {'no_buffer' if explicit else 'no mamba strategy'} under "
        f"SGLang {version_label(case)}: "
        + ("the radix cache is dropped" if dropped else "refused together with the radix cache"),
        flag=place or case.spec_flag(),
        severity=None if affected else "warning" if explicit else "info",
        fix=set_fix(case, place, "extra_buffer", WHAT)
        if place is not None
        else add_fix(case, case.spec_flag(), name, "extra_buffer", WHAT),
    )


@rule("SD232", "error", "sglang", defect="sglang-extra-buffer-rocm", unsure="error", at=STRATEGY)
def sglang_extra_buffer_rocm(case: Case) -> Hits:
    """extra_buffer on ROCm with an SGLang that has it for CUDA only.

    Why: an assertion stops the server.
    Bad (version=0.5.10, hw=mi300x): python3 -m sglang.launch_server --model-path
        Qwen/Qwen3.6-35B-A3B-FP8 --mamba-scheduler-strategy extra_buffer
    Good (version=0.5.10, hw=h100): the same
    """
    rocm = on_rocm(case)
    if strategy(case).startswith("extra_buffer") and rocm is None:
        yield Lacking(("hardware",))
    elif strategy(case).startswith("extra_buffer") and rocm:
        yield Hit(
            "extra_buffer asserts CUDA and this is ROCm",
            fix="Drop extra_buffer (the radix cache goes off), or use a build with sglang#27141.",
        )


def strategy(case: Case) -> str:
    """The state slots in force, with what the emitter adds to a plan of ours."""
    plan = case.plan
    ours = case.launch.emitted and plan.method != "none" and plan.prefix_caching is not False
    adds = ours and is_hybrid(case) and affects("sglang-no-extra-buffer", case)
    return plan.mamba_strategy or ("extra_buffer" if adds else "")


@rule("SD234", "warning", "sglang", defect="sglang-extra-buffer-crash", unsure="info", at="spec")
@when(speculative=True, parts="hybrid")
def sglang_mamba_crash(case: Case) -> Hits:
    """MTP with extra_buffer on SGLang 0.5.13 and 0.5.13.post1.

    Why: scheduler exceptions in the Mamba path, and about one start in five fails.
    Bad (version=0.5.13): sglang serve --model-path Qwen/Qwen3.5-9B --mamba-scheduler-strategy
        extra_buffer --speculative-algorithm NEXTN
    Good (version=0.5.14): with --mamba-radix-cache-strategy for --mamba-scheduler-strategy
    """
    added = "extra_buffer" if case.launch.emitted else ""  # by the emitter
    if (case.plan.mamba_strategy or added).startswith("extra_buffer"):
        yield Hit(
            "MTP with extra_buffer on SGLang 0.5.13 and 0.5.13.post1: scheduler exceptions, about "
            "one start in five fails",
            fix="Use another release, 0.5.14 or newer.",
        )


@rule("SD236", "info", "sglang", data="compatibility.sglang_running_requests", at="spec")
@when(speculative=True)
def sglang_running_requests_capped(case: Case) -> Hits:
    """Speculation without --max-running-requests: SGLang sets 48.

    Why: the others are queued, and a comparison with a server without speculation is not fair.
    Bad (concurrency=64): sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --speculative-algorithm
        NEXTN
    Good (concurrency=64): with --max-running-requests 64 added
    """
    option, streams = "--max-running-requests", case.facts.concurrency or 0
    if case.plan.max_num_seqs is not None or case.flag(option) is not None:
        return
    queued, what = streams > CAP["value"], f"Set {option} to the concurrency you serve."
    yield Hit(
        f"speculation without {option}: SGLang caps it at {CAP['value']}"
        + (f", and the concurrency is {streams}" if queued else ""),
        severity="warning" if queued else None,
        fix=add_fix(case, case.spec_flag(), option, str(streams), what) if queued else what,
    )


@rule("SD261", "warning", "sglang", data="relations.SD261")
@when(options="--schedule-conservativeness")
def sglang_conservativeness_low(case: Case) -> Hits:
    """A very low --schedule-conservativeness.

    Why: new prompts push running requests out; the time to first token grows under mixed load.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --schedule-conservativeness 0.1
    Good: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --schedule-conservativeness 1.0
    """
    return relate(case, "SD261")


@rule("SD257", "error", "sglang", data="relations.SD257", at=INTERVAL)
@when(options=INTERVAL)
def mamba_track_interval(case: Case) -> Hits:
    """A Mamba tracking interval that does not fit the draft tokens or the page size.

    Why: SGLang asserts that it is as long as the draft and a multiple of the page size.
    Bad: sglang serve --model-path Qwen/Qwen3.6-35B-A3B-FP8 --page-size 64 --mamba-track-interval
        100
    Good: with --mamba-track-interval 128 for --mamba-track-interval 100
    """
    return relate(case, "SD257")
