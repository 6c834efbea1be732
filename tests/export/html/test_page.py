"""Exported pages in a browser: opened from disk, without a network."""

import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.config import Decoding
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine, load_trained_model
from seq2seq_chat.export.html.export import PAGE, SETTINGS, differences
from seq2seq_chat.runs.find import find_run
from tests.export.html.conftest import FRENCH_TO_ENGLISH, round_weights
from tests.random_runs import random_language_run, random_run, small_config
from tests.webui.conftest import problems_of, set_decoding, set_view, submit

Cli = Callable[..., Any]
FAILED = "[Cc]opy (the file|it) again"
DAMAGED = {
    **{"model": r'id="model">.{200}', "script": "In place of the client", "style": "--accent-strong"},
    **{"bootstrap": "@popperjs", "worker": "four rows at a time"},
}
SETTLED = """() => {
  const note = document.getElementById("startup");
  return note && (note.hidden || !note.textContent.startsWith("Loading"));
}"""
STOP_AT_FIRST_TOKEN = """() => new MutationObserver((changes, observer) => {
  if (document.querySelectorAll(".written").length !== 1 || !document.querySelector(".written .token")) return;
  observer.disconnect();
  document.getElementById("stop").click();
}).observe(document.getElementById("texts"), { childList: true, subtree: true })"""


