"""What people do on the page, in a real browser, on a phone and at a desk.

Each journey ends with a check: no request to another host, no complaint of the browser, nothing
wider than the window, no serious finding of axe-core.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import pytest
from cli.serve.browser import WIDTHS, Visit
from cli.serve.client import argv
from cli_run import run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow  # over a minute in a real browser
FILES = Path(__file__).resolve().parents[2] / "readers" / "results" / "files"
PRICE = ".more summary:has-text('price')"
NARROW = {"320": (320, 640)}  # WCAG 1.4.10: 1280 px at 400 %
SPARK = "/?hw=gb10&concurrency=16"
BAD = "vllm serve Qwen/Qwen3.6-35B-A3B-FP8 --num-speculative-tokens 2 --enforce-eager"


@pytest.fixture(params=sorted(WIDTHS))
def visit(request: pytest.FixtureRequest, world: tuple[Browser, str]) -> Iterator[Visit]:
    yield from _visit(world, request.param)


def _visit(world: tuple[Browser, str], width: str, **more: Any) -> Iterator[Visit]:
    made, address = world
    wide, high = (WIDTHS | NARROW)[width]
    context = made.new_context(viewport={"width": wide, "height": high}, **more)
    context.set_default_timeout(120_000)
    try:
        yield Visit(context, address, width, more.get("java_script_enabled", True))
    finally:
        context.close()


def visits(world: tuple[Browser, str], **more: Any) -> Iterator[Visit]:
    """One at each width."""
    for width in WIDTHS:
        yield from _visit(world, width, **more)


def request_fields(visit: Visit) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(urlsplit(visit.page.url).query).items()}


def headline(visit: Visit) -> str:
    return visit.page.locator("#answer h1").inner_text()


def api(visit: Visit, query: str) -> Any:
    with urlopen(f"{visit.address}/api/recommend?{query}", timeout=300) as got:
        return json.load(got)


def test_the_question_goes_along_and_comes_back(visit: Visit) -> None:
    page = visit.open(SPARK)
    page.get_by_label("Requests", exact=True).fill("24")
    page.locator(".setting", has_text="24 requests").wait_for()
    visit.settle()
    for tab, field in (("Check", "Requests"), ("Compare", "Requests")):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=tab).click()
        page.wait_for_load_state("load")
        assert page.get_by_label(field, exact=True).input_value() == "24"
        assert page.get_by_label("Hardware", exact=True).input_value() == "gb10"
    page.get_by_label("Prompt", exact=True).fill("8k")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Answer").click()
    page.locator(".setting", has_text="24 requests of 8,192").wait_for()
    assert request_fields(visit) == {"hw": "gb10", "concurrency": "24", "ctx": "8k"}


def test_a_server_that_is_gone_is_seen(world: tuple[Browser, str]) -> None:
    for visit in visits(world):
        page = visit.open(SPARK)
        page.route("**/part/answer?*", lambda route: route.abort())
        page.get_by_label("Requests", exact=True).fill("24")
        page.get_by_role("alert").wait_for()
        assert "did not answer" in page.get_by_role("alert").inner_text()
        assert page.locator("article.stale").count() == 1
        page.unroute("**/part/answer?*")
        page.get_by_role("button", name="Try again").click()
        page.locator(".setting", has_text="24 requests").wait_for()
        visit.settle()
        assert page.locator(".gone, .stale").count() == 0


def test_02_choose_hardware_and_reload(visit: Visit) -> None:
    page = visit.open("/")
    page.get_by_label("Hardware", exact=True).fill("rtx5090")
    page.locator("#answer .verdict").wait_for()
    page.get_by_label("Model", exact=True).fill("qwen3.6-27b")
    page.locator(".setting", has_text="27B").wait_for()
    visit.settle()
    said, where = headline(visit), request_fields(visit)
    assert where == {"hw": "rtx5090", "model": "qwen3.6-27b"}
    page.reload()
    visit.settle()
    assert (headline(visit), request_fields(visit)) == (said, where)
    assert page.get_by_label("Model", exact=True).input_value() == "qwen3.6-27b"
    visit.check("02-chosen")


def test_05_a_question_that_cannot_be_answered(visit: Visit) -> None:
    page = visit.open("/?hw=gb11&concurrency=16")
    assert "did you mean" in page.get_by_role("alert").inner_text()
    visit.check("05-unknown")
    assert page.locator("[aria-invalid]").input_value() == "gb11"
    page.get_by_label("Hardware", exact=True).fill("gb10")
    page.locator("#answer .verdict").wait_for()
    assert page.locator("[aria-invalid]").count() == 0
    page.get_by_label("Requests", exact=True).fill("nine")
    page.get_by_role("alert").wait_for()
    assert "'nine' is not a whole number" in page.get_by_role("alert").inner_text()
    page.reload()
    assert page.locator("[aria-invalid]").input_value() == "nine"
    assert page.get_by_label("Hardware", exact=True).input_value() == "gb10"
    visit.check("05-number")


def test_06_every_form_of_the_launch(visit: Visit) -> None:
    page = visit.open(SPARK)
    names = page.locator(".forms a").all_inner_texts()
    assert {"Command", "Compose", "Kubernetes", "systemd", "JSON"} <= set(names)
    for name in names[1:]:
        before = page.locator("#launch-text").inner_text()
        page.locator(".forms").get_by_role("link", name=name, exact=True).click()
        page.locator(".forms [aria-current]", has_text=name).wait_for()
        assert page.locator("#launch-text").inner_text() != before
        assert page.evaluate("document.activeElement.innerText") == name
    page.locator(".forms").get_by_role("link", name="Compose", exact=True).click()
    page.locator(".forms [aria-current]", has_text="Compose").wait_for()
    visit.settle()
    text = page.locator("#launch-text").inner_text()
    page.reload()
    assert page.locator("#launch-text").inner_text() == text and "services:" in text
    visit.check("06-forms")


def test_07_copy_the_launch(world: tuple[Browser, str]) -> None:
    for visit in visits(world, permissions=["clipboard-read", "clipboard-write"]):
        page = visit.open(SPARK)
        page.locator("#launch .copy").first.click()
        page.get_by_role("button", name="Copied").wait_for()
        held = page.evaluate("navigator.clipboard.readText()")
        assert argv(held) == argv(api(visit, "hw=gb10&concurrency=16")["launch"]["text"])
        visit.check("07-copied")


def test_08_back_and_forward(visit: Visit) -> None:
    page = visit.open(SPARK)
    first = headline(visit)
    page.get_by_label("Goal").select_option("ttft")
    page.locator(".setting", has_text="ttft").wait_for()
    second = headline(visit)
    page.go_back()
    page.locator(".setting", has_text="balanced").wait_for()
    assert headline(visit) == first and page.get_by_label("Goal").input_value() == "balanced"
    page.go_forward()
    page.locator(".setting", has_text="ttft").wait_for()
    assert headline(visit) == second and page.get_by_label("Goal").input_value() == "ttft"
    visit.settle()
    visit.check("08-forward")


def test_09_check_a_configuration(visit: Visit) -> None:
    page = visit.open("/check")
    visit.check("09-empty")
    page.get_by_label("Configuration").fill(BAD)
    page.get_by_label("Hardware", exact=True).fill("gb10")
    page.get_by_label("Requests", exact=True).fill("4")
    page.get_by_label("Prompt", exact=True).fill("2048")
    page.get_by_role("button", name="Check").click()
    page.locator("#result .finding").first.wait_for()
    assert "recommend" in page.locator("#result").inner_text()
    said = page.locator("#result h2").first.inner_text()
    assert "enforce-eager" in page.url  # after the #, which is never sent
    page.reload()
    page.locator("#result .finding").first.wait_for()
    assert page.locator("#result h2").first.inner_text() == said
    assert page.get_by_label("Configuration").input_value() == BAD
    visit.check("09-checked")


def test_09_a_file_is_chosen_or_dropped(visit: Visit) -> None:
    page = visit.open("/check")
    file = {"name": "start.sh", "mimeType": "text/plain", "buffer": BAD.encode()}
    page.get_by_label("choose one").set_input_files(file)
    page.locator("#result .finding").first.wait_for()
    assert page.locator("#f-text").input_value() == BAD
    assert page.locator("#f-name").input_value() == "start.sh"
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.items.add(new File(["llama-server -hf x/y --draft-max 8"], "other.sh"));
            const drop = new DragEvent("drop", {dataTransfer: data, cancelable: true});
            document.getElementById("f-text").dispatchEvent(drop);
        }"""
    )
    page.locator("#text-h + .source", has_text="draft-max").wait_for()
    assert page.locator("#f-name").input_value() == "other.sh"
    visit.check("09-file")


