"""Own runs of a machine: the private file, what they change of an answer, what is shared, and a
look at a running server.
"""

import csv
import json
import re
import stat
import threading
import time
from math import log
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from readers.results.paced_server import Pace, start

from advisor.advice.own_runs import machine as machines
from advisor.advice.own_runs import receipt as receipts
from advisor.advice.own_runs.calibration import calibrated_reason
from advisor.advice.own_runs.setting import workload_of
from advisor.advice.recommend import recommend
from advisor.cli import own_runs as cli_own_runs
from advisor.cli.app import cli
from advisor.domain.nouns import AdvisorError
from advisor.prediction import own_runs
from advisor.prediction.decision import decide_one
from advisor.readers import server as client
from advisor.render.receipt import rows_of
from tests.tables import fields

FILES = Path(__file__).parent / "files"
ARMS = [str(FILES / f"vllm-serve-{arm}.json") for arm in ("off", "on")]
SETTING = ["--hw", "gb10", "--model", "qwen3.6-35b-a3b", "--name", "spark"]
GAIN = 20.004876136995488 / 13.173019673610991  # of TPOT in these files
LOAD = {"concurrency": 4, "ctx_tokens": 1024, "output_tokens": 256}
ABOUT = fields(
    "date=2026-11-20 model=qwen3.6-35b-a3b engine=vllm quant=fp8 concurrency=4 input_tokens=1024 "
    "output_tokens=256 workload=mixed"
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "advisor" / "machines"


def call(*words: str) -> tuple[int, str]:
    made = CliRunner().invoke(cli, list(words))
    return made.exit_code, made.output + (str(made.exception) if made.exception else "")


def machine(gain: float, sd: float = 0.02, **setting: object) -> machines.Machine:
    gains = {name: {"log": log(gain), "sd": sd} for name in ("output_tok_s", "tpot")}
    drafts = {"method": "mtp", "k": 2, "gains": gains}
    run = machines.MachineRun.model_validate(ABOUT | drafts | setting)
    return machines.Machine(name="m", hardware="gb10", runs=(run,))


def test_calibrate_writes_a_private_file_of_a_few_numbers(own_folder: Path) -> None:
    assert call("calibrate", *ARMS, *SETTING)[0] == 0
    path = own_folder / "spark.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    run = yaml.safe_load(text)["runs"][0]
    assert run["gains"]["tpot"]["log"] == pytest.approx(log(GAIN))
    assert (run["date"], run["k"], len(run["inputs_sha256"])) == ("2026-11-23", 2, 2)
    assert run["accepted_length"] == pytest.approx(2.38, rel=0.01)
    for secret in ("127.0.0.1", "tok tok", str(FILES), "paced"):
        assert secret not in text
    call("calibrate", *ARMS, *SETTING)
    assert len(machines.load("spark").runs) == 1, "the same files again are the same run"


def test_the_answer_says_what_the_runs_changed() -> None:
    call("calibrate", *ARMS, *SETTING)
    words = ["recommend", "--concurrency", "4", "--ctx", "128", "--output-tokens", "100"]
    assert "Calibrated" not in call(*words, "--hw", "gb10")[1]
    after = " ".join(call(*words, "--machine", "spark", "--explain")[1].split())
    assert "Calibrated with machine 'spark' (1 own run, newest 2026-11-23)" in after
    assert "without them" in after


def test_what_is_carried_over_from_another_text_is_said() -> None:
    own = machine(1.05, workload="random")
    for text, carried in (("mixed", True), ("random", False)):
        advice = recommend(hardware="gb10", machine=own, workload=text, **LOAD)
        brief = calibrated_reason(own, advice).brief
        assert ("own runs, from 1.05x at 4 x random text: " in brief) == carried, brief
    assert "--workload random" in call("calibrate", *ARMS, *SETTING, "--workload", "random")[1]


def test_a_machine_is_asked_about_as_it_was_measured(tmp_path: Path) -> None:
    files = [tmp_path / Path(path).name for path in ARMS]
    for path, file in zip(ARMS, files, strict=True):
        file.write_text(Path(path).read_text().replace("paced-model", "Qwen3.6-27B-NVFP4"))
    call("calibrate", *map(str, files), "--hw", "a100-80gb")
    words = "recommend --machine own --concurrency 4 --ctx 128 --output-tokens 100 --format json"
    told = json.loads(call(*words.split())[1])["estimate"]
    assert told["tpot_ms"]["speedup"]["p50"] == pytest.approx(20.005 / 13.173, rel=0.03)


def repeats(folder: Path, speeds: list[float]) -> list[str]:
    """Files of the run without speculation, each as fast as given (1: as the first)."""
    made = json.loads(Path(ARMS[0]).read_text())
    paths = []
    for i, speed in enumerate(speeds):
        row = {k: v for k, v in made.items() if k not in ("ttfts", "itls", "latencies")}
        for name in row:
            if name.endswith("_throughput"):
                row[name] *= speed
            elif name.endswith("_ms"):
                row[name] /= speed
        paths.append(str(folder / f"off-{i}.json"))
        Path(paths[-1]).write_text(json.dumps(row | {"date": f"20261120-10000{i}"}))
    return paths


def test_the_plain_speed_is_that_of_all_repeats(tmp_path: Path) -> None:
    """Not of the first, which is often the cold one; the order of the files says nothing."""
    files = repeats(tmp_path, [0.8, 1.0, 1.1])
    middle = (0.8 * 1.0 * 1.1) ** (1 / 3)
    found = []
    for first, *more in (files, files[::-1]):
        off = [word for path in more for word in ("--off", path)]
        assert call("calibrate", first, ARMS[1], *off, *SETTING)[0] == 0
        found.append(machines.load("spark").runs[0])
    assert found[0].baseline == pytest.approx(found[1].baseline)
    assert found[0].baseline_sd == pytest.approx(found[1].baseline_sd)
    run = found[0]
    assert run.baseline["tpot"] == pytest.approx(20.005 / middle, rel=1e-3)
    assert run.baseline["output_tok_s"] == pytest.approx(194.5 * middle, rel=1e-3)
    assert run.gains["tpot"].log == pytest.approx(log(GAIN / middle)), "of the same plain speed"
    assert run.baseline_sd["tpot"] > 1.5 * 0.041 / 3**0.5, "they scatter by more than most"


def test_the_surer_of_two_runs_counts_more() -> None:
    found = []
    for sds in ((0.05, 0.5), (0.5, 0.05), (0.2, 0.2)):
        runs = [
            ABOUT | {"baseline": {"tpot": value}, "baseline_sd": {"tpot": sd}}
            for value, sd in zip((20.0, 30.0), sds, strict=True)
        ]
        made = machines.Machine.model_validate({"name": "m", "hardware": "gb10", "runs": runs})
        found.append(recommend(hardware="gb10", machine=made, **LOAD).estimate.tpot_ms.baseline)
    assert found == pytest.approx([20.0, 30.0, (20 * 30) ** 0.5], rel=0.02)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([ARMS[1], ARMS[0], *SETTING], "swapped"),
        ([ARMS[1], *SETTING], "this run drafts"),
        ([ARMS[0], str(FILES / "sglang-on.jsonl"), *SETTING], "differ in more than speculation"),
        ([*ARMS, "--model", "qwen3.6-35b-a3b"], "the hardware"),
        ([*ARMS, "--hw", "gb10"], "the model"),
        ([*ARMS, "--hw", "gb10", "--model", "qwen3.6-35b-a3b", "--name", "../x"],
         "not a valid machine name"),
        ([*ARMS, *ARMS, *SETTING], "give OFF, then ON"),
        ([str(FILES / "guidellm-off.json"), str(FILES / "guidellm-on.json"), *SETTING], "give --k"),
    ],
)  # fmt: skip
def test_no_calibration_writes_nothing(words: list[str], why: str, own_folder: Path) -> None:
    status, said = call("calibrate", *words)
    assert status != 0 and why in said and not own_folder.exists()


