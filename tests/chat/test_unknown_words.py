"""Unknown words are replaced by the token that the model attends to most, or by the lexicon's entry for it."""

import json
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import HypothesisReader, SourceText, original_spelling, source_text
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.report.loaded_run import LoadedRun
from seq2seq_chat.report.predictions import predict
from seq2seq_chat.runs.run import Run, create_run
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import EOS, TURN, UNKNOWN
from seq2seq_chat.training.validation import SampleValidator
from tests.conftest import Cli
from tests.random_runs import make_codec, random_model, random_run, small_config
from tests.reference_model import Reference

CODECS = Codecs(make_codec("unicode", ["the", "cat", "sees", "."]), make_codec("unicode", ["le", "chat", "voit", "."]))
ALLOWED = ("decoding.allow_unknown=true", "decoding.replace_unknown=true")
REPLACED = Decoding(allow_unknown=True, replace_unknown=True)
LEXICON = "Anna\tAnne\t3\nAnna\tHanna\t1\nbird\toiseau bleu\nThe\tLe\nBob\tRobert\n"
SOURCES = ["the cat sees Anna .", "Bob sees the Bird", "Zoë , Anna , bird ! Bob", "cat"]


def config_of(*changes: str) -> Config:
    return small_config("data.tokenizer=unicode", "data.shared_vocabulary=false", *ALLOWED, *changes)


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("lexicon") / "words.tsv"
    path.write_text(LEXICON, encoding="utf-8")
    return str(path)


def expected_tokens(attended: str, with_lexicon: bool) -> list[str]:
    """By hand from LEXICON: the most probable entry, in lower case if there is none as it is written."""
    entries = {"Anna": ["Anne"], "Bob": ["Robert"], "bird": ["oiseau", "bleu"], "Bird": ["oiseau", "bleu"]}
    return entries.get(attended, [attended]) if with_lexicon else [attended]


class RecordingReference(Reference):
    """The equations in NumPy, which record the attention of each target word."""

    def attention(self, source: list[int], target: list[int]) -> np.ndarray:
        """[target steps, source steps], in the order in which the encoder reads the source."""
        self.rows: list[np.ndarray] = []
        self.logits(source, target)
        return np.array(self.rows)

    def context(self, outputs: list[np.ndarray], d: np.ndarray) -> np.ndarray:
        u = np.array([self.score(h, d) for h in outputs])
        self.rows.append(np.exp(u - u.max()) / np.exp(u - u.max()).sum())
        return super().context(outputs, d)


@pytest.mark.parametrize(
    ("query", "reverse"),
    [
        ("previous", True),
        pytest.param("current", False, marks=pytest.mark.slow),
        pytest.param("previous", False, marks=pytest.mark.slow),
        pytest.param("current", True, marks=pytest.mark.slow),
    ],
)
def test_the_position_is_that_of_the_equations(lexicon: str, query: str, reverse: bool) -> None:
    config = config_of(f"model.attention_query={query}", f"data.reverse_input={str(reverse).lower()}")
    model = random_model(config, CODECS)
    bot, reference = Chatbot(TensorFlowEngine(model), CODECS, config), RecordingReference(model)
    beam = Decoding(method="beam", beam_width=6, n_best=6, allow_unknown=True)
    replacing = beam.model_copy(update={"replace_unknown": True})
    positions = set()
    for with_lexicon in (False, True):
        decoding = replacing.model_copy(update={"lexicon": lexicon if with_lexicon else None})
        for before, after in zip(bot.replies(SOURCES, beam), bot.replies(SOURCES, decoding), strict=True):
            tokens = before.source_words
            read = CODECS.source.vocabulary.ids(tokens)
            for plain, replaced in zip(before.hypotheses, after.hypotheses, strict=True):
                ids = [CODECS.target.vocabulary.words.index(word) for word in plain.words]
                attention = reference.attention(read[::-1] if reverse else read, [*ids, EOS])
                words = []
                for word_id, word, row in zip(ids, plain.words, attention, strict=False):
                    position = len(tokens) - 1 - int(row.argmax()) if reverse else int(row.argmax())
                    positions |= {position} if word_id == UNKNOWN else set()
                    words += expected_tokens(tokens[position], with_lexicon) if word_id == UNKNOWN else [word]
                assert replaced.words == words
                assert replaced.text == CODECS.target.text(words)
                assert len(replaced.attention) == len(words)
    assert len(positions) > 2, "otherwise the position would not matter"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, lexicon: str) -> Run:
    folder = tmp_path_factory.mktemp("replacing")
    targets = ["le chat voit Anne .", "Bob voit le chat", "Zoé , Anne !", "chat"]
    pairs = "".join(f"{source}\t{target}\n" for source, target in zip(SOURCES, targets, strict=True))
    (folder / "validation.tsv").write_text(pairs, encoding="utf-8")
    files = f"data.train={folder}/validation.tsv", f"data.validation={folder}/validation.tsv"
    changes = ("task=translation", f"decoding.lexicon={lexicon}", "data.reverse_input=true")
    changes += (f"training.sample_replies={len(SOURCES)}",)
    return random_run(folder, config_of(*files, *changes), CODECS)


