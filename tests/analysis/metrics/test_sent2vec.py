"""Sent2Vec: the official file and what the official program says of it; our own models, read as theirs; damage."""

from __future__ import annotations

import gzip
import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.analysis.distance import cosines
from seq2seq_chat.analysis.sent2vec import Sent2Vec, Sent2VecError, ngram_rows
from seq2seq_chat.analysis.sent2vec_training import Trained, train_sent2vec


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    """Two topics whose words never meet."""
    draw = random.Random(1)
    topics = (["sun", "rain", "snow", "wind", "cloud"], ["bread", "milk", "rice", "tea", "soup"])
    return [draw.sample(draw.choice(topics), 4) for _ in range(400)]


@pytest.fixture(scope="module")
def trained(sentences: list[list[str]]) -> Trained:
    return train_sent2vec(sentences, seed=3, dim=12, buckets=500, epochs=4)


@pytest.fixture
def saved(trained: Trained, tmp_path: Path) -> Path:
    trained.model.save(tmp_path / "model.bin", trained.counts, trained.output)
    return tmp_path / "model.bin"


def read_by_the_rules(path: Path, sentence: str) -> np.ndarray:
    """An embedding made straight from the bytes, without the reader."""
    data = path.read_bytes()
    numbers = struct.unpack_from("<2i12id", data)
    dim, longest, buckets = numbers[2], numbers[7], numbers[10]
    offset = 64
    size = struct.unpack_from("<i", data, offset)[0]
    offset += 28
    words = {}
    for number in range(size):
        end = data.index(b"\0", offset)
        words[data[offset:end].decode()] = number
        offset = end + 10
    offset += 17
    ids = [words[word] for word in sentence.split() if word in words]
    rows = list(ids)
    for i, first in enumerate(ids):
        h = first
        for j in range(i + 1, min(i + longest, len(ids))):
            h = (h * 116049371 + ids[j]) % 2**64
            rows.append(size + h % buckets)
    vectors = [struct.unpack_from(f"<{dim}f", data, offset + 4 * dim * row) for row in rows]
    return np.mean(vectors, axis=0) if rows else np.zeros(dim)


def test_the_official_model_gives_the_official_embeddings(tmp_path: Path) -> None:
    if "SEQ2SEQ_CHAT_DATA" not in os.environ:
        pytest.skip("SEQ2SEQ_CHAT_DATA does not name a folder with corpora")
    folder = Path(os.environ["SEQ2SEQ_CHAT_DATA"]) / "sent2vec"
    model = tmp_path / "official.bin"
    model.write_bytes(gzip.decompress((folder / "dailydialog_32d_bigrams.bin.gz").read_bytes()))
    text = gzip.decompress((folder / "reference_embeddings.tsv.gz").read_bytes()).decode()
    sentences, numbers = zip(*(line.split("\t") for line in text.splitlines()), strict=True)
    expected = np.array([[float(number) for number in row.split()] for row in numbers])
    assert expected.shape == (200, 32)
    np.testing.assert_allclose(Sent2Vec.load(model).embed(sentences), expected, rtol=0, atol=1e-6)


def test_hashes_by_hand() -> None:
    """Pairs and triples of 7, 2, 9 among 5 words: 7 · f + 2, (7 · f + 2) · f + 9 and 2 · f + 9, in 64 bits."""
    f = 116049371
    assert ngram_rows([7, 2, 9], 2, 5, 1000) == [5 + (7 * f + 2) % 1000, 5 + (2 * f + 9) % 1000]
    triple = ((7 * f + 2) * f + 9) % 2**64 % 1000
    assert ngram_rows([7, 2, 9], 3, 5, 1000) == [5 + (7 * f + 2) % 1000, 5 + triple, 5 + (2 * f + 9) % 1000]
    assert (3_000_000 * f * f + f) > 2**64 and ngram_rows([3_000_000, 1, 1], 3, 0, 97)[1] == (
        (((3_000_000 * f + 1) % 2**64) * f + 1) % 2**64 % 97
    )
    assert ngram_rows([7, 2], 2, 5, 0) == ngram_rows([], 2, 5, 10) == []


def test_what_is_written_is_read_as_the_format_says(saved: Path, trained: Trained) -> None:
    model = Sent2Vec.load(saved)
    for sentence in ("sun rain snow", "milk", "milk unknown tea", "nothing known", ""):
        (embedded,) = model.embed([sentence])
        np.testing.assert_allclose(embedded, read_by_the_rules(saved, sentence), atol=1e-7)
        np.testing.assert_array_equal(embedded, trained.model.embed([sentence])[0])
    assert not model.embed(["nothing known"]).any()
    assert model.embed(["milk"]).any()


def test_the_vectors_stay_on_disk(saved: Path) -> None:
    vectors = Sent2Vec.load(saved)._vectors
    assert not vectors.flags.owndata and not vectors.flags.writeable


def test_training_tells_topics_apart(trained: Trained) -> None:
    assert trained.losses[-1] < 0.8 * trained.losses[0]
    weather, snow, food = trained.model.embed(["sun wind", "snow cloud", "bread soup"]).astype(np.float64)
    alike, unlike = cosines(np.stack([weather, weather]), np.stack([snow, food]))
    assert alike > unlike + 0.2


