"""Answers frozen before code moves: `python -m tests.oracle.oracle record|compare`.

`record` asks the package's doors (Python and command line, nothing inside) and keeps what they
answer in `answers.json.gz`; `compare` asks again and prints every difference. Numbers may differ by
1e-9 of their size, everything else must be equal. `--only SECTION` takes one section, `--configs
FOLDER` adds the findings on configurations that are not in the repository. Answers that change on
purpose are recorded again, with the reason in the commit.
"""

import argparse
import gzip
import io
import json
import math
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = Path(__file__).with_name("answers.json.gz")
TOLERANCE = 1e-9
METRICS = ("output_tok_s", "tpot_ms", "ttft_ms")
MACHINES = (
    ("gb10", 1), ("gb10", 2), ("rtx3090", 1), ("rtx3090", 2), ("rtx4090", 1), ("rtx4090", 4),
    ("rtx5090", 1), ("rtx3060", 1), ("rtx-pro-6000", 1), ("rtx-pro-6000", 4), ("a100-80gb", 1),
    ("h100-sxm", 1), ("h100-sxm", 8), ("h200", 1), ("h200", 8), ("b200", 8), ("mi300x", 1),
    ("mi300x", 8), ("apple-m1-max", 1), ("apple-m4-max", 1), ("strix-halo", 1), ("l40s", 2),
    ("rx7900xtx", 1), ("v100", 1), ("arc-pro-b60", 2), ("h100-sxm", 32),
)  # fmt: skip
MODELS = (None, None, None, "qwen3.6-27b", "qwen3.8-27b", "qwen3.5-9b", "qwen3-next-80b-a3b",
          "qwen3.5-122b-a10b", "llama-3.3-70b", "gemma-4-31b", "deepseek-v3.1", "gpt-oss-120b",
          "qwen3-8b", "mimo-v2.5")  # fmt: skip
ENGINES = (None, "vllm", "sglang", "llama-server", "vllm@0.25.1", "sglang@0.5.12")
LOADS = ((1, 2048), (1, 32768), (2, 512), (4, 8192), (8, 2048), (16, 2048), (32, 1024), (64, 4096),
         (256, 2048))  # fmt: skip
FORMS = ("flags", "docker-run", "compose", "systemd", "quadlet", "k8s", "helm", "ray")


ENGINE_FORMS = ("helm", "ray")  # vLLM's alone


def questions(count: int = 2000, seed: int = 20261128) -> Iterator[dict[str, Any]]:
    """`count` questions as keywords of `advisor.recommend`, the same every time."""
    draw = random.Random(seed)
    for _ in range(count):
        machine, gpus = draw.choice(MACHINES)
        concurrency, ctx = draw.choice(LOADS)
        engine, _, version = (draw.choice(ENGINES) or "").partition("@")
        asked: dict[str, Any] = {
            "hardware": machine,
            "gpus": gpus,
            "model": draw.choice(MODELS),
            "engine": engine or None,
            "engine_version": version or None,
            "concurrency": concurrency,
            "ctx_tokens": ctx,
            "output_tokens": draw.choice((128, 512, 2048)),
            "goal": draw.choice(("balanced", "throughput", "tpot", "ttft")),
            "workload": draw.choice(("mixed", "chat", "code", "agent", "rag", "random")),
            "method": draw.choice((None, None, None, None, "mtp", "eagle3", "dflash")),
            "prefix_share": draw.choice((None, None, 0.5)),
            "output_spread": draw.choice((None, None, 0.0)),
        }
        if draw.random() < 0.15:
            asked |= {"acceptance_length": round(draw.uniform(1.3, 3.3), 2), "acceptance_k": 3}
        yield {field: value for field, value in asked.items() if value is not None}


