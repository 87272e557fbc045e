"""Which values an option takes stands in the catalogue, read from the release: in its parser, in
the names that it registers, or in the field of a configuration class.
"""

import pytest

from advisor import engines, recommend, validate
from advisor.domain.nouns import AdvisorError

LISTED = ("--attention-backend", "--config-format", "--data-parallel-backend",
          "--distributed-executor-backend", "--dtype", "--kv-cache-dtype", "--load-format",
          "--moe-backend", "--quantization", "--reasoning-parser", "--runner", "--tokenizer-mode",
          "--tool-call-parser")  # fmt: skip


@pytest.mark.parametrize("version", engines.get("vllm").versions)
def test_vllms_lists_are_known_for_every_release(version: str) -> None:
    known = engines.get("vllm").catalogue
    for name in LISTED:
        found, option = known.values(name, version).names, known.option(name, version)
        assert len(found) >= 2 and len(set(found)) == len(found), name
        assert option is not None and (str(option.default or found[0]) in found), name


@pytest.mark.parametrize(
    ("name", "value", "first", "last"),
    [
        ("--load-format", "gguf", None, "0.23.0"),
        ("--load-format", "bitsandbytes", None, "0.27.1"),
        ("--load-format", "ipc_cache", "0.30.0", None),
        ("--mamba-backend", "FLASHINFER", "0.20.2", None),
        ("--tokenizer-mode", "deepseek_v4", "0.20.2", None),
    ],
)
def test_a_value_comes_and_goes(name: str, value: str, first: str | None, last: str | None) -> None:
    known = engines.get("vllm").catalogue
    having = [one for one in known.versions if value in known.values(name, one).names]
    assert having[0] == (first or known.versions[0])
    assert having[-1] == (last or known.newest)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_list_of_the_newest_release_is_asked(engine: str) -> None:
    """The share of options with a list: of vLLM's the others take numbers, texts, paths, JSON."""
    known = engines.get(engine).catalogue
    names = [name for name in known.names(known.newest) if known.values(name, known.newest).names]
    assert len(names) >= {"vllm": 55, "sglang": 96}[engine]


def test_a_format_that_a_release_dropped_is_a_warning_since_plugins_may_add_it() -> None:
    text = "vllm serve m --load-format gguf"
    found = validate(text=text, engine_version="0.33.0").findings
    assert [(one.code, one.severity) for one in found if "load-format" in one.message] == [
        ("SD107", "warning")
    ]
    assert not [
        one for one in validate(text=text, engine_version="0.22.1").findings if one.code == "SD107"
    ]


def test_a_tokenizer_mode_is_written_where_the_release_has_it() -> None:
    asked = {"hardware": "b300", "gpus": 8, "model": "deepseek-v4-flash", "engine": "vllm"}
    new = recommend(**asked, engine_version="0.32.0", what_if=False)
    assert "deepseek_v4" in new.launch.argv
    with pytest.raises(AdvisorError, match="cannot load DeepSeek-V4-Flash"):
        recommend(**asked, engine_version="0.19.1", what_if=False)
