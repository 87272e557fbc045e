"""Makefiles, justfiles and PowerShell scripts: which value holds where, which launches are found,
and bounded work.
"""
# ruff: noqa: E501

from __future__ import annotations

import pytest

from advisor.domain.nouns import Launch
from advisor.readers import read_text
from advisor.readers.forms.justfiles import read_justfile
from advisor.readers.forms.makefiles import Makefile, read_makefile
from advisor.readers.reading import MAX_STEPS, Reading
from advisor.readers.source import Source
from advisor.readers.syntax.make_variables import (
    MAX_REFERENCES,
    MAX_TEXT,
    MAX_TOTAL,
    Expansion,
    Table,
    logical,
)
from advisor.readers.syntax.mapped import literal
from advisor.readers.syntax.python_nodes import dotted


def launches(text: str, name: str) -> list[Launch]:
    return list(read_text(text, name).launches)


def ports(text: str, name: str = "Makefile") -> list[str | None]:
    flags = [launch.flag("--port") for launch in launches(text, name)]
    return [flag.value if flag is not None else None for flag in flags]


# ---------------------------------------------------------------- make: targets


def test_a_target_has_variables_of_its_own() -> None:
    text = "a: K = 1\na:\n\tvllm serve m --port $(K)\nb: K = 5\nb:\n\tvllm serve m --port $(K)\n"
    assert ports(text) == ["1", "5"]


def test_a_targets_variables_hold_for_what_it_needs() -> None:
    rule = "serve:\n\tvllm serve m --port $(K)\n"
    assert ports("a: K = 1\na: serve\n" + rule) == ["1"]
    assert ports("a: K = 1\na: serve\nb: K = 5\nb: serve\n" + rule) == ["${K}"]
    assert ports("K = 9\na: K = 1\na: serve\n" + rule) == ["${K}"]
    assert ports("serve: K = 2\na: K = 1\na: serve\n" + rule) == ["2"]


def test_a_targets_variable_changes_those_that_use_it() -> None:
    text = "FLAGS = --port $(K)\na b: FLAGS += --seed 1\na: K = 1\nb-x: K = 2\n%-x: K = 3\na:\n\tvllm serve m $(FLAGS)\nb-x c-x:\n\tvllm serve $@ $(FLAGS)\n"
    assert ports(text) == ["1", "2", "3"]
    assert [launch.model for launch in launches(text, "Makefile")] == ["m", "b-x", "c-x"]


# ---------------------------------------------------------------- make: conditions


@pytest.mark.parametrize(
    ("text", "port"),
    [
        ("ifdef BIG\nK = 5\nelse\nK = 1\nendif\n", "${K}"),
        ("K = 1\nifdef BIG\nK = 5\nendif\n", "${K}"),
        ("K = 1\nifdef BIG\nK = 15\nendif\n", "${K}"),
        ("ifeq ($(GPU),h100)\nK = 5\nelse ifeq ($(GPU),h200)\nK = 6\nelse\nK = 1\nendif\n", "${K}"),
        (
            "GPU = h200\nifeq ($(GPU),h100)\nK = 5\nelse ifeq ($(GPU),h200)\nK = 6\nelse\nK = "
            "1\nendif\n",
            "6",
        ),
        ('GPU = h100\nifneq "$(GPU)" "h100"\nK = 5\nelse\nK = 1\nendif\n', "1"),
        ("BIG = 1\nifdef BIG\nK = 5\nelse\nK = 1\nendif\n", "5"),
        ("BIG =\nifdef BIG\nK = 5\nelse\nK = 1\nendif\n", "1"),
        ("ifndef K\nK = 8000\nendif\n", "8000"),
        ("ifdef A\nifdef B\nK = 1\nelse\nK = 1\nendif\nelse\nK = 1\nendif\n", "1"),
        ("ifdef A\nK = 1\n", "1"),
    ],
)
def test_make_conditions(text: str, port: str) -> None:
    assert ports(text + "x:\n\tvllm serve m --port $(K)\n") == [port]