def rows(count: int = 5000, seed: int = 20261129) -> Iterator[dict[str, Any]]:
    """`count` rows of `advisor.predict`."""
    draw = random.Random(seed)
    for _ in range(count):
        machine, gpus = draw.choice(MACHINES)
        concurrency, ctx = draw.choice(LOADS)
        row = {
            "model": draw.choice(MODELS) or "qwen3.6-35b-a3b",
            "hardware": machine,
            "gpu_count": draw.choice((str(gpus), "")),
            "engine": draw.choice(("vllm", "sglang", "llamacpp")),
            "engine_version": draw.choice(("", "", "0.25.1", "0.32.0")),
            "spec_method": draw.choice(
                ("mtp", "mtp", "mtp", "eagle3", "dflash", "draft_model", "ngram")
            ),
            "k": str(draw.choice((1, 2, 3, 4, 7, 15))),
            "concurrency": str(concurrency),
            "input_tokens": draw.choice((str(ctx), "")),
            "output_tokens": draw.choice(("256", "1024", "")),
            "quant": draw.choice(("", "fp8", "bf16", "q4_k_m", "nvfp4")),
            "workload": draw.choice(("", "mixed", "chat", "code", "random")),
            "prefix_caching": draw.choice(("", "", "0", "1")),
            "speedup_metric": draw.choice(("output_tok_s", "tpot", "ttft")),
        }  # fmt: skip
        if draw.random() < 0.3:
            row["acceptance_length"] = f"{draw.uniform(1.2, 4.5):.2f}"
        yield row


def _plan(plan: Any) -> list[Any] | None:
    return plan and [plan.engine, plan.method, plan.k, plan.tp, plan.pp, plan.dp]


def _interval(interval: Any) -> list[float] | None:
    return interval and [interval.p10, interval.p50, interval.p90]


def recommendation(asked: dict[str, Any]) -> dict[str, Any]:
    """What one question is answered, or the one-sentence refusal."""
    import advisor
    from advisor.domain.nouns import AdvisorError

    try:
        advice = advisor.recommend(**asked, what_if=False)
    except AdvisorError as error:
        return {"error": str(error)}
    answer: dict[str, Any] = {
        "decision": advice.decision,
        "decided_by": advice.decided_by,
        "plan": _plan(advice.plan),
        "candidate": _plan(advice.candidate),
        "gain": _interval(advice.gain),
        "launch": list(advice.launch.argv),
        "launch_off": list(advice.launch_off.argv),
        "findings": sorted(finding.code for finding in advice.findings),
        "runners_up": [
            [*(_plan(one.plan) or ()), one.estimate and one.estimate.output_tok_s.speedup.p50]
            for one in advice.runners_up
        ],
    }
    if (estimate := advice.estimate) is not None:
        answer["p_gain"] = estimate.p_gain
        answer["accepted"] = _interval(estimate.accepted_length)
        for name in METRICS:
            metric = getattr(estimate, name)
            ranges = [_interval(metric.baseline_range), _interval(metric.value_range)]
            answer[name] = [_interval(metric.speedup), metric.baseline, metric.value, *ranges]
    return answer


