"""The rulebook: every declaration keeps its contract, every example and case does what it says."""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from rulecases import case_of, doc_cases, yaml_cases
from rulecases import judge as judge_launches

from advisor import engines
from advisor import rules as rulebook
from advisor.domain.nouns import (
    LLM,
    AdvisorError,
    Case,
    Facts,
    Flag,
    Launch,
    Plan,
    Severity,
    UnknownFact,
)
from advisor.rules import all_rules, build, check, decisive_findings, get_rule, registry
from advisor.rules.kit.flags import CATALOGUED
from advisor.rules.kit.relations import spell_out
from advisor.rules.registry import Rule, parse_doc, rule
from tests.tables import spread

RULES = all_rules()
FACT_NEEDS = {*Facts.model_fields, "version", "file", "estimate"}


@pytest.mark.parametrize("declared", RULES, ids=lambda declared: declared.code)
def test_declaration(declared: Rule) -> None:
    text = declared.text
    assert declared.severity in get_args(Severity)
    assert declared.sources and all(source.strip() for source in declared.sources)
    assert set(declared.needs) <= FACT_NEEDS
    assert text.summary.endswith(".") and text.why and text.bad != text.good
    assert declared.code[:3] in ("SD1", "SD2", "SD3", "SD4", "SD5")


def test_a_relation_names_options_that_exist() -> None:
    for engine in CATALOGUED:
        known = engines.get(engine).catalogue
        for row in spell_out(engine):
            for name in re.findall(r"--[a-z][\w-]*", " ".join(row["if"])):
                assert getattr(known.find(name), "name", "") == name, row


def test_many_rules_with_unique_codes_and_slugs() -> None:
    assert len(RULES) >= 120 and max(Counter(r.code for r in RULES).values()) == 1
    assert max(Counter(r.slug for r in RULES).values()) == 1


def test_generated_files_are_current() -> None:
    for path, text in build.outputs().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} has drifted: run python -m advisor.rules.build"
        )


def test_lookup_by_code_slug_and_nearest() -> None:
    assert get_rule("sd201").slug == "mtp-gdn-illegal-access"
    assert get_rule("mtp_gdn_illegal_access").code == "SD201"
    with pytest.raises(UnknownFact, match="SD2"):
        get_rule("SD20l")
    assert "Why:" in rulebook.explain("SD201")


MTP_CASE = case_of(
    facts=Facts(model=LLM(id="x", arch="hybrid-gdn-moe")),
    plan=Plan(engine="vllm", engine_version="0.25.1", method="mtp", k=2, max_num_seqs=8),
)


@pytest.mark.parametrize("part", spread(range(4), 4))
def test_what_decides_is_found_without_the_rules_that_only_inform(part: int) -> None:
    """Of every example and case, as a file and as a plan of ours: the errors, the effects and what
    rules that decide warn of (adaptive verification stops there), among all that is said.
    """
    deciding = {row.code for row in registry.decisive_rows()}
    cases = [*doc_cases(), *yaml_cases()][part::4]
    assert len(cases) > 200
    for case in cases:
        for read in judge_launches(case):
            ours = read.launch.model_copy(update={"emitted": True})
            for told in (read, read.model_copy(update={"launch": ours})):
                expected = tuple(
                    f
                    for f in check(told)[0]
                    if (f.severity, f.code in deciding) == ("warning", True)
                    or f.severity == "error"
                    or f.effect is not None
                )
                assert decisive_findings(told) == expected, case.name


def test_check_selects_and_ignores_codes_families_and_slugs() -> None:
    assert "SD201" in {f.code for f in check(MTP_CASE)[0]}
    assert {f.code for f in check(MTP_CASE, select=["SD201"])[0]} == {"SD201"}
    assert {f.code for f in check(MTP_CASE, select=["mtp-gdn-illegal-access"])[0]} == {"SD201"}
    assert all(f.code.startswith("SD2") for f in check(MTP_CASE, select=["SD2"])[0])
    assert "SD201" not in {f.code for f in check(MTP_CASE, ignore=["sd201"])[0]}
    with pytest.raises(UnknownFact):
        check(MTP_CASE, select=["SD999"])


@pytest.mark.parametrize("code", ["SD118", "sd225", "SD310", "SD421", "SD505"])
def test_a_rule_of_an_earlier_release_may_still_be_ignored(code: str) -> None:
    """A project's settings outlive a rule; to select it or ask for it is refused in plain words."""
    assert check(MTP_CASE, ignore=[code]) == check(MTP_CASE)
    for refused in (lambda: check(MTP_CASE, select=[code]), lambda: get_rule(code)):
        with pytest.raises(UnknownFact, match=f"'{code}' .removed: CHANGELOG.md"):
            refused()