def test_10_a_secret_stays_out_of_the_address(visit: Visit) -> None:
    page = visit.open("/check")
    text = "HF_TOKEN=hf_abcdefghijklmnop123 llama-server -hf x/y --draft-max 8"
    page.get_by_label("Configuration").fill(text)
    page.get_by_role("button", name="Check").click()
    page.locator("#result .diff").first.wait_for()
    assert "hf_abc" not in page.locator("#result").inner_text()
    assert "hf_abc" not in page.url and "draft-max" not in page.url
    assert page.locator(".diff .add").count() >= 1
    visit.check("10-secret")


def test_11_two_benchmark_files(visit: Visit) -> None:
    page = visit.open("/results")
    visit.check("11-empty")
    page.get_by_label("Without speculation").set_input_files(FILES / "vllm-serve-off.json")
    page.get_by_label("With speculation", exact=True).set_input_files(FILES / "vllm-serve-on.json")
    page.get_by_label("Hardware", exact=True).fill("gb10")
    page.get_by_role("button", name="Read").click()
    page.locator("#ab-h").wait_for()
    assert "2 runs" in page.locator("#result").inner_text()
    visit.check("11-verdict")


def test_13_by_keyboard_alone(visit: Visit) -> None:
    page = visit.open("/")
    visit.check("13-start")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "hw"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
    assert float(outline.removesuffix("px")) >= 2
    page.keyboard.insert_text("dgx spark")
    page.locator("#answer .verdict").wait_for()
    visit.settle()
    for _ in range(5):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "concurrency"
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text("16")
    page.locator(".setting", has_text="16 requests").wait_for()
    visit.settle()
    seen: list[str] = []
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"form-compose", "launch-text"} <= set(seen) and "copy" in seen
    visit.check("13-keyboard")


