"""The workbench of runs in a browser: search, sort, filter, notes, comparison, and changes as they happen."""

import itertools
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from flask import current_app, request

from seq2seq_chat.export.onnx import export_onnx
from seq2seq_chat.runs.run import Run
from tests.conftest import edit_config
from tests.webui.conftest import REPLY_TIMEOUT, Serve, problems_of
from webui import security


@pytest.fixture
def three_runs(results: Path) -> Path:
    """The runs of 2026-05-01 to 03: alpha, beta with a spike in its loss, and gamma."""
    for day, name in enumerate(("alpha", "beta", "gamma"), start=1):
        shutil.copytree(results / "tiny", results / f"2026-05-0{day}_12-00-00_{name}")
    shutil.rmtree(results / "tiny")
    lines = [{"step": step, "kind": "train", "loss": 2.0 + 1 / step, "tokens": 1} for step in range(1, 200)]
    lines[99]["loss"] = 1e6
    lines.append({"step": 200, "kind": "validation", "loss": 1.0})
    metrics = "".join(json.dumps(line) + "\n" for line in lines)
    (results / "2026-05-02_12-00-00_beta" / "metrics.jsonl").write_text(metrics, encoding="utf-8")
    return results


def names(page: Any) -> list[str]:
    return [text[20:] for text in page.locator("#runs tbody th a").all_inner_texts()]


def test_no_samples_are_expected_of_an_exported_model(
    page: Any, serve: Serve, tiny_run: Path, tmp_path: Path, expect: Any
) -> None:
    export_onnx(Run(tiny_run), tmp_path / "exported" / "tiny")
    with serve(tmp_path / "exported") as address:
        page.goto(f"{address}/runs/tiny")
        expect(page.locator("#samples")).to_have_text("None.")


SETTINGS = {
    "hidden_size: 24": ["alpha"],
    "/hidden_size: 2.$/": ["alpha"],
    "layers: 1 bidirectional": ["beta"],
    "bidirectional: false": ["gamma", "alpha"],
}


@pytest.mark.smoke
def test_search_sort_star_and_hide(page: Any, serve: Serve, three_runs: Path, expect: Any) -> None:
    edit_config(three_runs / "2026-05-01_12-00-00_alpha", "model", hidden_size=24, bidirectional=False)
    edit_config(three_runs / "2026-05-02_12-00-00_beta", "model", bidirectional=True)
    edit_config(three_runs / "2026-05-03_12-00-00_gamma", "model", bidirectional=False)
    with serve(three_runs) as address:
        page.goto(f"{address}/runs")
        expect(page.locator("#runs tbody tr")).to_have_count(3)
        assert names(page) == ["gamma", "beta", "alpha"]
        for search, found in SETTINGS.items():
            page.locator("#search").fill(search)
            expect(page.locator("#runs tbody th a")).to_contain_text(found)
        page.locator("#search").fill("")
        page.get_by_role("button", name="Run", exact=True).click()
        assert names(page) == ["alpha", "beta", "gamma"]
        page.get_by_role("button", name="Step", exact=True).click()
        assert names(page)[0] == "beta"
        expect(page.locator("th[aria-sort=descending]")).to_have_text("Step")
        page.locator("#search").fill("/a(lph|mm)a$/")
        expect(page.locator("#runs tbody tr")).to_have_count(2)
        page.get_by_label(re.compile("Compare .*alpha")).check()
        page.get_by_role("button", name="Select all shown").click()
        expect(page.locator("#selection-count")).to_have_text("2 runs selected")
        page.get_by_role("button", name="Clear selection").click()
        page.locator("#search").fill("/(/")
        expect(page.locator("#note")).to_contain_text("not a valid regular expression")
        page.locator("#search").fill("GAM conversation")
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        expect(page.locator("#note")).to_have_text("1 of 3 runs")
        page.get_by_role("button", name="Star 2026-05-03").click()
        expect(page.locator(".star")).to_have_attribute("aria-pressed", "true")
        page.get_by_role("button", name="Edit the note of").click()
        page.locator("#note-text").fill("much <b>better</b>")
        page.get_by_role("button", name="Save").click()
        expect(page.locator(".note-text")).to_have_text("much <b>better</b>")
        page.locator("#search").fill("better")
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        page.get_by_role("button", name="Hide 2026-05-03").click()
        expect(page.locator("#runs tbody tr")).to_have_count(0)
        page.locator("#hidden").check()
        expect(page.locator("#runs tbody tr")).to_have_count(1)
        stored = json.loads((three_runs / "2026-05-03_12-00-00_gamma" / "notes.json").read_text(encoding="utf-8"))
        assert stored == {"star": True, "hidden": True, "text": "much <b>better</b>"}
        page.goto(f"{address}/runs/2026-05-03")
        expect(page.locator("#run-note")).to_have_text("much <b>better</b>")


