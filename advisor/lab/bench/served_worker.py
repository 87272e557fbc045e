"""One start of llama-server or SGLang in a step-cost sweep, driven over HTTP, point by point."""

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
import time
from pathlib import Path
from typing import Any

from advisor.engines.traits import traits
from advisor.lab.bench import protocol
from advisor.lab.bench.jobs import SAMPLING
from advisor.lab.bench.machine import Meter
from advisor.lab.bench.protocol import Data, Todo
from advisor.lab.bench.streams import Served, ServerError, is_healthy, read_reply, stream
from advisor.lab.bench.timing import closed_row, decode_row
from advisor.lab.processes import EngineProcess

STOP_S = 10.0  # a server that has not ended by then is killed
WORD_BIAS = 100.0  # added to a word's logit: no other token is sampled
SLACK = 64  # tokens by which a slot may be shorter than the depth asked
NO_SERVER, FAILED = 5, 6  # exit status
PRIVATE = ("points", "command", "env", "port", "start_s", "vocabulary", "turns")  # not in rows


def request(engine: str, prompt: list[int], length: int, extra: Data) -> tuple[str, Data]:
    """(path, body) of one streamed completion of `length` tokens."""
    if traits(engine).gguf:
        body = {"prompt": prompt, "n_predict": length, "ignore_eos": True, "stream": True}
        return "/completion", {**body, "cache_prompt": True, "return_tokens": True, **extra}
    sampling = {"temperature": 1.0, "max_new_tokens": length, "ignore_eos": True, **extra}
    return "/generate", {"input_ids": prompt, "sampling_params": sampling, "stream": True}


class ServerDriver:
    """Sends a job's requests: random token ids but the first thousand (bytes) and the last."""

    def __init__(self, job: Data, seed: int = 1) -> None:
        self.job, self.random = job, random.Random(seed)
        self.slots: dict[int, list[int]] = {}  # text of each llama-server slot so far
        self.edge = min(1000, job["vocabulary"] // 8)

    def ids(self, count: int) -> list[int]:
        """Random token ids."""
        words = self.job["words"] or self.job["vocabulary"] - 2 * self.edge
        return [self.random.randrange(self.edge, self.edge + words) for _ in range(count)]

    async def ask(self, prompt: list[int], length: int, extra: Data) -> Served:
        """Send one request and read its streamed reply."""
        if self.job["words"]:  # answers keep to the words of the prompts
            words = range(self.edge, self.edge + self.job["words"])
            extra = {**extra, "logit_bias": [[word, WORD_BIAS] for word in words]}
        path, body = request(self.job["engine"], prompt, length, extra)
        variables = {**os.environ, **self.job["env"]}  # as its server was started
        key = variables.get(traits(self.job["engine"]).api_key_env or "")
        reply = await stream(self.job["port"], path, body, key=key)
        return read_reply(self.job["engine"], reply, self.job["k"] > 0)

    async def point(self, point: Data) -> Data:
        """A point's figures and span. Raises ServerError, ValueError, OSError or TimeoutError."""
        if point["kind"] == "decode":
            return await self._decode(point)
        await self._closed_loop(point, 1, 24)  # the first run of a shape pays kernel compilation
        return await self._closed_loop(point, point["rounds"], point["length"])

    async def _continue(self, slots: list[int], length: int, extra: Data) -> list[Served]:
        """The text of every filled slot of llama-server goes on by `length` tokens, all at once."""
        replies = (self.ask(self.slots[i], length, {**extra, "id_slot": i}) for i in slots)
        served = await asyncio.gather(*replies)
        for i, one in zip(slots, served, strict=True):
            self.slots[i] = self.slots[i] + one.tokens
        return list(served)

    async def _fill(self, slots: list[int], depth: int) -> None:
        lacking = {i: depth - len(self.slots.get(i, [])) for i in slots}
        lacking = {i: tokens for i, tokens in lacking.items() if tokens > SLACK}
        for i, tokens in lacking.items():
            self.slots[i] = self.slots.get(i, []) + self.ids(tokens)
        await self._continue(list(lacking), 4, {})

    async def _decode(self, point: Data) -> Data:
        slots, extra = list(range(point["concurrency"])), SAMPLING[point["sampling"]]
        tau = 1 + sum(self.job["rates"])
        await self._fill(slots, point["input_tokens"])
        await self._continue(slots, 1 + round(6 * tau), extra)
        context = round(statistics.fmean(len(self.slots[i]) for i in slots))
        served = await self._continue(slots, 1 + round(point["length"] * tau), extra)
        row, *span = decode_row([one.request for one in served])
        return row | {"context_tokens": context, "span": span}

    async def _closed_loop(self, point: Data, rounds: int, length: int) -> Data:
        """Clients that send one prompt after the other."""
        clients = point["concurrency"]
        count = max(protocol.LEAST_PROMPTS, rounds * clients)
        spread = (1 + protocol.JITTER * (2 * self.random.random() - 1) for _ in range(count))
        todo = [(self.ids(point["input_tokens"]), max(2, round(length * s))) for s in spread]
        served: list[Served] = []

        async def client(number: int) -> None:
            extra = dict(SAMPLING[point["sampling"]])
            if traits(self.job["engine"]).pool == "slots":
                extra |= {"id_slot": number, "cache_prompt": False}
            while todo:
                served.append(await self.ask(*todo.pop(), extra))

        begin = time.perf_counter()
        await asyncio.gather(*(client(number) for number in range(clients)))
        end = time.perf_counter()
        self.slots.clear()
        return closed_row([one.request for one in served], end - begin) | {"span": (begin, end)}


def llama_version(server: str) -> str:
    """The build of a llama-server, as `b11312`; empty where it is absent or does not say."""
    command = [server, "--version"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    build = re.search(r"build (\d+)|version: (\d+)", run.stdout + run.stderr)
    number = build and (build[1] or build[2])
    return f"b{number}" if number and number != "0" else ""


async def _ready(job: Data, server: EngineProcess, until: float) -> bool:
    while server.poll() is None and time.time() < until:
        if await is_healthy(job["port"]):
            return True
        await asyncio.sleep(0.1)
    return False


def measure(
    job: Data, todo: Todo, out: Path, deadline: float, time_file: Path | None = None
) -> int:
    """Start the job's server, take the points that are left, end it. Returns an exit status."""
    begin, meter = time.time(), Meter()
    command, environment = job["command"], {**os.environ, **job["env"]}
    server = EngineProcess(command, sys.stderr.buffer, environment)
    try:
        if not asyncio.run(_ready(job, server, min(deadline, begin + job["start_s"]))):
            protocol.note("not ready")
            return NO_SERVER
        base: dict[str, Any] = {n: value for n, value in job.items() if n not in PRIVATE}
        base |= {"boot_s": round(time.time() - begin, 1), "gpu": meter.name}
        protocol.note(protocol.BOOT + json.dumps(base) + "\n" + protocol.WARM)
        protocol.await_file(time_file)
        driver = ServerDriver(job)
        try:
            return protocol.take(
                todo, out, deadline, base, meter, lambda point: asyncio.run(driver.point(point))
            )
        except (ServerError, ValueError, TimeoutError, OSError) as error:
            protocol.note(f"a point failed: {error}"[:300])
            return FAILED
    finally:
        meter.close()
        server.end(signal.SIGINT, signal.SIGKILL, seconds=STOP_S)
