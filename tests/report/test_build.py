"""The report of a tiny run, and of runs and files from which parts of it cannot be made."""

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from lxml.html import fromstring

from seq2seq_chat.data.corpus_file import bundled_questions
from seq2seq_chat.report.build import write_report
from seq2seq_chat.report.measure import ReportOptions
from seq2seq_chat.runs.run import Run
from tests.conftest import Cli, CommandResult, edit_config
from tests.webui.conftest import problems_of, set_view

pytestmark = pytest.mark.usefixtures("tiny_run", "unoptimized_graphs")

CHAPTERS = [
    *("Experiment", "Evaluation on the test corpus", "Language over time", "Replies over time", "Blind evaluation"),
    "Learning curves",
    *("Attention", "Beam study", "Thought vectors", "Word embeddings", "Model internals", "Configuration"),
]
BEAM = ("--set", "decoding.method=beam", "--set", "decoding.beam_width=3")
VOID = {"meta", "img", "br", "link"}


class NestedTags(HTMLParser):
    """Verifies that each end tag closes the last open one."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open += [tag] if tag not in VOID else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class ParsedPage:
    """Chapters, pictures, links and text of a page, which must be well-formed."""

    def __init__(self, path: Path) -> None:
        html = path.read_text(encoding="utf-8")
        NestedTags(html)
        page: Any = fromstring(html)
        self.chapters = page.xpath("//h2/text()")
        self.pictures = page.xpath("//img[@alt != '']/@src")
        assert len(self.pictures) == len(page.xpath("//img"))
        self.links = page.xpath("//@src | //@href")
        self.anchors = page.xpath("//@id")
        self.unavailable = [each.text_content() for each in page.xpath("//*[@class='unavailable']")]
        self.text = page.text_content()


@pytest.fixture(scope="module", autouse=True)
def _small_report() -> Iterator[None]:
    """Narrow beams, few samples, coarse figures, and any projection for t-SNE, which has a test of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seq2seq_chat.report.figures.replies.WIDTHS", (1, 2))
        patch.setattr("seq2seq_chat.report.measure.EXAMPLES", 4)
        patch.setattr("seq2seq_chat.report.figures.style.DPI", 40)
        patch.setattr("seq2seq_chat.report.figures.vectors.tsne", lambda values: values[:, :2])
        yield


@pytest.fixture(scope="module")
def reported(tiny_run: Path, cli: Cli, shared_folder: Callable[..., Path]) -> tuple[Path, CommandResult]:
    """A copy of the tiny run with its report, and what the command printed. Not to be changed."""

    def fill(folder: Path) -> None:
        shutil.copytree(tiny_run, folder / "results" / tiny_run.name)
        (folder / "parrot.txt").write_text("hello !\tpretty <b>polly</b>\nhas polly eaten ?\ta cracker\n", "utf-8")
        run = folder / "results" / tiny_run.name
        result = cli("report", run, "--limit", 12, "--transcript", folder / "parrot.txt", *BEAM)
        (folder / "output.json").write_text(json.dumps(result), encoding="utf-8")

    folder = shared_folder("report", fill)
    output = json.loads((folder / "output.json").read_text(encoding="utf-8"))
    return folder / "results" / tiny_run.name, CommandResult(*output)


@pytest.fixture
def evaluated_run(reported: tuple[Path, CommandResult], tmp_path: Path) -> Path:
    """A copy of the tiny run with its evaluation but without a report, which a test may change."""
    run = tmp_path / "results" / reported[0].name
    shutil.copytree(reported[0], run, ignore=shutil.ignore_patterns("report*"))
    return run


def report(*runs: Path, output: Path | None = None, limit: int | None = 12) -> ParsedPage:
    return ParsedPage(write_report([Run(run) for run in runs], ReportOptions(limit=limit), output))


def test_page_is_complete_and_self_contained(reported: tuple[Path, Any]) -> None:
    run, result = reported
    assert (result.status, result.err) == (0, "")
    assert result.out.splitlines()[-1] == str(run / "report.html")
    page = ParsedPage(run / "report.html")
    assert page.chapters == CHAPTERS
    assert page.unavailable == []
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} == set(page.anchors)
    assert "pretty <b>polly</b>" in page.text  # escaped
    assert f"seq2seq-chat report {run.name} --limit 12 {' '.join(BEAM)}" in page.text
    html = (run / "report.html").read_text(encoding="utf-8")
    assert "url(" not in html and "<script" not in html and "prefers-color-scheme: dark" in html


