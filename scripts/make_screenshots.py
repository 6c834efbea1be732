"""Make the pictures of one run for the documentation: screenshots of the web UI, and figures of its report.

seq2seq-chat train configs/quickstart.json
seq2seq-chat report quickstart
python scripts/make_screenshots.py quickstart

Starts a server and opens its pages in the system's Chromium. Of a translation run, it takes the page for translations:

python scripts/make_screenshots.py english_french --source "Where did you buy that red car?"
"""

from __future__ import annotations

import functools
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from PIL import Image
from tqdm import tqdm

from seq2seq_chat.cli.options import run_command
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.run import Run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.versions import load_tensorflow
from webui.app import create_app
from webui.limits import Limits
from webui.server import running

try:
    from playwright.sync_api import Page, expect, sync_playwright
except ImportError as error:
    raise SystemExit(
        "Error: Playwright is missing; install it with: pip install -c constraints.txt -e '.[dev]'"
    ) from error

DESKTOP, PHONE = (1180, 900), (360, 740)
UTTERANCES = ["Hello!", "Tell me a joke."]
FIGURES = {"report_figures": "figures", "report_ranks": "{}_ranks", "report_attention": "{}_attention_2_overlay"}
"""Pictures of the documentation that are figures of the report of a run."""


@click.command()
@click.argument("run")
@click.option("--results", default="results", show_default=True, help="Folder of the runs.")
@click.option("--output", default="docs", show_default=True, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--source", "sources", multiple=True, help="A text to translate; can be repeated.  [default: a validation sample]"
)
def main(run: str, results: str, output: Path, sources: tuple[str, ...]) -> None:
    """Take screenshots of a conversation with RUN, with figures of its report, or of translations by it."""
    selected = find_run(run, results)
    screenshots = SCREENSHOTS
    if selected.config.task == "translation":
        names = ("translate_desktop_light", "translate_phone_dark")
        screenshots = dict.fromkeys(names, functools.partial(translate, sources=sources))
    elif sources:
        raise UserError("--source applies to translation runs only")
    elif not (selected.path / "report").is_dir():
        raise UserError(f"{selected.name} has no report yet; make it with: seq2seq-chat report {selected.name}")
    else:
        for name, figure in FIGURES.items():
            source = selected.path / "report" / f"{figure.format(selected.config.name)}.png"
            shutil.copy(source, output / f"{name}.png")
    chromium = find_chromium()
    load_tensorflow()
    with tempfile.TemporaryDirectory() as folder:
        served = results_with(selected, Path(folder))
        limits = Limits()
        with running(create_app(served, limits), "127.0.0.1", 0, limits) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            address = f"http://127.0.0.1:{server.effective_port}"
            for name, take in tqdm(screenshots.items(), unit="screenshot", disable=None):
                _, device, colors = name.split("_")
                width, height = DESKTOP if device == "desktop" else PHONE
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if colors == "dark" else "light",
                    device_scale_factor=1 if device == "desktop" else 2,
                )
                page = context.new_page()
                take(page, address)
                save(page, output / f"web_{name}.png")
                context.close()
            browser.close()


def find_chromium() -> str:
    """The path of the system's Chromium. Raises UserError if it is missing."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise UserError("Chromium is missing; install it, for example with: apt-get install chromium")
    return chromium


def results_with(run: Run, folder: Path) -> Path:
    """Create a results folder with only this run, named without its timestamp."""
    shutil.copytree(run.path, folder / "results" / re.sub(r"^[\d_-]{20}", "", run.name))
    return folder / "results"


def chat(page: Page, address: str) -> None:
    """Chat, with the explanation of the last reply open."""
    page.goto(address)
    choose_beam(page)
    for utterance in UTTERANCES:
        say(page, utterance)
    page.locator(".why-box summary").last.click()
    page.locator(".message.you").last.evaluate("message => message.scrollIntoView()")
    page.locator("#scroll").evaluate("box => { box.scrollTop -= 12 }")


def translate(page: Page, address: str, sources: tuple[str, ...]) -> None:
    """Translate, with the attention of the last token but one."""
    page.goto(f"{address}/translate")
    page.locator("#snapshot option").first.wait_for(state="attached")
    examples = page.locator("#example-buttons button")
    page.locator("#text").fill("\n".join(sources or examples.all_inner_texts()[:1]))
    for _ in range(2):  # the first translation includes loading the model
        with page.expect_response("**/api/chat", timeout=120_000):
            page.keyboard.press("Enter")
        page.locator("#copy").wait_for(timeout=120_000)
    page.locator(".attention-row").last.locator(".attention-token").nth(-2).click()
    page.locator(".attention-caption").scroll_into_view_if_needed()
    page.evaluate("document.activeElement.blur()")


def compare(page: Page, address: str) -> None:
    """Compare all snapshots of a run."""
    page.goto(f"{address}/compare")
    page.locator("#snapshot option").first.wait_for(state="attached")
    page.get_by_role("button", name="Add all snapshots").click()
    for utterance in UTTERANCES:
        say(page, utterance)


def search(page: Page, address: str) -> None:
    """The search for a reply, with a word selected that was pruned at once."""
    page.goto(f"{address}/search")
    page.locator("#snapshot option").first.wait_for(state="attached")
    page.get_by_label("Beam width").fill("4")
    page.locator("#text").fill(UTTERANCES[-1])
    page.keyboard.press("Enter")
    page.locator("#ranking").wait_for(timeout=120_000)
    page.locator(".tree-word.outranked").first.click()


def run_page(page: Page, address: str) -> None:
    """The page of a run."""
    page.goto(f"{address}/runs")
    page.locator("#runs tbody th a").first.click()
    page.locator("#curves canvas").wait_for()


def settings(page: Page, address: str) -> None:
    """The decoding settings."""
    page.goto(address)
    choose_beam(page, close=False)


SCREENSHOTS: dict[str, Callable[[Page, str], None]] = {
    "chat_desktop_light": chat,
    "chat_phone_dark": chat,
    "chat_phone_light": chat,
    "compare_desktop_dark": compare,
    "run_phone_dark": run_page,
    "search_desktop_light": search,
    "settings_phone_light": settings,
}
"""The names, of page, device and colors, and what opens the page."""


def choose_beam(page: Page, close: bool = True) -> None:
    page.locator("#snapshot option").first.wait_for(state="attached")
    page.locator("#decoding-button").click()
    page.locator("label", has_text="Beam search").click()
    if close:
        page.locator("#decoding .btn-close").click()
        page.locator("#decoding").wait_for(state="hidden")


def say(page: Page, text: str) -> None:
    count = page.locator(".message.you").count()
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".message.you")).to_have_count(count + 1)
    expect(page.locator(".typing")).to_have_count(0, timeout=120_000)


def save(page: Page, path: Path) -> None:
    """Save a screenshot with a reduced palette: a third of the size, visually the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    page.mouse.move(0, 0)
    page.wait_for_timeout(350)  # until animations end
    temporary = path.with_suffix(".new.png")
    page.screenshot(path=temporary)
    with Image.open(temporary) as picture:
        reduced: Any = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        reduced.save(path, optimize=True)
    temporary.unlink()


if __name__ == "__main__":
    run_command(main)
