#!/usr/bin/env python3
"""Measure exported pages of conversations: their size, and the times to load and to reply in the system's Chromium.

seq2seq-chat export latest --output page --format html
python scripts/benchmark_page.py page/index.html
"""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import click
from contenders.table import json_option, print_table

from seq2seq_chat.cli.running import run_command
from seq2seq_chat.system.files import write_json

try:
    from playwright.sync_api import Browser, Page, sync_playwright
except ImportError as error:
    raise SystemExit(
        "Error: Playwright is missing; install it with: pip install -c constraints.txt -e '.[dev]'"
    ) from error

METHODS = {"greedy": "Greedy", "beam": "Beam search"}
TEXTS = ("Hello!", "How are you?", "Who are you?", "Tell me a joke.", "I am sad today.", "What is your favorite color?")
COLUMNS = ["page", "MB", "load, s", *(f"{method}, ms" for method in METHODS), *(f"{m}, ms/token" for m in METHODS)]


@click.command(help=__doc__)
@click.argument("pages", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="How often each text is sent.")
@json_option
def main(pages: tuple[Path, ...], rounds: int, json_file: Path | None) -> None:
    """Print a row for each page: medians over all replies but those of the first round."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise click.UsageError("there is no Chromium; install it with: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        rows = [measure(browser, file, rounds) for file in pages]
        browser.close()
    print_table(rows, COLUMNS)
    if json_file:
        write_json(json_file, rows)


def measure(browser: Browser, file: Path, rounds: int) -> dict[str, Any]:
    """A row of the table."""
    page = browser.new_context(offline=True).new_page()
    start = time.perf_counter()
    page.goto(file.resolve().as_uri())
    page.locator("#startup").wait_for(state="hidden")
    row: dict[str, Any] = {"page": str(file), "MB": f"{file.stat().st_size / 1e6:.2f}"}
    row["load, s"] = f"{time.perf_counter() - start:.2f}"
    for method, title in METHODS.items():
        page.locator("#decoding-button").click()
        page.locator("#decoding label", has_text=title).click()
        page.keyboard.press("Escape")
        page.locator("#decoding").wait_for(state="hidden")
        replies = [reply(page, text) for _ in range(rounds + 1) for text in TEXTS][len(TEXTS) :]
        row[f"{method}, ms"] = f"{1000 * statistics.median(seconds for seconds, _ in replies):.0f}"
        row[f"{method}, ms/token"] = f"{1000 * statistics.median(s / tokens for s, tokens in replies):.1f}"
    page.context.close()
    return row


def reply(page: Page, text: str) -> tuple[float, int]:
    """Seconds of a reply, and its tokens with the end marker, as the page keeps them to restore the conversation."""
    count = page.locator(".message.model").count()
    page.locator("#text").fill(text)
    page.keyboard.press("Enter")
    page.locator(".message.model").nth(count).wait_for()
    answer = page.evaluate("() => JSON.parse(sessionStorage.getItem('conversation')).at(-1).answer")
    return answer["seconds"], len(answer["reply_words"]) + 1


if __name__ == "__main__":
    run_command(main)