@pytest.mark.parametrize(("width", "colors"), [(1100, "light"), (360, "dark")])
def test_page_is_accessible_and_fits(page: Any, reported: tuple[Path, Any], width: int, colors: str) -> None:
    set_view(page, width, colors)
    page.goto((reported[0] / "report.html").as_uri())
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert not problems_of(page)


def test_figures_and_predictions_are_kept_as_files(reported: tuple[Path, Any]) -> None:
    run, _ = reported
    page = ParsedPage(run / "report.html")
    pictures = {base64.b64decode(source.partition(",")[2]) for source in page.pictures}
    assert pictures == {path.read_bytes() for path in (run / "report").glob("*.png")}
    assert len(pictures) > 12
    for snapshot in ("10", "20"):
        (file,) = (run / "evaluation").glob(f"{snapshot}_validation_beam_*.jsonl")
        assert len(file.read_text(encoding="utf-8").splitlines()) == 1 + 10
    projector = run / "report" / "projector" / "tiny_word_embeddings"
    assert len((projector / "vectors.tsv").read_text().splitlines()) == len(Run(run).codecs.source.vocabulary) - 4


def test_metrics_equal_those_of_evaluate(cli: Cli, reported: tuple[Path, Any], tmp_path: Path) -> None:
    """The column after those of the two snapshots is the newest one without leaked samples."""
    run, _ = reported
    metrics = []
    for options in (["--snapshot", "10"], []):
        cli("evaluate", run, *options, *BEAM, "--limit", 12, "--json", tmp_path / "metrics.json")
        metrics.append(json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8")))
    page = re.sub(r"\s+", " ", (run / "report.html").read_text(encoding="utf-8"))
    first, newest = metrics
    assert 0 < newest["leaked_samples"] < 12
    assert f"Leakage: {newest['leaked_samples']} of {newest['samples']} samples" in page
    assert f"20: {newest['copies']['replies']} of {newest['samples']} replies" in page
    distance = ("Sent2Vec distance, as in the thesis ↓", "sent2vec_distance", 3)
    for title, key, digits in (("perplexity, e^loss ↓", "perplexity", 2), distance):
        (row,) = re.findall(rf'<th scope="row">{re.escape(title)}</th>(.*?)</tr>', page)
        values = re.findall(r'<td class="number">([^<]*)</td>', row)
        assert values[:3] == [f"{one[key]:.{digits}f}" for one in (first, newest, newest["without_leaked"])]


def test_captions_name_the_search(reported: tuple[Path, Any]) -> None:
    html = (reported[0] / "report.html").read_text(encoding="utf-8")
    captions = re.findall(r"<(?:caption|figcaption|summary)>(.*?)</", html, re.DOTALL)
    about_replies = "Metrics|By training|replies by|every snapshot|Side by side|→|at 10,|its reply"
    searches = [text for text in captions if re.search(about_replies, text)]
    assert len(searches) == 17
    assert [text for text in searches if not re.search(r"(by |\()beam search, width 3\b", text)] == []
    assert sum("greedy" in text for text in captions) == 1  # of the samples that training wrote


def test_questions_of_a_transcript_are_asked(reported: tuple[Path, Any]) -> None:
    """Of the other questions, the transcript knows one; only its own ones are in the tables of replies alone."""
    html = (reported[0] / "report.html").read_text(encoding="utf-8")
    over_time, side_by_side = re.findall(r">has polly eaten \?</th>(.*)</tr>", html)
    assert over_time.count("<td>") == 2 and side_by_side.endswith("<td>a cracker</td>")
    assert html.count("not asked") == len(bundled_questions()) - 1


@pytest.mark.slow
def test_several_runs_on_one_page(evaluated_run: Path, tmp_path: Path) -> None:
    """Runs of the same experiment, which are distinguished by the names of their folders."""
    other = tmp_path / "results" / "other"
    shutil.copytree(evaluated_run, other)
    page = report(evaluated_run, other, output=tmp_path / "both.html")
    names = {evaluated_run.name, "other"}
    assert page.unavailable == []
    assert "Side by side" in page.text and all(f"{name}, 20" in page.text for name in names)
    pictures = {path.name for path in (tmp_path / "both_pictures").glob("*.png")}
    for kind in ("ranks", "divergence", "ngrams_20", "beams", "thought_vectors", "word_embeddings", "weights"):
        assert {f"{name}_{kind}.png" for name in names} <= pictures
    assert not any(name.startswith("tiny_") for name in pictures)


@pytest.mark.slow
def test_without_snapshots_the_newest_weights_are_measured(evaluated_run: Path) -> None:
    shutil.rmtree(evaluated_run / "snapshots")
    page = report(evaluated_run)
    assert page.chapters == CHAPTERS
    (reason,) = page.unavailable
    assert "no snapshots" in reason
    assert "BLEU" in page.text and len(page.pictures) >= 13


def test_without_weights_the_learning_curves_remain(evaluated_run: Path) -> None:
    shutil.rmtree(evaluated_run / "snapshots")
    shutil.rmtree(evaluated_run / "checkpoints")
    page = report(evaluated_run)
    assert page.chapters == CHAPTERS
    assert any("no checkpoint yet" in reason for reason in page.unavailable)
    assert 1 <= len(page.pictures) <= 2


@pytest.mark.slow
def test_damaged_snapshot_is_skipped(evaluated_run: Path) -> None:
    weights = evaluated_run / "snapshots" / "10" / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:1000])
    page = report(evaluated_run)
    assert any("snapshot 10" in reason and "damaged" in reason for reason in page.unavailable)
    assert "perplexity" in page.text and len(page.pictures) >= 13


