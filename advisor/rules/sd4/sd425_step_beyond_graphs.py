from advisor.domain.nouns import Case
from advisor.domain.question import LIMITS
from advisor.knowledge.rule_data import number, table
from advisor.rules import Hit, Hits, rule, when
from advisor.rules.kit.case import flag, has_switch, integer, is_hybrid, k_flag, open_value, value
from advisor.rules.kit.fixes import k_fix
from advisor.rules.kit.policy import matches, running_requests, streams
from advisor.rules.kit.releases import between, release, version_label

SIZES = ("--cudagraph-capture-sizes", "--max-cudagraph-capture-size", "--compilation-config")
HEADS = ("mtp", "eagle", "eagle3", "dflash", "dspark")  # what the second model runner drafts with
V2 = "VLLM_USE_V2_MODEL_RUNNER"
DEEPEST_K = int(LIMITS["acceptance_k"][1])  # nobody drafts more, so nothing more is advised
SLOTS = 256  # without --max-num-seqs; more changes no size below the largest


@rule("SD425", "warning", "vllm", decides=True, data="regime.graph_tokens")
@when(speculative=True, needs="concurrency")
def step_beyond_graphs(case: Case) -> Hits:
    """Verify steps that find no full CUDA graph: larger than the largest, or between two.

    Why: a step holds k + 1 tokens for each running request. Above the largest captured size every
    kernel is launched one by one: speculation then serves fewer tokens than none. vLLM 0.25 to 0.28
    run dense models with full graphs at sizes rounded up to k + 1 and graphs without attention at
    the sizes themselves: with k = 2, 4 or 5 requests miss the full one, and their step took 1.6 to
    2.6 times as long (H100, H200).
    Bad (hw=h200, concurrency=128): vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --max-num-seqs 128
        --speculative-config '{"method":"mtp","num_speculative_tokens":4}'
    Good (hw=h200, concurrency=128): with "num_speculative_tokens":2 for "num_speculative_tokens":4
    """
    yield from step_between_graphs(case)
    batch, most = running_requests(case), "--max-cudagraph-capture-size"
    if batch is None or case.plan.k < 1 or case.plan.k_schedule or open_value(case, most):
        return
    largest = integer(value(case, most)) or int(number("regime", "graph_tokens"))
    tokens = batch * (case.plan.k + 1)
    if tokens <= largest:
        return
    # fewer draft tokens leave room for more requests, so each k has a batch of its own
    lower = range(min(case.plan.k - 1, DEEPEST_K), 0, -1)
    fitting = (k for k in lower if (running_requests(case, k) or batch) * (k + 1) <= largest)
    fits = next(fitting, 0)
    advice = f"Draft {fits} or fewer" if fits else "Measure this load on and off"
    room = min(streams(case) or 0, case.plan.max_num_seqs or batch + 1)
    held = " that the KV pool holds" if batch < room else ""
    what = f"{advice}, or raise --max-cudagraph-capture-size above {tokens} (costs memory)."
    yield Hit(
        f"{batch} requests{held} with k={case.plan.k} make steps of {tokens} tokens; CUDA graphs "
        f"end at {largest}" + (", and so do those of baseline steps" if batch > largest else ""),
        flag=k_flag(case),
        fix=k_fix(case, fits, what),
        conflicts=(
            "long prompts are in every step and leave the graphs anyway: with 2,048 prompt and "
            "128 output tokens k=4 at 128 requests gained 1.38x (H200), with 4,358 and 1,300 "
            "tokens k=5 at 128 requests 1.3x (A100, Gemma 4 26B-A4B)",
        ),
        # the estimate has the price of such steps, and of plain ones beyond the graphs as well
        effect="k_max" if fits else None,
        k_max=fits or None,
    )


def step_between_graphs(case: Case) -> Hits:
    """A small step between two full graphs (vLLM #53407)."""
    row, plan, model = table("regime")["graph_gap"], case.plan, case.facts.model
    if plan.method not in HEADS or plan.k_schedule or not matches(row, case):
        return
    if between(release(case), row["since"], row["until"]) is not True:
        return
    if model is None or model.is_moe or is_hybrid(case) or case.launch.env_value(V2) == "0":
        return
    if flag(case, *SIZES) is not None or has_switch(case, "--enforce-eager"):
        return
    running = running_requests(case)
    if running is None or running > row["requests"]:
        return
    each, tokens = plan.k + 1, running * (plan.k + 1)
    slots = plan.max_num_seqs or SLOTS
    found = smallest_graphs(tokens, each, slots)
    if found is None:
        return
    partly, full = found
    instead = f"before the full one of {full}" if full else "and has no full one for them"
    listed = " ".join(str(each * n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 32, 64) if n <= slots)
    yield Hit(
        f"{running} requests with k={plan.k} make steps of {tokens} tokens: vLLM "
        f"{version_label(case)} takes its graph of {partly}, which leaves the attention out, "
        f"{instead}",
        flag=k_flag(case),
        fix=f"Use vLLM 0.29.0 or later, or add --cudagraph-capture-sizes {listed}, or draft "
        f"{plan.k - 1} or {plan.k + 1}.",
        row=row,
    )


def smallest_graphs(tokens: int, each: int, slots: int) -> tuple[int, int | None] | None:
    """Sizes in tokens of the next graph without attention and of the next full one (None where none
    holds a step of `tokens`, `each` a request, in `slots`); None where the full graph is taken, or
    no graph at all.
    """
    most = min(2 * slots * each, int(number("regime", "graph_tokens")))
    sizes = [n for n in (1, 2, 4, *range(8, 256, 8), *range(256, most + 1, 16)) if n <= most]
    rounded = [-(-n // each) * each for n in sizes]
    partly = next((n for n in sizes if n >= tokens), None)
    full = next((n for n in rounded if tokens <= n <= min(most, slots * each)), None)
    return (partly, full) if partly and (full is None or partly < full) else None
