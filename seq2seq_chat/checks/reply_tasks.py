"""What a model learns within minutes: an alignment, a few dozen samples, sequences to copy, and a text to recite.

As in an experiment: corpus files, batches, training step, and chatbot or generator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress, learner_of
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.corpus_file import bundled_conversations
from seq2seq_chat.data.running_text import Streams, encode_text, read_text
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers.tokenizer import CharacterTokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.learner import Learner

PROGRESS_EVERY, EVALUATE_EVERY = 10, 60  # steps
MAX_LOSS = 1.0  # nats per token; above it no reply can be correct, so the replies are not evaluated
REQUIRED_ACCURACY = 0.99  # of the replies, word for word

ALIGNMENT_STEPS, OVERFITTING_STEPS, COPY_STEPS, RECITING_STEPS = 600, 900, 3000, 1200  # of training, at most
ALIGNED_SYMBOLS = 40  # distinct within a sequence, so that each has one place
ALIGNED_LENGTHS = 10, 20  # shorter sequences fit into the state, and more attention is right by chance
ALIGNED_SEQUENCES, HELD_OUT_ALIGNED = 6000, 100
REQUIRED_SHARE = 0.8  # of the words; at most 0.3 by chance
DISTANCES = {"current": (0,), "previous": (-1, 0, 1)}
"""Distances from a symbol at which attention counts as right, by ``model.attention_query``.

The encoder's outputs at the neighbours of a symbol contain it too. A decoder that has not read the previous word yet
(previous) finds it there as easily.
"""

MEMORIZED_SAMPLES = 48
MEMORIZED_CHARACTERS, PROMPT_CHARACTERS = 300, 20

SYMBOLS = 20  # the integers 0 to 19
TRAINING_SEQUENCES, HELD_OUT_SEQUENCES = 10_000, 500
MAX_LENGTH, MAX_LENGTH_FAST = 40, 10
MAX_LENGTH_WITHOUT_ATTENTION = 5  # the sequence must fit into one small state

Pairs = Sequence[tuple[str, str]]


class ReplyTask(NamedTuple):
    """Utterances, each with its only correct reply."""

    name: str
    description: str  # of what the replies are to
    vocabulary: Vocabulary
    train_pairs: Pairs
    steps: int  # of encoder and decoder
    max_steps: int  # of training
    training: dict[str, Any]  # changes of the section ``training``, besides the optimizer
    units: int = 128  # of a cell, at most


def check_alignment(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A model learns to copy sequences, and each symbol of a reply attends most to the symbol that it copies.

    The chatbot replies to held-out sequences, with the attention that pictures show. Dropout and noise are off.
    """
    attention, query = context.config.model.attention, context.config.model.attention_query
    if attention == "none":
        required = f"≥ {100 * REQUIRED_SHARE:.0f} %"
        return CheckResult(True, "no attention to measure", required, "model.attention is none")
    rng, (shortest, longest) = np.random.default_rng(context.config.seed), ALIGNED_LENGTHS
    sequences = [
        " ".join(map(str, rng.permutation(ALIGNED_SYMBOLS)[: rng.integers(shortest, longest + 1)]))
        for _ in range(ALIGNED_SEQUENCES + HELD_OUT_ALIGNED)
    ]
    training, held_out = sequences[:ALIGNED_SEQUENCES], sequences[ALIGNED_SEQUENCES:]
    task = ReplyTask(
        "alignment",
        f"{HELD_OUT_ALIGNED} unseen sequences of {shortest} to {longest} different numbers",
        number_vocabulary(ALIGNED_SYMBOLS),
        list(zip(training, training, strict=True)),
        longest + 1,
        ALIGNMENT_STEPS,
        {"batch_size": 64, "learning_rate": 0.004, "sampled_softmax": None, "source_noise": 0.0},
        units=64,
    )
    return _check_task(
        context,
        task,
        lambda chatbot: aligned_share(chatbot, held_out, DISTANCES[query]),
        REQUIRED_SHARE,
        lambda share: f"{100 * share:.1f} % of the words attend most to what they copy",
        on_progress,
    )


def aligned_share(chatbot: Chatbot, sequences: Sequence[str], distances: Collection[int]) -> float:
    """The share of words whose copies attend most to a position at one of the ``distances`` from them."""
    aligned = 0
    for sequence, reply in zip(sequences, chatbot.replies(sequences, Decoding(method="greedy")), strict=True):
        rows = reply.hypotheses[0].attention[: len(sequence.split())]
        aligned += sum(int(np.argmax(weights)) - step in distances for step, weights in enumerate(rows))
    return aligned / sum(len(sequence.split()) for sequence in sequences)


