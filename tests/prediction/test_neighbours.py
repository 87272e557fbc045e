"""The lean towards measured pairs: how much one owner, several owners and distance move a
prediction.
"""

import json
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import Plan, Request
from advisor.knowledge import store as knowledge
from advisor.perf import arrays, imputation
from advisor.perf.encoding import encode_plans
from advisor.prediction import cell_pairs, neighbours, predict

Floats = npt.NDArray[np.float64]
HERE = (0.0, 10.0, 1.0, 10.0, 0.0)
NOT_STATED = np.zeros(1, dtype=bool)


def pull(
    pairs: Sequence[tuple[tuple[float, ...], str, float]], at: tuple[float, ...] = HERE
) -> tuple[float, bool, bool]:
    """Shift, covered and near of one question in a cell of `pairs` (place, rig, miss)."""
    n = len(pairs)
    where: Floats = np.array([p for p, _, _ in pairs])
    miss: Floats = np.array([m for _, _, m in pairs])
    rigs = np.array([r for _, r, _ in pairs])
    cell = neighbours.Nearby.build(np.full(n, 7), where, rigs, np.zeros(n), miss)
    cell = neighbours.Nearby.from_dict(json.loads(json.dumps(cell.to_dict())))
    found = cell.pull(np.array([7]), np.array([at]), np.zeros(1), NOT_STATED)
    return float(found.mean[0]), bool(found.closeness[0] >= 1), bool(found.near[0])


def move(streams: float = 0.0, context: float = 0.0, k: float = 0.0) -> tuple[float, ...]:
    return (HERE[0] + streams, HERE[1] + context, HERE[2] + k, *HERE[3:])


def test_a_strangers_pair_moves_by_a_fifth_of_its_miss_at_most() -> None:
    shift, covered, near = pull([(HERE, "a", -0.3)])
    assert shift == pytest.approx(-0.3 * knowledge.threshold("stranger_weight").value)
    assert knowledge.threshold("stranger_weight").value <= 0.2 and covered and near


def test_a_pair_without_a_stated_acceptance_moves_nothing() -> None:
    """Its miss may be what was accepted there; that it was measured still counts."""
    assert pull([(HERE, "a", math.nan)]) == (0.0, True, True)
    assert pull([(HERE, "a", math.nan), (HERE, "b", -0.3)]) == pull([(HERE, "b", -0.3)])


def test_other_cells_are_left_alone() -> None:
    cell = neighbours.Nearby.build(
        np.array([7]), np.array([HERE]), np.array(["a"]), np.zeros(1), np.array([-0.3])
    )
    found = cell.pull(np.array([8]), np.array([HERE]), np.array([0.1]), NOT_STATED)
    assert (found.mean[0], found.closeness[0]) == (0.1, False)


def closeness_at(places: Floats, asked: Floats) -> Floats:
    """How far configurations were measured by pairs at these places, one owner each."""
    n = len(places)
    pairs = np.column_stack([places, np.arange(n), np.zeros((n, 2))])
    none = np.zeros(len(asked))
    return cell_pairs.of_cell(cell_pairs.group_pairs(pairs), asked, none, none > 0).closeness


def test_a_load_between_two_measured_ones_is_as_well_known_as_they_are() -> None:
    """The bound for "on" rose between 2 and 4 requests that were measured, and fell again."""

    def closeness(*measured: float) -> Floats:
        places = np.array([move(streams=at) for at in measured])
        return closeness_at(places, np.array([move(streams=at) for at in np.linspace(-3, 6, 37)]))

    one, two = closeness(0.0), closeness(0.0, 3.0)
    assert one.max() == two.max() == 1 and (two >= one).all()
    assert (two[12:25] == 1).all() and one[24] == 0
    for found in (one, two):  # it rises once and falls once, without a jump
        rises = np.sign(np.diff(found))[np.diff(found) != 0]
        assert (np.diff(rises) != 0).sum() == 1 and np.abs(np.diff(found)).max() <= 0.26
    assert closeness(0.0, 0.0).tolist() == one.tolist()
    beside = np.array([move(), move(context=3.0, streams=3.0)])
    far = closeness_at(beside, np.array([move(streams=1.5)]))
    assert far[0] < 0.6, "the other one was measured at another context"


def test_pull_fades_with_distance() -> None:
    shifts = [pull([(HERE, "a", -0.3)], move(streams=d))[0] for d in (0.0, 1.0, 3.0, 8.0)]
    assert shifts == sorted(shifts) and abs(shifts[-1]) < 0.02
    assert not pull([(HERE, "a", -0.3)], move(streams=8.0))[2]


