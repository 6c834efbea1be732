"""What a training tells: lines of metrics, replies, TensorBoard, the console."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import tensorflow as tf

from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.text import detokenize
from seq2seq_chat.corpus.vocabulary import EOS, Vocabulary
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import Run
from seq2seq_chat.training.console import Console, duration
from seq2seq_chat.training.metrics import JsonLines
from seq2seq_chat.training.validation import CorpusLoss, spread


class Reports:
    """Writes what happened to the run's files and shows it.

    Args:
        run: where the files are.
        console: what a person sees.
    """

    def __init__(self, run: Run, console: Console) -> None:
        self._console = console
        self._metrics, self._samples = JsonLines(run.metrics_file), JsonLines(run.samples_file)
        self._tensorboard = tf.summary.create_file_writer(str(run.tensorboard))

    def secure(self) -> dict[str, int]:
        """Have everything on the disk before a checkpoint says that it is told; the number of lines in each file."""
        return {"metrics": self._metrics.secure(), "samples": self._samples.secure()}

    def forget_after(self, step: Optional[int], expected: Mapping[str, int]) -> None:
        """Drop what was told of later steps: a resumed training tells it again. None forgets all.

        Lines that should be there by :meth:`secure` and are not are told.
        """
        for name, lines in (("metrics", self._metrics), ("samples", self._samples)):
            missing = expected.get(name, 0) - lines.forget_after(step)
            if missing > 0:
                self._console.say(
                    f"warning: {missing} of the lines that {name}.jsonl had are missing or damaged; "
                    "they do not come back, the training itself is whole"
                )

    def training(self, line: dict[str, Any]) -> None:
        """The means of a stretch of training, see :meth:`Meter.line`."""
        self._metrics.append(line)
        self._console.training_line(line)
        self._scalars(
            line["step"],
            {
                "train/loss": line["loss"],
                "train/perplexity": line["perplexity"],
                "train/gradient_norm": line["gradient_norm"],
                "train/target_tokens_per_second": line["tokens"] / max(line["seconds"], 1e-9),
            },
        )

    def validation(self, step: int, result: CorpusLoss, seconds: float, best: bool) -> None:
        """A validation."""
        figures = {"loss": result.loss, "perplexity": result.perplexity}
        rest = {"tokens": result.tokens, "seconds": round(seconds, 3)}
        self._metrics.append({"step": step, "kind": "validation", **figures, **rest})
        self._scalars(step, {f"validation/{name}": value for name, value in figures.items()})
        self._console.say(
            f"validation at step {step:,}: loss {result.loss:.3f} nats per token, perplexity "
            f"{result.perplexity:.1f} on {result.samples:,} samples in {duration(seconds)}"
            + (" (the best so far)" if best else "")
        )

    def reply(self, step: int, source: str, reply: str, target: str) -> None:
        """What the model answers at a step."""
        self._samples.append({"step": step, "source": source, "reply": reply, "target": target})
        self._console.say(f"  {source}\n    → {reply}")

    def _scalars(self, step: int, values: dict[str, float]) -> None:
        with self._tensorboard.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(name, value)


class ReplySamples:
    """Some utterances of a corpus, answered by the model as it is."""

    def __init__(self, model: Seq2Seq, config: Config, vocabulary: Vocabulary, corpus: Optional[EncodedCorpus]) -> None:
        self._corpus, self._vocabulary, self._level = corpus, vocabulary, config.data.level
        self._search = ReplySearch(model, Decoding(method="greedy", allow_unknown=config.decoding.allow_unknown))
        self._chosen = spread(len(corpus or []), config.training.sample_replies)
        if corpus is not None and len(self._chosen):
            self._batch = corpus.batch(
                self._chosen,
                size=len(self._chosen),
                source_steps=config.model.encoder_steps,
                target_steps=config.model.decoder_steps,
                reverse=config.data.reverse_input,
            )

    def report(self, step: int, reports: Reports) -> None:
        """Answer them all."""
        if self._corpus is None or not len(self._chosen):
            return
        found = self._search(self._batch.source, self._batch.source_length)
        for row, index in enumerate(self._chosen):
            source, target = self._corpus.source_ids(index), self._corpus.target_ids(index)
            reply = found.words[row, 0, : found.lengths[row, 0]]
            reports.reply(step, self._text(source), self._text(reply), self._text(target))

    def _text(self, ids: Any) -> str:
        return detokenize(self._vocabulary.tokens(int(i) for i in ids if i != EOS), self._level)
