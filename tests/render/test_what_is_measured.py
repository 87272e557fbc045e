"""What an A/B is to send, and what of it is shared, by hand from a hand-made answer and receipt."""

import math
import re
from typing import Any

import advice_cases as cases
import jsonschema

from advisor.advice.own_runs.machine import MachineRun, MetricGain
from advisor.advice.own_runs.receipt import Receipt
from advisor.readers.results.run import BenchmarkRun, Latency
from advisor.render.bench_script import bench_plan, bench_script, prompt_files
from advisor.render.receipt import receipt_html, receipt_schema, rows_of, source_of
from tests.tables import fields

ENGINE = (
    f"vllm serve {cases.REPOSITORY} --max-model-len 4096 --max-num-seqs 32 "
    "--max-num-batched-tokens 8192 --gpu-memory-utilization 0.85 --no-enable-prefix-caching"
)
DRAFTS = ENGINE + """ --speculative-config '{"method":"mtp","num_speculative_tokens":2}'"""
CLIENT = (
    "vllm bench serve --backend openai-chat --endpoint /v1/chat/completions "
    f"--base-url http://127.0.0.1:8000 --model {cases.REPOSITORY} --dataset-name custom "
    "--dataset-path prompts-seed{}.jsonl --custom-output-len -1 --skip-chat-template"
)


def test_both_arms_run_what_the_answer_is_about() -> None:
    """16 users: four times as many requests for each seed, and 16 to warm up."""
    plan = bench_plan(cases.measure())
    off, on = (arm.model_dump(exclude_defaults=True) for arm in plan.arms)
    assert off | {"argv": " ".join(off["argv"])} == {"name": "off", "argv": ENGINE}
    assert (on["name"], on["method"], on["k"]) == ("on", "mtp", 2)
    assert plan.model_dump(exclude={"arms", "output_spread"}, exclude_defaults=True) == {
        **fields("hardware=gb10 model=qwen3.6-35b-a3b quant=fp8 engine=vllm engine_version=0.33.0 "
                 "url=http://127.0.0.1:8000 concurrency=16 input_tokens=2048 output_tokens=512 "
                 "requests=64 warmup=16"),
    }  # fmt: skip
    files = prompt_files(plan)
    counts = {name: text.count("\n") for name, text in files.items()}
    assert counts == {f"prompts-seed{seed}.jsonl": n for seed, n in ((0, 16), (1, 64), (2, 64))}
    assert prompt_files(plan.model_copy(update={"workload": "random"})) == {}


def test_the_script_starts_warms_and_measures_each_arm() -> None:
    plan = bench_plan(cases.measure(), seeds=(5,), rate=2.5)
    lines = bench_script(cases.measure(), plan, own_text=True).splitlines()
    assert lines[1:5] == [
        "# Sends mixed prompts of the files prompts-seedN.jsonl.",
        "# Made by `advisor bench plan`. First the run without speculation; the engine's own "
        "benchmark; about",
        "# 64 requests of 2048 prompt and 512 output tokens, 16 at a time, for each seed.",
        "set -euo pipefail",
    ]  # fmt: skip
    made: list[str] = []
    for arm, launch, method, k in (("off", ENGINE, "none", 0), ("on", DRAFTS, "mtp", 2)):
        name = f"{arm}-seed5"
        made += [
            "", f"# ---- speculation {arm}", f"{launch} > server-{arm}.log 2>&1 &", "server=$!",
            f"ready {arm}", 'curl -fsS "$url/version" >> versions.txt 2>/dev/null || true',
            CLIENT.format(0) + " --num-prompts 16 --max-concurrency 16 --seed 0 --ignore-eos "
            "> /dev/null",
            f"record metrics-{name}-before.prom",
            CLIENT.format(5) + " --num-prompts 64 --request-rate 2.5 --seed 5 --ignore-eos "
            f"--save-result --save-detailed --result-filename {name}.json --metadata seed=5 "
            f"method={method} dataset_name=mixed k={k}",
            f"record metrics-{name}-after.prom", "stop",
        ]  # fmt: skip
    assert lines[-len(made) - 2 : -2] == made
    assert lines[-2:] == ["", "echo 'next: advisor ab off-seed5.json on-seed5.json --hw gb10 "
                          "--model qwen3.6-35b-a3b --k 2 --workload mixed'"]  # fmt: skip
    random = bench_script(cases.measure(), plan.model_copy(update={"turns": 2}))
    assert random.splitlines()[1:3] == [
        "# Sends random prompts, which draft unlike text: accepted length and gain are those of "
        "noise.",
        "# Conversations of several turns: `advisor bench run` only.",
    ]


SHA = "ab" * 32
RUN = MachineRun(
    **fields("date=2026-11-20 model=m quant=fp8 engine=vllm method=mtp k=2 tp=1 concurrency=16 "
             "input_tokens=2047.6 output_tokens=511.6 workload=chat accepted_length=2.4"),
    plan={"max_num_seqs": 32, "prefix_caching": True}, inputs_sha256=(SHA,),
    gains={name: MetricGain(log=math.log(1.25), sd=0.01) for name in ("output_tok_s", "tpot")},
    baseline={"output_tok_s": 2000.0, "tpot": 20.0, "ttft": 300.0},
    accepted_by_position=(0.8, 0.6),
)  # fmt: skip
PLAIN = MachineRun(date="2026-11-21", model="m", engine="vllm", baseline={"tpot": 20.0})
ARM = BenchmarkRun(file="off 1", format="f", requests=64, output_tok_s=2000.0,
                   ttft_ms=Latency(mean=300.0, p50=290.0))  # fmt: skip
