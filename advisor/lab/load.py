"""A closed loop of streamed requests, each written down (JSON lines), so that it can go on."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from advisor.domain.facts import AdvisorError
from advisor.domain.printable import excerpt
from advisor.readers import server as client
from advisor.readers.exchange import BadAnswer, HasFile, Refused, ServerGone, cut
from advisor.readers.results import document, exposition, own_runs
from advisor.readers.results.own_runs import Counters, Header, RequestRecord

SEEDS_APART = 100_000  # between the sampling seeds of two runs
UNCOUNTED = "the server states no token counts, and a chunk may hold several tokens"
COUNTERS = ("drafts", "draft_tokens", "accepted")
MOST_OPEN = 256  # requests in flight at a fixed rate
MAX_FAILURES = 3  # in a row, after which the server is taken for broken


class Progress(NamedTuple):
    """How far a run is."""

    done: int
    total: int
    failed: int
    stage: str = ""  # what goes on before the first request


def resume(path: Path, header: Header) -> tuple[set[int], int]:
    """The requests that a file already has, and the number of the next sitting; writes the header
    of a new file. Raises AdvisorError where it is of another run.
    """
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if not whole:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header.model_dump_json() + "\n", encoding="utf-8")
        return set(), 0
    earlier = own_runs.parse(document.parse(path.name, whole))
    old, new = earlier.header.model_dump(), header.model_dump()
    if names := ", ".join(name for name in new if name != "date" and new[name] != old[name]):
        raise AdvisorError(
            f"{path.name} is of another run ({names} differ): name another folder, or delete it"
        )
    if len(whole) != len(data):
        path.write_bytes(whole)
    done = {record.i for record in earlier.records if record.error is None}
    return done, 1 + max((record.sitting for record in earlier.records), default=-1)


def run(
    url: str,
    path: Path,
    header: Header,
    prompts: Sequence[str],
    body: dict[str, Any],
    lengths: Sequence[int],
    *,
    stall_s: float = 60.0,
    tell: Callable[[Progress], None] = lambda _: None,
    key: str | None = None,
    replicas: Sequence[str] = (),
) -> Progress:
    """Send what is missing, `header.concurrency` at a time, and append each answer, of these
    `lengths` in tokens. Raises AdvisorError where the server is gone or keeps failing.
    """
    done, sitting = resume(path, header)
    talks = [range(i, min(i + header.turns, header.requests))
             for i in range(0, header.requests, header.turns)]  # fmt: skip
    todo = [talk for talk in talks if not done.issuperset(talk)]  # a broken one begins anew
    done = {i for talk in talks if talk not in todo for i in talk}
    if not todo:
        return Progress(header.requests, header.requests, 0)
    with path.open("a", encoding="utf-8") as out:
        loop = _Loop(
            url,
            out,
            iter(todo),
            prompts,
            body,
            lengths,
            sitting,
            stall_s,
            tell,
            header,
            len(done),
            key,
        )
        before = _counters(url, key, replicas)
        loop.start(min(MOST_OPEN, len(todo)) if header.request_rate else header.concurrency)
        _count(out, before, _counters(url, key, replicas), sitting, time.monotonic() - loop.begun)
    if loop.fatal is not None:
        raise AdvisorError(
            f"{loop.fatal}; {loop.done} of {header.requests} requests are kept in {path.name}"
        )
    return loop.progress


def _counters(url: str, key: str | None, replicas: Sequence[str] = ()) -> exposition.Scrape | None:
    """The server's counters; None where it is gone, has none or does not show them."""
    try:
        return client.counters(url, key, replicas)
    except AdvisorError:
        return None


def drafts_of(url: str, key: str | None) -> float:
    """How many times the server has drafted since its start; 0 where it does not say."""
    seen = _counters(url, key)
    return seen.counters.get("drafts", 0.0) if seen else 0.0


def _count(
    out: IO[str],
    before: exposition.Scrape | None,
    after: exposition.Scrape | None,
    sitting: int,
    seconds: float,
) -> None:
    """Write the difference of the counters, where there is one."""
    if before is None or after is None:
        return
    try:
        change = exposition.between(before, after)
    except AdvisorError:
        return
    drafts, draft_tokens, accepted = map(change.counters.get, COUNTERS)
    row = Counters(
        sitting=sitting, seconds=seconds, drafts=drafts, draft_tokens=draft_tokens,
        accepted=accepted, positions=change.positions,
        accept_length=change.gauges.get("accept_length"),
    )  # fmt: skip
    out.write(row.model_dump_json() + "\n")


