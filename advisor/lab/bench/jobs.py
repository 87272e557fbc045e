"""Which engines a step-cost sweep starts and which loads each takes, from a file or by default.

A sweep file is JSON: a list of entries with the fields of `Job` (vLLM) or the keywords of
`llama_job` and `sglang_job`. `k` may be a list: one engine start each. Points are objects with the
fields of `Point` or `ServedPoint`, or lists in their order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench.shapes import VOCAB, config_of, vocabulary

BLOCK_RATES = (0.08, 0.06, 0.045, 0.034, 0.025, 0.019, 0.014)  # of positions beyond eight
# Unconditional acceptance by position that the synthetic sampler is told to produce: the GB10
# seed's two positions, then a geometric tail. Acceptance is an input of the sweep, never a result.
RATES = (0.816, 0.635, 0.48, 0.36, 0.27, 0.2, 0.15, 0.11, *BLOCK_RATES)
LLAMA_PORT, SGLANG_PORT = 9100, 9200
KS = (0, 2, 4, 1, 3, 8, 6)  # most valuable first
HEADROOM = 2048  # tokens that a slot may grow by over its points
LOOKUP_TOKENS = 2  # of the text that a lookup searches for; fewer drafts than these are not made
WORDS = 8  # with so few, the last two tokens nearly always stand in the text before


@dataclass(frozen=True)
class TimedPoint:
    """A closed loop: `concurrency` clients, at least `rounds` x concurrency prompts."""

    concurrency: int
    input_tokens: int
    output_tokens: int
    prefix_share: float = 0.0
    rounds: int = 4

    @property
    def key(self) -> str:
        """The load as text, the key of its rows."""
        return f"{self.concurrency}:{self.input_tokens}:{self.output_tokens}:{self.prefix_share:g}"


@dataclass(frozen=True)
class ServedPoint:
    """One load of a server.

    `decode`: slots that are filled to `input_tokens` once and then decode `length` steps side by
    side. `closed`: clients that send one prompt after the other, `length` tokens each +- 50 %.
    """

    kind: Literal["decode", "closed"]
    concurrency: int
    input_tokens: int
    length: int
    rounds: int = 2
    sampling: str = ""  # a name of SAMPLING; empty: the server's default

    @property
    def key(self) -> str:
        """The load as text, the key of its rows."""
        tail = f":{self.sampling}" if self.sampling else ""
        return f"{self.concurrency}:{self.input_tokens}:{self.length}:0{tail}"


# Request fields by name. SGLang's own temperature is 1; its published benchmarks ask for 0.
SAMPLING: dict[str, dict[str, Any]] = {
    "": {},
    "greedy": {"temperature": 0.0, "samplers": ["top_k"], "top_k": 1},
    "device": {"backend_sampling": True},
    "t0": {"temperature": 0.0},
    "t1": {"temperature": 1.0},
}


@dataclass(frozen=True)
class Job:
    """One start of vLLM and its points."""

    reserve_s: ClassVar[float] = 240.0  # it is not begun when a sweep has less time left
    label: str
    model: str
    quant: str
    k: int
    points: tuple[TimedPoint, ...]
    prefix_caching: bool = False
    max_num_seqs: int = 128
    max_num_batched_tokens: int = 8192
    max_model_len: int = 32_960
    env: dict[str, str] = field(default_factory=dict)
    rates: tuple[float, ...] = RATES
    method: str = "mtp"  # or "eagle3", "dflash", "dspark", "ngram"
    kv_cache_dtype: str = "auto"
    # KV cache in GiB where engines share a GPU; None: what gpu_memory_utilization leaves
    kv_gib: float | None = None
    graph_sizes: tuple[int, ...] = ()  # tokens of captured CUDA graphs; empty: the engine's own
    # how often every point is taken in this one start; labels of later turns: protocol.turn_label
    turns: int = 1
    config: str = ""  # the model's config.json; empty: the shape that shapes.py knows
    draft_config: str = ""  # of a drafter that is a model of its own
    gpus: str = ""  # of one engine over several, by index ("0,1"); empty: the one of its turn


@dataclass(frozen=True)
class ServedJob:
    """One start of a server and its points. `settings` says what differs from its defaults.

    `words`: how many token ids prompts and answers are made of, so that lookups find their drafts;
    0: the whole vocabulary.
    """

    reserve_s: ClassVar[float] = 0.0
    label: str
    engine: str
    engine_version: str
    model: str
    quant: str
    k: int
    command: tuple[str, ...]
    points: tuple[ServedPoint, ...]
    port: int
    vocabulary: int = VOCAB
    rates: tuple[float, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    start_s: float = 300.0
    words: int = 0
    turns: int = 1


def default_jobs(
    model: str = "qwen3.6-35b-a3b", quant: str = "fp8", turns: int = 1
) -> tuple[Job, ...]:
    """vLLM in order of value: closed loops at three prompt lengths and at next to no prompt."""
    loads = ((2048, (1, 2, 4, 8, 16, 32, 64, 128)), (8192, (1, 4, 16, 32)), (32768, (1, 8)))
    points = [TimedPoint(c, tokens, 128) for tokens, clients in loads for c in clients]
    points += [TimedPoint(c, 64, 512, rounds=2) for c in loads[0][1]]
    jobs = (Job(f"{model}-{quant}-k{k}", model, quant, k, tuple(points)) for k in (0, 2, 4, 1, 3))
    return tuple(replace(job, turns=turns) for job in jobs)


def as_data(job: Job | ServedJob) -> dict[str, Any]:
    """A job as a worker reads it: JSON data, each point with its key."""
    return asdict(job) | {"points": [asdict(point) | {"key": point.key} for point in job.points]}


def read_sweep(path: Path, point: type, make: Callable[..., Any]) -> tuple[Any, ...]:
    """The engine starts of a sweep file, by `make`. Raises AdvisorError where it is no list."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        jobs = tuple(make(**entry) for listed in entries for entry in _each_k(listed, point))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise AdvisorError(f"{path} is no sweep: {error}") from error
    if len({job.label for job in jobs}) < len(jobs):
        raise AdvisorError(f"{path} has two engine starts of one label")
    return jobs