@pytest.mark.parametrize(
    "text",
    ["", "a: [", "name: m", "!!python/object/apply:os.system [x]",
     "{name: m, hardware: gb10, runs: [{}]}", "\x00"],
)  # fmt: skip
def test_a_broken_machine_file_is_one_sentence(text: str, own_folder: Path) -> None:
    own_folder.mkdir(parents=True)
    (own_folder / "m.yaml").write_text(text)
    with pytest.raises(AdvisorError) as said:
        machines.load("m")
    assert "\n" not in str(said.value)


def edit(text: str, old: str, new: str) -> str:
    """A machine file with one line changed by hand."""
    made, count = re.subn(rf"(?m)^([ -]*){old}.*$", rf"\g<1>{new}", text)
    assert count, f"no line {old} in the file"
    return made


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("accepted_length: ", "accepted_length: 9.0", "9 tokens per step, where k = 2 allows 3"),
        ("tpot: 20", "tpot: 200.0", "194.5 tok/s, where 4 requests of 200 ms a token make 20"),
        ("concurrency: ", "concurrency: 4e6", "less than or equal to 100000"),
        ("date: ", "date: soon", "runs.0.date"),
        ("engine: ", "engine: foo", "no predicted engine is called 'foo'"),
        ("model: ", "model: nosuch", "unknown model 'nosuch'"),
    ],
)
def test_contradicting_numbers_are_refused(old: str, new: str, why: str, own_folder: Path) -> None:
    call("calibrate", *ARMS, *SETTING)
    path = own_folder / "spark.yaml"
    path.write_text(edit(path.read_text(), old, new))
    status, said = call("recommend", "--machine", "spark", "--concurrency", "4")
    assert status != 0 and why in said and len(said.strip().splitlines()) == 1


