"""Compose, Kubernetes and systemd files: complete, valid by published tools, and deaf to hostile
names.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import advice_cases as cases
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor import engines, recommend, validate
from advisor.cli.app import cli
from advisor.domain.nouns import Advice, AdvisorError, Hardware
from advisor.render import notes
from advisor.render.deploy import serving
from advisor.render.deploy.compose import compose_yaml
from advisor.render.deploy.k8s import deployment_yaml
from advisor.render.deploy.units import systemd_unit
from advisor.render.forms import FORMS, STARTS
from advisor.rules.registry import index
from tests.tables import load_yaml

IMAGE = "example.org/engine:v1"
BY_HAND = load_yaml(Path(__file__).with_name("by_hand.yaml"))["documents"]
# what an argument can be: any text without NUL; surrogates cannot reach an argv
HOSTILE = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
).filter(lambda name: not name.startswith("-"))


@pytest.fixture(autouse=True)
def some_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "image", lambda advice, form: IMAGE)


def service_of(text: str) -> dict[str, Any]:
    (service,) = yaml.safe_load(text)["services"].values()
    return service


def words_of(service: dict[str, Any]) -> list[str]:
    return [x.replace("$$", "$") for x in [*service.get("entrypoint", []), *service["command"]]]


def on_engine(engine: str, vendor: str = "nvidia", model: str = "x/y", **ranks: int) -> Advice:
    hardware = cases.HARDWARE.model_copy(update={"vendor": vendor})
    facts = cases.FACTS.model_copy(update={"hardware": hardware, "engine": engine})
    plan = cases.plan(engine=engine, model=model, engine_version=None, **ranks)
    return cases.on(plan=plan, facts=facts, launch=cases.text_of(plan))


ENGINES = {
    "vllm": on_engine("vllm"),
    "vllm-amd-tp2": on_engine("vllm", "amd", tp=2),
    "sglang": on_engine("sglang"),
    "llama-server": on_engine("llama-server"),
    "llama-server-intel": on_engine("llama-server", "intel"),
}


@pytest.mark.parametrize(("form", "written"), BY_HAND.items())
def test_a_file_says_what_each_part_needs(form: str, written: list[dict[str, Any]]) -> None:
    assert [*yaml.safe_load_all(FORMS[form].write(cases.on()))] == written


@pytest.mark.parametrize("name", ENGINES)
def test_the_command_is_the_launch(name: str) -> None:
    advice = ENGINES[name]
    words = words_of(service_of(compose_yaml(advice)))
    argv = list(advice.launch.argv)
    if advice.plan.engine == "llama-server":
        argv = argv[1:]  # the image's entry point
    if advice.plan.engine != "vllm":
        host = words.index("--host")
        assert words[host : host + 2] == ["--host", "0.0.0.0"]
        del words[host : host + 2]
    assert words == argv


@pytest.mark.parametrize(
    ("ranks", "count"), [({"tp": 4}, 4), ({"tp": 2, "dp": 3}, 6), ({"tp": 2, "pp": 2}, 4)]
)
def test_gpus_are_reserved_as_many_as_the_plan_uses(ranks: dict[str, int], count: int) -> None:
    advice = on_engine("vllm", **ranks)
    (device,) = service_of(compose_yaml(advice))["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}
    assert "/dev/dri:/dev/dri" in service_of(compose_yaml(ENGINES["llama-server-intel"]))["devices"]


def test_the_start_period_grows_with_the_weights() -> None:
    bill = cases.estimate().memory.model_copy(update={"weights_gib": 300.0})  # type: ignore[union-attr]
    big = cases.on(estimate=cases.estimate().model_copy(update={"memory": bill}))
    small_s, big_s = (serving.startup_seconds(a) for a in (cases.on(), big))
    assert 1800 <= small_s < big_s  # 289 s were measured for loading alone
    assert service_of(compose_yaml(big))["healthcheck"]["start_period"] == f"{big_s}s"


def test_findings_speak_beside_their_flag() -> None:
    finding = cases.FINDINGS[0].model_copy(update={"flag": "--no-enable-prefix-caching"})

    def note(advice: Advice) -> str:
        lines = [line.strip() for line in compose_yaml(advice).splitlines()]
        return lines[lines.index('- "--no-enable-prefix-caching"') - 1]

    assert note(cases.on(plan_findings=(finding,))).startswith("# SD203: MTP drops")
    # one on a candidate that is not what runs
    assert not note(cases.on(findings=(finding,))).startswith("# SD203")


def test_no_note_is_of_the_candidate() -> None:
    """A measured question: the file runs without drafts, beside which there are more slots."""
    advice = recommend(hardware="h100", concurrency=256, what_if=False)
    assert advice.decision == "measure" and advice.plan.max_num_seqs == 256
    text = FORMS["compose"].write(advice)
    assert "170 slots" in str(advice.findings) and "170 slots" not in text
    assert "with MTP" not in text and "share too little" in text


def test_the_rules_that_the_notes_name_exist() -> None:
    told = [code for code, _ in notes.NOTES.values() if code]
    told += [text[:5] for text in (notes.SHM, notes.STARTUP, notes.IMAGE)]
    assert set(told) <= {row[0] for row in index()}


@pytest.mark.parametrize("form", [compose_yaml, deployment_yaml, systemd_unit])
def test_apple_is_told_why_not(form: Any) -> None:
    with pytest.raises(AdvisorError, match="macOS"):
        form(on_engine("llama-server", "apple"))


@pytest.mark.parametrize("form", [compose_yaml, deployment_yaml])
def test_what_one_machine_cannot_hold_is_refused(form: Any) -> None:
    facts = cases.FACTS.model_copy(update={"gpus": 2, "interconnect": "roce"})
    with pytest.raises(AdvisorError, match="one machine"):
        form(cases.on(facts=facts, plan=cases.plan(tp=2)))
    with pytest.raises(AdvisorError, match="not known"):
        form(on_engine("vllm", "huawei"))


@pytest.mark.parametrize(
    ("known", "told"),
    [("0.31.0", "--engine-version 0.31.0 has one"), (None, "without a container")],
)
def test_no_image_is_never_a_guess(
    known: str | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def image(self: object, version: str | None, hardware: Hardware | None) -> str | None:
        return IMAGE if known is not None and version in ("0.19.1", known) else None

    monkeypatch.undo()
    monkeypatch.setattr(type(engines.get("vllm")), "image", image)
    with pytest.raises(AdvisorError, match=rf"no image is known for vllm 0\.33\.0 .*{told}"):
        compose_yaml(cases.on())


@given(name=HOSTILE, note=st.text(max_size=30))
@settings(max_examples=25)
def test_hostile_names_and_notes_cannot_change_the_file(name: str, note: str) -> None:
    finding = cases.FINDINGS[0].model_copy(update={"flag": "--max-num-seqs", "message": note})
    advice = cases.hostile(name).model_copy(update={"plan_findings": (finding,)})
    argv = list(advice.launch.argv)
    assert words_of(service_of(compose_yaml(advice))) == argv
    _, deployment, _ = yaml.safe_load_all(deployment_yaml(advice))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [word.replace("$$(", "$(") for word in container["command"] + container["args"]] == [
        word.replace("$$(", "$(") for word in argv
    ]


def test_systemd_words_are_quoted_for_systemd() -> None:
    unit = systemd_unit(cases.hostile('a $b %h "q" \\'))
    assert {f"{x}=network-online.target" for x in ("Wants", "After")} < set(unit.splitlines())
    assert '"a $$b %%h \\"q\\" \\\\"' in unit and "\n    --max-num-seqs 32 \\\n" in unit


@pytest.mark.parametrize(
    "write", [compose_yaml, deployment_yaml, systemd_unit], ids=["compose", "k8s", "systemd"]
)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_a_placeholder_of_a_model_is_named(write: Callable[[Advice], str], engine: str) -> None:
    lines = write(on_engine(engine, model="YOUR-ORG/Model-FP8")).splitlines()
    told = [number for number, line in enumerate(lines) if notes.PLACEHOLDER in line]
    assert len(told) == 1 and lines[told[0]].lstrip().startswith("#")
    if write is not systemd_unit:
        assert any("YOUR-ORG/" in line for line in lines[told[0] : told[0] + 3])


def test_a_known_model_needs_no_such_note() -> None:
    for write in (compose_yaml, deployment_yaml, systemd_unit):
        assert notes.PLACEHOLDER not in write(ENGINES["vllm"])


@pytest.mark.parametrize("form", ["flags", *STARTS])
def test_who_pipes_a_file_with_a_placeholder_hears_of_it(form: str) -> None:
    asked = ["recommend", "--hw", "strix-halo", "--format", form, "--engine", "llama-server"]
    if form in ("helm", "ray"):  # written for vLLM only, and no container without a known image
        asked = ["recommend", "--hw", "rtx3060", "--format", form, "--engine", "vllm"]
        asked += ["--quant", "awq-int4"]
    unknown, known = (
        CliRunner().invoke(cli, [*asked, "--model", model])
        for model in ("apertus-1.5-8b", "qwen3-4b")
    )
    assert "replace YOUR-ORG/" in unknown.stderr
    assert unknown.stderr.count("replace") == 1 and "replace" not in known.stderr


@pytest.mark.parametrize("value", ["$HOME", "a${X}b", "$$", "$(id)", "%h"])
def test_a_dollar_in_a_variable_is_no_reference(value: str) -> None:
    """Compose reads `$`, Kubernetes `$(`: both double it in the environment as in arguments."""
    told = cases.hostile("org/model", {"VLLM_TEST": value})
    assert service_of(compose_yaml(told))["environment"]["VLLM_TEST"] == value.replace("$", "$$")
    deployment = documents(deployment_yaml(told))["Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one.get("value") for one in container["env"]}
    assert given["VLLM_TEST"] == value.replace("$(", "$$(")


def test_a_unit_of_several_machines_says_how_the_others_start() -> None:
    made = recommend(hardware="h100", gpus=16, model="deepseek-v3.1", what_if=False)
    unit = FORMS["systemd"].write(made)
    assert "# one server over 2 machines: start it on the first" in unit
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "VLLM_HOST_IP"):
        assert f"\nEnvironment={name}=" in unit
    alone = recommend(hardware="h100", gpus=8, model="qwen3-32b", what_if=False)
    assert "NCCL_SOCKET_IFNAME" not in FORMS["systemd"].write(alone)
    text = FORMS["ray"].write(made)
    assert "over 2 machines" not in text and "tensor_parallel_size: 16" in text


# wheels' metadata: ray 2.60.0 requires vllm[audio]==0.29.0 for the extra "llm", 2.57.0 0.25.1
@pytest.mark.parametrize(
    ("asked", "release", "head"),
    [
        (None, "0.29.0", "pip install 'ray[serve,llm]==2.60.0'"),
        ("0.25.1", "0.25.1", "pip install 'ray[serve,llm]==2.57.0'"),
        ("0.32.0", "0.32.0", "pip install 'ray[serve,llm]'"),  # none takes it by itself
    ],
)
@pytest.mark.parametrize("model", ["deepseek-v3.1", "qwen3.6-35b-a3b", "llama-3.3-70b"])
def test_ray_gets_a_vllm_it_takes(model: str, asked: str | None, release: str, head: str) -> None:
    made = recommend(
        hardware="h100", gpus=16, model=model, engine="vllm", engine_version=asked, what_if=False
    )
    text = FORMS["ray"].write(made)
    assert text.startswith(f"# vllm {release} for h100") and head in text
    (config,) = yaml.safe_load(text)["applications"][0]["args"]["llm_configs"]
    pip = config.get("runtime_env", {}).get("pip")
    assert pip == (["vllm==0.32.0"] if asked == "0.32.0" else None)
    assert (" no known Ray takes this release by itself: test it, or " in text) == bool(pip)
    report = validate(None, text=text, name="serve.yaml", engine_version=release)
    assert not [one for one in report.findings if one.severity == "error"]


def documents(text: str) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in yaml.safe_load_all(text)}


@pytest.mark.parametrize("name", ENGINES)
def test_what_a_pod_has_by_its_engine_and_vendor(name: str) -> None:
    """ROCm needs more system calls; engines but vLLM count only where they are told to."""
    template = documents(deployment_yaml(ENGINES[name]))["Deployment"]["spec"]["template"]
    (container,) = template["spec"]["containers"]
    assert ("seccompProfile" in container["securityContext"]) == ("amd" not in name)
    assert ("annotations" in template["metadata"]) == name.startswith("vllm")
    (gpu,) = container["resources"]["limits"]
    assert {"key": gpu, "operator": "Exists", "effect": "NoSchedule"} in template["spec"][
        "tolerations"
    ]


# what a platform engineer asks of a file: the lines that meet it
PLATFORM = {
    "k8s": r"""