def test_filters_order_and_place_survive_a_reload_and_back(
    page: Any, serve: Serve, three_runs: Path, expect: Any
) -> None:
    with serve(three_runs) as address:
        page.set_viewport_size({"width": 1100, "height": 300})
        page.goto(f"{address}/runs")
        page.locator("#search").fill("a")
        page.locator("#task").select_option("conversation")
        page.locator("#hidden").check()
        for name in ("Perplexity", "Run", "Run"):
            page.get_by_role("button", name=name, exact=True).click()
        assert names(page) == ["gamma", "beta", "alpha"]
        page.mouse.wheel(0, 120)
        page.wait_for_function("() => history.state.scroll > 0")
        place = page.evaluate("() => scrollY")

        def check() -> None:
            expect(page.locator("#runs tbody tr")).to_have_count(3)
            expect(page.locator("th[aria-sort=descending]")).to_have_text("Run")
            assert [page.locator(one).input_value() for one in ("#search", "#task")] == ["a", "conversation"]
            assert page.locator("#hidden").is_checked()
            assert page.evaluate("() => scrollY") == place

        page.reload()
        check()
        page.locator("#runs tbody th a").first.click()
        expect(page.locator("h1")).to_have_text(re.compile("gamma"))
        page.go_back()
        check()
        page.locator("#search").fill("nothing has this name")
        expect(page.locator("#note")).to_contain_text("None of 3 runs matches")


def test_runs_without_a_value_come_last_in_both_orders(page: Any, shared_server: str) -> None:
    runs = [{"name": name, "best_perplexity": value} for name, value in (("a", 3.0), ("b", None), ("c", 2.0))]
    script = """async (runs) => {
        const { sorted } = await import("/static/js/run_filter.js");
        const names = (isReversed) => sorted(runs, { by: "perplexity", isReversed }).map(({ name }) => name);
        return [false, true].map(names);
    }"""
    page.goto(f"{shared_server}/runs")
    assert page.evaluate(script, runs) == [["c", "a", "b"], ["a", "c", "b"]]