def test_training_is_a_function_of_the_seed(trained: Trained, sentences: list[list[str]]) -> None:
    again = train_sent2vec(sentences, seed=3, dim=12, buckets=500, epochs=4)
    other = train_sent2vec(sentences, seed=4, dim=12, buckets=500, epochs=4)
    assert np.array_equal(again.model._vectors, trained.model._vectors)
    assert not np.array_equal(other.model._vectors, trained.model._vectors)


def test_gradients_are_those_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step's moves against differences of the loss, which is worked out word by word."""
    from seq2seq_chat.analysis import sent2vec_training as training

    moves: list[np.ndarray] = []

    def record(table: np.ndarray, squares: np.ndarray, rows: np.ndarray, gradients: np.ndarray, rate: float) -> None:
        whole = np.zeros(table.shape)
        whole[rows] = gradients
        moves.append(whole)

    monkeypatch.setattr(training, "_adagrad", record)
    monkeypatch.setattr(training, "DROPPED_BIGRAMS", 0)
    arguments = training.Arguments(dim=3, bucket=7, neg=2, t=1e9)  # every word is learned from
    sentence = [0, 2, 1, 2]

    def trainer() -> training._Trainer:
        made = training._Trainer(arguments, np.array([4.0, 3.0, 2.0]), seed=5)
        made.vectors += np.random.default_rng(1).normal(size=made.vectors.shape).astype(np.float32)
        made.output += np.random.default_rng(2).normal(size=made.output.shape).astype(np.float32)
        return made

    def loss(changed: training._Trainer) -> float:
        draws = np.random.default_rng(5)
        draws.uniform(-1, 1, (10, 3))  # the vectors
        draws.random(4)  # which words are learned from
        draws.random((1, 0))  # dropped pairs
        drawn = np.searchsorted(changed._negative_steps, draws.random((4, 2)))
        total = 0.0
        for place, word in enumerate(sentence):
            rows = [w for other, w in enumerate(sentence) if other != place]
            pairs = ngram_rows(sentence, 2, 3, 7)
            rows += [pair for first, pair in enumerate(pairs) if place not in (first, first + 1)]
            v = changed.vectors[rows].astype(np.float64).mean(axis=0)
            total += np.logaddexp(0, -changed.output[word] @ v)
            total += sum(np.logaddexp(0, changed.output[n] @ v) for n in drawn[place] if n != word)
        return float(total)

    model = trainer()
    nats, learned = model._learn([sentence], 1.0)
    assert learned == 4
    assert nats == pytest.approx(loss(trainer()), rel=1e-5)
    for table, move in zip(("vectors", "output"), moves, strict=True):
        for row, column in ((0, 0), (2, 1), (1, 2)):
            lower, upper = trainer(), trainer()
            getattr(lower, table)[row, column] -= 1e-2
            getattr(upper, table)[row, column] += 1e-2
            slope = (loss(upper) - loss(lower)) / 2e-2
            assert move[row, column] == pytest.approx(slope, rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("length", [0, 3, 7, 40, 70, 120, 2000])
def test_a_cut_file_is_told(saved: Path, length: int) -> None:
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(Sent2VecError, match=r"model\.bin"):
        Sent2Vec.load(saved)


def test_other_files_are_told_apart(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    cases = {
        "gunzip": gzip.compress(whole),
        "no binary Sent2Vec": b"hello, this is a text file\n",
        "version 99": whole[:4] + struct.pack("<i", 99) + whole[8:],
        "kind 5": whole[:36] + struct.pack("<i", 5) + whole[40:],
    }
    for message, content in cases.items():
        (tmp_path / "other.bin").write_bytes(content)
        with pytest.raises(Sent2VecError, match=message):
            Sent2Vec.load(tmp_path / "other.bin")
    with pytest.raises(Sent2VecError, match="cannot be read"):
        Sent2Vec.load(tmp_path / "nowhere.bin")


def test_nothing_to_learn_from() -> None:
    with pytest.raises(Sent2VecError, match="two words"):
        train_sent2vec([["alone"], []], seed=1)


def test_a_model_of_gigabytes_opens_at_once(saved: Path) -> None:
    """The file is 4 GB long, most of it a hole; the row of one bigram is filled."""
    import resource

    whole = bytearray(saved.read_bytes()[: 64 + 28])
    buckets, dim, rows = 10_000_000, 100, 2 + 10_000_000
    whole[8:12], whole[40:44] = struct.pack("<i", dim), struct.pack("<i", buckets)
    whole[64:72] = struct.pack("<2i", 2, 2)
    words = b"".join(word + b"\0" + struct.pack("<qb", 1, 0) for word in (b"good", b"bye"))
    header = bytes(whole) + words + struct.pack("<?2q", False, rows, dim)
    row = 2 + (0 * 116049371 + 1) % buckets
    with open(saved, "wb") as file:
        file.write(header)
        file.seek(len(header) + 4 * dim * row)
        file.write(struct.pack("<f", 6.0))
        file.truncate(len(header) + 4 * dim * rows)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (embedded,) = Sent2Vec.load(saved).embed(["good bye"])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes
    np.testing.assert_allclose(embedded, [2.0, *([0.0] * 99)])