a hung engine is started again: # a hung engine is started again\n +livenessProbe:
nodes with such a GPU, and of one kind: # one kind: .*\n +nodeSelector:\n +"nvidia.com/gpu.present
no more rights, and why root: # the image runs as root\n +securityContext:\n +allowPriv.*: false
""",
    "compose": r"""
each option says why: # SD308: .*\n +- "--max-num-seqs"
""",
    "docker-run": "logs stay short: --log-opt max-size=50m --log-opt max-file=3",
    "quadlet": r"""
a registry, for systemd cannot ask: \nImage=docker.io/vllm/vllm-openai:v
this machine only: \nPublishPort=127.0.0.1:8000:8000
""",
    "systemd": r"""
this machine only: --host 127.0.0.1
a user of its own: \nDynamicUser=yes
""",
    "ray": r"""
more servers under load: max_replicas adds replicas.*\n +autoscaling_config
HF_TOKEN: # for gated models `ray start` needs HF_TOKEN
""",
}


@pytest.mark.parametrize(
    ("form", "item"),
    [(form, item) for form, text in PLATFORM.items() for item in text.strip().splitlines()],
)
def test_lines_meet_items_of_a_list(form: str, item: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the published image
    advice = recommend(hardware="h100", model="qwen3-8b", engine="vllm", what_if=False)
    assert re.search(item.partition(": ")[2], FORMS[form].write(advice)), item


DIGEST = "ghcr.io/us/vllm@sha256:" + "a" * 64
SET = {"image": DIGEST, "claim": "models", "namespace": "llm", "host": "0.0.0.0", "port": "9001"}


@pytest.mark.parametrize("form", STARTS)
def test_a_file_can_be_changed_without_editing_it(form: str) -> None:
    words = [part for item in SET.items() for part in ("--set", "=".join(item))]
    asked = ["recommend", "--hw", "h100", "--model", "qwen3-8b", "--format", form, *words]
    made = CliRunner().invoke(cli, asked)
    assert made.exit_code == 0
    text = made.output
    container = form in ("docker-run", "compose", "quadlet", "k8s", "helm")
    assert ("@sha256" in text and "a" * 64 in text) == container and "9001" in text
    assert "this machine only" not in text
    if form == "k8s":
        made_of = documents(text)
        assert set(made_of) == {"Deployment", "Service"}  # the claim exists
        assert {one["metadata"]["namespace"] for one in made_of.values()} == {"llm"}
        volumes = made_of["Deployment"]["spec"]["template"]["spec"]["volumes"]
        assert {"claimName": "models"} in [one.get("persistentVolumeClaim") for one in volumes]
    elif form != "helm":
        assert "0.0.0.0" in text


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama-server"])
def test_a_monitor_finds_the_service_and_its_metrics(engine: str) -> None:
    words = ["--format", "k8s", "--set", "monitor=prometheus"]
    made = CliRunner().invoke(cli, ["recommend", "--hw", "h100", "--engine", engine, *words])
    parts = documents(made.output)
    spec, service = parts["ServiceMonitor"]["spec"], parts["Service"]
    assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert spec["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    args = parts["Deployment"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert engine == "vllm" or {"--metrics", "--enable-metrics"} & {*args}


@pytest.mark.parametrize(
    "word",
    ["image=a b", "image=", "port=0", "port=70000", "namespace=A", "host=a;b", "x=1", "port"],
)
def test_what_cannot_be_set_is_refused(word: str) -> None:
    made = CliRunner().invoke(cli, ["recommend", "--hw", "h100", "--format", "k8s", "--set", word])
    assert made.exit_code != 0 and "--set" in (made.output + str(made.exception))
