"""The model card, models/speedup.md: words from card.md.j2, tables from `tables` and `targets`."""

import json
from collections.abc import Sequence
from pathlib import Path

import jinja2

from advisor.domain.paths import models_dir
from advisor.lab.evaluation import calibrated, tables
from advisor.lab.evaluation.scores import Evaluation
from advisor.lab.evaluation.targets import percent, targets
from advisor.lab.training.left_out import GROUPS
from advisor.prediction.artefact import ARTEFACT


def table(header: str, lines: Sequence[Sequence[object]]) -> str:
    """A Markdown table; `header` has " | " between the names of its columns."""
    rows = [header.split(" | "), *lines]
    text = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([text[0], "|" + "---|" * len(rows[0]), *text[1:]])


FOLDER = jinja2.FileSystemLoader(Path(__file__).parent)
PAGES = jinja2.Environment(
    loader=FOLDER, undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
)
TEMPLATE = PAGES.get_template("card.md.j2", globals={"table": table})
TRAINED = {"on": "loss_on", "off": "loss_off", "measure": "measure", "gap": "gain_curve"}
FROM_EVALUATION = (
    "decisions", "regrets", "which_method", "models", "two_regret", "splits", "kinds", "chances",
    "bases", "acceptance", "by_source",
)  # fmt: skip


def training_scores() -> dict[str, float]:
    """The artefact's own scores, as training wrote them, in percent."""
    trained = json.loads((models_dir() / ARTEFACT).read_text(encoding="utf-8"))["scores"]
    shares = {half: trained[half]["mape"] for half in ("known", "hidden")}
    for short, name in TRAINED.items():
        shares |= {short + tail: trained["decision"][name + tail] for tail in ("", "_hidden")}
    return {name: 100 * share for name, share in shares.items()}


def card(evaluation: Evaluation, rows: calibrated.Rows) -> str:
    """The whole card; fits the kernels of own runs to these left-out rows anew (a minute)."""
    e = evaluation.examples
    labels = {"folds": e.fold, "sources": e.source, "rigs": e.rig}
    exams = calibrated.exams(rows, calibrated.kernels_by_owner(rows))
    return TEMPLATE.render(
        count={"rows": len(e)} | {name: len(set(each)) for name, each in labels.items()},
        targets=targets(evaluation),
        trained=training_scores(),
        groups=GROUPS,
        own={
            "owners": exams[0].owners,
            "fewest": calibrated.FEWEST_ARMS,
            "splits": calibrated.SPLITS,
            "without": percent(exams[0].without),
            "table": tables.own_runs(exams),
        },
        **{name: getattr(tables, name)(evaluation) for name in FROM_EVALUATION},
    )
