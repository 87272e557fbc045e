"""The tools for agents: options of the command of the same name, contents of files as text."""

from typing import Any, Literal

from pydantic import Field

from advisor import rules as rulebook
from advisor.cli.serve import answers
from advisor.cli.serve.controls import KNOWN, known_names
from advisor.cli.serve.launch import LaunchQuestion, answer, answer_json, file_text
from advisor.cli.serve.question import FormFields
from advisor.cli.serve.sheets import questions as sheets
from advisor.cli.serve.sheets import uploads
from advisor.render.explore import compare as comparison
from advisor.render.explore.json_out import POLICY, sweep_json
from advisor.render.explore.plan import mix_plan_json, plan_text
from advisor.render.explore.text import policy_text, sweep_text
from advisor.render.findings.text import report_text
from advisor.render.forms import FORMS, STARTS
from advisor.render.layout import Paper
from advisor.render.own_runs import ab_json, ab_text, runs_json, runs_text
from advisor.render.text import advice_text

FILE_CHARACTERS = 4_000_000
PAPER = Paper(100)
Told = tuple[str, dict[str, Any]]  # what a tool answers: a text to read, and the JSON


class LaunchArguments(LaunchQuestion):
    """The options of `launch`."""

    form: Literal[STARTS] = Field("compose", description="As which file")  # type: ignore[valid-type]


class ListArguments(FormFields):
    """The options of `list`."""

    kind: Literal[KNOWN] = Field(description="Of what")  # type: ignore[valid-type]
    match: str = Field("", max_length=80, description="Only those whose names hold these words")


class ExplainArguments(FormFields):
    """The options of `explain`."""

    code: str = Field(max_length=80, description="Code or name of a rule, e.g. SD201")


def _file(text: str) -> Any:
    return Field(max_length=FILE_CHARACTERS, description=text)


class ResultsArguments(FormFields):
    """The options of `results`."""

    off: str = _file("Contents of a benchmark's output")


class AbArguments(uploads.RunOptions):
    """The options of `ab`."""

    off: str = _file("Contents of the benchmark's output without speculation")
    on: str = _file("Contents of the benchmark's output with speculation")


class CalibrateArguments(AbArguments):
    """The options of `calibrate`."""

    machine: str = Field(max_length=40, description="Name of your machine, a new or a known one")


def recommend(asked: LaunchQuestion) -> Told:
    """Whether speculative decoding pays for a setup, with which k, how sure that is and why, and
    the launch command.
    """
    if (policy := answers.policy(asked.plain())) is not None:
        return policy_text(policy, PAPER), POLICY.json(policy)
    return advice_text(answer(asked), PAPER), answer_json(asked)


def launch(asked: LaunchArguments) -> Told:
    """The launch that `recommend` answers with, as a file to save: compose, docker-run, systemd,
    quadlet, k8s, helm or ray.
    """
    text = file_text(answer(asked), asked.form, asked)
    return text, {"form": asked.form, "file": FORMS[asked.form].file, "text": text}


def sweep(asked: sheets.Variation) -> Told:
    """Gain against load for each k: where speculation pays and where it stops to."""
    found = sheets.swept_for(asked)
    return sweep_text(found, PAPER), sweep_json(found)


def compare(asked: sheets.Sides) -> Told:
    """Two or three choices of one kind side by side, and what makes the difference: hardware,
    models, quantisations, engines, or releases of an engine.
    """
    found = sheets.compare_choices(asked)
    return comparison.comparison_text(*found, PAPER), comparison.comparison_json(*found)


def why_not(asked: sheets.Doubt) -> Told:
    """Why the answer is not on, off or this k, or which drafter gains most."""
    found = sheets.explain_why_not(asked)
    return comparison.why_not_text(found, PAPER), comparison.why_not_json(found)


def plan(asked: sheets.MixForm) -> Told:
    """How to serve several workloads on one machine: one server or two, with or without
    speculation, with the gain, memory and objectives of each layout.
    """
    found = sheets.make_plan(asked)
    return plan_text(found, PAPER), mix_plan_json(found)


def validate(pasted: sheets.PastedText) -> Told:
    """What will crash, slow down or silently not happen in a launch command, script, compose file
    or manifest, with a diff of the safe fixes. Tell hardware and load for a full judgement.
    """
    found = sheets.checkup(pasted)
    text = f"{report_text(found.report)}\n\n{found.safe_diff}".strip()
    return text, sheets.report_with_diff(found)


def explain(asked: ExplainArguments) -> Told:
    """What a rule reports, why, and an example of each way."""
    text = rulebook.explain(asked.code)
    return text, {"code": asked.code, "text": text}


def list_names(asked: ListArguments) -> Told:
    """The names that the other tools take: hardware, models, engines, quantisations."""
    rows = known_names(asked.kind, asked.match)
    text = "\n".join(f"{row['id']} ({row['name']})" for row in rows) or "none: match other words"
    return text, {"kind": asked.kind, "rows": rows}


def _upload(name: str, text: str) -> list[uploads.Upload]:
    return [uploads.Upload(name, text.encode("utf-8", "replace"))]


def results(asked: ResultsArguments) -> Told:
    """What a benchmark's output holds: its runs with their load, speeds and accepted drafts."""
    runs = uploads.runs_in(_upload("off", asked.off))
    return runs_text(runs, PAPER.width), runs_json(runs)


def _setting(asked: uploads.RunOptions) -> dict[str, Any]:
    """What the runs were measured on."""
    return dict(asked.model_dump(include=set(uploads.RunOptions.model_fields), exclude_none=True))


def ab(asked: AbArguments) -> Told:
    """The verdict on two benchmark runs, without and with speculation: gains with their noise,
    whether the runs compare, and what to try next.
    """
    off, on = _upload("off", asked.off), _upload("on", asked.on)
    report = uploads.verdict(off, on, (), _setting(asked))
    return ab_text(report, PAPER.width), ab_json(report)


def calibrate(asked: CalibrateArguments) -> Told:
    """Keep the numbers of benchmark runs as your machine, so that answers with that `machine` count
    them most. The one tool that writes: a file of this user's configuration.
    """
    off, on = _upload("off", asked.off), _upload("on", asked.on)
    added = uploads.add_uploaded_runs(asked.machine, off, on, (), _setting(asked))
    count, name = len(added.machine.runs), added.machine.name
    text = f"{added.runs} runs added to machine {name}, {count} in total."
    return text, {"machine": name, "added": added.runs, "runs": count}
