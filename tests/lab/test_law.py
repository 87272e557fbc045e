"""The step laws hold on points kept out of their fit, within the aim of 8 % in the median."""

from __future__ import annotations

import pytest

from advisor.lab.bench.laws import step_law as law


@pytest.mark.parametrize("found", law.laws(), ids=lambda found: found.name)
def test_law_holds_on_points_kept_out(found: law.Law) -> None:
    assert found.plain_error < 0.08
    assert found.cycle_error < 0.08


def test_a_known_law_is_found_again() -> None:
    points = [
        {"label": "x", "k": k, "concurrency": b, "acceptance_length": 1.0}
        for k in (0, 1, 2, 3)
        for b in (1, 2, 4, 8, 16, 32)
    ]
    for point in points:
        terms = law.server_terms(point)
        point["decode_step_p50_ms"] = sum(
            c * t for c, t in zip((4.0, 9.0, 0.05, 0.8, 0.2), terms, strict=True)
        )
    found = law.fit("made", points, law.server_terms)
    assert found.coefficients == pytest.approx((4.0, 9.0, 0.05, 0.8, 0.2), abs=1e-6)
