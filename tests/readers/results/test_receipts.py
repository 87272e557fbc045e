"""Receipts: what they hold, what they do not, and that what was measured comes back."""

import json
import time
from contextlib import nullcontext
from html.parser import HTMLParser
from math import log
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli_run import run
from readers.results.test_own_round_trip import write

from advisor.advice.own_runs import receipt as receipts
from advisor.domain.nouns import AdvisorError
from advisor.readers.results.formats import read_all
from advisor.readers.results.power import power_in, sample_power
from advisor.readers.results.run import BenchmarkRun
from advisor.render.receipt import receipt_html

SETTING = ("--hw", "h100", "--model", "qwen3.6-35b-a3b", "--engine", "vllm", "--quant", "fp8")
GAIN = 2494.995 / 2004.994  # geometric means of 2490, 2500 and of 2000, 2010 tok/s
SECRETS = ("alice", "rack-7", "/home", "hunter2", "Tell me a secret")


def ask(*words: str) -> str:
    done = run(*words)
    assert done.code == 0, done.err
    return done.out


def error_of(*words: str) -> str:
    done = run(*words)
    assert done.code == 2 and done.err.startswith("Error: "), done
    return " ".join(done.err.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the receipt of an A/B with two repeats of each arm lies."""
    speeds = {"off": (2000, 7.2), "off2": (2010, 7.18), "on": (2490, 5.78), "on2": (2500, 5.77)}
    files = {
        name: write(tmp_path / f"{name}.json", *speed, name.startswith("on"))
        for name, speed in speeds.items()
    }
    for path in map(Path, files.values()):  # what a client writes beside its numbers
        row = json.loads(path.read_text())
        row |= {"tokenizer_id": "/home/alice/x", "host": "rack-7", "api_key": "hunter2"}
        row |= {"endpoint_type": "alice's laptop: rack-7", "generated_texts": [SECRETS[-1]]}
        path.write_text(json.dumps(row))
    out = tmp_path / "team"
    ask("receipt", files["off"], files["on"], "--off", files["off2"], "--on", files["on2"],
        *SETTING, "--out", str(out))  # fmt: skip
    return out


def only(folder: Path, suffix: str = ".json") -> Path:
    (path,) = folder.glob(f"*{suffix}")
    return path


def edit(path: Path, **fields: Any) -> Path:
    """The receipt with other values, beside it."""
    data = json.loads(path.read_text()) | fields
    other = path.with_name("other.json")
    other.write_text(json.dumps(data))
    return other


@pytest.mark.parametrize("asked", [("--hw", "h100"), ("--output-spread", "0")])
def test_what_was_measured_comes_back(folder: Path, asked: tuple[str, ...]) -> None:
    words = ("recommend", "--receipts", str(folder), "--concurrency", "16", "--format", "json")
    made = json.loads(ask(*words, *asked))
    rate = made["estimate"]["output_tok_s"]
    assert made["plan"]["k"] == 2 and rate["speedup"]["p50"] == pytest.approx(GAIN, rel=0.03)
    assert rate["baseline"] == pytest.approx(2005, rel=0.03)
    text = made["reasons"][0]["text"]
    assert "Calibrated with the receipts in" in text and "(1 own run, newest 2026-11-20)" in text


def test_a_receipt_is_as_its_schema_says_and_holds_both_arms(folder: Path) -> None:
    data = json.loads(only(folder).read_text())
    jsonschema.Draft202012Validator(json.loads(ask("schema", "receipt"))).validate(data)
    assert data["schema"] == "advisor/receipt/1" and data["verdict"] == "faster"
    assert [run["output_tok_s"] for run in data["off"] + data["on"]] == [2000, 2010, 2490, 2500]
    assert data["on"][0]["acceptance"]["by_position"] == [0.85, 0.6]
    assert data["loads"][0]["gains"][0]["gain"] == pytest.approx(GAIN, rel=1e-4)
    assert len(data["runs"][0]["inputs_sha256"]) == 4
    assert data["quality"] is None and data["power"] == {}, "not known"


def test_a_receipt_holds_no_names_hosts_paths_or_prompts(folder: Path) -> None:
    for suffix in (".json", ".html"):
        text = only(folder, suffix).read_text()
        assert not [word for word in SECRETS if word in text]


def test_what_any_reader_gives_is_freed_of_names(folder: Path) -> None:
    """Every text field of a run, whichever reader fills it."""

    def with_names(arm: str) -> list[BenchmarkRun]:
        runs = read_all(sorted(folder.parent.glob(f"{arm}*.json")))
        named = {
            name: f"/home/alice/{name}@rack-7"
            for name, field in BenchmarkRun.model_fields.items()
            if field.annotation in (str, str | None) and name not in ("sha256", "model")
        } | {"notes": ("Tell me a secret",), "method": "none" if arm == "off" else "mtp"}
        return [one.model_copy(update=named) for one in runs]

    off, on = with_names("off"), with_names("on")
    for i, each in enumerate((*off, *on)):
        object.__setattr__(each, "part", f"rack-7 {i}")
    made = receipts.make(off, on, {"hardware": "h100", "model": "qwen3.6-35b-a3b"})
    assert off and on and not [word for word in SECRETS if word in made.text()]


class Page(HTMLParser):
    """The tags and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_stands_alone_and_nothing_in_it_runs(folder: Path) -> None:
    data = json.loads(only(folder).read_text())
    data["runs"][0]["engine_version"] = "<script>alert(1)</script>\x1b[31m"
    text = receipt_html(receipts.read(edit(only(folder), runs=data["runs"])))
    seen = Page(text)
    assert not seen.links and not seen.tags & {"script", "link", "img", "iframe"}
    assert "\x1b" not in text and "url(" not in text and "@import" not in text and "1.24x" in text


BAD = {
    "other schema": ({"schema": "advisor/receipt/2"}, "its schema is not advisor/receipt/1"),
    "unknown key": ({"host": "rack-7"}, "extra inputs are not permitted"),
    "a path for an id": ({"hardware": "../../gb10"}, "hardware: string should match pattern"),
    "a path for a source": ({"source": "/etc/x"}, "source: string should match pattern"),
    "no hardware": ({"hardware": None}, "hardware: input should be a valid string"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_receipt_is_one_sentence(name: str, folder: Path) -> None:
    edit(only(folder), **BAD[name][0])
    assert BAD[name][1] in error_of("recommend", "--receipts", str(folder))


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 3000, '{"schema":' + "9" * 5000 + "}"])
def test_what_is_no_json_is_one_sentence(text: str, folder: Path) -> None:
    (folder / "bad.json").write_text(text)
    assert "bad.json" in error_of("recommend", "--receipts", str(folder))


@pytest.mark.parametrize(("more", "refused"), [(0.009, False), (0.011, True)])
def test_a_gain_that_no_arms_make_is_refused(more: float, refused: bool, folder: Path) -> None:
    """Figures are rounded on their way, by no more than a percent."""
    data = json.loads(only(folder).read_text())
    data["runs"][0]["gains"]["output_tok_s"]["log"] = log(GAIN) + more
    why = "off and on make 1.24x output_tok_s, and none of its runs says so"
    with pytest.raises(AdvisorError, match=why) if refused else nullcontext():
        receipts.read(edit(only(folder), runs=data["runs"]))


def test_an_edited_receipt_is_said_to_be(folder: Path) -> None:
    data = json.loads(only(folder).read_text())
    data["runs"][0]["accepted_length"] = 2.5
    only(folder).write_text(json.dumps(data))
    words = ("recommend", "--receipts", str(folder), "--concurrency", "16", "--explain")
    assert "edited by hand" in " ".join(ask(*words).split())


def test_receipts_of_several_machines_are_told_apart(folder: Path) -> None:
    ask("receipt", *(str(folder.parent / f"{arm}.json") for arm in ("off", "on")), "--hw", "h200",
        "--model", "qwen3.6-35b-a3b", "--out", str(folder))  # fmt: skip
    assert "1 own run, newest" in " ".join(
        ask("recommend", "--receipts", str(folder), "--hw", "h100", "--explain").split()
    )
    assert "they are of h100-sxm, h200" in error_of("recommend", "--receipts", str(folder))
    assert "no receipt of rtx3090" in error_of(
        "recommend", "--receipts", str(folder), "--hw", "3090"
    )


def test_the_same_run_twice_counts_once(folder: Path) -> None:
    edit(only(folder))
    assert len(receipts.machine_for(None, str(folder), "h100-sxm").runs) == 1


def test_two_sets_of_runs_are_one_too_many(folder: Path) -> None:
    assert "give one of them" in error_of("recommend", "--receipts", str(folder), "--machine", "m")


@pytest.mark.parametrize("count", [0, 1001])
def test_a_folder_without_receipts_or_with_too_many(tmp_path: Path, count: int) -> None:
    for i in range(count):
        (tmp_path / f"{i}.json").write_text("{}")
    with pytest.raises(AdvisorError, match=r"holds none|more than 1000"):
        receipts.machine_for(None, str(tmp_path), None)


TABLE = """
| Card | Baseline | With flag | n-max | Acceptance | Contributor |
|---|---|---|---|---|---|
| RTX 3090 24GB | 30.0 | 42.0 | 2 | 0.78 | [@alice](https://example.org/alice) |
| RTX 3090 24GB (Q6_K) | 25.0 | 30.0 | 2 | 0.5-0.9 | alice |
| 2x RTX 4090 24GB | 50 | 90 | 3 | 0.7 | alice |
| Toaster 9000 | 1 | 2 | 2 | 0.7 | alice |
"""


def test_a_public_table_becomes_receipts_with_what_is_unknown_marked(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(TABLE)
    setting = ("--model", "qwen3.8-27b", "--engine", "llama-server")
    done = run("receipt", str(tmp_path / "README.md"), *setting, "--out", str(tmp_path / "team"))
    assert done.code == 0, done.err
    assert "no receipt of Toaster 9000: for a receipt, give known hardware" in done.err
    made = sorted(
        (receipts.read(path) for path in (tmp_path / "team").glob("table-*.json")),
        key=lambda one: one.runs[0].baseline["tpot"],
    )
    assert [(one.hardware, one.gpus, one.runs[0].k) for one in made] == [
        ("rtx4090", 2, 3), ("rtx3090", 1, 2), ("rtx3090", 1, 2)
    ]  # fmt: skip
    first = made[1]
    assert first.runs[0].gains["tpot"].log == pytest.approx(log(1.4))
    assert first.runs[0].accepted_length == pytest.approx(1 + 2 * 0.78)
    assert made[2].runs[0].accepted_length is None, "a range is no rate"
    data = json.loads(first.text())
    assert data["off"][0]["ttft_ms"] is data["runs"][0]["engine_version"] is None
    assert "alice" not in first.text()
    words = ("--hw", "3090", "--receipts", str(tmp_path / "team"), *setting, "--format", "json")
    assert "2 own runs" in json.loads(ask("recommend", *words))["reasons"][0]["text"]


def atlas(path: Path, tpot: float, args: dict[str, Any], engine: str = "vllm") -> str:
    """A file in the layout of atlas-bench, with figures of our own."""
    times = {"mean": tpot, "p50": tpot, "p90": 1.1 * tpot, "p95": 1.2 * tpot, "p99": 1.3 * tpot}
    data = {
        "schema_version": 1, "config_id": "c", "cell_id": "d", "workload_id": "serve-single-v1",
        "kind": "serving", "args": args, "engine": {"id": engine, "version": "0.33.0"},
        "model": {"hf_id": "Qwen/Qwen3.8-27B", "quant_id": "fp8"},
        "hardware": {"id": "nvidia-gb10-dgx-spark", "count": 1, "host": {"cpu": "alice"}},
        "workload": {"resolved_params": {"concurrency": 2, "seed": 42, "temperature": 0}},
        "metrics": {"requests_ok": 50, "requests_failed": 0,
                    "duration_s": 0.0128 * 25 * tpot * 20, "input_tokens_total": 12_800,
                    "output_tokens_total": 12_800, "output_tok_s": 2000 / tpot,
                    "ttft_ms": dict(times, mean=300.0), "tpot_ms": times},
        "raw": {"harness": "atlas-bench", "harness_version": "0.1.0"},
    }  # fmt: skip
    path.write_text(json.dumps(data))
    return str(path)


DRAFTS = {
    "vllm": ({"speculative-config": {"method": "mtp", "num_speculative_tokens": 3}}, "mtp"),
    "sglang": ({"speculative-algorithm": "NEXTN", "speculative-num-steps": 3}, "mtp"),
    "llamacpp": ({"spec-type": "draft-mtp", "spec-draft-n-max": 3}, "mtp"),
}


@pytest.mark.parametrize("engine", DRAFTS)
def test_files_of_the_atlas_become_a_receipt(engine: str, tmp_path: Path) -> None:
    args, method = DRAFTS[engine]
    off = atlas(tmp_path / "off.json", 100.0, {"max-model-len": 8192}, engine)
    on = atlas(tmp_path / "on.json", 62.5, args, engine)
    ask("receipt", off, on, "--out", str(tmp_path / "team"))
    made = receipts.read(only(tmp_path / "team"))
    (own,) = made.runs
    assert (made.hardware, made.source, own.method, own.k) == ("gb10", "atlas", method, 3)
    assert (own.engine, own.concurrency, own.input_tokens) == (
        {"llamacpp": "llama-server"}.get(engine, engine), 2, 256
    )  # fmt: skip
    assert own.gains["tpot"].log == pytest.approx(log(1.6))
    assert made.on[0].tpot_ms is not None and made.on[0].tpot_ms.p99 == pytest.approx(81.25)
    assert made.on[0].itl_ms is None and "alice" not in made.text()


def test_the_receipt_kept_as_an_example_is_what_its_files_make(tmp_path: Path) -> None:
    """A real A/B of vLLM on an H200."""
    place = Path(__file__).parents[3] / "examples" / "ab-h200"
    files = [str(place / f"{arm}-seed{seed}.jsonl") for seed in (1, 2) for arm in ("off", "on")]
    ask("receipt", *files[:2], "--off", files[2], "--on", files[3], "--hw", "h200", "--quant",
        "bf16", "--out", str(tmp_path))  # fmt: skip
    for suffix in (".json", ".html"):
        assert only(place, suffix).read_text() == only(tmp_path, suffix).read_text()
    setting = ("--concurrency", "8", "--ctx", "2079", "--output-tokens", "192")
    # its answers were of one length, its release is not the newest
    setting += ("--output-spread", "0", "--vary", "k=2..2", "--engine", "vllm@0.25.1")
    made = ask("sweep", "--receipts", str(place), "--model", "qwen3.5-9b", "--quant", "bf16",
               *setting, "--goal", "tpot", "--format", "json")  # fmt: skip
    (row,) = json.loads(made)["loads"][0]["points"]
    assert row["gain"]["p50"] == pytest.approx(6.1236 / 4.0349, rel=0.03)


SMI = """\
#!/usr/bin/env bash
[ "$*" = "--query-gpu=index,name,driver_version,memory.used,power.draw,power.limit \
--format=csv,noheader,nounits -lms 500 -i 0,1" ] || exit 3
while :; do
  echo "0, NVIDIA H200, 580.1, 120000, 500.0, 700.0"
  echo "1, NVIDIA H200, 580.1, 3, 80.0, 700.0"
  sleep 0.05
done
"""


def test_watts_of_cards_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 500 W of one card; the other holds 3 MiB."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(SMI)
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    samples, end = tmp_path / "power.csv", time.monotonic() + 60
    with sample_power(samples, {"CUDA_VISIBLE_DEVICES": "0,1"}):
        while samples.stat().st_size < 400:
            assert time.monotonic() < end
            time.sleep(0.02)
    seen = power_in(samples)
    assert seen is not None and (seen.watts, seen.limit_w) == (500.0, 700.0)
    assert (seen.card, seen.driver) == ("NVIDIA H200", "580.1")


WATTS = {  # of a card with memory of the machine's own no use is told
    "no driver": ("", None), "no watts": ("0, NVIDIA GB10, 580.1, [N/A], [N/A], [N/A]\n", None),
    "rubbish": ("Failed to initialize NVML\n1,2\n", None),
    "no use": ("0, NVIDIA GB10, 580.1, [N/A], 60.0, [N/A]\n", 60.0),
    "hardly used": ("0, A, 1, 1023, 60.0, 70\n1, A, 1, 1024, 50.0, 70\n", 50.0),
}  # fmt: skip


@pytest.mark.parametrize("name", WATTS)
def test_watts_that_nobody_tells_are_not_known(name: str, tmp_path: Path) -> None:
    text, watts = WATTS[name]
    (tmp_path / "power.csv").write_text(text)
    assert getattr(power_in(tmp_path / "power.csv"), "watts", None) == watts
    assert power_in(tmp_path / "none.csv") is None
