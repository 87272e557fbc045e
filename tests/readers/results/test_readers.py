"""Every reader against real files of its client (and the paced server's known pace), and against
everything else.
"""

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cli.app import cli
from advisor.readers.results import exposition
from advisor.readers.results.document import MAX_DEPTH, Document, Unreadable, load, parse
from advisor.readers.results.fields import in_our_unit, number_at
from advisor.readers.results.formats import read_document, read_results, readers_of
from advisor.readers.results.run import BenchmarkRun
from tests.tables import load_yaml

FILES = Path(__file__).parent / "files"
NAMES = sorted(path.name for path in FILES.iterdir())
# The paced server: 20 ms a token off; 31 ms a step of 2.4 tokens on
OFF_TPOT, ON_TPOT = 20.0, 31 / 2.4


def one(name: str, part: str = "") -> BenchmarkRun:
    runs = [run for run in read_results(FILES / name) if part in ("", run.part)]
    assert len(runs) == 1, [run.part for run in runs]
    return runs[0]


def flat(value: object, path: str = "") -> dict[str, object]:
    """The values of a nested record by their paths."""
    if not isinstance(value, dict | list | tuple):
        return {path: value}
    rows = value.items() if isinstance(value, dict) else enumerate(value)
    return {k: v for name, item in rows for k, v in flat(item, f"{path} {name}").items()}


def is_all_of(run: BenchmarkRun, stated: dict[str, object]) -> bool:
    """Whether a run is all that was stated, to a tenth of a percent, and nothing more."""
    found = flat(run.model_dump(exclude_defaults=True, exclude={"file", "sha256"}))
    expected = {
        path: value if isinstance(value, str) else pytest.approx(value, rel=1e-3)
        for path, value in flat({k: v for k, v in stated.items() if v is not None}).items()
    }
    assert found == expected
    return True


BY_HAND = load_yaml(Path(__file__).with_name("figures.yaml"))


@pytest.mark.parametrize(("name", "stated"), [p for row in BY_HAND["files"] for p in row.items()])
def test_a_run_is_what_its_file_states(name: str, stated: dict[str, object]) -> None:
    assert is_all_of(one(name, str(stated.get("part", ""))), stated)


@pytest.mark.parametrize("case", BY_HAND["texts"])
def test_a_small_text_is_what_it_states(case: dict[str, Any]) -> None:
    runs = read_document(parse("a", case["text"].encode()))
    assert all(is_all_of(*pair) for pair in zip(runs, case["runs"], strict=True))


def test_replicas_are_added_up_and_shares_are_their_mean() -> None:
    first, second = (
        exposition.Scrape("vllm", "m", {"drafts": n}, {"kv_usage": share, "accept_length": 2 * n,
                          "running": n}, {"ttft": (2 * n, n)}, (n,) * places, (f"r{n:.0f}",))
        for n, share, places in ((1.0, 0.2, 1), (2.0, 0.6, 2))
    )  # fmt: skip
    both = exposition.together([first, second])
    assert (both.counters, both.positions) == ({"drafts": 3.0}, (3.0, 2.0))
    assert both.gauges == pytest.approx({"kv_usage": 0.4, "accept_length": 3.0, "running": 3.0})
    assert (both.sums, both.replicas) == ({"ttft": (6.0, 3.0)}, ("r1", "r2"))
    for other in (second._replace(model="n"), second._replace(engine="sglang")):
        with pytest.raises(Unreadable, match="the replicas run different engines or models"):
            exposition.together([first, other])
    with pytest.raises(Unreadable, match=r"of different replicas, .*\(r1; then r2\): read each"):
        exposition.between(first, second)


@pytest.mark.parametrize(
    ("off", "on"),
    [("vllm-serve-off.json", "vllm-serve-on.json"), ("sglang-off.jsonl", "sglang-on.jsonl"),
     ("guidellm-off.json", "guidellm-on.json"), ("aiperf-off.json", "aiperf-on.json")],
)  # fmt: skip
def test_every_client_sees_the_pace_that_was_set(off: str, on: str) -> None:
    assert one(off).value("tpot") == pytest.approx(OFF_TPOT, rel=0.01)
    assert one(on).value("tpot") == pytest.approx(ON_TPOT, rel=0.03)


