from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from seq2seq_chat.corpus import (
    SPECIAL_WORDS,
    CorpusError,
    EncodedCorpus,
    Vocabulary,
    cache,
    encoded,
)

Write = Callable[..., Path]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders into which corpora were encoded."""
    folders: list[Path] = []
    encode = encoded.encode

    def counted(*arguments):
        folders.append(arguments[-1])
        return encode(*arguments)

    monkeypatch.setattr(encoded, "encode", counted)
    return folders


def first_sample(corpus: EncodedCorpus) -> list[list[int]]:
    return [corpus.source_ids(0).tolist(), corpus.target_ids(0).tolist()]


def caches(corpus: Path) -> list[Path]:
    return sorted(Path(f"{corpus}.cache").iterdir())


def test_built_once_beside_the_corpus(corpus_file: Write, letters: Vocabulary, builds: list[Path]) -> None:
    path = corpus_file("a / b")
    for _ in range(3):
        assert first_sample(EncodedCorpus.open(path, letters)) == [[4], [5]]
    assert len(builds) == 1
    (folder,) = caches(path)
    names = sorted(file.name for file in folder.iterdir())
    assert names == ["cache.json", "offsets.npy", "samples.npy", "tokens.npy"]
    record = json.loads((folder / "cache.json").read_text())
    assert record["corpus_size"] == path.stat().st_size
    assert record["corpus_mtime_ns"] == path.stat().st_mtime_ns
    assert record["lengths"] == {"tokens": 2, "offsets": 3, "samples": 1}


def test_a_change_of_vocabulary_or_setting_builds_another(
    corpus_file: Write, letters: Vocabulary, builds: list[Path]
) -> None:
    path = corpus_file("a / b / c")
    other = Vocabulary([*SPECIAL_WORDS, *"cab"])
    for _ in range(2):
        assert first_sample(EncodedCorpus.open(path, letters)) == [[4], [5]]
        assert first_sample(EncodedCorpus.open(path, other)) == [[5], [6]]
        assert len(EncodedCorpus.open(path, letters, pairing="alternating")) == 1
        assert len(EncodedCorpus.open(path, letters, level="character")) == 2
    assert len(builds) == len(caches(path)) == 4


def test_a_change_of_the_corpus_builds_anew_and_deletes_the_old(
    corpus_file: Write, letters: Vocabulary, builds: list[Path]
) -> None:
    path = corpus_file("a / b")
    root = Path(f"{path}.cache")
    EncodedCorpus.open(path, letters)
    EncodedCorpus.open(path, letters, pairing="alternating")
    old = caches(path)
    (root / "notes").mkdir()
    (root / "notes" / "cache.json").write_text('{"format": "of others", "corpus_size": 1}')
    (root / "readme").write_text("not ours")

    corpus_file("c / d")  # of the same size
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert first_sample(EncodedCorpus.open(path, letters)) == [[6], [7]]
    assert len(builds) == 3
    assert not any(folder.exists() for folder in old)
    assert {"notes", "readme"} < {entry.name for entry in caches(path)}
    assert len(caches(path)) == 3


@pytest.mark.parametrize("name", ["tokens", "offsets", "samples"])
@pytest.mark.parametrize("damage", ["short", "empty", "gone", "other"])
def test_a_damaged_cache_is_built_again(
    corpus_file: Write, letters: Vocabulary, builds: list[Path], name: str, damage: str
) -> None:
    path = corpus_file("a b c / d e f")
    EncodedCorpus.open(path, letters)
    (folder,) = caches(path)
    array = folder / f"{name}.npy"
    if damage == "short":
        os.truncate(array, array.stat().st_size - 1)
    elif damage == "empty":
        os.truncate(array, 0)
    elif damage == "gone":
        array.unlink()
    else:  # a sound array of another length
        source = folder / ("offsets.npy" if name != "offsets" else "tokens.npy")
        array.write_bytes(source.read_bytes())
    assert first_sample(EncodedCorpus.open(path, letters)) == [[4, 5, 6], [7, 8, 9]]
    assert len(builds) == 2
    assert caches(path) == [folder]
    EncodedCorpus.open(path, letters)
    assert len(builds) == 2


@pytest.mark.parametrize("record", [None, "", "[]", "{}", '{"format": 1}', "\x00"])
def test_without_its_record_a_cache_is_incomplete(
    corpus_file: Write, letters: Vocabulary, builds: list[Path], record: str | None
) -> None:
    path = corpus_file("a / b")
    EncodedCorpus.open(path, letters)
    (folder,) = caches(path)
    if record is None:
        (folder / "cache.json").unlink()
    else:
        (folder / "cache.json").write_text(record)
    assert first_sample(EncodedCorpus.open(path, letters)) == [[4], [5]]
    assert len(builds) == 2


def test_the_other_process_was_faster(corpus_file: Write, letters: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    path = corpus_file("a / b")
    encode = encoded.encode
    theirs: list[int] = []

    def slow(*arguments):
        lengths = encode(*arguments)
        if not theirs:
            theirs.append(0)
            EncodedCorpus.open(path, letters)
            (folder,) = (entry for entry in caches(path) if "building" not in entry.name)
            theirs[0] = folder.stat().st_ino
        return lengths

    monkeypatch.setattr(encoded, "encode", slow)
    assert first_sample(EncodedCorpus.open(path, letters)) == [[4], [5]]
    (folder,) = caches(path)
    assert folder.stat().st_ino == theirs[0]


def test_many_at_once(corpus_file: Write, letters: Vocabulary) -> None:
    path = corpus_file(*["a b c / d e / f"] * 50)
    found: list[list[list[int]]] = []

    def use() -> None:
        found.append(first_sample(EncodedCorpus.open(path, letters)))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[4, 5, 6], [7, 8]]] * 8
    assert len(caches(path)) == 1


def test_user_cache_when_there_is_no_place_beside(corpus_file: Write, letters: Vocabulary, builds: list[Path]) -> None:
    path = corpus_file("a / b")
    Path(f"{path}.cache").write_text("in the way")
    for _ in range(2):
        assert first_sample(EncodedCorpus.open(path, letters)) == [[4], [5]]
    (folder,) = builds
    user = Path(os.environ["XDG_CACHE_HOME"], "seq2seq-chat")
    assert folder.parent.parent == user
    assert folder.parent.name.startswith("corpus.txt-")


def test_home_cache_without_the_variable(
    corpus_file: Write,
    letters: Vocabulary,
    builds: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = corpus_file("a / b")
    Path(f"{path}.cache").write_text("in the way")
    EncodedCorpus.open(path, letters)
    assert builds[0].parent.parent == tmp_path / "home" / ".cache" / "seq2seq-chat"


def test_temporary_folder_as_the_last_resort(
    corpus_file: Write,
    letters: Vocabulary,
    builds: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = corpus_file("a / b")
    Path(f"{path}.cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{path}.cache")
    corpora = [EncodedCorpus.open(path, letters) for _ in range(2)]
    assert [first_sample(corpus) for corpus in corpora] == [[[4], [5]]] * 2
    assert len(builds) == 2
    assert not any(folder.parent.exists() for folder in builds)
    assert "encoded at every start" in caplog.text


def test_a_corpus_that_changes_while_it_is_read(
    corpus_file: Write, letters: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = corpus_file("a / b")
    encode = encoded.encode

    def disturbed(*arguments):
        lengths = encode(*arguments)
        with path.open("a") as stream:
            stream.write("c\n")
        return lengths

    monkeypatch.setattr(encoded, "encode", disturbed)
    with pytest.raises(CorpusError, match="changed while it was read"):
        EncodedCorpus.open(path, letters)
    assert not caches(path)


def test_leavings_of_an_interrupted_build_go_after_a_day(corpus_file: Write, letters: Vocabulary) -> None:
    path = corpus_file("a / b")
    root = Path(f"{path}.cache")
    for name, age in (("x.building-1", 2 * cache._ABANDONED_SECONDS), ("x.building-2", 0.0)):
        (root / name).mkdir(parents=True)
        os.utime(root / name, (time.time() - age,) * 2)
    EncodedCorpus.open(path, letters)
    names = [entry.name for entry in caches(path) if "building" in entry.name]
    assert names == ["x.building-2"]


def test_a_failed_build_leaves_nothing(corpus_file: Write, letters: Vocabulary) -> None:
    path = corpus_file("a")
    with pytest.raises(CorpusError):
        EncodedCorpus.open(path, letters)
    assert caches(path) == []
