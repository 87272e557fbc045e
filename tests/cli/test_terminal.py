r"""Nothing that a command reads from outside reaches the terminal as a control: not as an escape
sequence, an override of the writing direction, an end of a line that is none of ours.

What such characters are is Unicode's word (general categories Cc, Cf, Zl, Zp, Cs, Co), not ours.
"""

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_run import run
from readers.test_exchange import serve

from advisor.cli.recommend import wants_color
from advisor.domain.shell import shell_word
from tests.tables import cells

ROOT = Path(__file__).parents[2]
SIGNS = "\x1b]0;a\x07\x1b[31m\u202e\x08\x9b2J\x7f\u2028\u2029\u200b\u2066\r\x85"
EVIL = f"q{SIGNS}EVIL"
ASKED = ("--hw", "gb10", "--concurrency", "4", "--ctx", "2048")
SETTING = ("--hw", "gb10", "--model", "qwen3.6-35b-a3b", "--engine", "vllm", "--quant", "fp8")
CONFIG = {"model_type": "qwen3", "num_hidden_layers": 40, "hidden_size": 2048, "head_dim": 128,
          "intermediate_size": 8192, "num_attention_heads": 32, "num_key_value_heads": 4,
          "vocab_size": 151936, "max_position_embeddings": 32768}  # fmt: skip


def shown_signs(text: str) -> set[str]:
    """What a terminal would obey or not draw."""
    bad = ("Cc", "Cf", "Zl", "Zp", "Cs", "Co")
    return {ch for ch in text if unicodedata.category(ch) in bad and ch not in "\n\t"}


def bench_files(folder: Path, **more: object) -> list[str]:
    out = []
    for name in ("off", "on"):
        data = json.loads((ROOT / f"examples/own-runs/{name}.json").read_text())
        (folder / f"{name}.json").write_text(json.dumps(data | (more if name == "on" else {})))
        out.append(str(folder / f"{name}.json"))
    return out


def evil_launch(folder: Path) -> str:
    config = json.dumps({"method": EVIL, "num_speculative_tokens": 2})
    lines = [
        f"vllm serve {shell_word(EVIL)} --speculative-config {shell_word(config)} --gpus {EVIL}",
        f"vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --served-model-name '{SIGNS}' --dtype 'x{EVIL}'",
    ]
    path = folder / "launch.sh"
    path.write_text("#!/bin/bash\n" + "\n".join(line.replace("\r", "") for line in lines) + "\n")
    return str(path)


def evil_model(folder: Path) -> str:
    place = folder / EVIL.replace("/", "_")
    place.mkdir()
    (place / "config.json").write_text(json.dumps(CONFIG))
    return str(place / "config.json")


def evil_mix(folder: Path) -> str:
    path = folder / "mix.yaml"
    path.write_text(json.dumps({"model": EVIL, "classes": [{EVIL: EVIL}]}))
    return str(path)


def rows(folder: Path) -> str:
    path = folder / "rows.csv"
    path.write_text(f'spec_method,model,hardware,k\nmtp,"{EVIL}","{EVIL}",2\n"{EVIL}",m,gb10,x\n')
    return str(path)


