"""What a table says wrongly, leaves out or cannot run: `predict` answers as `recommend` does."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from advisor import recommend
from advisor.advice.resolve import bare_facts
from advisor.advice.rows import predict as questions
from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError
from advisor.domain.question import Request
from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.prediction import cell_pairs, predict, predict_table
from advisor.prediction.predict_table import predict_dicts
from tests.tables import cells

ROW = cells(
    "hardware=h100 model=qwen3.6-35b-a3b quant=fp8 engine=vllm spec_method=mtp k=2 gpu_count=1 "
    "input_tokens=2048 output_tokens=512 workload=mixed speedup_metric=output_tok_s"
)


def one(**change: str) -> dict[str, Any]:
    return predict_dicts([ROW | change])[0]


@pytest.mark.parametrize("name", ["gb99", "tachyon-9", "rtx4990", "tpu-v5"])
def test_hardware_that_is_not_known_is_said_and_measured(name: str, tmp_path: Path) -> None:
    """The sentence is that of recommend; the row is measured first, as unknown hardware is."""
    with pytest.raises(AdvisorError) as refused:
        bare_facts(Request(hardware=name))
    asked = tmp_path / "asked.csv"
    asked.write_text(f"spec_method,model,hardware,k\nmtp,qwen3.6-27b,{name},2\n" * 2)
    told = CliRunner().invoke(cli, ["predict", "--rows", str(asked), "--out", str(tmp_path / "o")])
    assert (told.exit_code, told.stderr.count(str(refused.value))) == (0, 1)
    assert one(hardware=name)["decision"] == "measure" and one(hardware=name)["error"] is None


@pytest.mark.parametrize("name", ["", "unknown", "GB10"])
def test_an_empty_cell_or_a_known_name_is_not_remarked(name: str, tmp_path: Path) -> None:
    asked = tmp_path / "asked.csv"
    asked.write_text(f"spec_method,model,hardware,k\nmtp,qwen3.6-27b,{name},2\n")
    told = CliRunner().invoke(cli, ["predict", "--rows", str(asked), "--out", str(tmp_path / "o")])
    assert told.exit_code == 0 and not told.stderr


@pytest.mark.parametrize(
    "hardware,model,quant",
    [
        ("4090", "deepseek-v3.1", ""),
        ("4090", "deepseek-v3.1", "q4_k_m"),
        ("h100", "deepseek-v3.1", "fp8"),
        ("rtx3090", "qwen3.6-27b", "bf16"),
    ],
)
def test_a_model_that_does_not_fit_is_not_on(hardware: str, model: str, quant: str) -> None:
    for gpus in ("1", ""):
        found = one(hardware=hardware, model=model, quant=quant, gpu_count="1" if quant else gpus)
        assert found["error"] is None and found["decision"] != "on"


@pytest.mark.parametrize("concurrency", ["64", "128", "256"])
@pytest.mark.parametrize("model", ["qwen3.6-35b-a3b", "qwen3.6-27b"])
def test_a_missing_column_widens_where_memory_binds(model: str, concurrency: str) -> None:
    """Prefix caching takes of the memory that requests run in: left out, both are thought of. It
    also cuts a prompt into two calls, and a wider interval with the same chance of a gain has
    another middle, so that it need not lie between the ends.
    """
    asked = {"model": model, "concurrency": concurrency}
    open_ = one(**asked)
    ends = [one(**asked, prefix_caching=word) for word in ("true", "false")]
    low, high = sorted(end["speedup_p50"] for end in ends)
    assert low * 0.97 <= open_["speedup_p50"] <= high * 1.04
    assert open_["p_gain"] <= max(end["p_gain"] for end in ends) + 0.01
    if min(end["p_gain"] for end in ends) < 0.75:
        assert open_["decision"] == "measure"


@pytest.mark.parametrize("model", ["minimax-m2.7", "nvidia/MiniMax-M2.7-NVFP4", "qwen3-32b"])
def test_a_head_that_is_not_known_to_exist_is_measured(model: str) -> None:
    """`recommend` says that there is none; NEXTN on MiniMax-M2.7 gave 0.52x to 0.70x."""
    assert one(model=model, hardware="h200", gpu_count="8", tp="8")["decision"] == "measure"
    assert (
        recommend(hardware="h100", gpus=8, model=model, engine="vllm", method="mtp").plan.method
        == "none"
    )


MODELS = {
    "qwen3.6-35b-a3b": ("fp8", "bf16", "nvfp4"), "qwen3.6-27b": ("fp8", "bf16"),
    "qwen3-8b": ("bf16",), "llama-3.3-70b-instruct": ("fp8", "awq"), "gpt-oss-120b": ("mxfp4",),
    "deepseek-v3.2": ("fp8",),
}  # fmt: skip
HARDWARE = ("h200", "h100", "gb10", "rtx5090", "a100-80gb", "l40s", "strix-halo", "apple-m3-ultra")


COLUMNS = {
    "hardware": HARDWARE, "spec_method": ("mtp", "eagle3", "ngram", "none"),
    "concurrency": ("", "1", "7", "64", "300"), "gpu_count": ("", "1", "2", "8"),
    "max_num_batched_tokens": ("", "2048", "16384"), "max_num_seqs": ("", "4"),
    "max_model_len": ("", "32768"), "memory_fraction": ("", "0.6"),
    "acceptance_length": ("", "", "1.4"), "workload": ("", "code", "random"),
    "speedup_metric": ("output_tok_s", "tpot", "ttft", "request_tok_s"),
}  # fmt: skip


def sweep(count: int, seed: int = 4) -> list[dict[str, str]]:
    """Rows as a user's sweep has them; some leave cells blank."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        row = {name: draw.choice(words) for name, words in COLUMNS.items()}
        row["model"] = draw.choice(list(MODELS))
        row["engine"] = draw.choice(("vllm", "vllm", "sglang", "llama.cpp"))
        gguf = row["engine"] == "llama.cpp"
        row["quant"] = "q4_k_m" if gguf else draw.choice(MODELS[row["model"]])
        numbers = {"k": (1, 9), "input_tokens": (20, 60_000), "output_tokens": (1, 4000)}
        row |= {name: str(draw.randint(*ends)) for name, ends in numbers.items()}
        rows.append(row | {"tp": row["gpu_count"]})
    return rows


