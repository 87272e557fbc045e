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
from tests.tables import load_yaml

FOLDER = knowledge_dir() / "engines"
CASES = load_yaml(Path(__file__).with_name("words.yaml"))


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
    added = {"flags": ["--brand-new"], "choices": ["a", "b"]}
    new = raw("99.0.0", {"flags": ["--max-num-requests", "--max-num-seqs"]}, added)
    hot = json.loads(build_catalogue.with_release(FOLDER, "vllm", new)[FOLDER / "vllm.json"])
    assert hot["versions"][-1] == "99.0.0"
    assert hot["options"]["--brand-new"] == added | {"span": ["99.0.0", "99.0.0"]}
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
        known = before[release.version]
        assert (len(release.states), release.env) == (len(known.states), known.env)


def test_a_build_of_llama_cpp_needs_its_place_in_the_order() -> None:
    with pytest.raises(AdvisorError, match="add a row for b99999"):
        build_catalogue.with_release(
            FOLDER, "llama-server", {**raw("b99999"), "engine": "llama-server"}
        )


def test_options_of_a_source_file(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    for name in ("arg", "speculative"):
        (tmp_path / "common" / f"{name}.cpp").write_text(CASES[f"{name}_cpp"], encoding="utf-8")
    names = ("flags", "dest", "type", "choices", "nargs", "deprecated", "removed", "env")
    rows = llama.of_sources(tmp_path)
    assert [[row[name] for name in names] for row in rows] == CASES["arg_rows"]
    assert llama.environment(rows) == [
        {"name": "LLAMA_ARG_CTX_SIZE", "type": "int", "default": None},
        {"name": "LLAMA_ARG_FLASH_ATTN", "type": "str", "default": None},
    ]
    (tmp_path / "common" / "speculative.cpp").unlink()  # an older source has no such table
    assert [row["choices"] for row in llama.of_sources(tmp_path)][3] == ["TYPES"]


def test_what_is_kept_of_a_release() -> None:
    notes = {"corrections": CASES["corrections"]}
    rows = [{"action": None} | row for row in CASES["raw"]["options"]]
    release = build_catalogue._release(CASES["raw"] | {"options": rows}, "1.0", notes)
    hot, cold = build_catalogue._compile("vllm", [release], (notes, "hash"))
    assert hot["options"] == CASES["options"] and list(hot["options"]) == [*CASES["options"]]
    assert hot["json_configs"] == {"SpeculativeConfig": {"k": {"type": "int", "limits": [0, 9]}}}
    assert cold["json_configs"] == {"Other": {"far": {"type": "str", "default": "d"}}}
    assert cold["env"] == {"X": {"default": 3, "type": "int"}}
    for table in (hot, cold):
        assert (table["engine"], table["versions"]) == ("vllm", ["1.0"])
    assert hot["content_sha256"] == build_catalogue.content_hash(CASES["options"])
    assert (hot["notes"], hot["notes_sha256"]) == (notes, "hash")
