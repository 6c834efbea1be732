"""The bundled toy: a model that learns in two minutes to rewrite dates, and to attend to what it writes."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.runs.run import Run
from tests.conftest import REPOSITORY, Cli


@pytest.mark.slow(minutes=2)
def test_dates_are_rewritten_and_aligned(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    run = Path(cli("train", "configs/dates.json", "--results", tmp_path / "results").out.splitlines()[-1])
    cli("evaluate", run, "--json", tmp_path / "metrics.json")
    metrics = json.loads((tmp_path / "metrics.json").read_text(encoding="utf-8"))
    print(f"{metrics['exact_match']:.1%} of {metrics['samples']} unseen dates are correct")
    assert metrics["samples"] == 1000 and metrics["leaked_samples"] == metrics["leaked_targets"] == 0
    assert metrics["exact_match"] >= 0.99

    lines = Path("configs/sample/dates_test.tsv").read_text(encoding="utf-8").splitlines()
    sources = [line.split("\t")[0] for line in lines]
    years = {source: match.start() for source in sources if (match := re.search(r"\d{4}", source))}
    aligned = np.zeros(4)
    for reply, year in zip(Chatbot.load(Run(run)).replies(list(years)), years.values(), strict=True):
        attended = np.argmax(reply.hypotheses[0].attention, axis=1)
        aligned += attended[:4] - year == range(4)
    assert len(years) > 500
    assert np.all(aligned[2:] >= 0.9 * len(years)), aligned  # the first two digits are nearly always 19 or 20
