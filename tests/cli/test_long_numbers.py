"""A number of more than 4,300 digits, which Python does not make of a text, is one sentence or one
finding wherever a file, a server or an option brings it: in JSON, YAML, CSV, a log, a launch.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_run import run
from readers.test_exchange import MODELS, serve

DIGITS = "9" * 5_000
COUNTER = "vllm:generation_tokens_total"
ROOT = Path(__file__).parents[2]
OFF = json.loads((ROOT / "examples/own-runs/off.json").read_text())
RUN = json.dumps(OFF | {"output_throughput": -1}).replace("-1", DIGITS)
ASKED = ("--hw", "gb10", "--concurrency", "4", "--ctx", "2048")
VLLM = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8"
LAUNCHES = {
    "tokens.sh": f"{VLLM} --max-model-len {DIGITS}",
    "unit.sh": f"{VLLM} --max-model-len {DIGITS}k --swap-space {DIGITS}GiB",
    "k.sh": f"{VLLM} --speculative-config "
    f"'{{\"method\":\"mtp\",\"num_speculative_tokens\":{DIGITS}}}'",
    "dotted.sh": f"{VLLM} --speculative-config.num_speculative_tokens {DIGITS}",
    "json.sh": f"{VLLM} --hf-overrides '{{\"a\":{DIGITS}}}' --override-generation-config "
    f"'{{\"temperature\":{DIGITS}}}'", "tp.sh": f"{VLLM} -tp {DIGITS} --nnodes {DIGITS}",
    "sglang.sh": f"python3 -m sglang.launch_server --model-path a/b --tp-size {DIGITS} "
    f"--speculative-num-steps {DIGITS}",
    "llama.sh": f"llama-server -m a.gguf -c {DIGITS} --draft-max {DIGITS} -ngl {DIGITS}",
    "docker.sh": f"docker run --shm-size {DIGITS} --gpus {DIGITS} -p {DIGITS}:8000 "
    f"vllm/vllm-openai:v0.{DIGITS}.0 --model a/b --port {DIGITS}",
    "port.sh": f"{VLLM} --port {DIGITS}", "version.sh": f"pip install vllm==0.{DIGITS}.0 && {VLLM}",
    "guard.py": f'import subprocess\nsubprocess.run(["vllm", "serve", "m", "--port", {DIGITS}])',
    "compose.yml": "services:\n  a:\n    image: vllm/vllm-openai:v0.32.0\n"
    f"    shm_size: {DIGITS}\n    command: [a/b, --max-num-seqs, {DIGITS}]",
    "pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n"
    "  - image: vllm/vllm-openai:v0.32.0\n    name: a\n    args: [--model, a/b]\n"
    f"    resources: {{limits: {{nvidia.com/gpu: {DIGITS}}}}}\n"
    f"    ports: [{{containerPort: {DIGITS}}}]",
    "a.service": f"[Service]\nExecStart=/usr/bin/{VLLM} --port {DIGITS}\nTimeoutStartSec={DIGITS}",
    "a.container": f"[Container]\nImage=vllm/vllm-openai:v0.32.0\nExec=a/b --port {DIGITS}\n"
    f"ShmSize={DIGITS}\nPublishPort={DIGITS}:8000",
    "Dockerfile": f"FROM vllm/vllm-openai:v0.32.0\nEXPOSE {DIGITS}\nCMD [\"a/b\", {DIGITS}]",
    "launch.json": '{"command": "vllm serve a/b", "port": ' + DIGITS + "}",
    "preset.ini": f"[a]\nmodel = a.gguf\nctx-size = {DIGITS}\n",
}  # fmt: skip


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


Words = Callable[[Path], list[str]]
COMMANDS: dict[str, Words] = {
    "results": lambda f: ["results", write(f, "a.json", RUN)],
    "results bare": lambda f: ["results", write(f, "a.json", '{"x":' + DIGITS + "}")],
    "results lines": lambda f: ["results", write(f, "a.jsonl", f"{json.dumps(OFF)}\n{RUN}\n")],
    "results fence": lambda f: ["results", write(f, "a.md", f"text\n```\n{RUN}\n```\n")],
    "results log": lambda f: ["results", write(
        f, "a.log", f"INFO SpecDecoding metrics: Mean acceptance length: 2.4, Accepted: {DIGITS} "
        f"tokens, Drafted: {DIGITS} tokens\nslot print_timing: id {DIGITS} | n_slots = {DIGITS}\n"
        f"draft acceptance rate = 0.5 ( {DIGITS} accepted / {DIGITS} generated)\n"
        f"statistics mtp: #gen tokens = {DIGITS}, #acc tokens = {DIGITS}\n")],
    "results metrics": lambda f: ["results", write(
        f, "a.prom", f"# TYPE {COUNTER} counter\n{COUNTER} {DIGITS}\n")],
    "results csv": lambda f: ["results", write(f, "a.csv", f"k,tok/s\n0,{DIGITS}\n{DIGITS},3\n")],
    "ab": lambda f: ["ab", write(f, "a.json", RUN), write(f, "b.json", json.dumps(OFF))],
    "calibrate": lambda f: ["calibrate", write(f, "a.json", RUN), "--hw", "gb10"],
    "predict": lambda f: ["predict", "--out", "-", "--rows", write(
        f, "r.csv", f"spec_method,model,hardware,k,concurrency,engine_version\n"
        f"mtp,qwen3.6-35b-a3b,gb10,{DIGITS},1,0.1.0\nmtp,qwen3.6-35b-a3b,gb10,2,1,0.{DIGITS}.0\n"
        f"mtp,qwen3.6-35b-a3b,gb10,2,{DIGITS},0.1.0\n")],
    "config": lambda f: ["recommend", *ASKED, "--model", write(
        f, "config.json", '{"num_hidden_layers":' + DIGITS + ',"hidden_size":4}')],
    "plan": lambda f: ["plan", *ASKED, write(f, "m.yaml", f"classes: [{{rate: {DIGITS}}}]")],
    "bench": lambda f: ["bench", "run", write(f, "plan.yaml", f"concurrency: {DIGITS}")[:-10]],
    "hardware": lambda f: ["hardware", "validate", write(f, "h.yaml", f"id: x\ngb: {DIGITS}")],
    "models": lambda f: ["models", "validate", write(f, "m.yaml", f"id: x\nlayers: {DIGITS}")],
    "data": lambda f: ["data", "check", write(f, "r.csv", f"id,k\na,{DIGITS}\n")],
    "sweep": lambda f: ["sweep", *ASKED, "--vary", f"k=1..{DIGITS}"],
    "sweep list": lambda f: ["sweep", *ASKED, "--vary", f"concurrency=1,{DIGITS}"],
    "why-not": lambda f: ["why-not", f"k={DIGITS}", *ASKED],
    "options": lambda f: ["recommend", "--hw", "gb10", "--concurrency", DIGITS],
    "hw": lambda f: ["recommend", "--hw", f"{DIGITS}xh100"],
    "engine": lambda f: ["recommend", *ASKED, "--engine", f"vllm@0.{DIGITS}.0"],
    "quant": lambda f: ["recommend", *ASKED, "--quant", f"q{DIGITS}_k"],
    **{
        name: lambda f, name=name: ["validate", write(f, name, LAUNCHES[name] + "\n"), *ASKED]
        for name in LAUNCHES
    },
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_number_that_python_does_not_read_is_no_traceback(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    made = run(*COMMANDS[name](tmp_path))
    assert made.out + made.err and "internal" not in made.out + made.err
    if name not in LAUNCHES and name != "predict":
        assert made.code in (1, 2), made.out


@pytest.mark.parametrize("path", ["/v1/models", "/metrics"])
def test_a_server_may_send_one(path: str) -> None:
    texts = {"/v1/models": MODELS, "/metrics": b"vllm:generation_tokens_total 5\n"}
    texts[path] = texts[path].replace(b'"m"', DIGITS.encode()).replace(b"5", DIGITS.encode())
    with serve(lambda handler: handler.send(200, texts.get(handler.path, b""))) as (url, _):
        made = run("watch", "--url", url, "--seconds", "0.2")
    assert made.out + made.err
