"""The report of a tiny run, and of runs and files of which parts cannot be made."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.analysis import findings
from seq2seq_chat.analysis.findings import Options
from seq2seq_chat.analysis.report import write_report
from seq2seq_chat.runs import Run

Cli = Callable[..., Any]
CHAPTERS = [
    *("The experiment", "Evaluation on the test corpus", "Language over time", "Replies over time", "Learning curves"),
    *("Attention", "Beam study", "Thought vectors", "Word embeddings", "The model's inside", "How this was made"),
]
VOID = {"meta", "img", "br", "link"}


class Read(HTMLParser):
    """A page's chapters, pictures, text and whatever it would load."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.chapters: list[str] = []
        self.pictures: list[str] = []
        self.links: list[str] = []
        self.anchors: list[str] = []
        self.missing: list[str] = []
        self.text = ""
        self._in_missing = False
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "img":
            self.pictures.append(values["src"] or "")
            assert values["alt"]
        self.links += [values[name] or "" for name in ("src", "href") if name in values]
        if values.get("id"):
            self.anchors.append(values["id"] or "")
        if values.get("class") == "missing":
            self.missing.append("")
            self._in_missing = True

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag  # well formed
        self._in_missing = self._in_missing and tag != "p"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "h2":
            self.chapters.append(data)
        if self._in_missing:
            self.missing[-1] += data


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Narrow beams and few samples, which show the same."""
    monkeypatch.setattr("seq2seq_chat.analysis.beams.WIDTHS", (1, 2, 4))
    monkeypatch.setattr(findings, "EXAMPLES", 4)


def test_a_report_has_everything_and_needs_nothing_else(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "parrot.txt").write_text("hello !\tpretty <b>polly</b>\n", encoding="utf-8")
    answer = cli("report", own_run, "--limit", 6, "--transcript", tmp_path / "parrot.txt")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.splitlines()[-1] == str(own_run / "report.html")
    page = Read(own_run / "report.html")
    assert page.open == []
    assert page.chapters == CHAPTERS
    assert page.missing == []
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} == set(page.anchors)
    assert "pretty <b>polly</b>" in page.text  # as it was written, not as HTML
    html = (own_run / "report.html").read_text(encoding="utf-8")
    assert "url(" not in html and "<script" not in html and "prefers-color-scheme: dark" in html
    drawn = {base64.b64decode(source.partition(",")[2]) for source in page.pictures}
    assert drawn == {path.read_bytes() for path in (own_run / "report").glob("*.png")}
    assert len(drawn) > 12
    for moment in ("10", "20"):
        (file,) = (own_run / "evaluation").glob(f"{moment}_validation_greedy_*.jsonl")
        assert len(file.read_text(encoding="utf-8").splitlines()) == 7
    projector = own_run / "report" / "projector" / "tiny_word_embeddings"
    assert len((projector / "vectors.tsv").read_text().splitlines()) == len(Run(own_run).vocabulary) - 4


@pytest.mark.slow
def test_figures_in_the_report_are_those_of_evaluate(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    write_report([Run(own_run)], Options(limit=12), tmp_path / "page.html")
    cli("evaluate", own_run, "--snapshot", "10", "--limit", 12, "--json", tmp_path / "figures.json")
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    text = re.sub(r"\s+", " ", (tmp_path / "page.html").read_text(encoding="utf-8"))
    (row,) = re.findall(r'<th scope="row">perplexity, e\^loss ↓</th><td class="number">([^<]*)</td>', text)
    assert row == f"{figures['perplexity']:.2f}"
    (row,) = re.findall(
        r'<th scope="row">Sent2Vec distance, as in the thesis ↓</th><td class="number">([^<]*)</td>', text
    )
    assert row == f"{figures['sent2vec_distance']:.3f}"
    assert (tmp_path / "page_pictures" / "figures.png").is_file()


@pytest.mark.slow
def test_several_runs_on_one_page(own_run: Path, tmp_path: Path) -> None:
    other = tmp_path / "results" / "other"
    shutil.copytree(own_run, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    (other / "config.json").write_text(json.dumps(config | {"name": "second"}), encoding="utf-8")
    page = Read(write_report([Run(own_run), Run(other)], Options(limit=6), tmp_path / "both.html"))
    assert page.missing == []
    assert "Side by side" in page.text and "second, 20" in page.text
    assert (tmp_path / "both_pictures" / "second_beams.png").is_file()


def _change(run: Path, section: str, **values: object) -> None:
    config = json.loads((run / "config.json").read_text(encoding="utf-8"))
    config[section] |= values
    (run / "config.json").write_text(json.dumps(config), encoding="utf-8")


@pytest.mark.slow
def test_without_snapshots_the_newest_weights_stand_for_all(own_run: Path) -> None:
    shutil.rmtree(own_run / "snapshots")
    page = Read(write_report([Run(own_run)], Options(limit=6)))
    assert page.chapters == CHAPTERS
    (why,) = page.missing
    assert "no snapshots" in why
    assert "BLEU" in page.text and len(page.pictures) > 12


def test_without_any_weights_the_curves_are_there(own_run: Path) -> None:
    shutil.rmtree(own_run / "snapshots")
    shutil.rmtree(own_run / "checkpoints")
    page = Read(write_report([Run(own_run)], Options(limit=6)))
    assert page.chapters == CHAPTERS
    assert any("no checkpoint yet" in why for why in page.missing)
    assert 1 <= len(page.pictures) <= 2


@pytest.mark.slow
def test_a_damaged_snapshot_is_left_out(own_run: Path) -> None:
    weights = own_run / "snapshots" / "10" / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:1000])
    page = Read(write_report([Run(own_run)], Options(limit=6)))
    assert any("snapshot 10" in why and "damaged" in why for why in page.missing)
    assert "perplexity" in page.text and len(page.pictures) > 12


@pytest.mark.slow
def test_an_empty_test_file(own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    _change(own_run, "data", test=str(tmp_path / "empty.txt"))
    page = Read(write_report([Run(own_run)], Options()))
    assert page.chapters == CHAPTERS
    assert sum("no utterance" in why for why in page.missing) >= 1
    assert len(page.pictures) > 5  # attention, thoughts, words, gates, curves


@pytest.mark.slow
def test_without_the_training_corpus(own_run: Path) -> None:
    _change(own_run, "data", train="moved/away.txt")
    page = Read(write_report([Run(own_run)], Options(limit=6)))
    assert any("moved/away.txt" in why for why in page.missing)
    assert "BLEU" in page.text and len(page.pictures) > 10


@pytest.mark.slow
def test_a_model_of_ten_words_without_attention(cli: Cli, tiny_settings: dict[str, Any], tmp_path: Path) -> None:
    """Its replies are mostly of one word, or empty."""
    tiny_settings["data"]["vocabulary_size"] = 10
    tiny_settings["model"] |= {"attention": "none", "projection_size": None}
    tiny_settings["training"] |= {"steps": 2, "snapshot_every": 1, "validate_every": 100, "sampled_softmax": None}
    (tmp_path / "ten.json").write_text(json.dumps(tiny_settings), encoding="utf-8")
    trained = cli("train", tmp_path / "ten.json", "--results", tmp_path / "results")
    run = Run(trained.out.splitlines()[-1])
    page = Read(write_report([run], Options(limit=8)))
    assert page.chapters == CHAPTERS
    assert any("no attention" in why for why in page.missing)
    assert len(page.pictures) > 8


@pytest.mark.slow
@pytest.mark.parametrize("cell", ["gru", "rnn"])
def test_other_models(cell: str, cli: Cli, tiny_settings: dict[str, Any], tmp_path: Path) -> None:
    """Two layers, both directions, input reversed, and cells with two gates or none."""
    tiny_settings["data"] |= {"reverse_input": True}
    tiny_settings["model"] |= {"cell": cell, "layers": 2, "bidirectional": True, "attention": "general"}
    tiny_settings["training"] |= {"steps": 4, "snapshot_every": 2, "validate_every": 100}
    tiny_settings["decoding"] = {"method": "sample", "top_k": 5, "minimum_length": 2}  # no empty replies
    (tmp_path / "other.json").write_text(json.dumps(tiny_settings), encoding="utf-8")
    trained = cli("train", tmp_path / "other.json", "--results", tmp_path / "results")
    page = Read(write_report([Run(trained.out.splitlines()[-1])], Options(limit=6)))
    assert [why for why in page.missing if "no gates" not in why] == []
    assert bool(page.missing) == (cell == "rnn")


def test_what_cannot_be_used_is_told(cli: Cli, own_run: Path, tmp_path: Path) -> None:
    (tmp_path / "taken_pictures").write_text("no folder", encoding="utf-8")
    cases = {
        "cannot be read": ("--sent2vec", tmp_path / "none.bin"),
        "folder does not exist": ("--output", tmp_path / "nowhere" / "page.html"),
        "taken_pictures could not be written": ("--output", tmp_path / "taken.html"),
        "questions.txt": ("--questions", tmp_path / "questions.txt"),
        "transcript.txt": ("--transcript", tmp_path / "transcript.txt"),
    }
    for message, option in cases.items():
        assert message in cli("report", own_run, *option).complaint
    assert not (own_run / "report.html").exists()