def test_a_file_that_was_edited_is_said_to_be(own_folder: Path) -> None:
    words = ["recommend", "--machine", "spark", "--concurrency", "4"]
    call("calibrate", *ARMS, *SETTING)
    assert "edited by hand" not in " ".join(call(*words)[1].split())
    path = own_folder / "spark.yaml"
    path.write_text(edit(path.read_text(), "tpot: 20", "tpot: 0.02"))
    said = " ".join(call(*words)[1].split())
    assert "edited by hand since they were measured" in said
    assert re.search(r"They make a token without speculation \d+ times as fast as expected", said)
    call("calibrate", ARMS[0], *SETTING)
    assert machines.load("spark").is_edited, "another run does not seal what was edited"
    path.write_text(re.sub("(?m)^seal: .*\n", "", path.read_text()))
    assert not machines.load("spark").is_edited, "a file of an old release has no seal"


def test_streams_follow_from_throughput_and_time_per_token(tmp_path: Path) -> None:
    """Where no file states the load."""
    table = tmp_path / "t.csv"
    table.write_text(
        "completed,duration,request_throughput,output_throughput,mean_ttft_ms,mean_tpot_ms,k,method\n"
        "16,8,2,200,50,20,0,none\n16,6,3,300,50,13.3,2,mtp\n"
    )
    assert call("calibrate", str(table), *SETTING)[0] == 0
    assert machines.load("spark").runs[0].concurrency == 4


def test_unknown_and_other_machines_are_refused() -> None:
    assert "no machine is called 'x'" in call("recommend", "--machine", "x")[1]
    call("calibrate", *ARMS, *SETTING)
    for words in (["recommend", "--machine"], ["calibrate", *ARMS, "--name"]):
        assert "is a gb10" in call(*words, "spark", "--hw", "h100", *SETTING[2:4])[1]


def test_what_is_shared_holds_no_formula() -> None:
    run = machines.MachineRun(date="2026-11-25", model="=cmd|calc", engine="vllm", workload="@x")
    made = receipts.of_machine(machines.Machine(name="a", hardware="gb10", runs=(run,)))
    (row, *_) = rows_of(made)
    assert (row["model"], row["workload"]) == ("'=cmd|calc", "'@x")


