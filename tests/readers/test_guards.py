"""What ends a script is what the script decides: no guard on the environment, no loop that tries
again.
"""

import pytest

from advisor.lint.validate import validate
from advisor.readers import read_text

SERVE = "vllm serve m --port 1\n"
GUARDS = {"an empty variable": 'if [ -z "${HF_TOKEN:-}" ]; then\n  echo need it\n  exit 1\nfi\n',
          "and": '[ -z "${HF_TOKEN:-}" ] && exit 1\n',
          "or": '[ -n "${HF_TOKEN:-}" ] || { echo no; exit 1; }\n',
          "a switch": '[[ "${RUN:-0}" == "1" ]] || exit 0\n',
          "a number": 'GPUS=${GPUS:-0}\nif [ "$GPUS" -lt 8 ]; then exit 1; fi\n',
          "arithmetic": "if (( ${GPUS:-0} < 8 )); then exit 1; fi\n",
          "through another name": 'A="${B:-}"\nC="$A"\n[ -n "$C" ] || exit 1\n',
          "arguments": "if [ $# -eq 0 ]; then echo usage; exit 1; fi\n",
          "a default argument": 'MODE="${1:-help}"\nif [ "$MODE" != serve ]; then exit 0; fi\n',
          "a case": "MODE=${MODE:-none}\ncase $MODE in\n none) exit 0;;\n spec) X=1;;\nesac\n",
          "a file": 'if [ ! -f "$MODEL" ]; then exit 1; fi\n',
          "a program": "command -v vllm >/dev/null || exit 1\n",
          "an answer": "curl -sf localhost:1/health && exit 0\n",
          "a function": 'die() { echo "$1"; exit 1; }\n[ -n "${M:-}" ] || die "no model"\n',
          "a return": 'need() { if [ -z "${X:-}" ]; then return 1; fi; echo fine; }\nneed\n',
          "a subshell": "( exit 1 )\n",
          "else": f'if [ -z "${{A:-}}" ]; then exit 1\nelse\n{SERVE}fi\nexit\n'}  # fmt: skip


@pytest.mark.parametrize("kind", GUARDS)
def test_a_guard_never_ends_the_reading(kind: str) -> None:
    assert [one.model for one in read_text(GUARDS[kind] + SERVE, "a.sh").launches] == ["m"]


@pytest.mark.parametrize(
    "loop",
    ["for i in 1 2 3; do\n  if vllm serve a --port 1; then exit 0; fi\n  sleep 5\ndone\n",
     "for i in $(seq 1 5); do\n  vllm serve a --port 1 && break\ndone\n",
     "until vllm serve a --port 1; do sleep 1; done\n",
     "while true; do\n  vllm serve a --port 1\n  exit 0\ndone\n",
     "for i in 1 2 3; do\n  exec vllm serve a --port 1\ndone\n"],
)  # fmt: skip
def test_a_loop_that_tries_again_never_ends_the_reading(loop: str) -> None:
    assert [one.model for one in read_text(loop + SERVE, "a.sh").launches] == ["a", "m"]


def test_what_the_file_decides_ends_it() -> None:
    assert read_text(f"if [ 1 -lt 2 ]; then exit 1; fi\n{SERVE}", "a.sh").launches == ()
    assert read_text(f'A=1\nif [ -n "$A" ]; then exit 1; fi\n{SERVE}', "a.sh").launches == ()
    text = f"A=${{B:-1}}\nA=2\nif [ $A = 2 ]; then exit 1; fi\n{SERVE}"
    assert read_text(text, "a.sh").launches == ()  # the file sets it after all


@pytest.mark.parametrize("size", ['"$TP"', "${TP}", "${TP:?}", "$(nvidia-smi -L | wc -l)", "<N>"])
def test_a_size_that_is_not_set_is_unknown_and_not_one(size: str) -> None:
    text = f"vllm serve Qwen/Qwen3.5-397B-A17B-FP8 --tensor-parallel-size {size}\n"
    report = validate(text=text, hw="h200", gpus=8, concurrency=8, ctx=2048)
    flag = report.launches[0].launch.flag("--tensor-parallel-size")
    assert flag is not None and flag.unresolved
    assert not [one for one in report.findings if one.severity == "error"]


def test_what_lies_beyond_a_bound_is_said() -> None:
    read = read_text("".join(f"vllm serve m{i} --port 1\n" for i in range(501)), "a.sh")
    assert len(read.launches) == 500 and read.cut_short
    long = read_text(SERVE + "# x\n" * 150_001, "a.sh")
    assert long.launches == () and long.cut_short and not read_text(SERVE, "a.sh").cut_short
