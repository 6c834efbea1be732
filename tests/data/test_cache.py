"""The cache of encoded corpora, and its array files: written piece by piece, and checked where they are read."""

import gzip
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.config import Data, ParallelFiles
from seq2seq_chat.data import cache, dataset, encoding
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.cache import CheckedArray, StoredArray
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.data.encoding import array_writer, id_dtype
from seq2seq_chat.system.errors import UserError
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


DAMAGE: dict[str, Callable[[Path], object]] = {
    "short": lambda array: os.truncate(array, array.stat().st_size - 1),
    "empty": lambda array: os.truncate(array, 0),
    "gone": Path.unlink,
    "of another length": lambda array: np.save(array, np.load(array)[1:]),
}
RECORDS = ("", "[]", "{}", '{"format": 1}', "\x00")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((f"{name}.npy", damage) for name in ("tokens", "offsets", "samples") for damage in DAMAGE.values()),
        *(("cache.json", lambda path, text=text: path.write_text(text)) for text in RECORDS),
        ("cache.json", Path.unlink),
    ],
)
def test_damaged_cache_is_rebuilt(
    corpus_file: Write, letters: Codecs, builds: list[Path], name: str, damage: Callable[[Path], object]
) -> None:
    path = corpus_file("a b c / d e f")
    Dataset.open(path, letters)
    (folder,) = caches(path)
    damage(folder / name)
    for _ in range(2):
        assert first_sample(Dataset.open(path, letters)) == [[4, 5, 6], [7, 8, 9]]
        assert len(builds) == 2
        assert caches(path) == [folder]


def test_concurrent_builds(corpus_file: Write, letters: Codecs) -> None:
    path = corpus_file(*["a b c / d e / f"] * 50)
    with ThreadPoolExecutor(8) as pool:
        samples = list(pool.map(lambda _: first_sample(Dataset.open(path, letters)), range(8)))
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
    corpus_file: Write, letters: Codecs, builds: list[Path], monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path = corpus_file("a / b")
    Path(f"{path}.cache").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{path}.cache")
    corpora = [Dataset.open(path, letters) for _ in range(2)]
    assert [first_sample(corpus) for corpus in corpora] == [[[4], [5]]] * 2
    assert len(builds) == 2
    assert not any(folder.parent.exists() for folder in builds)
    assert f"could not cache {path} in {path}.cache: Not a directory" in caplog.text
    assert "encoded at every start" in caplog.text


def test_a_folder_that_cannot_be_searched_is_an_error(letters: Codecs) -> None:
    with pytest.raises(CorpusError, match="File name too long"):
        Dataset.open(Path("x" * 300, "corpus.txt"), letters)


def test_a_compressed_corpus_that_is_cut_during_encoding_is_an_error(
    corpus_file: Write, letters: Codecs, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = corpus_file("a / b", name="corpus.txt.gz")
    path.write_bytes(gzip.compress(path.read_bytes()))
    is_compressed = encoding.is_compressed

    def cut(file: Path) -> bool:  # after the samples were read, before the file is copied
        file.write_bytes(file.read_bytes()[:-4])
        return is_compressed(file)

    monkeypatch.setattr(encoding, "is_compressed", cut)
    with pytest.raises(CorpusError, match="the compressed data are damaged"):
        Dataset.open(path, letters)
    assert not caches(path)


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
    corpus_file: Write, letters: Codecs, builds: list[Path], name: str, caplog: Any, monkeypatch: pytest.MonkeyPatch
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


def test_the_cache_of_parallel_files_follows_both(tmp_path: Path) -> None:
    one, other = (str(tmp_path / name) for name in ("lines.en", "lines.fr"))
    Path(one).write_text("a\nb\n")

    def samples(**files: str) -> list[tuple[str, str]]:
        settings = Data(train=ParallelFiles(**files), tokenizer="whitespace", shared_vocabulary=True)
        codecs = build_codecs(settings)
        corpus = Dataset.open(settings.train, codecs, settings)
        return [
            (codecs.source.decode(corpus.source_ids(n)), codecs.target.decode(corpus.target_ids(n))) for n in (0, 1)
        ]

    for text, expected in (("c\nd\n", [("a", "c"), ("b", "d")]), ("e\nd\n", [("a", "e"), ("b", "d")])):
        Path(other).write_text(text)
        assert samples(source=one, target=other) == expected
    assert samples(source=other, target=one) == [("e", "a"), ("d", "b")]
    for old, new in ((one, f"{one}.old"), (other, one), (f"{one}.old", other)):  # equal sums of sizes and times
        Path(old).rename(new)
    assert samples(source=one, target=other) == [("e", "a"), ("d", "b")]


def stored(array: np.ndarray, checksums: list[int] | None = None) -> StoredArray:
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "array.npy"), array)
        return StoredArray(Path(folder, "array.npy"), checksums)


