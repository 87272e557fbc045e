"""Real answers over a grid of questions, in every form: the promises of each renderer hold for all
of them.
"""

import itertools
import json
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from advisor import engines
from advisor.advice.recommend import launch_text, recommend
from advisor.domain.nouns import Advice, AdvisorError, Plan, Request
from advisor.engines import k_ranges
from advisor.lint.validate import validate
from advisor.render.bench_script import bench_plan, bench_script
from advisor.render.deploy import serving
from advisor.render.deploy.compose import compose_yaml
from advisor.render.deploy.k8s import deployment_yaml
from advisor.render.deploy.ray import for_ray
from advisor.render.deploy.units import systemd_unit
from advisor.render.forms import FORMS, STARTS
from advisor.render.json_out import advice_json_text
from advisor.render.layout import Paper, pack_launch
from advisor.render.objects import named_schema
from advisor.render.text import advice_text
from tests.refusals import refusals

HARDWARE = ("gb10", "rtx3090", "h100-sxm", "mi300x", "apple-m4-max", "strix-halo", "rtx5090", "p40")
ENGINES = (None, "vllm", "sglang", "llama-server")
MODELS = ("qwen3.6-35b-a3b", "qwen3.6-27b", "gpt-oss-20b")
LOADS = (
    (1, 512, "tpot", "chat"),
    (16, 2048, "balanced", "mixed"),
    (32, 16384, "throughput", "agent"),
)
GRID = list(itertools.product(HARDWARE, ENGINES, MODELS, LOADS))
SCHEMAS = Path(__file__).parents[1] / "schemas"  # of others: README.md there
CHECKER = jsonschema.Draft202012Validator(named_schema("recommend"))


@cache
def answers() -> tuple[Advice, ...]:
    """The answers to some of the grid, which have every hardware, engine, model and load."""
    found = []
    for hardware, engine, model, (concurrency, ctx, goal, workload) in GRID[::7]:
        asked = {"hardware": hardware, "engine": engine, "model": model,
                 "concurrency": concurrency, "ctx_tokens": ctx}  # fmt: skip
        try:
            found.append(
                recommend(Request.model_validate(asked | {"goal": goal, "workload": workload}))
            )
        except AdvisorError:
            continue
    return tuple(found)


def label(advice: Advice) -> str:
    return (
        f"{advice.request.hardware} {advice.plan.engine} {advice.request.model} "
        f"{advice.request.concurrency}"
    )


def test_enough_of_them_have_an_answer() -> None:
    assert len(answers()) == 39 and {advice.decision for advice in answers()} >= {"on", "off"}


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_text_is_written_and_keeps_its_launch(width: int) -> None:
    for advice in answers():
        flags = shlex.split(serving.flags_text(advice))
        assert flags == list(advice.launch.argv[-len(flags) :]), label(advice)
        assert len(advice.launch.argv) - len(flags) in (1, 2, 3)
        assert advice_text(advice, Paper(width, unicode=False)).isascii()
        words = shlex.split("\n".join(pack_launch(advice.launch, width)).replace("\\\n", "\n"))
        assert words == [
            *(f"{k}={v}" for k, v in advice.launch.env.items()),
            *advice.launch.argv,
        ], label(advice)


def test_every_json_follows_the_schema() -> None:
    for number, advice in enumerate(answers()):  # what would change it asks a dozen others
        whole = advice if number % 8 == 0 else advice.model_copy(update={"would_change": ()})
        CHECKER.validate(json.loads(advice_json_text(whole)))


def test_every_unit_is_written_where_there_is_systemd() -> None:
    served = [advice for advice in answers() if advice.facts.hardware.vendor != "apple"]
    assert len(served) == 34
    assert all("ExecStart=/usr/bin/env " in systemd_unit(advice) for advice in served)


NOUNS = [name for name in Plan.model_fields if name not in ("extra", "env", "host", "port")]