def test_a_report_in_yaml_is_that_in_json() -> None:
    data = (FILES / "guidellm-off.json").read_bytes()
    text = yaml.safe_dump(json.loads(data), sort_keys=False)
    first = read_document(parse("a", data))
    second = read_document(parse("a", text.encode()))
    fenced = read_document(parse("a", f"My run:\n```\n{text}\n```\n".encode()))
    assert first and all(
        [run.model_dump(exclude={"sha256"}) for run in again]
        == [run.model_dump(exclude={"sha256"}) for run in first]
        for again in (second, fenced)
    )


@pytest.mark.parametrize("name", NAMES)
def test_one_reader_takes_a_file_and_no_reader_breaks_on_it(name: str) -> None:
    doc = load(FILES / name)
    runs = read_document(doc)
    assert len(readers_of(doc)) == 1 and runs
    for run in runs:
        assert run.sha256 and run.file == name
        assert BenchmarkRun.model_validate_json(run.model_dump_json()) == run.model_copy(
            update={
                field: value.model_copy(update={"values": ()})
                for field in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
                if (value := getattr(run, field)) is not None
            }
        )


def _escape(data: bytes) -> bytes:
    lines = data.splitlines(keepends=True)
    return b"".join(b"\x1b[0;36m" + line.rstrip(b"\n") + b"\x1b[0m\n" for line in lines)


def _after(prefix: bytes) -> Callable[[bytes], bytes]:
    return lambda data: b"".join(prefix + line for line in data.splitlines(keepends=True))


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "line ends of Windows": lambda data: data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "UTF-16 of PowerShell": lambda data: data.decode().encode("utf-16"),
    "gzip": gzip.compress,
    "blank lines at the end": lambda data: data + b"\n\n\n",
    "a page with a code fence": lambda data: b"My run:\n```\n" + data + b"\n```\nThanks\n",
}
LOGS: dict[str, Callable[[bytes], bytes]] = {
    "a quote in a reply": _after(b"> "),
    "colour": _escape,
    "docker compose logs": _after(b"vllm-1  | "),
    "journalctl": _after(b"Nov 24 10:11:12 spark vllm[1234]: "),
    "kubectl logs --timestamps": _after(b"2026-11-24T10:11:12.123456789Z "),
    "a process of vLLM in compose": _after(b"vllm-1  | \x1b[0;36m(APIServer pid=1)\x1b[0;0m "),
    "journalctl -o short-precise": _after(b"Nov 24 10:11:12.123456 spark vllm[1234]: "),
    "journalctl -o short-full": _after(b"Tue 2026-11-24 10:11:12 UTC spark vllm[1234]: "),
}


def _runs(name: str, data: bytes) -> list[BenchmarkRun]:
    return [run.model_copy(update={"sha256": ""}) for run in read_document(parse(name, data))]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_the_same_however_it_was_saved(name: str) -> None:
    data = (FILES / name).read_bytes()
    ways = ENCODINGS | (LOGS if name.endswith((".txt", ".log", ".md")) else {})
    expected = _runs(name, data)
    for how, change in ways.items():
        assert _runs(name, change(data)) == expected, how


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith(".csv")])
def test_a_table_saved_by_a_spreadsheet_is_read(name: str) -> None:
    """Semicolons, decimal commas, and a line that the client printed first."""
    text = (FILES / name).read_text()
    out = io.StringIO()
    writer = csv.writer(out, delimiter=";")
    for row in csv.reader(text.splitlines()):
        writer.writerow(re.sub(r"^(-?\d+)\.(\d+)$", r"\1,\2", cell) for cell in row)
    again = ("ggml_cuda_init: found 1 device\n" + out.getvalue()).encode()
    assert _runs(name, again) == _runs(name, text.encode())


def test_what_unpacks_without_end_is_refused() -> None:
    with pytest.raises(Unreadable, match="unpacks to more than"):
        parse("bomb.gz", gzip.compress(b" " * (2**26 + 10)))
    with pytest.raises(Unreadable, match="cut off"):
        parse("cut.gz", gzip.compress((FILES / "llama-bench.json").read_bytes())[:-20])


@pytest.mark.parametrize(
    ("printed", "number"),
    [("289.13", 289.13), ("289,13", 289.13), ("1,234.56", 1234.56), ("1.234,56", 1234.56)],
)
def test_numbers_of_a_console_in_any_locale(printed: str, number: float) -> None:
    text = (FILES / "vllm-serve-on.txt").read_text()
    again = re.sub(r"(Output token throughput \(tok/s\): +)\S+", rf"\g<1>{printed}", text)
    assert _runs("a.txt", again.encode())[0].output_tok_s == number


