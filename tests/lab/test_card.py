"""The model card and the artefact of a few sources, beside the same figures by pandas."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from advisor.lab.evaluation import calibrated, evaluate, scores, targets
from advisor.lab.training import dataset, train
from advisor.prediction.model import Model

FEW = "seed000 m5pro kyuz53 lc22673 cmp170 rapidmlx3115 mtpdflash7900 zlabq3527 edgellmgb10"
CLASSES = ("hardware class", "engine", "method", "metric", "streams", "tokens in the context",
           "GPUs")  # fmt: skip


class Made(NamedTuple):
    """What a few sources make: rows that are scored, tables of the card by their first column."""

    evaluation: scores.Evaluation
    rows: pd.DataFrame
    tables: dict[str, list[list[str]]]
    card: str


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
def made(few: None) -> Made:
    with train.single_thread():
        found = evaluate.evaluate()
    text = evaluate.card(found, calibrated.rows_of(found.examples, found.shipped))
    e, fit = found.examples, found.shipped
    columns = {name: getattr(e, name) for name in ("fold", "source", "hardware", "engine", "method",
               "metric", "primary", "acceptance_known", "forced", "log_speedup")}  # fmt: skip
    columns |= {name: getattr(fit, name) for name in ("median", "low", "high", "p_gain", "on_from",
                "off_to", "median_hidden", "low_hidden", "high_hidden")}  # fmt: skip
    rows = pd.DataFrame(columns)
    tables: dict[str, list[list[str]]] = {}
    for part in text.split("\n\n"):
        lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line[:1] == "|"]
        if len(lines) > 2:
            tables.setdefault(lines[0][0] or lines[0][1], lines[2:])
    return Made(found, rows[rows.primary & (rows.metric != "ttft")], tables, text)


def ape(rows: pd.DataFrame, guess: str = "median") -> pd.Series:
    return (np.exp(rows[guess] - rows.log_speedup) - 1).abs()


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def test_each_source_has_its_own_line(made: Made) -> None:
    lines = {}
    for fold, rows in made.rows.groupby("fold"):
        inside = (rows.low <= rows.log_speedup) & (rows.log_speedup <= rows.high)
        means = [f"{np.exp(rows[name].mean()):.2f}" for name in ("log_speedup", "median")]
        errors = [percent(ape(rows, name).mean()) for name in ("median", "median_hidden")]
        counts = [str(len(rows)), str(rows.acceptance_known.sum())]
        lines[fold] = [*counts, *means, *errors, percent(inside.mean(), 0)]
    assert {line[0]: line[1:] for line in made.tables["left out"]} == lines
    assert f"interval and the chance of a gain. {len(made.evaluation.examples)} me" in made.card


def by_source(values: pd.Series, rows: pd.DataFrame) -> float:
    return float(values.groupby(rows.fold).mean().mean())


def test_targets_are_means_over_sources(made: Made) -> None:
    lines = {line[0]: line[1:] for line in made.tables["quantity"]}
    known, natural = (made.rows[pick] for pick in (made.rows.acceptance_known, ~made.rows.forced))
    for side, rows, tail in (("known", known, ""), ("unknown", natural, "_hidden")):
        each = ape(rows, f"median{tail}")
        low, high = rows[f"low{tail}"], rows[f"high{tail}"]
        inside = (low <= rows.log_speedup) & (rows.log_speedup <= high)
        end = f", acceptance {side}"
        pooled = f"the same over rows, median / mean{end}"
        assert lines[pooled][1] == f"{percent(each.median())} / {percent(each.mean())}"
        middle = each.groupby(rows.fold).median().mean()
        shares = {"median APE": middle, "MAPE": by_source(each, rows),
                  "80 % interval: coverage": by_source(1.0 * inside, rows)}  # fmt: skip
        for name, share in shares.items():
            assert lines[f"{name}{end}"][1].startswith(f"{100 * share:.1f} (")
        width = np.exp(by_source((high - low) / 2, rows))
        assert lines[f"80 % interval: width{end}"][1].startswith(f"x{width:.2f} (")
        goal = {"known": 0.06, "unknown": 0.1}[side]
        assert lines[f"median APE{end}"][2] == ("yes" if middle <= goal else "no")
    told = targets.summary(made.evaluation).splitlines()
    assert len(told) == len(lines) and {line[:3] for line in told} == {"met", "NOT", "   "}


def test_the_rule_decides_each_row(made: Made) -> None:
    """On where the median gains and the chance reaches its bound, off at most the other bound."""
    rows, lost = made.rows, made.rows.log_speedup < 0
    on = (rows["median"] > 0) & (rows.p_gain >= rows.on_from)
    off = ~on & (rows.p_gain <= rows.off_to)
    shares = [on[lost].mean(), off[lost].mean(), on[~lost].mean(), off[~lost].mean(),
              (~on & ~off).mean()]  # fmt: skip
    lines = {tuple(line[:3]): line[3:] for line in made.tables["rule"] if len(line) == 8}
    wanted = [percent(share, 0) for share in shares]
    assert lines["this model", "used where stated", "rows"] == wanted
    assert lines["always on", "-", "rows"] == ["100 %", "0 %", "100 %", "0 %", "0 %"]
    assert lines["always off", "-", "rows"] == ["0 %", "100 %", "0 %", "100 %", "0 %"]
    total = sum(int(line[3]) for line in made.tables["acceptance"] if line[0] == "stated")
    assert total == len(rows)


def test_rivals_and_splits_have_their_own_groups(made: Made) -> None:
    rows, lines = made.rows, {line[0]: line[1:] for line in made.tables["model"]}
    known, nothing = rows[rows.acceptance_known], rows.assign(nothing=0.0)
    mape = [by_source(ape(part, "nothing"), part)
            for part in (nothing[rows.acceptance_known], nothing[~rows.forced])]  # fmt: skip
    off = lines["always off (speed-up 1)"]
    assert [off[1], off[3]] == [*map(percent, mape)]
    shipped = lines["+ a fifth of nearby misses (shipped)"]
    assert shipped[1] == percent(by_source(ape(known), known))
    split = {line[0]: int(line[1]) for line in made.tables["split"]}
    weak = made.evaluation.weak
    assert weak is not None and [*split.values()] == [
        *(rows[name].nunique() for name in ("fold", "source", "hardware", "engine")),
        len(set(weak[0].source)),
    ]


@pytest.mark.parametrize("name", CLASSES)
def test_the_lines_of_a_class_are_all_rows(made: Made, name: str) -> None:
    lines, rows = made.tables[name], made.rows
    assert sum(int(line[1]) for line in lines) == rows.acceptance_known.sum()
    assert sum(int(line[7]) for line in lines) == (~rows.forced).sum()
    if name in rows:
        counts = rows[rows.acceptance_known].groupby(name).fold.nunique()
        assert {line[0]: int(line[2]) for line in lines} == {
            label: counts.get(label, 0) for label in rows[name].unique()
        }


def test_the_artefact_is_of_these_rows(few: None) -> None:
    with train.single_thread():
        artefact = train.train()
    examples = dataset.examples(uses=("train",))
    fitted = Model.from_dict(artefact["model"])
    assert (artefact["rows"], artefact["sources_left_out"]) == (len(examples), 9)
    assert artefact["probe"] == train.predictions(fitted, dataset.examples())
    assert len(artefact["probe"]) == min(train.SIZE, len(dataset.examples()))
    guess = fitted.raw(examples.points).mean
    error = np.abs(np.exp(guess - examples.log_speedup) - 1)[examples.primary]
    assert np.median(error) < artefact["scores"]["known"]["pooled_median_ape"] < 0.2