@pytest.mark.parametrize("form", STARTS)
def test_every_file_is_read_back_as_the_plan_that_it_was_written_for(form: str) -> None:
    written = 0
    for advice in answers():
        try:
            text = FORMS[form].write(advice)
        except AdvisorError:
            continue
        written += 1
        planned = for_ray(advice) if form == "ray" else advice  # Ray takes one release of vLLM
        report = validate(None, text=text, name=FORMS[form].file)
        (launch,) = report.launches
        wanted = engines.get(planned.plan.engine).to_plan(serving.server(planned).launch)
        for field in NOUNS:
            assert getattr(launch.plan, field) == getattr(wanted, field), (label(advice), field)
        assert set(launch.plan.env) >= set(wanted.env)
        known = {found.code for found in planned.plan_findings}
        extra = {f.code: f.message for f in report.findings if f.severity != "info"}
        assert {code: extra[code] for code in extra.keys() - known} == {}, label(advice)
    assert written >= 5


def test_every_values_file_is_accepted_by_the_schema_of_its_chart() -> None:
    broken = {"servingEngineSpec": {"modelSpec": {"a": 1}}}
    rules = json.loads((SCHEMAS / "production-stack-values.json").read_text(encoding="utf-8"))
    checker = jsonschema.validators.validator_for(rules)(rules)
    assert list(checker.iter_errors(broken)), "a schema that takes this judges nothing"
    written = 0
    for advice in answers():
        try:
            data = yaml.safe_load(FORMS["helm"].write(advice))
        except AdvisorError:
            continue
        written += 1
        assert [error.message for error in checker.iter_errors(data)] == [], label(advice)
    assert written == 10


SCHEDULE = ((1, 4, 3), (5, 16, 1))
STEPS = {"1": {"candidate_steps": [3]}, "5": {"candidate_steps": [1]}}
HERE = [form for form in STARTS if "sglang" in FORMS[form].engines]


@cache
def answer() -> Advice:
    """An answer of SGLang with a k per batch size."""
    made = recommend(Request(hardware="h200", engine="sglang", concurrency=16), what_if=False)
    plan = made.candidate.model_copy(update={"k": 3, "k_schedule": SCHEDULE})
    launch = launch_text(plan)
    update = {"plan": plan, "candidate": plan, "launch": launch, "launch_on": launch}
    return made.model_copy(update=update | {"decision": "on"})


def run(command: str, where: Path) -> None:
    subprocess.run(["/bin/sh", "-c", command], cwd=where, check=True, timeout=300)


def test_the_launch_names_the_file_and_the_largest_k() -> None:
    advice = answer()
    argv = advice.launch.argv
    assert argv[argv.index("--speculative-adaptive-config") + 1] == "adaptive.json"
    assert argv[argv.index("--speculative-num-steps") + 1] == "3"
    assert argv[argv.index("--speculative-num-draft-tokens") + 1] == "4"
    assert json.loads(advice.launch.files["adaptive.json"]) == STEPS
    assert not refusals("sglang", argv, advice.plan.engine_version)
    assert json.loads(k_ranges.schedule_arguments(advice.plan, SCHEDULE).file_text or "") == STEPS


def test_what_is_shown_writes_the_file_first(tmp_path: Path) -> None:
    for text in (answer().launch.text, advice_text(answer())):
        (line,) = {row.strip() for row in text.splitlines() if row.strip().startswith("printf ")}
        run(line, tmp_path)
        assert json.loads((tmp_path / "adaptive.json").read_text(encoding="utf-8")) == STEPS
        assert text.index(line) < text.index("sglang.launch_server")


@pytest.mark.parametrize("form", HERE)
def test_every_form_is_read_back_with_it(form: str) -> None:
    report = validate(None, text=FORMS[form].write(answer()), name=FORMS[form].file)
    (launch,) = report.launches
    options = dict(launch.plan.extra)
    assert options["--speculative-adaptive-config"].endswith("adaptive.json")  # type: ignore[union-attr]
    assert "--speculative-adaptive" in options and launch.plan.k == 3
    assert [f for f in report.findings if f.severity != "info"] == []


