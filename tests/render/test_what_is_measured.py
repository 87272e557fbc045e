"""What an A/B is to send, and what of it is shared: by_hand.yaml has both, computed by hand."""

import json
import math
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import advice_cases as cases
import jsonschema

from advisor.advice.own_runs.ab_test import ComparedGain, LoadVerdict
from advisor.advice.own_runs.machine import MachineRun, MetricGain
from advisor.advice.own_runs.receipt import Receipt
from advisor.readers.results.run import BenchmarkRun, Latency
from advisor.render.bench_script import bench_plan, bench_script, prompt_files
from advisor.render.receipt import receipt_html, receipt_schema, rows_of, source_of
from tests.tables import fields, load_yaml

TEXTS = load_yaml(Path(__file__).with_name("by_hand.yaml"))


def test_both_arms_run_what_the_answer_is_about() -> None:
    plan = bench_plan(cases.measure())
    assert (
        plan.model_dump(exclude={"arms", "output_spread"}, exclude_defaults=True) == TEXTS["plan"]
    )
    off, on = (arm.model_dump(exclude={"argv"}, exclude_defaults=True) for arm in plan.arms)
    assert (off, on) == ({"name": "off"}, {"name": "on", "method": "mtp", "k": 2})
    counts = {name: text.count("\n") for name, text in prompt_files(plan).items()}
    assert counts == {f"prompts-seed{seed}.jsonl": n for seed, n in ((0, 16), (1, 64), (2, 64))}


def test_two_requests_for_each_in_flight_warm_a_server_up() -> None:
    assert bench_plan(cases.measure().replace(facts=cases.FACTS.replace(concurrency=3))).warmup == 6


def test_the_script_starts_warms_and_measures_each_arm() -> None:
    advice, script, bash = cases.measure(), TEXTS["script"], "#!/usr/bin/env bash\n"
    plan = bench_plan(advice, seeds=(5,), rate=2.5)
    text = bench_script(advice, plan, own_text=True)
    assert text.startswith(f"{bash}{script['head']}") and text.endswith(script["arms"])
    four = advice.replace(request=advice.request.replace(gpus=4, tp=4))
    assert bench_script(four, plan).endswith(" --gpus 4 --tp 4'\n")
    turns = plan.model_copy(update={"turns": 2})
    assert bench_script(advice, turns).startswith(f"{bash}{script['random']}")


def test_another_server_at_the_address_stops_the_script(tmp_path: Path) -> None:
    script = bench_script(cases.measure(), bench_plan(cases.measure()))
    for name, text in (("curl", "exit 0\n"), ("vllm", "touch started\n"), ("run.sh", script)):
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.defpath}"}
    done = subprocess.run(
        ["bash", "run.sh"], cwd=tmp_path, env=env, capture_output=True, check=False
    )
    assert done.returncode == 1 and b"another server answers at http" in done.stderr
    assert not (tmp_path / "started").exists()


RUN = MachineRun(
    **fields("date=2026-11-20 model=m quant=fp8 engine=vllm method=mtp k=2 tp=1 concurrency=16 "
             "input_tokens=2047.6 output_tokens=511.6 workload=chat accepted_length=2.4"),
    plan={"max_num_seqs": 32, "prefix_caching": True}, inputs_sha256=("ab" * 32,),
    gains={name: MetricGain(log=math.log(1.25), sd=0.01) for name in ("output_tok_s", "tpot")},
    baseline={"output_tok_s": 2000.0, "tpot": 20.0, "ttft": 300.0},
    accepted_by_position=(0.8, 0.6),
)  # fmt: skip
PLAIN = MachineRun(date="2026-11-21", model="m", engine="vllm", baseline={"tpot": 20.0})
ARM = BenchmarkRun(file="off 1", format="f", requests=64, output_tok_s=2000.0,
                   ttft_ms=Latency(mean=300.0, p50=290.0))  # fmt: skip
RECEIPT = Receipt(hardware="gb10", gpus=2, runs=(RUN, PLAIN), off=(ARM,),
                  power={"off": fields("watts=500 limit_w=None card=C driver=D")})  # fmt: skip


def by_hand(name: str) -> Any:
    """A text or table, with the receipt's own id and checksum."""
    own = json.dumps(TEXTS[name]).replace('"ID', f'"{RECEIPT.id}')
    return json.loads(own.replace('SHA"', f'{"ab" * 32}"'))


def test_a_page_of_a_receipt_has_each_figure_with_its_name() -> None:
    page = receipt_html(RECEIPT)
    cells = [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in page.split("</tr>")]
    assert [row for row in cells if row] == by_hand("receipt")
    heads = [f"Receipt {RECEIPT.id}: runs", "Run 1", "Run 2", "Off and on"]
    assert re.findall(r"<h[12]>(.*?)</h[12]>", page) == heads
    gains = LoadVerdict(load="16 at once", gains=(ComparedGain(
        metric="tpot", off=20.0, on=16.0, gain=1.25, low=1.1, high=1.4, noise="n",
        verdict="faster"),))  # fmt: skip
    told = receipt_html(RECEIPT.model_copy(update={"loads": (gains,)})).partition("Gains")[2]
    assert re.findall(r"<t[dh]>(.*?)</t[dh]>", told)[:14] == [
        "load", "metric", "off", "on", "gain", "95 % interval", "verdict",
        "16 at once", "tpot", "20.00", "16.00", "1.25x", "1.10 to 1.40", "faster",
    ]  # fmt: skip
    assert "<p>Times in ms.</p>" in page and "class=" not in page.partition("</head>")[2]


def test_rows_of_a_receipt_hold_both_sides_of_each_gain() -> None:
    wanted = [{name: str(value) for name, value in row.items()} for row in by_hand("rows")]
    assert ([*rows_of(RECEIPT)], source_of(RECEIPT)) == (wanted, by_hand("source"))
    assert source_of(RECEIPT.model_copy(update={"source": "table"}))["address"] == "a public table"


def test_a_receipt_names_the_schema_that_describes_it() -> None:
    schema = receipt_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert (schema["$id"], schema["title"]) == ("advisor/receipt/1", "advisor receipt") and not (
        {"name", "version"} & schema["properties"].keys()
    )
