"""--hw auto: what the vendors' tools print, and what we make of it."""

from pathlib import Path

import pytest

from advisor.advice.resolve import facts_for_request
from advisor.domain.nouns import AdvisorError, Request
from advisor.knowledge import detect as detect_module
from advisor.knowledge.detect import detect


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine whose tools print what the test puts in here, by program name."""
    output: dict[str, str] = {}

    def ask(*command: str) -> str:
        return output.get(" ".join(command[:3]), output.get(command[0], ""))

    monkeypatch.setattr(detect_module, "_ask", ask)
    return output


@pytest.mark.parametrize(
    ("printed", "ident", "count"),
    [
        ("NVIDIA GeForce RTX 3090, 24576\nNVIDIA GeForce RTX 3090, 24576\n", "rtx3090", 2),
        ("NVIDIA GeForce RTX 3090 Ti, 24564\n", "rtx3090ti", 1),
        ("NVIDIA H200, 143771\n" * 8, "h200", 8),
        ("NVIDIA H100 80GB HBM3, 81559\n", "h100-sxm", 1),
        ("NVIDIA H100 PCIe, 81559\n", "h100-pcie", 1),
        ("NVIDIA A100-SXM4-80GB, 81920\n", "a100-80gb", 1),
        ("NVIDIA A100-SXM4-40GB, 40960\n", "a100-40gb", 1),
        ("NVIDIA A100-PCIE-40GB, 40960\n", "a100-40gb", 1),
        ("Tesla V100-SXM2-16GB, 16160\n", "v100-16gb", 1),
        ("Tesla V100-SXM2-32GB, 32510\n", "v100", 1),
        ("Tesla T4, 15360\n", "t4", 1),
        ("NVIDIA L40S, 46068\n", "l40s", 1),
        ("NVIDIA GeForce RTX 5090 Laptop GPU, 24463\n", "rtx5090-laptop", 1),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition, 97887\n", "rtx-pro-6000", 1),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition, 97887\n", "rtx-pro-6000-maxq",
         1),
        ("NVIDIA RTX 6000 Ada Generation, 49140\n", "rtx6000-ada", 1),
        ("NVIDIA GeForce RTX 4070 Ti SUPER, 16376\n", "rtx4070ti-super", 1),
        ("NVIDIA GeForce RTX 4090 Laptop GPU, 16376\n", "rtx4090-laptop", 1),
        ("NVIDIA GeForce RTX 3080 Laptop GPU, 8192\n", "rtx3080-laptop", 1),
        ("NVIDIA GeForce RTX 3080 Laptop GPU, 16384\n", "rtx3080-laptop-16gb", 1),
        ("NVIDIA GeForce RTX 5070 Laptop GPU, 8151\n", "rtx5070-laptop", 1),
        ("NVIDIA GeForce RTX 5070 Laptop GPU, 12227\n", "rtx5070-laptop-12gb", 1),
        ("NVIDIA GeForce RTX 3080, 10240\n", "rtx3080", 1),
        ("NVIDIA GeForce RTX 3080, 12288\n", "rtx3080-12gb", 1),
        ("NVIDIA RTX A2000, 6138\n", "rtx-a2000", 1),
        ("NVIDIA RTX A2000 12GB, 12282\n", "rtx-a2000-12gb", 1),
        ("NVIDIA TITAN X (Pascal), 12288\n", "titan-x-pascal", 1),
        ("Tesla M40 24GB, 22945\n", "m40-24gb", 1),
        ("Tesla M40, 11448\n", "m40-12gb", 1),
        ("NVIDIA A800-SXM4-80GB, 81920\n", "a800", 1),
        ("NVIDIA A800 80GB PCIe, 81920\n", "a800", 1),
        ("GPU[0]\t\t: Card Series: \t\tAMD Radeon RX 7900 XTX\nGPU[0]\t\t: GFX Version: "
         "\t\tgfx1100\n", "rx7900xtx", 1),
        ("GPU[0] : Card Series: AMD Instinct MI300X\nGPU[1] : Card Series: AMD Instinct "
         "MI300X\n", "mi300x", 2),
        ("GPU[0] : Card Series: AMD Radeon Graphics\nGPU[0] : GFX Version: gfx1151\n",
         "strix-halo", 1),
    ],
)  # fmt: skip
def test_printed_names(bare: dict[str, str], printed: str, ident: str, count: int) -> None:
    bare["rocm-smi" if printed.startswith("GPU[") else "nvidia-smi"] = printed
    hw, found = detect()
    assert (hw.id, found) == (ident, count)


@pytest.mark.parametrize(
    "printed",
    ["NVIDIA RTX A2000 Laptop GPU, 4096\n", "NVIDIA RTX 4000 Ada Generation Laptop GPU, 12282\n",
     "NVIDIA RTX 4000 SFF Ada Generation, 20475\n",
     "NVIDIA GeForce GTX 1080 with Max-Q Design, 8192\n", "Orin (nvgpu), [N/A]\n"],
)  # fmt: skip
def test_a_slower_namesake_is_not_taken_for_the_card(bare: dict[str, str], printed: str) -> None:
    bare["nvidia-smi"] = printed
    with pytest.raises(AdvisorError, match=r"not in the hardware list"):
        detect()


def test_apple_with_its_own_memory(bare: dict[str, str]) -> None:
    bare["sysctl -n machdep.cpu.brand_string"] = "Apple M4 Max\n"
    bare["sysctl -n hw.memsize"] = str(64 * 1024**3)
    hw, count = detect()
    memory = hw.memory_gb and (hw.memory_gb.value, hw.memory_gb.status)
    assert (hw.id, count, memory) == ("apple-m4-max", 1, (64, "measured"))


@pytest.mark.parametrize(("told", "value"), [("MemTotal:  131072000 kB", 125.0), ("", 128)])
def test_the_memory_of_a_machine_that_shares_it(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str, value: float
) -> None:
    """131,072,000 kB are 125 GiB; without them the listed size counts."""
    (tmp_path / "meminfo").write_text(told)
    monkeypatch.setattr(detect_module, "Path", lambda _: tmp_path / "meminfo")
    bare["rocm-smi"] = "GPU[0] : GFX Version: gfx1151\n"
    memory = detect()[0].memory_gb
    assert memory is not None and memory.value == value


def test_nothing_found_says_what_to_do_and_an_unknown_card_is_named(bare: dict[str, str]) -> None:
    tried = r"no accelerator found \(tried nvidia-smi, rocm-smi, sysctl\): give --hw"
    with pytest.raises(AdvisorError, match=tried):
        detect()
    bare["nvidia-smi"] = "NVIDIA Frobnicator 9000, 8192\n"
    with pytest.raises(AdvisorError, match="Frobnicator 9000"):
        detect()


@pytest.mark.parametrize(
    "printed", ["", "\n", ",", "No devices were found", "x" * 10_000, "\0,\0", "a,b,c\n" * 50]
)
def test_odd_output_is_no_traceback(bare: dict[str, str], printed: str) -> None:
    bare.update({"nvidia-smi": printed, "rocm-smi": printed, "sysctl": printed})
    with pytest.raises(AdvisorError):
        detect()


def test_auto_says_what_it_found(bare: dict[str, str]) -> None:
    bare["nvidia-smi"] = "NVIDIA GeForce RTX 3090, 24576\nNVIDIA GeForce RTX 3090, 24576\n"
    facts = facts_for_request(Request(hardware="auto"))
    assert facts.hardware is not None and facts.hardware.id == "rtx3090"
    assert {"hardware", "gpus"} <= {field for field, _, _ in facts.defaults}


def test_a_tool_that_is_missing_or_hangs_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(detect_module, "TIMEOUT_S", 0.2)
    assert (detect_module._ask("no-such-tool-at-all"), detect_module._ask("sleep", "5")) == ("", "")
    assert detect_module._ask("false") == ""
