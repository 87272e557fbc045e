"""The launch of each way of drafting for the 40 models that recipes verified on the most cards, by
engine: docs/drafters.md, and lines for the engines' own parsers.

    python -m tests.method_table > docs/drafters.md
"""

import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, get_args

from advisor import engines
from advisor.advice import judge, resolve
from advisor.advice.plans import methods, propose, topology
from advisor.advice.recommend import check_request, launch_text
from advisor.domain.nouns import AdvisorError, DraftMethod, Facts, Plan
from advisor.domain.paths import knowledge_dir
from advisor.knowledge import drafters, heads, store
from advisor.knowledge.drafters import TITLES
from tests.tables import load_yaml

RELEASES = {"vllm": "0.33.0", "sglang": "0.5.23", "llama-server": None}
MACHINE = {"hardware": "b300", "gpus": 8, "concurrency": 8}
MOST = 40
ALWAYS = ("ngram", "suffix")  # of any model: one row for all
WORDS = tuple(word for word in get_args(DraftMethod) if word not in ALWAYS)


class Way(NamedTuple):
    """One way of drafting with one engine: its plan, or why there is none."""

    model: str
    word: str
    engine: str
    facts: Facts | None
    plan: Plan | None
    refusal: str

    def argv(self) -> tuple[str, ...]:
        return tuple(launch_text(topology.on_each(self.facts, self.plan)).argv)

    def cell(self) -> str:
        """The words of the launch that draft, or why it does not."""
        if self.plan is None:
            return self.refusal
        flags = engines.get(self.engine).to_launch(self.plan).flags
        spoken = [
            f for f in flags if f.name.startswith("--spec") or f.name in ("-md", "--model-draft")
        ]
        words = [part for f in spoken for part in (f.name, f.value) if part is not None]
        return f"`{shlex.join(words)}`".replace("|", "\\|")


@cache
def recipes(engine: str) -> list[dict[str, Any]]:
    """The rows of an engine's recipes."""
    rows: list[dict[str, Any]] = load_yaml(knowledge_dir() / "recipes" / f"{engine}.yaml")["rows"]
    return rows


def published_k(model: str, word: str, engine: str) -> int | None:
    """The k of the first recipe that drafts so, of the engine's own before the others'."""
    own = "sglang" if engine == "sglang" else "vllm"
    rows = recipes(own) + recipes("sglang" if own == "vllm" else "vllm")
    found = (
        r["k"] for r in rows if r["model"] == model and "k" in r and r["method"].endswith(word)
    )
    return next(found, None)


def top_models() -> list[str]:
    """The models of vllm-project/recipes, those verified on the most cards first."""
    cards: dict[str, int] = {}
    for row in recipes("vllm"):
        cards[row["model"]] = max(cards.get(row["model"], 0), len(row.get("verified", ())))
    return sorted(cards, key=lambda model: (-cards[model], model))[:MOST]


def words_of(model: str) -> list[str]:
    """What a model can draft with: its head, and its drafters' methods."""
    llm = store.llm(model)
    own = ["mtp"] if heads.head(llm).has or llm.assistant else []
    return own + [w for w in WORDS if w in {d.method for d in store.drafters(llm)}]


@cache
def ways() -> tuple[Way, ...]:
    """Every way, each with its published k where there is one."""
    asked = [(model, word) for model in top_models() for word in words_of(model)]
    asked += [("qwen3.6-27b", word) for word in ALWAYS]
    return tuple(way(model, word, engine) for model, word in asked for engine in RELEASES)


@cache
def way(model: str, word: str, engine: str) -> Way:
    """A model's way of drafting with an engine."""
    told: dict[str, Any] = {**MACHINE, "model": model, "engine": engine, "method": word}
    if RELEASES[engine] is not None:
        told["engine_version"] = RELEASES[engine]
    try:
        facts = resolve.facts_for_request(check_request(told))
        base = judge.candidate_plans(facts).base.plan
    except AdvisorError as error:
        return Way(model, word, engine, None, None, str(error))
    method = drafters.asked_method(facts) or "mtp"
    if method not in methods.methods(facts):
        return Way(model, word, engine, facts, None, "none known")
    if (refusal := propose.no_path(facts, base, method)) is not None:
        return Way(model, word, engine, facts, None, refusal)
    own = methods.drafter(facts, method)
    told_k = own.k if own is not None else published_k(model, word, engine)
    plan = propose.with_method(facts, base, method, told_k or methods.k_values(facts, method)[0])
    return Way(model, word, engine, facts, plan, "")


def lines() -> Iterator[dict[str, object]]:
    """The launches, for real_parsers.py; vLLM's parser wants suffix decoding's package at hand."""
    for one in ways():
        if one.plan is not None and one.word != "suffix":
            version = one.plan.engine_version
            yield {"engine": one.engine, "version": version, "argv": list(one.argv())}


def table() -> str:
    """The page."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for one in ways():
        name = "any model" if one.word in ALWAYS else one.model
        rows.setdefault((name, one.word), {})[one.engine] = one.cell()
    made = [one for one in ways() if one.plan is not None]
    head = " | ".join(f"{engine} {version or ''}".strip() for engine, version in RELEASES.items())
    text = [
        "# How each model drafts, by engine",
        "",
        f"The {MOST} models that vllm-project/recipes verified on the most cards, each published",
        f"way of drafting with its k, on 8 x B300: {len(made)} launches, which the engines' own",
        "parsers read in `.ci/real-parsers`. Written by `python -m tests.method_table`.",
        "",
        f"| model | method | {head} |",
        "|---|---|---|---|---|",
    ]
    for (model, word), cells in rows.items():
        title = TITLES.get(word, word)
        text.append(f"| {model} | {title} | {' | '.join(cells[engine] for engine in RELEASES)} |")
    without = [model for model in top_models() if not words_of(model)]
    text += [
        "",
        f"No head and no drafter of theirs is published as far as is known: {', '.join(without)}.",
    ]
    return "\n".join(text) + "\n"


if __name__ == "__main__":
    print(table(), end="")