@pytest.fixture(scope="session")
def offline_chat(cli: Cli, tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the tiny run. Read-only."""
    return export(cli, tiny_run, tmp_path_factory.mktemp("offline") / "page")


def export(cli: Cli, run: Path, folder: Path, *options: str) -> Path:
    """Export the page of a run, which is the only file in its folder."""
    result = cli("export", run, "--output", folder, "--format", "html", *options)
    assert result.status == 0, result
    assert sorted(file.name for file in folder.iterdir()) == ["MODEL_CARD.md", PAGE]
    return folder / PAGE


@pytest.fixture
def offline_page(page: Any) -> Iterator[Any]:
    """A page that must not request anything but the file itself."""
    requests: list[str] = []
    page.context.set_offline(True)
    page.on("request", lambda request: requests.append(request.url))
    yield page
    assert not [url for url in requests if not url.startswith(("file:", "data:", "blob:"))]


WAIT_UNTIL_KEPT = """async (count) => {
  const [{ name }] = await indexedDB.databases();
  const result = (request) => new Promise((resolve) => { request.onsuccess = () => resolve(request.result); });
  const database = await result(indexedDB.open(name)), [store] = database.objectStoreNames;
  const read = () => result(database.transaction(store).objectStore(store).getAll());
  while ((await read()).flatMap(({ turns }) => turns.flatMap(({ replies }) => replies)).length < count);
  database.close();
}"""
"""Wait until so many replies are in the browser's database; a reply is shown before that."""


def open_file(page: Any, file: Path) -> None:
    """Open a page and wait until its model is loaded."""
    page.goto(file.as_uri())
    page.locator("#startup").wait_for(state="hidden")


def send(page: Any, text: str) -> Any:
    """Send a message and wait for the reply; its element."""
    count = page.locator(".message.model").count()
    submit(page, text)
    reply = page.locator(".message.model").nth(count)
    reply.wait_for()
    return reply


def rounded_bot(path: Path) -> Chatbot:
    """The chatbot of a run with the weights that its page has."""
    run = find_run(str(path))
    trained = load_trained_model(run)
    round_weights(trained.model)
    return Chatbot(TensorFlowEngine(trained.model), trained.codecs, run.config)


def questions(path: Path, count: int) -> list[str]:
    words, rng = find_run(str(path)).codecs.source.vocabulary.words[4:], random.Random(6)
    return [" ".join(rng.choices([*words, "zebra"], k=rng.randint(1, 9))) for _ in range(count)]


@pytest.mark.smoke
def test_a_conversation(offline_page: Any, offline_chat: Path, tiny_run: Path, expect: Any) -> None:
    open_file(offline_page, offline_chat)
    expect(offline_page.locator("#reads")).to_have_text("reads one message")
    texts = questions(tiny_run, 5)
    for text, expected in zip(texts, rounded_bot(tiny_run).replies(texts), strict=True):
        assert send(offline_page, text).locator(".message-text").inner_text() == expected.text
    set_decoding(offline_page, "Beam search")
    reply = send(offline_page, "you see the zebra ?")
    reply.locator("summary").first.click()
    expect(reply.locator(".hypotheses tbody tr")).to_have_count(5)
    expect(reply.locator(".map thead th")).to_have_text(["you", "see", "the", "zebra", "?"])
    expect(reply.locator(".word")).to_have_text(["zebra"])
    set_decoding(offline_page, "Sampling")
    expect(send(offline_page, "we like it").locator(".meta")).to_contain_text("sample")
    expect(send(offline_page, "***").locator(".message-text")).to_have_text("I cannot read this.")
    offline_page.evaluate(WAIT_UNTIL_KEPT, 8)
    offline_page.reload()
    expect(offline_page.locator(".message.model")).to_have_count(8)  # restored


def test_another_file_in_the_same_tab_has_its_own_model(
    offline_page: Any, offline_chat: Path, tiny_run: Path, tmp_path: Path, cli: Cli, expect: Any
) -> None:
    """It has other conversations, too, as a browser may take all files for one site, unless it has the same weights."""
    open_file(offline_page, offline_chat)
    send(offline_page, "we like it")
    offline_page.get_by_role("button", name="Link").click()
    link = offline_page.locator("#note a").get_attribute("href").partition("#")[2]
    offline_page.evaluate(WAIT_UNTIL_KEPT, 1)
    other = shutil.copytree(tiny_run, tmp_path / "other")
    open_file(offline_page, export(cli, other, tmp_path / "page"))
    expect(offline_page.locator(".message")).to_have_count(0)
    expect(offline_page.locator("#note")).to_have_text("")
    assert send(offline_page, "we like it").locator(".message-text").inner_text()
    expect(offline_page.get_by_role("link", name="Watch the search")).to_have_count(0)
    earlier = export(cli, tiny_run, tmp_path / "earlier", "--snapshot", "10")
    open_file(offline_page, earlier)
    expect(offline_page.locator(".message")).to_have_count(0)
    offline_page.goto(f"{earlier.as_uri()}#{link}")
    expect(offline_page.locator(".error")).to_contain_text("has no weights of step 20 on this page")
    open_file(offline_page, export(cli, tiny_run, tmp_path / "again"))
    expect(offline_page.locator(".message.model")).to_have_count(1)


def test_settings_that_contradict_each_other(offline_page: Any, offline_chat: Path, expect: Any) -> None:
    open_file(offline_page, offline_chat)
    set_decoding(offline_page, "Beam search", {"Replies shown": 7})
    submit(offline_page, "we like it")
    expect(offline_page.locator(".error")).to_contain_text("A beam of 5 has no 7 hypotheses.")


def test_a_translation(offline_page: Any, tmp_path: Path, cli: Cli, expect: Any) -> None:
    names = "data.tokenizer=unicode", "data.target_tokenizer=english", "task=translation"
    config = small_config(*names, "data.train=train.tsv")
    run = random_run(tmp_path / "run", config, FRENCH_TO_ENGLISH)
    open_file(offline_page, export(cli, run.path, tmp_path / "page"))
    lines = ["Où est le chat ?", "Je l'aime."]
    submit(offline_page, "\n".join(lines))
    expected = [reply.text or "(empty translation)" for reply in rounded_bot(run.path).replies(lines)]
    expect(offline_page.locator(".translated")).to_have_text(expected)


def test_a_language_model_writes_until_it_is_stopped(offline_page: Any, tmp_path: Path, cli: Cli, expect: Any) -> None:
    run = random_language_run(tmp_path / "run", "some text, in two lines\n")
    open_file(offline_page, export(cli, run.path, tmp_path / "page"))
    texts = []
    for _ in range(2):
        offline_page.locator("#length").fill("40")
        offline_page.locator("#seed").fill("3")
        offline_page.locator("#send").click()
        expect(offline_page.locator("#texts .hint")).to_contain_text("40 tokens · seed 3")
        texts.append(offline_page.locator(".written").inner_text())
    assert texts[0] == texts[1]
    offline_page.locator(".written .token").first.focus()
    expect(offline_page.locator("#details tbody tr")).to_have_count(5)
    offline_page.locator("#length").evaluate("node => node.removeAttribute('max')")
    offline_page.locator("#length").fill("100000000")
    offline_page.evaluate(STOP_AT_FIRST_TOKEN)
    offline_page.locator("#send").click()
    expect(offline_page.locator("#texts .hint")).to_contain_text("Stopped")


@pytest.mark.parametrize("part", ["<style", "</style", "</title", 'id="model"', 'id="text"', *DAMAGED])
def test_a_damaged_file_says_so(browser: Any, offline_chat: Path, tmp_path: Path, part: str, expect: Any) -> None:
    """Also if a damaged tag hides what follows."""
    text = offline_chat.read_text(encoding="utf-8")
    match = re.search(DAMAGED.get(part, re.escape(part[:-1])), text)
    assert match
    changed = "x" if text[match.end() - 1] != "x" else "y"
    (tmp_path / PAGE).write_text(text[: match.end() - 1] + changed + text[match.end() :], encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / PAGE).as_uri())
    expect(page.locator("#startup")).to_contain_text(re.compile(FAILED))
    page.close()


