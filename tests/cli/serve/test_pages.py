"""What the pages say: the answer, the curve, a checked configuration, benchmark files, errors."""

import html
import json
import re
from pathlib import Path
from statistics import median
from urllib.parse import parse_qsl
from xml.etree import ElementTree

import pytest
import yaml
from cli_run import run
from effort import ordinary_files, processor_seconds
from starlette.testclient import TestClient

from advisor.cli.serve import answers, curve, pages
from advisor.cli.serve.answers import AnswerCache
from advisor.cli.serve.curve import curve_view
from advisor.cli.serve.question import question_from
from advisor.rules.registry import index as rule_index

FILES = Path(__file__).resolve().parents[2] / "readers" / "results" / "files"


def test_the_start_offers_examples_that_are_answered(page: TestClient) -> None:
    links = re.findall(r'<li><a href="(/\?[^"]+)"', page.get("/").text)
    assert len(links) >= 5
    for link in links:
        got = page.get(link.replace("&amp;", "&"))
        assert got.status_code == 200 and 'class="card verdict' in got.text, link


def test_the_parts_are_the_same_answer_as_the_page(page: TestClient) -> None:
    query = "hw=gb10&concurrency=13"
    part, changes = page.get(f"/part/answer?{query}").text, page.get(f"/part/changes?{query}").text
    whole = page.get(f"/?{query}").text
    before, after = re.split(r'<div class="changes" data-load="[^"]+"></div>', part.strip())
    assert before in whole and after in whole
    items = re.findall(r"<li>(.*?)</li>", changes)
    wanted = page.get(f"/api/recommend?{query}").json()["would_change"]
    assert [html.unescape(item) for item in items] == wanted and changes.strip() in whole


@pytest.mark.parametrize(
    "query",
    ["hw=gb10&concurrency=16", "hw=rtx3090&gpus=2&model=qwen3.6-27b", "hw=gb10&model=llama-3.1-8b"],
)
def test_the_drawings_parse_and_say_what_they_show(page: TestClient, query: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page.get(f"/part/curve?{query}").text, re.S)
    assert len(drawings) == 2
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        ids = set((root.get("aria-labelledby") or "").split())
        told = {part.get("id"): part.text for part in root if part.tag in ("title", "desc")}
        assert ids == set(told) and all(told.values())
        _, _, width, height = map(float, (root.get("viewBox") or "").split())
        for line in root.iter("polyline"):
            for pair in (line.get("points") or "").split():
                x, y = map(float, pair.split(","))
                assert 0 <= x <= width and 0 <= y <= height


def test_the_curve_has_the_numbers_of_the_sweep(page: TestClient) -> None:
    """Golden in data: the table has the sweep's own figures, and the answer at each load."""
    loads = "1,2,3,4,6,8,12,16,24,32,48,64,96,128"
    ran = run("sweep", "--hw", "gb10", "--engine", "vllm", "--vary", f"concurrency={loads}",
              "--format", "json")  # fmt: skip
    sweep = json.loads(ran.out)
    text = page.get("/part/curve?hw=gb10&engine=vllm&concurrency=16").text
    rows = re.findall(r'<tr><th scope="row" class="n">([\d,]+)</th><td>(.*?)</td>(.*?)</tr>', text)
    assert [int(load.replace(",", "")) for load, _, _ in rows] == [
        load["setting"]["concurrency"] for load in sweep["loads"]
    ]
    for load, (_, answer, cells) in zip(sweep["loads"], rows, strict=True):
        assert answer.startswith(load["decision"])
        if load["decision"] == "on":
            assert answer == f"on, k = {load['run_k']}"
        for point in load["points"]:
            if point["k"]:
                assert f"{point['gain']['p50']:.2f}× ({point['gain']['p10']:.2f} to" in cells


def test_one_curve_serves_every_load(page: TestClient) -> None:
    one = answers.curve(question_from({"hw": "gb10", "concurrency": 3}))
    assert one is answers.curve(question_from({"hw": "gb10", "concurrency": 7}))
    assert curve_view(one, 7)["drawings"][0]["here"] != curve_view(one, 3)["drawings"][0]["here"]


BAD = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --num-speculative-tokens 2 --enforce-eager\n"
LLAMA = "llama-server -hf x/y:Q4_K_M --draft-max 8\n"


