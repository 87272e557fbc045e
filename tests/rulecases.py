"""Cases of rules: texts from docstrings and tests/rules/*.yaml, judged through the real readers.

A file holds a list of cases: `name`, `text`, what is `given` beside it, and the `finding` (or
`findings`) of the file's rule; without one the rule must say nothing. `Bad` and `Good` are the
examples of the rule's docstring. `expect` and `not` name other rules.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from advisor import engines
from advisor.domain.nouns import Case, Evidence, Facts, Plan, Request
from advisor.knowledge import store as knowledge
from advisor.lint.compare import drafting_estimate
from advisor.lint.report import Given
from advisor.lint.validate import understand
from advisor.readers import read_text
from advisor.rules import all_rules
from advisor.rules.registry import Rule
from tests.tables import fields, load_yaml

HERE = Path(__file__).parent / "rules"
# words of a case or a docstring -> what a caller of validate can tell
WORDS = {"output": "output_tokens", "version": "engine_version"}
WORDS |= {one: one for one in ("hw", "gpus", "concurrency", "ctx", "workload", "engine_version")}
NUMBERS = ("gpus", "concurrency", "ctx", "output_tokens")
# words that only a Request can tell, put into the facts
ASKED = (
    *("quant", "prefix_share", "interconnect", "acceptance", "acceptance_length"),
    *("k", "thinking", "goal", "evidence", "ours"),
)


class RuleCase(NamedTuple):
    """A text, the codes that must (`expect`) and must not (`never`) be found, the `severities` of
    some, and the stated findings of the file's rule.
    """

    name: str
    text: str
    given: dict[str, Any]
    expect: tuple[str, ...]
    never: tuple[str, ...]
    severities: dict[str, str]
    stated: tuple[dict[str, Any], ...] = ()


def parse_given(words: Mapping[str, Any]) -> dict[str, Any]:
    """What is told beside the text. An unknown word is an error, never ignored."""
    found: dict[str, Any] = {}
    for word, value in words.items():
        key = word if word in ASKED else WORDS[word]
        found[key] = int(value) if key in NUMBERS else str(value)
    return found


def rule_examples(rule: Rule) -> tuple[RuleCase, RuleCase]:
    """The Bad and the Good example of a rule's docstring."""
    bad, good, code = rule.text.bad, rule.text.good, rule.code
    return (
        RuleCase(f"{code}-bad", bad.text, parse_given(bad.given), (code,), (), {}),
        RuleCase(f"{code}-good", good.text, parse_given(good.given), (), (code,), {}),
    )


def doc_cases() -> Iterator[RuleCase]:
    """Bad must fire, Good must not: one pair per rule."""
    for rule in all_rules():
        yield from rule_examples(rule)


def file_cases(path: Path) -> Iterator[RuleCase]:
    """The cases of one file of tests/rules."""
    code = path.stem.upper()
    for row in rows(path):
        if "text" not in row:
            continue
        unknown = row.keys() - {"name", "text", "given", "expect", "not", "finding", "findings"}
        assert not unknown, f"{path.name}: unknown keys {sorted(unknown)}"
        others = row.get("expect") or []
        findings = statement(row)
        speaks = any("words" in finding for finding in findings)
        yield RuleCase(
            f"{path.stem}-{row['name']}",
            row["text"],
            parse_given(row.get("given", {})),
            (*others, code) if speaks else tuple(others),
            (*row.get("not", ()), *(() if speaks else (code,))),
            dict(others) if isinstance(others, dict) else {},
            findings,
        )


def rows(path: Path) -> list[dict[str, Any]]:
    """The cases of a file as they are written."""
    listed: list[dict[str, Any]] = load_yaml(path)
    return listed


def statement(row: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """What a case states of its rule."""
    return (row["finding"],) if "finding" in row else tuple(row.get("findings", ()))


def yaml_cases() -> Iterator[RuleCase]:
    for path in sorted(HERE.glob("sd*.yaml")):
        yield from file_cases(path)


def judge(case: RuleCase) -> Iterator[Case]:
    """Each launch as `validate` judges it, with what only a Request can tell in the facts."""
    given = Given(**{key: value for key, value in case.given.items() if key in Given._fields})
    launches = read_text(case.text, version=given.engine_version).launches
    if "ours" in case.given:  # as if `recommend` had written it
        launches = tuple(one.model_copy(update={"emitted": True}) for one in launches)
    assert launches, f"{case.name}: no launch is read from the text"
    for number, launch in enumerate(launches):
        told = understand(launch, given)
        others = launches[:number] + launches[number + 1 :]
        facts = with_request(told.facts, case.given)
        yield Case(
            facts=facts,
            plan=told.plan,
            estimate=drafting_estimate(told),
            launch=launch,
            siblings=others,
        )


def launch_case(text: str, number: int = 0, version: str | None = None, **given: Any) -> Case:
    """A launch of a text, beside its others."""
    launches = read_text(text, version=version).launches
    known = understand(launches[number], Given(**given))
    others = launches[:number] + launches[number + 1 :]
    return Case(facts=known.facts, plan=known.plan, launch=launches[number], siblings=others)


def case_of(facts: Facts, plan: Plan) -> Case:
    """A plan of ours with the launch that says it."""
    return Case(facts=facts, plan=plan, launch=engines.get(plan.engine).to_launch(plan))


def with_request(facts: Facts, given: Mapping[str, Any]) -> Facts:
    """The facts with the words that only a Request can tell."""
    words = {key: value for key, value in given.items() if key in ASKED and key != "ours"}
    if not words:
        return facts
    acceptance, length = words.get("acceptance"), words.get("acceptance_length")
    request = Request(
        hardware=given.get("hw", "unknown"),
        acceptance=tuple(float(rate) for rate in acceptance.split("/")) if acceptance else None,
        acceptance_length=float(length) if length else None,
        acceptance_k=int(words["k"]) if "k" in words else None,
        thinking=words["thinking"] == "true" if "thinking" in words else None,
        prefix_share=float(words.get("prefix_share", 0.0)),
        interconnect=words.get("interconnect"),
    )
    known: dict[str, Any] = {"request": request, "goal": words.get("goal") or facts.goal}
    if "evidence" in words:
        known["evidence"] = (own_evidence(words["evidence"], facts),)
    if "quant" in words:
        known["quant"] = knowledge.quant(words["quant"])
    known |= {
        name: getattr(request, name)
        for name in ("prefix_share", "interconnect", "thinking")
        if name in words
    }
    return facts.model_copy(update=known)


def own_evidence(source: str, facts: Facts) -> Evidence:
    """A gain of 10 % measured by one source in the very cell of the facts."""
    known = {name: getattr(facts, name) for name in ("hardware", "model", "quant")}
    ids = {name: one.id if one else "unknown" for name, one in known.items()}
    load = {"input_tokens": facts.ctx_tokens, "output_tokens": facts.output_tokens}
    run = fields("run_id=example method=mtp k=2 metric=output_tok_s speedup=1.1 covers=True")
    return Evidence(source=source, engine=facts.engine or "unknown",
                    concurrency=facts.concurrency, **ids, **load, **run)  # fmt: skip
