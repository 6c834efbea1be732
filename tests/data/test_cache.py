import gzip
import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.config import Data
from seq2seq_chat.data import cache, dataset
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary

Write = Callable[..., Path]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders into which corpora were encoded."""
    folders: list[Path] = []
    encode = dataset.encode

    def counted(*arguments):
        folders.append(arguments[-1])
        return encode(*arguments)

    monkeypatch.setattr(dataset, "encode", counted)
    return folders


def first_sample(corpus: Dataset) -> list[list[int]]:
    return [corpus.source_ids(0).tolist(), corpus.target_ids(0).tolist()]


def caches(corpus: Path) -> list[Path]:
    return sorted(Path(f"{corpus}.cache").iterdir())


def test_built_once_beside_the_corpus(corpus_file: Write, letters: Codecs, builds: list[Path]) -> None:
    path = corpus_file("a / b")
    for _ in range(3):
        assert first_sample(Dataset.open(path, letters)) == [[4], [5]]
    assert len(builds) == 1
    (folder,) = caches(path)
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["cache.json", "hashes.npy", "lines.npy", "offsets.npy", "samples.npy", "tokens.npy"]
    record = json.loads((folder / "cache.json").read_text())
    assert record["corpus_size"] == path.stat().st_size
    assert record["corpus_mtime_ns"] == path.stat().st_mtime_ns
    lengths = {name: array["length"] for name, array in record["arrays"].items()}
    assert np.load(folder / "tokens.npy").dtype == np.uint16
    assert lengths == {"tokens": 2, "offsets": 3, "hashes": 2, "samples": 1, "lines": 2}


def test_change_of_vocabulary_or_settings_builds_another(
    corpus_file: Write, letters: Codecs, builds: list[Path]
) -> None:
    path = corpus_file("a / b / c")
    other = Vocabulary([*SPECIAL_WORDS, *"cab"])
    for _ in range(2):
        assert first_sample(Dataset.open(path, letters)) == [[4], [5]]
        assert first_sample(Dataset.open(path, Codecs.of_words(other))) == [[5], [6]]
        assert len(Dataset.open(path, letters, Data(train=str(path), pairing="alternating"))) == 1
        assert len(Dataset.open(path, letters, Data(train=str(path), swap_source_target=True))) == 2
        two_turns = Dataset.open(path, letters, Data(train=str(path), context_turns=2))
        assert two_turns.source_ids(1).tolist() == [4, UNKNOWN, 5]
        three_turns = Dataset.open(path, letters, Data(train=str(path), context_turns=3))
        assert three_turns.source_ids(1).tolist() == [4, UNKNOWN, 5]
    assert len(builds) == len(caches(path)) == 6


def test_change_of_the_corpus_rebuilds_and_deletes_the_old(
    corpus_file: Write, letters: Codecs, builds: list[Path]
) -> None:
    path = corpus_file("a / b")
    root = Path(f"{path}.cache")
    Dataset.open(path, letters)
    Dataset.open(path, letters, Data(train=str(path), pairing="alternating"))
    old = caches(path)
    (root / "notes").mkdir()
    (root / "notes" / "cache.json").write_text('{"format": "of others", "corpus_size": 1}')
    (root / "readme").write_text("not ours")

    corpus_file("c / d")  # of the same size
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert first_sample(Dataset.open(path, letters)) == [[6], [7]]
    assert len(builds) == 3
    assert not any(folder.exists() for folder in old)
    assert {"notes", "readme"} < {entry.name for entry in caches(path)}
    assert len(caches(path)) == 3


def test_caches_of_earlier_versions_of_the_program_are_deleted(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file("a / b")
    Dataset.open(path, letters)
    (folder,) = caches(path)
    old = folder.with_name("old")
    shutil.copytree(folder, old)
    record = json.loads((old / "cache.json").read_text())
    (old / "cache.json").write_text(json.dumps(record | {"version": record["version"] - 1}))
    shutil.rmtree(folder)
    Dataset.open(path, letters)
    assert caches(path) == [folder]


@pytest.mark.parametrize("name", ["tokens", "offsets", "samples"])
@pytest.mark.parametrize("damage", ["short", "empty", "gone", "other"])
def test_damaged_cache_is_rebuilt(
    corpus_file: Write, letters: Codecs, builds: list[Path], name: str, damage: str
) -> None:
    path = corpus_file("a b c / d e f")
    Dataset.open(path, letters)
    (folder,) = caches(path)
    array = folder / f"{name}.npy"
    if damage == "short":
        os.truncate(array, array.stat().st_size - 1)
    elif damage == "empty":
        os.truncate(array, 0)
    elif damage == "gone":
        array.unlink()
    else:  # a valid array of another length
        source = folder / ("offsets.npy" if name != "offsets" else "tokens.npy")
        array.write_bytes(source.read_bytes())
    assert first_sample(Dataset.open(path, letters)) == [[4, 5, 6], [7, 8, 9]]
    assert len(builds) == 2
    assert caches(path) == [folder]
    Dataset.open(path, letters)
    assert len(builds) == 2


@pytest.mark.parametrize("record", [None, "", "[]", "{}", '{"format": 1}', "\x00"])
def test_cache_without_its_record_is_incomplete(
    corpus_file: Write, letters: Codecs, builds: list[Path], record: str | None
) -> None:
    path = corpus_file("a / b")
    Dataset.open(path, letters)
    (folder,) = caches(path)
    if record is None:
        (folder / "cache.json").unlink()
    else:
        (folder / "cache.json").write_text(record)
    assert first_sample(Dataset.open(path, letters)) == [[4], [5]]
    assert len(builds) == 2


def test_concurrent_builds(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file(*["a b c / d e / f"] * 50)
    samples: list[list[list[int]]] = []

    def use() -> None:
        samples.append(first_sample(Dataset.open(path, letters)))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert samples == [[[4, 5, 6], [7, 8]]] * 8
    assert len(caches(path)) == 1


def test_user_cache_if_the_folder_is_not_writable(
    corpus_file: Write, letters: Codecs, builds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = corpus_file("a / b")
    Path(f"{path}.cache").write_text("in the way")
    for _ in range(2):
        assert first_sample(Dataset.open(path, letters)) == [[4], [5]]
    (folder,) = builds
    assert folder.parent.parent == Path(os.environ["XDG_CACHE_HOME"], "seq2seq-chat")
    assert folder.parent.name.startswith("corpus.txt-")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Dataset.open(path, letters)
    assert builds[1].parent.parent == tmp_path / "home" / ".cache" / "seq2seq-chat"


def test_temporary_folder_as_last_resort(
    corpus_file: Write,
    letters: Codecs,
    builds: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = corpus_file("a / b")
    Path(f"{path}.cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{path}.cache")
    corpora = [Dataset.open(path, letters) for _ in range(2)]
    assert [first_sample(corpus) for corpus in corpora] == [[[4], [5]]] * 2
    assert len(builds) == 2
    assert not any(folder.parent.exists() for folder in builds)
    assert "encoded at every start" in caplog.text


def test_change_of_the_corpus_during_encoding_is_an_error(
    corpus_file: Write, letters: Codecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = corpus_file("a / b")
    encode = dataset.encode

    def disturbed(*arguments):
        lengths = encode(*arguments)
        with path.open("a") as stream:
            stream.write("c\n")
        return lengths

    monkeypatch.setattr(dataset, "encode", disturbed)
    with pytest.raises(CorpusError, match="changed while it was being read"):
        Dataset.open(path, letters)
    assert not caches(path)


def test_leftovers_of_interrupted_builds_are_deleted_after_a_day(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file("a / b")
    root = Path(f"{path}.cache")
    for name, age in ((".x.1.tmp", 2 * cache._ABANDONED_SECONDS), (".x.2.tmp", 0.0)):
        (root / name).mkdir(parents=True)
        os.utime(root / name, (time.time() - age,) * 2)
    Dataset.open(path, letters)
    names = [entry.name for entry in caches(path) if entry.name.endswith(".tmp")]
    assert names == [".x.2.tmp"]


@pytest.mark.parametrize("name", ["tokens", "offsets", "samples", "lines", "hashes"])
def test_damage_inside_an_array_is_noticed_when_it_is_read_and_repaired_once(
    corpus_file: Write,
    letters: Codecs,
    builds: list[Path],
    name: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts that are not read are not compared; a repair of another reader of the same cache is used."""
    monkeypatch.setattr(cache, "_PART_BYTES", 64)
    path = corpus_file(*["a b / c d"] * 50)

    def everything(corpus: Dataset) -> list[list[object]]:
        last = len(corpus) - 1
        hashes = [array.tolist() for array in corpus.hashes(slice(last, None))]
        return [corpus.source_ids(last).tolist(), corpus.target_ids(last).tolist(), list(corpus.text(last)), hashes]

    expected = everything(Dataset.open(path, letters))
    (folder,) = caches(path)
    array = folder / f"{name}.npy"

    def damage() -> None:
        with array.open("r+b") as stream:
            stream.seek(-3, os.SEEK_END)
            stream.write(b"?")

    damage()
    corpus, other = Dataset.open(path, letters), Dataset.open(path, letters)
    first_sample(corpus)
    assert len(builds) == 1
    assert everything(corpus) == expected == everything(other) == everything(Dataset.open(path, letters))
    assert len(builds) == 2
    assert f"{folder} is damaged; encoding the corpus again" in caplog.text


def test_only_the_owner_can_read_a_cache(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file("a / b")
    path.write_bytes(gzip.compress(path.read_bytes()))
    Dataset.open(path, letters)
    (folder,) = caches(path)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert "text0.txt" in {file.name for file in folder.iterdir()}
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
    (folder / "text0.txt").unlink()
    assert Dataset.open(path, letters).text(0) == ("a", "b")


def test_a_damaged_copy_of_a_compressed_corpus_is_not_used(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file("a / b / c", name="corpus.txt.gz")
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert Dataset.open(path, letters).text(0).source == "a"
    (copy,) = Path(f"{path}.cache").rglob("*.txt")
    copy.write_bytes(copy.read_bytes().replace(b"a", b"e"))
    with pytest.raises(CorpusError, match=f"{copy} is damaged. Delete it and run the command again"):
        Dataset.open(path, letters).text(0)
    copy.unlink()
    assert Dataset.open(path, letters).text(0).source == "a"
