"""Make the pictures of runs for the documentation: screenshots of the web UI and of a terminal, and figures of reports.

seq2seq-chat report quickstart
echo "Tuesday, the 3rd of March 1987" >dates.txt
seq2seq-chat report dates --questions dates.txt
python scripts/make_screenshots.py quickstart translation dates shakespeare_quick --source "Où est la gare ?"

Starts a server with these runs and opens its pages in the system's Chromium. The first run of each task has its pages
taken; without a run of a task, its pictures stay as they are.
"""

from __future__ import annotations

import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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

DESKTOP, PHONE = (1240, 900), (360, 740)
UTTERANCES = ["Hello!", "Tell me a joke.", "What is your name?"]
JOKE = UTTERANCES[1]
PROGRAM = [sys.executable, "-m", "seq2seq_chat"]
FIGURES = {
    "conversation": {
        "report_figures": "figures",
        "report_ranks": "{}_ranks",
        "report_attention": "{}_attention_2_overlay",
    },
    "translation": {"dates_attention": "{}_attention_1_heat_map"},
}
"""By task: pictures of the documentation that are figures of the report of a run."""


class Site(NamedTuple):
    """A server of some runs, one of which is shown, and what to translate with it."""

    address: str
    results: Path
    name: str
    sources: tuple[str, ...]

    def open(self, page: Page, path: str = "/") -> None:
        """Open a page with the run selected."""
        page.goto(f"{self.address}{path}?run={self.name}")
        page.locator("#snapshot option").first.wait_for(state="attached")


@click.command(help=__doc__)
@click.argument("names", metavar="RUN...", nargs=-1, required=True)
@click.option("--results", default="results", show_default=True, help="Folder of the runs.")
@click.option("--output", default="docs", show_default=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--only", multiple=True, metavar="NAME", help="Only this picture of a page; can be repeated.")
@click.option(
    "--source", "sources", multiple=True, help="A text to translate; can be repeated.  [default: a validation sample]"
)
def main(names: tuple[str, ...], results: str, output: Path, only: tuple[str, ...], sources: tuple[str, ...]) -> None:
    """Take the screenshots of all runs, and copy the figures of those that have a report."""
    output.mkdir(parents=True, exist_ok=True)
    runs = [find_run(name, results) for name in names]
    for run in runs:
        if (run.path / "report").is_dir():
            for name, figure in FIGURES.get(run.config.task, {}).items():
                shutil.copy(run.path / "report" / f"{figure.format(run.config.name)}.png", output / f"{name}.png")
                reduce_colors(output / f"{name}.png")
    by_task: dict[str, Run] = {run.config.task: run for run in reversed(runs)}
    chosen = {name: each for name, each in SCREENSHOTS.items() if each[0] in by_task and (not only or name in only)}
    chromium = find_chromium()
    load_tensorflow()
    with tempfile.TemporaryDirectory() as folder:
        results_folder = Path(folder)
        for run in runs:
            shutil.copytree(run.path, results_folder / without_timestamp(run))
        limits = Limits(max_models=8)
        app = create_app(results_folder, limits)
        with running(app, "127.0.0.1", 0, limits) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            address = f"http://127.0.0.1:{server.effective_port}"
            for name, (task, take) in tqdm(chosen.items(), unit="screenshot", disable=None):
                _, device, colors = name.split("_")
                width, height = DESKTOP if device == "desktop" else PHONE
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme="dark" if colors == "dark" else "light",
                    device_scale_factor=1 if device == "desktop" else 2,
                )
                page = context.new_page()
                take(page, Site(address, results_folder, without_timestamp(by_task[task]), sources))
                save(page, output / f"web_{name}.png")
                context.close()
            browser.close()