def test_a_shell_script_writes_and_mounts_it(tmp_path: Path) -> None:
    before, _, command = FORMS["docker-run"].write(answer()).partition("docker run ")
    run(before, tmp_path)
    assert json.loads((tmp_path / "adaptive.json").read_text(encoding="utf-8")) == STEPS
    words = shlex.split(command.replace("\\\n", " "))
    assert words[words.index("$PWD/adaptive.json:/adaptive.json:ro") - 1] == "--volume"
    assert words[words.index("--speculative-adaptive-config") + 1] == "/adaptive.json"


def test_compose_holds_it_as_a_config() -> None:
    data = yaml.safe_load(FORMS["compose"].write(answer()))
    ((name, held),) = data["configs"].items()
    assert json.loads(held["content"]) == STEPS
    users = [s for s in data["services"].values() if "configs" in s]
    assert [s["configs"] for s in users] == [[{"source": name, "target": "/adaptive.json"}]]
    assert "/adaptive.json" in users[0]["command"]


def test_kubernetes_holds_it_as_a_map() -> None:
    documents = {d["kind"]: d for d in yaml.safe_load_all(FORMS["k8s"].write(answer()))}
    made = documents["ConfigMap"]
    assert json.loads(made["data"]["adaptive.json"]) == STEPS
    pod: dict[str, Any] = documents["Deployment"]["spec"]["template"]["spec"]
    (volume,) = [v for v in pod["volumes"] if "configMap" in v]
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    mounts = pod["containers"][0]["volumeMounts"]
    wanted = {"name": volume["name"], "mountPath": "/adaptive.json", "subPath": "adaptive.json"}
    assert wanted in mounts and "/adaptive.json" in pod["containers"][0]["args"]


@pytest.mark.parametrize("form", ["systemd", "quadlet"])
def test_a_unit_writes_it_before_each_start(form: str, tmp_path: Path) -> None:
    text = FORMS[form].write(answer())
    (line,) = [row for row in text.splitlines() if row.startswith("ExecStartPre=")]
    words = shlex.split(line.removeprefix("ExecStartPre="))
    assert words[:2] == ["/bin/sh", "-c"] and len(words) == 3
    # systemd reads %% as %, and %t as its run-time folder
    run(words[2].replace("%%", "%").replace("%t", shlex.quote(str(tmp_path))), tmp_path)
    (written,) = tmp_path.iterdir()
    assert json.loads(written.read_text(encoding="utf-8")) == STEPS
    if form == "quadlet":
        assert f"Volume=%t/{written.name}:/adaptive.json:ro" in text.splitlines()


def test_the_script_of_a_measurement_writes_it() -> None:
    advice = answer()
    writing = [row for row in advice.launch.text.splitlines() if row.startswith("printf ")]
    plan = bench_plan(advice)
    assert plan.arms[1].files == advice.launch.files and not plan.arms[0].files
    assert writing[0] in bench_script(advice, plan).splitlines()


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"engine_version": "0.5.13"}, "from 0.5.14 on"), ({"method": "ngram"}, "adapts k for mtp")],
)
def test_what_takes_one_k_only_says_so(changes: dict[str, str], says: str) -> None:
    plan = answer().plan.model_copy(update=changes)
    with pytest.raises(AdvisorError, match=says):
        engines.get("sglang").to_launch(plan)


def test_every_deployment_is_written_or_refused_with_a_reason() -> None:
    compose_schema = published_schema()
    refused = 0
    for advice in answers():
        try:
            data = yaml.safe_load(compose_yaml(advice))
        except AdvisorError as error:
            assert str(error).startswith("a compose file cannot be written")
            refused += 1
            continue
        compose_schema.validate(data)
        documents = list(yaml.safe_load_all(deployment_yaml(advice)))
        assert [d["kind"] for d in documents] == ["PersistentVolumeClaim", "Deployment", "Service"]
        assert f":{serving.server(advice).port}/health" in str(data)
    assert refused < len(answers())


def published_schema() -> Any:
    package = pytest.importorskip(
        "check_jsonschema", reason="no check-jsonschema, with compose's schema; .ci/run has it"
    )
    text = (Path(package.__file__).parent / "builtin_schemas/vendor/compose-spec.json").read_text(
        encoding="utf-8"
    )
    return jsonschema.Draft7Validator(json.loads(text))
