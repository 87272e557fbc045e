"""Runs the A/B of a plan: starts, measures and stops the server of each arm; resumes."""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from advisor.domain.facts import AdvisorError
from advisor.engines.traits import traits
from advisor.lab import bench_plan, load, quality
from advisor.lab.bench_plan import HEALTH_S, Arm, BenchPlan
from advisor.lab.processes import EngineProcess
from advisor.readers import server as client
from advisor.readers.exchange import BadAnswer, ServerGone
from advisor.readers.results import document, own_runs
from advisor.readers.results.own_runs import Header
from advisor.readers.results.power import sample_power

STOP_S = 30.0
# llama-server 0.5.0 hung in the handler of its first signal in 13 of 60 tries with answers under
# way (the handler takes a lock that the thread it interrupts may hold); at the next it leaves.
AGAIN_S = 5.0
Tell = Callable[[str, load.Progress], None]


def measure(
    url: str,
    plan: BenchPlan,
    arm: Arm,
    folder: Path,
    *,
    stall_s: float = 60.0,
    tell: Tell = lambda *_: None,
    key: str | None = None,
    check_quality: bool = False,
    replicas: Sequence[str] = (),
) -> list[Path]:
    """Warm up and measure an arm on a running server, seed by seed; with `check_quality` ask it the
    tasks of that check. Counters are those of the `replicas` behind it. Raises AdvisorError.
    """
    server = client.describe(url, key)
    body: dict[str, Any] = {"max_tokens": plan.output_tokens, "ignore_eos": True}
    body |= {"model": server.model}
    if plan.temperature is not None:
        body["temperature"] = plan.temperature
    load_of_plan = plan.model_dump(include={
        "concurrency", "requests", "input_tokens", "output_tokens", "output_spread", "workload",
        "model", "turns", "prefix_share", "max_ttft_ms", "max_tpot_ms",
    })  # fmt: skip
    paths = bench_plan.results(plan, folder, arm.name)
    for seed, path in zip(plan.seeds, paths, strict=True):
        texts = _prompts(plan, folder, plan.requests, seed)
        lengths = bench_plan.answer_lengths(plan, plan.requests, seed)
        header = Header(
            arm=arm.name, method=arm.method, k=arm.k, seed=seed, slots=server.slots,
            date=datetime.now(UTC).date().isoformat(),
            prompts_sha256=hashlib.sha256("\x00".join(texts).encode()).hexdigest(),
            engine=server.engine or plan.engine, request_rate=plan.rate,
            engine_version=server.version or plan.engine_version,
            **load_of_plan,
        )  # fmt: skip
        done, _ = load.resume(path, header)
        if len(done) < plan.requests:
            label = f"{arm.name}, seed {seed}"
            tell(label, load.Progress(len(done), plan.requests, 0, "warm-up"))
            drafted = _warm_up(url, plan, body, stall_s, key)
            if arm.name == "off" and (drafted or server.k or load.drafts_of(url, key)):
                raise AdvisorError(
                    "the server of the off run drafts: start it without speculation and run this "
                    "again"
                )
            shown = partial(tell, label)
            own = urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")  # its cards are ours
            samples = folder / f"power-{arm.name}.csv" if own else Path(os.devnull)
            send = partial(load.run, url, path, header, texts, body, lengths)
            with sample_power(samples, os.environ | arm.env):
                send(stall_s=stall_s, tell=shown, key=key, replicas=replicas)
    answers = quality.path_of(folder, arm.name)
    if check_quality and not answers.is_file():
        tell(arm.name, load.Progress(0, 0, 0, "quality check"))
        made = quality.ask(server, stall_s * 2, key)
        answers.write_text(made.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return paths


def _prompts(plan: BenchPlan, folder: Path, count: int, seed: int) -> list[str]:
    if plan.prompts:
        return bench_plan.read_prompts(folder / Path(plan.prompts).name, count)
    return bench_plan.make_prompts(
        count, plan.input_tokens, plan.workload, seed,
        prefix_share=plan.prefix_share, turns=plan.turns,
    )  # fmt: skip


def _warm_up(
    url: str, plan: BenchPlan, body: dict[str, Any], stall_s: float, key: str | None
) -> bool:
    """Send the warm-up; whether an answer said that tokens were drafted."""
    drafted = False
    for text in bench_plan.make_prompts(plan.warmup, plan.input_tokens, plan.workload, seed=-1):
        asked = {**body, "messages": [{"role": "user", "content": text}]}
        drafted |= bool(client.stream(url, asked, stall_s * 5, key=key).draft_tokens)
    return drafted


def run(
    plan: BenchPlan,
    folder: Path,
    *,
    stall_s: float = 60.0,
    tell: Tell = lambda *_: None,
    key: str | None = None,
    check_quality: bool = False,
) -> dict[str, list[Path]]:
    """Both arms of a plan, the one without speculation first. `key` is for servers that their own
    launch gives none. Raises AdvisorError.
    """
    out: dict[str, list[Path]] = {}
    for arm in plan.arms:
        asked = not check_quality or quality.path_of(folder, arm.name).is_file()
        if asked and _is_finished(plan, arm, folder):
            out[arm.name] = bench_plan.results(plan, folder, arm.name)
            continue
        server = _start(plan, arm, folder)
        label = f"{arm.name}, seed {plan.seeds[0]}"
        tell(label, load.Progress(0, plan.requests, 0, "server starts"))
        try:
            _wait(plan, server, arm, folder)
            own = _own_key(plan, arm) or key
            out[arm.name] = measure(
                plan.url, plan, arm, folder, stall_s=stall_s, tell=tell, key=own,
                check_quality=check_quality,
            )  # fmt: skip
        finally:
            signs, seconds = _stop_signs(plan)
            server.end(*signs, seconds=seconds)
    return out


def _is_finished(plan: BenchPlan, arm: Arm, folder: Path) -> bool:
    try:
        runs = [
            own_runs.parse(document.load(path))
            for path in bench_plan.results(plan, folder, arm.name)
        ]
    except (AdvisorError, ValueError, OSError):
        return False
    done = [{record.i for record in run.records if record.error is None} for run in runs]
    return all(len(each) >= plan.requests for each in done)


def _start(plan: BenchPlan, arm: Arm, folder: Path) -> EngineProcess:
    try:
        client.get(plan.url, plan.health, timeout_s=2)
    except ServerGone:
        pass
    else:
        raise AdvisorError(
            f"a server already answers at {plan.url}: stop it, or measure it with --url"
        )
    for name, text in arm.files.items():
        (folder / name).write_text(text, encoding="utf-8")
    words = [str(folder / word) if word in arm.files else word for word in arm.argv]
    with (folder / f"server-{arm.name}.log").open("ab") as log:
        try:
            return EngineProcess(words, log, os.environ | arm.env)
        except OSError as error:
            raise AdvisorError(f"cannot start {arm.argv[0]}: {error.strerror or error}") from error


def _own_key(plan: BenchPlan, arm: Arm) -> str | None:
    """The key that the engine of an arm asks for: of its launch, else of its environment."""
    for i, word in enumerate(arm.argv):
        name, sign, value = word.partition("=")
        if name == "--api-key":
            return value if sign else next(iter(arm.argv[i + 1 : i + 2]), None)
    return (os.environ | arm.env).get(traits(plan.engine).api_key_env or "")


def _stop_signs(plan: BenchPlan) -> tuple[tuple[signal.Signals, ...], float]:
    """The signals that end a server, and the seconds after which the next one follows."""
    if traits(plan.engine).gguf:
        return (signal.SIGTERM, signal.SIGINT, signal.SIGKILL), AGAIN_S
    return (signal.SIGTERM, signal.SIGKILL), STOP_S


def _wait(plan: BenchPlan, server: EngineProcess, arm: Arm, folder: Path) -> None:
    end = time.monotonic() + HEALTH_S
    while time.monotonic() < end:
        if server.poll() is not None:
            raise AdvisorError(
                f"the server of run '{arm.name}' stopped with status {server.returncode} before "
                "it was ready: "
                f"see {folder / f'server-{arm.name}.log'}"
            )
        try:
            client.get(plan.url, plan.health, timeout_s=2)
            return
        except (ServerGone, BadAnswer):  # it loads
            time.sleep(0.5)
    raise AdvisorError(
        f"the server of run '{arm.name}' was not ready after {HEALTH_S / 60:.0f} minutes"
    )