def test_a_pasted_text_is_judged_as_on_the_command_line(page: TestClient, tmp_path: Path) -> None:
    for text in (BAD, LLAMA):
        path = tmp_path / "start.sh"
        path.write_text(text)
        call = ("validate", str(path), "--hw", "gb10", "--concurrency", "4", "--ctx", "2048")
        ran = run(*call, "--format", "json")
        sent = {"text": text, "name": "start.sh", "hw": "gb10", "concurrency": 4, "ctx": 2048}
        got = page.post("/api/validate", json=sent).json()
        fixes = got.pop("diff")
        assert got == json.loads(ran.out.replace(str(path), "start.sh"))
        shown = page.post("/part/check", data={k: str(v) for k, v in sent.items()}).text
        for finding in got["findings"]:
            assert f'/rules/{finding["code"]}"' in shown
        assert fixes.splitlines()[2:] == run(*call, "--diff").out.splitlines()[2:]
        assert not fixes or "Safe fixes" in shown


def test_a_sheet_works_without_a_script_and_from_an_address(page: TestClient) -> None:
    by_post = page.post("/check", data={"text": LLAMA, "name": "start.sh"}).text
    for text in (by_post, page.get("/check", params={"text": LLAMA, "name": "start.sh"}).text):
        assert "SD102" in text and "--draft-max 8\n</textarea>" in text
    assert page.get("/check?text=hello").status_code == 400


def test_a_secret_is_not_shown_and_not_kept(page: TestClient) -> None:
    text = (
        "HF_TOKEN=hf_abcdefghijklmnop123 llama-server -hf x/y --draft-max 8 --api-key topsecret99"
    )
    shown = page.post("/part/check", data={"text": text}).text
    assert "hf_abcdefghijklmnop123" not in shown and "topsecret99" not in shown
    assert "data-secret" in shown and "The fixed text" not in shown
    answer = page.post("/api/validate", json={"text": text}).text
    assert "topsecret99" not in answer and "hf_abcdefghijklmnop123" not in answer


def pair() -> tuple[Path, Path]:
    found = sorted(path for path in FILES.rglob("*") if path.is_file())
    off = next(path for path in found if "off" in path.name and path.suffix == ".json")
    return off, next(path for path in found if path.name == off.name.replace("off", "on"))


def test_benchmark_files_are_read_as_the_command_line_reads_them(page: TestClient) -> None:
    read = 0
    for path in sorted(FILES.rglob("*.json"))[:12]:
        ran = run("results", str(path), "--format", "json")
        got = page.post("/api/results", files=[("files", (path.name, path.read_bytes()))])
        if ran.code:
            assert got.status_code == 409 and got.json()["error"] in ran.err
            continue
        assert got.json() == json.loads(ran.out)
        shown = page.post("/part/results", files=[("off", (path.name, path.read_bytes()))])
        assert shown.status_code == 200 and path.name in shown.text
        read += 1
    assert read >= 5


def test_two_files_give_the_verdict_of_the_command_line(page: TestClient) -> None:
    off, on = pair()
    ran = run("ab", str(off), str(on), "--hw", "gb10", "--format", "json")
    files = [("off", (off.name, off.read_bytes())), ("on", (on.name, on.read_bytes()))]
    got = page.post("/api/ab", files=files, data={"hw": "gb10"})
    assert got.status_code == 200, got.text
    assert got.json() == json.loads(ran.out)
    shown = page.post("/part/results", files=files, data={"hw": "gb10"}).text
    assert f"Speculation: {got.json()['verdict']}" in shown
    swapped = page.post("/api/ab", files=files[:1])
    assert swapped.status_code == 409 and swapped.json()["error"]


def test_every_rule_has_a_page(page: TestClient) -> None:
    for row in rule_index():
        assert run("explain", row.code).out.strip() in html.unescape(
            page.get(f"/rules/{row.code}").text
        )
    assert page.get("/rules/SD999").status_code == 400


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("hw=gb10&concurrency=1e9&quant=fp8&ctx=8k", "concurrency"),
        ("hw=gb11&concurrency=7", "hw"),
        ("hw=gb10&model=nothing-such&goal=tpot", "model"),
        ("hw=gb10&quant=int99", "quant"),
        ("hw=gb10&engine=ollama", "engine"),
        ("hw=gb10&max_tpot_ms=fast", "max_tpot_ms"),
        ("hw=gb10&temperature=hot", "temperature"),
    ],
)
def test_an_error_keeps_values_and_marks_a_field(page: TestClient, query: str, wrong: str) -> None:
    got = page.get(f"/?{query}").text
    for name, value in parse_qsl(query):
        (control,) = re.findall(rf'(?:input|select) id="f-{name}".*?</p>', got, re.S)
        assert value in re.findall(r'value="([^"]*)"(?: selected|(?= placeholder))', control)
        assert ('aria-invalid="true"' in control) == (name == wrong)
        assert f'id="h-{name}"' in control and f'aria-describedby="h-{name}"' in control
    assert f'data-wrong="{wrong}"' in got and not re.search(r"--(hw|gpus|model|quant|ctx)\b", got)


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("hw=2x 3090&ctx=8k", "hw=rtx3090&gpus=2&ctx=8192"),
        ("hw=dgx spark&concurrency=16 users&ctx=4k", "hw=gb10&concurrency=16&ctx=4096"),
        ("hw=gb10&concurrency=1,000&ctx=8,192 tokens", "hw=gb10&concurrency=1000&ctx=8192"),
        ("hw=h200 x8&model=deepseek-ai/DeepSeek-V3.2", "hw=h200&gpus=8&model=deepseek-v3.2"),
    ],
)  # fmt: skip
def test_what_is_typed_is_as_on_the_command_line(page: TestClient, typed: str, plain: str) -> None:
    one, other = (page.get(f"/api/recommend?{query}").json() for query in (typed, plain))
    assert one["decision"] and one["launch"] == other["launch"]
    for query in (typed, plain):
        assert one["launch"]["argv"][2] in page.get(f"/?{query}").text


