"""The bundled conversations are clean and consistent, and generated from the files beside them."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import generate_conversations
import pytest
from click.testing import CliRunner

from seq2seq_chat.config import Data, load_config
from seq2seq_chat.data.corpus_file import bundled_conversations, read_utterances
from seq2seq_chat.data.samples import Tokenizers, read_samples
from seq2seq_chat.text.tokenizers.english import EnglishTokenizer, clean

SAMPLE = bundled_conversations().parent
FILES = ("conversations.txt", "validation.txt", "dialogues.txt", "dialogues_validation.txt")


def samples(name: str) -> Iterator[tuple[str, str]]:
    tokenizer, data = EnglishTokenizer(), Data(train=str(SAMPLE / name), pairing="alternating")
    for sample in read_samples(SAMPLE / name, data, Tokenizers(tokenizer, tokenizer)):
        yield " ".join(sample.source_tokens), " ".join(sample.target_tokens)


@pytest.mark.parametrize("name", FILES)
def test_format_is_valid_and_text_is_clean(name: str) -> None:
    lines = [line for _, line in read_utterances(str(SAMPLE / name))]
    assert [clean(line) for line in lines] == lines


def test_the_conversations_are_consistent() -> None:
    replies = defaultdict(set)
    for source, target in samples("conversations.txt"):
        replies[source].add(target)
    assert len(replies) >= 8000
    assert sum(len(targets) == 1 for targets in replies.values()) >= 0.995 * len(replies)
    train, validation = list(samples("conversations.txt")), list(samples("validation.txt"))
    assert len(validation) >= 200
    assert not {source for source, _ in validation} & {source for source, _ in train}
    assert {target for _, target in validation} <= {target for _, target in train}


def test_quickstart_cuts_nothing() -> None:
    model = load_config(SAMPLE.parent / "quickstart.json").model
    for name in ("conversations.txt", "validation.txt"):
        for source, target in samples(name):
            assert len(source.split()) <= model.encoder_steps
            assert len(target.split()) < model.decoder_steps


def test_the_files_are_up_to_date(tmp_path: Path) -> None:
    result = CliRunner().invoke(generate_conversations.main, [str(SAMPLE), "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    for name in ("conversations.txt", "validation.txt"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes(), "run scripts/generate_conversations.py"
