"""Advice -> what the templates show: words and figures, nothing of HTML."""

import json
from collections.abc import Sequence
from math import isfinite, log
from typing import Any, get_args

from advisor.advice.plans.placement import layout_words
from advisor.cli.serve.controls import LABELS
from advisor.cli.serve.launch import (
    WIDTH,
    LaunchQuestion,
    command_lines,
    energy,
    file_text,
    key_name,
)
from advisor.cli.serve.question import Question
from advisor.domain.nouns import Advice, AdvisorError, Engine, Finding, MetricEstimate
from advisor.domain.shell import shell_word
from advisor.engines.traits import ALL_ADDRESSES, LOOPBACK, traits
from advisor.render.forms import FORMS, STARTS
from advisor.render.json_out import advice_json_text
from advisor.render.layout import Paper, number, percent
from advisor.render.notes import is_local, placeholder, reach
from advisor.render.text import levels, metric_estimates, schedule_words
from advisor.render.text import release as label
from advisor.render.text_sections import METHOD_NAMES, basis_text, drafts_note
from advisor.render.verdict import objective_words, strongest, times, ttft_pair, verdict

FORM_NAMES = {
    "flags": "Command",
    "docker-run": "docker run",
    "compose": "Compose",
    "systemd": "systemd",
    "quadlet": "Quadlet",
    "k8s": "Kubernetes",
    "helm": "Helm",
    "ray": "Ray Serve",
    "curl": "Test with cURL",
    "off": "Without speculation",
    "on": "With speculation",
    "json": "JSON",
}
_USUAL_MS = 50  # a time per token to start from: faster than people read
_SEVERITIES = {"error": 0, "warning": 1, "info": 2}


def answer_view(advice: Advice, question: LaunchQuestion, form: str = "") -> dict[str, Any]:
    """Everything that the answer's template shows."""
    forms = launch_forms(advice)
    chosen = form if form in forms else next(iter(forms))
    return {
        "decision": advice.decision,
        "headline": headline(advice),
        "lead": verdict(advice),
        "objective": objective_words(advice),
        "met": advice.objective is not None and advice.objective.met,
        "setting": setting(advice),
        "reach": f"Listens on {server_url(advice)}, {reach(advice)}.",
        "wanted": launch_words(advice, question),
        "costs": costs_words(advice, question),
        "metrics": metrics(advice),
        "reasons": strongest(advice.reasons),
        "asks": asks(advice, question.plain()),
        "findings": findings(
            [f for f in advice.findings if not any(f.message in r.text for r in advice.reasons)]
        ),
        "would_change": advice.would_change,
        "newest": advice.evidence_newest,
        "basis": basis_text(advice, Paper(WIDTH)),
        "forms": [{"key": key, "name": FORM_NAMES.get(key, key)} for key in forms],
        "form": chosen,
        "launch": launch_text(advice, chosen, question),
        "file": FORMS[chosen].file if chosen in FORMS else "",
        "download": f"/api/launch/{chosen}?{question.url()}",
        "placeholder": printable(placeholder(advice) or ""),
        "measure_with": advice.measure_with,
        "command": question.command(form=chosen if chosen in STARTS else "compose"),
        "api": f"/api/recommend?{question.url()}",
    }


def printable(text: str) -> str:
    """The text without what a terminal or a page could take for a command."""
    return "".join(ch if ch.isprintable() or ch in "\n\t" else "?" for ch in text)


def headline(advice: Advice) -> str:
    """The decision in one line."""
    plan = advice.candidate
    if advice.decision == "off":
        return "Leave speculative decoding off"
    if plan is None:
        return "Measure first: no speculative launch is known here"
    name = METHOD_NAMES.get(plan.method, plan.method)
    k = schedule_words(plan) if plan.k_schedule else f"k = {plan.k}{drafts_note(plan)}"
    return f"Measure first: {name}, {k}" if advice.decision == "measure" else f"Turn {name} on, {k}"


def launch_words(advice: Advice, asked: LaunchQuestion) -> str:
    """What the launch has that the answer did not choose."""
    wanted = asked.launch_values().items()
    words = ", ".join(f"{LABELS[x][0].lower()} {value}" for x, value in wanted if x in LABELS)
    key = f" Set {key_name(advice.plan)} where it starts." if asked.key else ""
    return words and f"As set by you: {words}; the figures are those of the answer.{key}"


def costs_words(advice: Advice, asked: LaunchQuestion) -> str:
    """What a million output tokens cost and draw, without speculation and with it."""
    rows = ((advice.cost_per_million, ""), (energy(advice, asked), " kWh"))
    pairs = [(x, unit, i) for pair, unit in rows for i, x in enumerate(pair or ()) if x]
    words = [f"{number(x)}{unit} {('without', 'with')[i]}" for x, unit, i in pairs]
    return f"A million output tokens: {', '.join(words)}." if words else ""


def asks(advice: Advice, question: Question) -> list[tuple[str, str]]:
    """Questions that follow from an answer, as (words, link)."""
    plan, engine = advice.candidate, advice.plan.engine
    whats = {} if plan is None else {f"k={k}": f"k = {k}" for k in (plan.k - 1, plan.k + 1) if k}
    within = question.model_copy(update={"max_tpot_ms": _USUAL_MS}).url()
    whats = {"on": "on"} if advice.decision == "off" else {"off": "off", **whats}
    others = [name for name in get_args(Engine) if traits(name).writable and name != engine]
    return [
        *(
            (f"Why not {name}?", f"/why-not?{question.url(what=x)}#result")
            for x, name in whats.items()
        ),
        *(
            (f"Compare with {x}", f"/compare?{question.url(names=f'{engine},{x}')}#result")
            for x in others
        ),
        ("Which drafter?", f"/why-not?{question.url(what='drafter')}#result"),
        ("Several workloads?", f"/mix?{question.url()}"),
        (f"How many within {_USUAL_MS} ms?", f"/?{within}"),
        ("Is my file as good?", f"/check?{question.url()}"),
    ]


