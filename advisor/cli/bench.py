"""`advisor bench`: measure step costs on your own GPU."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any, TypeVar

import click

from advisor.advice.own_runs import setting as settings
from advisor.advice.own_runs.ab_test import judge_ab
from advisor.advice.questions import request_from
from advisor.advice.recommend import recommend
from advisor.cli.base import option, path_type, say
from advisor.cli.options import WORKLOADS, Number, Tokens, question_options
from advisor.cli.recommend import page_width
from advisor.cli.server_key import key_option, metrics_option
from advisor.domain.files import read_bytes_safely
from advisor.domain.nouns import AdvisorError
from advisor.domain.shell import shell_word, shell_words
from advisor.lab import ab_run, quality
from advisor.lab import bench_plan as plans
from advisor.lab.load import Progress as ProgressOfLoad
from advisor.lint.validate import validate
from advisor.readers import server as client
from advisor.readers.results import exposition
from advisor.readers.results.formats import read_all
from advisor.render.bench_script import bench_plan, bench_script, prompt_files
from advisor.render.own_runs import ab_text

T = TypeVar("T")


@click.group()
def bench() -> None:
    """Benchmark a machine, to base its predictions on measurements."""


@bench.command("plan")
@question_options
@option("out", "Folder for plan.yaml and run.sh.", path_type("folder"), default=Path("ab"))
@option("seeds", "Repeats of each run.", click.IntRange(1, 20), default=2)
@option("turns", "Requests of one conversation, each with what was said.", click.IntRange(1, 100))
@option(
    "rate",
    "Requests per second, at random times  [default: --concurrency at a time]",
    Number(1e-4, 1e5),
)
def make_plan(out: Path, seeds: int, turns: int | None, rate: float | None, **asked: Any) -> None:
    """Plan an A/B benchmark: baseline first, warm-up, repeats, counters, versions.

    plan.yaml is what `advisor bench run` reads; run.sh does the same with the engine's own
    benchmark. Goodput is that within --max-ttft-ms and --max-tpot-ms.
    """
    advice = recommend(request_from(asked))
    made = bench_plan(advice, tuple(range(1, seeds + 1)), turns=turns or 1, rate=rate)
    prompts = prompt_files(made)
    for path in plans.write(made, bench_script(advice, made, own_text=bool(prompts)), prompts, out):
        say(str(path))
    text = made.workload if prompts else "random"
    folder, script = shell_word(str(out)), shell_word(str(out / "run.sh"))
    say(
        f"next: advisor bench run {folder} ({made.workload} prompts), or {script} with the "
        f"engine's own benchmark ({text} prompts)"
    )


@bench.command("run")
@click.argument("folder", required=False, type=path_type("folder"))
@option("url", "A running server, http://HOST:PORT; --arm says whether it speculates.")
@option("arm", "With --url: on where that server speculates.", ["off", "on"])
@option("k", "With --url: its draft tokens.", click.IntRange(0, 128))
@option("model", "With --url and no plan: the model.")
@option("hw", "With --url and no plan: the hardware.")
@option("concurrency", None, Number(1, 10_000, whole=True), default=4)
@option("ctx", None, Tokens(1, 10_000_000), default=1024)
@option("output-tokens", None, Tokens(1, 1_000_000), default=256)
@option(
    "requests", "Requests per seed  [default: 4 x concurrency, 16]", click.IntRange(1, 1_000_000)
)
@option("seeds", None, click.IntRange(1, 20), default=2)
@option("warmup", None, click.IntRange(0, 1000), default=2)
@option("workload", "Kind of the built-in prompts.", WORKLOADS, default="mixed")
@option("prompts", "Your prompts.", path_type("file", exists=True))
@option(
    "stall", "Abort after this long without a token, s.", click.FloatRange(0.1, 3600), default=60
)
@option("check-quality", "Ask both runs the same greedy tasks: speculation changes none.", bool)
@metrics_option
@key_option
def run_plan(
    folder: Path | None,
    url: str | None,
    arm: str | None,
    prompts: Path | None,
    stall: float,
    check_quality: bool,
    metrics: tuple[str, ...],
    api_key: str | None,
    **load: Any,
) -> None:
    """Run the A/B benchmark of a plan, or measure a running server. Resumes where it was stopped.

    FOLDER holds plan.yaml (`advisor bench plan`) and takes the results. With --url one running
    server is measured into it; the load comes from the plan where there is one, else from the
    options.
    """
    folder = folder or Path("ab")
    how: dict[str, Any] = {"stall_s": stall, "key": api_key, "check_quality": check_quality}
    if url is None:
        made = plans.read(folder)
        files = _with_bar(lambda tell: ab_run.run(made, folder, tell=tell, **how), folder)
    else:
        if arm is None:
            raise click.UsageError("--url needs --arm off or --arm on")
        server = client.describe(client.checked_url(url), api_key)
        _say_replicas(server.url, api_key, metrics)
        there = (folder / plans.PLAN).is_file()
        made = plans.read(folder) if there else _plan_of(server, arm, prompts, folder, load)
        mine = next((a for a in made.arms if a.name == arm), None)
        if mine is None:
            raise AdvisorError(f"{folder / plans.PLAN} has no run '{arm}'")
        if load["k"] is not None and not there:
            mine = mine.model_copy(update={"k": load["k"]})
        measure = partial(ab_run.measure, server.url, made, mine, folder, replicas=metrics, **how)
        files = {arm: _with_bar(lambda tell: measure(tell=tell), folder)}
    for name, paths in files.items():
        say(f"{name}: {' '.join(map(str, paths))}")
    left, right = (plans.results(made, folder, name) for name in ("off", "on"))
    if all(path.is_file() for path in (*left, *right)):
        off, on, asked = read_all(left), read_all(right), plans.options_of(made)
        report = judge_ab(off, on, settings.setting(off, on, asked))
        say("\n" + ab_text(report, page_width()), end="")
        if check := quality.of_folder(folder, _known_defects(made) if check_quality else ()):
            say(fill(check.sentence(), page_width()))
        if report.verdict != "not comparable":
            say(f"to share: advisor receipt {shell_word(str(folder))}")
            say(f"next: {_calibrate_command(left, right, asked)}")
        if check is not None and check.alarm:
            raise click.exceptions.Exit(1)


def _say_replicas(url: str, key: str | None, metrics: tuple[str, ...]) -> None:
    """Which process the counters are of, where it tells; that they are lost where two answer."""
    first, last = (client.counters(url, key, metrics) for _ in "12")
    try:
        if first is not None and last is not None and exposition.between(first, last).replicas:
            say(fill(f"counters of: {', '.join(last.replicas)}", page_width()))
    except AdvisorError as error:
        say(fill(f"no counters: {error} (--metrics)", page_width()), err=True)


def _known_defects(plan: plans.BenchPlan) -> tuple[str, ...]:
    """What is known to go wrong in the launch with speculation and not in the one without."""
    codes: list[dict[str, str]] = []
    load = plan.model_dump(include={"concurrency", "workload", "engine_version"})
    for arm in plan.arms:
        try:
            text = f"{shell_words(arm.argv)}\n"
            seen = validate(text=text, hw=plan.hardware, select=["SD2"], **load)
        except AdvisorError:  # a server that was running already
            return ()
        codes.append({one.code: one.slug for one in seen.findings})
    return tuple(f"{code} {slug}" for code, slug in codes[-1].items() if code not in codes[0])


def _calibrate_command(left: list[Path], right: list[Path], asked: dict[str, Any]) -> str:
    """The command that keeps these runs for later answers."""
    words = ["advisor", "calibrate", str(left[0]), str(right[0])]
    for flag, paths in (("--off", left[1:]), ("--on", right[1:])):
        words += [word for path in paths for word in (flag, str(path))]
    for flag, name in (("--hw", "hardware"), ("--model", "model"), ("--quant", "quant")):
        if asked.get(name):
            words += [flag, str(asked[name])]
    return shell_words([*words, *(["--k", str(asked["k"])] if asked["k"] else []), "--name", "own"])


def _plan_of(
    server: client.ServerInfo, arm: str, prompts: Path | None, folder: Path, load: dict[str, Any]
) -> plans.BenchPlan:
    """A plan from options, for a server that is up; kept only as headers of the results."""
    if prompts is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / prompts.name).write_bytes(read_bytes_safely(prompts, plans.MAX_PROMPTS_BYTES))
    k = load["k"] if load["k"] is not None else (server.k or 0 if arm == "on" else 0)
    method = "mtp" if arm == "on" else "none"
    return plans.BenchPlan.model_validate(
        {
            "hardware": load["hw"] or "unknown",
            "model": load["model"] or server.model or "unknown",
            "engine": server.engine or "vllm",
            "engine_version": server.version,
            "url": server.url,
            "concurrency": load["concurrency"],
            "input_tokens": load["ctx"],
            "output_tokens": load["output_tokens"],
            "output_spread": plans.usual_spread(load["workload"]),
            "workload": load["workload"],
            "requests": load["requests"] or max(4 * load["concurrency"], 16),
            "warmup": load["warmup"],
            "seeds": tuple(range(1, load["seeds"] + 1)),
            "prompts": prompts.name if prompts else None,
            "arms": [{"name": arm, "argv": ["(already running)"], "method": method, "k": k}],
        }
    )


class _Stopped(KeyboardInterrupt):
    """A signal that asks the command to end, taken as Ctrl-C is."""

    def __init__(self, sign: int) -> None:
        self.sign = sign


@contextlib.contextmanager
def _signals_as_interrupts() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP raise `_Stopped`, so that engines are ended and files closed.

    Ignored ones (`nohup`) stay ignored, and further ones are while the first is dealt with.
    """

    def stop(sign: int, _: object) -> None:
        for name in before:
            signal.signal(name, signal.SIG_IGN)
        raise _Stopped(sign)

    signs = (signal.SIGTERM, signal.SIGHUP)
    before = {sign: old for sign in signs if (old := signal.getsignal(sign)) == signal.SIG_DFL}
    for sign in before:
        signal.signal(sign, stop)
    try:
        yield
    finally:
        for sign, old in before.items():
            signal.signal(sign, old)


def _with_bar(work: Callable[[ab_run.Tell], T], folder: Path) -> T:
    """Run and show how far it is. A signal that stops it is told; exits with 128 + its number."""
    from rich.console import Console  # start-up: only where something runs

    at, bar = "", Console(stderr=True).status("starts")

    def tell(name: str, progress: ProgressOfLoad) -> None:
        nonlocal at
        at = f"at {progress.done} of {progress.total} requests of {name}"
        more = progress.stage or (f"{progress.failed} failed" if progress.failed else "")
        bar.update(f"{at}: {more}" if more else at)

    try:
        with _signals_as_interrupts():
            bar.start()
            try:
                return work(tell)
            finally:
                with contextlib.suppress(OSError):  # a terminal that is gone
                    bar.stop()
    except KeyboardInterrupt as stop:
        with contextlib.suppress(OSError):
            say(
                f"stopped{at and ' '}{at}: what was measured is kept in {folder}, and the same "
                "command goes on from there",
                err=True,
            )
        sign = stop.sign if isinstance(stop, _Stopped) else signal.SIGINT
        raise click.exceptions.Exit(128 + sign) from None
