"""Sent2Vec: embeddings of the official model, training and writing our own, damaged files, and distances."""

import gzip
import math
import os
import random
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from seq2seq_chat.config import parse_config
from seq2seq_chat.metrics import sentence_vectors as training
from seq2seq_chat.metrics.sent2vec import Arguments, Sent2Vec, Sent2VecError, concatenate, ngram_rows
from seq2seq_chat.metrics.sentence_vectors import (
    SentenceDistances,
    TrainedSent2Vec,
    paired_cosine_similarity,
    train_sent2vec,
)
from seq2seq_chat.runs.run import create_run
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from tests.random_runs import make_codec


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    """Two topics without common words."""
    rng = random.Random(1)
    topics = (["sun", "rain", "snow", "wind", "cloud"], ["bread", "milk", "rice", "tea", "soup"])
    return [rng.sample(rng.choice(topics), 4) for _ in range(400)]


@pytest.fixture(scope="module")
def trained(sentences: list[list[str]]) -> TrainedSent2Vec:
    return train_sent2vec(sentences, seed=3, dim=12, buckets=500, epochs=4)


@pytest.fixture
def saved(trained: TrainedSent2Vec, tmp_path: Path) -> Path:
    trained.model.save(tmp_path / "model.bin", trained.counts, trained.output)
    return tmp_path / "model.bin"


def embed_from_bytes(path: Path, sentence: str) -> np.ndarray:
    """Compute an embedding from the bytes of the file, without our reader."""
    data = path.read_bytes()
    numbers = struct.unpack_from("<2i12id", data)
    dim, max_order, buckets = numbers[2], numbers[7], numbers[10]
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
        for j in range(i + 1, min(i + max_order, len(ids))):
            h = (h * 116049371 + ids[j]) % 2**64
            rows.append(size + h % buckets)
    vectors = [struct.unpack_from(f"<{dim}f", data, offset + 4 * dim * row) for row in rows]
    return np.mean(vectors, axis=0) if rows else np.zeros(dim)


def test_embeddings_of_the_official_model(tmp_path: Path) -> None:
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


def rows_of(ids: list[int], arguments: Arguments, words: int) -> list[list[int]]:
    """The rows of the n-grams of one sentence, a list for each n."""
    every = np.array(ids, np.int64), np.zeros(len(ids), np.int64)
    return [rows.tolist() for rows, inside in ngram_rows(*every, arguments, words) if inside.all()]


def test_hashes_by_hand() -> None:
    """Bigrams and trigrams of 7, 2, 9 among 5 words: 7 · f + 2, (7 · f + 2) · f + 9 and 2 · f + 9, in 64 bits."""
    f = 116049371
    trigrams, large = Arguments(1, word_ngrams=3, bucket=1000), Arguments(1, word_ngrams=3, bucket=97)
    bigrams = [5 + (7 * f + 2) % 1000, 5 + (2 * f + 9) % 1000]
    assert rows_of([7, 2, 9], Arguments(1, bucket=1000), 5) == [bigrams]
    assert rows_of([7, 2, 9], trigrams, 5) == [bigrams, [5 + ((7 * f + 2) * f + 9) % 2**64 % 1000]]
    assert 3_000_000 * f * f + f > 2**64
    assert rows_of([3_000_000, 1, 1], large, 0)[1] == [(3_000_000 * f * f + f + 1) % 2**64 % 97]
    assert rows_of([7, 2], Arguments(1, bucket=0), 5) == [] and rows_of([], Arguments(1, bucket=10), 5) == [[]]


def test_ngrams_do_not_cross_sentences() -> None:
    ids, sentence_of = concatenate([[1, 2], [], [3, 4, 5]])
    assert ids.tolist() == [1, 2, 3, 4, 5] and sentence_of.tolist() == [0, 0, 2, 2, 2]
    inside = [within.tolist() for _, within in ngram_rows(ids, sentence_of, Arguments(1, word_ngrams=3), 6)]
    assert inside == [[True, False, True, True], [False, False, True]]


def test_written_model_follows_the_format(saved: Path, trained: TrainedSent2Vec) -> None:
    """Also in what our reader skips: the arguments, and the number and kind of each word."""
    content, model = saved.read_bytes(), Sent2Vec.load(saved)
    assert struct.unpack_from("<14id3i2q", content) == (
        *(793712314, 12, 12, 5, 4, 1, 10, 2, 2, 4, 500, 0, 0, 100, 1e-4),
        *(10, 10, 0, sum(trained.counts), -1),
    )
    for word, count in zip(model.words, trained.counts, strict=True):
        assert word.encode() + b"\0" + struct.pack("<qb", count, 0) in content
    for sentence in ("sun rain snow", "milk", "milk unknown tea", "nothing known", ""):
        (embedded,) = model.embed([sentence])
        np.testing.assert_allclose(embedded, embed_from_bytes(saved, sentence), atol=1e-7)
        np.testing.assert_array_equal(embedded, trained.model.embed([sentence])[0])
    assert not model.embed(["nothing known"]).any()
    assert model.embed(["milk"]).any()


