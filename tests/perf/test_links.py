"""What ranks wait for each other, against published all-reduces (tests/perf/all_reduces.csv)."""

import csv
from pathlib import Path

import numpy as np
import pytest

from advisor.perf import arrays as P
from advisor.perf import links
from advisor.perf.constants import Constants
from tests.perf.rows import points

C = Constants()
TABLE = Path(__file__).with_name("all_reduces.csv")
with TABLE.open(encoding="utf-8") as lines:
    MEASURED = [*csv.DictReader(line for line in lines if not line.startswith("#"))]
ONE = np.ones(1)


def all_reduce(elements: float, **row: str | int) -> float:
    """Microseconds of one all-reduce of so many 16-bit elements."""
    p = points({"model": "qwen3-32b", **row})
    return float(links.link_seconds(p, C, elements / p.hidden, ONE)[0]) / 2 * 1e6


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize(
    "hardware", ["h100-sxm", "h200", "a100-80gb", "b200", "l40s", "rtx-pro-6000"]
)
def test_all_reduces_are_those_of_the_table(hardware: str, ranks: int, engine: str) -> None:
    rows = [row for row in MEASURED if (row["hardware"], int(row["ranks"])) == (hardware, ranks)]
    assert len(rows) > 6
    for row in rows:
        made = all_reduce(
            float(row["elements"]), hardware=hardware, tp=ranks, gpu_count=ranks, engine=engine
        )
        most = 1.5 if hardware != "a100-80gb" else 2.2  # scaled by its link, not fitted to
        assert 1 / most < made / float(row["us"]) < most, row


@pytest.mark.parametrize("hardware", ["l40s", "rtx-pro-6000", "h100-sxm", "b200"])
def test_more_ranks_and_more_bytes_wait_longer(hardware: str) -> None:
    for elements in (1e3, 1e5, 1e7):
        times = [all_reduce(elements, hardware=hardware, tp=n, gpu_count=n) for n in (2, 4, 8)]
        assert times == sorted(times) or elements > 1e6  # a switch adds up inside itself
        assert min(times) < all_reduce(elements, hardware=hardware, tp=6, gpu_count=6) < max(times)
        assert all_reduce(2 * elements, hardware=hardware, tp=4, gpu_count=4) > times[1]


def test_two_machines_wait_as_long_as_was_published() -> None:
    """At most 72 us between two GB10s (kubis.ai, Gemma 4 26B on one and two, 2026-04)."""
    row = {"hardware": "gb10", "tp": 2, "gpu_count": 2, "interconnect": "roce"}
    assert 20 < all_reduce(2816, **row) <= 72


def test_a_narrow_link_adds_its_own_bytes() -> None:
    """Four CMP 170HX on PCIe 1.1 x4 decode 16 requests of V4-Flash in 55 ms (yunyinbanfu): two
    waits in each of 43 layers, of 131 kB, take less than that.
    """
    row = {"hardware": "cmp-170hx-64gb", "tp": 4, "gpu_count": 4, "interconnect": "pcie"}
    slow, fast = (all_reduce(65_536, **row | {"hardware": h}) for h in (row["hardware"], "l40s"))
    assert 86 * slow < 55e3 and slow > fast + 1.5 * 131_072 / 1e9 * 1e6 * 0.9


@pytest.mark.parametrize(("kib", "us"), [(48, 59), (1536, 877)])
def test_four_machines_wait_as_long_as_was_published(kib: int, us: float) -> None:
    """NCCL between four GB10s (b12x, docs/rocenante.md); a ring of eight has 14 steps, not 6."""
    row = {"hardware": "gb10", "interconnect": "roce"}
    two, four, eight = (all_reduce(kib * 512, **row, tp=n, gpu_count=n) for n in (2, 4, 8))
    assert 1 / 1.5 < four / us < 1.5 and two < four < eight < four * 14 / 6


def test_cards_without_peer_access_wait_for_the_host() -> None:
    row = {"tp": 2, "gpu_count": 2, "interconnect": "pcie"}
    near, far = (all_reduce(8192, hardware=name, **row) for name in ("l40s", "rtx4090"))
    assert far > 2 * near
    assert all_reduce(8192, hardware="rtx3090", tp=2, gpu_count=2, interconnect="nvlink") < near


def test_one_rank_waits_for_nobody() -> None:
    p = points({"tp": 1})
    assert links.link_seconds(p, C, ONE, ONE)[0] == 0
    assert links.link_seconds(p.replace(link=P.LINKS.index("pcie")), C, ONE, ONE)[0] == 0