def test_rows_of_a_sweep_are_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sweep(240)
    alone = [predict_table.predict_dicts([row])[0] for row in rows[::6]]
    assert len({row["decision"] for row in alone}) == 3  # not a sweep of one answer
    monkeypatch.setattr(predict, "PIECE", 64)
    monkeypatch.setattr(cell_pairs, "WORTH_SORTING", 1)
    together = predict_table.predict_dicts(rows)[::6]
    for row, one, many in zip(rows[::6], alone, together, strict=True):
        words = ("decision", "basis", "error")
        assert {name: many[name] for name in words} == {name: one[name] for name in words}, row
        for name in predict_table.NUMBERS:
            assert many[name] == pytest.approx(one[name], abs=2e-4), (name, row)


def test_a_long_table_is_worked_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = questions.predict(sweep(30))
    monkeypatch.setattr(questions, "MOST_ROWS", 7)
    assert questions.predict(sweep(30)) == whole


def test_points_taken_from_others_are_those_points() -> None:
    """Columns of taken points come when they are asked for, also of what was taken or changed."""
    points, _ = encode_rows.from_rows(sweep(40))
    rows = np.array([7, 3, 31, 3])
    half = points.take(slice(1, 35)).replace(k=4.0).take(rows)
    assert half.k.tolist() == [4.0] * 4
    changed = half.replace(gpus=np.arange(4.0)).take(np.array([False, True, True, False]))
    assert changed.gpus.tolist() == [1.0, 2.0]
    for name in set(arrays.ALL_FIELDS) - {"k", "gpus"}:
        expected = getattr(points, name)[1:35][rows][1:3]
        np.testing.assert_array_equal(getattr(changed, name), expected, err_msg=name)
    assert len(changed) == 2 and changed.is_method("mtp").tolist() == [
        word == "mtp" for word in np.array(arrays.METHODS)[changed.method]
    ]
    with pytest.raises(TypeError, match="no column"):
        points.replace(bandwidth=1.0)
    with pytest.raises(AttributeError):
        changed.bandwidth  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="read-only"):
        changed.is_method("mtp")[0] = True
