"""Servers in texts that are read by lines: make, just, PowerShell, Terraform, Nix."""

from __future__ import annotations

import pytest
from effort import at_most

from advisor.domain.nouns import Launch
from advisor.readers import read_text


def one(text: str, name: str) -> Launch:
    launches = read_text(text, name).launches
    assert len(launches) == 1, launches
    return launches[0]


# file, text, engine, model, an option and its value
FORMS = {
    "make": (
        "Makefile", "M := Qwen/Qwen3.6-27B\nserve:\n\t@vllm serve $(M) \\\n\t  --port 1\n", "vllm",
        "Qwen/Qwen3.6-27B", "--port", "1",
    ),
    "just": (
        "justfile", "m := 'a.gguf'\nserve:\n    @llama-server -m {{m}} --spec-type draft-mtp\n",
        "llama-server", "a.gguf", "--spec-type", "draft-mtp",
    ),
    "powershell": (
        "a.ps1", "$m = 'C:\\a.gguf'\n$a = @('-c',\n 4096)\n& .\\llama-server.exe -m $m `\n  @a\n",
        "llama-server", "C:\\a.gguf", "--ctx-size", "4096",
    ),
    "heredoc": (
        "a.tf",
        "user_data = <<-EOF\n  #!/bin/sh\n  vllm serve m/A --port 1\nEOF\n",
        "vllm",
        "m/A",
        "--port",
        "1",
    ),
    "nix script": (
        "a.nix",
        "{ script = ''\n  exec ${pkgs.llama-cpp}/bin/llama-server -m a.gguf \\\n"
        "    -c 4096\n''; }\n",
        "llama-server", "a.gguf", "--ctx-size", "4096",
    ),
    "docker": (
        "Makefile", "run:\n\tdocker run --rm vllm/vllm-openai:v0.25.1 --model m/A --port $(P)\n",
        "vllm", "m/A", "--port", "${P}",
    ),
    "a shell inside": (
        "Makefile", "run:\n\tbash -c 'vllm serve m/A --port 1'\n", "vllm", "m/A", "--port", "1",
    ),
    "a launcher": ("Makefile", "run:\n\tuv run vllm serve m/A\n", "vllm", "m/A", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_launch_is_found(form: str) -> None:
    name, text, engine, model, option, value = FORMS[form]
    launch = one(text, name)
    assert (launch.engine, launch.model) == (engine, model)
    if option:
        flag = launch.flag(option)
        assert flag is not None and flag.value == value


PROSE = {
    "nix description": '{ x = mkOption { description = "Path to llama-server '
    '--models-preset. File"; }; }\n',
    "nix text": "{ description = ''\n  Starts llama-server --models-preset FILE.\n''; }\n",
    "enable": '{ enable = lib.mkEnableOption "llama-server --spec-type draft-mtp"; }\n',
    "comment": "# vllm serve m --port 1\n// vllm serve m --port 1\n",
    "message": 'Write-Host "start vllm serve m --port 1"\n',
    "block comment": "<#\n llama-server -m a.gguf -c 1\n#>\n",
    "echo": "x:\n\t@echo vllm serve m --port 1\n",
    "installation": "x:\n\tpip install vllm --upgrade\n",
}


@pytest.mark.parametrize("kind", PROSE)
@pytest.mark.parametrize("name", ["a.nix", "a.ps1", "a.tf"])
def test_words_about_a_server_start_none(kind: str, name: str) -> None:
    assert read_text(PROSE[kind], name).launches == ()


CALLS = """IMAGE := vllm/vllm-openai:v0.25.1
COMMON = --port $(PORT) --kv-cache-dtype fp8
define serve
\t@echo "$(2) starts"
\t@IMG=$${IMG:-$(IMAGE)}; \\
\tdocker run --gpus all $$IMG --model $(1) $(COMMON) $(3) >/dev/null && echo ok
endef
a:
\t$(call serve,Qwen/Qwen3.6-27B,one,--max-num-seqs 2 --tool-call-parser qwen3_xml)
# \t$(call serve,m/dropped,none,)
b:
\t$(call serve,google/gemma-4-26B-A4B-it,two)
"""


def test_a_function_of_make_starts_a_server_for_each_call() -> None:
    """As `make -n a b` prints them (GNU make 4.3, with PORT=1)."""
    first, second = read_text(CALLS.replace("$(PORT)", "1"), "Makefile").launches
    assert (first.model, second.model) == ("Qwen/Qwen3.6-27B", "google/gemma-4-26B-A4B-it")
    assert [flag.value for flag in first.flags if flag.name == "--max-num-seqs"] == ["2"]
    assert all(one.flag("--port").value == "1" for one in (first, second))  # type: ignore[union-attr]
    assert second.flag("--max-num-seqs") is None and second.flag("--tool-call-parser") is None
    assert {one.container.image for one in (first, second) if one.container} == {
        "vllm/vllm-openai:v0.25.1"
    }
    assert len(read_text(CALLS + "define serve\n\techo no\nendef\n", "Makefile").launches) == 1


def test_what_stands_for_a_value_is_unknown_where_it_is_set_twice() -> None:
    text = "TP = 2\nifdef BIG\nTP = 8\nendif\nx:\n\tvllm serve m --tensor-parallel-size $(TP)\n"
    flag = one(text, "Makefile").flag("--tensor-parallel-size")
    assert flag is not None and flag.unresolved and flag.value == "${TP}"
    once = one(text.replace("TP = 8", ""), "Makefile").flag("--tensor-parallel-size")
    assert once is not None and once.value == "2" and not once.unresolved


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000, '"' * 50_000, "'" * 50_000, "''\n" * 20_000, "{" * 50_000, "$(" * 50_000,
        "{{ a" * 20_000, "vllm serve m " + '"a' * 20_000, "description = " * 20_000,
        "a = [ 'x' ]\n" * 9_000, 'image = "vllm"\n' * 9_000, "vllm serve m --port 1\n" * 9_000,
        "<<EOF\n" * 20_000, "/*" * 40_000, "x = " + " " * 200_000 + "y", "`\n" * 60_000,
    ],
    ids=range(16),
)  # fmt: skip
def test_hostile_texts_end_soon(text: str) -> None:
    with at_most(200):
        read_text("vllm\n" + text, "a.tf")
