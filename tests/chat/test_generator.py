"""Texts of a model that counts, without a network: what is read of a prompt, and texts that are written together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat import generator as module
from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import Block, WordDistribution
from tests.random_runs import make_codec

SIZE, SAMPLE = 50, Decoding(method="sample")


class CountingModel:
    """A model whose next token depends on all tokens before it, in their order, and on the random number."""

    vocabulary_size = SIZE

    def start(self, rows: int) -> list[np.ndarray]:
        return [np.ones(rows, np.int64)]

    def read(self, inputs: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
        (state,) = states
        for tokens in inputs.T:
            state = (31 * state + tokens) % 1_000_003
        return [state]

    def score(self, inputs: np.ndarray, targets: np.ndarray, states: list[np.ndarray]) -> Any:
        raise NotImplementedError

    def sample_block(
        self,
        token: np.ndarray,
        states: list[np.ndarray],
        uniform: np.ndarray,
        distribution: WordDistribution,
        forbidden: tuple[int, ...],
        explain: bool,
    ) -> tuple[Block, list[np.ndarray]]:
        ids = []
        for numbers in uniform.T:
            states = self.read(token[:, np.newaxis], states)
            token = ((states[0] + (1000 * numbers).astype(np.int64)) % (SIZE - 4) + 4).astype(np.int32)
            ids.append(token)
        return Block(np.stack(ids, axis=1), None, None), states


def write(prompts: list[list[int]], seeds: list[int], length: int = 40) -> list[list[int]]:
    codec = make_codec("english", [f"w{number}" for number in range(SIZE - 4)])
    blocks = list(Generator(CountingModel(), codec).blocks(prompts, length, SAMPLE, seeds))
    return np.concatenate(blocks, axis=1).tolist()


def test_of_a_long_prompt_the_end_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PROMPT", 5)
    prompt = list(range(10, 30))
    assert write([prompt], [3]) == write([prompt[-5:]], [3]) != write([prompt[-4:]], [3])
    assert write([prompt[:4]], [3]) != write([prompt[1:4]], [3])


@pytest.mark.parametrize("size", [1, 7, 32, 100])
def test_a_text_is_the_same_alone_and_together_and_in_blocks_of_any_size(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts, seeds = [[5, 6, 7], [7, 6, 5], [5, 6, 7], []], [1, 2, 3, 1]
    alone = [write([prompt], [seed])[0] for prompt, seed in zip(prompts, seeds, strict=True)]
    monkeypatch.setattr(module, "BLOCK", size)
    assert write(prompts[:3], seeds[:3]) == alone[:3]
    assert write(prompts[3:], seeds[3:]) == alone[3:]
    assert [len(text) for text in alone] == [40] * 4
    assert len(set(map(tuple, alone))) == 4
