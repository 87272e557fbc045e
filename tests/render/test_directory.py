"""The folder of an answer."""

from __future__ import annotations

import os
import shlex
import subprocess
from functools import cache

import pytest

from advisor import recommend
from advisor.domain.nouns import Advice, AdvisorError
from advisor.lint.validate import validate
from advisor.render.bench_script import bench_plan
from advisor.render.deploy import serving
from advisor.render.directory import folder
from advisor.render.forms import FORMS, STARTS

ENGINES = ("vllm", "sglang", "llama-server")


@cache
def answer(engine: str) -> Advice:
    return recommend(hardware="h100", engine=engine, concurrency=8, what_if=False)


@pytest.mark.parametrize("form", [None, *STARTS])
@pytest.mark.parametrize("engine", ENGINES)
def test_the_folder_is_complete_and_every_script_of_it_parses(
    engine: str, form: str | None
) -> None:
    """Launch, A/B, roll-back, why; what starts a server reads back as the plan that it is for."""
    advice = answer(engine)
    try:
        files = folder(advice, form)
    except AdvisorError as refusal:
        assert form is not None and engine not in FORMS[form].engines, refusal
        return
    launch = FORMS[form or "compose"].file
    scripts = {"start.sh", "run-off.sh", "run-on.sh", "ab.sh"}
    assert {launch, "compose.ab.yml", "ROLLBACK.md", "README.md"} | scripts <= set(files)
    assert all(f"`{name}`" in files["README.md"] for name in files.keys() - {"README.md"})
    for name in (name for name in files if name.endswith(".sh")):
        done = subprocess.run(
            ["bash", "-n"],
            input=files[name],
            text=True,
            capture_output=True,
            check=False,
            env=os.environ | {"LC_ALL": "C"},  # it warns of a locale that is not installed
        )
        assert (done.returncode, done.stderr) == (0, ""), name
    arms = {"start.sh": advice.plan, "run-off.sh": advice.plan_off, "run-on.sh": advice.candidate}
    for name, plan in arms.items():
        assert plan is not None
        report = validate(None, text=files[name], name=name)
        (found,) = report.launches
        assert (found.plan.method, found.plan.k) == (plan.method, plan.k)
        assert found.plan.max_num_seqs == plan.max_num_seqs
        assert not [one for one in report.findings if one.severity == "error"]
    if form in ("docker-run", "k8s"):
        assert f" {serving.server(advice).name}`" in files["ROLLBACK.md"]


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_of_the_folder_listens_to_the_network_without_a_word(engine: str) -> None:
    files = folder(answer(engine))
    for name in ("start.sh", "run-off.sh", "run-on.sh"):
        assert "listens on 127.0.0.1 alone" in files[name] and "API key: none" in files[name]
    for line in files["ab.sh"].splitlines():  # both arms
        program = answer(engine).launch.argv[0]
        if line.startswith(program + " ") and "server-" in line:
            words = shlex.split(line.partition(" >")[0])
            host = words[words.index("--host") + 1] if "--host" in words else None
            assert host == ("127.0.0.1" if engine == "vllm" else None)


@pytest.mark.parametrize(
    ("engine", "form"), [(e, form) for form in STARTS for e in ENGINES if e in FORMS[form].engines]
)
def test_every_form_speaks_of_the_key(engine: str, form: str) -> None:
    """How to require one, or that there is none: whoever publishes a port reads it."""
    text = FORMS[form].write(answer(engine))
    assert "API key" in text or "apiKeys" in text


@pytest.mark.parametrize("asked", [{"engine": "vllm"}, {"engine": "sglang", "concurrency": 1}])
def test_no_steps_file_where_one_k_does(asked: dict[str, object]) -> None:
    base = {"hardware": "h200", "concurrency": 16, "what_if": False}
    files = folder(recommend(**(base | asked)))  # type: ignore[arg-type]
    assert not any("adaptive" in text for text in files.values())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_benchmark_starts_without_what_reads_answers(engine: str) -> None:
    advice = answer(engine)
    for arm in bench_plan(advice).arms:
        words = " ".join(arm.argv)
        assert "parser" not in words and "tool-choice" not in words
        known = {*advice.launch_off.argv, *advice.launch_on.argv, "--metrics", "--enable-metrics"}
        assert set(arm.argv) <= known