@pytest.mark.parametrize(
    ("measure", "fade"), [*enumerate((0.25, 0.2, 0.25, 0.15, 0.1))], ids=cell_pairs.MEASURES
)
def test_how_fast_each_measure_loses_touch(measure: int, fade: float) -> None:
    """A pair alone moves by its miss times its correlation: exp(-fade) at a distance of one."""
    at = tuple(value + (i == measure) for i, value in enumerate(HERE))
    most = knowledge.threshold("stranger_weight").value
    assert pull([(HERE, "a", -0.3)], at)[0] == pytest.approx(-0.3 * most * math.exp(-fade))
    by = {4: 1.0}.get(measure, fade)  # a decode speed says little of a whole load's sign
    assert evidence([0.3], at) == pytest.approx(math.exp(-2 * by))


def test_the_nearest_pair_of_an_owner_speaks_for_it() -> None:
    crowd = [(move(k=0.3 * i), "a", -0.1) for i in range(8)]
    at = move(streams=8.0)
    assert pull([*crowd, (at, "a", -1.1)], at)[0] < 0.8 * pull([(at, "a", -1.1)], at)[0]


def test_rows_of_one_owner_are_one_witness() -> None:
    assert pull([(HERE, "a", -0.2)] * 6 + [(HERE, "b", 0.2)])[0] == pytest.approx(0.0, abs=1e-6)


def evidence(
    whole: Sequence[float],
    at: tuple[float, ...] = HERE,
    expected: float = 0.0,
    told: float = math.nan,
    stated: bool = False,
) -> float:
    """Side of 1 of a question whose log gain is `expected`, by pairs with these whole misses; with
    their stated acceptance they miss by `told`.
    """
    n = len(whole)
    rigs = np.array([f"rig{i}" for i in range(n)])
    where = np.array([HERE] * n)
    cell = neighbours.Nearby.build(np.full(n, 7), where, rigs, np.array(whole), np.full(n, told))
    asked = (np.array([7]), np.array([at]), np.array([expected]), np.array([stated]))
    return float(cell.pull(*asked).evidence[0])


def test_the_side_of_measured_pairs_moves_the_odds() -> None:
    assert evidence([0.3]) == pytest.approx(1.0) and evidence([-0.3, -0.2]) == pytest.approx(-1.0)
    assert evidence([0.3, -0.3]) == pytest.approx(0.0)
    assert 0 < evidence([0.01]) < 0.5  # hardly on either side
    along = [evidence([-0.3], move(streams=d)) for d in (0.0, 1.0, 3.0, 8.0)]
    assert along == sorted(along)


def test_a_miss_at_another_k_carries_over_and_what_differs_is_physics() -> None:
    """A pair lost because of both: what a cycle costs everywhere (miss), and what its own k costs.
    A question of another k loses where physics leaves less than that miss, and gains beyond it.
    """
    at = move(k=0.6)
    assert evidence([-0.4], at, expected=0.2) < -0.5 and evidence([-0.4], at, expected=0.6) > 0.5


def test_a_stated_acceptance_leaves_out_what_was_accepted_elsewhere() -> None:
    """The pair accepted little (whole miss -0.4) but cost what was expected (told miss 0)."""
    assert evidence([-0.4], expected=0.2, told=0.0) == pytest.approx(-1.0)
    assert evidence([-0.4], expected=0.2, told=0.0, stated=True) == pytest.approx(1.0)


def test_request_speed_and_tpot_are_one_cell_and_ttft_is_not() -> None:
    facts = facts_for_request(
        Request(hardware="gb10", concurrency=1, ctx_tokens=2048, quant="fp8", engine="vllm")
    )
    plan = Plan(
        engine="vllm", engine_version=facts.engine_version, method="mtp", k=2, max_num_seqs=4
    )
    raw = encode_plans.from_plans(facts, [plan] * 4).replace(metric=0)
    codes = np.array(
        [arrays.METRICS.index(m) for m in ("output_tok_s", "request_tok_s", "tpot", "ttft")],
        dtype=np.int16,
    )
    points = arrays.concat(
        [raw.take(np.array([i])).replace(metric=int(code)) for i, code in enumerate(codes)]
    )
    keys = neighbours.cell_keys(points, predict.load().raw(points).full)
    assert len(set(keys[:3].tolist())) == 1 and keys[3] != keys[0]


def test_names_that_nobody_knows_share_no_cell() -> None:
    """Two unknown cards or models are two: what was measured of one says nothing of the other."""
    points = encode_plans.from_plans(
        facts_for_request(Request(hardware="gb10", model="qwen3.6-35b-a3b")), [Plan(engine="vllm")]
    )
    full = imputation.impute(points)
    nameless = (
        points.replace(hardware_name=np.full(1, np.nan)),
        points.replace(model_name=np.full(1, np.nan)),
        points.replace(hardware_name=np.full(1, np.nan), model_name=np.full(1, np.nan)),
    )
    assert neighbours.cell_keys(points, full)[0] >= 0
    assert [int(neighbours.cell_keys(raw, full)[0]) for raw in nameless] == [-1, -1, -1]