@pytest.mark.nightly
def test_bytes_changed_at_random_never_give_another_reply(
    browser: Any, offline_chat: Path, tiny_run: Path, tmp_path: Path
) -> None:
    """The page either says that it is damaged, or nothing depends on the change and it replies as before."""
    contents, rng, (text,) = offline_chat.read_bytes(), random.Random(7), questions(tiny_run, 1)
    model = range(contents.index(b'id="model">'), contents.index(b"</script>", contents.index(b'id="model">')))
    settings = range(contents.index(b"<body"), contents.index(b'<a class="skip'))
    (expected,) = rounded_bot(tiny_run).replies([text])
    file, damaged = tmp_path / PAGE, 0
    for positions in (range(len(contents)), model, settings):
        for position in rng.sample(positions, 10):
            changed = bytearray(contents)
            changed[position] ^= rng.randint(1, 255)
            file.write_bytes(changed)
            page = browser.new_page()
            page.goto(file.as_uri())
            page.wait_for_function(SETTLED)
            note = page.locator("#startup")
            if note.is_visible():
                assert re.search(FAILED, note.inner_text())
                damaged += 1
            else:
                assert send(page, text).locator(".message-text").inner_text() == expected.text, position
            page.close()
    assert damaged > 20


def test_a_browser_that_is_too_old_gets_a_sentence(browser: Any, offline_chat: Path, expect: Any) -> None:
    page = browser.new_page()
    page.add_init_script("delete globalThis.DecompressionStream;")
    page.goto(offline_chat.as_uri())
    expect(page.locator("#startup")).to_contain_text("This browser is too old for this page.")
    page.close()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(offline_chat.as_uri())
    expect(page.locator("#startup")).to_contain_text("This page needs JavaScript in a current browser")
    context.close()


@pytest.mark.parametrize(("width", "colors"), [(1100, "light"), (360, "dark")])
def test_the_page_is_accessible_and_fits(offline_page: Any, offline_chat: Path, width: int, colors: str) -> None:
    set_view(offline_page, width, colors)
    offline_page.context.set_offline(False)
    # axe is a script of its own, which the policy of the page does not allow
    text = re.sub(r"<meta http-equiv[^>]*>", "", offline_chat.read_text(encoding="utf-8"))
    relaxed = offline_chat.with_name("relaxed.html")
    relaxed.write_text(text, encoding="utf-8")
    open_file(offline_page, relaxed)
    send(offline_page, "you see the zebra ?").locator("summary").first.click()
    assert not problems_of(offline_page)


def test_settings_that_the_page_does_not_have_are_named() -> None:
    decoding = Decoding(method="beam", beam_width=4, rerank="anti_language_model", unrolling="built_in")
    expected = ['the page does not support decoding.rerank, which is "anti_language_model" in the run']
    assert differences(decoding) == expected
    assert differences(Decoding(method="sample", top_p=0.5)) == []
    server_only = {"rerank", "rerank_weight", "rerank_prefix_length", "backward_run", "replace_unknown", "lexicon"}
    assert {*SETTINGS} == {*Decoding.model_fields} - server_only - {"unrolling"}
