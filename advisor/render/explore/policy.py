"""Policy -> its first screen."""

from __future__ import annotations

from advisor.advice.explore.values import Policy
from advisor.advice.plans.topology import where
from advisor.render.explore.chart import GOAL_NAMES, title
from advisor.render.layout import MIN_WIDTH, Paper, columns, finish, heading, k_text, pack_launch
from advisor.render.text_sections import METHOD_NAMES

ADAPTIVE = "SD431"  # where the engine's own adaptive verification was measured
MOST_ROWS = 8  # of the table of loads, the ends among them


def policy_text(policy: Policy, width: int = 80, color: bool = False, *, unicode: bool) -> str:
    """The screen as text that ends in a line feed."""
    paper, ranges, request = Paper(width=max(width, MIN_WIDTH)), policy.ranges, policy.sweep.request
    loads = ranges.loads
    asked = f"{loads[0].requests} to {loads[-1].requests} requests"
    name = METHOD_NAMES.get(ranges.method, ranges.method)
    rows = ", ".join(f"{a}-{b}: {k_text(k)}" for a, b, k in ranges.rows)
    what = f"k by batch size ({rows})" if ranges.pays else f"k={ranges.static_k} throughout"
    head = {"on": ("ON", "green"), "off": ("OFF", "red"), "measure": ("MEASURE FIRST", "yellow")}
    word, colour = head[policy.decision]
    tail = f": {name}, {what}" if policy.decision != "off" else ""
    lines: list[str] = [
        heading(line, colour)
        for line in paper.wrap(f"Speculative decoding {word} for {asked}{tail}")
    ]
    goal = GOAL_NAMES[request.goal]
    told = f"{request.ctx_tokens} + {request.output_tokens} tokens, {request.workload}"
    lines += paper.wrap(f"{title(policy.sweep)}; requests of {told}; median gain in {goal}")
    lines += ["", *_table(policy, paper), ""]
    regrets = ", ".join(f"{k_text(k)} {100 * lost:.0f} %" for k, lost in ranges.regrets[:4])
    lines += paper.wrap(f"Least regret over these loads (a loss weighs double): {regrets}", "Why: ")
    if not ranges.pays and ranges.why:
        lines += paper.wrap(f"One k is enough: {ranges.why}.")
    for finding in policy.findings:
        if finding.code == ADAPTIVE:
            lines += paper.wrap(f"{finding.message} [{finding.code}]", "Adaptive: ")
    if policy.unsure:
        at = " to ".join(str(end) for end in dict.fromkeys((policy.unsure[0], policy.unsure[-1])))
        lines += paper.wrap(f"not surely a gain at {at} requests: measure there first", "Risk: ")
    run, off = policy.launch, policy.launch_off
    spot = where(policy.sweep.facts, policy.plan)
    if policy.unsure:
        own = (word for word in run.argv if word.startswith("--spec") and word not in off.argv)
        spot += f" to measure it; meanwhile the same without {', '.join(own)}"
    lines += [heading(line) for line in paper.wrap(f"Run{spot}")]
    lines += pack_launch(off if policy.decision == "off" else run, paper.width)
    span = f"{loads[0].requests}..{loads[-1].requests}"
    lines += paper.wrap(f"All loads and k: advisor sweep --vary concurrency={span}")
    return finish(lines, color=color, unicode=unicode) + "\n"


def _table(policy: Policy, paper: Paper) -> list[str]:
    loads = policy.ranges.loads
    step = -(-(len(loads) - 1) // (MOST_ROWS - 1)) or 1
    rows: list[tuple[str, ...]] = [("requests", "gain", "best there", "lost by this")]
    for load in [*loads[:-1:step], loads[-1]]:
        lost = max(0.0, 1 - load.gain / load.best_gain)
        best = f"{k_text(load.best_k)} ({load.best_gain:.2f}x)"
        rows.append((str(load.requests), f"{load.gain:.2f}x", best, f"{100 * lost:.0f} %"))
    return columns(rows, paper)