def test_a_report_opens_without_a_token_in_its_address(
    page: Any, serve: Serve, three_runs: Path, expect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where browsers do not say that a request comes from the same site, as with http from elsewhere."""
    run = three_runs / "2026-05-01_12-00-00_alpha"
    (run / "report.html").write_text("<style>h1 { color: rgb(1, 2, 3) }</style><h1>The report</h1>", encoding="utf-8")
    (run / "report").mkdir()
    (run / "report" / "loss.png").write_bytes(b"no image")
    cross_site = security._is_cross_site

    def without_fetch_metadata() -> bool:
        environ = {key: value for key, value in request.environ.items() if key != "HTTP_SEC_FETCH_SITE"}
        with current_app.request_context(environ):
            return cross_site()

    monkeypatch.setattr(security, "_is_cross_site", without_fetch_metadata)
    with serve(three_runs, token="open-sesame") as address:
        page.goto(f"{address}/runs/{run.name}#token=open-sesame")
        expect(page.locator("#report img")).to_have_count(0)  # until they are wanted
        with page.expect_popup() as popup:
            page.get_by_role("button", name="Open report").click()
        expect(popup.value.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
        assert "sesame" not in popup.value.url
        page.get_by_text("1 figure").click()
        expect(page.locator("#report figcaption")).to_have_text("report / loss")


def test_clipping_spikes_hides_no_beginning_end_or_best_value(page: Any, shared_server: str) -> None:
    few, falling = [0.85, 0.0115, 0.03], [4.46 * 0.9**n for n in range(40)]
    spiky = [*falling[:30], 1e6, *falling[30:]]
    page.goto(f"{shared_server}/runs")
    script = "async (all) => all.map((await import('/static/js/series.js')).rangeWithoutSpikes)"
    ranges = page.evaluate(script, [few, falling, spiky])
    assert ranges[0] == [0.0115, 0.85]
    assert ranges[1] == pytest.approx([falling[-1], 4.46])
    assert ranges[2][0] == pytest.approx(falling[-1])
    assert 4.46 <= ranges[2][1] < 10


def test_comparison_and_curves(page: Any, serve: Serve, three_runs: Path, expect: Any) -> None:
    chart = page.locator(".chart")
    with serve(three_runs) as address:
        page.goto(f"{address}/runs")
        for name in ("beta", "alpha"):
            page.get_by_label(re.compile(f"Compare .*{name}")).check()
        expect(page.locator("#selection-count")).to_have_text("2 runs selected")
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.locator(".differences thead a")).to_have_text(["beta", "alpha"])
        expect(page.locator(".differences")).to_contain_text("No setting differs.")
        expect(page.locator(".u-legend .u-series")).to_have_count(5)  # steps, and two lines for each run
        expect(chart).to_have_attribute("aria-label", re.compile(r"^Loss from [\d.]+ to \d(\.\d+)?, steps 0 to 200$"))
        page.get_by_label("Clip spikes").uncheck()
        expect(chart).to_have_attribute("aria-label", re.compile("to 1,000,000, steps"))
        page.get_by_label("Clip spikes").check()
        page.get_by_label("Log axis").check()
        expect(chart).to_have_attribute("aria-label", re.compile("logarithmic"))
        page.get_by_label("first step shown").fill("50")
        page.get_by_label("last step shown").fill("150")
        page.keyboard.press("Tab")
        expect(chart).to_have_attribute("aria-label", re.compile("steps 50 to 150"))
        page.get_by_role("button", name="All steps").click()
        expect(chart).to_have_attribute("aria-label", re.compile("steps 0 to 200"))
        box = page.locator(".u-over").bounding_box()
        page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 50)
        expect(page.locator(".u-legend .u-value").nth(3)).to_have_text(re.compile(r" at 20$"))  # where alpha ends
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 60, steps=5)
        page.mouse.up()
        expect(chart).to_have_attribute("aria-label", re.compile("steps (49|50|51) to (99|100|101)"))
        page.locator("label", has_text="BLEU").click()
        expect(page.locator(".curves-caption")).to_have_text("No BLEU has been recorded.")
        page.reload()
        expect(page.locator(".differences thead a")).to_have_text(["beta", "alpha"])
        page.get_by_label(re.compile("Compare .*beta")).uncheck()
        expect(page.locator(".differences thead a")).to_have_text(["alpha"])
        page.go_back()
        expect(page.locator("#comparison")).to_be_hidden()
        expect(page.locator("#selection-count")).to_have_text("1 run selected")
        page.go_forward()
        expect(page.locator(".differences thead a")).to_have_text(["alpha"])


def test_the_page_follows_a_training(page: Any, serve: Serve, three_runs: Path, expect: Any) -> None:
    run = Run(three_runs / "2026-05-02_12-00-00_beta")
    with serve(three_runs) as address:
        page.goto(f"{address}/runs")
        page.get_by_label("Compare 2026-05-02").check()
        page.get_by_role("button", name="Compare", exact=True).click()
        row = page.locator("#runs tbody tr", has_text="beta")
        with run.lock():
            expect(row.locator(".state")).to_have_text("training")
            with open(run.metrics_file, "a", encoding="utf-8") as file:
                file.write('{"step": 250, "kind": "train", "loss": 1.5}\n')
            expect(row.locator(".step")).to_contain_text("250 of 20")
            expect(page.locator(".curves-caption")).to_contain_text("training 1.5 at step 250")
        expect(row.locator(".state")).to_have_text("finished")


def test_a_run_is_found_among_many_by_typing(page: Any, serve: Serve, three_runs: Path, expect: Any) -> None:
    """Also on a phone, and with long names."""
    run = next(three_runs.iterdir())
    found = [f"2026-04-0{day}_12-00-00_{'a_long_name_' * 5}gru" for day in range(9, 0, -1)]
    others = [f"2026-04-{day}_12-00-00_gru" for day in range(10, 30)]
    others += [f"2026-04-01_12-00-00_lstm{number}" for number in range(293)]
    for name in (*found, *others):
        (three_runs / name).mkdir()
        for file in ("config.json", "metrics.jsonl", "end.json"):
            shutil.copy(run / file, three_runs / name / file)
    with serve(three_runs) as address:
        page.set_viewport_size({"width": 320, "height": 640})
        page.goto(f"{address}/runs")
        rows = page.locator("#runs tbody tr")
        expect(rows).to_have_count(325)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 320
        page.locator("#search").fill("name_ gru")
        expect(rows).to_have_count(9)
        fits = "node => node.scrollWidth <= node.parentElement.clientWidth"  # not cut off
        assert page.locator("#runs tbody th a").last.evaluate(fits)
        page.goto(address)
        page.get_by_role("button", name="Find a run").click()
        options = page.locator("dialog").get_by_role("option")
        field = page.get_by_role("combobox", name="Find a run")
        expect(field).to_be_focused()
        expect(options).to_have_count(100)  # the newest; the others are found by typing
        field.fill("GRU 04-0")
        expect(options).to_have_count(9)
        assert [option.get_attribute("data-value") for option in options.all()] == found
        for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
            page.keyboard.press(key)
        expect(page.locator("[aria-selected=true]")).to_have_attribute("data-value", found[1])
        page.keyboard.press("Enter")
        expect(page.locator("#run")).to_have_value(found[1])
        expect(page.locator("#run")).to_be_focused()
        expect(page.locator("#note")).to_contain_text("no checkpoint")  # the run was loaded
        page.get_by_role("button", name="Find a run").click()
        expect(page.locator("[aria-selected=true]")).to_have_attribute("data-value", found[1])
        field.fill("2026-05")
        assert not problems_of(page)
        field.fill("nothing has this name")
        expect(page.locator("dialog [role=status]")).to_have_text("0 of 325")
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        expect(page.locator("dialog[open]")).to_have_count(0)
        expect(page.locator("#run")).to_have_value(found[1])


def test_every_checkpoint_answers_the_same_questions(page: Any, serve: Serve, results: Path, expect: Any) -> None:
    """A run without snapshots, whose training deletes the checkpoints before the newest one."""
    run = Run(results / "tiny")
    weights = run.checkpoint_path(20).read_bytes()
    shutil.rmtree(run.path / "snapshots")
    heads = page.locator(".answers thead th")
    with serve(results) as address, run.lock():
        page.goto(f"{address}/runs/tiny")
        page.locator("#questions-edit summary").click()
        page.locator("#questions").fill("you see the tree1 ?\nwe like it")
        page.get_by_role("button", name="Ask every checkpoint").click()
        expect(heads.last).to_have_text("step 20", timeout=REPLY_TIMEOUT)
        for step in (30, 40):
            for _, path in run.checkpoints():
                path.unlink()
            run.checkpoint_path(step).write_bytes(weights)
            expect(heads.last).to_have_text(f"step {step}", timeout=REPLY_TIMEOUT)
        titles = ["Question", *(f"step {step}" for step in (10, 15, 20, 30, 40))]
        expect(heads).to_have_text(titles)
        page.reload()
        expect(heads).to_have_text(titles)
    cells = page.locator(".answers tbody tr").first.locator("td")
    replies = cells.all_inner_texts()
    assert len(set(replies[2:])) == 1  # the same weights
    colors = cells.evaluate_all("all => all.map((cell) => getComputedStyle(cell).color)")
    pale = [color != colors[0] for color in colors]
    assert pale == [False, *(reply == previous for previous, reply in itertools.pairwise(replies))]