def _each_k(entry: dict[str, Any], point: type) -> Iterator[dict[str, Any]]:
    """One entry for each draft length; a label holds `{k}` where there are several."""
    names = [known.name for known in fields(point)]
    points = (
        one if isinstance(one, dict) else dict(zip(names, one, strict=False))
        for one in entry["points"]
    )
    entry = entry | {"points": tuple(point(**one) for one in points)}
    for k in entry["k"] if isinstance(entry["k"], list) else [entry["k"]]:
        label = {"label": entry["label"].replace("{k}", str(k))} if "label" in entry else {}
        yield {**entry, **label, "k": k}


def decode(clients: Sequence[int], sampling: str = "") -> tuple[ServedPoint, ...]:
    """Points that decode only; fewer steps where a step is long."""
    return tuple(
        ServedPoint("decode", c, 2048, 64 if c <= 16 else 40, 2, sampling) for c in clients
    )


def closed_loops(cells: Sequence[tuple[int, int]], sampling: str = "") -> tuple[ServedPoint, ...]:
    """Closed loops over (clients, prompt tokens)."""
    return tuple(ServedPoint("closed", c, n, 128, 2, sampling) for c, n in cells)


def llama_job(
    k: int,
    gguf: Path,
    points: tuple[ServedPoint, ...],
    *,
    model: str,
    quant: str,
    server: str = "llama-server",
    version: str = "",
    campaign: str = "gguf",
    flags: tuple[str, ...] = (),
    vocabulary: int = VOCAB,
    part: str = "",
    method: str = "mtp",
) -> ServedJob:
    """A llama-server with as many slots as its points need. For k > 0 it drafts with the model's
    own MTP head or, as `ngram`, by looking up the last two tokens in the text so far.

    Acceptance is forced by `--spec-synth-rates`. Prompt caches beyond the slots' own are off: a
    point must not pay for copies of other points' states.
    """
    slots = max(p.concurrency for p in points)
    context = slots * (max(p.input_tokens for p in points) + HEADROOM)
    lookup = bool(k) and method == "ngram"
    words = f"-ngl 99 -fa on -np {slots} -c {context} --no-warmup --cache-ram 0"
    words += f" --ctx-checkpoints 0 --no-ui --host 127.0.0.1 --port {LLAMA_PORT}"
    drafting = f"--spec-type draft-mtp --spec-draft-n-max {k}"
    if lookup:
        drafting = f"--spec-type ngram-simple --spec-ngram-simple-size-m {k}"
        drafting += f" --spec-ngram-simple-size-n {LOOKUP_TOKENS}"
    drafting += f" --spec-synth-rates {','.join(map(str, RATES[:k]))}"
    settings = {"slots": slots, "context": context, "flags": list(flags)}
    return ServedJob(
        f"{campaign}-k{k}{part}" + ("-ngram" if lookup else ""),
        *("llama-server", version, model, quant, k),
        (server, "-m", str(gguf), *words.split(), *flags, *(drafting.split() if k else ())),
        points,
        LLAMA_PORT,
        vocabulary,
        RATES[:k],
        settings=settings | ({"method": "ngram"} if lookup else {}),
        words=WORDS if lookup else 0,
    )


