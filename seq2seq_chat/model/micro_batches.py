"""A batch in parts that are computed side by side.

The products of one step of a small model are over in tens of microseconds, and what lies between them sooner: to divide
each among the cores costs more than it gains. So the batch is divided: each core takes some rows through the whole
network, and none waits for another until the gradients are put together, which are products over the rows of all parts.
A large model is better off with all cores at one product, whose weights then pass through the caches once.

Several devices share a batch row by row, each a slice of the same length. Where a slice ends within a part, the device
draws what is random for the whole part and keeps its rows of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.encoded import Batch
from seq2seq_chat.environment import available_cores
from seq2seq_chat.model.draws import SomeRows
from seq2seq_chat.model.dropout import Dropout
from seq2seq_chat.model.own_words import OwnWords
from seq2seq_chat.model.seq2seq import Loss, Seq2Seq


class Share(NamedTuple):
    """The slice of every batch that a device computes."""

    device: int = 0
    devices: int = 1


WHOLE = Share()


class Piece(NamedTuple):
    """Rows of a batch that are computed together on one device."""

    part: int  # whose draws they take
    rows: Optional[SomeRows]  # of the part; None for all of it
    length: int


LEAST_ROWS = 16  # of a part: fewer make products that are no faster than those of more
WIDEST = 1024  # units of a hidden layer above which a product of a batch keeps all cores busy


def batch_parts(config: Config) -> int:
    """Into how many parts a batch is divided: as configured, or what suits model and machine."""
    if config.training.batch_parts is not None:
        return config.training.batch_parts
    if config.model.unrolling == "dynamic":  # its loop is one
        return 1
    if config.model.hidden_size > WIDEST or tf.config.list_physical_devices("GPU"):
        return 1
    return max(1, min(available_cores(), config.training.batch_size // LEAST_ROWS))


def share_cores(parts: int) -> None:
    """Give each part its own cores. This has to come before TensorFlow's first operation, and else changes nothing."""
    if parts == 1:
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(max(1, available_cores() // parts))
        tf.config.threading.set_inter_op_parallelism_threads(parts)
    except RuntimeError:  # TensorFlow has started its threads: the results are the same, the speed is not
        pass


def loss_in_parts(
    model: Seq2Seq,
    batch: Batch,
    parts: int,
    dropout: Optional[Dropout] = None,
    own_words: Optional[OwnWords] = None,
    share: Share = WHOLE,
    **arguments: Any,
) -> Loss:
    """The loss of a device's share of a batch, part by part; the arguments are those of :meth:`Seq2Seq.loss`."""
    here = list(pieces(batch.source.shape[0], parts, share))
    rows = [piece.length for piece in here]
    first = share.device * sum(rows)
    tensors = [tf.split(tensor[first : first + sum(rows)], rows) for tensor in batch]
    losses = [
        model.loss(
            *some,
            dropout=dropout and dropout.of_part(piece.part, piece.rows),
            own_words=own_words and own_words.of_part(piece.part, piece.rows),
            **arguments,
        )
        for piece, *some in zip(here, *tensors, strict=True)
    ]
    return Loss(*(tf.add_n(sums) for sums in zip(*losses, strict=True)))


def pieces(rows: int, parts: int, share: Share = WHOLE) -> Iterator[Piece]:
    """What a device computes of a batch of so many rows, which its devices divide without rest."""
    here = range(share.device * rows // share.devices, (share.device + 1) * rows // share.devices)
    for part, members in enumerate(np.array_split(np.arange(rows), parts)):
        first, last = max(int(members[0]), here.start), min(int(members[-1]) + 1, here.stop)
        if first >= last:
            continue
        some = SomeRows(first - int(members[0]), last - first, len(members))
        yield Piece(part, None if some.length == some.of else some, some.length)
