"""The page for translations: lines, alternatives, the attention between both sentences, and the comparison page."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.runs.run import Run
from seq2seq_chat.text.codec import Codecs
from tests.random_runs import make_codec, random_run, small_config
from tests.webui.conftest import (
    REPLY_TIMEOUT,
    Serve,
    choose_beam,
    hold,
    import_download,
    open_page,
    problems_of,
    reload,
    serving,
    set_decoding,
    set_view,
    submit,
    wait_until_kept,
)

TRANSLATION = ("task=translation", "data.train=train.tsv", "data.tokenizer=unicode", "data.target_vocabulary_size=9")
OTHER_TASK = re.compile(r"\b(conversation|reply|replies|message|history|bot|utterance)s?\b", re.IGNORECASE)
SAMPLE = {"step": 7, "source": "the red car", "reply": "auto", "target": "das rote Auto"}
LINES = ["the small house is red", "", "a car"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two translation runs, one of them without attention, and a conversation; all with random weights."""
    results = tmp_path_factory.mktemp("translations")
    source = make_codec("unicode", ["the", "small", "red", "house", "car", "is", "a"])
    target = make_codec("unicode", ["Haus", "rotes", "kleines", "Auto", "."])
    runs = {
        "words": (small_config(*TRANSLATION), Codecs(source, target)),
        "plain": (small_config(*TRANSLATION, "model.attention=none"), Codecs(source, target)),
        "talk": (small_config("data.tokenizer=unicode"), Codecs(source, source)),
    }
    for name, (config, codecs) in runs.items():
        random_run(results / "new", config, codecs).path.rename(results / name)
    (results / "words" / "samples.jsonl").write_text(json.dumps(SAMPLE) + "\n", encoding="utf-8")
    return results


@pytest.fixture(scope="module")
def server(results: Path) -> Iterator[str]:
    """The address of a server over ``results``."""
    with serving(results) as address:
        yield address


@pytest.fixture
def answer(page: Any) -> dict[str, Any]:
    """What the server answers to every request, with known weights; a test may change it."""
    answer = {
        "reply": "kleines Auto",
        "alternatives": [{"text": "kleines Auto", "score": -1.0}, {"text": "Auto", "score": -2.0}],
        **{"source_words": ["tiny", "red", "car"], "unknown_words": ["tiny"], "reply_words": ["kleines", "Auto"]},
        "attention": [[0.7, 0.2, 0.1], [0.01, 0.09, 0.9]],
        **{"seconds": 0.1, "step": 7, "warnings": []},
    }
    page.route("**/api/chat", lambda route: route.fulfill(json=answer))
    return answer


def translate(page: Any, text: str) -> Any:
    """Translate a text on an open page; the lines of the output."""
    submit(page, text)
    page.locator("#copy").wait_for(timeout=REPLY_TIMEOUT)
    return page.locator("#output > li")


def percents(page: Any, row: int) -> list[str]:
    """The percentages shown beside the tokens of the source (0) or of the translation (1)."""
    shown: list[str] = page.locator(".attention-row").nth(row).locator(".percent").all_inner_texts()
    return shown


def test_the_page_has_no_words_of_conversations(shared_client: FlaskClient) -> None:
    main = shared_client.get("/translate").get_data(as_text=True).split("<main")[1]
    assert "Translation" in main
    assert not OTHER_TASK.search(main)


def test_lines_are_translated_one_by_one(page: Any, server: str, results: Path, tmp_path: Path, expect: Any) -> None:
    bot = Chatbot.load(Run(results / "words"))
    replies = [bot.reply(line, Decoding(method="beam", beam_width=5, n_best=5)) for line in LINES]
    open_page(page, server, "/?run=words")
    assert page.url.startswith(f"{server}/translate")
    choose_beam(page)
    lines = translate(page, "\n".join(LINES))
    expect(lines.locator(".translated")).to_have_text([replies[0].text, replies[2].text])
    expect(lines).to_have_count(3)
    expect(page.locator(".hypothesis")).to_have_text([one.text for one in replies[0].hypotheses])
    expect(page.locator(".attention-row").nth(0)).to_have_text("".join(replies[0].source_words))
    page.get_by_label("Details of line 3").click()
    expect(page.locator(".hypothesis")).to_have_text([one.text for one in replies[2].hypotheses])
    expect(page.get_by_label("Details of line 3")).to_have_attribute("aria-pressed", "true")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    expect(page.locator("#status")).to_have_text("The translation was copied to the clipboard.")
    assert page.evaluate("() => navigator.clipboard.readText()").split("\n") == [reply.text for reply in replies]
    import_download(page, page.locator("#download-json").click, tmp_path, expect)
    assert not OTHER_TASK.search(page.locator("main").inner_text())
    page.locator("#clear").click()
    expect(page.locator("#output > li, #details:visible, #copy:visible")).to_have_count(0)
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#text")).to_be_focused()


