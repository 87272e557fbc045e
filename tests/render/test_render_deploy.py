"""Compose, Kubernetes and systemd files: complete, valid by published tools, and deaf to hostile
names.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import advice_cases as cases
import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import engines
from advisor.cli.app import cli
from advisor.domain.nouns import Advice, AdvisorError, Hardware, LaunchText
from advisor.render import notes, serving
from advisor.render.compose import compose_yaml
from advisor.render.k8s import deployment_yaml
from advisor.render.systemd import systemd_unit
from advisor.rules.registry import index

IMAGE = "example.org/engine:v1"
# what an argument can be: any text without NUL; surrogates cannot reach an argv
HOSTILE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
).filter(lambda name: not name.startswith("-"))
NASTY = [
    "a: b",
    "- x",
    "$HOME ${X} $$",
    "#no",
    "'\"`\\",
    "\u2028\x85\ufeff\x7f",
    "yes",
    "null",
    "{{x}}",
    "*a &b !c",
    "%h",
    "é😀",
    " x ",
]


@pytest.fixture(autouse=True)
def some_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "image", lambda advice, form: IMAGE)


def service_of(text: str) -> dict[str, Any]:
    (service,) = yaml.safe_load(text)["services"].values()
    assert isinstance(service, dict)
    return service


def words_of(service: dict[str, Any]) -> list[str]:
    return [
        word.replace("$$", "$") for word in [*service.get("entrypoint", []), *service["command"]]
    ]


def on_engine(engine: str, argv: tuple[str, ...], vendor: str = "nvidia", tp: int = 1) -> Advice:
    hardware = cases.HARDWARE.model_copy(update={"vendor": vendor})
    facts = cases.FACTS.model_copy(update={"hardware": hardware, "engine": engine})
    plan = cases.plan(engine=engine, tp=tp)
    return cases.on().model_copy(
        update={"plan": plan, "facts": facts, "launch": LaunchText(argv=argv)}
    )


ENGINES = {
    "vllm": on_engine("vllm", cases.launch().argv),
    "vllm-amd-tp2": on_engine("vllm", cases.launch().argv, "amd", 2),
    "sglang": on_engine(
        "sglang", ("python", "-m", "sglang.launch_server", "--model-path", "x", "--port", "8000")
    ),
    "llama-server": on_engine(
        "llama-server", ("llama-server", "-hf", "x:Q4_K_M", "--parallel", "4")
    ),
    "llama-server-intel": on_engine("llama-server", ("llama-server", "-hf", "x:Q4_K_M"), "intel"),
}


@pytest.mark.parametrize("name", ENGINES)
def test_compose_follows_the_published_schema(name: str) -> None:
    package = pytest.importorskip(
        "check_jsonschema", reason="check-jsonschema carries the published compose-spec schema"
    )
    schema = json.loads(
        (Path(package.__file__).parent / "builtin_schemas/vendor/compose-spec.json").read_text()
    )
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(compose_yaml(ENGINES[name])))


def docker_compose() -> list[str]:
    """The command of a compose tool on this machine: the plugin, else the older program; empty
    where there is none.
    """
    for call in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(call[0])
            and subprocess.run([*call, "version"], capture_output=True, check=False).returncode == 0
        ):
            return call
    return []


COMPOSE = docker_compose()


@pytest.mark.skipif(
    not COMPOSE, reason="no docker compose on this machine (apt-get install docker-compose)"
)
@pytest.mark.parametrize("name", [*NASTY, *ENGINES])
def test_docker_compose_reads_the_same_words(name: str, tmp_path: Path) -> None:
    advice = ENGINES[name] if name in ENGINES else cases.hostile(name)
    text = compose_yaml(advice)
    (tmp_path / "docker-compose.yml").write_text(text)
    run = subprocess.run(
        [*COMPOSE, "config"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert words_of(service_of(run.stdout)) == words_of(service_of(text))


@pytest.mark.parametrize("name", ENGINES)
def test_compose_is_complete(name: str) -> None:
    advice = ENGINES[name]
    service = service_of(compose_yaml(advice))
    port = serving.port(advice)
    assert service["image"] == IMAGE
    assert service["shm_size"].endswith("gb")
    assert service["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert any(volume.startswith("~/.cache/huggingface:") for volume in service["volumes"])
    assert "HF_TOKEN" in service["environment"]
    assert f"http://127.0.0.1:{port}/health" in service["healthcheck"]["test"]
    assert "deploy" in service or "/dev/dri:/dev/dri" in service["devices"]
    assert isinstance(service["command"], list)


@pytest.mark.parametrize("name", ENGINES)
def test_the_command_is_the_launch(name: str) -> None:
    advice = ENGINES[name]
    words = words_of(service_of(compose_yaml(advice)))
    argv = list(advice.launch.argv)
    if advice.plan.engine == "llama-server":
        argv = argv[1:]  # the image's entry point
    if advice.plan.engine != "vllm":
        argv += ["--host", "0.0.0.0"]
    assert words == argv


def test_gpus_are_reserved_as_many_as_the_plan_uses() -> None:
    advice = on_engine("vllm", cases.launch().argv, tp=4)
    (device,) = service_of(compose_yaml(advice))["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 4, "capabilities": ["gpu"]}


def test_the_start_period_grows_with_the_weights() -> None:
    advice = cases.on()
    bill = advice.estimate.memory.model_copy(update={"weights_gib": 300.0})  # type: ignore[union-attr]
    big = advice.model_copy(
        update={"estimate": advice.estimate.model_copy(update={"memory": bill})}
    )  # type: ignore[union-attr]
    small_s, big_s = (serving.startup_seconds(a) for a in (advice, big))
    assert 1800 <= small_s < big_s  # 289 s were measured for loading alone
    assert service_of(compose_yaml(big))["healthcheck"]["start_period"] == f"{big_s}s"


def test_findings_speak_beside_their_flag() -> None:
    finding = cases.FINDINGS[0].model_copy(update={"flag": "--no-enable-prefix-caching"})
    advice = cases.on().model_copy(update={"findings": (finding,)})
    lines = [line.strip() for line in compose_yaml(advice).splitlines()]
    assert lines[lines.index('- "--no-enable-prefix-caching"') - 1].startswith("# SD203: MTP drops")


def test_the_rules_that_the_notes_name_exist() -> None:
    told = [code for code, _ in notes.NOTES.values() if code]
    told += [text[:5] for text in (notes.SHM, notes.STARTUP, notes.ROLLOUT, notes.IMAGE)]
    assert set(told) <= {row[0] for row in index()}


@pytest.mark.parametrize("form", [compose_yaml, deployment_yaml, systemd_unit])
def test_apple_is_told_why_not(form: Any) -> None:
    with pytest.raises(AdvisorError, match="macOS"):
        form(on_engine("llama-server", ("llama-server",), "apple"))


@pytest.mark.parametrize("form", [compose_yaml, deployment_yaml])
def test_what_one_machine_cannot_hold_is_refused(form: Any) -> None:
    advice = cases.on()
    facts = advice.facts.model_copy(update={"gpus": 2, "interconnect": "roce"})
    with pytest.raises(AdvisorError, match="one machine"):
        form(
            advice.model_copy(
                update={"facts": facts, "plan": advice.plan.model_copy(update={"tp": 2})}
            )
        )
    with pytest.raises(AdvisorError, match="not known"):
        form(on_engine("vllm", cases.launch().argv, "huawei"))


@pytest.mark.parametrize(
    ("known", "told"),
    [("0.31.0", "--engine-version 0.31.0 has one"), (None, "without a container")],
)
def test_no_image_is_an_error_and_not_a_guess(
    known: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Adapter:
        versions = ("0.19.1", "0.31.0", "0.33.0")

        def image(self, version: str | None, hardware: Hardware | None) -> str | None:
            return IMAGE if known is not None and version in ("0.19.1", known) else None

    monkeypatch.undo()
    monkeypatch.setattr(engines, "get", lambda name: Adapter())
    with pytest.raises(AdvisorError, match=rf"no image is known for vllm 0\.33\.0 .*{told}"):
        compose_yaml(cases.on())


@given(name=HOSTILE, note=st.text(max_size=30))
@settings(max_examples=150, deadline=None)
def test_hostile_names_and_notes_cannot_change_the_file(name: str, note: str) -> None:
    finding = cases.FINDINGS[0].model_copy(update={"flag": "--max-num-seqs", "message": note})
    advice = cases.hostile(name).model_copy(update={"findings": (finding,)})
    argv = list(advice.launch.argv)
    assert words_of(service_of(compose_yaml(advice))) == argv
    deployment, _ = yaml.safe_load_all(deployment_yaml(advice))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [word.replace("$$(", "$(") for word in container["command"] + container["args"]] == [
        word.replace("$$(", "$(") for word in argv
    ]


@pytest.mark.parametrize("name", NASTY)
def test_nasty_names_in_compose(name: str) -> None:
    advice = cases.hostile(name)
    assert service_of(compose_yaml(advice))["entrypoint"] == ["vllm", "serve"]
    assert service_of(compose_yaml(advice))["command"] == [
        word.replace("$", "$$") for word in advice.launch.argv[2:]
    ]


def test_the_deployment_replaces_and_waits() -> None:
    deployment, service = yaml.safe_load_all(deployment_yaml(cases.on()))
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= serving.startup_seconds(cases.on())
    assert service["spec"]["ports"] == [{"port": 8000, "targetPort": 8000}]


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "engine.service"
    unit.write_text(systemd_unit(cases.hostile("a $b %h \\ 'q' é")))
    run = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr.strip()) == (0, "")


def test_systemd_words_are_quoted_for_systemd() -> None:
    unit = systemd_unit(cases.hostile('a $b %h "q" \\'))
    assert '"a $$b %%h \\"q\\" \\\\"' in unit
    assert "\n    --max-num-seqs 32 \\\n" in unit


@pytest.mark.parametrize(
    "write", [compose_yaml, deployment_yaml, systemd_unit], ids=["compose", "k8s", "systemd"]
)
@pytest.mark.parametrize(
    ("engine", "argv"),
    [
        ("vllm", ("vllm", "serve", "YOUR-ORG/Model-FP8", "--port", "8000")),
        ("sglang", ("python", "-m", "sglang.launch_server", "--model-path", "YOUR-ORG/Model-FP8")),
        ("llama-server", ("llama-server", "-hf", "YOUR-ORG/Model-Q4_K_M")),
    ],
)
def test_a_placeholder_for_the_model_is_pointed_out(
    write: Callable[[Advice], str], engine: str, argv: tuple[str, ...]
) -> None:
    lines = write(on_engine(engine, argv)).splitlines()
    told = [number for number, line in enumerate(lines) if notes.PLACEHOLDER in line]
    assert len(told) == 1 and lines[told[0]].lstrip().startswith("#")
    if write is not systemd_unit:
        assert any("YOUR-ORG/" in line for line in lines[told[0] : told[0] + 3])


def test_a_known_model_needs_no_such_note() -> None:
    for write in (compose_yaml, deployment_yaml, systemd_unit):
        assert notes.PLACEHOLDER not in write(ENGINES["vllm"])


@pytest.mark.parametrize("form", ["compose", "systemd", "k8s", "flags"])
def test_who_pipes_a_file_with_a_placeholder_hears_of_it(form: str) -> None:
    asked = ["recommend", "--hw", "gb10", "--format", form, "--model"]
    unknown, known = (
        CliRunner().invoke(cli, [*asked, model]) for model in ("hochelaga-8b", "qwen3.6-35b-a3b")
    )
    assert "replace YOUR-ORG/" in unknown.stderr
    assert unknown.stderr.count("replace") == 1 and "replace" not in known.stderr
