"""Runs that were not trained: with large random weights, so that replies depend on every token of the source."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import tensorflow as tf

from seq2seq_chat.config import Config, parse_config
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.model.variables import save_variables
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.text.codec import Codecs, TextCodec
from seq2seq_chat.text.tokenizers import SubwordTokenizer, TokenizerName, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, UNKNOWN, Vocabulary
from tests.random_weights import randomize


def small_config(*changes: str) -> Config:
    """The configuration of a small model; changes: ``"data.tokenizer=unicode"``."""
    sizes = {"hidden_size": 12, "embedding_size": 10, "projection_size": 8, "encoder_steps": 8, "decoder_steps": 6}
    settings = {"name": "random", "data": {"train": "train.txt"}, "model": sizes, "decoding": {"beam_width": 5}}
    return parse_config(settings, "x", list(changes))


def make_codec(tokenizer: TokenizerName, words: Iterable[str]) -> TextCodec:
    """A tokenizer without a file and a vocabulary of these words."""
    return TextCodec(create_tokenizer(TokenizerSettings(tokenizer)), Vocabulary([*SPECIAL_WORDS, *words]))


def codec_of_texts(settings: TokenizerSettings, texts: Sequence[str]) -> TextCodec:
    """A tokenizer, trained on these texts if it has a file, and a vocabulary of all their tokens."""
    if settings.name != "subword":
        encode = create_tokenizer(settings).encode
        return make_codec(settings.name, sorted({token for text in texts for token in encode(text)}))
    tokenizer = SubwordTokenizer.train(texts, 340, settings.subword_model)
    assert tokenizer.tokens
    return TextCodec(tokenizer, Vocabulary([*SPECIAL_WORDS, *tokenizer.tokens]))


def random_model(config: Config, codecs: Codecs, seed: int = 5, scale: float = 1.5) -> Seq2Seq:
    """A model with large random weights, which often replies with an unknown word if that is allowed."""
    model = Seq2Seq(config.model, len(codecs.target.vocabulary), config.seed, len(codecs.source.vocabulary))
    randomize(model, seed=seed, scale=scale)
    if config.decoding.allow_unknown:
        model.output.bias.assign_add(12 * tf.one_hot(UNKNOWN, len(codecs.target.vocabulary)))
    return model


def random_run(folder: Path, config: Config, codecs: Codecs, seed: int = 5, scale: float = 1.5) -> Run:
    """A run with the checkpoint of a random model at step 7."""
    run = create_run(folder, config, codecs, {})
    save_variables(run.checkpoint_path(7), random_model(config, codecs, seed, scale).trainable_variables, {"step": 7})
    return run


def random_language_run(
    folder: Path, text: str, steps: Iterable[int] = (7,), tokenizer: TokenizerName = "character"
) -> Run:
    """A run of a language model over the tokens of a text, with other random weights at each snapshot's step."""
    config = small_config("task=language_model", f"data.tokenizer={tokenizer}")
    codec = codec_of_texts(TokenizerSettings(tokenizer), [text])
    run = create_run(folder, config, Codecs(codec, codec), {})
    model = LanguageModel(config.model, len(codec.vocabulary), config.seed)
    for step in steps:
        randomize(model, seed=step, scale=1.5)
        for path in (run.checkpoint_path(step), run.snapshot_path(step)):
            save_variables(path, model.trainable_variables, {"step": step})
    return run
