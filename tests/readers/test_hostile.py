"""Hostile input: a bounded time, one clear sentence, nothing executed, no secret shown."""

import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_run import run
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain.nouns import AdvisorError
from advisor.lint.validate import validate
from advisor.readers import read_bytes, read_path, read_text, reading
from advisor.readers.reading import Reading
from advisor.readers.syntax import shell
from advisor.readers.syntax.mapped import Mapped
from advisor.readers.syntax.shell import Shell
from tests.tables import spread

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
import fuzz_readers


@pytest.fixture(autouse=True)
def bound() -> Iterator[None]:
    with at_most(1000):
        yield


def refusal(data: bytes | str, name: str = "a.yaml") -> str:
    with pytest.raises(AdvisorError) as caught:
        read_bytes(data.encode() if isinstance(data, str) else data, name)
    text = str(caught.value)
    assert text.startswith(name) and "\n" not in text
    return text


def bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "\n".join(
        [*lines, "services:", "  v:", "    image: vllm/vllm-openai:v0.25.1", "    command: *a11",
         "    environment: *a11", ""]
    )  # fmt: skip


def test_alias_bombs_are_shared_not_copied() -> None:
    assert read_text(bomb(), "a.yaml").launches == ()
    lines = ["x0: &x0 {image: vllm/vllm-openai, args: [--model, m/A]}"]  # in searched places
    lines += [f"x{i}: &x{i} {{a: *x{i - 1}, b: *x{i - 1}, c: *x{i - 1}}}" for i in range(1, 40)]
    assert len(read_text("\n".join(lines), "a.yaml").launches) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [("a: &a\n  b: *a\n", "contains itself"), ("a: &a\n  <<: *a\nservices: *a\n", ""),
     ("[" * 5000, ""), ("{a: " * 3000, ""), ("- " * 4000 + "x", ""),
     ("a:\n" + "".join(f"{' ' * i}b:\n" for i in range(1, 300)), ""),
     ("[" + "1," * 300_000 + "1]", "more than"),
     *((broken, "mend") for broken in ("a: [", "services:\n\t- x: y\n: :", 'a: "',
                                       "%YAML 9.9\n---\na: b: c", "{broken json: [}")),
     ("HF_TOKEN: hf_QwErTyUiOpAsDfGhJkLz: x: [\n", "")],
    ids=range(13),
)  # fmt: skip
def test_yaml_that_is_none_is_refused_without_its_line(text: str, said: str) -> None:
    told = refusal(text)
    assert said in told and SECRET not in told


def test_large_files_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    with at_most(5), pytest.raises(AdvisorError, match="50 MB"):
        read_path(str(path))


@pytest.mark.parametrize(
    "data",
    [b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4, b"GGUF\x03\x00\x00\x00" + b"\x00" * 100,
     b"a: \x00b"],
)  # fmt: skip
def test_binary(data: bytes) -> None:
    assert "binary" in refusal(data) or "UTF" in refusal(data)


COMPOSE = (
    "services:\n  é:\n    image: vllm/vllm-openai:v0.25.1\n    command: --model m/Ä --port 1\n"
)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"]
)
def test_encodings(encoding: str) -> None:
    launch = read_bytes(COMPOSE.encode(encoding), "a.yaml").launches[0]
    assert launch.model == "m/Ä"
    flag = launch.flag("--port")
    assert (flag.line, flag.column) == (4, 26)


def test_non_ascii_keeps_places_in_shell() -> None:
    text = "# é😀\nM='ü' vllm serve m/Ä --port 1\n"
    flag = read_text(text, "a.sh").launches[0].flag("--port")
    assert text[flag.span.start : flag.span.end] == "--port 1"


def test_special_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "good.sh").write_text("vllm serve m/A --port 1\n")
    (tmp_path / "link.sh").symlink_to(tmp_path / "good.sh")
    for name in ("fifo", "loop", "device", "missing", "", "a\0b"):
        with pytest.raises(AdvisorError):
            read_path(str(tmp_path / name) if name else str(tmp_path))
    assert len(read_path(str(tmp_path / "link.sh")).launches) == 1