def test_a_model_without_ngrams(tmp_path: Path) -> None:
    model = Sent2Vec(Arguments(1, word_ngrams=1, bucket=0), {"a": 0, "b": 1}, np.array([[2.0], [4.0]], np.float32))
    model.save(tmp_path / "model.bin", [1, 1], np.zeros([2, 1], np.float32))
    assert Sent2Vec.load(tmp_path / "model.bin").embed(["a b", "b"]).tolist() == [[3], [4]]


def test_the_vectors_stay_on_disk(saved: Path) -> None:
    vectors = Sent2Vec.load(saved)._vectors
    assert not vectors.flags.owndata and not vectors.flags.writeable


def test_training_separates_topics(trained: TrainedSent2Vec) -> None:
    assert trained.losses[-1] < 0.8 * trained.losses[0]
    weather, snow, food = trained.model.embed(["sun wind", "snow cloud", "bread soup"]).astype(np.float64)
    same_topic, other_topic = paired_cosine_similarity(np.stack([weather, weather]), np.stack([snow, food]))
    assert same_topic > other_topic + 0.2


def test_training_is_deterministic(trained: TrainedSent2Vec, sentences: list[list[str]]) -> None:
    again = train_sent2vec(sentences, seed=3, dim=12, buckets=500, epochs=4)
    other = train_sent2vec(sentences, seed=4, dim=12, buckets=500, epochs=4)
    assert np.array_equal(again.model._vectors, trained.model._vectors)
    assert not np.array_equal(other.model._vectors, trained.model._vectors)


def test_gradients_match_finite_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradients of a step against differences of the loss, computed word by word."""
    recorded: list[np.ndarray] = []

    def record(table: np.ndarray, squares: np.ndarray, rows: np.ndarray, gradients: np.ndarray, rate: float) -> None:
        dense = np.zeros(table.shape)
        dense[rows] = gradients
        recorded.append(dense)

    monkeypatch.setattr(training, "_adagrad", record)
    monkeypatch.setattr(training, "DROPPED_BIGRAMS", 0)
    arguments = training.Arguments(dim=3, bucket=7, neg=2, t=1e9)  # no subsampling
    sentence = [0, 2, 1, 2]

    def trainer() -> training._Trainer:
        result = training._Trainer(arguments, np.array([4.0, 3.0, 2.0]), seed=5)
        result.vectors += np.random.default_rng(1).normal(size=result.vectors.shape).astype(np.float32)
        result.output += np.random.default_rng(2).normal(size=result.output.shape).astype(np.float32)
        return result

    def loss(changed: training._Trainer) -> float:
        rng = np.random.default_rng(5)
        rng.uniform(-1, 1, (10, 3))  # initial vectors
        rng.random(4)  # subsampling
        rng.random((1, 0))  # dropped bigrams
        negatives = np.searchsorted(changed._negative_cdf, rng.random((4, 2)))
        total = 0.0
        for position, word in enumerate(sentence):
            rows = [w for other, w in enumerate(sentence) if other != position]
            (bigrams,) = rows_of(sentence, arguments, 3)
            rows += [bigram for first, bigram in enumerate(bigrams) if position not in (first, first + 1)]
            v = changed.vectors[rows].astype(np.float64).mean(axis=0)
            total += np.logaddexp(0, -changed.output[word] @ v)
            total += sum(np.logaddexp(0, changed.output[n] @ v) for n in negatives[position] if n != word)
        return float(total)

    model = trainer()
    corpus = training._Corpus.of_sentences([sentence], arguments, 3)
    nats, targets = model._train_step(corpus, 1.0)
    assert targets == 4
    assert nats == pytest.approx(loss(trainer()), rel=1e-5)
    for table, gradient in zip(("vectors", "output"), recorded, strict=True):
        for row, column in ((0, 0), (2, 1), (1, 2)):
            lower, upper = trainer(), trainer()
            getattr(lower, table)[row, column] -= 1e-2
            getattr(upper, table)[row, column] += 1e-2
            slope = (loss(upper) - loss(lower)) / 2e-2
            assert gradient[row, column] == pytest.approx(slope, rel=1e-2, abs=1e-4)


def test_one_or_two_bigrams_of_each_sentence_are_dropped() -> None:
    """Any of them, and never a word."""
    arguments, sentences = Arguments(dim=1, bucket=1000), [list(range(6)), list(range(6, 10))]
    corpus = training._Corpus.of_sentences(sentences, arguments, 10)
    bigrams = [set(rows_of(sentence, arguments, 10)[0]) for sentence in sentences]
    seen: list[set[int]] = [set(), set()]
    for seed in range(40):
        _, rows, _ = training._Trainer(arguments, np.ones(10), seed)._contexts(corpus, np.arange(10))
        assert set(range(10)) <= set(rows.tolist())
        for every, dropped in zip(bigrams, seen, strict=True):
            missing = every - set(rows.tolist())
            assert 1 <= len(missing) <= 2
            dropped.update(missing)
    assert seen == bigrams


def test_frequent_words_are_subsampled_and_the_rate_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word of share f is a target with probability √(t / f) + t / f; the rate falls in a line over all epochs."""
    trainer = training._Trainer(Arguments(dim=2, bucket=3, t=0.1), np.array([6.0, 3.0, 1.0]), seed=1)
    np.testing.assert_allclose(trainer._keep, [(0.1 / f) ** 0.5 + 0.1 / f for f in (0.6, 0.3, 0.1)])
    rates: list[float] = []
    monkeypatch.setattr(training, "_adagrad", lambda *arguments: rates.append(arguments[-1]))
    train_sent2vec([[f"{n}a", f"{n}b", f"{n}c"] for n in range(192)], seed=1, dim=2, epochs=2, buckets=3)
    expected = [training.LEARNING_RATE * (1 - batch / 6) for batch in range(6)]  # three batches of 64 in each epoch
    np.testing.assert_allclose(rates, np.repeat(expected, 2))  # of the vectors and of the output


