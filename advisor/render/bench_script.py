"""The A/B of an advice: a plan to run, and a script for the engine's own benchmark."""

from functools import partial
from typing import Any

from advisor.advice.resolve import as_options
from advisor.domain.nouns import Advice, AdvisorError, LaunchText, Request
from advisor.domain.shell import shell_word, shell_words
from advisor.engines import benchmarks
from advisor.engines.traits import traits
from advisor.engines.writer import write_file
from advisor.lab.bench_plan import (
    MAX_PROMPTS_BYTES,
    Arm,
    BenchPlan,
    answer_lengths,
    make_prompts,
    usual_spread,
)

BYTES_PER_TOKEN = 6  # of the built-in prompts, at most
# what a benchmark has no use for, with the words that each takes
_READS_ANSWERS = {"--reasoning-parser": 2, "--tool-call-parser": 2, "--enable-auto-tool-choice": 1}
# what `advisor ab` takes of a question, beside what the script states
OF_AB = ("gpus", "tp", "quant", "engine", "engine_version", "method", "goal")
WARM = 2  # warm-up requests for each request in flight


def bench_plan(advice: Advice, seeds: tuple[int, ...] = (1, 2), **load: Any) -> BenchPlan:
    """Both arms at the advice's load; `load`: turns, rate. Raises AdvisorError without drafts."""
    if advice.candidate is None or advice.launch_on is None:
        raise AdvisorError("there is nothing to compare: no way to draft is known for this setting")
    facts, plan = advice.facts, advice.plan
    port = plan.port or traits(plan.engine).default_port
    concurrency, spread = facts.concurrency or 1, facts.output_spread
    return BenchPlan(
        hardware=advice.request.hardware,
        model=facts.model.id if facts.model else advice.request.model,
        quant=facts.quant.id if facts.quant else None,
        engine=plan.engine,
        engine_version=plan.engine_version,
        url=f"http://127.0.0.1:{port}",
        health="/health",
        concurrency=concurrency,
        input_tokens=facts.ctx_tokens or 2048,
        output_tokens=facts.output_tokens or 512,
        output_spread=usual_spread(facts.workload) if spread is None else spread,
        workload=facts.workload or "mixed",
        requests=benchmarks.requests(concurrency),
        warmup=min(WARM * concurrency, 16),
        seeds=seeds,
        temperature=advice.request.temperature,
        prefix_share=facts.prefix_share or 0,
        max_ttft_ms=advice.request.max_ttft_ms,
        max_tpot_ms=advice.request.max_tpot_ms,
        **load,
        arms=(
            _arm("off", plan.engine, advice.launch_off),
            _arm("on", plan.engine, advice.launch_on, advice.candidate.method, advice.candidate.k),
        ),
    )


def _arm(name: str, engine: str, launch: LaunchText, method: str = "none", k: int = 0) -> Arm:
    """The launch, with the counters that tell what was accepted, and without what reads answers."""
    flag, argv = benchmarks.METRICS_FLAG.get(engine), list(launch.argv)
    for option, words in _READS_ANSWERS.items():
        if option in argv:
            place = argv.index(option)
            del argv[place : place + words]
    if flag and flag not in argv:
        argv.append(flag)
    about = {"env": dict(launch.env), "files": dict(launch.files), "method": method, "k": k}
    return Arm.model_validate({"name": name, "argv": argv, **about})


def prompt_files(plan: BenchPlan) -> dict[str, str]:
    """Prompts of the warm-up and each seed by file name; none if random or too large."""
    size = plan.requests * plan.input_tokens * len(plan.seeds) * BYTES_PER_TOKEN
    if plan.workload == "random" or size > MAX_PROMPTS_BYTES:
        return {}
    counts = {0: max(plan.warmup, 1)} | dict.fromkeys(plan.seeds, plan.requests)
    return {
        _prompts_of(seed): "".join(
            f"{benchmarks.prompt_line(plan.engine, text, length)}\n"
            for text, length in zip(
                make_prompts(
                    count, plan.input_tokens, plan.workload, seed, prefix_share=plan.prefix_share
                ),
                answer_lengths(plan, count, seed),
                strict=True,
            )
        )
        for seed, count in counts.items()
    }