@pytest.mark.parametrize(
    "text",
    [
        "".join(f'v{i} = f"{f"{{v{i + 1}}}" * 30} --x"\n' for i in range(9))
        + 'v9 = "vllm serve m/A --port 1 " * 3\n',
        'a = "vllm serve m/A --port 1"\nb = " --x 1"\n' + "a += b\nb += a\n" * 40,
        "a = {}\nb = {}\n" + "a.update(b)\nb.update(a)\n" * 60 + "LLM(**a)\n",
        "".join(f"v{i} = [{f'v{i + 1}, ' * 20}]\n" for i in range(13)) + "LLM(model='m', x=v0)\n",
        "a = " + " + ".join(["'vllm serve -x'"] * 2_000) + "\n",
        "a = 'vllm serve -x'" + " % a" * 2_000 + "\n",
    ],
)
def test_programs_whose_names_multiply(text: str) -> None:
    read_text("import os\n" + text, "a.py")


@pytest.mark.parametrize(
    "text",
    ["vllm serve $(touch {flag}) --port 1", "vllm serve `touch {flag}` --port 1",
     'x=$(touch {flag}); eval "touch {flag}"\nvllm serve m/A --port 1',
     "bash -c 'touch {flag}; vllm serve m/A --port 1'",
     "vllm serve m/A --port $((`touch {flag}`))"],
)  # fmt: skip
def test_nothing_is_executed(text: str, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    assert len(read_text(text.replace("{flag}", str(flag)), "a.sh").launches) == 1
    python = (
        f"import os\nfrom vllm import LLM\nos.system('touch {flag}')\n"
        f"LLM(model=open('{flag}', 'w').name or 'm/A')\n"
    )
    read_text(python, "a.py")
    read_text(f"!!python/object/apply:os.system ['touch {flag}']\n", "a.yaml")
    assert not flag.exists()


PUZZLES = (
    ["$" * 20_000, "${" * 8_000, '"' * 30_001, "`" * 20_001, "(" * 20_000,
     "if true; then\n" * 2_000, "$((" * 5_000, "{" * 20_000, "[[ " * 5_000,
     "x=${a:-" * 3_000 + "}" * 3_000, "A+=($A $A)\n" * 2_000, "f() { f; f; }\nf\n",
     "a() { b; }\nb() { a; a; }\na\n", 'while true; do eval "$x"; done\n',
     "x=1\n" + "x=$x$x\n" * 200, "eval " * 3_000, "bash -c " * 3_000,
     "for i in 1 2 3 4 5 6 7 8; do\n" * 12 + "vllm serve m -tp $i\n" + "done\n" * 12,
     'A+=("${A[@]}" b)\n' + 'A+=("${A[@]}")\n' * 100 + 'vllm serve "${A[@]}"',
     "x=aaaa\n" + "x=${x//a/aaaaaaaa}\n" * 60, "x=" + "$y" * 9_000,
     "vllm serve " + "--port 1 " * 40_000, "case x in\n" * 2_000, "cat <<A\n" * 2_000]
)  # fmt: skip


@pytest.mark.parametrize("text", spread(PUZZLES, 3), ids=range(len(PUZZLES)))
def test_shell_puzzles_end(text: str) -> None:
    read_text(text, "a.sh")


def chain(first: str, line: str, last: str) -> str:
    """A thousand and more names, `@` each of which holds the one before, `%`."""
    lines = (line.replace("@", f"A{n}").replace("%", f"A{n - 1}") for n in range(1, 3_000))
    return first + "\n" + "\n".join(lines) + "\n" + last + "\n"


GROWING = {
    "chain": ("a.sh", chain("A0=m", "@=b$%", "vllm serve $A2999")),
    "array": ("a.sh", "A=(m)\n" + 'A=("${A[@]}" b)\n' * 3_000 + 'vllm serve "${A[@]}"\n'),
    "arguments": ("a.sh", "A=m\n" + "A=$A$A\n" * 14 + 'f() { B="$@"; }\n' + "f $A $A\n" * 500),
    "function": ("a.sh", "A=m\nf() { A=$A$1; }\n" + "f x\n" * 4_000 + "vllm serve $A\n"),
    "nested": ("a.sh", chain("A0=m", "@=$(echo b$(echo $%))", "vllm serve $A2999")),
    "here-document": ("a.sh", chain("A0=m", "@=$(cat <<E\nb$%\nE\n)", "vllm serve $A2999")),
    "shells": ("a.sh", "export A=m\n" + "A=b$A\nbash -c 'B=$A$A$A'\n" * 2_000),
    "eval": ("a.sh", f"A='# {'a' * 20_000}'\n" + 'eval "$A"\n' * 500),
    "image": ("Dockerfile", chain("FROM vllm/vllm-openai:v0.25.1\nENV A0=m", "ENV @=b$%", "")),
}


@pytest.mark.parametrize("name", GROWING)
def test_values_of_a_file_have_one_budget(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it they are unknown: nothing longer than it is put together, and the file says so."""
    taken: list[int] = []
    expand = Reading.expand

    def count(self: Reading, values: list[Mapped]) -> bool:
        allowed = expand(self, values)
        taken.append(allowed and sum(map(len, values)))
        return allowed

    monkeypatch.setattr(reading, "MAX_EXPANDED", 100_000)
    monkeypatch.setattr(Reading, "expand", count)
    report = read_text(GROWING[name][1], GROWING[name][0])
    assert 1_000 < sum(taken) <= 100_000
    assert [note for note in report.notes if "too much text" in note]


def test_a_value_beyond_the_budget_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "M=org/model\nvllm serve $M --port 1\nvllm serve $M --port 2\n"
    assert [one.model for one in read_text(script, "a.sh").launches] == ["org/model"] * 2
    monkeypatch.setattr(reading, "MAX_EXPANDED", 100)
    assert [one.model for one in read_text(script, "a.sh").launches] == ["org/model", None]


def test_commands_that_repeat_a_text_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an alias in every service of compose, by a variable in every line of a unit."""
    services = "".join(f"  s{i}:\n    command: *c\n" for i in range(100))
    compose = f"x: &c vllm serve m/A {'--x 1 ' * 1_000}\nservices:\n{services}"
    starts = "".join(f"ExecStart=/bin/vllm serve m/A --port {i} ${{A}}\n" for i in range(100))
    unit = f"[Service]\nEnvironment=A={'x' * 5_000}\n{starts}"
    monkeypatch.setattr(reading, "MAX_STEPS", 2_000)
    monkeypatch.setattr(reading, "MAX_EXPANDED", 50_000)
    for name, text in (("compose.yaml", compose), ("a.service", unit)):
        report = read_text(text, name)
        assert len(report.launches) <= (50_000 + len(text)) // 5_000 + 1
        assert [note for note in report.notes if "was not read" in note], name


REPEATED = {
    "function": f"f() {{ echo {'a ' * 1_000}; }}\n" + "f\n" * 3_000,
    "loops": "for i in 1 2 3 4 5 6 7 8; do\n" * 4 + f"echo {'a ' * 1_000}\n" + "done\n" * 4,
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_is_read_again_costs_its_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[int] = []
    real = Shell.words
    monkeypatch.setattr(
        Shell, "words", lambda self, nodes: words.append(len(nodes)) or real(self, nodes)
    )
    read_text("vllm serve m\n" + REPEATED[name], "a.sh")
    assert 2_000 < sum(words) < 20 * reading.MAX_STEPS


@pytest.mark.parametrize("mark", "<>|")
def test_runs_of_marks_are_no_operators_to_the_parser(mark: str) -> None:
    """Its time is square in their number; fewer of them are operators."""
    for text, size in ((f"a {mark * 4_000} b", 4_000), (f"a{mark * 4}b\n", 4)):
        parsable = shell._parsable(text)
        assert len(parsable) == len(text) and parsable.count(b"_") == size
    assert shell._parsable(f"a {mark * 3} b") == f"a {mark * 3} b".encode()


def times(line: str, count: int = 3_000) -> str:
    """A line so many times, with its number for `N` and the one behind it for `NEXT`."""
    return "".join(line.replace("NEXT", f"{n + 1}").replace("N", f"{n}") for n in range(count))


BLANKS = " " * 60_000
NAMES = {"batch": "a.cmd", "just": "justfile", "make": "Makefile", "powershell": "a.ps1",
         "presets": "a.ini", "python": "a.py", "shell": "a.sh", "yaml": "a.yaml"}  # fmt: skip
SERVICE = "services:\n  a:\n    image: vllm/vllm-openai:v0.25.1\n    command: "
HOSTILE = {
    "make: empty levels": times(f"AN = {'$(ANEXT)' * 9}\n", 8) + "A8 =\nx:\n\tvllm serve $(A0)\n",
    "make: export": f"export{BLANKS}!\n" + f"export{' ' * 3_000}!\n" * 100,
    "make: rule": f"a{BLANKS}x\n" * 10,
    "make: remark": f"A = 1{BLANKS}x\nA = {BLANKS}\\",
    "make: unclosed": "x:\n\tvllm serve " + "$(" * 30_000 + "\n\tvllm " + "${" * 30_000 + "\n",
    "make: exported": times("export VN = $(W)\n") + times("rN:\n\tx\n"),
    "make: own": times("rN: K = 1\nrN: rNEXT\n\tx\n"),
    "make: patterns": times("%rN: K = 1\n") + times("rN:\n\tx\n"),
    "make: conditions": "A = 1\n" + "ifdef X\nA += 5\nendif\n" * 10_000 + "ifdef Y\n" * 10_000,
    "just: mark": f"s:\n    vllm serve {{{{ {BLANKS}\n    {{{{a{BLANKS}x\n    {'{{ a' * 20_000}\n",
    "just: recipe": f"serve{' ' * 1_900}x\n" * 20 + "s:\n    vllm serve m\n",
    "just: doubling": "a0 := 'xxxxxxxxx'\n" + times("aNEXT := aN + aN\n", 60)
    + "s:\n    vllm serve {{a60}}\n",
    "powershell: lists": "$a = @('x','y')\n" + "$a = @($a,$a)\n" * 2_000 + "& vllm serve $a "
    + "$a " * 3_000 + "\n",
    "powershell: texts": '$a = "xxxx"\n' + '$a = "$a$a"\n' * 60 + "$a += $a\n" * 60
    + "& vllm serve $a\n",
    "powershell: backticks": '& vllm serve "' + "`a" * 20_000 + '\n& vllm serve "'
    + '`"' * 20_000 + "\n",
    "powershell: unclosed lists": f"& vllm {'@(' * 20_000}\n& vllm " + "@('a'," * 20_000 + "\n",
    "batch: doubling": "set A=xxxx\n" + "set A=%A%%A%\n" * 60 + "llama-server.exe "
    + "%A% " * 5_000 + "\n" + "llama-server.exe %A%\n" * 1_000,
    "batch: settings": "set X = 1\n" * 20_000 + "llama-server.exe -m a.gguf\n",
    "yaml: unclosed marks": f"{SERVICE}vllm serve m\n    x: |\n      {'{{ a ' * 60_000}\n",
    "yaml: unclosed variables": SERVICE + "vllm " + "${" * 60_000 + "\n",
    "yaml: defaults": SERVICE + "${A:1} " * 40_000,
    "yaml: variables of dstack": "type: service\nimage: vllm/vllm-openai:v0.25.1\ncommands:\n"
    "  - vllm serve m " + "$DSTACK_GPU_NUX " * 20_000,
    "python: calls": f"from vllm import LLM\nLLM(model=f{'()' * 1_500})\n",
    "python: numbers": "import subprocess\n"
    + 'def f(p: int):\n    subprocess.run(["vllm", "serve", "m", p])\n' * 3_000,
    "presets: colons": "[a]\nmodel = m.gguf\n" + "ctx-size: 1\n" * 9_000,
    "shell: marks": f"vllm serve {('{{a' + ' ' * 30_000) * 10}\n",
    "shell: exports": times("export AN=1\n", 12_000) + "x\n" * 12_000,
    "shell: arrays": times("AN=(1)\n") + times('x "${BN[@]}" "$AN"\n', 8_000),
    "shell: settings": "export A" + BLANKS + "\nA =" + "\t" * 60_000 + "\n" * 9_000,
    "shell: empty lines": "vllm serve m \\\n" + "  \n" * 9_000 + "  --port 1\n",
    "shell: conditions": times("AN=1\n", 10_000) + "if x; then y; fi\n" * 6_000,
    "shell: JSON that never ends": "vllm serve m " + ' "{"a": ' * 40_000,
    "shell: one long word": "vllm serve $M\n# " + "a" * 190_000 + "\n",
    "shell: clients of nobody": "#!/bin/bash\nvllm serve m\n" + "curl x " * 40_000,
    "shell: servers of nobody": "#SBATCH --ntasks-per-node=8\n" + "srun vllm serve m\n" * 8_000
    + "echo $SLURM_PROCID",
    "make: blanks": "a:\n        x y\n" * 20_000 + "\tvllm serve m\n",
    "a recipe without a name": "a := b\nx:\n" + "        echo\n" * 2_000 + "y",
}  # fmt: skip


@pytest.mark.parametrize("about", spread(HOSTILE, 3))
def test_files_that_multiply_or_repeat_end(about: str) -> None:
    read_text(HOSTILE[about], NAMES.get(about.partition(":")[0], "-"))


YAML = "a: {0}{1}\nservices:\n  a: {{image: vllm/vllm-openai, command: --model m}}\n"
BOUNDS = {
    "names": (500, "a.mk", lambda n: times("VN := 1\n", n + 1) + f"x:\n\tvllm serve m --x $(V{n})"),
    "a value": (2_000, "a.mk", lambda n: f"V := {'1' * n}\nx:\n\tvllm serve m --port $(V)"),
    "lines behind": (78, "a.sh", lambda n: "vllm serve m\n" + "#\n" * n + "  --port 1\n"),
    "servers": (500, "a.sh", lambda n: times("vllm serve m --port N\n", n)),
    "levels": (119, "a.yaml", lambda n: YAML.format("[" * n, "]" * n)),
}  # fmt: skip


@pytest.mark.parametrize("about", BOUNDS)
def test_a_bound_is_where_the_documentation_has_it(about: str) -> None:
    """What is beyond it is not read: unknown, refused, or said to be left out."""
    bound, name, text = BOUNDS[about]

    def look(size: int) -> tuple[bool, ...]:
        try:
            read = read_text(text(size), name)
        except AdvisorError:
            return ()
        flags = [flag.unresolved for one in read.launches for flag in one.flags]
        return any(flags), bool(read.notes), any(one.notes for one in read.launches)

    assert look(bound - 1) == look(bound) != look(bound + 1)


LONG = [
    ("a.ps1", "[int]" * 5_000 + "x = 1\n" + "@(" * 3_000 + "\n"),
    ("a.cmd", "set A=1" + BLANKS + "y\nllama-server.exe -m a.gguf\n"),
    ("Makefile", "A = " + "$(A)" * 3_000 + "\nB = " + "$(" * 3_000 + "\nx:\n\tvllm $(A) $(B)\n"),
    ("a.yaml", "v:\n  image: vllm/vllm-openai:v0.32.0\n  command: >\n" + "    --a b\n" * 20_000),
    ("Makefile", "x:\n" + "\tvllm serve m --port 1 \\\n" * 2_000),
    (
        "justfile",
        "x := " + '"a" + ' * 5_000 + '"b"\ns a=' + "(" * 1_000 + ":\n    vllm " + "{{" * 5_000,
    ),
    ("a.sh", "vllm serve " + "<a" * 50_000 + "\n" + "{{a" * 20_000 + "\n"),
    ("a.rst", (".. code-block:: sh\n" + "   vllm serve m\n") * 600),
    ("a.yaml", "a:\n  command: vllm serve m --gpu-memory-utilization 0.9\n" * 500),
    ("a.py", ('c = ("vllm "' + ' +\n f" --x {m}"' * 900 + ")\n") * 20),
]
LONG += [
    ("a.tf", "vllm\n" + text)
    for text in ("[" * 50_000, '"' * 50_000, "'" * 50_000, "''\n" * 20_000, "{" * 50_000,
                 "$(" * 50_000, "{{ a" * 20_000, "vllm serve m " + '"a' * 20_000,
                 "description = " * 20_000, "(" * 200_000, "a = [ 'x' ]\n" * 9_000,
                 'image = "vllm"\n' * 9_000, "vllm serve m --port 1\n" * 9_000,
                 "<<EOF\n" * 20_000, "/*" * 40_000, "x = " + " " * 200_000 + "y", "`\n" * 60_000,
                 "a{" * 70_000, "a ? " * 40_000, "x=<<E\n" * 20_000, 'x="' + "${" * 60_000,
                 "locals {\n a = concat(" + "local.a," * 15_000 + ")\n}\n",
                 'a = "${local.a}${local.a}"\n' * 5_000)
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), spread(LONG, 3), ids=range(len(LONG)))
def test_long_texts_end_soon(name: str, text: str) -> None:
    with at_most(400):
        validate(text=text, name=name)


SECRET = "hf_QwErTyUiOpAsDfGhJkLz"
HIDING = {
    "a.sh": f"export HF_TOKEN={SECRET}\nexport MY_PASSWORD=hunter2hunter2\nvllm serve m/A "
    f"--api-key {SECRET} --hf-token={SECRET}\n",
    "b.yaml": f"services:\n  v:\n    image: vllm/vllm-openai:v0.25.1\n    environment:\n      - "
    f"HUGGING_FACE_HUB_TOKEN={SECRET}\n      - DB_PASSWORD=hunter2hunter2\n"
    f"    command: --model m/A --api-key {SECRET}\n",
    "c.yaml": f"apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - image: "
    f"vllm/vllm-openai:v0.25.1\n    args: [--model, m/A, --api-key, '{SECRET}']\n"
    "    env:\n    - {name: SERVICE_PASSWORD, value: hunter2hunter2}\n",
    "d.ini": f"[q]\nmodel = q.gguf\napi-key = {SECRET}\nhf-token = hunter2hunter2\n",
    "e.service": f"[Service]\nEnvironment=HF_TOKEN={SECRET} "
    f"APP_SECRET=hunter2hunter2\nExecStart=vllm serve m/A --port 1\n",
    "f.py": f"import os\nfrom vllm import LLM\nos.environ['HF_TOKEN'] = "
    f"'{SECRET}'\nLLM(model='m/A', hf_token='hunter2hunter2')\n",
    "g.cmd": f"set HF_TOKEN={SECRET}\nllama-server -m q.gguf --api-key hunter2hunter2\n",
}


@pytest.mark.parametrize("name", HIDING)
def test_secrets_never_reach_an_output(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(HIDING[name])
    report = validate(str(path))
    assert report.launches
    spoken = json.dumps([one.launch.model_dump() for one in report.launches], default=str)
    load = ("--hw", "h200", "--concurrency", "4", "--ctx", "2048")
    for form in ("text", "json", "sarif", "github"):
        for more in ((), ("--diff", "--unsafe-fixes"), load):
            spoken += run("validate", str(path), "--format", form, *more).out
    assert SECRET not in spoken and "hunter2" not in spoken


def test_a_diff_hides_the_lines_around_it(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "services:\n  l:\n    image: ghcr.io/ggml-org/llama.cpp:server-cuda-b10236\n    labels:\n"
        f"      x.password: hunter2hunter2\n    environment:\n      HF_TOKEN: {SECRET}\n"
        "    command: -m /m/q.gguf -fa --jinja --api-key one2three4 five6seven8\n---\n"
        "apiVersion: v1\nkind: Secret\nstringData:\n  api_key: hunter2hunter2\n"
    )
    output = run("validate", str(path), "--diff").out
    assert "[redacted]" in output
    assert not [one for one in (SECRET, "hunter2", "one2three4", "five6") if one in output]


TEXTS = st.text(max_size=300).map(lambda text: text.encode("utf-8", "ignore"))


@settings(max_examples=60)
@given(TEXTS | st.binary(max_size=300), st.sampled_from(fuzz_readers.NAMES))
def test_any_bytes(data: bytes, name: str) -> None:
    fuzz_readers.check(data, name, deep=True)


def names(count: int) -> str:
    return "".join(f"a{number} = 1; " for number in range(count))


@pytest.mark.parametrize(
    "text",
    ["{" + "".join(f"a.b{number}=1;" for number in range(36_000)) + "}",
     f"let x = {{ {names(12_000)} }}; in {{ s.ExecStart = [ {'x.a11999 ' * 12_000} ]; }}",
     f"let s = ''{'x -' * 15_000}''; in {{ s.ExecStart = [ {'s ' * 25_000} ]; }}",
     "a." * 100_000],
    ids=["one-set-in-pieces", "names-into-a-set", "one-text-over-and-over", "a-long-name"],
)  # fmt: skip
def test_nix_files_that_repeat_themselves(text: str) -> None:
    assert read_text(text, "a.nix").launches == ()


def test_quotes_that_stay_open_behind_a_command() -> None:
    assert read_text(("llama-server -m a\n--x " + '\\"' * 3000 + "\n") * 30, "a.sh").launches


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vllm serve m --max-num-seqs $((4if 1 else 2))\n", "a.sh"),
        ("vllm serve m --speculative-config \"{'num_speculative_tokens': 1if 1 else 2}\"\n",
         "a.sh"),
        ('import subprocess\nn = 1if 2 else 3\nsubprocess.run(["vllm", "serve", "m"])\n', "a.py"),
    ],
)  # fmt: skip
def test_what_the_parser_warns_of_is_not_printed(text: str, name: str) -> None:
    """Found by the fuzz target: `<unknown>:1: SyntaxWarning: invalid decimal literal`."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        report = validate(text=text, name=name)
    assert report.files[0].launches == 1 and not said
