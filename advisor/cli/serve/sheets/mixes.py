"""A mix of workloads as a sheet: the text read, planned, and what the template shows of it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from advisor.advice.explore.layouts import ClassResult, Layout, MixPlan
from advisor.advice.explore.mix import MOST_BYTES, read_mix
from advisor.advice.explore.mix_plan import plan_mix
from advisor.cli.serve.question import FormFields
from advisor.domain.nouns import AdvisorError, Interval
from advisor.render.layout import number
from advisor.render.plan.folder import FORMS, folder
from advisor.render.plan.text import server_words

EXAMPLE = """\
# One machine: chat, and now and then long documents.
hardware: gb10
model: qwen3.6-35b-a3b
classes:
  - name: chat
    concurrency: 4
    prompt: 2048
    output: 256
    workload: chat
    goal: tpot
  - name: documents
    concurrency: 4
    prompt: 8192
    output: 256
    workload: rag
    goal: throughput
"""


class MixForm(FormFields):
    """A mix, and what its files are written for."""

    text: str = Field(
        max_length=MOST_BYTES, description="The mix as YAML, as `advisor plan` reads it"
    )
    form: str = Field("compose", max_length=40, description=f"One of {', '.join(FORMS)}")


def make_plan(mixed: MixForm) -> MixPlan:
    """What `advisor plan` answers. Raises AdvisorError in one sentence."""
    if mixed.form not in FORMS:
        raise AdvisorError(f"form: '{mixed.form}' is none of {', '.join(FORMS)}")
    return plan_mix(read_mix(mixed.text))


def mix_view(made: MixPlan, form: str) -> dict[str, Any]:
    """What the sheet of a mix shows, the chosen layout first."""
    order = [made.best, *(one for one in made.layouts if one is not made.best)]
    try:
        files, refused = folder(made, form), ""
    except AdvisorError as error:
        files, refused = {}, str(error)
    return {
        "headline": f"Run {made.best.title}",
        "tone": "off" if made.best.kind == "off" else "on",
        "why": made.why,
        "layouts": [_layout(one, one is made.best) for one in order],
        "files": list(files.items()),
        "refused": refused,
    }


def _layout(one: Layout, chosen: bool) -> dict[str, Any]:
    chance = f", {one.p_gain * 100:.0f} % likely a gain" if one.p_gain is not None else ""
    return {
        "title": one.title[:1].upper() + one.title[1:],
        "chosen": chosen,
        "refusal": one.refusal or "",
        "gain": _span(one.gain) if one.gain is not None else "",
        "chance": chance,
        "classes": [_class(seen) for seen in one.results],
        "servers": [server_words(server) for server in one.instances],
    }


def _span(gain: Interval) -> str:
    parts = [f"{(value - 1) * 100:+.0f}" for value in (gain.p50, gain.p10, gain.p90)]
    return f"{parts[0]} % ({parts[1]} to {parts[2]} %)"


def _class(seen: ClassResult) -> dict[str, str]:
    kept = seen.p_objective
    return {
        "name": seen.name,
        "load": number(seen.concurrency),
        "gain": f"{(seen.gain.p50 - 1) * 100:+.0f} %",
        "speed": number(seen.output_tok_s),
        "tpot": number(seen.tpot_ms),
        "ttft": number(seen.ttft_ms),
        "objective": "–" if kept is None else f"kept {kept * 100:.0f} %",
    }
