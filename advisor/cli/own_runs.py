"""`advisor results`, `ab`, `calibrate` and `watch`: own benchmark files and servers."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

import click

from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs import setting as settings
from advisor.advice.own_runs.ab_test import judge_ab
from advisor.advice.own_runs.calibration import add_runs
from advisor.advice.own_runs.watching import advise, observe
from advisor.cli.base import HELP, form_option, option, path_type, say, with_options
from advisor.cli.options import QUESTION, click_options, setting_options
from advisor.cli.recommend import page_width
from advisor.cli.server_key import key_option, metrics_option
from advisor.domain.nouns import AdvisorError
from advisor.lab.bench_plan import with_plan
from advisor.readers import server as client
from advisor.readers.results import arms
from advisor.readers.results.formats import read_all
from advisor.readers.results.run import BenchmarkRun
from advisor.render import own_runs as text_of_runs
from advisor.render.objects import text_of

FILE = path_type("file", exists=True, allow_dash=True)
_LAUNCH = "Launch of the benchmark: compose.yml, a script, a unit, a folder of 'bench plan'."
write = partial(say, end="")  # never coloured: a colour in it is the file's or the server's
more_runs = with_options(
    option("off more_off", "Another run without speculation.", FILE, multiple=True),
    option("on more_on", "Another run with speculation.", FILE, multiple=True),
    option("launch", _LAUNCH, path_type(exists=True)),
)


@click.command(context_settings=HELP)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@form_option("text", "json")
def results(files: tuple[Path, ...], form: str) -> None:
    """Show what benchmark files contain.

    Engine, k, load, TTFT, TPOT, ITL, output tok/s and acceptance by position, as far as they are
    stated. The format is detected from the content: vllm bench, sglang.benchmark.serving,
    llama-bench, GuideLLM, evalscope, AIPerf, llama-benchy, a server's /metrics, log lines of the
    engines, and more. The others are shown where a file cannot be read; the exit status is then 2.
    """
    runs: list[BenchmarkRun] = []
    errors: list[AdvisorError] = []
    for path in files:
        try:
            runs += read_all([path])
        except AdvisorError as error:
            errors.append(error)
    if runs:
        text = text_of_runs.runs_text(runs, page_width())
        write(text_of(text_of_runs.runs_json(runs)) if form == "json" else text)
    for problem in errors:
        say(f"Error: {problem}", err=True)
    if errors:
        click.get_current_context().exit(2)


@click.command(context_settings=HELP)
@click.argument("off", type=FILE)
@click.argument("on", type=FILE, required=False)
@more_runs
@setting_options
@click_options({"goal": QUESTION["goal"]}, defaults=False)
@form_option("text", "json")
def ab(
    off: Path,
    on: Path | None,
    more_off: tuple[Path, ...],
    more_on: tuple[Path, ...],
    launch: Path | None,
    form: str,
    **asked: Any,
) -> None:
    """Evaluate an A/B benchmark: OFF is the run without speculation, ON the one with it.

    One file that holds both (a table, a sweep) is enough; --k chooses among its draft lengths.
    Prints the gains with their noise, whether the runs are comparable, acceptance and step time
    against the expected values, and what to try next. The verdict is by the metric of --goal; of a
    load that was offered at a fixed rate by TPOT. Exit status: 1 if the runs are not comparable or
    measured nothing, 2 if a file cannot be read.
    """
    left = read_all((off, *more_off))
    right = read_all((*([on] if on else []), *more_on))
    if not right:
        left, by_k = arms.both_in_one(left)
        right = _one_length(by_k, asked["k"])
    plan, asked = settings.plan_of_launch(launch) if launch else None, with_plan(asked, launch)
    report = judge_ab(left, right, settings.setting(left, right, asked, plan))
    text = text_of_runs.ab_text(report, page_width())
    write(text_of(text_of_runs.ab_json(report)) if form == "json" else text)
    if report.verdict == "not comparable":
        click.get_current_context().exit(1)


def _one_length(by_k: Mapping[int | None, list[BenchmarkRun]], k: int | None) -> list[BenchmarkRun]:
    """The runs of one draft length. Raises AdvisorError where there are several to choose from."""
    known = sorted(one for one in by_k if one is not None)
    if k is None and len(by_k) > 1:
        names = ", ".join(f"k={one}" for one in known)
        raise AdvisorError(f"the file holds several draft lengths ({names}): choose one with --k")
    found = by_k.get(k) if k in by_k else by_k.get(None) if k else next(iter(by_k.values()))
    if found is None:
        raise AdvisorError(f"the file holds no run with k={k}, but " + ", ".join(map(str, known)))
    return found


@click.command(context_settings=HELP)
@option("url", "The server, http://HOST:PORT.", required=True)
@option("seconds", "Observation time, s.", click.FloatRange(0.2, 3600), default=30)
@metrics_option
@key_option
@setting_options
def watch(
    url: str, seconds: float, metrics: tuple[str, ...], api_key: str | None, **asked: Any
) -> None:
    """Observe a running server and recommend speculation on, off or another k.

    Reads /metrics twice, /v1/models and /props; sends nothing else. Load, lengths, acceptance
    and KV use are those between the two readings. With --hw the current traffic is compared with a
    prediction.
    """
    server = client.describe(client.checked_url(url), api_key)
    before, start = client.counters(server.url, api_key, metrics), time.monotonic()
    time.sleep(seconds)
    after = client.counters(server.url, api_key, metrics)
    seen = observe(server, before, after, time.monotonic() - start)
    write(text_of_runs.watch_text(seen, advise(seen, asked), page_width()))


@click.command(context_settings=HELP)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="OFF [ON] [METRICS]")
@more_runs
@option("name", "The machine's name.", default="own")
@setting_options
def calibrate(
    files: tuple[Path, ...],
    more_off: tuple[Path, ...],
    more_on: tuple[Path, ...],
    launch: Path | None,
    name: str,
    **asked: Any,
) -> None:
    """Add your runs to a private machine file for `advisor recommend --machine NAME`.

    OFF is the run without speculation, ON the one with it; a server's /metrics after the run adds
    the acceptance. One file that holds both (a table, a sweep) adds every draft length in it. The
    machine file holds a few numbers, versions, dates and hashes of the inputs: no prompts, no host
    names.
    """
    machines.path_of(name)  # before files are read
    off, on, counters = _arms(files, more_off, more_on)
    plan, asked = settings.plan_of_launch(launch) if launch else None, with_plan(asked, launch)
    lengths: dict[int | None, list[BenchmarkRun]] = {None: on}
    if not on and any(run.speculates for run in off) and not all(run.speculates for run in off):
        off, found = arms.both_in_one(off)
        lengths = found if asked["k"] is None else {asked["k"]: _one_length(found, asked["k"])}
    count, before = 0, ""
    for k, runs in lengths.items():
        added = add_runs(name, off, runs, counters, asked | ({"k": k} if k else {}), plan)
        count += added.runs
        for line in map(text_of_runs.before_line, added.before):
            before += f"{fill(line, page_width())}\n"
    request, path = added.request, machines.path_of(name)
    home = Path("~").expanduser()  # as it is where no home is known
    short = f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)
    write(
        f"{count} run{'s' if count != 1 else ''} added to machine '{name}', "
        f"{len(added.machine.runs)} in total: {short}\n"
    )
    write(before)
    known: dict[str, object] = {
        "engine": request.engine
        and f"{request.engine}@{request.engine_version}".removesuffix("@None"),
        "quant": request.quant,
        "method": request.method,
        "workload": request.workload,
        "output-spread": added.machine.runs[-1].output_spread,
        "ctx": request.ctx_tokens,
        "output-tokens": request.output_tokens,
    }
    load = "".join(
        f" --{name} {word}" for name, word in known.items() if word not in (None, "mtp", "mixed")
    )
    write(
        f"answer again: advisor recommend --machine {name} --model {request.model} --concurrency "
        f"{request.concurrency}{load}\n"
    )


def _arms(
    files: tuple[Path, ...], more_off: tuple[Path, ...], more_on: tuple[Path, ...]
) -> tuple[list[BenchmarkRun], list[BenchmarkRun], list[BenchmarkRun]]:
    """Off, on and counters. Raises AdvisorError for more files than a place is for."""
    counters: list[BenchmarkRun] = []
    rest: list[list[BenchmarkRun]] = []
    for path in files:
        runs = read_all([path])
        if all(run.kind == "counters" for run in runs):
            counters += runs
        else:
            rest.append(runs)
    if not rest or len(rest) > 2:
        raise AdvisorError("give OFF, then ON, and further repeats with --off and --on")
    off = rest[0] + read_all(more_off)
    return off, (rest[1] if len(rest) == 2 else []) + read_all(more_on), counters
