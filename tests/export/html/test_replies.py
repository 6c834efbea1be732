"""The searches in JavaScript find the replies of the chatbot, given the same weights."""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.chat.replies import Reply
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.decoding.methods import truncated_softmax
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine, TrainedModel, load_trained_model
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.engines.tensorflow.search import TensorFlowSteps
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.search.engine import WordDistribution, run_search
from seq2seq_chat.search.methods import SearchSize, sequential_search
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import EOS, GO, PAD, UNKNOWN
from tests.export.html.conftest import FRENCH_TO_ENGLISH, Evaluate, encode_model, round_weights
from tests.random_runs import make_codec, random_model, small_config
from tests.random_weights import randomize

pytestmark = pytest.mark.usefixtures("unoptimized_graphs")

REPLIES = """
const { header, weights, codecs, config } = await load(input.model);
const model = new modules.model.Seq2Seq(weights, config);
const bot = new modules.chatbot.Chatbot(model, codecs[0], codecs.at(-1), header);
const replies = [];
for (const [text, history, decoding] of input.requests) replies.push(await bot.reply(text, history, decoding, pause));
return replies;
"""
RELU = ("model.cell=rnn", "model.activation=relu")
SEARCHES = [
    Decoding(),
    Decoding(method="beam", beam_width=5, n_best=5),
    Decoding(method="beam", beam_width=4, n_best=4, stop="first_end"),
    Decoding(method="beam", beam_width=4, n_best=3, length_penalty=1.2, min_length=3, no_repeat_ngram_size=2),
    Decoding(method="beam", beam_width=6, n_best=4, beam_groups=3, repetition_penalty=1.3, allow_unknown=True),
]


WORDS = [f"word{n}" for n in range(12)]


def untrained(config: Config, codecs: Codecs) -> TrainedModel:
    return TrainedModel(random_model(config, codecs), codecs, 7, [])


def compare(
    javascript: Evaluate,
    trained: TrainedModel,
    config: Config,
    texts: Sequence[str],
    searches: Sequence[Decoding],
    histories: Sequence[Sequence[str]] | None = None,
    tolerance: float = 1e-3,
) -> int:
    """Compare all hypotheses with what the chatbot finds; return how many there were.

    Large random weights amplify the rounding of TensorFlow's sums in single precision, so that scores differ by more
    than for a trained model.
    """
    data = encode_model(trained, config)
    round_weights(trained.model)
    bot = Chatbot(TensorFlowEngine(trained.model), trained.codecs, config)
    count, histories = 0, histories or [()] * len(texts)
    for decoding in searches:
        settings = decoding.model_dump(mode="json")
        requests = [[text, [*history], settings] for text, history in zip(texts, histories, strict=True)]
        output = javascript(REPLIES, {"model": data, "requests": requests})
        for text, reply, answer in zip(texts, bot.replies(texts, decoding, histories), output, strict=True):
            compare_reply(text, reply, answer, tolerance)
            count += len(answer["alternatives"])
    return count


def compare_reply(text: str, reply: Reply, answer: dict[str, Any], tolerance: float) -> None:
    assert answer["reply"] == reply.text, text
    assert [one["text"] for one in answer["alternatives"]] == [one.text for one in reply.hypotheses], text
    scores = [one["score"] for one in answer["alternatives"]]
    np.testing.assert_allclose(scores, [one.score for one in reply.hypotheses], rtol=1e-5, atol=tolerance)
    assert answer["source_words"] == reply.source_words and answer["unknown_words"] == reply.unknown_words
    if reply.hypotheses:
        assert answer["reply_words"] == reply.hypotheses[0].words
        np.testing.assert_allclose(answer["attention"], reply.hypotheses[0].attention, atol=1e-4)


def test_200_utterances(javascript: Evaluate, tiny_run: Any) -> None:
    run, rng = find_run(str(tiny_run)), random.Random(4)
    words = run.codecs.source.vocabulary.words[4:]
    texts = [" ".join(rng.choices([*words, "zebra"], k=rng.randint(1, 10))) for _ in range(200)]
    count = compare(javascript, load_trained_model(run), run.config, [*texts, "", "***"], SEARCHES[:2], tolerance=1e-4)
    assert count > 800


