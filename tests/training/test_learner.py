"""Training samples in an order that is a different shuffle of each epoch, and graphs that are built ahead."""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq_chat.checks.check_context import CheckContext
from seq2seq_chat.checks.invariants import check_data
from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.data.batches import Batches
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.dataset import Dataset, open_training_corpus
from seq2seq_chat.training.learner import BatchSampler, GraphBuilder, ShuffledBatches
from tests.conftest import Cli
from tests.training.test_step import configuration, make_step, random_batch


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 2**31 - 1),
    epoch=st.integers(0, 3),
)
def test_every_epoch_sees_every_sample_once(sizes: list[int], batch_size: int, seed: int, epoch: int) -> None:
    sampler = BatchSampler(sizes, batch_size, seed)
    assert sampler.steps_per_epoch == sum(-(-size // batch_size) for size in sizes)
    seen: Counter[tuple[int, int]] = Counter()
    for step in range(epoch * sampler.steps_per_epoch, (epoch + 1) * sampler.steps_per_epoch):
        bucket, positions = sampler.batch(step)
        assert 1 <= len(positions) <= batch_size
        seen.update((bucket, int(position)) for position in positions)
    assert seen == Counter((bucket, position) for bucket, size in enumerate(sizes) for position in range(size))


def test_an_empty_corpus_is_rejected() -> None:
    with pytest.raises(ValueError, match="no samples"):
        BatchSampler([0], 64, seed=1)


def batch_of_one_step(
    sizes: list[int], batch_size: int, seed: int, start_step: int, step: int
) -> tuple[int, list[int]]:
    """The order by its definition, in the words of TensorFlow; runs of all versions depend on it.

    It needs no memory, whatever the size of the corpus.
    """
    counts = [-(-size // batch_size) for size in sizes]
    epoch, position = divmod(step - start_step, sum(counts))
    shuffle = 2 * epoch + (start_step << 32)

    def shuffled(position: int, size: int, shuffle: int) -> int:
        index, size, seeds = np.int64(position), np.int64(size - 1), np.array([seed, shuffle])
        return int(tf.random.experimental.index_shuffle(index, seeds, size))

    number, bucket = shuffled(position, sum(counts), shuffle), 0
    while number >= counts[bucket]:
        number, bucket = number - counts[bucket], bucket + 1
    positions = range(number * batch_size, min((number + 1) * batch_size, sizes[bucket]))
    return bucket, [shuffled(position, sizes[bucket], shuffle + 1) for position in positions]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40) | st.integers(0, 10**9), min_size=1, max_size=4).filter(any),
    batch_size=st.integers(1, 9),
    seed=st.integers(0, 2**31 - 1),
    start_step=st.just(0) | st.integers(0, 10**7),
    steps=st.lists(st.integers(0, 300) | st.integers(0, 10**7), min_size=1, max_size=5),
)
def test_the_order_is_that_of_one_step_at_a_time(
    sizes: list[int], batch_size: int, seed: int, start_step: int, steps: list[int]
) -> None:
    sampler = BatchSampler(sizes, batch_size, seed, start_step)
    for step in [*steps, steps[0] + 1, steps[0] + 64]:
        bucket, positions = sampler.batch(start_step + step)
        expected = batch_of_one_step(sizes, batch_size, seed, start_step, start_step + step)
        assert (bucket, positions.tolist()) == expected


KEPT = [("a b c d", "d c b"), ("a", "b"), ("c c", "a b c a")]
"""At most 4 tokens on either side."""
TOO_LONG = [("a b c d e", "a"), ("a", "a b c d a")]


def write(path: Path, pairs: list[tuple[str, str]]) -> str:
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def settings(train: str, max_length: int | None = 4, **data: Any) -> dict[str, Any]:
    sizes = {"hidden_size": 6, "embedding_size": 5, "projection_size": None, "encoder_steps": 4, "decoder_steps": 4}
    return {
        "name": "short",
        "task": "translation",
        "data": {"train": train, "tokenizer": "unicode", "max_length": max_length, **data},
        "model": sizes,
        "training": {"batch_size": 4, "steps": 6, "checkpoint_every": 3, "sampled_softmax": None, "log_every": 2},
    }


def open_corpus(config: Config) -> tuple[Dataset, list[str]]:
    messages: list[str] = []
    return open_training_corpus(config, build_codecs(config.data), messages.append), messages


def test_by_hand(tmp_path: Path) -> None:
    train = write(tmp_path / "train.tsv", [TOO_LONG[0], *KEPT[:2], TOO_LONG[1], KEPT[2]])
    config = parse_config(settings(train), "test")
    corpus, messages = open_corpus(config)
    assert [message.replace(train, "train.tsv") for message in messages] == [
        "left out 2 of 5 training samples (40.0 %) of more than 4 tokens"
    ]
    assert (corpus.source_lengths().tolist(), corpus.target_lengths().tolist()) == ([4, 1, 2], [3, 1, 4])
    words = build_codecs(config.data).source.words
    assert [" ".join(words(corpus.source_ids(i))) for i in range(len(corpus))] == [source for source, _ in KEPT]

    everything, messages = open_corpus(parse_config(settings(train, max_length=None), "test"))
    assert (len(everything), messages) == (5, [])
    assert everything.fingerprint != corpus.fingerprint

    measured = check_data(CheckContext(config, tmp_path), lambda text: None)
    assert "3 samples" in measured.detail


def test_another_batch_size_starts_another_order(tmp_path: Path) -> None:
    """At the step at which training is resumed, and it goes on when it is resumed again."""
    train = write(tmp_path / "train.tsv", [(f"a{number}", "b") for number in range(30)])
    corpus, _ = open_corpus(parse_config(settings(train), "test"))

    def batches(size: int) -> ShuffledBatches:
        return ShuffledBatches(Batches(corpus, [(4, 4)], size=size, reverse=False), size, seed=3)

    def sources(batches: ShuffledBatches, steps: range) -> list[list[int]]:
        return [batches.batch(step).source[:, 0].tolist() for step in steps]

    original, changed, resumed, new = batches(5), batches(7), batches(7), batches(7)
    assert original.resume_at(20, original.state)
    assert sources(original, range(20, 40)) == sources(batches(5), range(20, 40))
    assert not changed.resume_at(20, original.state)
    assert changed.state == {"batch_size": 7, "order_begun": 20}
    assert resumed.resume_at(33, changed.state)
    assert sources(changed, range(20, 40)) == sources(resumed, range(20, 40)) == sources(new, range(20))
    epoch = [word for batch in sources(changed, range(20, 25)) for word in batch if word]
    assert len(epoch) == len(set(epoch)) == 30


def test_nothing_to_leave_out_and_nothing_left(tmp_path: Path) -> None:
    corpus, messages = open_corpus(parse_config(settings(write(tmp_path / "train.tsv", KEPT)), "test"))
    assert (len(corpus), messages) == (3, [])
    train = write(tmp_path / "train.tsv", TOO_LONG)
    with pytest.raises(CorpusError, match=r"no samples left: all 2 have .* data\.max_length \(4 tokens\)"):
        open_corpus(parse_config(settings(train), "test"))


@pytest.mark.slow
def test_only_training_leaves_samples_out(cli: Cli, tmp_path: Path) -> None:
    """Validation keeps its long samples; the limit cannot change when training is resumed."""
    train = write(tmp_path / "train.tsv", [*KEPT, *TOO_LONG] * 4)
    (tmp_path / "config.json").write_text(json.dumps(settings(train, validation=train)), encoding="utf-8")
    result = cli("train", tmp_path / "config.json", "--results", tmp_path / "results")
    assert result.status == 0, result
    assert result.out.count("left out 8 of 20 training samples") == 1
    assert "12 training samples" in result.out and "20 validation samples" in result.out
    refused = cli("train", "--resume", result.out.splitlines()[-1], "--set", "data.max_length=5")
    assert "data.max_length (4 → 5)" in refused.error_message


BUCKETS = [(5, 4), (3, 2), (5, 4), (2, 2), (3, 2)]


def bucket_batch(step: int) -> Any:
    return random_batch(step, *BUCKETS[step])


class FakeStep:
    """Records which batches it builds graphs for; waits for permission before each."""

    def __init__(self) -> None:
        self.built: list[Any] = []
        self.started, self.may_build = threading.Event(), threading.Event()

    def build(self, batch: Sequence[Any]) -> None:
        self.started.set()
        assert self.may_build.wait(60)
        self.built.append(batch)


@pytest.mark.slow
def test_graphs_that_were_built_ahead_give_the_same_results() -> None:
    losses, built = [], []
    for ahead in (False, True):
        _, step = make_step(configuration())
        builder = GraphBuilder(step, bucket_batch)
        if ahead:
            builder.start(range(1, 5))
            builder.start(range(5, 10))  # has no effect
            builder._thread.join()  # type: ignore[union-attr]
        built.append(len(step._graphs))
        losses.append([float(step(bucket_batch(number), number).loss.nats) for number in range(5)])
        assert step.traces == len(step._graphs) == 3
    assert built == [0, 3]
    np.testing.assert_array_equal(*losses)


def test_a_request_to_stop_ends_it_after_the_current_graph() -> None:
    step: Any = FakeStep()
    builder = GraphBuilder(step, lambda number: [number])
    builder.start(range(3, 9))
    assert step.started.wait(60)
    stopping = threading.Thread(target=builder.stop)
    stopping.start()
    assert builder._stop_request.wait(60)
    step.may_build.set()
    stopping.join(60)
    assert step.built == [[3]]


def test_an_error_is_left_to_the_step_that_needs_the_batch(capfd: pytest.CaptureFixture[str]) -> None:
    step: Any = FakeStep()
    step.may_build.set()
    builder = GraphBuilder(step, [["first"]].__getitem__)
    builder.start(range(5))
    builder._thread.join()  # type: ignore[union-attr]
    assert step.built == [["first"]]
    assert capfd.readouterr().err == ""
