"""The copy-memory task: remember some symbols while blanks pass.

Source: Hochreiter & Schmidhuber 1997; as here: Arjovsky et al. 2016, "Unitary evolution recurrent neural networks".
"""

from __future__ import annotations

import numpy as np

from seq2seq_chat.data.streams import TextBatch
from seq2seq_chat.data.vocabulary import SPECIAL_WORDS

SYMBOLS, LENGTH = 8, 10  # kinds of symbols, and how many are remembered
FIRST = len(SPECIAL_WORDS)
BLANK, RECALL = FIRST + SYMBOLS, FIRST + SYMBOLS + 1
VOCABULARY_SIZE = RECALL + 1


def copy_memory_batch(rows: int, gap: int, seed: int, number: int) -> TextBatch:
    """A batch of the task, a function of (seed, number).

    A sequence is 10 random symbols, ``gap`` - 1 blanks, a mark, and 10 blanks, during which the symbols have to be
    recalled; everything else is to be answered with a blank.

    Returns:
        Ids, [rows, gap + 20] each.
    """
    symbols = np.random.default_rng([seed, number]).integers(FIRST, BLANK, (rows, LENGTH))
    inputs = np.full([rows, gap + 2 * LENGTH], BLANK, np.int32)
    inputs[:, :LENGTH] = symbols
    inputs[:, LENGTH + gap - 1] = RECALL
    targets = np.full_like(inputs, BLANK)
    targets[:, -LENGTH:] = symbols
    return TextBatch(inputs, targets, np.int32(0), np.int32(inputs.shape[1]), np.bool_(True))