def test_logit_rules_and_diverse_beams(javascript: Evaluate) -> None:
    codecs = Codecs.shared(make_codec("english", WORDS))
    config = small_config("decoding.allow_unknown=true", "data.reverse_input=true")
    texts = [f"word{n} word{2 * n % 11} word{3 * n % 7}" for n in range(12)]
    assert compare(javascript, untrained(config, codecs), config, texts, SEARCHES) > 100


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_length_penalty_of_a_page_ranks_all_words_of_a_step(javascript: Evaluate, width: int) -> None:
    """The end marker, which is no word of the length, may rank lower than less probable words, which must be known."""
    logits = 2 * np.random.default_rng(4).normal(size=[100, 9]).astype(np.float32)
    logits[:, [PAD, GO, UNKNOWN]] = -30
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    ranks = scores / ((5 + (np.arange(9) != EOS)) / 6) ** 1.5
    search = """return Promise.all(input.logits.map(async (row) => {
      const model = { start: () => ({}), step: () => ({ logits: [Float32Array.from(row)], states: [null] }) };
      const found = await modules.beam.beamSearch(model, [], input.settings, { steps: 1, pause });
      return found.map(({ words }) => words[0]);
    }));"""
    settings = Decoding(method="beam", beam_width=width, n_best=width, length_penalty=1.5).model_dump(mode="json")
    output = javascript(search, {"logits": logits.tolist(), "settings": settings})
    assert output == np.argsort(-ranks, axis=1)[:, :width].tolist()


def test_two_vocabularies(javascript: Evaluate) -> None:
    config = small_config("data.tokenizer=unicode", "data.target_tokenizer=english", "model.attention=none", *RELU)
    texts = ["Où est le chat ?", "Je l'aime.", "?"]
    compare(javascript, untrained(config, FRENCH_TO_ENGLISH), config, texts, SEARCHES[:2])


def test_earlier_turns(javascript: Evaluate) -> None:
    codecs = Codecs.shared(make_codec("english", [*WORDS, "<turn>"]))
    config = small_config("data.context_turns=3", "model.encoder_steps=6")
    histories = [["word1", "***", "word2 word3"], [], ["word4 " * 9], ["word5", "word6", "word7"]]
    compare(javascript, untrained(config, codecs), config, ["word8 word9"] * 3 + [""], SEARCHES[:1], histories)


@pytest.mark.parametrize(
    "limits", [{}, {"temperature": 0.7}, {"top_k": 3}, {"temperature": 2.0, "top_p": 0.8, "top_k": 9}]
)
def test_sampling_with_the_same_random_numbers(javascript: Evaluate, limits: dict[str, Any]) -> None:
    """The truncated distribution is inverted at the same numbers."""
    rng = np.random.default_rng(2)
    logits, uniform = rng.normal(size=[40, 25]).astype(np.float32) * 3, rng.random(40)
    parameters = WordDistribution.of_settings(Decoding(method="sample", **limits))
    values = parameters.temperature, parameters.top_k, parameters.top_p
    probabilities = truncated_softmax(*values)(logits).numpy()
    settings = Decoding(method="sample", **limits).model_dump(mode="json")
    sample = """return input.logits.map((row, index) => {
      const { truncatedSoftmax, sampleWord } = modules.sequential;
      const probabilities = truncatedSoftmax(Float32Array.from(row), input.settings);
      return { probabilities: [...probabilities], word: sampleWord(probabilities, input.uniform[index]) };
    });"""
    output = javascript(sample, {"logits": logits.tolist(), "uniform": uniform.tolist(), "settings": settings})
    np.testing.assert_allclose([row["probabilities"] for row in output], probabilities, atol=1e-6)
    for row, p, u in zip(output, probabilities, uniform, strict=True):
        assert row["word"] == np.searchsorted(np.cumsum(p), u * p.sum(), side="right")