@pytest.mark.parametrize(("limit", "word"), [("1000", "met"), ("0.01", "missed")])
def test_the_card_says_whether_an_objective_is_met(page: TestClient, limit: str, word: str) -> None:
    query = f"hw=h100&concurrency=8&max_tpot_ms={limit}"
    card = page.get(f"/?{query}").text.split('id="curve"')[0]
    assert f'<p class="objective {word}">Objective TPOT' in card
    assert page.get(f"/api/recommend?{query}").json()["objective"]["met"] == (word == "met")


def test_answers_that_fail_are_not_kept() -> None:
    kept, asked = AnswerCache(2), []

    def fail() -> int:
        asked.append(1)
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError):
            kept.get("a", fail)
    assert len(asked) == 2 and [kept.get(key, lambda: len(asked)) for key in "abc"] == [2, 2, 2]
    asked.append(1)
    assert kept.get("a", lambda: len(asked)) == 3  # the oldest went
    assert kept.get("c", lambda: 99) == 2


CLASSES = {
    "chat": {"concurrency": "4", "prompt": "2k", "output": "256", "workload": "chat"},
    "documents": {"concurrency": "2 users", "prompt": "8,192", "goal": "throughput", "ttft": "2s"},
    "night": {"concurrency": "1", "workload": "rag", "tpot": "60ms"},
}


def rows(**more: str) -> dict[str, str]:
    """The fields of the form of a mix."""
    told = {"hw": "gb10", "model": "qwen3.6-35b-a3b"}
    for number, (name, row) in enumerate(CLASSES.items(), 1):
        told |= {f"{key}_{number}": value for key, value in row.items()} | {f"name_{number}": name}
    return told | more


def test_a_mix_is_planned_as_the_command_line_plans_it(page: TestClient, tmp_path: Path) -> None:
    text = (
        "hardware: gb10\nmodel: qwen3.6-35b-a3b\nclasses:\n"
        "- {name: chat, concurrency: 4, prompt: 2048, output: 256, workload: chat}\n"
        "- {name: documents, concurrency: 2, prompt: 8192, goal: throughput, objective: {ttft: 2s}}"
        "\n- {name: night, concurrency: 1, workload: rag, objective: {tpot: 60ms}}\n"
    )
    path = tmp_path / "mix.yaml"
    path.write_text(text)
    made = json.loads(run("plan", str(path), "--format", "json").out)
    asked = yaml.safe_load(text)
    sent = {"hw": "gb10", "model": asked["model"], "classes": asked["classes"]}
    assert page.post("/api/plan", json=sent).json() == made
    shown = page.post("/part/mix", data=rows()).text
    assert f"Run {made['layouts'][made['chosen']]['title']}" in html.unescape(shown)
    assert all(html.unescape(shown).count(why) for why in made["why"])
    assert run("plan", str(path), "--format", "compose").out in html.unescape(shown)
    for got in (page.post("/mix", data=rows()), page.get("/mix", params=rows())):
        assert shown.strip() in got.text
        for name, value in rows().items():  # each keeps its value
            control = re.findall(rf'id="f-{name}".*?</p>', got.text, re.S)[0]
            assert f'value="{value}"' in control, name


@pytest.mark.parametrize(
    ("wrong", "value"),
    [("hw", ""), ("hw", "gb11"), ("gpus", "none"), ("name_1", "A b"), ("concurrency_2", "0"),
     ("concurrency_3", ""), ("prompt_2", "long"), ("workload_3", "poems"), ("tpot_1", "fast")],
)  # fmt: skip
def test_a_wrong_field_of_a_mix_is_marked(page: TestClient, wrong: str, value: str) -> None:
    got = page.post("/mix", data=rows(**{wrong: value}))
    assert page.post("/part/mix", data=rows(**{wrong: value})).status_code == 400
    assert got.status_code == 400 and f'data-wrong="{wrong}"' in got.text
    assert re.findall(r'id="f-(\w+)"[^>]*aria-invalid="true"', got.text) == [wrong]