def find_chromium() -> str:
    """The path of the system's Chromium. Raises UserError if it is missing."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise UserError("Chromium is missing; install it, for example with: apt-get install chromium")
    return chromium


def without_timestamp(run: Run) -> str:
    return re.sub(r"^[\d_-]{20}", "", run.name)


def chat(page: Page, site: Site) -> None:
    """A conversation, on a phone with the explanation of the last reply open."""
    site.open(page)
    choose_beam(page)
    for utterance in UTTERANCES:
        say(page, utterance)
    if page.viewport_size == {"width": PHONE[0], "height": PHONE[1]}:
        explain(page)


def export(page: Page, site: Site) -> None:
    """An exported page, opened from the disk."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*PROGRAM, "export", site.name, "--results", str(site.results), "--output", f"{folder}/page"]
        subprocess.run([*command, "--format", "html"], stderr=subprocess.DEVNULL, check=True)
        page.goto(Path(folder, "page", "index.html").as_uri())
        page.locator("#reads").get_by_text("reads").wait_for()  # the run is known
        for utterance in UTTERANCES:
            say(page, utterance)
        explain(page)


def explain(page: Page) -> None:
    """Open the explanation of the last reply, and scroll to the utterance."""
    page.locator(".why-box summary").last.click()
    page.locator(".message.you").last.evaluate("message => message.scrollIntoView()")
    page.locator("#scroll").evaluate("box => { box.scrollTop -= 12 }")


def terminal(page: Page, site: Site) -> None:
    """A conversation in a terminal, which is drawn as a page."""
    command = ["chat", site.name, "--beam-width", "5"]
    shown = conversation([*UTTERANCES[1:], "/why", "/quit"], *command, "--results", str(site.results))
    prompt = f"$ seq2seq-chat {' '.join(command)}\n"
    style = "width: 88ch; margin: 0; padding: 16px; font: 15px/1.45 'DejaVu Sans Mono'; white-space: pre-wrap"
    dark = "margin: 0; background: #14181a; color: #dfe5e6"
    page.set_content(f'<body style="{dark}"><pre style="{style}">{html.escape(prompt + shown)}</pre></body>')
    width, height = page.locator("pre").evaluate("text => [text.offsetWidth, text.offsetHeight]")
    page.set_viewport_size({"width": width, "height": height})


def translate(page: Page, site: Site) -> None:
    """Translate, with the attention of the last token but one."""
    site.open(page, "/translate")
    examples = page.locator("#example-buttons button")
    page.locator("#text").fill("\n".join(site.sources or examples.all_inner_texts()[:1]))
    for _ in range(2):  # the first translation includes loading the model
        with page.expect_response("**/api/chat", timeout=120_000):
            page.keyboard.press("Enter")
        page.locator("#copy").wait_for(timeout=120_000)
    page.locator(".attention-row").last.locator(".attention-token").nth(-2).click()
    page.locator(".attention-caption").scroll_into_view_if_needed()
    page.evaluate("document.activeElement.blur()")


def compare(page: Page, site: Site) -> None:
    """Compare all snapshots of a run."""
    for snapshot in find_run(site.name, str(site.results)).snapshots():  # replies do not include the loading of models
        data = {"run": site.name, "snapshot": snapshot, "text": JOKE}
        expect(page.request.post(f"{site.address}/api/chat", data=data)).to_be_ok()
    site.open(page, "/compare")
    page.get_by_role("button", name="Add all snapshots").click()
    for utterance in UTTERANCES:
        say(page, utterance)


def judge(page: Page, site: Site) -> None:
    """A pair of replies of the first and the last snapshot."""
    page.set_viewport_size({"width": 900, "height": 760})
    snapshots = find_run(site.name, str(site.results)).snapshots()
    columns = [{"run": site.name, "snapshot": snapshot} for snapshot in (snapshots[0], snapshots[-1])]
    data = {"name": "first_and_last", "columns": columns, "prompts": [JOKE]}
    answer = page.request.post(f"{site.address}/api/evaluations", data=data)
    expect(answer).to_be_ok()
    page.goto(f"{site.address}/judge/{answer.json()['name']}")
    page.locator("#judge-name").fill("Anna")
    page.keyboard.press("Enter")
    expect(page.locator(".choices button").first).to_be_enabled(timeout=120_000)
    page.evaluate("document.activeElement.blur()")


