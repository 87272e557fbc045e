"""The model card and the artefact of a few sources, beside the same figures by pandas."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from advisor.lab.evaluation import calibrated, evaluate, targets
from advisor.lab.evaluation.scores import Evaluation
from advisor.lab.training import dataset, train
from advisor.prediction.model import Model
from tests.tables import words

FEW = "seed000 m5pro kyuz53 lc22673 cmp170 rapidmlx3115 mtpdflash7900 zlabq3527 edgellmgb10"
EXAMPLES = words("fold metric primary acceptance_known forced log_speedup")
LEFT_OUT = words("median low high p_gain on_from off_to median_hidden low_hidden high_hidden")
Tables = dict[str, list[list[str]]]


@pytest.fixture(scope="module", autouse=True)
def few() -> Iterator[None]:
    """The measurements of a few sources alone; acceptances of every sixth."""
    with pytest.MonkeyPatch.context() as patch:
        every, observations = dataset.examples(), dataset.observations()
        known = np.unique(observations.source)
        here = observations.without({*known} - {*known[::6]})

        def examples(uses: tuple[str, ...] = ("train", "eval")) -> dataset.Examples:
            pick = np.isin(every.use, uses) & np.isin(every.source, FEW.split())
            weak = (every.use == "eval") & (np.arange(len(every)) % 7 == 0)
            return every.take(weak if uses == ("eval",) else pick)

        patch.setattr(dataset, "examples", examples)
        patch.setattr(dataset, "observations", lambda: here)
        yield


@pytest.fixture(scope="module")
def evaluation(few: None) -> Evaluation:
    with train.single_thread():
        return evaluate.evaluate()


@pytest.fixture(scope="module")
def rows(evaluation: Evaluation) -> pd.DataFrame:
    """Those that the card scores."""
    columns = {name: getattr(evaluation.examples, name) for name in EXAMPLES}
    table = pd.DataFrame(columns | {name: getattr(evaluation.shipped, name) for name in LEFT_OUT})
    return table[table.primary & (table.metric != "ttft")]


@pytest.fixture(scope="module")
def tables(evaluation: Evaluation) -> Tables:
    """The lines of the card's tables, by the first name of each, the first of a name."""
    text = evaluate.card(evaluation, calibrated.rows_of(evaluation.examples, evaluation.shipped))
    assert f"chance of a gain. {len(evaluation.examples)} measured pairs (9" in text
    parts = ([line.strip("| ").split(" | ") for line in part.splitlines() if line[:1] == "|"]
             for part in reversed(text.split("\n\n")))  # fmt: skip
    return {lines[0][0] or lines[0][1]: lines[2:] for lines in parts if len(lines) > 2}


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def errors(table: pd.DataFrame, tail: str = "") -> tuple[pd.Series, pd.Series]:
    """Absolute errors of the speed-up as shares, and what lies inside the 80 % interval."""
    inside = table.log_speedup.between(table[f"low{tail}"], table[f"high{tail}"])
    return (np.exp(table[f"median{tail}"] - table.log_speedup) - 1).abs(), inside


def test_each_source_has_its_own_line(rows: pd.DataFrame, tables: Tables) -> None:
    lines = []
    for fold, own in rows.groupby("fold"):
        (each, inside), (blind, _) = errors(own), errors(own, "_hidden")
        means = [f"{np.exp(own[name].mean()):.2f}" for name in ("log_speedup", "median")]
        counts = [str(len(own)), str(own.acceptance_known.sum())]
        shares = [percent(each.mean()), percent(blind.mean()), percent(inside.mean(), 0)]
        lines.append([fold, *counts, *means, *shares])
    assert tables["left out"] == lines


@pytest.mark.parametrize(("side", "tail", "goal"), [("known", "", 6), ("unknown", "_hidden", 10)])
def test_targets_are_means_over_sources(
    rows: pd.DataFrame, tables: Tables, evaluation: Evaluation, side: str, tail: str, goal: float
) -> None:
    lines = {line[0]: line[1:] for line in tables["quantity"]}
    own = rows[rows.acceptance_known if side == "known" else ~rows.forced]
    each, inside = errors(own, tail)
    end, by = f", acceptance {side}", own.fold
    pooled = f"{percent(each.median())} / {percent(each.mean())}"
    assert lines[f"the same over rows, median / mean{end}"][1] == pooled
    middle = each.groupby(by).median().mean()
    shares = {"median APE": middle, "MAPE": each.groupby(by).mean().mean(),
              "80 % interval: coverage": inside.groupby(by).mean().mean()}  # fmt: skip
    for name, share in shares.items():
        assert lines[f"{name}{end}"][1].startswith(f"{100 * share:.1f} (")
    assert lines[f"median APE{end}"][2] == ("yes" if middle <= goal / 100 else "no")
    told = targets.summary(evaluation).splitlines()
    assert len(told) == len(lines) and {line[:3] for line in told} == {"met", "NOT", "   "}


def test_the_rule_decides_each_row(rows: pd.DataFrame, tables: Tables) -> None:
    """On where the median gains and the chance reaches its bound, off at most the other bound."""
    lost = rows.log_speedup < 0
    on = (rows["median"] > 0) & (rows.p_gain >= rows.on_from)
    off = ~on & (rows.p_gain <= rows.off_to)
    shares = [on[lost].mean(), off[lost].mean(), on[~lost].mean(), off[~lost].mean()]
    lines = {tuple(line[:3]): line[3:] for line in tables["rule"] if len(line) == 8}
    wanted = [percent(share, 0) for share in (*shares, (~on & ~off).mean())]
    assert lines["this model", "used where stated", "rows"] == wanted
    assert lines["always on", "-", "rows"] == ["100 %", "0 %", "100 %", "0 %", "0 %"]
    for name in ("engine", "method", "GPUs"):  # each row in one class
        counts = np.array([[int(line[1]), int(line[7])] for line in tables[name]])
        assert counts.sum(axis=0).tolist() == [rows.acceptance_known.sum(), (~rows.forced).sum()]


def test_the_artefact_is_of_these_rows(few: None) -> None:
    with train.single_thread():
        artefact = train.train()
    examples, fitted = dataset.examples(uses=("train",)), Model.from_dict(artefact["model"])
    assert (artefact["rows"], artefact["sources_left_out"]) == (len(examples), 9)
    assert artefact["probe"] == train.predictions(fitted, dataset.examples())
    assert len(artefact["probe"]) == min(train.SIZE, len(dataset.examples()))
    error = np.abs(np.exp(fitted.raw(examples.points).mean - examples.log_speedup) - 1)
    seen = np.median(error[examples.primary])
    assert seen < artefact["scores"]["known"]["pooled_median_ape"] < 0.2
