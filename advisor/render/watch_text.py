"""What `advisor watch` saw and says, as text."""

from __future__ import annotations

from textwrap import fill

from advisor.advice.own_runs.watching import Traffic, Word
from advisor.domain.printable import excerpt
from advisor.render.results_text import number


def watch_text(seen: Traffic, word: Word, width: int) -> str:
    """Decision first, then what was seen."""
    server, run = seen.server, seen.run
    about = f"{server.engine or 'unknown engine'} {server.version or ''}".strip()
    lines = [
        f"speculation: {word.decision}",
        f"{about}, {excerpt(run.model or server.model or 'model not stated')}",
    ]
    parts = [
        f"{seen.running:.0f} running" if seen.running is not None else "",
        f"{seen.waiting:.0f} waiting" if seen.waiting is not None else "",
        f"KV {seen.kv_usage:.0%}" if seen.kv_usage is not None else "",
        f"{server.slots} slots" if server.slots else "",
        f"{seen.requests:.0f} requests finished" if seen.requests else "",
        f"{run.input_tokens:.0f} prompt tokens" if run.input_tokens else "",
        f"{run.output_tokens:.0f} output tokens" if run.output_tokens else "",
        f"output {number(run.output_tok_s)} tok/s" if run.output_tok_s else "",
    ]
    lines.append(
        fill(
            f"in {seen.seconds:.0f} s: " + "; ".join(p for p in parts if p),
            width,
            subsequent_indent="  ",
        )
    )
    if run.acceptance:
        made = run.acceptance
        rates = [
            f"{made.length:.2f} tokens per step" if made.length else "",
            f"{made.rate:.0%} of drafted tokens" if made.rate else "",
        ]
        if made.by_position:
            rates.append("by position " + ", ".join(f"{p:.0%}" for p in made.by_position))
        lines.append(
            fill("accepted: " + "; ".join(r for r in rates if r), width, subsequent_indent="  ")
        )
    else:
        lines.append("no drafts were made")
    lines += [fill(text, width, initial_indent="- ", subsequent_indent="  ") for text in word.why]
    return "\n".join(lines) + "\n"
