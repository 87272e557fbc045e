"""Old command lines on other releases: the meaning stays, the release accepts them, the notes say
what changed.
"""

from __future__ import annotations

import shlex

import pytest

from advisor import engines
from advisor.domain.nouns import AdvisorError, EnvVar, Launch
from advisor.engines import Token
from tests.real.emit_lines import OLD
from tests.refusals import refusals

PAIRS = [(engine, version) for engine in OLD for version in engines.get(engine).versions]
KEPT = (
    "method",
    "k",
    "draft_model",
    "max_num_seqs",
    "max_model_len",
    "tp",
    "kv_cache_dtype",
    "memory_fraction",
    "model",
)


def read(
    engine: str, text: str, version: str | None = None, env: dict[str, str] | None = None
) -> Launch:
    variables = [EnvVar(name=name, value=value) for name, value in (env or {}).items()]
    return engines.get(engine).read(
        [Token(word) for word in shlex.split(text)], variables, version_text=version
    )


@pytest.mark.parametrize(("engine", "version"), PAIRS)
def test_old_lines_are_accepted_everywhere_with_the_same_meaning(engine: str, version: str) -> None:
    adapter = engines.get(engine)
    for old in OLD[engine]:
        launch = read(engine, old)
        try:
            moved, notes = adapter.migrate(launch, version)
        except AdvisorError as error:
            assert "known from" in str(error)
            continue
        assert not refusals(engine, adapter.argv(moved), version), old
        before, after = adapter.to_plan(launch), adapter.to_plan(moved)
        assert moved.engine_version == version and moved.version_pinned
        for noun in KEPT:
            changed = getattr(before, noun) != getattr(after, noun)
            assert not changed or any("dropped" in note or "explicit" in note for note in notes), (
                noun,
                notes,
            )
        again, more = adapter.migrate(moved, version)
        assert (again.flags, again.env, more) == (moved.flags, moved.env, ())


def flags_of(launch: Launch) -> list[tuple[str, str | None]]:
    return [(flag.raw, flag.value) for flag in launch.flags if flag.raw]


@pytest.mark.parametrize(
    ("engine", "text", "source", "target", "has", "note"),
    [
        (
            "llama-server",
            "-m q.gguf -md d.gguf --draft-max 8",
            "b8643",
            "0.5.0",
            ("--spec-draft-n-max", "8"),
            "--draft-max is now",
        ),
        (
            "llama-server",
            "-m q.gguf --no-mmap",
            "b9976",
            "0.5.0",
            ("--load-mode", "none"),
            "--load-mode none",
        ),
        (
            "llama-server",
            "-m q.gguf --mlock",
            "b9976",
            "0.5.0",
            ("--load-mode", "mmap+mlock"),
            "--load-mode mmap+mlock",
        ),
        ("llama-server", "-m q.gguf -fa", "b6200", "0.5.0", ("-fa", "on"), "now takes a value"),
        (
            "llama-server",
            "-m q.gguf --spec-type mtp",
            None,
            "0.5.0",
            ("--spec-type", "draft-mtp"),
            "is now draft-mtp",
        ),
        (
            "llama-server",
            "-m q.gguf -md d.gguf",
            "b8643",
            "0.5.0",
            ("--spec-draft-n-max", "16"),
            "made explicit",
        ),
        (
            "sglang",
            "--model-path m --cuda-graph-max-bs 16",
            "0.5.10",
            "0.5.23",
            ("--cuda-graph-max-bs-decode", "16"),
            "is now",
        ),
        (
            "sglang",
            "--model-path m --mamba-scheduler-strategy no_buffer",
            "0.5.12",
            "0.5.20",
            ("--mamba-radix-cache-strategy", "no_buffer"),
            "is now",
        ),
        (
            "sglang",
            "--model-path Qwen/Qwen3.6-27B --speculative-algorithm NEXTN",
            "0.5.23",
            "0.5.12",
            ("--mamba-scheduler-strategy", "extra_buffer"),
            "refuses MTP",
        ),
        (
            "vllm",
            "m --max-num-seqs 4",
            "0.19.1",
            "0.33.0",
            ("--gpu-memory-utilization", "0.9"),
            "made explicit",
        ),
        (
            "vllm",
            "Qwen/Qwen3.6-27B --gpu-memory-utilization 0.8",
            "0.25.1",
            "0.26.0",
            ("--no-enable-prefix-caching", "false"),
            "explicit",
        ),
        (
            "vllm",
            "m --enable-reasoning --reasoning-parser qwen3",
            "0.19.1",
            "0.24.0",
            ("--reasoning-parser", "qwen3"),
            "dropped",
        ),
        (
            "vllm",
            "m --speculative-model a/d --num-speculative-tokens 3",
            None,
            "0.25.1",
            ("--speculative-config", '{"model":"a/d","num_speculative_tokens":3}'),
            "keys of",
        ),
        (
            "vllm",
            "m --spec-method mtp --spec-tokens 2",
            "0.25.1",
            "0.21.0",
            ("--speculative-config", '{"method":"mtp","num_speculative_tokens":2}'),
            "keys of",
        ),
        (
            "llama-server",
            "-m q.gguf --mtp",
            None,
            "0.5.0",
            ("--spec-type", "draft-mtp"),
            "is now --spec-type draft-mtp",
        ),
        (
            "llama-server",
            "-m q.gguf -md d --draft-n-max 5",
            None,
            "0.5.0",
            ("--spec-draft-n-max", "5"),
            "is now",
        ),
    ],
)
def test_migration(
    engine: str, text: str, source: str | None, target: str, has: tuple[str, str], note: str
) -> None:
    moved, notes = engines.get(engine).migrate(read(engine, text, source), target)
    assert has in flags_of(moved)
    assert any(note in line for line in notes), notes


