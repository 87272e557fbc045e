"""Drives a server over HTTP, point by point: a resumable sweep of llama-server or SGLang.

Each job is one server start; its rows go into one JSON-lines file, so that a second call does only
what is missing. Weights may be random and acceptance is forced: the rows are step *costs*, and
acceptance is an input. Beside every point: power and clocks of the GPU and the speed of the host.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from advisor.engines.traits import traits
from advisor.lab.bench import host
from advisor.lab.bench.power import Meter
from advisor.lab.bench.served import TimedRequest, closed_row, decode_row
from advisor.lab.bench.served_jobs import SAMPLING, ServedJob, ServedPoint
from advisor.lab.bench.step_cost import Progress
from advisor.lab.bench.streams import ServerError, get, stream
from advisor.lab.bench.worker import JITTER, LEAST_PROMPTS, finished_keys
from advisor.lab.processes import EngineProcess

STOP_S = 10.0  # a server that has not ended by then is killed
WORD_BIAS = 100.0  # added to a word's logit: no other token is sampled
SLACK = 64  # tokens by which a slot may be shorter than the depth asked


def request(
    engine: str, prompt: list[int], length: int, extra: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """(path, body) of one streamed completion of `length` tokens."""
    if traits(engine).gguf:
        body = {"prompt": prompt, "n_predict": length, "ignore_eos": True, "stream": True}
        return "/completion", {**body, "cache_prompt": True, "return_tokens": True, **extra}
    sampling = {"temperature": 1.0, "max_new_tokens": length, "ignore_eos": True, **extra}
    return "/generate", {"input_ids": prompt, "sampling_params": sampling, "stream": True}


class Driver:
    """Sends a job's requests. Prompts are random token ids below the model's vocabulary."""

    def __init__(self, job: ServedJob, meter: Meter, seed: int = 1) -> None:
        self.job, self.meter = job, meter
        self.random = random.Random(seed)
        self.slots: dict[int, list[int]] = {}  # text of each llama-server slot so far

    def ids(self, count: int) -> list[int]:
        """Random token ids; the first thousand (bytes) and the last (control) are left out."""
        edge = self._edge
        end = edge + self.job.words if self.job.words else self.job.vocabulary - edge
        return [self.random.randrange(edge, end) for _ in range(count)]

    @property
    def _edge(self) -> int:
        return min(1000, self.job.vocabulary // 8)

    async def ask(self, prompt: list[int], length: int, extra: dict[str, Any]) -> TimedRequest:
        """Send one request to the server and return its streamed reply."""
        if self.job.words:  # answers keep to the words of the prompts
            words = range(self._edge, self._edge + self.job.words)
            extra = {**extra, "logit_bias": [[word, WORD_BIAS] for word in words]}
        path, body = request(self.job.engine, prompt, length, extra)
        key = environment(self.job).get(traits(self.job.engine).api_key_env or "")
        reply = await stream(self.job.port, path, body, key=key)
        return TimedRequest(self.job.engine, reply, self.job.k > 0)

    async def point(self, point: ServedPoint) -> dict[str, Any]:
        """The figures of one point.

        Raises
        ------
        ServerError, OSError, TimeoutError
            The server refused, broke off or fell silent.
        """
        if point.kind == "decode":
            return await self._decode(point)
        # The first run of a shape pays kernel compilation.
        await self._closed_loop(point, 1, 24)
        return await self._closed_loop(point, point.rounds, point.length)

    # -- slots that stay filled (llama-server)

    async def _continue(
        self, slots: list[int], length: int, extra: dict[str, Any]
    ) -> list[TimedRequest]:
        """Every slot's text goes on by `length` tokens, all at once."""
        asked = (self.ask(self.slots[i], length, {**extra, "id_slot": i}) for i in slots)
        found = await asyncio.gather(*asked)
        for i, served in zip(slots, found, strict=True):
            self.slots[i] = self.slots[i] + served.tokens
        return list(found)

    async def _fill(self, slots: list[int], depth: int) -> dict[str, Any]:
        short = [i for i in slots if len(self.slots.get(i, [])) < depth - SLACK]
        if not short:
            return {}
        before = {i: len(self.slots.get(i, [])) for i in short}
        for i in short:
            self.slots[i] = self.slots.get(i, []) + self.ids(depth - before[i])
        begin = time.perf_counter()
        await self._continue(short, 4, {})
        wall = time.perf_counter() - begin
        tokens = sum(depth - before[i] for i in short)
        return {"prompt_tokens": tokens, "prompt_wall_s": round(wall, 3)}

    async def _decode(self, point: ServedPoint) -> dict[str, Any]:
        slots, extra = list(point.slots), SAMPLING[point.sampling]
        tau = 1 + sum(self.job.rates)
        filled = await self._fill(slots, point.input_tokens)
        await self._continue(slots, 1 + round(6 * tau), extra)
        context = statistics.fmean(len(self.slots[i]) for i in slots)
        served = await self._continue(slots, 1 + round(point.length * tau), extra)
        row, begin, end = decode_row(served)
        power = self.meter.between(begin, end)
        if power["power_w"] is not None:
            row["joule_per_token"] = round(power["power_w"] / row["decode_tok_s"], 4)
        return row | filled | power | {"context_tokens": round(context)}

    # -- clients that send one prompt after the other

    async def _closed_loop(self, point: ServedPoint, rounds: int, length: int) -> dict[str, Any]:
        count = max(LEAST_PROMPTS, rounds * point.concurrency)
        spread = (1 + JITTER * (2 * self.random.random() - 1) for _ in range(count))
        todo = [(self.ids(point.input_tokens), max(2, round(length * s))) for s in spread]
        done: list[TimedRequest] = []

        async def client(number: int) -> None:
            while todo:
                prompt, tokens = todo.pop()
                extra = dict(SAMPLING[point.sampling])
                if traits(self.job.engine).pool == "slots":
                    extra |= {"id_slot": number, "cache_prompt": False}
                done.append(await self.ask(prompt, tokens, extra))

        begin = time.perf_counter()
        await asyncio.gather(*(client(n) for n in range(point.concurrency)))
        end = time.perf_counter()
        self.slots.clear()
        power = self.meter.between(begin, end)
        row = closed_row(done, end - begin)
        if power["power_w"] is not None:
            row["joule_per_token"] = round(power["power_w"] / row["output_tok_s"], 4)
        return row | power