def test_recipe_lines_of_a_condition() -> None:
    lines = "ifeq ($(A),1)\n\tvllm serve m --port 1\nelse\n\tvllm serve m --port 2\nendif\n"
    assert ports("x:\n" + lines) == ["1", "2"]
    assert ports("A = 1\nx:\n" + lines) == ["1"]


def test_what_a_condition_adds_is_read_and_said() -> None:
    read = read_text(
        "F = --port 1\nifdef X\nF += --seed 2\nendif\nx:\n\tvllm serve m $(F)\n", "Makefile"
    )
    assert read.launches[0].flag("--seed") is not None
    assert any("does not decide" in note for note in read.notes)


# ---------------------------------------------------------------- make and just: one shell a line


def test_every_recipe_line_has_its_own_shell() -> None:
    assert ports("x:\n\tPORT=1\n\tvllm serve m --port $$PORT\n") == ["${PORT}"]
    assert ports("x:\n\tPORT=1; \\\n\tvllm serve m --port $$PORT\n") == ["1"]
    assert ports(".ONESHELL:\nx:\n\tPORT=1\n\tvllm serve m --port $$PORT\n") == ["1"]
    assert ports("x:\n    PORT=1\n    vllm serve m --port $PORT\n", "justfile") == ["${PORT}"]
    assert ports("x:\n    PORT=1; \\\n    vllm serve m --port $PORT\n", "justfile") == ["1"]
    assert ports(
        "x:\n    #!/usr/bin/env bash\n    PORT=1\n    vllm serve m --port $PORT\n", "justfile"
    ) == ["1"]
    assert ports(
        "[script('bash')]\nx:\n    PORT=1\n    vllm serve m --port $PORT\n", "justfile"
    ) == ["1"]


def test_define() -> None:
    define = "define START\n@echo hi\nPORT=3\nvllm serve m --port %s\nendef\nx:\n\t%s\n"
    assert ports(define % ("4", "$(START)")) == ["4"]
    assert ports(define % ("$$PORT", "$(START)")) == ["${PORT}"]
    assert ports(define % ("$(1)", "$(call START,5)\n\t$(call START,6)")) == ["5", "6"]
    assert ports("define F\n--port \\\n  7\nendef\nx:\n\tvllm serve m $(F)\n") == ["7"]


# ---------------------------------------------------------------- just


def test_a_conditional_expression_is_named_by_its_variable() -> None:
    text = 'k := if os() == "x" { "1" } else { "2" }\nx:\n    vllm serve m --port {{k}} --seed {{ if k == "1" { "3" } else { "4" } }}\n'
    launch = launches(text, "justfile")[0]
    port, seed = launch.flag("--port"), launch.flag("--seed")
    assert port is not None and (port.value, port.unresolved) == ("${k}", True)
    assert seed is not None and (seed.value, seed.unresolved) == ("${...}", True)


# ---------------------------------------------------------------- PowerShell


@pytest.mark.parametrize(
    "text",
    [
        "Start-Process vllm -ArgumentList 'serve','m','--port','3'",
        'Start-Process vllm -ArgumentList "serve m --port 3"',
        'Start-Process vllm -ArgumentList @("serve","m","--port","3")',
        'Start-Process vllm -ArgumentList @( "serve", "m", "--port", "3" ) -Wait',
        "Start-Process vllm -ArgumentList ('serve','m','--port',\"3\")",
        "start-process -NoNewWindow -FilePath vllm -ArgumentList serve,m,--port,3",
        "$p = start-process vllm -PassThru -ArgumentList 'serve','m','--port','3'",
        "& vllm @('serve','m') --port 3",
        "& vllm 'serve','m','--port','3'",
        "$Port = 3\nvllm serve m --port $port",
        "$Port = 3\n$ENV:port = 4\nvllm serve m --port $PORT",
        "$Rest = 'serve', 'm'\n$rest += '--port', '3'\n& vllm @REST",
        "$Line = 'serve m --port 3'\nStart-Process vllm $line",
    ],
)
def test_powershell_launches(text: str) -> None:
    found = launches(text + "\n", "a.ps1")
    assert [(launch.model, ports(text + "\n", "a.ps1")) for launch in found] == [("m", ["3"])]