def test_environment_moves_too() -> None:
    vllm = engines.get("vllm")
    moved, notes = vllm.migrate(
        read("vllm", "m", None, {"VLLM_ATTENTION_BACKEND": "FLASHINFER", "HF_HOME": "/h"}), "0.25.1"
    )
    assert (
        ("--attention-backend", "FLASHINFER") in flags_of(moved)
        and [v.name for v in moved.env] == ["HF_HOME"]
        and notes
    )
    sglang = engines.get("sglang")
    line = "--model-path Qwen/Qwen3.6-27B --speculative-algorithm NEXTN"
    newer, notes = sglang.migrate(
        read("sglang", line, "0.5.10", {"SGLANG_ENABLE_SPEC_V2": "1"}), "0.5.23"
    )
    assert newer.env == () and any("no longer reads it" in note for note in notes)
    older, notes = sglang.migrate(read("sglang", line, "0.5.23"), "0.5.10")
    assert [(v.name, v.value) for v in older.env] == [("SGLANG_ENABLE_SPEC_V2", "1")]


def test_what_a_release_cannot_say_is_refused() -> None:
    with pytest.raises(AdvisorError, match="known from b9180"):
        engines.get("llama-server").migrate(
            read("llama-server", "-m q.gguf --spec-type draft-mtp"), "b8643"
        )
    with pytest.raises(AdvisorError, match="newer than the catalogue"):
        engines.get("vllm").migrate(read("vllm", "m"), "9.9.9")


@pytest.mark.parametrize(
    ("value", "stays"),
    [("0", False), ("off", False), ("disabled", False), ("1", True), ("on", True)],
)
def test_a_switch_that_is_set_to_off_is_not_moved_as_on(value: str, stays: bool) -> None:
    """An INI key `jinja = 0` is off; a release that takes no value gets no switch for it."""
    adapter = engines.get("llama-server")
    pairs = [(Token("model"), Token("a.gguf")), (Token("cont-batching"), Token(value))]
    launch = adapter.read_mapping(pairs, [], origin="ini", version_text="b9000")
    moved, _ = adapter.migrate(launch, adapter.catalogue.newest)
    words = adapter.argv(moved)
    assert ("--cont-batching" in words or "-cb" in words) is stays, words
