"""The rulebook. `check(case)` serves both `recommend` and `validate`.

To add a rule: write a function under `@rule("SDNNN", ...)` beside those of its subject in sd1 to
sd5, with a docstring that has a summary and the sections Why, Bad, Good and Sources; add cases in
tests/rules/sdNNN.yaml; run `python -m advisor.rules.build`.
"""

from advisor.rules.checking import check, decisive_findings, is_version_pinned
from advisor.rules.registry import Hit, Hits, Lacking, Rule, all_rules, get_rule, rule, when

__all__ = ["Hit", "Hits", "Lacking", "Rule", "all_rules", "check", "decisive_findings", "explain",
           "get_rule", "is_version_pinned", "rule", "when"]  # fmt: skip


def explain(code: str) -> str:
    """The text of one rule. Raises UnknownFact naming the nearest code."""
    from advisor.rules.texts import explanation  # start-up: only to explain

    return explanation(get_rule(code))
