"""Measured runs: nothing lost, bad rows rejected with file, line and reason, the index in step."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli.data import data
from advisor.domain.nouns import AdvisorError, Facts, Plan
from advisor.knowledge import store as knowledge
from advisor.lab.measurements import bounds, files
from advisor.lab.measurements import schema as m
from advisor.lab.measurements.columns import RUN_COLUMNS
from advisor.perf import memory
from advisor.perf.sizes import pools
from advisor.perf.sizes.weights import GIB
from tests.perf.rows import points
from tests.tables import cells, fields

FOLDER = m.measurements_dir()
ROWS = 10942
TRAIN = 7140
POSITIONS = 284
SOURCES = 604


def rows_of(path: Path) -> list[dict[str, str]]:
    return [row for _, row in m.read_csv(path)]


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, RUN_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def table(tmp_path: Path) -> tuple[Path, list[dict[str, str]]]:
    return tmp_path / "rows.csv", rows_of(FOLDER / "runs" / "seed000.csv")


def test_no_row_is_lost() -> None:
    rows, problems = m.read_runs(FOLDER)
    assert (problems, len(rows)) == ([], ROWS) and len({row.run.run_id for row in rows}) == ROWS
    assert sum(row.run.use == "train" for row in rows) == TRAIN
    accepted, bad = m.read_acceptance(FOLDER)
    assert (len(accepted), bad) == (POSITIONS, []) and len(files.read_sidecars(FOLDER)) == SOURCES


def test_the_index_is_of_these_rows() -> None:
    assert files.index_text(FOLDER) == (FOLDER / "index.jsonl").read_text(encoding="utf-8")


def test_two_cards_read_and_compute_in_half_of_the_time() -> None:
    one, two = (bounds.least_seconds(points({"tp": n, "gpu_count": n})) for n in (1, 2))
    assert [float(a[0] / b[0]) for a, b in zip(one, two, strict=True)] == pytest.approx([2, 2])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tpot_ms": "0.0195", "request_tok_s": "51.3"}, "wrong unit"),
        ({"acceptance_rate": "81.8"}, "acceptance_rate"),
        ({"speedup": "2.9"}, "the runs give"),
        ({"output_tok_s": "inf"}, "output_tok_s"),
        ({"output_tok_s": "-3"}, "output_tok_s"),
        ({"k": "two"}, "k:"),
        ({"engine": "vlmm"}, "engine"),
        ({"hardware": "gb11"}, "unknown hardware id 'gb11'; nearest: gb10"),
        ({"model": "qwen3.6-35b-a4b"}, "unknown model id"),
        ({"acceptance_length": "4.5"}, "k + 1"),
        ({"concurrency": "0"}, "concurrency"),
        ({"speedup_metric": ""}, "speedup without speedup_metric"),
    ],
)
def test_bad_rows(
    table: tuple[Path, list[dict[str, str]]], change: dict[str, str], reason: str
) -> None:
    path, rows = table
    index = next(i for i, r in enumerate(rows) if r["use"] == "train" and r["spec_method"] == "mtp")
    rows[index] = rows[index] | change
    write(path, rows)
    known = m.KnownIds(
        frozenset({"gb10", "h200"}), frozenset({"qwen3.6-35b-a3b", "qwen3.5-35b-a3b"})
    )
    _, problems = files.check(path, known)
    hit = [p for p in problems if reason in p.reason]
    assert hit, problems
    assert (hit[0].file, hit[0].line) == ("rows.csv", index + 2)


def test_group_with_two_baselines(table: tuple[Path, list[dict[str, str]]]) -> None:
    path, rows = table
    off = next(r for r in rows if r["spec_method"] == "none" and r["use"] == "train")
    write(path, [*rows, off | {"run_id": "second-off"}])
    _, problems = files.check(path)
    assert any("two baselines" in p.reason and p.line == len(rows) + 2 for p in problems)


def test_a_plain_arm_beyond_its_hardware_is_named(table: tuple[Path, list[dict[str, str]]]) -> None:
    """27B in fp8, one card: 256 tokens after 8192, 850 tok/s; cached, or other weights."""
    path, rows = table
    off = dict.fromkeys(rows[0], "") | cells(
        "run_id=a source_id=seed000 group_id=seed000/g model=qwen3.8-27b quant=fp8 "
        "hardware=rtx-pro-6000 gpu_count=1 engine=vllm spec_method=none concurrency=32 "
        "input_tokens=8192 output_tokens=256 output_tok_s=850 use=train use_why=A/B"
    )
    arm = off | {"run_id": "b", "spec_method": "mtp", "k": "3", "output_tok_s": "650"}

    def problems(*changes: dict[str, str]) -> list[m.Problem]:
        with path.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, [*rows[0], "prefix_share"], restval="")
            writer.writeheader()
            writer.writerows([off | change for change in changes] + [arm])
        return [p for p in files.check(path)[1] if "as fast as its hardware" in p.reason]

    assert [(p.file, p.line) for p in problems({})] == [("rows.csv", 2)]
    assert problems({"prefix_share": "1", "prefix_caching": "1"}) == []
    assert (problems({"use": "eval"}), problems({"output_tok_s": "400"})) == ([], [])
    assert problems(
        {"concurrency": "1", "output_tok_s": "", "request_tok_s": "120"}
    )  # faster than reading the weights


def test_edited_row_is_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "measurements"
    for part, suffix in (("runs", "csv"), ("sources", "yaml")):
        (copy / part).mkdir(parents=True)
        for name in ("seed000", "seed004"):
            shutil.copy(FOLDER / part / f"{name}.{suffix}", copy / part)
    assert not any("superseded" in p.reason for p in files.check(copy)[1])
    target = copy / "runs" / "seed004.csv"
    target.write_text(
        target.read_text(encoding="utf-8").replace("0.73", "0.74", 1), encoding="utf-8"
    )
    assert any("superseded" in p.reason for p in files.check(copy)[1])
    (copy / "sources" / "seed000.yaml").unlink()
    assert any("no sidecar" in p.reason for p in files.check(copy)[1])


DATES = [
    ("2026", 1), ("2026-07", 1), ("2026-07-04", 1), ("", 1), ("2026-07 or later", 0), ("July", 0),
]  # fmt: skip


@pytest.mark.parametrize("date,good", DATES)
def test_a_sidecars_date_is_a_date(tmp_path: Path, date: str, good: int) -> None:
    (tmp_path / "sources").mkdir(parents=True)
    text = (FOLDER / "sources" / "sf339.yaml").read_text(encoding="utf-8")
    (tmp_path / "sources" / "sf339.yaml").write_text(
        re.sub(r"^date: .*$", f"date: '{date}'", text, flags=re.M)
    )
    assert any("is not YYYY" in p.reason for p in list(files._sidecar_problems(tmp_path))) != good


def test_add_splits_by_source_and_refuses_twice(tmp_path: Path) -> None:
    rows = rows_of(FOLDER / "runs" / "seed000.csv") + rows_of(FOLDER / "runs" / "seed004.csv")
    table = tmp_path / "all.csv"
    write(table, rows)
    into = tmp_path / "m"
    into.mkdir()
    assert (files.add(into, table), files.check(into)[1]) == (["seed000", "seed004"], [])
    assert rows_of(into / "runs" / "seed004.csv") == rows_of(FOLDER / "runs" / "seed004.csv")
    with pytest.raises(AdvisorError, match="there already"):
        files.add(into, table)


@pytest.mark.parametrize("part", ["runs", "acceptance", "sources"])
def test_add_names_the_table_without_sources(tmp_path: Path, part: str) -> None:
    """A table without the column source_id ended in a KeyError."""
    bare = tmp_path / f"{part}.csv"
    bare.write_text("run_id,title\na-001,A title\n", encoding="utf-8")
    tables = {"runs": FOLDER / "runs" / "seed000.csv"} | {part: bare}
    with pytest.raises(AdvisorError, match=rf"{part}\.csv has no column source_id"):
        files.add(tmp_path / "m", **tables)
    assert not (tmp_path / "m").exists()


def test_command_reports_and_fails(table: tuple[Path, list[dict[str, str]]]) -> None:
    path, rows = table
    write(path, [rows[0] | {"ttft_ms": "0"}])
    result = CliRunner().invoke(data, ["check", str(path)])
    assert result.exit_code == 1 and "rows.csv:2: ttft_ms" in result.output


# (k, prefix caching) -> memory for the cache (GiB), pool (tokens), page (tokens), as logged
POOLS = {
    (0, False): (90.45, 4_228_297, 1056),
    (1, False): (89.01, 3_484_218, None),
    (2, False): (89.11, 3_263_864, 1072),
    (3, False): (88.90, 3_029_253, None),
    (4, False): (88.91, 2_790_852, 1088),
    (0, True): (90.46, 3_895_351, None),
    (2, True): (89.11, 3_036_919, None),
}

LLM = knowledge.llm("qwen3.6-35b-a3b")
SHAPE = knowledge.shape_of(LLM)


@pytest.mark.parametrize(("k", "caching"), POOLS)
def test_pool_to_the_token(k: int, caching: bool) -> None:
    """From the log's memory (two decimals of GiB) to a few requests' rounding."""
    gib, tokens, page = POOLS[k, caching]
    plan = Plan(engine="vllm", k=k, prefix_caching=caching)
    requests = pools.hybrid_requests(SHAPE, plan, 20_480.0, gib * GIB, 32_960)
    assert requests * 32_960 == pytest.approx(tokens, rel=5e-4)
    assert page is None or pools._pages(SHAPE, 20_480.0, k)[2] == page


@pytest.mark.parametrize(("k", "caching"), POOLS)
def test_bill_within_one_percent(k: int, caching: bool) -> None:
    """The whole bill, memory share and overhead included."""
    facts = Facts(
        hardware=knowledge.hardware("h200"), model=LLM, shape=SHAPE, quant=knowledge.quant("fp8")
    )
    plan = Plan(
        k=k, method="mtp" if k else "none", prefix_caching=caching,
        **fields("engine=vllm engine_version=0.25.1 max_model_len=32960 memory_fraction=0.9 "
                 "max_num_seqs=128 max_num_batched_tokens=8192"),
    )  # fmt: skip
    assert memory.bill(facts, plan).kv_tokens == pytest.approx(POOLS[k, caching][1], rel=0.01)
