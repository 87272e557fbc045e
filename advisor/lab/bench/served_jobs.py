"""Which servers and which points a step-cost sweep of llama-server or SGLang takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from advisor.domain.nouns import AdvisorError
from advisor.lab.bench.jobs import RATES, Job
from advisor.lab.bench.shapes import VOCAB, config_of
from advisor.lab.bench.shapes import vocabulary as vocabulary_of

LLAMA_PORT, SGLANG_PORT = 9100, 9200
KS = (0, 2, 4, 1, 3, 8, 6)  # most valuable first
HEADROOM = 2048  # tokens that a slot may grow by over its points
LOOKUP_TOKENS = 2  # of the text that a lookup searches for; fewer drafts than these are not made
WORDS = 8  # with so few, the last two tokens nearly always stand in the text before
FEW = ("-b", "2048", "-ub", "2048")


@dataclass(frozen=True)
class ServedPoint:
    """One load.

    `decode`: slots that are filled to `input_tokens` once and then decode `length` steps side by
    side. `closed`: clients that send one prompt after the other, `length` tokens each +- 50 %.
    `places` are the slots that decode, as many as `concurrency`; empty: the first ones, side by
    side.
    """

    kind: Literal["decode", "closed"]
    concurrency: int
    input_tokens: int
    length: int
    rounds: int = 2
    sampling: str = ""  # a name of SAMPLING; empty: the server's default
    places: tuple[int, ...] = ()

    @property
    def slots(self) -> tuple[int, ...]:
        """The slots that decode."""
        return self.places or tuple(range(self.concurrency))

    @property
    def key(self) -> str:
        """The load as text, the key of its rows."""
        tail = f":{self.sampling}" if self.sampling else ""
        tail += f":at{'.'.join(map(str, self.places))}" if self.places else ""
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
class ServedJob:
    """One server start and its points. `settings` says what differs from the server's defaults.

    `words`: how many token ids prompts and answers are made of, so that lookups find their drafts;
    0: the whole vocabulary.
    """

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

    def as_dict(self) -> dict[str, Any]:
        """Return the job as JSON data."""
        return asdict(self)


def decode(
    clients: Sequence[int], depth: int = 2048, sampling: str = ""
) -> tuple[ServedPoint, ...]:
    """Points that decode only; fewer steps where a step is long."""
    return tuple(
        ServedPoint("decode", c, depth, 64 if c <= 16 else 40, sampling=sampling) for c in clients
    )


def closed_loops(cells: Sequence[tuple[int, int]], sampling: str = "") -> tuple[ServedPoint, ...]:
    """Closed loops over (clients, prompt tokens)."""
    return tuple(ServedPoint("closed", c, n, 128, sampling=sampling) for c, n in cells)


# ---------------------------------------------------------------- llama-server


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
    slots = 1 + max(max(p.slots) for p in points)
    depth = max(p.input_tokens for p in points) + HEADROOM
    lookup = bool(k) and method == "ngram"
    command = [server, "-m", str(gguf), "-ngl", "99", "-fa", "on", "-np", str(slots)]
    command += ["-c", str(slots * depth), "--no-warmup", "--cache-ram", "0"]
    command += ["--ctx-checkpoints", "0", "--no-ui", "--host", "127.0.0.1"]
    command += ["--port", str(LLAMA_PORT), *flags]
    rates = RATES[:k]
    if lookup:
        command += ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-m", str(k)]
        command += ["--spec-ngram-simple-size-n", str(LOOKUP_TOKENS)]
    elif k:
        command += ["--spec-type", "draft-mtp", "--spec-draft-n-max", str(k)]
    if k:
        command += ["--spec-synth-rates", ",".join(map(str, rates))]
    settings = {"slots": slots, "context": slots * depth, "flags": list(flags)}
    return ServedJob(
        f"{campaign}-k{k}{part}" + ("-ngram" if lookup else ""),
        "llama-server",
        version,
        model,
        quant,
        k,
        tuple(command),
        points,
        LLAMA_PORT,
        vocabulary,
        rates,
        settings=settings | ({"method": "ngram"} if lookup else {}),
        words=WORDS if lookup else 0,
    )


def llama_sweep(gguf: Path, **about: Any) -> tuple[ServedJob, ...]:
    """Server starts in order of value: k, then one KV buffer for all slots, closed loops."""
    few, wide = FEW, (1, 4, 8, 16)
    plain = decode((1, 2, 4, 6, 8, 9, 12, 16)) + decode((4, 16), sampling="greedy")
    plain += decode((4, 16), sampling="device") + decode((32, 64))
    jobs = [llama_job(k, gguf, plain if not k else decode(wide), flags=few, **about) for k in KS]
    for k in (0, 2):
        one = (*few, "--kv-unified")
        jobs.append(llama_job(k, gguf, decode((1, 4, 16)), flags=one, part="-unified", **about))
    for k in (0, 2):
        loops = closed_loops(((4, 2048), (16, 2048)))
        jobs.append(llama_job(k, gguf, loops, part="-closed", **about))
    return tuple(jobs)


# ---------------------------------------------------------------- SGLang


def sglang_job(
    k: int,
    points: tuple[ServedPoint, ...],
    *,
    model: str,
    quant: str,
    version: str = "",
    overlap: bool = True,
    layers: int | None = None,
    method: str = "mtp",
    tree: tuple[int, int] | None = None,
    seat: int | None = None,
    config: str = "",
    draft_config: str = "",
) -> ServedJob:
    """An SGLang server over a model's shape with random weights and forced acceptance.

    SGLang draws one accepted length a step for the whole batch: requests do not drift apart.
    `tree` is (top-k, draft tokens) where drafts branch; `seat` numbers servers that start side by
    side on one card, each at its own port.
    """
    rates = RATES[:k]
    asked: dict[str, Any] = {
        "model": model,
        "quant": quant,
        "k": k,
        "overlap": overlap,
        "port": SGLANG_PORT + (seat or 0),
        "method": method,
        "tree": tree,
        "beside": seat is not None,
        "config": config,
        "draft_config": draft_config,
    }
    asked |= {
        "clients": max(p.concurrency for p in points),
        "context": max(p.input_tokens for p in points) + 1024,
        "layers": layers,
    }
    env = {"HF_HUB_OFFLINE": "1", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}
    env |= {"SGLANG_ENABLE_JIT_DEEPGEMM": "0"}
    if k:
        env |= {
            "SGLANG_SIMULATE_ACC_LEN": f"{1 + sum(rates):.3f}",
            # the draft's own tokens are only to be had from a chain
            "SGLANG_SIMULATE_ACC_TOKEN_MODE": "fixed" if tree else "real-draft-token",
        }
    return ServedJob(
        f"{model}-{quant}-k{k}"
        + ("" if overlap else "-sync")
        + (f"-{method}" if k and method != "mtp" else "")
        + (f"-tree{tree[0]}x{tree[1]}" if tree else ""),
        "sglang",
        version,
        model,
        quant,
        k,
        (sys.executable, "-m", "advisor.lab.bench.sglang_server", json.dumps(asked)),
        points,
        SGLANG_PORT + (seat or 0),
        vocabulary_of(config_of(asked)),
        rates,
        env,
        {"overlap": overlap, "attention": "fa3", "deep_gemm": False}
        | {"method": method, "tree": tree, "beside": seat is not None},
    )


def sglang_sweep(model: str, quant: str, version: str = "") -> tuple[ServedJob, ...]:
    """Server starts in order of value: plain and k = 2 in all cells, other k and no overlap in
    few.
    """
    few = tuple((c, 2048) for c in (1, 4, 16, 64))
    every = (*few, (2, 2048), (8, 2048), (32, 2048), (4, 8192), (16, 8192))
    about: dict[str, Any] = {"model": model, "quant": quant, "version": version}
    full = closed_loops(every, "t0") + closed_loops(((16, 2048),), "t1")
    jobs = [sglang_job(k, full, **about) for k in (0, 2)]
    jobs += [sglang_job(k, closed_loops(few, "t0"), **about) for k in (1, 3)]
    jobs += [sglang_job(k, closed_loops(few, "t0"), overlap=False, **about) for k in (2, 0)]
    return tuple(jobs)


def check_together(jobs: Sequence[Job | ServedJob], together: int) -> None:
    """Engines that stand side by side on a card need a memory bound and a port of their own.

    Raises AdvisorError where they lack one.
    """
    for start in range(0, len(jobs) if together > 1 else 0, together):
        group = jobs[start : start + together]
        own = [job for job in group if isinstance(job, Job)]
        ports = [job.port for job in group if isinstance(job, ServedJob)]
        if any(not job.kv_gib for job in own) or len(set(ports)) < len(ports):
            names = ", ".join(job.label for job in group)
            raise AdvisorError(
                f"{names} cannot stand on one GPU together: each takes all of its memory or the "
                f"same port. Give `kv_gib` (vLLM) or `seat` (SGLang) in the sweep file."
            )