def test_what_is_shared_is_taken_into_the_measurements(tmp_path: Path) -> None:
    call("calibrate", *ARMS, *SETTING)
    assert call("share", "spark", "--out", str(tmp_path / "out"))[0] == 0
    (made,) = (tmp_path / "out").glob("own-gb10-*.json")
    assert "spark" not in made.read_text()
    into = tmp_path / "measurements"
    words = ["data", "add", str(made), "--into", str(into)]
    assert call(*words)[0] == 0
    status, said = call("data", "check", str(into))
    assert status == 0 and "2 good rows, 0 problems" in said, said
    rows = list(csv.DictReader((into / "runs" / f"{made.stem}.csv").open()))
    assert [float(row["tpot_ms"]) for row in rows] == pytest.approx([20.005, 13.173], rel=1e-3)
    kept = yaml.safe_load((into / "sources" / f"{made.stem}.yaml").read_text())
    assert kept["files"]["runs"]["rows"] == 2 and len(kept["inputs_sha256"]) == 2
    assert "is there already" in call(*words)[1]
    call("calibrate", *ARMS, *SETTING, "--quant", "fp8")
    call("share", "spark", "--out", str(tmp_path / "more"))
    (other,) = (tmp_path / "more").glob("own-gb10-*.json")
    assert other.name != made.name
    assert "a duplicate" in call("data", "add", str(other), "--into", str(into))[1]


def test_every_load_of_a_file_and_every_k_beside_one_baseline_is_kept(own_folder: Path) -> None:
    sweep = [str(FILES / f"benchy-{arm}.json") for arm in ("off", "on")]
    for again in range(2):
        status, said = call("calibrate", *sweep, *SETTING, "--k", "2")
        assert status == 0 and "2 runs added" in said and "2 in total" in said, (again, said)
    assert len({run.concurrency for run in machines.load("spark").runs}) == 2


