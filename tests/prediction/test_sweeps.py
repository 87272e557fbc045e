"""A sweep of many different rows is what its rows are alone, however it is cut up and grouped."""

import random

import numpy as np
import pytest

from advisor.advice.rows import predict as questions
from advisor.perf import arrays
from advisor.perf.encoding import encode_rows
from advisor.prediction import cell_pairs, predict, predict_table

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
