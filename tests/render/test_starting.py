"""Every file that is written starts where it is put: images with their registry, and a model of the
user's own at a path that is there. Our own validator reads each file back.
"""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from advisor import engines, recommend, validate
from advisor.domain.nouns import AdvisorError
from advisor.render.deploy import router
from advisor.render.forms import FORMS
from tests.knowledge.test_model_files import QWEN3_8B, config, gguf
from tests.tables import fields

CONTAINERS = ("docker-run", "compose", "quadlet", "k8s", "helm")
ENGINES = ("vllm", "sglang", "llama-server")
TENSORS = {"token_embd.weight": (4096, 151936), "blk.0.ffn_down.weight": (12288, 4096)}
KEYS = fields(
    "block_count=36 embedding_length=4096 attention__head_count=32 attention__head_count_kv=8 "
    "feed_forward_length=12288 context_length=40960"
)
KINDS = ("repository", "folder", "config.json", "relative config.json", "GGUF")
IMAGES = re.compile(r'(?m)(?:image|Image|repository|SERVER_IMAGE)"?[:=] ?"?([\w./:@-]+)')


# forms and the engines that they are written for
WRITTEN = [
    (form, engine)
    for engine in ENGINES
    for form, kind in FORMS.items()
    if kind.file and engine in kind.engines
]


def file_text(form: str, **asked: Any) -> str:
    """The file of an answer."""
    return FORMS[form].write(recommend(hardware="h100", what_if=False, **asked))


def model(kind: str, folder: Path) -> str:
    """A model of the kind, in a folder that is named after it."""
    place = folder / "my qwen3-8b"
    place.mkdir()
    if kind == "repository":
        return "Qwen/Qwen3-8B"
    if kind == "GGUF":
        return str(gguf(place, TENSORS, **KEYS).rename(place / "qwen3-8b-Q4_K_M.gguf"))
    path = config(place, QWEN3_8B)
    if kind == "relative config.json":
        return os.path.join(".", os.path.relpath(path))
    return path if kind == "config.json" else str(place)


@pytest.mark.parametrize(
    ("kind", "form", "engine"),
    [
        (kind, form, engine)
        for kind in KINDS
        for form, engine in WRITTEN
        if kind == "repository" or (kind == "GGUF") == (engine == "llama-server")
    ],
)
def test_no_file_is_wrong_by_our_own_rules(
    kind: str, engine: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = file_text(form, engine=engine, model=model(kind, tmp_path), quant=None)
    (tmp_path / FORMS[form].file).write_text(text)
    report = validate([tmp_path / FORMS[form].file])
    assert report.launches
    errors = [one for one in report.findings if one.severity == "error"]
    assert not errors, (errors[0].code, errors[0].message, text)
    if kind == "repository":
        return
    # as asked it stands in names only; the path is resolved where the question was asked
    assert not re.search(r"\./my qwen3-8b(?!/config\.json)", text)
    source = str(tmp_path / "my qwen3-8b")
    assert source in text.replace("\\x20", " ")  # absolute: mounted, or where the engine looks
    if form in CONTAINERS:
        words = " ".join(text.replace("\\\n", " ").split())
        assert re.search(r"/models/(my qwen3-8b|qwen3-8b-Q4_K_M.gguf)", words)


def volumes(form: str, text: str) -> list[tuple[str, str, bool]]:
    """(path of the machine, path in the container, read-only) of each mount of a path."""
    if form == "compose":
        (service,) = yaml.safe_load(text)["services"].values()
        found = [one.split(":") for one in service["volumes"]]
    elif form == "quadlet":
        lines = [line for line in text.splitlines() if line.startswith("Volume=")]
        found = [line.removeprefix("Volume=").split(":") for line in lines]
    else:
        found = [one.split(":") for one in re.findall(r"--volume '([^']*)'", text)]
    return [(one[0], one[1], one[2:] == ["ro"]) for one in found]


@pytest.mark.parametrize("form", ["compose", "quadlet", "docker-run"])
@pytest.mark.parametrize(("kind", "engine"), [("config.json", "vllm"), ("GGUF", "llama-server")])
def test_the_folder_is_mounted_read_only(form: str, kind: str, engine: str, tmp_path: Path) -> None:
    text = file_text(form, engine=engine, model=model(kind, tmp_path))
    target = "/models/my qwen3-8b" if kind == "config.json" else "/models"
    assert (str(tmp_path / "my qwen3-8b"), target, True) in volumes(form, text)


def test_kubernetes_takes_the_folder_of_the_node(tmp_path: Path) -> None:
    text = file_text("k8s", engine="vllm", model=model("config.json", tmp_path))
    pod = next(one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment")["spec"][
        "template"
    ]["spec"]
    (volume,) = [one for one in pod["volumes"] if "hostPath" in one]
    (mount,) = [x for x in pod["containers"][0]["volumeMounts"] if x["name"] == volume["name"]]
    assert volume["hostPath"] == {"path": str(tmp_path / "my qwen3-8b")}
    assert mount["readOnly"] is True
    assert any(mount["mountPath"] in word for word in pod["containers"][0]["args"])


@pytest.mark.parametrize("name", ["a:b", "a\nb"])
def test_a_path_that_no_mount_can_name_is_refused(name: str, tmp_path: Path) -> None:
    place = tmp_path / name
    place.mkdir()
    advice = recommend(hardware="h100", engine="vllm", model=config(place, QWEN3_8B))
    with pytest.raises(AdvisorError, match="cannot be mounted"):
        FORMS["compose"].write(advice)


def has_registry(image: str) -> bool:
    """By distribution's grammar of references: a first part with a dot or a port."""
    first, slash, _ = image.partition("/")
    return bool(slash) and ("." in first or ":" in first or first == "localhost")


@pytest.mark.parametrize(("form", "engine"), [pair for pair in WRITTEN if pair[0] in CONTAINERS])
@pytest.mark.parametrize("hardware", ["h100", "mi300x"])
def test_images_have_their_registry(hardware: str, engine: str, form: str) -> None:
    if (hardware, form) == ("mi300x", "helm"):  # the chart asks for nvidia.com/gpu
        hardware = "h200"
    advice = recommend(hardware=hardware, engine=engine, model="qwen3-8b", what_if=False)
    text = FORMS[form].write(advice)
    found = IMAGES.findall(text)
    if form == "docker-run":
        found = [engines.get(engine).image(advice.plan.engine_version, advice.facts.hardware) or ""]
        assert found[0] in text
    assert found and all(map(has_registry, found)), found


def test_the_router_has_its_registry() -> None:
    assert has_registry(router.IMAGE)


@pytest.mark.parametrize("engine", ENGINES)
def test_no_pasted_command_listens_to_the_network(engine: str) -> None:
    default = {"vllm": "0.0.0.0"}.get(engine, "127.0.0.1")  # the engines' own, without --host
    advice = recommend(hardware="h100", engine=engine, what_if=False)
    for launch in (advice.launch, advice.launch_off, advice.launch_on):
        argv = launch.argv
        assert (argv[argv.index("--host") + 1] if "--host" in argv else default) == "127.0.0.1"
    for flag in FORMS["flags"].write(advice).splitlines():
        assert not flag.startswith("--host") or flag == "--host 127.0.0.1"
