"""Every option and argument of every command, by hand: its names, what it takes, its default."""

import re
from typing import Any

import click

from advisor.cli.app import cli
from advisor.cli.options import Number
from advisor.domain.nouns import Request
from tests.cli.test_habits import commands

WORKLOADS = "chat|code|math|agent|rag|summarization|creative|mixed|random|reasoning|factual|voice"
METHODS = "mtp|eagle|eagle3|dflash|dflash2|dspark|ngram|suffix"
SCHEMAS = ("name:recommend|validate|sweep|policy|compare|compare-loads|why-not|plan|results|ab|"
           "receipt|hardware|model!")  # fmt: skip
PARTS = {  # whole numbers `from..to`, others `from~to`; ! must be given, + repeatable
    "question": f"""--hw:text+:hardware --gpus:1..1024 --tp:1..1024 --pp:1..128 --ep:1..1024
        --gpus-per-machine:1..1024 --interconnect:none|pcie|nvlink|nvlink-pairs|roce|ethernet
        --model:text:model --quant:text:quant --engine:text:engine --engine-version:text
        --method:{METHODS} --concurrency:1..100000=1 --ctx>ctx_tokens:1..10000000=2048
        --output-tokens:1..1000000=512 --workload:{WORKLOADS}=mixed --thinking/--no-thinking
        --temperature:0~5 --prefix-share:0~1=0.0 --output-spread:0~0.95 --acceptance:rates
        --acceptance-length:1~32 --acceptance-k:1..31 --goal:throughput|tpot|ttft|balanced=balanced
        --max-ttft-ms:0.001~1e+09 --max-tpot-ms:0.001~1e+09 --max-num-seqs:1..100000
        --max-model-len:1..10000000 --gpu-memory-utilization>memory_fraction:0.05~1
        --kv-cache-dtype:text""",
    "setting": f"""--hw>hardware:text+:hardware --gpus:1..1024 --tp:1..1024 --model:text:model
        --quant:text:quant --engine:text:engine --engine-version:text --method:{METHODS}
        --workload:{WORKLOADS} --k:1..31""",
    "own": "--machine:text --receipts:folder",
    "within": "--users-within:text --price:text",
    "form": "--format:text|json=text",
    "runs": "--off:old-file+ --on:old-file+ --launch:old-file|folder",
    "key": "--api-key:text --header:text",
}
COMMANDS = f"""
recommend: question own within --explain --set:text+
  --format:text|json|flags|docker-run|compose|systemd|quadlet|k8s|helm|ray=text
compose: question own
sweep: question own --vary:text+=concurrency=1..128 within form --watts:0.001~1e+06
plan: mix:file|folder! --format:text|json|compose=text
compare: names:text!+ question own within form --watts:0.001~1e+06
why-not: what:text! question own form
schema: {SCHEMAS}
validate: files:text+ --format:text|json|sarif|github=text --select:text+ --ignore:text+
  --fail-on:info|warning|error|never=error --hw:text+:hardware --gpus:1..1024
  --concurrency:1..100000 --ctx:1..10000000 --output-tokens:1..1000000 --workload:{WORKLOADS}
  --engine-version:text --diff --fix --unsafe-fixes --skip-unrelated --isolated --jobs:1..256
  --verbose --color/--no-color
explain: code:text!:rule
rules: --select:text+
hardware show: name:text!:hardware
hardware validate: files:file|folder!+
models show: name:text!:model
models validate: files:file|folder!+
knowledge build: --check
results: files:old-file!+ form
ab: off:old-file! on:old-file runs setting --goal:throughput|tpot|ttft|balanced form
calibrate: files:old-file!+ runs --name:text=own setting
receipt: off:file|folder! on:file runs setting --out:folder=.
share: name:text! --out:folder=.
watch: --url:text! --seconds:0.2~3600=30 --metrics:text+ key setting
serve: --port:0..65535=8765 --host:text=127.0.0.1 --allow-host:text+ --open
page: --out:folder! --hw>hardware:text+ --model:text+ --quant:text+
predict: --rows:old-file! --out:file!
train: --check --quick --out:file|folder
evaluate: --out:file|folder --fast
data add: runs:old-file! --acceptance:old-file|folder --sources:old-file|folder
  --into:file|folder
data check: path:old-file|folder
bench plan: question --out:folder=ab --seeds:1..20=2 --turns:1..100 --rate:0.0001~100000
bench run: folder:folder --url:text --arm:off|on --k:0..128 --model:text --hw:text
  --concurrency:1..10000=4 --ctx:1..10000000=1024 --output-tokens:1..1000000=256
  --requests:1..1000000 --seeds:1..20=2 --warmup:0..1000=2 --workload:{WORKLOADS}=mixed
  --prompts:old-file --stall:0.1~3600=60 --check-quality --metrics:text+ key
"""
ROWS = dict(line.split(": ", 1) for line in re.sub(r"\n +", " ", COMMANDS).strip().splitlines())


