"""Which servers and which points a step-cost sweep of llama-server or SGLang takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from advisor.lab.bench.cells import RATES
from advisor.lab.bench.shapes import VOCAB
from advisor.lab.bench.shapes import vocabulary as vocabulary_of

LLAMA_PORT, SGLANG_PORT = 9100, 9200
KS = (0, 2, 4, 1, 3, 8, 6)  # most valuable first
HEADROOM = 2048  # tokens that a slot may grow by over its points
LOOKUP_TOKENS = 2  # of the text that a lookup searches for; fewer drafts than these are not made
WORDS = 8  # with so few, the last two tokens nearly always stand in the text before
# Slots that decode of eight: neighbours are one group, and each group beyond is a pass of its own
# where every slot has a KV buffer (llama.cpp #25840).
PLACES = ((0, 1), (0, 4), (0, 1, 2, 3), (0, 1, 4, 5), (0, 1, 3, 5), (0, 2, 4, 6))
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


def llama_depth_sweep(gguf: Path, **about: Any) -> tuple[ServedJob, ...]:
    """Server starts at 16,384 tokens of context, in order of value: draft lengths at 1 to 16 slots,
    a q8_0 KV cache, no flash attention, one KV buffer for all slots.
    """
    few = FEW
    made: list[tuple[int, str, tuple[str, ...], tuple[int, ...]]] = [
        (k, "", (), (1, 4, 8, 16)) for k in (0, 2, 4)
    ]
    made += [(k, "-kvq8", ("-ctk", "q8_0", "-ctv", "q8_0"), (1, 16)) for k in (0, 2)]
    made.append((0, "-nofa", ("-fa", "off"), (1, 16)))
    made += [(k, "-unified", ("--kv-unified",), (4, 8)) for k in (0, 2)]
    return tuple(
        llama_job(k, gguf, decode(at, 16_384), flags=(*few, *flags), part=f"-deep{part}", **about)
        for k, part, flags, at in made
    )


def llama_places_sweep(gguf: Path, **about: Any) -> tuple[ServedJob, ...]:
    """Eight slots of which some decode, side by side and apart, with a KV buffer for each slot and
    with one for all, plain and at k = 2.
    """
    points = tuple(ServedPoint("decode", len(at), 2048, 48, places=at) for at in PLACES)
    points += decode((8,))
    return tuple(
        llama_job(k, gguf, points, flags=(*FEW, *flags), part=f"-places{part}", **about)
        for part, flags in (("", ()), ("-unified", ("--kv-unified",)))
        for k in (0, 2)
    )


def llama_ngram_sweep(gguf: Path, **about: Any) -> tuple[ServedJob, ...]:
    """Drafts by lookup in a text of few words beside MTP's and none: what a lookup saves, and what
    a model with recurrent states pays to go back behind a refused draft.
    """
    loads = decode((1, 4, 8))
    made = ((0, "mtp"), (2, "mtp"), (2, "ngram"), (4, "ngram"))
    return tuple(llama_job(k, gguf, loads, flags=FEW, method=m, **about) for k, m in made)


def llama_blocks_sweep(gguf: Path, **about: Any) -> tuple[ServedJob, ...]:
    """Blocks of 7 and 15 drafts beside none. Each draft needs a copy of a slot's recurrent state,
    so 15 end at 8 slots.
    """
    made = ((0, (1, 8, 16)), (7, (1, 8, 16)), (15, (1, 8)))
    return tuple(
        llama_job(k, gguf, decode(at), flags=FEW, part="-blocks", **about) for k, at in made
    )


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
        vocabulary_of(model),
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


def sglang_shapes(version: str = "") -> tuple[ServedJob, ...]:
    """Shapes and paths that `sglang_sweep` lacks, as servers that start side by side, three at a
    time: EAGLE-3 as a chain and as a tree (the server's own default of four branches), then a
    dense model with its own MTP head.
    """
    points = closed_loops(((1, 2048), (4, 2048), (16, 2048), (64, 2048)), "t0")
    about: dict[str, Any] = {"quant": "bf16", "version": version}
    llama, nine = about | {"model": "llama-3.1-8b"}, about | {"model": "qwen3.5-9b"}
    return (
        sglang_job(0, points, **llama, seat=0),
        sglang_job(3, points, **llama, method="eagle3", seat=1),
        sglang_job(3, points, **llama, method="eagle3", tree=(4, 16), seat=2),
        sglang_job(0, points, **nine, seat=0),
        sglang_job(2, points, **nine, seat=1),
        sglang_job(3, points, **nine, seat=2),
    )
