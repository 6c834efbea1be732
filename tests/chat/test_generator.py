"""Texts and scores of models without a network: what is read of a prompt, texts written together, divided texts."""

from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat import generator as module
from seq2seq_chat.chat.generator import Generator, LanguageModelScorer
from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import Block, BlockRequest
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

    def sample_block(self, states: list[np.ndarray], request: BlockRequest) -> tuple[Block, list[np.ndarray]]:
        token, ids = request.token, []
        for numbers in request.uniform.T:
            states = self.read(token[:, np.newaxis], states)
            token = ((states[0] + (1000 * numbers).astype(np.int64)) % (SIZE - 4) + 4).astype(np.int32)
            ids.append(token)
        return Block(np.stack(ids, axis=1), None, None), states


def write(prompts: list[list[int]], seeds: list[int], length: int = 40) -> list[list[int]]:
    codec = make_codec("english", [f"w{number}" for number in range(SIZE - 4)])
    blocks = list(Generator(CountingModel(), codec).blocks(prompts, length, SAMPLE, seeds))
    return np.concatenate([block.ids for block in blocks], axis=1).tolist()


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


class SlowModel:
    """A network that forgets slowly: the nats of a token are its distance from a mean of the tokens before it."""

    vocabulary_size = 9
    decay = 0.9

    def start(self, rows: int) -> list[np.ndarray]:
        return [np.zeros([rows, 1]), np.zeros([rows, 1])]

    def read(self, inputs: np.ndarray, states: list[np.ndarray]) -> list[np.ndarray]:
        return self.score(inputs, inputs, states)[1]

    def score(
        self, inputs: np.ndarray, targets: np.ndarray, states: list[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        (one, two), sums = states, np.zeros([2, len(inputs)])
        for tokens, following in zip(inputs.T[:, :, np.newaxis], targets.T[:, :, np.newaxis], strict=True):
            one = self.decay * one + tokens / 9
            two = self.decay * two - one / 9
            sums += [np.abs(following - one - two)[:, 0], (following == np.round(one))[:, 0]]
        return sums, [one, two]

    def sample_block(self, states: Any, request: BlockRequest) -> tuple[Block, Any]:
        raise NotImplementedError


@pytest.mark.parametrize(("length", "warm_up", "steps"), [(512, 512, 256), (40, 10, 7), (40, 40, 40), (25, 1, 100)])
@pytest.mark.parametrize("count", [2, 41, 203, 330])
def test_a_text_is_scored_from_the_states_of_its_tokens(
    length: int, warm_up: int, steps: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its first token on, as one stream: the streams begin where others end, and the rest follows the last."""
    monkeypatch.setattr(module, "MIN_LENGTH", length)
    monkeypatch.setattr(module, "WARM_UP", warm_up)
    monkeypatch.setattr(module, "MAX_STEPS", steps)
    monkeypatch.setattr(module, "TOLERANCE", 1e-9)
    model, tokens = SlowModel(), np.random.default_rng(count).integers(0, 9, count)
    sums, _ = model.score(tokens[np.newaxis, :-1], tokens[np.newaxis, 1:], model.start(1))
    score = LanguageModelScorer(model).score(tokens)
    assert score.nats == pytest.approx(sums[0, 0], rel=1e-7)
    assert (score.tokens, score.correct) == (count - 1, int(sums[1, 0]))
    ends = np.arange(len(score.stretches) + 1) * score.stretch_tokens
    read = [model.score(tokens[np.newaxis, :end], tokens[np.newaxis, 1 : end + 1], model.start(1))[0] for end in ends]
    assert score.stretches == pytest.approx(np.diff([nats for ((nats,), _) in read]), rel=1e-5)