@pytest.mark.parametrize("root", ["relative/folder", "", "."])
def test_a_relative_folder_is_ignored(
    root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", root)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert machines.folder() == tmp_path / ".config" / "advisor" / "machines"


def test_without_a_home_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")

    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    for words in (["recommend", "--machine", "x"], ["calibrate", *ARMS, *SETTING]):
        assert "set XDG_CONFIG_HOME" in call(*words)[1]


@pytest.mark.parametrize(
    ("dataset", "text"),
    [("random", "random"), ("random-ids", "random"), ("sharegpt", "chat"), ("code:1f00ab", "code"),
     ("mixed:12", "mixed"), ("/data/mine.jsonl", None), ("hf", None), (None, None)],
)  # fmt: skip
def test_the_text_of_a_run_is_what_its_client_says(dataset: str | None, text: str | None) -> None:
    assert workload_of(dataset) == text


HERE = np.array([[2.0, 11.0, 1.0, 0, 1, 5, 1, 1, 0, 0, 0, 0, 0]])


def place(where: np.ndarray = HERE, sd: float = 0.2, left_open: float = 0.02) -> own_runs.Places:
    return own_runs.Places(where, np.full(len(where), left_open), np.full(len(where), sd))


def own(total: float, noise: float, accepted: float = np.nan) -> own_runs.Observations:
    return own_runs.Observations(place(), *(np.array([v]) for v in (total, noise, accepted)))


def test_the_update_is_that_of_a_gaussian_process() -> None:
    """Shift and scale of one observation in closed form; noise and distance weaken it."""
    made = own_runs.kernel()
    prior = made.accepted * 0.02 + (made.step + made.setting) * 0.2**2
    exact = own_runs.update(place(), own(0.3, 0.02))
    share = prior / (prior + 0.02**2)
    assert exact.shift[0] == pytest.approx(0.3 * share, rel=1e-3)
    explained = made.narrow * prior * share / 0.2**2
    assert exact.scale[0] ** 2 == pytest.approx(max(1 - explained, 0.02), rel=0.01)
    far = place(HERE + np.eye(13)[0] * 4)
    for weaker in (own_runs.update(place(), own(0.3, 0.2)), own_runs.update(far, own(0.3, 0.02))):
        assert 0 < weaker.shift[0] < exact.shift[0]
    first = own_runs.update(place(HERE + np.eye(13)[9]), own(0.3, 0.02))
    assert first.shift[0] == 0 and first.scale[0] == 1, "the first token says nothing of the others"


def test_own_runs_are_off_at_the_same_chance_and_on_earlier() -> None:
    """A measured loss leaves nothing to measure that was off without it."""
    for chance in (0.2, 0.42, 0.5, 0.63, 0.7):
        assert decide_one(0.97, chance, measured=1.0) == decide_one(0.97, chance), chance
    assert decide_one(1.2, 0.85) == "measure" and decide_one(1.2, 0.85, measured=1.0) == "on"
    far = machine(1.1, model="llama-3.3-70b", k=3, engine="sglang")  # which says little of it
    asked = recommend(hardware="gb10", machine=far, concurrency=256, ctx_tokens=2048).estimate
    near = recommend(hardware="gb10", machine=machine(1.1), **LOAD).estimate
    assert 0 <= asked.own_share < 0.19 and 0.5 < near.own_share <= 1
    assert asked.measured_gain < 1 == near.measured_gain


def test_runs_of_one_place_that_differ_leave_the_next_one_open() -> None:
    """By hand: logs 0.2231 and -0.0513 of sd 0.041 have Q = 0.2744^2 / (2 * 0.041^2) = 22.4, so
    DerSimonian and Laird's variance between runs is 21.4 * 0.041^2 = 0.0360, and half of that of
    their mean; runs 2 % apart and runs of two loads leave nothing.
    """
    gap, sd = np.zeros((2, 2, 10)), np.full(2, 0.041)
    apart = own_runs.disagreement(gap, np.log([1.25, 0.95]), sd)
    assert apart == pytest.approx(1.5 * 0.0360, rel=2e-3)
    assert not own_runs.disagreement(gap, np.log([1.25, 1.22]), sd).any()
    assert not own_runs.disagreement(1 - np.eye(2)[..., None], np.log([1.25, 0.95]), sd).any()


def test_what_was_accepted_is_told_apart_from_what_a_step_cost() -> None:
    """A miss that acceptance explains fades with the text, one that it does not fades with load."""
    text, load = place(HERE + np.eye(13)[3]), place(HERE + np.eye(13)[0] * 4)
    drafts, step = (own(0.2, 0.05, accepted=part) for part in (0.2, 0.0))
    assert own_runs.update(load, drafts).shift[0] > own_runs.update(load, step).shift[0]
    same = own_runs.update(place(), drafts)
    assert same.accepted[0] == pytest.approx(0.2, rel=0.2) != own_runs.update(text, drafts).accepted
    assert abs(own_runs.update(place(), step).accepted[0]) < 0.02


@pytest.mark.parametrize("engine", ["vllm", "llama-server"])
def test_watch_says_what_to_do_with_a_server(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pace = Pace(step_ms=10, ttft_ms=10, k=2, rates=(0.8, 0.6), engine=engine)
    server, url = start(pace)
    body = {"model": "m", "max_tokens": 60, "messages": [{"role": "user", "content": "a b c"}]}
    stop = threading.Event()

    def traffic() -> None:
        while not stop.is_set():
            client.stream(url, body, 600)

    def sleep(seconds: float) -> None:
        """Time enough for three answers, on a machine of any pace."""
        enough, end = pace.tokens + 3 * 60, time.monotonic() + 120
        while pace.tokens < enough:
            assert time.monotonic() < end and seconds == 1.5
            time.sleep(0.02)

    monkeypatch.setattr(
        cli_own_runs, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
    )
    thread = threading.Thread(target=traffic, daemon=True)
    thread.start()
    try:
        status, said = call(
            "watch", "--url", url, "--seconds", "1.5", "--hw", "gb10", "--model", "qwen3.6-35b-a3b"
        )
    finally:
        stop.set()
        thread.join(60)
        server.shutdown()
        server.server_close()
    assert status == 0 and "speculation: " in said and "output " in said, said
    if engine == "vllm":
        assert "by position 80%, 60%" in said or "tokens per step" in said
        line = " ".join(said.split())
        gain = float(re.search(r"k=2 is expected to give ([\d.]+)x", line)[1])  # type: ignore[index]
        least = re.search(r"alert: k=2 is off below ([\d.]+) accepted tokens a step", line)
        # by hand: 2.4 tokens a step for what `gain` times less would be the time of a plain one
        assert least is not None and float(least[1]) == pytest.approx(2.4 / gain, rel=0.05)


def test_watch_without_a_server() -> None:
    assert "no server answers" in call("watch", "--url", "http://127.0.0.1:9")[1]