def text_file(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


Words = Callable[[Path], list[str]]
COMMANDS: dict[str, Words] = {
    "ab": lambda f: ["ab", *bench_files(f, model_id=EVIL), *SETTING],
    "ab json": lambda f: ["ab", *bench_files(f, model_id=EVIL), *SETTING, "--format", "json"],
    "ab version": lambda f: ["ab", *bench_files(f, engine_version=EVIL, hardware=EVIL), *SETTING],
    "ab hardware": lambda f: ["ab", *bench_files(f), "--hw", EVIL],
    "results": lambda f: ["results", *bench_files(f, model_id=EVIL, date=EVIL, method=EVIL)],
    "results json": lambda f: ["results", *bench_files(f, model_id=EVIL), "--format", "json"],
    "results key": lambda f: ["results", text_file(f, EVIL, json.dumps({EVIL: 1}))],
    "calibrate": lambda f: ["calibrate", *bench_files(f, model_id=EVIL), "--name", EVIL],
    "calibrate model": lambda f: ["calibrate", *bench_files(f, model_id=EVIL), "--hw", "gb10"],
    "share": lambda f: ["share", EVIL],
    "predict": lambda f: ["predict", "--rows", rows(f), "--out", "-"],
    "validate": lambda f: ["validate", evil_launch(f), *ASKED],
    "validate colour": lambda f: ["validate", evil_launch(f), "--color"],
    "validate json": lambda f: ["validate", evil_launch(f), "--format", "json"],
    "validate sarif": lambda f: ["validate", evil_launch(f), "--format", "sarif"],
    "validate github": lambda f: ["validate", evil_launch(f), "--format", "github"],
    "validate diff": lambda f: ["validate", evil_launch(f), "--diff", "--unsafe-fixes"],
    "validate name": lambda f: ["validate", text_file(f, EVIL, "vllm serve m --nope\n")],
    "validate option": lambda f: ["validate", evil_launch(f), "--hw", EVIL, "--select", EVIL],
    "compare": lambda f: ["compare", "gb10", EVIL],
    "sweep": lambda f: ["sweep", *ASKED, "--vary", f"{EVIL}=1..4"],
    "sweep model": lambda f: ["sweep", *ASKED, "--model", evil_model(f), "--vary", "k=1..2"],
    "why-not": lambda f: ["why-not", EVIL, *ASKED],
    "plan": lambda f: ["plan", evil_mix(f), *ASKED],
    "hardware": lambda f: ["hardware", "validate", text_file(f, "h.yaml", json.dumps({EVIL: 1}))],
    "models": lambda f: ["models", "show", EVIL],
    "explain": lambda f: ["explain", EVIL],
    "rules": lambda f: ["rules", "--select", EVIL],
    "data": lambda f: ["data", "check", rows(f)],
    "bench": lambda f: ["bench", "run", text_file(f, "plan.yaml", json.dumps({EVIL: EVIL}))[:-10]],
    "no command": lambda f: [EVIL],
    "no option": lambda f: ["recommend", f"--{EVIL}"],
    "no value": lambda f: ["recommend", "--hw", EVIL],
    **{
        f"recommend {form}": lambda f, form=form: [  # type: ignore[misc]
            "recommend", *ASKED, "--model", evil_model(f), "--format", form,
        ]
        for form in ("text", "json", "flags", "docker-run", "compose", "quadlet", "systemd", "k8s",
                     "helm", "ray")
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("tty", "env", "wanted"),
    [(True, "TERM=xterm NO_COLOR=", True), (False, "TERM=xterm", False), (True, "", True),
     (True, "NO_COLOR=1", False), (True, "TERM=dumb", False)],
)  # fmt: skip
def test_colour_is_for_a_terminal_that_has_it(
    tty: bool, env: str, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: tty))
    for name, value in {"TERM": "", "NO_COLOR": "", **cells(env)}.items():
        monkeypatch.setenv(name, value)
    assert wants_color() == wanted


@pytest.mark.parametrize("name", COMMANDS)
def test_no_control_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = run(*COMMANDS[name](tmp_path))
    assert made.out + made.err
    text = made.out + made.err
    if "colour" in name:
        for code in (31, 33, 36, 0):  # red, yellow, cyan, plain
            text = text.replace(f"\x1b[{code}m", "")
    assert not shown_signs(text), text


@pytest.mark.parametrize("name", ["ab", "ab version"])
def test_a_colour_of_outside_does_not_reach_a_coloured_terminal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("advisor.cli.recommend.wants_color", lambda: True)
    made = run(*COMMANDS[name](tmp_path))
    assert "A/B" in made.out and not shown_signs(made.out)


def test_what_a_server_says_is_shown_in_visible_characters(tmp_path: Path) -> None:
    def answer(handler: object) -> None:
        path = handler.path  # type: ignore[attr-defined]
        data: object = {"version": EVIL, "data": [{"id": EVIL, "owned_by": "vllm"}]}
        text = json.dumps(data) if path != "/metrics" else "vllm:generation_tokens_total 5\n"
        status = 418 if "chat" in path else 200
        body = json.dumps({"error": EVIL}, ensure_ascii=False) if status == 418 else text
        handler.send(status, body.encode())  # type: ignore[attr-defined]

    with serve(answer) as (url, _):
        watch = run("watch", "--url", url, "--seconds", "0.2")
        bench = run("bench", "run", str(tmp_path), "--url", url, "--arm", "off", "--seeds", "1")
    assert "EVIL" in watch.out and "EVIL" in bench.err
    assert not shown_signs(watch.out + watch.err + bench.out + bench.err)


def test_a_launch_keeps_its_words_exactly(tmp_path: Path) -> None:
    """bash gives back the very path that was asked for."""
    model = evil_model(tmp_path)
    made = run("recommend", *ASKED, "--model", model, "--format", "flags")
    assert made.code == 0, made.err
    line = next(line for line in made.out.split("\n") if "EVIL" in line and line[0] != "#")
    words = "\n".join(w for w in [line.strip().removesuffix("\\")])
    done = subprocess.run(["bash", "-c", f"printf %s {words}"], capture_output=True, check=True)
    assert str(Path(model).parent).encode() in done.stdout


def test_a_container_mounts_no_path_of_control_characters(tmp_path: Path) -> None:
    made = run("recommend", *ASKED, "--model", evil_model(tmp_path), "--format", "docker-run")
    assert made.code == 2 and "cannot be mounted" in made.err and not shown_signs(made.err)


@pytest.mark.parametrize(
    "text",
    [EVIL, "plain", "a b", "it's", "\\", "a\\x41'b", "\u0301" * 9, "\u2800", "\udc80z\udcff", ""],
)
def test_a_shell_word_is_read_back_by_bash(text: str) -> None:
    done = subprocess.run(
        ["bash", "-c", f"printf %s {shell_word(text)}"], capture_output=True, check=True
    )
    assert done.stdout == text.encode("utf-8", "surrogateescape")
    assert not shown_signs(shell_word(text))


@pytest.mark.parametrize("form", ["flags", "json", "compose", "systemd", "text"])
def test_a_path_that_is_not_utf_8_is_refused(form: str, tmp_path: Path) -> None:
    made = run("recommend", *ASKED, "--model", f"{tmp_path}/\udcff.json", "--format", form)
    assert made.code == 2 and not made.out and "UTF-8" in made.err and made.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "status"),
    [("advisor explain SD425 | true", 141), ("advisor models list | true", 141),
     ("advisor explain SD425 >&-", 0), ("advisor recommend --hw nosuch 2>&-", 2)],
)  # fmt: skip
def test_an_output_that_nobody_reads_is_no_finding(words: str, status: int) -> None:
    """141 is what a shell tells of any program that a closed pipe ends."""
    words = words.replace("advisor", f"{sys.executable} -m advisor")
    script = f"{words}; exit ${{PIPESTATUS[0]}}"
    made = subprocess.run(["bash", "-c", script], check=False, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (status, "")