@pytest.mark.slow
def test_chat_evaluation_and_validation_agree(cli: Cli, run: Run, tmp_path: Path) -> None:
    """Greedy replies with the lexicon of the configuration, which reads another text for each."""
    loaded = LoadedRun(run)
    bot, config, codecs = loaded.chatbot, run.config, loaded.codecs
    replies = bot.replies(SOURCES)
    texts = [reply.text for reply in replies]
    assert any("Robert" in text for text in texts)
    assert not any("<unknown>" in text for text in texts)
    result = cli("chat", run.path, stdin="".join(f"{source}\n" for source in SOURCES).encode())
    assert (result.out.splitlines(), result.status) == (texts, 0)

    files = str(config.data.validation)
    predictions = list(predict(loaded, files, tmp_path))
    assert [prediction.reply for prediction in predictions] == texts
    (path,) = tmp_path.glob("*.jsonl")
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["lexicon"]

    corpus = Dataset.open(files, codecs, config.data)
    validator = SampleValidator(Scorer(loaded.model), bot, corpus, [])
    Path(files).write_text("changed\n", encoding="utf-8")  # in the middle of a training, which does not matter
    assert [reply.reply for reply in validator.replies()] == texts
    references = ["le chat voit Anne .", "Bob voit le chat", "Zoé , Anne !", "chat"]
    assert validator.bleu() == pytest.approx(sacrebleu.corpus_bleu(texts, [references]).score, abs=1e-9)


def test_a_run_has_its_own_copy_of_the_lexicon(run: Run, lexicon: str, tmp_path: Path) -> None:
    """It is used even if the run is moved and the file is gone, unless another lexicon is set."""
    original = tmp_path / "words.tsv"
    original.write_bytes(Path(lexicon).read_bytes())
    decoding = run.config.decoding.model_copy(update={"lexicon": str(original)})
    created = create_run(tmp_path, run.config.model_copy(update={"decoding": decoding}), CODECS, {})
    original.write_text("cat\tother\n", encoding="utf-8")
    moved = Run(created.path.rename(tmp_path / "moved"))
    copy = moved.config.decoding.lexicon
    assert copy == str(tmp_path / "moved" / "lexicon.tsv")
    assert Path(copy).read_bytes() == Path(lexicon).read_bytes()
    assert moved.load_config(["training.steps=9"]).decoding.lexicon == copy
    moved.save_config(moved.config)  # as resuming does
    assert moved.config.decoding.lexicon == copy
    assert moved.load_config(["decoding.lexicon=null"]).decoding.lexicon is None
    changed = moved.load_config([f"decoding.lexicon={original}"])
    assert changed.decoding.lexicon == str(original)
    moved.save_config(changed)
    assert Path(copy).read_bytes() == original.read_bytes()


@pytest.mark.slow
def test_the_lexicon_of_the_command_line(cli: Cli, run: Run, tmp_path: Path) -> None:
    """Without one, the words are copied; a bad one is an error without a traceback."""
    stdin = "".join(f"{source}\n" for source in SOURCES).encode()
    copied = cli("chat", run.path, "--set", "decoding.lexicon=null", stdin=stdin)
    assert copied.out.splitlines() == [reply.text for reply in Chatbot.load(run).replies(SOURCES, REPLACED)]
    assert "Bob" in copied.out and "Robert" not in copied.out
    (tmp_path / "bad.tsv").write_text("cat\tchat\ndog\n", encoding="utf-8")
    result = cli("chat", run.path, "--set", f"decoding.lexicon={tmp_path}/bad.tsv", stdin=stdin)
    assert result.error_message.startswith(f"decoding.lexicon: {tmp_path}/bad.tsv, line 2: 1 column instead of")
    assert result.out == ""