def test_choices_side_by_side_are_the_command_lines(page: TestClient) -> None:
    query = "names=gb10%2C+h100&price=2.10%2Fh&what="
    text = page.get(f"/compare?{query}").text
    made = page.get("/api/compare?names=gb10,h100&price=2.10/h").json()
    ran = run("compare", "gb10", "h100", "--price", "2.10/h", "--format", "json")
    assert made == json.loads(ran.out)
    assert '<th scope="col">gb10</th><th scope="col">h100</th>' in text
    for line in made["differences"]:
        assert f"<li>{line}</li>" in html.unescape(text)
    assert "cost per 1M tokens" in text


def test_a_form_of_choices_takes_names_with_spaces_limits_and_a_price(page: TestClient) -> None:
    form = "first=dgx+spark&second=rtx+3090&third=&max_tpot_ms=50&price=2.10"
    text = page.get(f"/compare?{form}").text
    ran = run("compare", "dgx spark", "rtx 3090", "--users-within", "tpot=50ms",
              "--price", "2.10/h", "--max-tpot-ms", "50", "--format", "json")  # fmt: skip
    for line in json.loads(ran.out)["differences"]:
        assert f"<li>{line}</li>" in html.unescape(text)
    assert "users within" in text and "cost per 1M tokens" in text
    assert len(re.findall(r'<rect class="with(?:out)?" width="[\d.]+"', text)) == 4
    shown = re.findall(r'id="f-(?:first|second)"[^>]*? value="([^"]*)"', text)
    assert shown == ["dgx spark", "rtx 3090"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/compare?names=gb10", "names"),
        ("/compare?names=gb10,vllm", "compare names of one kind"),
        ("/compare?names=gb10,h100&price=cheap", "price"),
        ("/why-not?what=k%3D4", "which hardware"),
        ("/why-not?hw=gb10", "the field 'what' is missing"),
        ("/why-not?hw=gb10&what=colour%3Dred", "on, off, k=4"),
    ],
)
def test_choices_not_to_be_compared_are_told(page: TestClient, address: str, said: str) -> None:
    got = page.get(address)
    assert got.status_code == 400 and said in html.unescape(got.text)
    assert page.get("/compare").status_code == 200


def test_pages_are_kept_until_one_saves(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    address, asked, fields = "/?hw=gb10&concurrency=29&output=77", [], pages.answer_fields
    monkeypatch.setattr(pages, "answer_fields", lambda *a: asked.append(a) or fields(*a))
    first, again = page.get(address).text, page.get(address).text
    assert (first, len(asked)) == (again, 1) and "77" in first
    monkeypatch.setattr(pages, "machine_names", lambda: ("mine",))
    page.get(address)
    assert len(asked) == 2


def test_a_page_and_a_change_take_little_of_the_processor(page: TestClient) -> None:
    """Of a question never asked before, in ordinary files of twenty servers (4 ms each where this
    was written): a page took 26 of them, a change 8.
    """

    def seconds(address: str) -> float:
        return processor_seconds(lambda: page.get(address).raise_for_status())

    seconds("/?hw=h200&concurrency=9")  # what is loaded once
    whole = min(seconds(f"/?hw=gb10&concurrency={load}") for load in (5, 6, 7))
    change = median(seconds(f"/part/answer?hw=gb10&concurrency={load}") for load in range(33, 38))
    print(f"page {1e3 * whole:.0f} ms, change {1e3 * change:.0f} ms of the processor")
    assert ordinary_files(whole) < 250 and ordinary_files(change) < 50


def test_a_drawing_by_hand() -> None:
    """Axes of 590 x 264 behind margins of 58 and 16; labels 13 apart, above the lower end."""
    box = curve.WIDE
    assert (box.x(4, 1, 16), box.x(5, 5, 5)) == (353, 353)
    assert (box.y(1, 0.5, 2), box.y(9, 0.5, 2)) == (148, 16)
    dot = {"x": 4, "y": 1.2, "text": "MTP, k = 7, adaptive at 4 requests: 1.20× (0.90 to 1.50)"}
    line = {"k": 7, "label": "k = 7 a", "shade": 6, "path": "4,1.2", "end": (4, 1.2)}
    made = curve._line(("mtp", 7, True), [(4, 0.9, 1.2, 1.5)], lambda load, gain: (load, gain))
    assert made == line | {"label_y": 1.2, "dots": [dot]}
    lines = [{"label_y": y} for y in (100, 90, 279, 278)]
    curve._spread(lines, box)
    assert [one["label_y"] for one in lines] == [103, 90, 280, 267]
    assert curve._ticks(0.4, 5.0) == [0.6, 0.8, 1.0, 1.25, 1.75, 2.5, 4.0]
