"""Step-cost points become measured runs."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor.cli.data import data
from advisor.domain.nouns import AdvisorError
from advisor.lab.bench import rows
from advisor.lab.measurements import files
from advisor.lab.measurements import schema as m

RAW = m.measurements_dir() / "raw"

SETTING = {"model": "qwen3.6-35b-a3b", "quant": "fp8", "prefix_caching": False,
           "max_num_seqs": 128, "max_num_batched_tokens": 8192, "vllm": "0.25.1",
           "concurrency": 8, "input_tokens": 2048, "output_tokens": 128, "prefix_share": 0.0,
           "key": "8:2048:128:0", "prompts": 32, "wall_s": 6.0, "ttft_ms": 170.0,
           "itl_p99_ms": 130.0, "tokens": 4096}  # fmt: skip
ABOUT = "id: bench-demo\nhardware: h200\ndate: '2026-11-20'\n"


def point(k: int, **changes: Any) -> dict[str, Any]:
    speeds = {"output_tok_s": 600.0 + 100 * k, "tpot_ms": 11.0 - k}
    speeds |= {"decode_step_p50_ms": 6.0 + 2 * k, "acceptance_length": 1.0 + 0.7 * k}
    return {"label": f"demo-k{k}", "k": k, **SETTING, **speeds, **changes}


def folder(tmp_path: Path, points: list[dict[str, Any]], about: str = "") -> Path:
    made = tmp_path / "sweep"
    made.mkdir()
    (made / "demo.jsonl").write_text("".join(json.dumps(p) + "\n" for p in points))
    (made / "about.yaml").write_text(about or ABOUT)
    return made


def test_arms_of_a_point_are_a_group_with_both_speedups(tmp_path: Path) -> None:
    where, into = folder(tmp_path, [point(0), point(2)]), tmp_path / "m"
    assert rows.import_folder(where, into) == ("bench-demo", 4)
    assert files.check(into, m.known_ids()) == (4, [])
    found, _ = m.read_runs(into)
    groups = m.by_group(found)
    assert len(groups) == 2
    arms = {r.run.speedup_metric: r.run for r in found if r.run.spec_method == "mtp"}
    assert arms["output_tok_s"].speedup == pytest.approx(800 / 600, abs=1e-3)
    assert arms["request_tok_s"].speedup == pytest.approx(
        2.4 / 10 * 6, abs=1e-3
    )  # tokens per step over step times
    assert arms["output_tok_s"].output_spread == 0.5
    assert arms["output_tok_s"].n_requests == 32
    assert all(r.run.use == "train" and "forced" in r.run.notes for r in found)


@pytest.mark.parametrize(
    ("points", "about", "reason"),
    [
        ([point(0), point(2, prompts=4, tokens=512)], "", "4 prompts"),
        ([point(2)], "", "only one arm"),
        ([point(0), point(2)], "weak: [{labels: '*-k2', why: two engines at once}]",
         "two engines at once"),
    ],
)  # fmt: skip
def test_weak_points_are_kept_and_not_trained_on(
    tmp_path: Path, points: list[dict[str, Any]], about: str, reason: str
) -> None:
    where = folder(tmp_path, points, ABOUT + about)
    found = [r for r in rows.runs(rows.read_rows(where), rows.read_about(where)) if r["k"] == "2"]
    assert found
    assert all(r["use"] == "eval" and reason in r["use_why"] for r in found)


def test_long_prompts_have_no_decode_step_of_their_own() -> None:
    about = {"id": "bench-demo", "hardware": "h200"}
    long = {"input_tokens": 32_768, "key": "8:32768:128:0"}
    found = rows.runs([point(0, **long), point(2, **long)], about)
    assert {r["use"] for r in found if r.get("request_tok_s")} == {"eval"}
    assert {r["use"] for r in found if r.get("output_tok_s")} == {"train"}


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ("hardware: h200\ndate: x\n", "`id`"),
        ("id: bench-x\ndate: x\n", "`hardware`"),
        ("id: bench-x\nhardware: h2000\ndate: x\n", "h2000"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, about: str, message: str) -> None:
    with pytest.raises(AdvisorError, match=message):
        rows.import_folder(folder(tmp_path, [point(0), point(2)], about), tmp_path / "m")


def test_broken_and_empty_folders(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match="no measured points"):
        rows.read_rows(tmp_path)
    (tmp_path / "a.jsonl").write_text('{"label": "x"\n')
    with pytest.raises(AdvisorError, match=r"a\.jsonl:1"):
        rows.read_rows(tmp_path)


def test_a_folder_is_added_once(tmp_path: Path) -> None:
    words = ["add", str(folder(tmp_path, [point(0), point(2)])), "--into", str(tmp_path / "m")]
    assert "bench-demo" in CliRunner().invoke(data, words).output
    assert isinstance(CliRunner().invoke(data, words).exception, AdvisorError)


@pytest.mark.parametrize(
    "source", sorted({path.parent.name for path in RAW.glob("*vllm*/*.jsonl")})
)
def test_raw_points_become_the_shipped_rows(source: str) -> None:
    about, points = rows.read_about(RAW / source), rows.read_rows(RAW / source)
    made = [{k: v for k, v in row.items() if v} for row in rows.runs(points, about)]
    drafts = [one for one in points if one["k"] and f"-k{one['k']}" in one["label"]]
    compared = {row["spec_method"] for row in made if "speedup" in row}
    assert compared == {one.get("method", "mtp") for one in drafts}
    path = m.measurements_dir() / "runs" / f"{about['id']}.csv"
    if path.exists():  # the others are kept apart
        shipped = csv.DictReader(path.read_text(encoding="utf-8").splitlines())
        assert made == [{k: v for k, v in row.items() if v} for row in shipped]