SAMPLES = {"gb10": "hardware", "qwen3-8b": "model", "fp8": "quant", "sglang": "engine",
           "SD201": "rule"}  # fmt: skip


def kind_of(kind: Any) -> str:
    """What an option takes, as the table has it."""
    if isinstance(kind, click.Choice):
        return "|".join(kind.choices)
    if isinstance(kind, Number):
        return f"{kind.low}..{kind.high}" if kind.whole else f"{kind.low:g}~{kind.high:g}"
    if isinstance(kind, click.FloatRange | click.IntRange):
        return f"{kind.min}{'~' if isinstance(kind, click.FloatRange) else '..'}{kind.max}"
    if isinstance(kind, click.Path):
        places = "|".join(["file"] * kind.file_okay + ["folder"] * kind.dir_okay)
        return "old-" * kind.exists + places
    return str(kind.name)


def option_text(param: click.Parameter, command: click.Command) -> str:
    """An option or argument as the table has it."""
    flags = [word.lstrip("-") for word in param.opts]
    text = "/".join([*param.opts, *param.secondary_opts])
    if param.name in Request.model_fields.keys() - {word.replace("-", "_") for word in flags}:
        text += f">{param.name}"  # the field of a question that it is
    text += f":{kind_of(param.type)}" * (param.type.name != "boolean")
    text += "!" * param.required + "+" * (param.nargs == -1 or getattr(param, "multiple", False))
    offered = {one.value for one in param.shell_complete(click.Context(command), "")}
    text += "".join(f":{kind}" for name, kind in SAMPLES.items() if name in offered)
    default = param.to_info_dict()["default"]
    value = default[0] if isinstance(default, tuple | list) else default
    return text if value is None or value is False else f"{text}={value}"


def test_each_command_takes_what_the_table_says() -> None:
    listed = {name: command for name, command in commands(cli)
              if command.params and not isinstance(command, click.Group)}  # fmt: skip
    assert listed.keys() == ROWS.keys()
    for name, command in listed.items():
        wanted = [part for word in ROWS[name].split() for part in PARTS.get(word, word).split()]
        assert sorted(option_text(x, command) for x in command.params) == sorted(wanted), name


def test_tokens_and_choices_are_read_as_people_write_them() -> None:
    words = "--ctx 2k --output-tokens 1K --goal TPOT --acceptance 0.8,0.5 --method EAGLE3"
    made = dict(commands(cli))["recommend"].make_context("recommend", words.split()).params
    given = {"ctx_tokens": 2048, "output_tokens": 1024, "goal": "tpot", "method": "eagle3",
             "acceptance": (0.8, 0.5)}  # fmt: skip
    assert {name: made[name] for name in given} == given


def test_each_help_is_a_sentence_with_its_default() -> None:
    """From a capital, or a choice's name, to a full stop, the default or the last word."""
    helps = {(one.help or "").strip() for _, command in commands(cli) for one in command.params
             if isinstance(one, click.Option)}  # fmt: skip
    helps |= {(command.help or "").strip() for _, command in commands(cli)}
    sentence = re.compile(r"(?:[A-Z]|vllm|chat)[^\f]*[a-z][^\f]*(?:[.\w)]|  \[default: [^\]]+\])")
    assert {text for text in helps if not sentence.fullmatch(text) or "XX" in text} == {""}