# ---------------------------------------------------------------- one server start


def llama_version(server: str) -> str:
    """The build of a llama-server, as `b11312`; empty where the program does not say or is
    absent.
    """
    try:
        said = subprocess.run(
            [server, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"build (\d+)|version: (\d+)", said.stdout + said.stderr)
    number = found and (found[1] or found[2])
    return f"b{number}" if number and number != "0" else ""


def missing_points(job: ServedJob, folder: Path) -> list[ServedPoint]:
    """Points that the job's rows lack."""
    seen = finished_keys(rows_file(folder, job), job.label)
    return [point for point in job.points if point.key not in seen]


def rows_file(folder: Path, job: ServedJob) -> Path:
    """Where a job's rows go."""
    return folder / f"{job.label}.jsonl"


def environment(job: ServedJob) -> dict[str, str]:
    """The environment that the job's server starts with, a key of the caller's included."""
    return {**os.environ, **job.env}


def spawn(job: ServedJob, log: Path) -> EngineProcess:
    """The job's server, its output appended to `log`; it ends with this process."""
    with log.open("ab") as sink:
        return EngineProcess(job.command, sink, environment(job))


async def _ready(job: ServedJob, server: EngineProcess, until: float) -> bool:
    while server.poll() is None and time.time() < until:
        status, _ = await get(job.port, "/health")
        if status == 200:
            return True
        await asyncio.sleep(0.1)
    return False


async def measure(
    job: ServedJob,
    folder: Path,
    deadline: float,
    tell: Callable[[str], None],
    server: EngineProcess | None = None,
) -> str:
    """Start the job's server and take the points that are left; returns how it ended.

    A `server` that is given has been started before.
    """
    out, begin = rows_file(folder, job), time.time()
    server, meter = server or spawn(job, folder / f"{job.label}.log"), Meter()
    try:
        if not await _ready(job, server, min(deadline, begin + job.start_s)):
            return f"not ready, see {job.label}.log"
        driver = Driver(job, meter)
        shared = {
            name: value
            for name, value in job.as_dict().items()
            if name not in ("points", "command", "env", "port", "start_s", "vocabulary")
        } | {"boot_s": round(time.time() - begin, 1), "gpu": meter.name}
        for point in missing_points(job, folder):
            if time.time() > deadline:
                return "out of time"
            speed, before = host.loop_ms(), host.now()
            try:
                row = await driver.point(point)
            except (ServerError, TimeoutError, OSError) as error:
                return f"{point.key} failed: {error}"[:300]
            row |= {"host_loop_ms": speed, **host.shares(before, host.now())}
            place: dict[str, Any] = {
                "key": point.key,
                "kind": point.kind,
                "sampling": point.sampling,
            }
            place |= {"concurrency": point.concurrency, "input_tokens": point.input_tokens}
            place |= {"busy_slots": list(point.places)} if point.places else {}
            with out.open("a") as sink:
                sink.write(json.dumps(shared | place | row) + "\n")
            tell(f"{job.label} {point.key}")
        return "done"
    finally:
        meter.close()
        server.end(signal.SIGINT, signal.SIGKILL, seconds=STOP_S)


# ---------------------------------------------------------------- the sweep


def progress(jobs: Sequence[ServedJob], folder: Path, note: str = "") -> Progress:
    """How many points of the jobs stand in `folder`."""
    total = sum(len({p.key for p in job.points}) for job in jobs)
    left = sum(len({p.key for p in missing_points(job, folder)}) for job in jobs)
    return Progress(total - left, total, note)


def run(
    jobs: Iterable[ServedJob],
    folder: Path,
    *,
    seconds: float = float("inf"),
    together: int = 1,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Progress:
    """Measure what is missing, one server at a time, until done or `seconds` have passed.

    `together` servers start side by side (their ports must differ); nothing is timed before all of
    them answer, and they are timed one after the other. A job that fails is told and left for the
    next call; the sweep goes on with the next job.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = tuple(jobs)
    deadline = time.time() + seconds
    if threading.current_thread() is threading.main_thread():
        # A sweep that is ended from outside takes its server with it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def say(note: str) -> None:
        tell(progress(listed, folder, note))

    todo = [job for job in listed if missing_points(job, folder)]
    while todo and time.time() < deadline:
        group, todo = todo[:together], todo[together:]
        servers = [spawn(job, folder / f"{job.label}.log") for job in group]
        try:
            if together > 1:
                asyncio.run(_all_ready(group, servers, deadline))
            for job, server in zip(group, servers, strict=True):
                ended = asyncio.run(measure(job, folder, deadline, say, server))
                say(f"{job.label}: {ended}")
        finally:
            for server in servers:
                server.end(signal.SIGINT, signal.SIGKILL, seconds=STOP_S)
    return progress(listed, folder, "finished")


async def _all_ready(
    jobs: Sequence[ServedJob], servers: Sequence[EngineProcess], deadline: float
) -> None:
    """Until every server answers, has ended, or its time to start is over."""
    pairs = zip(jobs, servers, strict=True)
    begin = time.time()
    await asyncio.gather(
        *(_ready(job, server, min(deadline, begin + job.start_s)) for job, server in pairs)
    )