def setting(advice: Advice) -> list[tuple[str, str]]:
    """What was answered for, as (label, value)."""
    facts, request = advice.facts, advice.request
    hardware = (facts.hardware.name or facts.hardware.id) if facts.hardware else request.hardware
    model = (facts.model.name or facts.model.id) if facts.model else request.model
    many = "request" if request.concurrency == 1 else "requests"
    load = f"{request.concurrency:,} {many} of {request.ctx_tokens:,} + {request.output_tokens:,}"
    count = f"{facts.gpus} × " if facts.gpus > 1 else ""
    layout = f" ({layout_words(advice.plan)})" if facts.gpus > 1 else ""
    return [
        ("Hardware", f"{count}{hardware}{layout}"),
        ("Model", f"{model} {facts.quant.id if facts.quant else ''}".strip()),
        ("Engine", f"{advice.plan.engine} {label(advice)}".strip()),
        ("Load", f"{load} tokens, {facts.workload or request.workload}"),
        ("Goal", facts.goal or request.goal),
    ]


def metrics(advice: Advice) -> list[dict[str, Any]]:
    """The gains and where they lie on a bar from 0.4x to 4x; words where one is not known."""
    if advice.estimate is None or advice.candidate is None:
        return []
    made = [_metric(*each) for each in metric_estimates(advice.estimate)]
    if not advice.estimate.ttft_ms.predictable:
        without, where = levels(advice.estimate.ttft_ms, " ms")
        words = f"not predictable: {where} with, {without} without" if where else "not predictable"
        pair = ttft_pair(advice)
        seen = f"; measured here {times(pair.speedup)}, k={pair.k}" if pair is not None else ""
        made[-1] |= {"words": words + seen, "tone": "untold"}
    return made


def _metric(name: str, metric: MetricEstimate, unit: str) -> dict[str, Any]:
    gain = metric.speedup
    return {
        "name": name,
        "words": "",
        "gain": f"{number(gain.p50)}×",
        "share": percent(gain.p50),
        "span": f"{number(gain.p10)} to {number(gain.p90)}",
        "levels": " → ".join(filter(None, levels(metric, unit))),
        "tone": "up" if gain.p10 > 1 else "down" if gain.p90 < 1 else "even",
        "bar": {key: place(getattr(gain, key)) for key in ("p10", "p50", "p90")},
        "one": place(1.0),
    }


def place(ratio: float) -> float:
    """Where a speed-up lies on the bar, 0 to 100; what is beyond an end lies at it."""
    if not isfinite(ratio) or ratio <= 0:
        return 0.0
    return round(min(max(log(ratio / 0.4) / log(4 / 0.4), 0.0), 1.0) * 100, 2)


def findings(found: Sequence[Finding]) -> list[Finding]:
    """What the rules say, worst first."""
    return sorted(found, key=lambda f: (_SEVERITIES[f.severity], f.code))


# ---------------------------------------------------------------- the launch in every form


def launch_forms(advice: Advice) -> list[str]:
    """The forms that can hold this answer, the bare command first."""
    both = ["off"] if advice.decision == "on" else ["on"] if advice.launch_on is not None else []
    return ["flags", *both, "curl", *(form for form in STARTS if _writes(advice, form)), "json"]


def _writes(advice: Advice, form: str) -> bool:
    try:
        FORMS[form].write(advice)
    except AdvisorError:
        return False
    return True


def launch_text(advice: Advice, form: str, asked: LaunchQuestion) -> str:
    """The launch in one form. Raises AdvisorError where that form cannot hold it."""
    runs = {"flags": advice.launch, "off": advice.launch_off, "on": advice.launch_on}
    if (run := runs.get(form)) is not None:
        return "\n".join(command_lines(run, advice.plan, asked.key is not None))
    if form == "curl":
        return chat_request(advice, asked.key is not None)
    return advice_json_text(advice) if form == "json" else file_text(advice, form, asked)


def server_url(advice: Advice) -> str:
    """Where the launch is reached from its own machine."""
    host = advice.plan.host or LOOPBACK
    host = LOOPBACK if host in (ALL_ADDRESSES, "::") else host
    return f"http://{host}:{advice.plan.port or traits(advice.plan.engine).default_port}"


def chat_request(advice: Advice, key: bool = False) -> str:
    """A first request to the server that the launch starts."""
    plan, lines = advice.plan, [f"curl {server_url(advice)}/v1/chat/completions"]
    if key or (not is_local(advice) and traits(plan.engine).api_key_env):
        lines.append(f'-H "Authorization: Bearer ${key_name(plan)}"')
    asked = {"role": "user", "content": "Write a haiku about drafts."}
    body = {"model": plan.served_model_name or plan.model, "messages": [asked], "max_tokens": 512}
    lines += ["-H 'Content-Type: application/json'", f"-d {shell_word(json.dumps(body))}"]
    return " \\\n  ".join(lines)