RECEIPT = Receipt(hardware="gb10", gpus=2, runs=(RUN, PLAIN), off=(ARM,),
                  power={"off": fields("watts=500 limit_w=None card=C driver=D")})  # fmt: skip


def cells(page: str) -> list[list[str]]:
    """The rows of all tables of a page."""
    rows = re.findall(r"<tr>(.*?)</tr>", page)
    return [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in rows]


def test_a_page_of_a_receipt_has_each_figure_with_its_name() -> None:
    """500 W at 2,000 tok/s are 0.25 J a token."""
    page = receipt_html(RECEIPT)
    no = "not known"
    assert cells(page) == [
        ["hardware", "2 x gb10"], ["edited since it was measured", "no"],
        ["off: watts", "500"], ["off: limit_w", no],
        ["off: card", "C"], ["off: driver", "D"],
        ["date", "2026-11-20"], ["model", "m"], ["quant", "fp8"], ["engine", "vllm"],
        ["engine version", no], ["method", "mtp"], ["k", "2"], ["tp", "1"], ["concurrency", "16"],
        ["input tokens", "2047.6"], ["output tokens", "511.6"], ["workload", "chat"],
        ["temperature", no], ["plan: max num seqs", "32"], ["plan: prefix caching", "True"],
        ["tokens per step", "2.4"], ["accepted by position", "80.0%, 60.0%"],
        ["SHA-256 of the files", SHA],
        ["date", "2026-11-21"], ["model", "m"], ["quant", no], ["engine", "vllm"],
        ["engine version", no], ["method", "none"], ["k", "0"], ["tp", no], ["concurrency", "1"],
        ["input tokens", no], ["output tokens", no], ["workload", no], ["temperature", no],
        ["tokens per step", no], ["accepted by position", no], ["SHA-256 of the files", no],
        ["", "requests", "failed", "output tok/s", "TTFT mean", "P50", "P90", "P99", "TPOT mean",
         "P50", "P90", "P99", "ITL mean", "P50", "P90", "P99", "J a token"],
        ["off", "64", no, "2,000", "300.0", "290.0", *"-" * 10, "0.25"],
    ]  # fmt: skip
    assert re.findall(r"<h[12]>(.*?)</h[12]>", page) == [
        f"Receipt {RECEIPT.id}: runs", "Run 1", "Run 2", "Off and on",
    ]  # fmt: skip
    assert "<p>Times in ms.</p>" in page and "class=" not in page.partition("</head>")[2]


def test_rows_of_a_receipt_hold_both_sides_of_each_gain() -> None:
    """1.25 times 2,000 tok/s, and 20 ms over 1.25."""
    own = RECEIPT.id
    both = fields(f"source_id={own} hardware=gb10 gpu_count=2 use=eval tp=1 model=m engine=vllm")
    both |= {"use_why": "a user's own A/B, sent for review"}
    first = both | fields(f"group_id={own}-1 concurrency=16 input_tokens=2048 output_tokens=512 "
                          "workload=chat quant=fp8 max_num_seqs=32 prefix_caching=1")  # fmt: skip
    first |= {"notes": "measured 2026-11-20"}
    wanted: list[dict[str, Any]] = [
        first | fields(f"run_id={own}-1-off spec_method=none output_tok_s=2000 tpot_ms=20 ttft_ms=300"),
        first | fields(f"run_id={own}-1-on spec_method=mtp k=2 acceptance_length=2.4 "
                       "output_tok_s=2500 tpot_ms=16"),
        {k: v for k, v in both.items() if k != "tp"}
        | fields(f"run_id={own}-2-off group_id={own}-2 spec_method=none concurrency=1 tpot_ms=20")
        | {"notes": "measured 2026-11-21"},
    ]  # fmt: skip
    assert [*rows_of(RECEIPT)] == [{k: str(v) for k, v in row.items()} for row in wanted]
    source = source_of(RECEIPT)
    assert source == fields(f"id={own} kind=own reliability=medium") | {
        "title": "runs of a gb10", "address": "sent by its owner", "date": "2026-11-21",
        "holds": "2 settings", "how": "advisor receipt", "inputs_sha256": [SHA],
        "caveats": "figures with speculation follow from the baseline and the measured gain",
    }  # fmt: skip
    table = RECEIPT.model_copy(update={"source": "table"})
    assert source_of(table)["address"] == "a public table"


def test_a_receipt_names_the_schema_that_describes_it() -> None:
    schema = receipt_schema()
    assert (schema["$id"], schema["title"]) == ("advisor/receipt/1", "advisor receipt")
    assert not {"name", "version"} & schema["properties"].keys()
    jsonschema.Draft202012Validator.check_schema(schema)