def test_a_link_translates_the_same_lines_again(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, "/translate?run=words")
    set_decoding(page, "Sampling", {"Temperature": 3})
    translations = translate(page, "\n".join(LINES)).locator(".translated").all_inner_texts()
    page.get_by_role("button", name="Link").click()
    link = page.locator("#note a").get_attribute("href")
    for url, note in (
        (link, "The same translation as when the link was made."),
        (link.replace("replies%22%3A%5B%22", "replies%22%3A%5B%22x"), "The model now translates differently."),
        (link.replace("%22words%22", "%22gone%22"), "The translation cannot be computed again: There is no run"),
    ):
        other = page.context.browser.new_context().new_page()
        other.goto(url)
        expect(other.locator("#note")).to_contain_text(note, timeout=REPLY_TIMEOUT)
        if "same" in note:
            assert other.locator(".translated").all_inner_texts() == translations
        other.context.close()


@pytest.mark.smoke
def test_attention_between_both_sentences(page: Any, server: str, answer: dict[str, Any], expect: Any) -> None:
    open_page(page, server, "/translate?run=words")
    translate(page, "tiny red car")
    expect(page.locator(".attention-picture path")).to_have_count(5)  # 1 % is not drawn
    source, output = (page.locator(".attention-row").nth(row).locator(".attention-token") for row in (0, 1))
    expect(source.nth(0)).to_have_attribute("title", "not in the vocabulary")
    caption = page.locator(".attention-caption")
    output.nth(1).hover()
    expect(caption).to_have_text("“Auto” attends to: car 90 %, red 9 %")
    assert (percents(page, 0), percents(page, 1)) == (["1", "9", "90"], ["", ""])
    expect(page.locator("path.on")).to_have_count(2)
    source.nth(0).hover()
    expect(caption).to_have_text("Translation tokens that attend to “tiny”: kleines 70 %")
    assert (percents(page, 0), percents(page, 1)) == (["", "", ""], ["70", "1"])
    page.mouse.move(0, 0)
    expect(page.locator("path.on")).to_have_count(0)
    source.nth(2).click()
    page.mouse.move(0, 0)
    expect(source.nth(2)).to_have_attribute("aria-pressed", "true")
    assert percents(page, 1) == ["10", "90"]
    source.nth(2).focus()
    for key, focused in {"ArrowDown": output.nth(1), "ArrowLeft": output.nth(0), "ArrowUp": source.nth(0)}.items():
        page.keyboard.press(key)  # to the most linked token, along the row, and back
        expect(focused).to_be_focused()
    assert percents(page, 1) == ["70", "1"]


@pytest.mark.parametrize(("width", "colors"), [(360, "dark"), (1100, "light")])
def test_a_translation_is_accessible(page: Any, server: str, answer: dict[str, Any], width: int, colors: str) -> None:
    set_view(page, width, colors)
    answer["warnings"] = ["the model reads only the last 3 of 4 tokens"]
    open_page(page, server, "/translate?run=words")
    translate(page, "one tiny red car\nanother")
    page.get_by_text("As a table").click()
    page.locator(".attention-token").nth(4).focus()
    assert not problems_of(page)


def test_the_page_follows_the_task_of_the_run(
    page: Any, server: str, serve: Serve, results: Path, tmp_path: Path, expect: Any
) -> None:
    open_page(page, server, "/?run=talk")
    expect(page).to_have_title(re.compile("Chat"))
    page.locator("#run").select_option("words")
    expect(page).to_have_title(re.compile("Translate"))
    page.locator("#snapshot option").first.wait_for(state="attached")
    page.get_by_role("link", name="Talk to it").click()
    expect(page.locator("#run")).to_have_value("words")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_role("link", name="Translate with plain").click()
    expect(page.locator("#run")).to_have_value("plain")
    shutil.copytree(results / "talk", tmp_path / "talk")
    with serve(tmp_path) as address:
        page.goto(f"{address}/translate")
        page.get_by_text("No translation runs yet").wait_for()


def test_sources_that_need_a_warning(page: Any, server: str, expect: Any) -> None:
    """Longer than the model's eight steps; with unknown words; and a run without attention."""
    open_page(page, server, "/translate?run=words")
    lines = translate(page, "a small red house is a small red car\na zebra")
    expect(lines.nth(0).locator(".warning")).to_contain_text("the model reads only the last 8 of 9 tokens")
    expect(lines.nth(1).locator(".word")).to_have_text(["zebra"])
    page.locator("#run").select_option("plain")
    expect(page.locator("#status")).to_contain_text("plain", timeout=REPLY_TIMEOUT)  # it was translated again
    expect(page.locator(".details")).to_contain_text("This model has no attention.")
    expect(page.locator(".attention-picture, .map")).to_have_count(0)


