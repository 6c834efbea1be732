"""This project's graphs in ONNX Runtime, as `chat` builds them from a run, in a process without TensorFlow."""

from __future__ import annotations

from contenders.workload import Workload, decoding_config, model_config
from seq2seq_chat.checkpoint.arrays import TrainedWeights
from seq2seq_chat.config import Config, Data
from seq2seq_chat.engines.onnx.engine import OnnxEngine, OnnxModel
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary


class Search:
    """Greedy search or beam search.

    Args:
        workload: Weights and sources.
        quantize: Value of the option --quantize of `chat`.
    """

    def __init__(self, workload: Workload, quantize: str | None = None) -> None:
        self._workload, size = workload, workload.size
        config = Config(name="benchmark", data=Data(train="none"), model=model_config(size))
        words = [f"word{number}" for number in range(size.vocabulary - len(SPECIAL_WORDS))]
        arrays = {name.split(":")[0]: array for name, array in workload.weights.items()}
        weights = TrainedWeights(arrays, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words])), 1, [])
        self._engine = OnnxEngine(OnnxModel.build(config, weights, quantize), config.model)

    def search(self, first: int, count: int, width: int) -> list[float]:
        """Reply to sources of the workload; the scores of the best replies. Width 1 is greedy search."""
        hypotheses = self._engine.search(decoding_config(width))(*self._workload.sources(first, count))
        return [float(score) for score in hypotheses.scores[:, 0]]
