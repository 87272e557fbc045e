"""What a table says wrongly, leaves out or cannot run: `predict` answers as `recommend` does."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from advisor import recommend
from advisor.advice.resolve import bare_facts
from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError
from advisor.domain.question import Request
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
    assert told.exit_code == 0
    assert told.stderr.count(str(refused.value)) == 1
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