def hypothesis(words: list[int], attention: np.ndarray) -> Hypotheses:
    """One hypothesis, without batch and n."""
    return Hypotheses(np.array(words), len(words), -1.0, True, attention, -1.0)


def test_without_attention_nothing_is_replaced() -> None:
    """And a lexicon that is not used is not read."""
    config = config_of("model.attention=none", "decoding.lexicon=missing.tsv")
    reader = HypothesisReader(config, config.decoding, CODECS)
    read = reader.read(hypothesis([UNKNOWN, EOS], np.zeros([2, 0])), SourceText(["Anna"], "Anna"))
    assert (read.words, read.attention) == (["<unknown>"], [])


def test_sources_keep_their_words_and_earlier_turns(tmp_path: Path) -> None:
    codecs = Codecs.shared(make_codec("unicode", ["a", "b", TURN]))
    (tmp_path / "talk.txt").write_text("a Anna\nBob b\nb\n", encoding="utf-8")
    settings = config_of("data.context_turns=2", f"data.train={tmp_path}/talk.txt").data
    corpus = Dataset.open(settings.train, codecs, settings)
    sources = [source_text(corpus, n, sample) for n, sample in enumerate(corpus.samples(range(2)))]
    assert sources == [(["a", "Anna"], "a Anna"), (["a", "<unknown>", TURN, "Bob", "b"], "Bob b")]
    assert len(corpus) == 2


def test_an_entry_without_tokens_is_not_used(tmp_path: Path) -> None:
    """The target's tokenizer removes it, so the word is copied."""
    (tmp_path / "words.tsv").write_text("Anna\tАнна\ncat\tКот chat\n", encoding="utf-8")
    codecs = Codecs(CODECS.source, make_codec("english", ["le"]))
    config = config_of(f"decoding.lexicon={tmp_path}/words.tsv")
    reader = HypothesisReader(config, config.decoding, codecs)
    unknown = hypothesis([UNKNOWN, UNKNOWN, EOS], np.eye(3)[:, :2])
    assert reader.read(unknown, SourceText(["Anna", "cat"], "Anna cat")).words == ["anna", "chat"]


def test_copies_keep_capitals_and_accents_if_the_target_has_them() -> None:
    """The tokenizer of the source, english, removes them; a number of tokens is cut off at the beginning."""
    codecs = Codecs(make_codec("english", ["the"]), make_codec("unicode", ["le"]))
    config = small_config(*ALLOWED, "data.tokenizer=english", "data.target_tokenizer=unicode")
    reader = HypothesisReader(config, config.decoding, codecs)
    text = "zoe sees İzmir, and the ZOË sees Zoë & Zoé"
    tokens = codecs.source.tokenizer.encode(text)[-6:]
    words = reader.read(hypothesis([UNKNOWN] * 6, np.eye(6)), SourceText(tokens, text)).words
    assert tokens == ["and", "the", "zoe", "sees", "zoe", "zoe"]
    assert words == ["and", "the", "ZOË", "sees", "Zoë", "Zoé"]  # in NFC


@pytest.mark.parametrize(
    ("tokens", "text", "expected"),
    [
        (["ou", "est"], "Où est", ["Où", "est"]),
        (["b", "<turn>", "a"], "A", ["b", "<turn>", "A"]),  # of an earlier turn
        (["a", "ss", "字"], "A ß 字", ["A", "ss", "字"]),
        (["fi", "i"], "ﬁ I", ["ﬁ", "I"]),
        (["a", "f"], "ﬀ A ﬀ", ["A", "ﬀ"]),
        ([], "a", []),
        (["<space>", "a"], "", ["<space>", "a"]),
    ],
)
def test_original_spelling(tokens: list[str], text: str, expected: list[str]) -> None:
    assert original_spelling(tokens, text) == expected
