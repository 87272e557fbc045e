"""Releases into the catalogue: what is compiled can be taken apart again, and one release added
or replaced.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from advisor.domain.nouns import AdvisorError
from advisor.domain.paths import knowledge_dir
from advisor.engines.extract import build_catalogue, llama

FOLDER = knowledge_dir() / "engines"


def tables(engine: str) -> tuple[dict[str, Any], dict[str, Any]]:
    hot, cold = (
        json.loads((FOLDER / f"{engine}{suffix}.json").read_text(encoding="utf-8"))
        for suffix in ("", "_cold")
    )
    return hot, cold


@pytest.mark.parametrize("engine", build_catalogue.ENGINES)
def test_a_catalogue_comes_apart_into_releases_that_compile_to_it(engine: str) -> None:
    releases = build_catalogue.unfold_catalogue(*tables(engine))
    made = build_catalogue._compile(
        engine, releases, build_catalogue.load_notes(FOLDER / f"{engine}_notes.yaml")
    )
    for suffix, table in zip(("", "_cold"), made, strict=True):
        assert build_catalogue.dump(table) == (FOLDER / f"{engine}{suffix}.json").read_text(
            encoding="utf-8"
        )


def raw(version: str, *rows: dict[str, Any]) -> dict[str, Any]:
    shape = {"dest": "x", "type": "str", "default": None, "choices": None, "nargs": None}
    options = [{**shape, **row} for row in rows]
    return {"engine": "vllm", "version": version, "options": options, "json_configs": {}, "env": []}


def test_a_new_release_ends_what_it_lacks_and_follows_a_renamed_option() -> None:
    new = raw(
        "99.0.0",
        {"flags": ["--max-num-requests", "--max-num-seqs"]},
        {"flags": ["--brand-new"], "choices": ["a", "b"]},
    )
    texts = build_catalogue.with_release(FOLDER, "vllm", new)
    hot = json.loads(texts[FOLDER / "vllm.json"])
    assert hot["versions"][-1] == "99.0.0"
    assert hot["options"]["--brand-new"] == {
        "flags": ["--brand-new"],
        "choices": ["a", "b"],
        "span": ["99.0.0", "99.0.0"],
    }
    renamed = hot["options"]["--max-num-requests"]
    assert "span" not in renamed and renamed["was"][0][1]["flags"][0] == "--max-num-seqs"
    assert hot["options"]["--speculative-config"]["span"][1] == tables("vllm")[0]["versions"][-1]


def test_a_release_read_again_replaces_what_was_known_of_it_and_nothing_else() -> None:
    hot, cold = tables("sglang")
    newest = hot["versions"][-1]
    before = {release.version: release for release in build_catalogue.unfold_catalogue(hot, cold)}
    texts = build_catalogue.with_release(
        FOLDER, "sglang", {**raw(newest, {"flags": ["--only"]}), "engine": "sglang"}
    )
    after = build_catalogue.unfold_catalogue(
        *(json.loads(texts[FOLDER / f"sglang{suffix}.json"]) for suffix in ("", "_cold"))
    )
    assert [release.version for release in after] == list(before)
    assert after[-1].states == ({"flags": ["--only"]},)
    for release in after[:-1]:
        assert (
            len(release.states) == len(before[release.version].states)
            and release.env == before[release.version].env
        )


def test_a_build_of_llama_cpp_needs_its_place_in_the_order() -> None:
    with pytest.raises(AdvisorError, match="add a row for b99999"):
        build_catalogue.with_release(
            FOLDER, "llama-server", {**raw("b99999"), "engine": "llama-server"}
        )


SOURCE = """
    add_opt(common_arg(
        {"-c", "--ctx-size"}, "N",
        string_format("size of the prompt context (default: %d)", params.n_ctx),
        [](common_params & params, int value) { params.n_ctx = value; }
    ).set_env("LLAMA_ARG_CTX_SIZE"));
    add_opt(common_arg(
        {"-fa", "--flash-attn"}, "[on|off|auto]",
        "set Flash Attention use",
        [](common_params & params, const std::string & value) { }
    ).set_env("LLAMA_ARG_FLASH_ATTN"));
    add_opt(common_arg(
        {"--kv-unified"}, {"--no-kv-unified"},
        "use single unified KV buffer",
        [](common_params & params, bool value) { }
    ).set_examples({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg(
        {"--only-for-the-bench"}, "N", "n", [](common_params & params, int value) { }
    ).set_examples({LLAMA_EXAMPLE_BENCH}));
"""


def test_options_of_a_source_file(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "arg.cpp").write_text(SOURCE, encoding="utf-8")
    rows = {row["flags"][0]: row for row in llama.of_sources(tmp_path)}
    assert set(rows) == {"-c", "-fa", "--kv-unified"}
    assert (
        rows["-c"]["nargs"] == 1
        and rows["-c"]["type"] == "int"
        and rows["-c"]["env"] == "LLAMA_ARG_CTX_SIZE"
    )
    assert rows["-fa"]["choices"] == ["on", "off", "auto"]
    assert (
        rows["--kv-unified"]["flags"] == ["--kv-unified", "--no-kv-unified"]
        and rows["--kv-unified"]["nargs"] == 0
    )