def test_commas_inside_values_stay() -> None:
    launch = launches("& llama-server -m a.gguf --tensor-split 1,1 -c 4096\n", "a.ps1")[0]
    split = launch.flag("--tensor-split")
    assert split is not None and split.value == "1,1"
    text = 'vllm serve m --speculative-config "{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":2}"\n'
    config = launches(text, "a.ps1")[0].flag("--speculative-config")
    assert config is not None and config.value == '{"method":"mtp","num_speculative_tokens":2}'


# ---------------------------------------------------------------- bounded work


def expansion_of(text: str) -> Expansion:
    makefile = Makefile(Reading(Source(text, "Makefile")))
    for line in logical(literal(text)):
        makefile.line(line)
    return Expansion(makefile.table, frozenset())


def test_empty_variables_are_expanded_once() -> None:
    text = "Z =\n" + "".join(f"A{i} = {f'$(A{i + 1})' * 20}\n" for i in range(8)) + "A8 = $(Z)\n"
    expansion = expansion_of(text)
    assert expansion.expanded(literal("$(A0)")).text == ""
    assert expansion.references < 500


def test_texts_that_multiply_become_unknown() -> None:
    text = "B = " + "x" * 20_000 + "\n" + "".join(f"A{i} = $(B)x\n" for i in range(300))
    expansion = expansion_of(text)
    held = [expansion.variable(f"A{i}", 0, 0) for i in range(300)]
    assert sum(len(one) for one in held) < MAX_TOTAL + 300 * 20 and held[-1].holed
    assert expansion.references < MAX_REFERENCES
    assert len(expansion_of("A = " + "x" * 900 + "\n").expanded(literal("$(A)" * 90))) < MAX_TEXT


def test_one_unclosed_reference_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    from advisor.readers.syntax import make_variables

    asked: list[int] = []
    monkeypatch.setattr(make_variables, "closing", lambda text, start: asked.append(start) or -1)
    expansion_of("").expanded(literal("$(" * 20_000))
    assert len(asked) == 1


def test_exported_variables_are_expanded_once_for_all_recipes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []
    inner = Expansion.expanded
    monkeypatch.setattr(Expansion, "expanded", lambda *given: counted.append(1) or inner(*given))
    text = "".join(f"export V{i} = $(W)\n" for i in range(150)) + "".join(
        f"r{i}:\n\tx\n" for i in range(150)
    )
    read_makefile(Reading(Source(text, "Makefile")))
    assert len(counted) <= 2 * 150 + 10


def test_additions_are_kept_as_a_chain() -> None:
    table = Table(Reading(Source("", "Makefile")))
    for _ in range(50_000):
        table.assign("", "A", "+", literal("x"), 0)
    assert table.values[("", "A")].size <= MAX_TEXT and table.values[("", "A")].text.holed


@pytest.mark.parametrize("reader", [read_justfile, read_makefile])
def test_recipes_spend_what_their_text_is_worth(reader: object) -> None:
    line = (
        "    vllm serve " + "{{b}}" * 100 + "\n"
        if reader is read_justfile
        else "\tvllm serve " + "$(b)" * 20 + "\n"
    )
    head = 'b := "' + "x" * 900 + '"\n' if reader is read_justfile else "b = " + "x" * 900 + "\n"
    reading = Reading(Source(head + ("s:\n" + line) * 2_000, "x"))
    assert callable(reader)
    reader(reading)
    assert reading.steps >= MAX_STEPS or any("multiply" in note for note in reading.notes)


def test_a_chain_of_calls_has_a_name() -> None:
    import ast

    node = ast.parse("f" + "()" * 500 + "[0]" * 400, mode="eval").body
    assert dotted(node) == ""
    assert dotted(ast.parse("a.b[0](1).c", mode="eval").body) == "a.b.c"