@pytest.mark.slow
def test_empty_test_file(evaluated_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    edit_config(evaluated_run, "data", test=str(tmp_path / "empty.txt"))
    page = report(evaluated_run, limit=None)
    assert page.chapters == CHAPTERS
    assert sum("no utterance" in reason for reason in page.unavailable) >= 1
    assert len(page.pictures) > 5  # attention, thought vectors, words, gates, curves


@pytest.mark.slow
def test_without_the_training_corpus(run_copy: Path) -> None:
    edit_config(run_copy, "data", train="moved/away.txt")
    page = report(run_copy)
    assert any("moved/away.txt" in reason for reason in page.unavailable)
    assert "BLEU" in page.text and len(page.pictures) > 10


@pytest.mark.slow
def test_ten_words_without_attention(cli: Cli, tiny_settings: dict[str, Any], tmp_path: Path) -> None:
    """Most replies are empty or of one word."""
    tiny_settings["data"]["vocabulary_size"] = 10
    tiny_settings["model"] |= {"attention": "none", "projection_size": None}
    tiny_settings["training"] |= {"steps": 2, "snapshot_every": 1, "validate_every": 100, "sampled_softmax": None}
    page = report(_train(cli, tiny_settings, tmp_path))
    assert page.chapters == CHAPTERS
    assert any("no attention" in reason for reason in page.unavailable)
    assert len(page.pictures) > 8


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", pytest.param("rnn", marks=pytest.mark.nightly)])
def test_other_architectures(cell: str, cli: Cli, tiny_settings: dict[str, Any], tmp_path: Path) -> None:
    """Two bidirectional layers with reversed input, and cells with two gates or none."""
    tiny_settings["data"] |= {"reverse_input": True}
    tiny_settings["model"] |= {"cell": cell, "layers": 2, "bidirectional": True, "attention": "general"}
    tiny_settings["training"] |= {"steps": 4, "snapshot_every": 2, "validate_every": 100}
    tiny_settings["decoding"] = {"method": "sample", "top_k": 5, "min_length": 2}  # no empty replies
    page = report(_train(cli, tiny_settings, tmp_path))
    assert [reason for reason in page.unavailable if "no gates" not in reason] == []
    assert bool(page.unavailable) == (cell == "rnn")


def _train(cli: Cli, settings: dict[str, Any], folder: Path) -> Path:
    (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    result = cli("train", folder / "config.json", "--results", folder / "results")
    return Path(result.out.splitlines()[-1])


def test_invalid_options(cli: Cli, run_copy: Path, tmp_path: Path) -> None:
    (tmp_path / "taken_pictures").write_text("not a folder", encoding="utf-8")
    cases = {
        "could not read": ("--sent2vec", tmp_path / "none.bin"),
        "folder does not exist": ("--output", tmp_path / "nowhere" / "page.html"),
        "is a folder; name a file in it": ("--output", tmp_path),
        "taken_pictures could not be written": ("--output", tmp_path / "taken.html"),
        "questions.txt": ("--questions", tmp_path / "questions.txt"),
        "transcript.txt": ("--transcript", tmp_path / "transcript.txt"),
    }
    for message, option in cases.items():
        assert message in cli("report", run_copy, *option).error_message
    assert not list(run_copy.glob("report*"))
