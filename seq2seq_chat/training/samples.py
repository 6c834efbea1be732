"""Training on samples: conversations and translations."""

from __future__ import annotations

from collections.abc import Callable

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import HypothesisReader
from seq2seq_chat.config import Config
from seq2seq_chat.data.corpus_file import explain_validation
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.model.micro_batches import micro_batch_count
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution.collective import Distribution
from seq2seq_chat.training.learner import Learner, build_learner
from seq2seq_chat.training.sampler import open_training_corpus, training_batches
from seq2seq_chat.training.validation import SampleValidator, Validator
from seq2seq_chat.training.workers import broadcast_setup


class SampleSetup:
    """What training on samples needs; see :class:`seq2seq_chat.training.assemble.TaskSetup`.

    Args:
        config: the experiment.
        codecs: of the run.
        on_progress: called with a sentence about samples that were left out.

    Raises:
        UserError: a corpus cannot be used.
    """

    def __init__(self, config: Config, codecs: Codecs, on_progress: Callable[[str], object]) -> None:
        self._config, self._codecs = config, codecs
        HypothesisReader(config, config.decoding, codecs)  # a bad lexicon is an error before training
        self.corpus = open_training_corpus(config, codecs, on_progress)
        validation = config.data.validation
        with explain_validation():
            self._validation_corpus = Dataset.open(validation, codecs, config.data) if validation else None
        self._batches = training_batches(config, codecs, self.corpus)

    def build_learner(self, distribution: Distribution) -> Learner[Seq2Seq]:
        """The model, and what trains it. Raises WorkerLost if a worker cannot take part."""
        broadcast_setup(distribution, self._config, self._codecs, self.corpus)
        self._learner = build_learner(self._config, self._codecs, self._batches, distribution)
        return self._learner

    def describe_data(self) -> str:
        """Numbers of samples, unknown words, and buckets."""
        corpus, validation, buckets = self.corpus, self._validation_corpus, self._batches.buckets
        validated = f"{len(validation):,} validation samples" if validation else "no validation samples"
        return (
            f"{len(corpus):,} training samples ({100 * corpus.unknown_share():.1f} % of their words are <unknown>), "
            f"{validated}; batches of {' or '.join(f'{source}+{target}' for source, target in buckets)} steps"
        )

    def build_validator(self) -> Validator | None:
        """What validates the model of the learner; None without a validation corpus."""
        config, codecs, corpus, model = self._config, self._codecs, self._validation_corpus, self._learner.model
        if corpus is None:
            return None
        bot = Chatbot(TensorFlowEngine(model), codecs, config)
        scorer = Scorer(model, micro_batch_count(config.model, config.training))
        return SampleValidator(scorer, bot, corpus, self._batches.buckets)