def test_14_the_figures_behind_the_curve(visit: Visit) -> None:
    page = visit.open(SPARK)
    slider = page.get_by_label("Values at")  # by keyboard and by touch, not by mouse alone
    assert page.locator(".read output").inner_text().startswith("16 requests: on, k = 2; k = 1 ")
    slider.press("ArrowRight")
    assert page.locator(".read output").inner_text().startswith("24 requests: ")
    page.get_by_text("The figures").click()
    rows = page.locator("#figures tbody tr")
    assert rows.count() >= 14
    page.get_by_label("Requests", exact=True).fill("24")
    page.locator(".setting", has_text="24 requests").wait_for()
    visit.settle()
    assert page.locator("#figures").get_attribute("open") is not None  # it stays open
    visit.check("14-figures")


def test_15_the_api_and_its_json(visit: Visit) -> None:
    page = visit.open(SPARK)
    page.get_by_role("link", name="JSON of this answer").click()
    assert json.loads(page.locator("body").inner_text()) == api(visit, "hw=gb10&concurrency=16")


def test_16_without_a_script(world: tuple[Browser, str]) -> None:
    for visit in visits(world, java_script_enabled=False):
        page = visit.open("/")
        page.get_by_label("Hardware", exact=True).fill("gb10")
        page.get_by_role("button", name="Answer").click()
        page.locator("#answer .verdict").wait_for()
        page.get_by_role("link", name="Show the curve").click()
        page.locator("svg.chart:visible").first.wait_for()
        page = visit.open("/check")
        page.get_by_label("Configuration").fill(BAD)
        page.get_by_role("button", name="Check").click()
        page.locator("#found-h").wait_for()
        page = visit.open("/results")
        page.get_by_label("Without speculation").set_input_files(FILES / "vllm-serve-off.json")
        page.get_by_role("button", name="Read").click()
        page.locator("#runs-h").wait_for()
        assert not visit.strangers


def test_17_dark(world: tuple[Browser, str]) -> None:
    for visit in visits(world, color_scheme="dark"):
        for name, path in (
            ("answer", SPARK),
            ("check", f"/check?text={BAD}"),
            ("rule", "/rules/SD201"),
        ):
            light = visit.open(path).evaluate("getComputedStyle(document.body).backgroundColor")
            assert light == "rgb(16, 20, 26)"
            visit.check(f"17-dark-{name}")


def test_18_on_paper(visit: Visit) -> None:
    page = visit.open(SPARK)
    page.emulate_media(media="print")
    for hidden in (".controls", ".top nav", ".copy"):
        assert not page.locator(hidden).first.is_visible()
    for kept in ("#answer h1", "#launch-text", ".setting", "svg.chart.wide"):
        assert page.locator(kept).is_visible()
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    visit.check("18-print")


