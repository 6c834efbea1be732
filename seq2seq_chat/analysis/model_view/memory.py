"""What a recurrent network remembers: how far back gradients reach."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from seq2seq_chat.model.language_model import LanguageModel


def gradient_by_distance(model: LanguageModel, tokens: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """How much the loss after the last token depends on each input vector: ‖∂L/∂x_{T-d}‖ at the distances d.

    Args:
        tokens: ids, int32 [rows, T].
        targets: the token after the last one of each row, int32 [rows].

    Returns:
        Mean norm over the rows, by distance: [T]; the first value is that of the last token.

    Source: Bengio et al. 1994; Pascanu et al. 2013.
    """
    vectors = tf.transpose(model.target_embedding(tf.constant(tokens)), [1, 0, 2])
    steps = tf.unstack(vectors)
    with tf.GradientTape() as tape:
        tape.watch(steps)
        states = model.start(len(tokens))
        maxout: tf.Tensor | tuple[()] = ()
        for vector in steps:
            inputs = model.decoder.project_inputs(vector)
            states, maxout = model.decoder.step_cells(inputs.cell, None, states), inputs.maxout
        logits = model.output.logits(model.decoder.combine(states[-1].output, None, maxout))
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.constant(targets), logits))
    norms = [tf.norm(gradient, axis=1) for gradient in tape.gradient(loss, steps)]
    return np.array([float(tf.reduce_mean(norm)) for norm in reversed(norms)])