def test_a_block_without_tpot_is_whole_where_it_is_closed() -> None:
    """Answers of one token, or an older client, have none; a block that stops before is cut."""
    text = (FILES / "vllm-serve-off.txt").read_text()
    lines = [line for line in text.splitlines() if "TPOT" not in line]
    run = _runs("a.txt", "\n".join(lines).encode())[0]
    assert run.tpot_ms is None and run.output_tok_s
    with pytest.raises(Unreadable, match="cut off"):
        _runs("a.txt", "\n".join(lines[:-3]).encode())


@pytest.mark.parametrize("name", NAMES)
def test_a_truncated_file_is_read_or_refused_in_one_sentence(name: str) -> None:
    data = (FILES / name).read_bytes()
    for share in (0.02, 0.3, 0.6, 0.97):
        cut = data[: int(len(data) * share)]
        try:
            runs = read_document(parse(name, cut))
        except Unreadable as error:
            assert "\n" not in str(error) and str(error).startswith(name)
            continue
        assert not name.endswith((".json", ".jsonl")) or b"\n" in cut, share
        assert all(isinstance(run, BenchmarkRun) for run in runs)


def test_two_formats_in_one_file_are_refused() -> None:
    both = (FILES / "vllm-serve-on.txt").read_bytes() + (
        FILES / "vllm-metrics-after.prom"
    ).read_bytes()
    with pytest.raises(Unreadable, match="several formats"):
        read_document(parse("both.txt", both))
    with pytest.raises(Unreadable, match="no result of"):
        read_document(
            parse(
                "two.json",
                (FILES / "vllm-serve-on.json").read_bytes()
                + (FILES / "guidellm-on.json").read_bytes(),
            )
        )


def test_impossible_values_are_named() -> None:
    row = json.loads((FILES / "vllm-serve-on.json").read_text()) | {"output_throughput": "fast"}
    with pytest.raises(Unreadable, match=r"output_throughput: .*got 'fast'"):
        read_document(parse("bad.json", json.dumps(row).encode()))


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"old": "3.5", "new": {"rate": 2}}, 2.0),
        ({"old": "3.5", "new": {"rate": "N/A"}}, 3.5),
        ({"old": "3.5", "new": [2]}, 3.5),
        ({"old": "", "new": {"rate": True}}, None),
        ({}, None),
    ],
)
def test_a_number_is_the_first_of_its_places_that_has_one(row: object, value: object) -> None:
    assert number_at(row, ("new > rate", "old")) == value
    assert number_at(row, ("new > rate", "old"), 1e3) == (value and value * 1e3)


@pytest.mark.parametrize(
    ("unit", "ours"),
    [("s", 2000.0), ("SEC", 2000.0), ("s/token", 2000.0), ("ms", 2.0), ("ms/token", 2.0),
     ("us", 0.002), ("ns", 2e-6), ("%", 0.02), ("percent", 0.02), ("x", 6.0), (None, 6.0)],
)  # fmt: skip
def test_a_unit_is_ours_after_its_factor(unit: str | None, ours: float) -> None:
    row = {"unit": unit, "avg": 2, "name": "n", "is_new": True}
    assert in_our_unit(row, "unit", 3.0) == row | {"avg": pytest.approx(ours)}