@pytest.mark.parametrize(("small", "words"), [(100, "abc"), (10, "ab")])
def test_rare_words_of_a_large_corpus_have_no_vectors(small: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that occur less than five times; the most frequent word is the first."""
    monkeypatch.setattr(training, "SMALL_CORPUS", small)
    sentences = [["b", "a"]] * 5 + [["c", "b"]] * 4
    model = train_sent2vec(sentences, seed=1, dim=2, epochs=1, buckets=3).model
    assert sorted(model.words) == list(words) and next(iter(model.words)) == "b"


@pytest.mark.parametrize("length", [0, 3, 7, 40, 70, 120, 2000])
def test_truncated_file(saved: Path, length: int) -> None:
    saved.write_bytes(saved.read_bytes()[:length])
    with pytest.raises(Sent2VecError, match=r"model\.bin"):
        Sent2Vec.load(saved)


def test_unsupported_files(saved: Path, tmp_path: Path) -> None:
    content = saved.read_bytes()
    cases = {
        "gunzip": gzip.compress(content),
        "not a binary Sent2Vec": b"hello, this is a text file\n",
        "version 99": content[:4] + struct.pack("<i", 99) + content[8:],
        "kind 5": content[:36] + struct.pack("<i", 5) + content[40:],
        "truncated or damaged": content[:40] + struct.pack("<i", 10**6) + content[44:],  # more n-grams than vectors
    }
    for message, damaged in cases.items():
        (tmp_path / "other.bin").write_bytes(damaged)
        with pytest.raises(Sent2VecError, match=message):
            Sent2Vec.load(tmp_path / "other.bin")
    with pytest.raises(Sent2VecError, match="could not read"):
        Sent2Vec.load(tmp_path / "nowhere.bin")


def test_corpus_without_sentences() -> None:
    with pytest.raises(Sent2VecError, match="two or more words"):
        train_sent2vec([["alone"], []], seed=1)


def test_vectors_are_trained_on_the_known_words_of_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of evenly spaced ones, if there are many."""
    trained: list[list[list[str]]] = []

    def train(utterances: Iterable[list[str]], seed: int) -> None:
        trained.append(list(utterances))
        raise Sent2VecError("enough")

    monkeypatch.setattr(training, "train_sent2vec", train)
    (tmp_path / "train.txt").write_text("a b\nb x a\nc\nx\n", encoding="utf-8")
    config = parse_config({"name": "new", "data": {"train": str(tmp_path / "train.txt")}}, "x")
    run = create_run(tmp_path, config, Codecs.shared(make_codec("english", "abc")), {})
    for limit in (9, 2):
        monkeypatch.setattr(training, "MAX_UTTERANCES", limit)
        with pytest.raises(UserError, match="enough"):
            training.load_sentence_vectors(run, tmp_path)
    assert trained == [[["b", "a"], ["c"], []], [["b", "a"], ["c"]]]


def toy_vectors() -> Sent2Vec:
    """a = (1, 0), b = (0, 1), the bigram a b = (2, 2), all other bigrams (0, 0)."""
    vectors = np.zeros((2 + 50, 2), np.float32)
    vectors[:2] = [[1, 0], [0, 1]]
    vectors[2 + (0 * 116049371 + 1) % 50] = [2, 2]
    return Sent2Vec(Arguments(dim=2, bucket=50), {"a": 0, "b": 1}, vectors)


def test_distance_by_hand() -> None:
    """a is (1, 0) and a b is ((1, 0) + (0, 1) + (2, 2)) / 3 = (1, 1): distance 1, angle 45°."""
    blocks = [(["a"], ["a b"]), (["a", ""], ["b", "a"])]  # then distances √2 (angle 90°) and 1 (zero vector, no angle)
    distances = SentenceDistances.of_blocks(toy_vectors(), blocks)
    assert distances.euclidean == pytest.approx([1, math.sqrt(2), 1])
    assert distances.cosine == pytest.approx([math.sqrt(0.5), 0, 0], abs=1e-12)
    assert distances.means() == pytest.approx(((2 + math.sqrt(2)) / 3, math.sqrt(0.5) / 3))
    assert distances.select(np.array([True, False, False])).means() == pytest.approx((1, math.sqrt(0.5)))
    assert distances.select(np.zeros(3, bool)).means() == (None, None)
