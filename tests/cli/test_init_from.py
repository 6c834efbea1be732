"""`train --init-from`: a new run from the weights of another, as a person and as its files see it."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from seq2seq_chat.runs.run import Run
from tests.conftest import Cli
from tests.training.test_recovery import arrays

OLD_RUN = Path(__file__).parents[1] / "compatibility" / "data" / "0.1" / "conversation" / "run"


class Initialized(NamedTuple):
    """A run that was started from a run of version 0.1, which has been moved since."""

    run: Run
    origin: Path
    previous_origin: Path  # its folder then
    out: str  # of the command


def words_of(run: Path) -> list[str]:
    return (run / "vocabulary.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def initialized(cli: Cli, corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Initialized:
    folder = tmp_path_factory.mktemp("init")
    results = folder / "results"
    origin = results / "a:b"
    shutil.copytree(OLD_RUN, origin)
    settings = json.loads((OLD_RUN / "config.json").read_text(encoding="utf-8"))
    settings["name"] = "new"
    settings["data"] |= {"train": str(corpora / "train.txt"), "validation": str(corpora / "validation.txt")}
    settings["data"]["most_buckets"] = 1
    settings["training"] |= {"checkpoint_every": 1, "keep_checkpoints": 9, "steps": 2, "validate_every": 2}
    settings["training"] |= {"sample_replies": 0, "batch_parts": 1, "scheduled_sampling": "none"}
    config = folder / "config.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    result = cli("train", config, "--init-from", "a:b:latest", "--results", results)
    assert result.status == 0, result
    origin.rename(folder / "moved")
    (run,) = results.iterdir()
    return Initialized(Run(run), folder / "moved", origin, result.out)


def test_where_it_comes_from_is_recorded(cli: Cli, initialized: Initialized) -> None:
    run, origin = initialized.run, initialized.origin
    there, here = words_of(origin), words_of(run.path)
    known = f"{len(set(there) & set(here))} of {len(here)} words of the vocabulary are known to a:b; they make up "
    for text in (initialized.out, run.log_file.read_text(encoding="utf-8")):
        assert known in text
        assert "starting from the weights of a:b:latest, step 6" in text
    (start,) = [json.loads(line) for line in run.history_file.read_text(encoding="utf-8").splitlines()]
    path, results = str(initialized.previous_origin), run.path.parent
    assert start["initialized_from"] == {"run": "a:b", "path": path, "snapshot": "latest", "step": 6}
    listed = json.loads(cli("experiments", "list", "--json", "--results", results).out)
    assert listed["initialized_from"] == "a:b at step 6"
    assert f"{run.name} was initialized from a:b at step 6" in cli("experiments", "list", "--results", results).out


@pytest.mark.slow
def test_resuming_does_not_need_the_other_run(cli: Cli, initialized: Initialized, tmp_path: Path) -> None:
    """Even if it was killed before its first regular checkpoint."""
    complete, killed = initialized.run, Run(tmp_path / initialized.run.name)
    shutil.copytree(complete.path, killed.path)
    for path in (killed.checkpoint_path(1), killed.checkpoint_path(2), killed.best_path, killed.path / "end.json"):
        path.unlink()
    assert cli("train", "--resume", killed.path).status == 0
    assert arrays(killed.checkpoint_path(2)) == arrays(complete.checkpoint_path(2))


KEY = "decoder/attention/key is 16 × 16 in that run, but "
PROJECTION = "output/projection is 16 × 12 in that run, but "


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{config} --init-from {run}:0.5M", "has no snapshot '0.5M'; available: 10, 20, best, latest"),
        ("{config} --init-from {run}:", "has no snapshot ''; available: 10, 20, best, latest"),
        ("{config} --init-from nothing", "no run 'nothing': there are no runs in"),
        ("{config} --init-from nothing:best", "no run 'nothing': there are no runs in"),
        ("{config} --init-from=", "the name of the run is empty"),
        ("--init-from {run}", "specify a CONFIG to train"),
        ("--resume {run} --init-from {run}", "--init-from starts a new run; it cannot be used with --resume"),
        ("model.hidden_size=24", f"{KEY}24 × 24 in the new one. Set "),
        ("model.hidden_size=24", "Set model.hidden_size=16 as in that run; only the vocabulary may differ"),
        ("model.embedding_size=9", "decoder/layer0/input is 8 × 64 in that run, but 9 × 64 in the new one"),
        ("model.projection_size=10", f"{PROJECTION}16 × 10 in the new one"),
        ("model.projection_size=null", f"{PROJECTION}missing in the new one"),
        ("model.layers=2", "decoder/layer1/bias is missing in that run, but 64 in the new one"),
        ("model.bidirectional=true", "but 32 × 16 in the new one. Set model.bidirectional=false as"),
        ("model.cell=gru", 'Set model.cell="lstm" as in that run'),
        ("model.attention=none", f"{KEY}missing in the new one"),
        ("model.shared_embeddings=true", "which cannot both be kept; set it to false"),
    ],
)
def test_mistakes_and_other_architectures_are_refused(
    cli: Cli, tiny_config: Path, tiny_run: Path, tmp_path: Path, arguments: str, message: str
) -> None:
    if arguments.startswith("model."):
        arguments = f"{{config}} --set {arguments} --init-from {{run}}"
    results, written = tmp_path / "results", arguments.format(config=tiny_config, run=tiny_run).split()
    assert message in cli("train", *written, "--results", results).error_message
    assert not results.exists()


def test_damaged_files_are_refused(cli: Cli, tiny_config: Path, run_copy: Path, tmp_path: Path) -> None:
    weights = run_copy / "snapshots" / "10" / "weights.npz"
    weights.write_bytes(weights.read_bytes()[:-2000])
    result = cli("train", tiny_config, "--init-from", f"{run_copy}:10", "--results", tmp_path / "new")
    assert "weights.npz is damaged; restore the file from a backup, or choose another snapshot" in result.error_message
    assert not (tmp_path / "new").exists()