def test_examples_errors_and_stop(page: Any, server: str, expect: Any) -> None:
    open_page(page, server, "/translate?run=words")
    page.get_by_role("button", name=SAMPLE["source"]).click()
    expect(page.locator(".details .facts-list")).to_contain_text(str(SAMPLE["target"]), timeout=REPLY_TIMEOUT)
    expect(page.locator("#examples")).to_be_hidden()
    lines = page.locator("#output > li")
    submit(page, "a " * 5001 + "\na car")
    expect(page.locator("#count")).to_contain_text("10,002 of 10,000 characters; shorten the text")
    expect(lines).to_have_count(1)  # as before: it was not sent
    page.locator("#text").fill("a car\n" * 100 + "a car")
    page.locator("#send").click()
    expect(page.locator("#note")).to_have_text("At most 100 lines can be translated at a time, not 101.")
    page.route("**/api/chat", lambda route: route.fulfill(status=404, json={"error": "There is no run 'words'."}))
    submit(page, "a car\n" * 20)
    expect(lines.locator(".error").first).to_contain_text("There is no run 'words'.")
    expect(page.locator("#stop")).to_be_hidden()
    assert lines.locator(".stopped").count() >= 10  # the others were not sent
    page.unroute("**/api/chat")
    page.get_by_role("button", name="Try again").first.click()
    expect(lines.locator(".translated")).to_have_count(20, timeout=REPLY_TIMEOUT)
    hold(page, "**/api/chat")
    submit(page, "a car")
    page.locator("#stop").click()
    expect(page.locator("#output .stopped")).to_have_text("Stopped.")
    expect(page.locator("#stop")).to_be_hidden()


def test_a_translation_is_kept_as_it_arrives(page: Any, server: str, expect: Any) -> None:
    """It does not change when the run is deleted, or when another run translates the same text."""
    open_page(page, server, "/translate?run=words")

    def answer_one(route: Any) -> None:
        if route.request.post_data_json["text"] == "a car":
            route.continue_()

    page.route("**/api/chat", answer_one)
    submit(page, "a car\nthe house")
    expect(page.locator("#output .translated")).to_have_count(1, timeout=REPLY_TIMEOUT)
    reload(page)
    expect(page.locator("#output .stopped")).to_have_text("Stopped.")
    translated, kept = page.locator("#output .translated").inner_text(), page.url
    page.locator("#run").select_option("plain")
    expect(page).not_to_have_url(kept)
    runs = page.request.get(f"{server}/api/runs").json()["runs"]
    page.route(
        "**/api/runs", lambda route: route.fulfill(json={"runs": [run for run in runs if run["name"] != "words"]})
    )
    wait_until_kept(page)
    page.goto(kept)
    expect(page.locator("#run")).to_have_value("plain")
    expect(page.locator("#output .stopped")).to_have_text("Stopped.")
    assert page.locator("#output .translated").inner_text() == translated


def test_compare_translations(page: Any, server: str, expect: Any) -> None:
    """Two runs side by side, without a history; a conversation beside them is pointed out."""
    open_page(page, server, "/compare?run=words")
    page.get_by_role("button", name="Add column").click()
    page.locator("#run").select_option("plain")
    page.get_by_role("button", name="Add column").click()
    for count in (2, 4):
        submit(page, "a small house")
        expect(page.locator(".lane .message-text")).to_have_count(count, timeout=REPLY_TIMEOUT)
    expect(page.locator("#mixed")).to_be_empty()
    page.locator(".lane summary").first.click()
    expect(page.locator(".lane .why-inner")).to_contain_text("Tokens of the translation")
    assert not OTHER_TASK.search(page.locator("main").inner_text())
    page.locator("#run").select_option("talk")
    page.get_by_role("button", name="Add column").click()
    expect(page.locator("#mixed")).to_contain_text("different tasks, translation and conversation")
    reload(page)
    expect(page.locator("#mixed")).not_to_be_empty()
    page.get_by_label("Remove column talk, latest").click()
    expect(page.locator("#mixed")).to_be_empty()


def test_rows_of_tokens(page: Any, server: str, answer: dict[str, Any], expect: Any) -> None:
    """Tokens from right to left, and a sentence that is so long that it becomes a column."""
    answer |= {"reply_words": ["מכונית", "קטנה"], "reply": "מכונית קטנה"}
    open_page(page, server, "/translate?run=words")
    source, output = (page.locator(".attention-row").nth(row).locator("button") for row in (0, 1))
    translate(page, "tiny red car")
    boxes = [token.bounding_box() for token in output.all()]
    assert boxes[0]["x"] > boxes[1]["x"]
    output.first.focus()
    page.keyboard.press("ArrowLeft")
    expect(output.nth(1)).to_be_focused()
    answer |= {"source_words": [f"word{n}" for n in range(30)], "attention": [[1 / 30] * 30] * 2}
    translate(page, "a car")
    page.locator(".attention-picture:not(.horizontal)").wait_for()
    expect(source).to_have_count(30)
    first, last = (source.nth(n).bounding_box() for n in (0, 29))
    assert last["y"] > first["y"] + 29 * 20
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