@pytest.mark.parametrize("code", ["SD999", "SD600", "SD42O", "SD4321"])
def test_a_code_that_no_release_had_is_not_ignored(code: str) -> None:
    with pytest.raises(UnknownFact):
        check(MTP_CASE, ignore=[code])


def test_check_is_sorted_and_repeatable() -> None:
    first, second = check(MTP_CASE), check(MTP_CASE)
    assert first == second
    assert list(first[0]) == sorted(
        first[0], key=lambda f: (f.file, f.line, f.column, f.code, f.message)
    )


def test_unpinned_release_caps_versioned_errors() -> None:
    flag = Flag(name="--pipeline-parallel-size", raw="--pipeline-parallel-size", value="4")
    plan = Plan(engine="vllm", engine_version="0.25.1", method="mtp", k=2, pp=4)
    pinned = Launch(
        engine="vllm",
        engine_version="0.25.1",
        version_text="0.25.1",
        version_pinned=True,
        flags=(flag,),
    )
    floating = Launch(engine="vllm", version_text="nightly", flags=(flag,))
    forked = pinned.model_copy(update={"fork": "vllm-ascend"})
    for launch, severity in (
        (pinned.model_copy(update={"emitted": True}), "error"),
        (pinned, "error"),
        (floating, "warning"),
        (forked, "warning"),
    ):
        case = MTP_CASE.model_copy(update={"plan": plan, "launch": launch})
        found = check(case, select=["SD204"])[0]
        assert [f.severity for f in found] == [severity]
        assert ("0.29.0" in found[0].message) == (severity == "warning")


def test_a_lacking_input_is_reported_as_skipped() -> None:
    launch = Launch(engine="sglang", engine_version="0.5.10", version_pinned=True)
    plan = Plan(engine="sglang", engine_version="0.5.10", mamba_strategy="extra_buffer")
    found, skipped = check(Case(facts=Facts(), plan=plan, launch=launch), select=["SD232", "SD215"])
    assert not found
    assert {one.code: one.needs for one in skipped} == {"SD232": ("hardware",), "SD215": ("model",)}


def test_a_rule_without_source_or_home_is_refused() -> None:
    with pytest.raises(AdvisorError, match="source"):
        rule("SD999", "error")(lambda case: iter(()))
    with pytest.raises(AdvisorError, match="SDNNN"):
        rule("", "error", data="memory.kv_tight_share")(lambda case: iter(()))


def test_docstring_parser_names_what_is_missing() -> None:
    with pytest.raises(AdvisorError, match="Good"):
        parse_doc("What.\n\nWhy: so.\nBad: x")
    text = parse_doc(
        "What.\n\nWhy: so\n  and so.\nBad (hw=gb10, ctx=8192): a\n  b\nGood:\n    c\n      d\n"
    )
    assert text.why == "so and so."
    assert text.bad.text == "a b" and text.bad.given == {"hw": "gb10", "ctx": "8192"}
    assert text.good.text == "c\n  d"


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    from click.testing import CliRunner

    from advisor.cli.app import cli

    runner = CliRunner()
    listed = runner.invoke(cli, ["rules"])
    assert listed.exit_code == 0 and len(listed.output.splitlines()) == len(RULES)
    some = runner.invoke(cli, ["rules", "--select", "SD2"]).output.splitlines()
    assert len(some) > 50 and all(line.startswith("SD2") for line in some)
    assert re.match(r"SD201 mtp-gdn", runner.invoke(cli, ["explain", "SD201"]).output)


FOLDER = Path(engines.__file__).parents[1] / "rules"
ASKING = ("flag", "value", "has_switch", "open_value")  # methods of Case that compare with names
OF_NO_RELEASE = {"--mamba-align-single-block-prefill"}  # LMCache with MTP asks for it
FILES = sorted(FOLDER.glob("sd*/*.py")) + sorted((FOLDER / "kit").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_options_are_asked_for_by_their_own_name(path: Path) -> None:
    calls = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ASKING
    )
    asked = {
        word.value
        for call in calls
        for word in call.args
        if isinstance(word, ast.Constant) and str(word.value).startswith("--")
    }
    assert not {word: own for word in asked - OF_NO_RELEASE if word not in (own := names(word))}


def names(word: str) -> set[str]:
    """The names under which the engines' catalogues hold an option, of any release."""
    found = (engines.get(engine).catalogue.find(word, None) for engine in CATALOGUED)
    return {option.name for option in found if option is not None}