def test_19_the_static_copy_from_a_folder(
    world: tuple[Browser, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("--hw", "gb10", "--hw", "rtx3090", "--model", "qwen3.6-27b")
    assert run("page", "--out", str(tmp_path / "copy"), *names).code == 0
    tmp_path = tmp_path / "copy"
    made, _ = world
    for visit in visits((made, tmp_path.as_uri()), offline=True):
        page = visit.page
        page.goto(f"{tmp_path.as_uri()}/index.html")
        visit.check("19-copy-index")
        page.get_by_label("Show hardware and models with").fill("3090 27b")
        assert page.locator(".cells tbody tr:visible").count() == 1
        page.get_by_label("Show hardware and models with").fill("")
        page.locator(".cells a").first.click()
        page.locator(".verdict").wait_for()
        visit.settle()  # one of the two charts is hidden by the style sheet, which comes later
        assert page.locator("svg.chart:visible").count() == 1
        page.locator(".forms a").nth(1).click()
        page.locator(".verdict").wait_for()
        visit.check("19-copy-answer")


def test_21_several_workloads(visit: Visit) -> None:
    page = visit.open("/mix")
    page.get_by_label("Hardware", exact=True).fill("gb10")
    page.get_by_role("button", name="Plan").click()
    page.locator("#plan-h").wait_for()
    visit.check("21-mix")
    said = page.locator("#plan-h").inner_text()
    page.reload()
    page.locator("#plan-h").wait_for()
    assert page.locator("#plan-h").inner_text() == said
    link = page.get_by_role("link", name="Answer", exact=True).get_attribute("href") or ""
    assert "hw=" not in link or "name_1" not in link


def test_22_choices_side_by_side(visit: Visit) -> None:
    page = visit.open("/")
    page.get_by_role("link", name="Compare", exact=True).click()
    page.get_by_label("This", exact=True).fill("dgx spark")
    page.get_by_label("with this", exact=True).fill("2x 3090")
    page.get_by_role("button", name="Compare").click()
    page.locator("#sides-h").wait_for()
    assert page.locator("#result tbody tr").count() >= 10
    visit.check("22-compare")
    said = page.locator("#result").inner_text()
    page.reload()
    assert page.locator("#result").inner_text() == said
    page.get_by_label("Hardware", exact=True).fill("gb10")
    page.get_by_role("button", name="Compare").click()
    page.locator("#sides-h").wait_for()
    page.get_by_label("Why not this?").fill("k=4")
    page.keyboard.press("Enter")
    page.locator("#doubt-h").wait_for()
    visit.check("22-why-not")


def test_23_change_the_launch(visit: Visit) -> None:
    page = visit.open(SPARK)
    page.get_by_role("link", name="Change k, port, key, image").click()
    page.locator("#f-k").fill("1")
    page.locator("#launch-text", has_text='"num_speculative_tokens":1').wait_for()
    page.get_by_label("Port", exact=True).fill("9123")
    page.locator("#launch-text", has_text="--port 9123").wait_for()
    assert request_fields(visit)["k"] == "1" and request_fields(visit)["port"] == "9123"
    visit.check("23-launch")
    page.reload()
    assert page.locator("#f-k").input_value() == "1" and page.locator("#f-k").is_visible()
    page.get_by_label("Port", exact=True).fill("99999")
    page.get_by_role("alert").wait_for()
    assert page.locator("#f-port").get_attribute("aria-invalid") == "true"
    assert page.locator("#f-k").input_value() == "1"
    visit.check("23-refused")


def test_24_at_320_pixels_and_in_forced_colours(world: tuple[Browser, str]) -> None:
    """Nothing is cut off or scrolls sideways, and what a colour says is said by a line as well."""
    pages = {"answer": SPARK, "compare": "/compare?names=gb10,h100&concurrency=16",
             "workloads": "/mix", "check": f"/check?text={BAD}", "results": "/results",
             "rule": "/rules/SD201"}  # fmt: skip
    for width, more in (("320", {}), ("desk", {"forced_colors": "active"})):
        for visit in _visit(world, width, **more):
            for name, path in pages.items():
                page = visit.open(path)
                assert page.locator("h1").first.is_visible()
                visit.check(f"24-{name}-{'forced' if more else width}")
            page = visit.open(SPARK)
            chosen, other = (page.locator(f".forms a{which}[aria-current]{end}").first
                             for which, end in (("", ""), (":not(", ")")))  # fmt: skip
            lines = [x.evaluate("e => getComputedStyle(e).outlineStyle") for x in (chosen, other)]
            assert lines == (["solid", "none"] if more else ["none", "none"])
            button, last = (page.locator(one).bounding_box() for one in (".submit button", PRICE))
            assert button and last and last["x"] + last["width"] <= button["x"] + 1
            page.keyboard.press("Tab")
            ring = page.evaluate("getComputedStyle(document.activeElement).outlineWidth")
            assert float(ring.removesuffix("px")) >= 2
