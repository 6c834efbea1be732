"""This project's exported models: ONNX Runtime and the searches over arrays, in a process without TensorFlow."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from contenders.workload import Workload, decoding_config, model_config
from seq2seq_chat.engines.onnx.engine import OnnxEngine, OnnxModel


class Search:
    """Greedy search or beam search.

    Args:
        workload: Weights and sources.
        quantize: Value of the option --quantize of `export`.
    """

    def __init__(self, workload: Workload, quantize: str | None = None) -> None:
        self._workload = workload
        with TemporaryDirectory() as folder, ProcessPoolExecutor(1, get_context("spawn")) as other_process:
            exported = other_process.submit(export, workload, Path(folder), quantize).result()
            self._engine = OnnxEngine(OnnxModel.open(exported), model_config(workload.size))

    def search(self, first: int, count: int, width: int) -> list[float]:
        """Reply to sources of the workload; the scores of the best replies. Width 1 is greedy search."""
        hypotheses = self._engine.search(decoding_config(width))(*self._workload.sources(first, count))
        return [float(score) for score in hypotheses.scores[:, 0]]


def export(workload: Workload, folder: Path, quantize: str | None) -> Path:
    """Export the model of the workload; the folder of the exported model."""
    from contenders.ours import build_model
    from seq2seq_chat.config import Config, Data
    from seq2seq_chat.export.onnx import export_onnx
    from seq2seq_chat.model.variables import save_variables
    from seq2seq_chat.runs.run import create_run
    from seq2seq_chat.text.codec import Codecs
    from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary

    size = workload.size
    config = Config(name="benchmark", data=Data(train="none"), model=model_config(size))
    words = [f"word{number}" for number in range(size.vocabulary - len(SPECIAL_WORDS))]
    run = create_run(folder / "results", config, Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words])), {})
    save_variables(run.checkpoint_path(1), build_model(workload).trainable_variables, {"step": 1})
    export_onnx(run, folder / "exported", quantize=quantize)
    return folder / "exported"
