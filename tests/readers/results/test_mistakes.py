"""Mistakes that people make with `advisor ab`: each has its sentence."""

import json
from pathlib import Path

import pytest
from cli_run import run

MODEL = "Qwen/Qwen3.6-35B-A3B-FP8"
SETTING = ("--hw", "gb10", "--model", "qwen3.6-35b-a3b", "--engine", "vllm", "--quant", "fp8")
CLOSED = {"max_concurrency": 16}
RATE = {"max_concurrency": None, "request_rate": 0.3125}
DRAFTS = {"spec_decode_acceptance_length": 2.45, "spec_decode_acceptance_rate": 72.5,
          "spec_decode_per_position_acceptance_rates": [0.85, 0.6]}  # fmt: skip
COUNTS = {"spec_decode_acceptance_length": 2.45, "spec_decode_acceptance_rate": 72.5,
          "spec_decode_num_drafts": 1000, "spec_decode_draft_tokens": 2000,
          "spec_decode_accepted_tokens": 1450}  # fmt: skip
OFF, ON = (160.0, 1900.0, 92.0), (199.0, 800.0, 76.0)  # output tok/s, TTFT and TPOT in ms


def bench(path: Path, speeds: tuple[float, float, float], **more: object) -> str:
    """A file as `vllm bench serve --save-result` writes it."""
    speed, ttft, tpot = speeds
    count = int(str(more.pop("requests", 160)))
    row = {"backend": "vllm", "model_id": MODEL, "tokenizer_id": MODEL, "num_prompts": count,
           "completed": count, "failed": 0, "duration": 512 * count / speed,
           "request_throughput": speed / 512, "output_throughput": speed,
           "total_input_tokens": 2048 * count, "total_output_tokens": 512 * count,
           "mean_ttft_ms": ttft, "mean_tpot_ms": tpot}  # fmt: skip
    path.write_text(json.dumps(row | CLOSED | more))
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """Pairs of files by name."""
    made = {
        "off": (OFF, {}), "on": (ON, DRAFTS), "counts": (ON, COUNTS),
        "off-rate": ((160.0, 300.0, 40.0), RATE), "on-rate": ((160.4, 280.0, 28.0), RATE | DRAFTS),
        "slow": ((150.0, 3000.0, 76.0), DRAFTS), "off-10": (OFF, {"requests": 10}),
        "on-10": (ON, {"requests": 10} | DRAFTS),
        "share": (ON, DRAFTS | {"spec_decode_acceptance_rate": 135.0}),
    }  # fmt: skip
    paths = {n: bench(tmp_path / f"{n}.json", s, **more) for n, (s, more) in made.items()}
    (tmp_path / "cut.json").write_text('{"a": 1')
    return paths | {"cut": str(tmp_path / "cut.json")}


def call(*words: str) -> tuple[int, str]:
    """Exit status, and all that was printed on one line."""
    done = run(*words)
    return done.code, " ".join((done.out + done.err).split())


DIAGNOSES = ("normal here is", "Check that", "next: k=")
CASES = {
    # a rate sets the throughput: 40 / 28 ms
    "rate": (("off-rate", "on-rate", *SETTING), ("A/B: FASTER by TPOT", "1.43x",
             "offered at 0.3125 requests/s, not closed"), ("NO DIFFERENCE", "dominate")),
    "slower prompts": (("off", "slow", *SETTING), ("NO DIFFERENCE",), ("turn speculation off",)),
    "goal": (("off", "slow", *SETTING, "--goal", "tpot"), ("A/B: FASTER by TPOT", "1.21x"), ()),
    "goal ttft": (("off", "slow", *SETTING, "--goal", "ttft"), ("A/B: SLOWER by TTFT",), ()),
    "few prompts": (("off-10", "on-10", *SETTING),
                    ("10 requests at concurrency 16: there never were 16 at once",), ()),
    "k": (("off", "on", *SETTING, "--k", "3"), ("--k 3 was given and on.json says k = 2",),
          DIAGNOSES),
    "model": (("off", "on", "--hw", "gb10", "--model", "qwen3.6-27b"),
              (f"--model qwen3.6-27b was given and on.json says model {MODEL}",), DIAGNOSES),
    "no model": (("off", "on", "--hw", "gb10", "--model", "qwn3.6-27b"),
                 ("did you mean qwen3.6-27b",), DIAGNOSES),
    "k of counts": (("off", "counts", *SETTING), ("mtp k=2", "normal here is"), ("instead of 1",)),
    "release": (("off", "on", "--hw", "gb10", "--model", "qwen3.6-35b-a3b", "--engine",
                 "vllm@0.32.0"), ("on gb10, vllm, mtp k=2", "normal here is"), ("is none",)),
    "two cards": (("off", "on", "--hw", "2x3090", "--model", "qwen3.6-35b-a3b"),
                  ("on rtx3090, vllm",), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_has_its_sentence(name: str, files: dict[str, str]) -> None:
    words, wanted, unwanted = CASES[name]
    status, text = call("ab", *(files.get(word, word) for word in words))
    assert status == 0
    assert not [part for part in wanted if part not in text], text
    assert not [part for part in unwanted if part in text], text


ERRORS = {
    "hardware": (("off", "on", "--hw", "gb11"), "did you mean gb10"),
    "engine": (("off", "on", "--engine", "vlm"), "did you mean vllm"),
    "two releases": (("off", "on", "--engine", "vllm@0.32.0", "--engine-version", "0.31.0"),
                     "given twice"),
    "both draft": (("on", "on-rate"), "both runs draft, on.json too"),
    "share": (("off", "share"), "spec_decode_acceptance_rate is 135%"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_is_refused_in_a_sentence(name: str, files: dict[str, str]) -> None:
    words, wanted = ERRORS[name]
    status, text = call("ab", *(files.get(word, word) for word in words))
    assert status == 2 and text.startswith("Error:") and wanted in text


def test_a_conflict_is_kept_out_of_a_machine(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    status, text = call("calibrate", files["off"], files["on"], *SETTING, "--k", "3")
    assert status == 2 and "--k 3 was given and on.json says k = 2" in text


def test_one_bad_file_hides_no_good_one(files: dict[str, str]) -> None:
    status, text = call("results", files["off"], files["cut"], files["on"])
    assert status == 2 and "cut off" in text
    assert "output 160.0 tok/s" in text and "output 199.0 tok/s" in text
