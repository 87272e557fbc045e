"""The closed loop: mean values against the step-by-step replay, the seeds' serving tests, and what
must always hold.
"""

from functools import partial

import numpy as np
import numpy.typing as npt
import pytest

from advisor.perf import arrays as P
from advisor.perf import load, schedule
from advisor.perf.physics import Constants
from advisor.prediction import acceptance
from tests.perf import rows
from tests.reference import replay
from tests.tables import cells, fields

C = Constants()
ROW = rows.ROW | {"output_tokens": "128"}
GB10 = rows.GB10 | {"output_tokens": "128", "max_num_batched_tokens": "16384"}
ACCEPTED = [0.816, 0.778, 0.756, 0.75, 0.75, 0.74, 0.73, 0.73]
points = partial(rows.points, base=ROW)


def tau_of(p: P.Points) -> npt.NDArray[np.float64]:
    return acceptance.tokens_per_step(np.tile(ACCEPTED, (len(p), 1)), p.k)


def drawn_loads() -> P.Points:
    """Loads, prompt and output lengths, engines and cards by seeded dice."""
    rng = np.random.default_rng(5)
    changes: list[dict[str, object]] = []
    for _ in range(64):
        clients = int(rng.choice([1, 2, 4, 8, 12, 24, 48, 96]))
        changes.append(
            {
                "hardware": rng.choice(
                    ["h200", "gb10", "rtx3090", "l4", "strix-halo", "rtx-pro-6000"]
                ),
                "engine": rng.choice(["vllm", "sglang", "llama.cpp"]),
                "k": rng.integers(1, 7),
                "concurrency": clients,
                "input_tokens": int(10 ** rng.uniform(1.5, 4.5)),
                "output_tokens": int(10 ** rng.uniform(1.3, 3.2)),
                "output_spread": rng.choice([0, 0.2, 0.5, 0.8]),
                "n_requests": clients * int(rng.choice([2, 4, 8])),
                "model": rng.choice(["qwen3.6-35b-a3b", "qwen3.6-27b"]),
            }
        )
    return points(*changes)


def test_mean_values_follow_the_replay_anywhere() -> None:
    """Random loads, lengths, engines and cards: 4 % on average for the output ratio, else 9 %."""
    p = drawn_loads()
    tau = tau_of(p)
    fluid = [schedule.replay(p, C, tau, arm) for arm in ("base", "spec")]  # type: ignore[arg-type]
    exact = [
        [replay.simulate(p, C, tau, arm, i) for i in range(len(p))] for arm in ("base", "spec")
    ]  # type: ignore[arg-type]
    for name, limit in (
        ("output_tok_s", 0.04),
        ("request_tok_s", 0.04),
        ("tpot_s", 0.09),
        ("ttft_s", 0.09),
    ):
        logs = [
            np.log(getattr(f, name) / np.array([getattr(e, name) for e in found]))
            for f, found in zip(fluid, exact, strict=True)
        ]
        assert np.abs(logs[1] - logs[0]).mean() < limit, name


def test_equal_lengths_lock_the_prefill_steps() -> None:
    """16 prompts of 2k: a joint start of equal lengths favours the plain arm, +-50 % does not."""
    p = points(*({"concurrency": 16, "n_requests": 80, "output_spread": s} for s in (0, 0.5)))
    tau = tau_of(p)
    equal, unequal = rows.speedups(p, C, tau)["output_tok_s"]
    assert equal < 1.06 and 1.12 < unequal < 1.30
    exact = [
        replay.simulate(p, C, tau, "spec", i).output_tok_s
        / replay.simulate(p, C, tau, "base", i).output_tok_s
        for i in (0, 1)
    ]
    assert exact[1] - exact[0] > 0.1


# output tok/s off and on, TPOT ms off and on, TTFT ms off and on (GB10 tests A to D; A states no
# TTFT)
SEED_TESTS = {
    "A": ({"input_tokens": 512, "output_tokens": 512}, (50.51, 54.92), (19.45, 17.82), None),
    "B": (
        {"concurrency": 4, "input_tokens": 8192, "output_tokens": 256},
        (73.98, 68.68),
        (35.66, 46.62),
        (4742, 2892),
    ),
    "C": (
        {"concurrency": 16, "output_tokens": 512},
        (214.28, 266.25),
        (67.03, 55.58),
        (3979, 1721),
    ),
    "D": ({"concurrency": 2, "output_tokens": 256}, (73.88, 77.60), (24.36, 23.5), (718, 502)),
}


