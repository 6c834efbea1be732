"""The copy-memory task: remember some symbols while blanks pass.

Source: Hochreiter & Schmidhuber 1997; as here: Arjovsky et al. 2016, "Unitary evolution recurrent neural networks".
"""

from __future__ import annotations

import numpy as np

from seq2seq_chat.data.streams import TextBatch
from seq2seq_chat.data.vocabulary import SPECIAL_WORDS

KINDS = 8  # of symbols
FIRST = len(SPECIAL_WORDS)
BLANK, RECALL = FIRST + KINDS, FIRST + KINDS + 1
VOCABULARY_SIZE = RECALL + 1


def copy_memory_batch(rows: int, symbols: int, gap: int, seed: int, number: int) -> TextBatch:
    """A batch of the task, a function of (seed, number).

    A sequence is some random symbols, ``gap`` - 1 blanks, a mark, and as many blanks as there are symbols, during which
    they have to be recalled; everything else is to be answered with a blank.

    Returns:
        Ids, [rows, gap + 2 · symbols] each.
    """
    remembered = np.random.default_rng([seed, number]).integers(FIRST, BLANK, (rows, symbols))
    inputs = np.full([rows, gap + 2 * symbols], BLANK, np.int32)
    inputs[:, :symbols] = remembered
    inputs[:, symbols + gap - 1] = RECALL
    targets = np.full_like(inputs, BLANK)
    targets[:, -symbols:] = remembered
    return TextBatch(inputs, targets, np.int32(0), np.int32(inputs.shape[1]), np.bool_(True))