def _leaves(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    rows = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    below = [leaf for key, item in rows for leaf in _leaves(item, (*path, key))]
    return [*below, path] if path else below


@cache
def _text_and_leaves(name: str) -> tuple[str, list[tuple[object, ...]]]:
    text = (FILES / name).read_text()
    return text, _leaves(json.loads(text))[:400]


@settings(max_examples=80)
@given(st.sampled_from([n for n in NAMES if n.endswith(".json")]), st.data())
def test_no_reader_breaks_on_values_of_another_type(name: str, data: st.DataObject) -> None:
    text, leaves = _text_and_leaves(name)
    value, path = json.loads(text), data.draw(st.sampled_from(leaves))
    place = value
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = data.draw(
        st.sampled_from([None, -1, 1e308, "x", [], {}, [None], {"a": None}, True, float("nan")])
    )
    try:
        read_document(parse(name, json.dumps(value).encode()))
    except Unreadable as error:
        assert "\n" not in str(error)


def test_two_scrapes_make_a_run_and_one_does_not() -> None:
    first, last = (
        exposition.scrape((FILES / f"vllm-metrics-{when}.prom").read_text())
        for when in ("before", "after")
    )
    run = exposition.run_of(exposition.between(first, last), "metrics", seconds=10.0)
    assert run.acceptance is not None and run.acceptance.length == pytest.approx(2.4, rel=0.02)
    assert run.output_tok_s == pytest.approx(
        (last.counters["output_tokens"] - first.counters["output_tokens"]) / 10
    )
    assert "since the server's start" in one("vllm-metrics-after.prom").notes[0]
    assert one("vllm-metrics-after.prom").output_tok_s is None
    with pytest.raises(Unreadable, match="swapped, or the server restarted"):
        exposition.between(last, first)


def test_positions_may_begin_between_two_scrapes_and_lengths_are_not_added() -> None:
    """By hand: 8 - 5 and 4 - 0 accepted; two ranks at 2.4 and 2.2 tokens a step make no 4.6."""
    name = "vllm:spec_decode_num_accepted_tokens_per_pos"
    texts = ([5], [8, 4])
    first, last = (
        exposition.scrape(
            f"# TYPE {name} counter\n"
            + "".join(f'{name}_total{{position="{i}"}} {n}\n' for i, n in enumerate(counts))
        )
        for counts in texts
    )
    assert exposition.between(first, last).positions == (3.0, 4.0)
    gauge = "sglang:spec_accept_length"
    ranks = "".join(f'{gauge}{{tp_rank="{i}"}} {n}\n' for i, n in enumerate((2.4, 2.2)))
    assert exposition.scrape(f"# TYPE {gauge} gauge\n{ranks}").gauges == {"accept_length": 2.4}


@pytest.mark.parametrize(
    ("above", "found"),
    [
        ("Maximum request concurrency: 128\n100%| 500/500\n", 128),
        ("vllm bench serve --max-concurrency 4 --seed 1\n", 4),
        ("vllm bench serve --seed 1\n", None),
    ],
)
def test_the_load_may_stand_above_the_printed_block(above: str, found: int | None) -> None:
    text = (FILES / "vllm-serve-on.txt").read_text()
    block = text[text.index("============ Serving") :]
    bare = re.sub(r"Maximum request concurrency:.*\n", "", block)
    (run,) = read_document(parse("run.txt", (above + bare).encode()))
    assert run.concurrency == found


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "empty"), (b"\x89PNG\r\n\x1a\n\xff", "no UTF-8"), (b"hello", "no result of"),
        (b"\x00a", "binary"), (b'{"a":' * 100, "nested deeper"), (b'[{"a": 1}', "cut off"),
        (b'{"a": 1', "cut off"),
        ("benchmarks: &a\n- metrics: {time_to_first_token_ms: *a}\n", "aliases"),
        ("benchmarks:\n- metrics: {time_to_first_token_ms: [}\n", "not YAML"),
        ("benchmarks: 3\nx:\n  time_to_first_token_ms: 4\n", "no result of"),
        # a table that a client prints beside its JSON
        ("Benchmarking summary:\n+---+---+\n| Key | Value |\n", "the JSON of GuideLLM, evalscope"),
    ],
)  # fmt: skip
def test_what_is_no_result_is_refused_in_one_sentence(data: bytes | str, why: str) -> None:
    with pytest.raises(Unreadable, match=why) as said:
        read_document(parse("table", data if isinstance(data, bytes) else data.encode()))
    assert "\n" not in str(said.value)


def test_json_at_the_end_of_the_stack_is_read_or_refused_in_a_sentence() -> None:
    """Python 3.11 counts levels of JSON as calls of ours; later ones count them apart."""
    text = b'{"a":' * MAX_DEPTH + b"1" + b"}" * MAX_DEPTH

    def read(calls: int) -> Document:
        return read(calls - 1) if calls else parse("a.json", text)

    refused = pytest.raises(Unreadable, match="JSON nested too deeply")
    with ThreadPoolExecutor(1) as stack, refused if sys.version_info < (3, 12) else nullcontext():
        assert stack.submit(read, sys.getrecursionlimit() - 45).result() == read(0)


def test_one_file_with_both_arms_is_an_ab() -> None:
    name = str(FILES / "vllm-sweep.csv")
    assert "1.52x" in CliRunner().invoke(cli, ["ab", name]).output
    assert "no run with k=9" in str(CliRunner().invoke(cli, ["ab", name, "--k", "9"]).exception)
    assert "same file" in str(CliRunner().invoke(cli, ["ab", name, name]).exception)