@pytest.mark.parametrize("name", SEED_TESTS)
def test_gb10_serving(name: str) -> None:
    """Unfitted physics: within 25 % of each figure that the joint start does not decide."""
    change, output, tpot, ttft = SEED_TESTS[name]
    p = points({**change, "n_requests": 20 if name != "C" else 64}, base=GB10)
    tau = np.array([2.45])
    for arm, index in (("base", 0), ("spec", 1)):
        served = schedule.replay(p, C, tau, arm)  # type: ignore[arg-type]
        assert served.output_tok_s[0] == pytest.approx(output[index], rel=0.2)
        assert served.tpot_s[0] * 1e3 == pytest.approx(tpot[index], rel=0.35)
        if ttft and name != "B":
            assert served.ttft_s[0] * 1e3 == pytest.approx(ttft[index], rel=0.4)


def test_gb10_b_is_lockstep() -> None:
    """Test B (TTFT -39 %, TPOT +31 %): all prompts in one step leave the plain decode alone."""
    change = {**SEED_TESTS["B"][0], "n_requests": 20, "max_num_batched_tokens": 33_000}
    p = points(change, base=GB10)
    gains = rows.speedups(p, C, np.array([2.45]))
    assert gains["ttft"][0] > 1.5 and gains["tpot"][0] < 0.9
    plain = schedule.replay(p, C, np.array([2.45]), "base")
    assert plain.tpot_s[0] == pytest.approx(35.66e-3, rel=0.05)
    assert plain.ttft_s[0] == pytest.approx(4.742, rel=0.2)


def test_clients_time_adds_up() -> None:
    """TTFT + (O - 1) TPOT is a request's time; slots over it the request rate, but the drain."""
    p = points(*({"concurrency": c, "n_requests": 100_000} for c in (1, 4, 32)))
    served = schedule.replay(p, C, tau_of(p), "spec")
    spent = served.ttft_s + (p.output_tokens - 1) * served.tpot_s
    assert p.concurrency / spent * p.output_tokens == pytest.approx(served.output_tok_s, rel=0.01)


def test_slots_limit_and_queue() -> None:
    p = points(
        {"concurrency": 64, "max_num_seqs": 8, "n_requests": 512},
        {"concurrency": 8, "n_requests": 512},
    )
    served = schedule.replay(p, C, tau_of(p), "base")
    assert served.output_tok_s[0] == pytest.approx(served.output_tok_s[1], rel=0.02)
    assert served.ttft_s[0] > 3 * served.ttft_s[1]
    exact = replay.simulate(p, C, tau_of(p), "base", 0)
    assert served.ttft_s[0] == pytest.approx(exact.ttft_s, rel=0.2)


def test_pool_limits_and_sglang_cap() -> None:
    each = ("kv_pool_tokens=20000", "engine=sglang")
    p = points(*(fields(f"concurrency=64 {more}") for more in each))
    plain, drafts = (load.load(p, C, tau_of(p), spec).clients for spec in (False, True))
    assert plain[0] < 10 and (plain[1], drafts[1]) == (64, 48)


def test_weights_are_counted_by_tensor_class_else_by_the_bits_of_the_name() -> None:
    """1 B of mixers in 16 bits, 3 B of FFN in 4, the other 4 B in 8: 2 + 1.5 + 4 GB."""
    sizes = {"total_params": 8e9, "dense_ffn_params": 3e9, "lm_head_params": 1e9, "quant_bits": 4.0,
             "bytes_mixer": 2.0, "bytes_ffn": 0.5, "bytes_lm_head": 1.0}  # fmt: skip
    none = dict.fromkeys(("shared_params", "experts", "expert_params", "moe_layers"), 0.0)
    p = points({}, {}).replace(mixer_params=np.array([1e9, np.nan]), **sizes, **none)
    assert load.weight_bytes(p).tolist() == [7.5e9, 4e9]


def test_unknown_memory_limits_nobody() -> None:
    p = points(
        {"concurrency": 64, "hardware": "unknown"},
        {"concurrency": 64, "hardware": "rtx3060"},
        {"concurrency": 40, "hardware": "unknown", "engine": "sglang"},
        {"concurrency": 256, "hardware": "unknown", "engine": "sglang"},
    )
    for spec in (False, True):
        assert load.load(p, C, tau_of(p), spec).clients.tolist() == [64, 64, 40, 256]


def test_sglang_runs_what_its_state_pool_holds() -> None:
    """35B-A3B FP8, 8192 + 1024 tokens, H200: about 94 requests ran (rate times TPOT)."""
    p = points(fields("concurrency=1024 engine=sglang input_tokens=8192 output_tokens=1024"))
    assert load.load(p, C, tau_of(p), False).clients[0] == pytest.approx(94, rel=0.15)


