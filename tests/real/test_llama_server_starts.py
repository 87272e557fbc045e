"""The emitted llama-server launches are started for real, with a tiny model on the CPU: they load,
answer over HTTP, and draft.

A compose file is brought up by docker compose, unchanged, where `places` finds it; elsewhere the
command line in it is run. The summary says which way.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from advisor import engines
from advisor.advice.recommend import recommend
from advisor.cli.app import cli
from advisor.domain.nouns import Flag, Launch, Request
from advisor.readers import read_text
from tests.ports import free_port
from tests.real import places
from tests.real.tiny_server import QUIET, ask, run_server, wait

pytestmark = pytest.mark.slow  # a real server is started and waited for

Ask = Callable[..., Any]
RATE = "0.8"  # of each draft position: noise would hardly ever be accepted
# --poll has no variable; one thread waits for nobody
QUIET_SETTINGS = {"LLAMA_ARG_OFFLINE": "1", "LLAMA_ARG_THREADS": "1"}
PROMPT = {"prompt": "ab ab ab", "n_predict": 24, "seed": 1}


def on_this_machine(launch: Launch, model: Path, port: int) -> list[str]:
    """Arguments with this model and port; tensors are split only where there is a device."""
    adapter = engines.get("llama-server")
    own = {"--port": str(port), "--host": "127.0.0.1"}
    flags = [Flag(name="--model", raw="-m", value=str(model))]
    other = (*own, *adapter.MODEL_FLAGS)
    split = {"tensor": "layer"}
    flags += [
        flag.model_copy(update={"value": split.get(flag.value or "", flag.value)})
        for flag in launch.flags
        if flag.name not in other
    ]
    flags += [Flag(name=name, raw=name, value=value) for name, value in own.items()]
    return list(adapter.argv(launch.model_copy(update={"flags": tuple(flags)})))[1:]


def emit(form: str) -> tuple[str, list[Launch]]:
    """The file with speculation that `recommend` writes in a form, and what it reads as."""
    question = ["recommend", "--hw", "rtx5090", "--engine", "llama-server@0.5.0"]
    question += ["--acceptance-length", "3.4", "--acceptance-k", "3", "--format", form]
    answer = CliRunner().invoke(cli, question)
    assert answer.exit_code == 0, answer.output
    launches = list(read_text(answer.stdout, NAMES[form]).launches)
    assert launches and all(launch.engine == "llama-server" for launch in launches)
    return answer.stdout, launches


NAMES = {"flags": "start.sh", "compose": "compose.yaml", "systemd": "llama-server.service"}


def draft_tokens(launch: Launch) -> int:
    assert launch.flag("--spec-type") is not None, "the question is one that speculation wins"
    return int(launch.flag("--spec-draft-n-max").value)  # type: ignore[union-attr,arg-type]


def check(ask_server: Ask, launch: Launch, drafts: bool = True) -> None:
    """One request; the server drafts if it should, and has the slots of the launch."""
    answer = ask_server("/completion", PROMPT)
    assert answer["tokens_predicted"] == PROMPT["n_predict"]
    if drafts:
        assert answer["timings"]["draft_n"] > 0 and answer["timings"]["draft_n_accepted"] > 0
    else:
        assert "draft_n" not in answer["timings"]
    parallel = launch.flag("--parallel")
    assert parallel is not None and len(ask_server("/slots")) == int(parallel.value or 0)


def run_directly(launch: Launch, server: Path, model: Path, folder: Path) -> None:
    """Start the command line of a launch as a process of this machine, and check it."""
    port, log = free_port(), folder / "server.log"
    forced = ["--spec-synth-rates", ",".join([RATE] * draft_tokens(launch))]
    with run_server(server, [*on_this_machine(launch, model, port), *QUIET, *forced], log):
        wait(port, log)
        check(partial(ask, port), launch)


def fill_cache(hub: Path, launch: Launch, model: Path) -> None:
    """The tiny model under the name that the launch downloads."""
    repository, _, tag = launch.flag("--hf-repo").value.partition(":")
    places.cache_model(hub, repository, f"tiny-{tag}.gguf", model)


def test_a_launch_starts_answers_and_drafts(server: Path, model: Path, tmp_path: Path) -> None:
    _, (launch,) = emit("flags")
    run_directly(launch, server, model, tmp_path)


@contextmanager
def compose_project(
    docker: places.Docker, files: list[Path], home: Path
) -> Iterator[Callable[..., str]]:
    """docker compose over the files of one test; what it brought up is taken down."""
    base = [*docker.compose, "--project-name", places.OWN]
    for file in files:
        base += ["--file", str(file)]
    env = places.environment(HOME=str(home))  # the volumes of the file are under ~

    def run(*words: str) -> str:
        made = places.call([*base, *words], env=env)
        assert made.returncode == 0, f"{made.stderr[-1500:]}\n{places.logs(base, env)}"
        return made.stdout

    try:
        yield run
    finally:
        places.call([*base, "down", "--volumes", "--timeout", "5"], env=env)


def start_compose(
    docker: places.Docker, text: str, launches: list[Launch], server: Path, model: Path, tmp: Path
) -> None:
    """Bring the file up as its user would; the healthcheck must pass."""
    home, drafting = tmp / "home", next(one for one in launches if one.flag("--spec-type"))
    fill_cache(home / ".cache" / "huggingface" / "hub", drafting, model)
    emitted, override = tmp / "compose.yaml", tmp / "override.yaml"
    emitted.write_text(text)
    services = yaml.safe_load(text)["services"]
    with places.image(server, tmp) as image:
        for (name, service), launch in zip(services.items(), launches, strict=True):
            port, inside = free_port(), service["ports"][0].rsplit(":", 1)[1]
            drafts = launch.flag("--spec-type") is not None
            rates = ",".join([RATE] * draft_tokens(drafting))
            own = QUIET_SETTINGS | ({"LLAMA_ARG_SPEC_SYNTH_RATES": rates} if drafts else {})
            # neither GPU nor registry here: our image, no reservation, a free port
            lines = ["services:", f"  {name}:", f"    image: {image}", "    deploy: !reset null"]
            lines += [f'    ports: !override ["127.0.0.1:{port}:{inside}"]', "    environment:"]
            lines += [f'      {key}: "{value}"' for key, value in own.items()]
            override.write_text("\n".join(lines) + "\n")
            with compose_project(docker, [emitted, override], home) as run:
                run("up", "--detach", "--wait", "--wait-timeout", "300", name)
                check(partial(ask, port), launch, drafts)


def test_an_emitted_compose_file_starts_that_server(
    server: Path, model: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    text, launches = emit("compose")
    try:
        docker = places.find_docker()
    except places.Absent as absent:
        record_property("way", places.say_direct("docker", absent))
        run_directly(
            next(one for one in launches if one.flag("--spec-type")), server, model, tmp_path
        )
        return
    record_property("way", f"docker compose up, docker {docker.version}")
    start_compose(docker, text, launches, server, model, tmp_path)


def test_the_command_of_a_unit_starts_a_server(server: Path, model: Path, tmp_path: Path) -> None:
    run_directly(emit("systemd")[1][0], server, model, tmp_path)


def test_the_launch_without_drafts_starts_too(server: Path, model: Path, tmp_path: Path) -> None:
    made = recommend(Request(hardware="rtx5090", engine="llama-server", engine_version="0.5.0"))
    launch = read_text(made.launch_off.text, "start.sh").launches[0]
    port, log = free_port(), tmp_path / "server.log"
    with run_server(server, [*on_this_machine(launch, model, port), "--poll", "0"], log):
        wait(port, log)
        check(partial(ask, port), launch, drafts=False)