def check_overfitting(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Greedy replies to the training utterances equal the training targets, word for word. Dropout is off.

    A language model memorizes a short text: from its beginning, the most probable tokens are the rest of it.
    """
    if context.config.task == "language_model":
        return _check_recitation(context, on_progress)
    pairs = short_pairs(context)
    if not pairs:
        reason = "no sample fits into the model's encoder and decoder steps"
        return CheckResult(False, "no sample", f"≥ {100 * REQUIRED_ACCURACY:.0f} %", reason)
    counts = Counter(word for pair in pairs for words in pair for word in words.split())
    source = context.config.data.train if context.data_error is None else "the bundled sample"
    task = ReplyTask(
        "overfitting",
        f"{len(pairs)} samples of {source}",
        Vocabulary.from_counts(counts, 10**6),
        pairs,
        max(len(words.split()) for pair in pairs for words in pair) + 1,
        OVERFITTING_STEPS,
        {"batch_size": 16, "learning_rate": 0.005},
    )
    return _check_replies(context, task, pairs, on_progress)


def short_pairs(context: CheckContext) -> list[tuple[str, str]]:
    """Real samples with different utterances that fit into the model's steps."""
    model = context.config.model
    pairs: dict[str, str] = {}
    for _, _, source, target in context.real_samples():
        if len(source) <= model.encoder_steps and len(target) < model.decoder_steps:
            pairs.setdefault(" ".join(source), " ".join(target))
        if len(pairs) == MEMORIZED_SAMPLES:
            break
    return list(pairs.items())


def check_copy_task(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A model trained on 10,000 sequences of numbers copies 500 held-out ones exactly (the thesis, section 4.3).

    Dropout is off.
    """
    max_length = MAX_LENGTH_FAST if context.fast else MAX_LENGTH
    if context.config.model.attention == "none":
        max_length = min(max_length, MAX_LENGTH_WITHOUT_ATTENTION)
    sequences, held_out = copy_corpus(max_length, context.config.seed)
    task = ReplyTask(
        "copy_task",
        f"unseen sequences of 1 to {max_length} numbers",
        number_vocabulary(),
        list(zip(sequences, sequences, strict=True)),
        max_length + 1,
        COPY_STEPS,
        # as in configs/copy_task.json: the vocabulary is small
        {"batch_size": 64, "learning_rate": 0.002, "sampled_softmax": None},
    )
    return _check_replies(context, task, list(zip(held_out, held_out, strict=True)), on_progress)


def copy_sequences(count: int, max_length: int, seed: int) -> list[str]:
    """Sequences of 1 to ``max_length`` symbols; lengths and symbols are uniformly distributed."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, max_length + 1, count)
    return [" ".join(map(str, rng.integers(0, SYMBOLS, length))) for length in lengths]


def copy_corpus(max_length: int, seed: int) -> tuple[list[str], list[str]]:
    """10,000 training sequences, and at most 500 held-out sequences that are not among them."""
    sequences = copy_sequences(2 * TRAINING_SEQUENCES, max_length, seed)
    training = sequences[:TRAINING_SEQUENCES]
    seen = set(training)
    held_out = [sequence for sequence in sequences[TRAINING_SEQUENCES:] if sequence not in seen]
    return training, held_out[:HELD_OUT_SEQUENCES]


def number_vocabulary(count: int = SYMBOLS) -> Vocabulary:
    """The numbers from 0, in numerical order."""
    return Vocabulary([*SPECIAL_WORDS, *map(str, range(count))])


def _check_recitation(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    text = "".join(islice(_characters(context), MEMORIZED_CHARACTERS))
    tokenizer = CharacterTokenizer()
    codec = TextCodec(tokenizer, Vocabulary([*SPECIAL_WORDS, *dict.fromkeys(tokenizer.encode(text))]))
    tokens = np.array(encode_text(text, codec))
    stream = {"batch_size": 1, "micro_batches": 1, "bptt_forward": 50, "bptt_backward": None, "state_reset": 0.0}
    config = context.learning_config(len(codec.vocabulary), steps=10, training=stream | {"learning_rate": 0.005})
    model = LanguageModel(config.model, len(codec.vocabulary), config.seed)
    loss = LanguageModelLoss(model, config.training)
    learner = Learner(model, Streams(tokens, 1, 50, 50), config.training, task_loss=loss, carried=loss.variables)
    generator = Generator(TensorFlowLanguageModel(model), codec)
    share, curve = _train(learner, lambda: _recited(generator, tokens), 1.0, RECITING_STEPS, on_progress)
    return CheckResult(
        passed=share == 1,
        measured=f"{share:.1%} of {len(tokens) - PROMPT_CHARACTERS} characters recited",
        required="100 %",
        detail=f"after {learner.step} steps, from the first {PROMPT_CHARACTERS} characters",
        curve=curve,
    )


def _characters(context: CheckContext) -> Iterator[str]:
    """The characters of the training text, or of the bundled conversations if it cannot be read."""
    try:
        yield from (character for piece in read_text(str(context.config.data.train)) for character in piece)
    except UserError:
        yield from bundled_conversations().read_text(encoding="utf-8")


def _recited(generator: Generator, tokens: np.ndarray) -> float:
    """The share of the text up to the first wrong token, written from its beginning."""
    greedy, rest = Decoding(method="sample", top_k=1), tokens[PROMPT_CHARACTERS:]
    blocks = generator.blocks([tokens[:PROMPT_CHARACTERS].tolist()], len(rest), greedy, [0])
    right = np.concatenate([block.ids for block in blocks], axis=1)[0] == rest
    return float(np.argmin(right) if not np.all(right) else len(right)) / len(right)


def _check_replies(context: CheckContext, task: ReplyTask, pairs: Pairs, on_progress: OnProgress) -> CheckResult:
    """Train until ``REQUIRED_ACCURACY`` of the replies to some pairs are correct, or for ``max_steps``."""
    total = len(pairs)
    return _check_task(
        context,
        task,
        lambda chatbot: correct_replies(chatbot, pairs) / total,
        REQUIRED_ACCURACY,
        lambda share: f"{round(share * total)} of {total} replies correct ({100 * share:.1f} %)",
        on_progress,
    )


def correct_replies(chatbot: Chatbot, pairs: Pairs) -> int:
    """The number of utterances whose greedy reply is correct, word for word."""
    replies = chatbot.replies([utterance for utterance, _ in pairs], Decoding(method="greedy"))
    return sum(reply.text == expected for reply, (_, expected) in zip(replies, pairs, strict=True))


def _check_task(
    context: CheckContext,
    task: ReplyTask,
    evaluate: Callable[[Chatbot], float],
    required: float,
    measured: Callable[[float], str],
    on_progress: OnProgress,
) -> CheckResult:
    """Train until ``evaluate`` returns the ``required`` share, or for ``max_steps``; ``measured`` tells a share."""
    config = context.learning_config(len(task.vocabulary), task.steps, task.training, task.units)
    codecs = Codecs.of_words(task.vocabulary)
    learner = learner_of(config, codecs, context.write_corpus(task.name, task.train_pairs, codecs))
    chatbot = Chatbot(TensorFlowEngine(learner.model), codecs, config)
    share, curve = _train(learner, lambda: evaluate(chatbot), required, task.max_steps, on_progress)
    return CheckResult(
        passed=share >= required,
        measured=measured(share),
        required=f"≥ {100 * required:.0f} %",
        detail=f"{task.description}; {learner.step} steps, loss {curve[-1][1]:.3f} nats per token",
        curve=curve,
    )


def _train(
    learner: Learner[Any], evaluate: Callable[[], float], required: float, max_steps: int, on_progress: OnProgress
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Train until ``evaluate`` returns the ``required`` share, or for ``max_steps``.

    Returns:
        The last share, and (step, loss in nats per token) at each evaluation.
    """
    share, nats, tokens = 0.0, 0.0, 0.0
    curve: list[tuple[int, float]] = []
    while learner.step < max_steps and share < required:
        loss = learner.train_step().loss
        nats, tokens = nats + float(loss.nats), tokens + float(loss.tokens)
        if learner.step % PROGRESS_EVERY == 0:
            on_progress(f"step {learner.step}, loss {nats / tokens:.3f}, {100 * share:.1f} % of {100 * required:.0f} %")
        if learner.step % EVALUATE_EVERY == 0:
            curve.append((learner.step, nats / tokens))
            if nats / tokens < MAX_LOSS or learner.step + EVALUATE_EVERY > max_steps:
                share = evaluate()
            nats = tokens = 0.0
    return share, tuple(curve)