@dataclass
class _Loop:
    """Workers that take requests in order; one lock for the file and the counts."""

    url: str
    out: IO[str]
    todo: Iterator[range]  # the requests of a conversation
    prompts: Sequence[str]
    body: dict[str, Any]
    lengths: Sequence[int]
    sitting: int
    stall_s: float
    tell: Callable[[Progress], None]
    header: Header
    done: int
    key: str | None
    failed: int = 0
    in_a_row: int = 0  # of failures
    is_stopped: bool = False
    fatal: AdvisorError | None = None
    defect: Exception | None = None  # of ours, in a thread: raised by `start`
    open: dict[int, HasFile] = field(default_factory=dict)  # by the thread that reads it
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.begun = time.monotonic()
        self.dice, self.due = random.Random(self.header.seed), 0.0

    @property
    def progress(self) -> Progress:
        return Progress(self.done, self.header.requests, self.failed)

    def start(self, workers: int) -> None:
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except KeyboardInterrupt:
            with self.lock:
                self.todo, self.is_stopped = iter(()), True
                for connection in self.open.values():
                    cut(connection)
            raise
        if self.defect is not None:
            raise self.defect

    def _next(self) -> tuple[range, float] | None:
        """A conversation and when it is due: at random times that make the rate, else now."""
        with self.lock:
            talk = None if self.fatal is not None else next(self.todo, None)
            if talk is not None and self.header.request_rate:
                self.due += self.dice.expovariate(self.header.request_rate / self.header.turns)
            return None if talk is None else (talk, self.due)

    def _work(self) -> None:
        try:
            while (following := self._next()) is not None:
                talk, due = following
                while (left := due - (time.monotonic() - self.begun)) > 0 and not self.is_stopped:
                    time.sleep(min(left, 0.2))
                messages: list[dict[str, str]] = []
                for i in talk:
                    if not self._send(i, messages):
                        break
        except Exception as error:
            with self.lock:
                self.defect, self.todo = error, iter(())

    def _send(self, i: int, messages: list[dict[str, str]]) -> bool:
        """Ask after what was said before, and add both to it; whether an answer came."""
        start = time.monotonic() - self.begun
        messages.append({"role": "user", "content": self.prompts[i]})
        body = {**self.body, "messages": messages, "max_tokens": self.lengths[i]}
        body["seed"] = self.header.seed * SEEDS_APART + i  # one for all would draw the same
        try:
            answer = client.stream(self.url, body, self.stall_s, self._hold, self.key)
            if self.header.method != "none" and answer.input_tokens is None:
                raise BadAnswer(UNCOUNTED)
        except AdvisorError as error:
            end = time.monotonic() - self.begun
            record = RequestRecord(
                i=i, start_s=start, ttft_s=0.0, end_s=end, output_tokens=0, chunks=0,
                sitting=self.sitting, error=excerpt(error),
            )  # fmt: skip
            self._keep(record, error)
            return False
        else:
            record = RequestRecord(
                i=i, start_s=start, ttft_s=answer.ttft_s, end_s=start + answer.end_s,
                sitting=self.sitting, input_tokens=answer.input_tokens,
                output_tokens=answer.output_tokens, chunks=answer.chunks,
                draft_tokens=answer.draft_tokens, accepted_tokens=answer.accepted_tokens,
            )  # fmt: skip
            self._keep(record)
            messages.append({"role": "assistant", "content": answer.text})
            return True

    def _hold(self, connection: HasFile) -> None:
        with self.lock:
            self.open[threading.get_ident()] = connection
            if self.is_stopped:
                cut(connection)

    def _keep(self, record: RequestRecord, error: AdvisorError | None = None) -> None:
        with self.lock:
            if self.is_stopped:  # by us: no failure of the server
                return
            self.out.write(record.model_dump_json(exclude_none=True) + "\n")
            self.out.flush()
            os.fsync(self.out.fileno())
            self.done += error is None
            self.failed += error is not None
            self.in_a_row = self.in_a_row + 1 if error else 0
            if isinstance(error, ServerGone | Refused) or self.in_a_row >= MAX_FAILURES:
                self.fatal = self.fatal or error
            self.tell(self.progress)