def test_prefix_hits_are_whole_pages_and_mtp_drops_one() -> None:
    share = {"input_tokens": 8192, "prefix_share": 0.5, "prefix_caching": 1}
    p = points(share, {**share, "engine_version": "0.33.0"}, {**share, "prefix_caching": 0},
               {**share, "model": "qwen3.6-27b"})  # fmt: skip
    assert load.prefix_hits(p, False).tolist() == [3 * 1056, 3 * 1056, 0, 5 * 784]  # as logged
    assert load.prefix_hits(p, True).tolist() == [2 * 1072, 3 * 1072, 0, 4 * 800]


def test_caching_cuts_the_plain_arms_prompt() -> None:
    """Pages of 1056, with k = 2 of 1072: 992 of 2048 tokens alone, MTP before 0.33 all at once."""
    on = {"prefix_caching": 1}
    lengths: list[dict[str, object]] = [{**on, "input_tokens": tokens} for tokens in (1000, 8192)]
    p = points(on, {**on, "engine_version": "0.33.0"}, {"prefix_caching": 0}, *lengths)
    tails = [load.load(p, C, tau_of(p), spec).tail.tolist() for spec in (False, True)]
    assert tails == [[992, 992, 0, 0, 800], [0, 976, 0, 0, 1760]]
    ttft = {arm: schedule.replay(p, C, tau_of(p), arm).ttft_s for arm in ("base", "spec")}  # type: ignore[arg-type]
    assert ttft["base"][0] > 1.3 * ttft["base"][2]
    assert ttft["spec"][0] == pytest.approx(ttft["spec"][2], rel=0.05)
    for i in (0, 4):
        for arm in ("base", "spec"):
            exact = replay.simulate(p, C, tau_of(p), arm, i)  # type: ignore[arg-type]
            assert ttft[arm][i] == pytest.approx(exact.ttft_s, rel=0.15)


def test_steps_beyond_the_captured_graphs_cost_where_no_prompt_is_in_them() -> None:
    """H200, 128 requests: k = 4 (640 tokens) loses with 64 prompt tokens, gains with 2048."""
    at = fields("concurrency=128 n_requests=512 input_tokens=64 output_tokens=512 output_spread=.5")
    p = points(
        {**at, "k": 3}, {**at, "k": 4}, {**at, "k": 4, "input_tokens": 2048, "output_tokens": 128}
    )
    gain = rows.speedups(p, C, tau_of(p))["output_tok_s"]
    assert gain[1] < 0.8 * gain[0] and gain[2] > 1


def test_recurrent_states_decide_how_many_requests_run() -> None:
    """27B NVFP4 on one RTX 5090: published rates say 15.6 requests ran without MTP and about 6 with
    k = 3 (rate over rate per stream); weights by tensor class and whole pages per state give 16
    and 5.
    """
    asked = (
        "model=qwen3.8-27b quant=nvfp4 hardware=rtx5090 concurrency=64 k=3 input_tokens=512 "
        "output_tokens=512 engine_version=0.27.1 kv_cache_dtype=fp8"
    )
    p = points(cells(asked))
    assert [load.load(p, C, tau_of(p), spec).clients[0] for spec in (False, True)] == [16, 5]


def test_more_accepted_is_never_slower() -> None:
    p = drawn_loads()
    gains = [rows.speedups(p, C, np.fmin(tau_of(p), t))["output_tok_s"] for t in (1.2, 1.6, 2.2)]
    assert (gains[1] >= gains[0] * 0.995).all() and (gains[2] >= gains[1] * 0.995).all()


def test_variance_of_one_draft_is_exact() -> None:
    rate = np.array([0.3, 0.5, 0.9])
    assert load.token_variance(1 + rate, np.ones(3)) == pytest.approx(rate * (1 - rate))


@pytest.mark.parametrize(
    ("clients", "requests", "sd", "steps"),
    [(4, 16, 10, 17.32), (4, 4, 10, 8.66), (4, 2, 10, 8.66), (1, 16, 10, 0), (4, 16, 90, 25.98)],
)
def test_slots_empty_one_by_one(clients: int, requests: int, sd: float, steps: float) -> None:
    """Lengths spread evenly by sqrt(3) deviations, over the root of the rounds, at most by 0.3 of
    100 steps; half of that is what the last one takes longer than the mean.
    """
    known = {"clients": clients, "requests": requests, "steps": 100, "steps_sd": sd}
    columns = (np.full(1, float(known.get(name, 0))) for name in load.Load._fields)
    made = schedule.drain_seconds(load.Load._make(columns), np.full(1, 0.5))
    assert made[0] == pytest.approx(0.5 * steps, rel=1e-3)
