"""`advisor recommend`, `compose` and `schema` as a user meets them."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_run import run
from click.shell_completion import ShellComplete

from advisor.advice import recommend
from advisor.advice.questions import request_from
from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError
from tests.tables import words

GB10 = ("recommend", "--hw", "gb10", "--concurrency", "16", "--ctx", "2048")


@pytest.mark.parametrize("engine", ["ollama", "lmstudio", "llama-cpp-python"])
def test_engines_without_a_path_get_a_plain_answer(engine: str) -> None:
    for form in ((), ("--format", "json")):  # no decision: not exit 0
        ran = run(*GB10, "--engine", engine, *form)
        assert (ran.code, ran.out) == (2, "") and "llama-server" in ran.err
    assert run("compose", *GB10[1:], "--engine", engine).code == 2


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ("--concurrency -3", "'-3' is not a whole number from 1 to"),
        ("--concurrency 0", "'0' is not a whole number"),
        ("--concurrency 1.5", "'1.5' is not a whole number"),
        ("--concurrency " + "9" * 400, "not a whole number"),
        ("--ctx nan", "'nan' is not a whole number"),
        ("--temperature nan", "'nan' is not a number from 0 to 5"),
        ("--prefix-share 1.2", "'1.2' is not a number from 0 to 1"),
        ("--prefix-share -inf", "'-inf' is not a number"),
        ("--acceptance 0.8,1.2", "'1.2' is not a number from 0 to 1"),
        ("--acceptance 0.8,", "'' is not a number"),
        ("--acceptance " + ",".join(["0.5"] * 40), "40 rates"),
        ("--acceptance-length 0.5", "'0.5' is not a number from 1 to 32"),
        ("--acceptance-length 4 --acceptance-k 2", "impossible at k = 2"),
        ("--acceptance-k 2", "--acceptance-length"),
        ("--acceptance 0.8 --acceptance-length 2", "twice"), ("--max-ttft-ms 0", "'0' is not a n"),
        ("--workload poetry", "poetry"), ("--goal speed", "speed"),
        ("--interconnect string", "string"), ("--gpus 3 --tp 2", "does not divide"),
        ("--gpus 2 --tp 4", "--tp 4 needs at least as many GPUs"),
        ("--engine vllm@0.25.1 --engine-version 0.33.0", "twice"), ("--engine vlm", "vllm"),
        ("--method draft-model", "priced by"),
        ("--engine-version 9.9.9", "9.9.9"), ("--model qwen3.7-35b", "qwen3.6-35b-a3b"),
        ("--quant fp7", "fp8"), ("--format xml", "xml"), ("--nonsense", "--nonsense"),
        # of the hardware, with its nearest name
        *((f"--hw {name}", near)
          for name, near in (("gb1O", "gb10"), ("rtx3909", "rtx3090"), ("h1000", "h100"))),
        *((f"--hw {name}", "") for name in ("0x3090", "9999x3090", "2x", "x3090")),
        *((f"--hw {name}", "not covered")
          for name in ("cpu", "epyc", "'EPYC 9654'", "gaudi3", "tpu", "tpu-v5e", "trn2")),
        ("--hw 3090 --model qwen3.5-397b-a17b --engine vllm", "GiB"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_exit_2(argv: str, part: str) -> None:
    given = shlex.split(argv)
    ran = run(*(GB10[:1] if "--hw" in given else GB10), *given)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("Error: ") == 1 and part in ran.err.split("Error: ")[1]
    assert part != "not covered" or "did you mean" not in ran.err


@pytest.mark.parametrize(
    "version,drafter", [("0.19.1", ""), ("0.20.2", "speculator.eagle3"), ("0.25.1", "assistant")]
)
def test_gemmas_assistant_is_launched_where_releases_take_it(version: str, drafter: str) -> None:
    """vLLM 0.20.1 refuses the assistant, 0.21.0 takes it with method mtp (vllm-project/vllm #42005,
    #42180). Before that there is an EAGLE-3 head, which vLLM's list of targets has since the
    release that names gemma4 (#39450).
    """
    asked = "--hw rtx5090 --model gemma-4-31b --quant nvfp4 --engine vllm --engine-version"
    text = run("recommend", *words(asked), version).out
    assert text.startswith(f"Speculative decoding {'ON' if drafter else 'OFF'}")
    launch = text.replace("\n", "").partition("Run")[2].partition("--explain")[0]
    heads = [x for x in ("assistant", "speculator.eagle3") if f"gemma-4-31B-it-{x}" in launch]
    assert heads == [drafter] * bool(drafter)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ({"gpus": 0}, "gpus"), ({"interconnect": "foo"}, "interconnect"),
        ({"acceptance": (0.5, float("nan"))}, "acceptance.1"),
        ({"acceptance_length": 4.0, "acceptance_k": 2}, "impossible at k = 2"),
    ],
)  # fmt: skip
def test_python_refuses_what_the_command_line_refuses(asked: dict[str, object], part: str) -> None:
    with pytest.raises(AdvisorError) as refused:
        recommend.check_request({"hardware": "gb10", **asked})
    text = str(refused.value)
    assert part in text and "\n" not in text and "pydantic" not in text


def completions(*typed: str, part: str = "") -> list[str]:
    complete = ShellComplete(cli, {}, "advisor", "_ADVISOR_COMPLETE").get_completions
    return [item.value for item in complete(list(typed), part)]


@pytest.mark.parametrize(
    ("typed", "part", "name"),
    [("recommend --model", "qwen3.6-2", "qwen3.6-27b"), ("validate --hw", "GB", "gb10"),
     ("explain", "sd4", "SD412")],
)  # fmt: skip
def test_names_complete(typed: str, part: str, name: str) -> None:
    found = completions(*words(typed), part=part)
    assert name in found and all(item.lower().startswith(part.lower()) for item in found)
    if typed == "explain":  # slugs of rules, too
        assert run("explain", next(item for item in completions("explain", part="low"))).code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here; .ci/run has it")
def test_an_output_that_cannot_be_written_is_one_sentence() -> None:
    command = [sys.executable, "-c", "from advisor.cli.app import main; main()", *GB10]
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    said = "Error: cannot write the answer: No space left on device.\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out = str(tmp_path / "file" / "plan")
    call = [*words("bench plan --hw gb10 --concurrency 4 --out"), out]
    command = [sys.executable, "-c", "from advisor.cli.app import main; main()", *call]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"Error: {out}: not a directory\n")


def test_the_number_of_gpus_given_twice_must_agree_and_tp_alone_means_as_many() -> None:
    assert run("recommend", "--hw", "2x3090", "--gpus", "2").code == 0
    assert "twice" in run("recommend", "--hw", "2x3090", "--gpus", "4").err
    assert request_from({"hw": "gb10", "tp": 2}).gpus == 2
    assert request_from({"hw": "gb10", "tp": 2, "gpus": 4}).gpus == 4
    with pytest.raises(AdvisorError):
        request_from({"hw": ""})
    without = run("recommend")
    assert without.code == 2 and "--hw auto" in without.err


def test_explain() -> None:
    assert "Memory per GPU" in run(*GB10, "--explain").out
    assert "Memory per GPU" not in run(*GB10).out
    assert run(*GB10, "--explain", "--format", "json").code == 2


def test_a_refusal_stands_alone() -> None:
    """No advice on a placeholder beside a file that is not written."""
    done = run("compose", "--hw", "ascend-910b", "--model", "qwen3.6-27b")
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert done.err.startswith("Error: a compose file cannot be written")