def _prompts_of(seed: int) -> str:
    return f"prompts-seed{seed}.jsonl"


def bench_script(advice: Advice, plan: BenchPlan, own_text: bool = False) -> str:
    """A bash script: each arm started, warmed up, measured for each seed; counters and versions are
    kept, for `advisor ab`. With `own_text` it sends the `prompt_files` beside it, else random ones.
    """
    word = plan.workload if own_text else "random"
    text = (
        f"{word} prompts of the files prompts-seedN.jsonl"
        if own_text
        else "random prompts, which draft unlike text: accepted length and gain are those of noise"
    )
    lines = [
        "#!/usr/bin/env bash",
        f"# Sends {text}.",
        *(["# Conversations of several turns: `advisor bench run` only."] * (plan.turns > 1)),
        "# Made by `advisor bench plan`. First the run without speculation; the engine's own "
        "benchmark; about",
        f"# {plan.requests} requests of {plan.input_tokens} prompt and {plan.output_tokens} "
        "output tokens, "
        f"{plan.concurrency} at a time, for each seed.",
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        f"url={shell_word(plan.url)}",
        "server=",
        'stop() { if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" '
        "2>/dev/null || true; fi; server=; }",
        "trap stop EXIT",
        "ready() {",
        "  for _ in $(seq 1800); do",
        f'    curl -fsS "$url{plan.health}" > /dev/null 2>&1 && return 0',
        '    kill -0 "$server" 2>/dev/null || { echo "the server stopped: see server-$1.log" >&2; '
        "return 1; }",
        "    sleep 1",
        "  done",
        '  echo "the server was not ready within 30 minutes" >&2; return 1',
        "}",
        'record() { curl -fsS "$url/metrics" > "$1" 2>/dev/null || rm -f "$1"; }',
        "{ date -u; nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null "
        "|| true; } > versions.txt",
    ]
    for arm in plan.arms:
        lines += _arm_lines(advice, plan, arm, word, own_text)
    first, *more = plan.seeds
    command = f"advisor ab off-seed{first}.json on-seed{first}.json"
    command += "".join(f" --off off-seed{seed}.json --on on-seed{seed}.json" for seed in more)
    question = (
        f" --hw {shell_word(plan.hardware)} --model {shell_word(plan.model)} --k {plan.arms[-1].k}"
        f" --workload {word}"
    )
    asked: dict[str, Any] = {name: getattr(advice.request, name) for name in OF_AB}
    options = as_options(Request(hardware=plan.hardware, **asked))[2:]  # behind --hw
    lines += ["", f"echo {shell_word(' '.join(('next: ' + command + question, *options)))}"]
    return "\n".join(lines) + "\n"


def _arm_lines(advice: Advice, plan: BenchPlan, arm: Arm, word: str, own_text: bool) -> list[str]:
    env = "".join(f"{name}={shell_word(value)} " for name, value in arm.env.items())
    noun = advice.plan if arm.name == "off" or advice.candidate is None else advice.candidate
    lines = [
        "",
        f"# ---- speculation {arm.name}",
        f'curl -fsS "$url{plan.health}" > /dev/null 2>&1 && {{ echo "another server answers at '
        '$url: stop it first" >&2; exit 1; }',
        *(write_file(name, text) for name, text in arm.files.items()),
        f"{env}{shell_words(arm.argv)} > server-{arm.name}.log 2>&1 &",
        "server=$!",
        f"ready {arm.name}",
        'curl -fsS "$url/version" >> versions.txt 2>/dev/null || true',
    ]
    data = _prompts_of(0) if own_text else None
    asked = partial(benchmarks.command, noun, advice.facts, temperature=plan.temperature)
    warm = asked(prompts=max(plan.warmup, 1), seed=0, data=data)
    lines.append(f"{warm} > /dev/null")
    for seed in plan.seeds:
        name = f"{arm.name}-seed{seed}"
        made = asked(
            seed=seed, result=f"{name}.json", k=arm.k, method=arm.method,
            data=_prompts_of(seed) if own_text else None, workload=word, rate=plan.rate,
        )  # fmt: skip
        lines += [f"record metrics-{name}-before.prom", made, f"record metrics-{name}-after.prom"]
    return [*lines, "stop"]
