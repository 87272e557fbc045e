"""Rules ask for options by the name under which a launch holds them; an alias would never match."""

import ast
from pathlib import Path

import pytest

from advisor import engines
from advisor.rules.kit.flags import CATALOGUED

FOLDER = Path(engines.__file__).parents[1] / "rules"
ASKING = ("flag", "value", "has_switch", "open_value")  # of kit/case.py, which compare with names
OF_NO_RELEASE = {"--mamba-align-single-block-prefill"}  # LMCache with MTP asks for it
FILES = sorted(FOLDER.glob("sd*/*.py")) + sorted((FOLDER / "kit").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_options_are_asked_for_by_their_own_name(path: Path) -> None:
    calls = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING
    )
    asked = {
        word.value
        for call in calls
        for word in call.args
        if isinstance(word, ast.Constant) and str(word.value).startswith("--")
    }
    known = asked - OF_NO_RELEASE
    assert not {word: own for word in known if word not in (own := names(word))}


def names(word: str) -> set[str]:
    """The names under which the engines' catalogues hold an option, of any release."""
    found = (engines.get(engine).catalogue.find(word, None) for engine in CATALOGUED)
    return {option.name for option in found if option is not None}