def search(page: Page, site: Site) -> None:
    """The search for a reply, with a word selected that was pruned at once."""
    site.open(page, "/search")
    page.get_by_label("Beam width").fill("4")
    page.locator("#text").fill(JOKE)
    page.keyboard.press("Enter")
    page.locator("#ranking").wait_for(timeout=120_000)
    page.locator(".tree-word.outranked").first.click()


def write(page: Page, site: Site) -> None:
    """A text of a language model, with a token selected."""
    page.set_viewport_size({"width": 1000, "height": 1000})
    site.open(page, "/write")
    page.get_by_label("Temperature").fill("0.7")
    page.locator("#text").fill("ROMEO:")
    page.get_by_label("Tokens", exact=True).fill("250")
    page.get_by_label("Seed").fill("1")
    page.keyboard.press("Control+Enter")
    page.locator("#texts").get_by_text(re.compile(r" (ms|s)$")).first.wait_for(timeout=120_000)
    page.locator("#stop").wait_for(state="hidden", timeout=120_000)
    page.locator(".written .token").nth(40).click()


def runs_page(page: Page, site: Site) -> None:
    """The list of the runs."""
    page.set_viewport_size({"width": DESKTOP[0], "height": 460})
    page.goto(f"{site.address}/runs")
    page.locator("#runs tbody th a").first.wait_for()


def run_page(page: Page, site: Site) -> None:
    """The page of a run, scrolled to its curves."""
    page.goto(f"{site.address}/runs/{site.name}")
    page.locator("#curves canvas").wait_for()
    page.locator("#curves").evaluate("curves => curves.scrollIntoView()")
    page.evaluate("window.scrollBy(0, -50)")


def settings(page: Page, site: Site) -> None:
    """The decoding settings."""
    site.open(page)
    choose_beam(page, close=False)


SCREENSHOTS: dict[str, tuple[str, Callable[[Page, Site], None]]] = {
    "chat_desktop_light": ("conversation", chat),
    "chat_phone_dark": ("conversation", chat),
    "chat_phone_light": ("conversation", chat),
    "compare_desktop_dark": ("conversation", compare),
    "export_phone_light": ("conversation", export),
    "judge_desktop_light": ("conversation", judge),
    "run_phone_dark": ("conversation", run_page),
    "runs_desktop_light": ("conversation", runs_page),
    "search_desktop_light": ("conversation", search),
    "settings_phone_light": ("conversation", settings),
    "terminal_desktop_dark": ("conversation", terminal),
    "translate_desktop_light": ("translation", translate),
    "translate_phone_dark": ("translation", translate),
    "write_desktop_light": ("language_model", write),
}
"""The names, of page, device and colors; the task of its run; what opens the page."""


def conversation(lines: Sequence[str], *arguments: str) -> str:
    """What a terminal shows of a conversation: a command of the program, and each line as soon as it is asked for."""
    controller, terminal = pty.openpty()
    environment = os.environ | {"TERM": "dumb"}
    shown = ""
    with subprocess.Popen(
        [*PROGRAM, *arguments], stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL, env=environment
    ):
        os.close(terminal)
        for line in lines:
            while not shown.endswith("you: "):
                shown += os.read(controller, 2**16).decode()
            os.write(controller, f"{line}\n".encode())
            while not shown.endswith("\n"):  # the terminal's echo
                shown += os.read(controller, 1).decode()
    os.close(controller)
    return shown.replace("\r", "")


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
    page.mouse.move(0, 0)
    page.wait_for_timeout(350)  # until animations end
    page.screenshot(path=path)
    reduce_colors(path)


def reduce_colors(path: Path) -> None:
    """Reduce the palette of a picture: a third of the size, visually the same."""
    with Image.open(path) as picture:
        reduced: Any = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)


if __name__ == "__main__":
    run_command(main)