def llama_sweep(gguf: Path, **about: Any) -> tuple[ServedJob, ...]:
    """Server starts in order of value: k, then one KV buffer for all slots, closed loops."""
    few = ("-b", "2048", "-ub", "2048")
    plain = decode((1, 2, 4, 6, 8, 9, 12, 16)) + decode((4, 16), sampling="greedy")
    plain += decode((4, 16), sampling="device") + decode((32, 64))
    wide, loops = decode((1, 4, 8, 16)), closed_loops(((4, 2048), (16, 2048)))
    make = partial(llama_job, gguf=gguf, **about)
    jobs = [make(k=k, points=wide if k else plain, flags=few) for k in KS]
    unified = partial(make, points=decode((1, 4, 16)), flags=(*few, "--kv-unified"))
    jobs += [unified(k=k, part="-unified") for k in (0, 2)]
    return (*jobs, *(make(k=k, points=loops, part="-closed") for k in (0, 2)))


def sglang_job(
    k: int,
    points: tuple[ServedPoint, ...],
    *,
    model: str,
    quant: str,
    version: str = "",
    overlap: bool = True,
    method: str = "mtp",
    tree: tuple[int, int] | None = None,
    seat: int | None = None,
    config: str = "",
    draft_config: str = "",
) -> ServedJob:
    """An SGLang server over a model's shape with random weights and forced acceptance.

    SGLang draws one accepted length a step for the whole batch. `tree` is (top-k, draft tokens);
    `seat` numbers servers side by side on one card, each at its own port.
    """
    rates, port = RATES[:k], SGLANG_PORT + (seat or 0)
    beside = {"method": method, "tree": tree, "beside": seat is not None}
    server: dict[str, Any] = {
        "model": model,
        "quant": quant,
        "k": k,
        "overlap": overlap,
        "port": port,
        **beside,
        "config": config,
        "draft_config": draft_config,
        "clients": max(p.concurrency for p in points),
        "context": max(p.input_tokens for p in points) + 1024,
    }
    env = {"HF_HUB_OFFLINE": "1", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}
    env |= {"SGLANG_ENABLE_JIT_DEEPGEMM": "0"}
    if k:
        env["SGLANG_SIMULATE_ACC_LEN"] = f"{1 + sum(rates):.3f}"
        # the draft's own tokens are only to be had from a chain
        env["SGLANG_SIMULATE_ACC_TOKEN_MODE"] = "fixed" if tree else "real-draft-token"
    return ServedJob(
        f"{model}-{quant}-k{k}"
        + ("" if overlap else "-sync")
        + (f"-{method}" if k and method != "mtp" else "")
        + (f"-tree{tree[0]}x{tree[1]}" if tree else ""),
        *("sglang", version, model, quant, k),
        (sys.executable, "-m", "advisor.lab.bench.sglang_server", json.dumps(server)),
        points,
        port,
        vocabulary(config_of(server)),
        rates,
        env,
        {"overlap": overlap, "attention": "fa3", "deep_gemm": False, **beside},
    )


def sglang_sweep(model: str, quant: str, version: str = "") -> tuple[ServedJob, ...]:
    """Starts in order of value: k = 0 and 2 at all loads, other k and no overlap at few."""
    few = tuple((c, 2048) for c in (1, 4, 16, 64))
    every = (*few, (2, 2048), (8, 2048), (32, 2048), (4, 8192), (16, 8192))
    full = closed_loops(every, "t0") + closed_loops(((16, 2048),), "t1")
    starts = [(k, full, True) for k in (0, 2)]
    starts += [(k, closed_loops(few, "t0"), k in (1, 3)) for k in (1, 3, 2, 0)]
    about: dict[str, Any] = {"model": model, "quant": quant, "version": version}
    return tuple(sglang_job(k, points, overlap=on, **about) for k, points, on in starts)


def check_together(jobs: Sequence[Job | ServedJob], together: int) -> None:
    """Raises AdvisorError where engines of one card lack a memory bound or a port of their own."""
    for start in range(0, len(jobs) if together > 1 else 0, together):
        group = jobs[start : start + together]
        ports = [job.port for job in group if isinstance(job, ServedJob)]
        if len(set(ports)) < len(ports) or any(isinstance(j, Job) and not j.kv_gib for j in group):
            names = ", ".join(job.label for job in group)
            raise AdvisorError(
                f"{names} cannot stand on one GPU together: each takes all of its memory or the "
                f"same port. Give `kv_gib` (vLLM) or `seat` (SGLang) in the sweep file."
            )