def checked(array: np.ndarray, damaged: dict[int, int]) -> tuple[CheckedArray, list[Any]]:
    """An array with other values at some rows, and the calls of its repair."""
    repairs: list[Any] = []
    intact, other = stored(array), array.copy()
    for row, value in damaged.items():
        other[row] = value

    def repair(found: StoredArray) -> StoredArray:
        repairs.append(found)
        return intact

    return CheckedArray(stored(other, intact.checksums), repair), repairs


def indices(length: int) -> st.SearchStrategy[Any]:
    places = st.integers(-length, length - 1)
    bounds = st.none() | st.integers(-2 * length, 2 * length)
    return st.one_of(
        places,
        st.slices(length),
        st.builds(slice, bounds, bounds),
        st.lists(st.integers(0, length - 1)).map(lambda rows: np.array(rows, np.int64)),
        st.lists(st.booleans(), min_size=length, max_size=length).map(np.array),
    )


@given(st.sampled_from([(23,), (20, 3)]), st.sampled_from([16, 24, 64]), st.data())
def test_whatever_is_read_is_intact(shape: tuple[int, ...], part_bytes: int, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "_PART_BYTES", part_bytes)
        array = np.arange(np.prod(shape)).reshape(shape)
        wrong = dict.fromkeys(data.draw(st.lists(st.integers(0, shape[0] - 1), min_size=1, max_size=2)), -1)
        view, repairs = checked(array, wrong)
        for index in data.draw(st.lists(indices(shape[0]), max_size=4)):
            np.testing.assert_array_equal(view[index], array[index])
        assert len(repairs) <= 1
        assert len(view) == shape[0]
        np.testing.assert_array_equal(view[:], array)
        assert len(repairs) == 1


def test_the_last_row_is_compared_whichever_index_names_it() -> None:
    for index in (2, -1):
        view, repairs = checked(np.arange(3), {2: 9})
        assert view[index] == 2 and len(repairs) == 1


def test_empty_arrays_and_those_that_cannot_be_repaired() -> None:
    def refuse(damaged: StoredArray) -> StoredArray:
        raise UserError("the disk is broken")

    view = CheckedArray(stored(np.arange(3), [1]), refuse)
    with pytest.raises(UserError, match="the disk is broken"):
        view[0]
    view, _ = checked(np.zeros([0, 3], np.int64), {})
    assert (len(view), view[:].shape) == (0, (0, 3))
    with pytest.raises(IndexError):
        checked(np.arange(3), {})[0][np.array([3])]
    with pytest.raises(IndexError):
        checked(np.arange(3), {})[0][3]


def test_the_type_of_ids_holds_all_of_a_vocabulary() -> None:
    assert [id_dtype(size) for size in (4, 65_536, 65_537)] == ["H", "H", "i"]


@pytest.mark.parametrize(("code", "dtype"), [("H", "uint16"), ("i", "int32"), ("q", "int64")])
@pytest.mark.parametrize("count", [0, 1, 6, 1000])
def test_numpy_reads_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code, dtype: str, count: int) -> None:
    monkeypatch.setattr(encoding, "_BUFFER_ITEMS", 7)
    with array_writer(tmp_path / "a.npy", code) as flat, array_writer(tmp_path / "b.npy", code, columns=2) as rows:
        for number in range(count):
            flat.extend([number])
            rows.extend([number, 2 * number])
    assert (flat.rows, flat.items, rows.rows, rows.items) == (count, count, count, 2 * count)
    loaded = np.load(tmp_path / "a.npy")
    assert loaded.dtype == dtype
    np.testing.assert_array_equal(loaded, np.arange(count))
    loaded = np.load(tmp_path / "b.npy", mmap_mode="r")
    assert loaded.shape == (count, 2)
    np.testing.assert_array_equal(loaded[:, 1], 2 * np.arange(count))


def test_unfinished_file_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(KeyError), array_writer(tmp_path / "a.npy", "q") as writer:
        writer.extend(range(5))
        raise KeyError
    with pytest.raises(ValueError):
        np.load(tmp_path / "a.npy")