def predictions(part: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of `predict`, without what was asked."""
    import advisor

    return [
        {column: value for column, value in answer.items() if column not in asked}
        for asked, answer in zip(part, advisor.predict(part), strict=True)
    ]


def command(words: list[str]) -> list[Any]:
    """Exit status and standard output of one command, run in this process."""
    from advisor.cli.app import cli

    text = io.StringIO()
    status: Any = 0
    try:
        with redirect_stdout(text), redirect_stderr(io.StringIO()):
            cli.main(words, prog_name="advisor", standalone_mode=True)
    except SystemExit as end:
        status = end.code or 0
    except Exception as error:
        status = f"{type(error).__name__}: {error}"
    return [status, text.getvalue()]


def findings(path: str) -> list[Any]:
    """Launches and findings (code, severity, place, fix) of one file, without and with a load."""
    import advisor
    from advisor.domain.nouns import AdvisorError

    answers: list[Any] = []
    for given in ({}, {"hw": "h100", "concurrency": 16, "ctx": 4096}):
        try:
            report = advisor.validate([path], **given)
        except AdvisorError as error:
            answers.append({"error": str(error)})
            continue
        launches = [_plan(checked.plan) for checked in report.launches]
        spoken = [
            [one.code, one.severity, one.line, one.column, fix and [fix.safe, fix.text, [
                [edit.start, edit.end, edit.text] for edit in fix.edits]]]
            for one in report.findings for fix in [one.fix]
        ]  # fmt: skip
        answers.append({"launches": launches, "findings": sorted(spoken, key=repr)})
    return answers


def _files(folder: Path) -> list[str]:
    return sorted(os.path.relpath(path, ROOT) for path in folder.iterdir() if path.is_file())


def _load_json(words: list[str]) -> list[Any]:
    status, text = command(words)
    try:
        return [status, json.loads(text)]
    except ValueError:
        return [status, text]


def sections(configs: Path | None) -> dict[str, tuple[Callable[[Any], Any], list[tuple[str, Any]]]]:
    """Each section's function and what it is asked, by a key that stays."""
    table = list(rows())
    parts = [(f"{at:04}", table[at : at + 500]) for at in range(0, len(table), 500)]
    folders = [ROOT / "tests/corpus", ROOT / "tests/corpus2", *([configs] if configs else [])]
    files = [(path, path) for folder in folders for path in _files(folder)]
    results = [
        (path, ["results", "--format", "json", path])
        for path in _files(ROOT / "tests/readers/results/files")
    ]
    emitted = [
        (" ".join(words), words)
        for number, machine in enumerate(("gb10", "h100", "3090", "mi300x", "m4-max", "l40s"))
        for form in FORMS
        for words in [
            ["recommend", "--hw", machine, "--concurrency", str(4**(number % 4)), "--gpus",
             str(1 + number % 2), "--format", form]
            + (["--engine", "llama-server"] if form not in ENGINE_FORMS and number % 3 == 2 else [])
        ]
    ]  # fmt: skip
    asked = [(json.dumps(question, sort_keys=True), question) for question in questions()]
    return {
        "recommend": (recommendation, asked),
        "predict": (predictions, parts),
        "findings": (findings, files),
        "results": (_load_json, results),
        "forms": (command, emitted),
    }


def ask(configs: Path | None, only: str | None, jobs: int) -> dict[str, dict[str, Any]]:
    """All answers, by section and key."""
    answers: dict[str, dict[str, Any]] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for name, (function, asked) in sections(configs).items():
            if only in (None, name):
                told = pool.map(function, [value for _, value in asked], chunksize=8)
                answers[name] = dict(zip([key for key, _ in asked], told, strict=True))
    return json.loads(json.dumps(answers, default=str))  # type: ignore[no-any-return]


def differences(before: Any, after: Any, place: str = "") -> Iterator[str]:
    """Where two answers differ, as sentences."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{place} {key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{place}[{number}]")
    elif not _alike(before, after):
        yield f"{place}: {before!r:.300} -> {after!r:.300}"


def _alike(before: Any, after: Any) -> bool:
    if isinstance(before, float) and isinstance(after, float | int):
        return math.isclose(before, after, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (
            math.isnan(before) and math.isnan(after)
        )
    return bool(before == after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("record", "compare"))
    parser.add_argument("--only", help="one section")
    parser.add_argument("--configs", type=Path, help="more configurations to judge")
    parser.add_argument("--answers", type=Path, default=ANSWERS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=40, help="differences to print")
    words = parser.parse_args()
    os.chdir(ROOT)  # so that answers name files in the same way everywhere
    home = tempfile.mkdtemp()
    os.environ |= {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home}
    os.environ["ADVISOR_TODAY"] = "2026-11-28"  # no line on old facts
    answers = ask(words.configs, words.only, words.jobs)
    if words.verb == "record":
        if words.only:
            parser.error("record takes every section")
        text = json.dumps(answers, sort_keys=True, separators=(",", ":"))
        words.answers.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(", ".join(f"{len(part)} {name}" for name, part in answers.items()))
        return
    kept = json.loads(gzip.decompress(words.answers.read_bytes()))
    if not words.configs:
        kept["findings"] = {k: v for k, v in kept["findings"].items() if not k.startswith("..")}
    lines = [
        line
        for name, part in answers.items()
        for key in sorted(part.keys() | kept[name].keys())
        for line in differences(kept[name].get(key), part.get(key), f"{name} {key}:")
    ]
    print("\n".join(lines[: words.show]))
    print(f"{len(lines)} differences in {sum(map(len, answers.values()))} answers")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