@pytest.mark.parametrize("words", [1, 2, 8, 64])
def test_a_nucleus_of_a_page_at_its_boundary(javascript: Evaluate, words: int) -> None:
    """Of equally probable words, whose shares are exact, the fewest that add up to at least top_p."""
    kept = sorted({1, words // 2 or 1, words})
    sample = """return input.limits.map((top_p) => [...modules.sequential.truncatedSoftmax(
      new Float32Array(input.words), { temperature: 1, top_k: null, top_p })]);"""
    output = javascript(sample, {"words": words, "limits": [count / words for count in kept]})
    np.testing.assert_allclose(output, [[1 / count] * count + [0] * (words - count) for count in kept], rtol=1e-6)


def test_sampled_replies_with_the_same_random_numbers(javascript: Evaluate) -> None:
    codecs = Codecs.shared(make_codec("english", WORDS))
    config, decoding = small_config(), Decoding(method="sample", n_best=3, top_p=0.9)
    trained = untrained(config, codecs)
    data = encode_model(trained, config)
    round_weights(trained.model)
    ids = codecs.source.encode("word1 word5 word2")
    uniform = np.random.default_rng(3).random([1, 3, config.model.decoder_steps])
    source = np.array([[*ids, *[0] * (config.model.encoder_steps - len(ids))]], np.int32)
    steps = TensorFlowSteps(trained.model)
    size = SearchSize(1, config.model.decoder_steps, config.model.encoder_steps)
    search = sequential_search(size, decoding, uniform=uniform)
    found = run_search(steps, search, steps.start(source, np.array([len(ids)], np.int32)))
    pairs = zip(found.words[0].tolist(), found.lengths[0], strict=True)
    expected = sorted(tuple(words[:length]) for words, length in pairs)
    sample = """const { weights, config } = await load(input.model);
    const limits = { steps: config.decoder_steps, pause };
    const model = new modules.model.Seq2Seq(weights, config);
    const uniform = (row, t) => input.uniform[row][t];
    const found = await modules.sequential.samplingSearch(model, input.ids, input.settings, limits, uniform);
    return found.map(({ words }) => words);"""
    settings = decoding.model_dump(mode="json")
    request = {"model": data, "ids": ids, "settings": settings, "uniform": uniform[0].tolist()}
    assert sorted(map(tuple, javascript(sample, request))) == expected


def test_random_numbers_are_uniform_and_a_function_of_the_seed(javascript: Evaluate) -> None:
    numbers = javascript("""
    const take = (seed) => Array.from({ length: 5000 }, modules.random.randomNumbers(seed));
    return [take(1), take(1), take(2)];""")
    first, again, other = map(np.array, numbers)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    counts, _ = np.histogram(first, bins=20, range=(0, 1))
    assert ((counts - 250) ** 2 / 250).sum() < 45  # χ² with 19 degrees of freedom: above with probability 0.001
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.05


@pytest.mark.parametrize("tokenizer", ["character", "english"])
def test_language_models_continue_a_text(javascript: Evaluate, tokenizer: Any) -> None:
    """With the numbers of NumPy's generator, the generator in Python writes the same text."""
    config = small_config("task=language_model", f"data.tokenizer={tokenizer}")
    codec = make_codec(tokenizer, ["a", "b", "c", "d", "<space>", "<newline>", "."])
    model = LanguageModel(config.model, len(codec.vocabulary), config.seed)
    randomize(model, seed=3, scale=1.5)
    data = encode_model(TrainedModel(model, Codecs.shared(codec), 7, []), config)
    round_weights(model)
    decoding, prompts = Decoding(method="sample", temperature=0.8, top_k=5), ["a b\nc", "", "d\n"]
    write = """const { weights, config, codecs } = await load(input.model);
    const generator = new modules.generator.Generator(new modules.model.LanguageModel(weights, config), codecs[0]);
    const tokens = [], numbers = input.uniform.values();
    const next = () => numbers.next().value;
    const text = generator.write(input.prompt, input.uniform.length, input.settings, next, pause);
    for await (const token of text) tokens.push(token);
    return tokens;"""
    for prompt in prompts:
        (block,) = Generator(TensorFlowLanguageModel(model), codec).explained_stream(prompt, 30, decoding, 5)
        uniform = np.random.default_rng([5]).random(30).tolist()
        request = {"model": data, "prompt": prompt, "settings": decoding.model_dump(mode="json"), "uniform": uniform}
        tokens = javascript(write, request)
        assert [token["text"] for token in tokens] == [token.text for token in block]
        for token, expected in zip(tokens, block, strict=True):
            assert token["probability"] == pytest.approx(expected.probability, abs=1e-5)
            assert [one["text"] for one in token["alternatives"]] == [one.text for one in expected.alternatives]
