"""Prepared pairs of texts, against an oracle in plain Python."""

import gzip
import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from hashlib import md5
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seq2seq_chat.data.corpus_file import CorpusError, read_pairs
from seq2seq_chat.prepare import pipeline, utterances
from seq2seq_chat.prepare.pipeline import prepare
from seq2seq_chat.prepare.read_result import TooMuchDamage
from seq2seq_chat.prepare.readers.lines import LinesSettings
from seq2seq_chat.prepare.settings import PrepareSettings
from seq2seq_chat.text.tokenizers import SubwordTokenizer, Tokenizer, TokenizerSettings, create_tokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from tests.prepare.oracle import SPLITS, oracle_split
from tests.prepare.raw import PACKERS, contents

ENGLISH, UNICODE, WORDS, CHARACTERS, SUBWORDS = (
    TokenizerSettings(name) for name in ("english", "unicode", "whitespace", "character", "subword")
)
LOWERCASE = TokenizerSettings("unicode", lowercase=True)
THIRDS = (1, 1, 1)


class Filters(NamedTuple):
    """Which pairs are left out."""

    max_words: int | None = None
    max_ratio: float | None = None
    drop_duplicates: bool = False


EVERY_PAIR = Filters()


# ---- the oracle ------------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    source: str
    target: str
    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]

    @property
    def lengths(self) -> tuple[int, int]:
        return len(self.source_tokens), len(self.target_tokens)


class Result(NamedTuple):
    splits: dict[str, list[Pair]]
    damaged: int
    left_out: dict[str, int]


def oracle_row(row: bytes) -> tuple[str, str] | None:
    """The two columns of a row, or None if it is bad."""
    if len(row) > 1 << 20:
        return None
    try:
        columns = row.decode().removesuffix("\r").split("\t")
    except UnicodeDecodeError:
        return None
    if len(columns) == 3 and columns[2].strip()[:5] == "CC-BY":
        columns.pop()
    columns = [column.strip() for column in columns]
    return (columns[0], columns[1]) if len(columns) == 2 and all(columns) else None


def oracle_text(text: str, tokenizer: Tokenizer) -> tuple[str, tuple[str, ...]]:
    """A text as the corpus file holds it, and its tokens."""
    text = re.sub(r"[\t\n\r\0\v\f\x1c-\x1e\x85\u2028\u2029]", " ", text).strip()
    tokens = tuple(tokenizer.encode(text))
    return (" ".join(tokens) if tokenizer.cleans else text), tokens


def oracle(
    rows: Sequence[tuple[str, str] | None],
    tokenizers: tuple[Tokenizer, Tokenizer],
    filters: Filters = EVERY_PAIR,
    shares: tuple[float, float, float] = THIRDS,
    by_text: bool = False,
) -> Result:
    """The pairs of each split; ``by_text``: equal texts, rather than equal tokens, are in the same one."""
    left_out = Counter({"without_tokens": 0, "duplicates": 0, "max_words": 0, "max_ratio": 0})
    kept, seen = [], set()
    for row in rows:
        if row is None:
            continue
        (source, source_tokens), (target, target_tokens) = map(oracle_text, row, tokenizers)
        longer, shorter = sorted((len(source_tokens), len(target_tokens)), reverse=True)
        if not shorter:
            left_out["without_tokens"] += 1
        elif filters.drop_duplicates and (source, target) in seen:
            left_out["duplicates"] += 1
        elif filters.max_words is not None and longer > filters.max_words:
            left_out["max_words"] += 1
        elif filters.max_ratio is not None and longer / shorter > filters.max_ratio:
            left_out["max_ratio"] += 1
        else:
            kept.append(Pair(source, target, source_tokens, target_tokens))
        if shorter:
            seen.add((source, target))
    threads = [md5((pair.source if by_text else " ".join(pair.source_tokens)).encode()).hexdigest() for pair in kept]
    splits: Any = oracle_split([(thread, [pair]) for thread, pair in zip(threads, kept, strict=True)], shares, 1)
    return Result({name: [pair for (pair,) in splits[name]] for name in SPLITS}, rows.count(None), dict(left_out))


def check(
    folder: Path, expected: Result, vocabulary_size: int = 50_000, shared: bool = False, with_tokens: bool = True
) -> None:
    """Compare corpus files, table, vocabularies and statistics to those of the oracle."""
    for name, pairs in expected.splits.items():
        text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        assert (folder / f"{name}.tsv").read_bytes().decode() == text
        if pairs:
            assert list(read_pairs(folder / f"{name}.tsv")) == [pair[:2] for pair in pairs]
    rows = pq.read_table(folder / "utterances.parquet").to_pylist()
    numbered = enumerate(pair for name in SPLITS for pair in expected.splits[name])
    table = [
        (number, position, pair[position], " ".join(pair[2 + position]), pair.lengths[position])
        for number, pair in numbered
        for position in (0, 1)
    ]
    tokens = "tokens" if with_tokens else "text"
    assert [tuple(row[key] for key in ("conversation", "position", "text", tokens, "words")) for row in rows] == table
    threads = {(row["split"], row["thread"]) for row in rows}
    assert len(threads) == len({thread for _, thread in threads})
    counts = [Counter(word for pair in expected.splits["train"] for word in pair[2 + side]) for side in (0, 1)]
    counts = [counts[0] + counts[1]] * 2 if shared else counts
    vocabularies = [
        set(sorted(set(count) - set(SPECIAL_WORDS), key=lambda word: (-count[word], word))[: vocabulary_size - 4])
        for count in counts
    ]
    files = ["vocabulary.txt"] if shared else ["vocabulary.txt", "target_vocabulary.txt"]
    assert sorted(path.name for path in folder.glob("*vocabulary.txt")) == sorted(files)
    for file, count, words in zip(files, counts, vocabularies, strict=False):
        ranked = Vocabulary.load(folder / file).words[4:]
        assert set(ranked) == words
        assert ranked == sorted(words, key=lambda word: (-count[word], word))
    statistics = json.loads((folder / "statistics.json").read_text())
    assert statistics["left_out"] == expected.left_out
    assert statistics["reading"]["damaged"] == expected.damaged
    check_statistics(statistics, expected.splits, vocabularies)


def check_statistics(
    statistics: dict[str, Any], splits: dict[str, list[Pair]], vocabularies: Sequence[set[str]]
) -> None:
    total = [pair for pairs in splits.values() for pair in pairs]
    for name, pairs in [*splits.items(), ("total", total)]:
        assert statistics[name]["pairs"] == len(pairs)
        for side, key in enumerate(("source", "target")):
            words = [word for pair in pairs for word in pair[2 + side]]
            known = sum(word in vocabularies[side] for word in words)
            too_long = sum(pair.lengths[side] + side > 30 for pair in pairs)
            assert statistics[name][key] == {
                "words": len(words),
                "distinct_words": len(set(words)),
                "coverage_percent": round(100 * known / len(words), 2) if words else 0,
                "too_long_percent": round(100 * too_long / len(pairs), 2) if pairs else 0,
            }
    train = splits["train"]
    for name in ("validation", "test"):
        leakage = statistics["leakage"][name]
        tokens = {pair[2:] for pair in train}
        assert leakage["samples"] == sum(pair[2:] in tokens for pair in splits[name]) == 0
        targets = {pair.target_tokens for pair in train}
        assert leakage["targets"] == sum(pair.target_tokens in targets for pair in splits[name])


def pair_settings(filters: Filters = EVERY_PAIR, **options: Any) -> PrepareSettings:
    defaults = {"pairing": "alternating", "split": THIRDS, "jobs": 1, **filters._asdict()}
    return PrepareSettings("pairs", **{**defaults, **options})


# ---- columns and parallel files --------------------------------------------------------------------------------------

texts = st.lists(
    st.sampled_from(["a", "b", "B", "Où", "été", "x,", "...", "-", "\u2028", "\r", "\x85", "\v", "  ", "<eos>", "9"]),
    max_size=5,
).map(" ".join)
pair_rows = st.builds("{}\t{}".format, texts, texts)
rows = st.one_of(
    *[pair_rows.map(str.encode)] * 4,
    st.builds("{}\tCC-BY 2.0 (France)".format, pair_rows).map(str.encode),
    st.lists(texts, max_size=4).map(lambda columns: "\t".join(columns).encode()),
    st.sampled_from([b"", b"\t", b"a\t\xff", b"\xc3\tb", b"a\tb\tc"]),
)
filters = st.builds(Filters, st.sampled_from([None, 1, 2, 3]), st.sampled_from([None, 1.0, 1.5, 2.0]), st.booleans())


@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(rows, max_size=30), min_size=1, max_size=3),
    filters,
    st.sampled_from([(ENGLISH, None), (LOWERCASE, None), (WORDS, ENGLISH), (ENGLISH, CHARACTERS)]),
    st.booleans(),
)
def test_columns_equal_oracle(files, filters, tokenizers, shared) -> None:
    source, target = tokenizers
    shared = shared and target is None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for (suffix, pack), (number, lines) in zip(PACKERS.items(), enumerate(files), strict=False):
            content = b"".join(line + (b"\r\n" if number else b"\n") for line in lines)
            bom = b"\xef\xbb\xbf" if number == 1 and lines else b""
            (folder / f"{number}.TSV{suffix}").write_bytes(pack(bom + content))
        given = [line for lines in files for line in lines if b"\t" in line or line.decode(errors="replace").strip()]
        expected = oracle(
            [oracle_row(line) for line in given],
            (create_tokenizer(source), create_tokenizer(target or source)),
            filters,
        )
        options: dict[str, Any] = {
            "tokenizer": source,
            "target_tokenizer": target,
            "shared_vocabulary": shared,
            "vocabulary_size": 8,
            "filters": filters,
            "max_bad": 100,
        }
        if any(expected.splits.values()):
            prepare(pair_settings(**options), [folder], folder / "out")
            check(folder / "out", expected, 8, shared, with_tokens=(source, target) != (ENGLISH, None))
        else:
            with pytest.raises(CorpusError, match=r"No pairs are left|is empty|are empty"):
                prepare(pair_settings(**options), [folder], folder / "out")


lines = st.one_of(*[texts.map(str.encode)] * 9, st.sampled_from([b"", b"\xff", b"a\tb"]))


@settings(deadline=None, max_examples=6)
@given(st.lists(st.tuples(lines, lines), min_size=1, max_size=40), st.sampled_from([UNICODE, ENGLISH]))
def test_parallel_files_equal_oracle(pairs: list[tuple[bytes, bytes]], tokenizer: TokenizerSettings) -> None:
    def decode(sides: tuple[bytes, bytes]) -> tuple[str, str] | None:
        if b"\xff" in sides:
            return None
        source, target = (side.decode().strip() for side in sides)
        return (source, target) if source and target else None

    expected = oracle(list(map(decode, pairs)), (create_tokenizer(tokenizer), create_tokenizer(tokenizer)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "text.en").write_bytes(b"".join(source + b"\n" for source, _ in pairs))
        (folder / "text.fr").write_bytes(gzip.compress(b"".join(target + b"\r\n" for _, target in pairs)))
        arguments = pair_settings(tokenizer=tokenizer, max_bad=100), [folder / "text.en", folder / "text.fr"]
        if any(expected.splits.values()):
            statistics: Any = prepare(*arguments, folder / "out")
            check(folder / "out", expected, with_tokens=tokenizer is UNICODE)
            assert statistics["reading"]["files"] == 2
            assert statistics["reading"]["records"] == len(pairs)
        else:
            with pytest.raises(CorpusError):
                prepare(*arguments, folder / "out")


def write(folder: Path, content: bytes | str, name: str = "pairs.tsv") -> Path:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / name


def numbers(count: int, start: int = 0) -> str:
    """Distinct pairs; the numbers of tokens of the sides vary."""
    return "".join(f"a{n}{' x' * (n % 4)}\tb{n}{' y' * (n % 7)}\n" for n in range(start, start + count))


@pytest.mark.parametrize("packed", [False, True])
def test_tatoeba(tmp_path: Path, packed: bool) -> None:
    """The file of sentence pairs is read as it comes: a third column, no .tsv in its name, and a cut last line."""
    about = "CC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #1158250 (Wittydev)"
    rows = [*((f"Go {n}.", f"Va {n} !") for n in range(60)), ("I\u2019m in.", "Mes dents")]
    content = "".join(f"{source}\t{target}\t{about}\n" for source, target in rows[:-1]) + "I\u2019m in.\tMes dents   "
    folder = tmp_path / "fra-eng"
    folder.mkdir()
    write(folder, gzip.compress(content.encode()) if packed else content, f"fra.txt{'.gz' if packed else ''}")
    write(folder, "** Info **\nThe sentences are from Tatoeba.\n", "_about.txt")
    expected = oracle(rows, (create_tokenizer(UNICODE),) * 2)
    for number, path in enumerate((folder, *folder.glob("fra*"))):
        statistics: Any = prepare(pair_settings(tokenizer=UNICODE), [path], tmp_path / f"{number}")
        check(tmp_path / f"{number}", expected)
        assert statistics["reading"]["files"] == 1


def test_a_source_is_in_one_split_only(tmp_path: Path) -> None:
    """Also if a source differs in case and spaces that its tokens do not show."""
    rows = "".join(f"Go{' ' * (m + 1)}{n} !\tva {n} {m}\ngo {n}!\tallez {n} {m}\n" for n in range(40) for m in range(3))
    prepare(pair_settings(tokenizer=LOWERCASE, drop_leaked=True), [write(tmp_path, rows)], tmp_path / "out")
    sources = {name: (tmp_path / "out" / f"{name}.tsv").read_text().splitlines() for name in SPLITS}
    assert sum(map(len, sources.values())) == 240
    words = {name: {re.sub(r"\W", "", row.split("\t")[0]).lower() for row in lines} for name, lines in sources.items()}
    assert all(words.values())
    assert sum(map(len, words.values())) == 40


def test_parallel_files_of_an_official_split(tmp_path: Path) -> None:
    """As in the tutorial of nmt: a source and a target for each split."""
    names = [f"{name}.{language}" for name in ("train", "tst2012", "tst2013") for language in ("en", "vi")]
    files = [write(tmp_path, "".join(f"{name} {n}\n" for n in range(9)), name) for name in names]
    settings = pair_settings(split=None, tokenizer=WORDS)
    prepare(settings, files, tmp_path / "out")
    rows = {name: (tmp_path / "out" / f"{name}.tsv").read_text().splitlines() for name in SPLITS}
    assert [len(rows[name]) for name in SPLITS] == [8, 1, 18]
    assert sorted(rows["train"] + rows["validation"]) == [f"train.en {n}\ttrain.vi {n}" for n in range(9)]
    assert rows["test"][9] == "tst2013.en 0\ttst2013.vi 0"
    with pytest.raises(CorpusError, match="has no tab-separated columns"):
        prepare(settings, [*files[:3], files[5]], tmp_path / "out")


def test_official_split_and_duplicates(tmp_path: Path) -> None:
    """Duplicates are dropped within a split of an official one; those of other splits are leakage."""
    folder = tmp_path / "raw"
    folder.mkdir()
    write(folder, "a\tb\na\tb\na\tc\nd\te\n", "train.tsv")
    write(folder, "a\tb\na\tb\n", "dev.tsv")
    write(folder, "f\tb\n", "x.test.tsv")
    options = {"split": None, "filters": Filters(drop_duplicates=True), "tokenizer": WORDS}
    statistics: Any = prepare(pair_settings(**options), [folder], tmp_path / "out")
    assert [(tmp_path / "out" / f"{name}.tsv").read_text() for name in SPLITS] == [
        "a\tb\na\tc\nd\te\n",
        "a\tb\n",
        "f\tb\n",
    ]
    assert statistics["left_out"]["duplicates"] == 2
    leakage = statistics["leakage"]
    assert leakage["validation"] == {"samples": 1, "samples_percent": 100, "targets": 1, "targets_percent": 100}
    assert leakage["test"] == {"samples": 0, "samples_percent": 0, "targets": 1, "targets_percent": 100}
    statistics = prepare(pair_settings(**options, drop_leaked=True), [folder], tmp_path / "out")
    assert (tmp_path / "out" / "train.tsv").read_text() == "a\tc\nd\te\n"
    assert statistics["leakage"]["dropped_samples"] == 1


# ---- subwords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokenizers", "shared", "filters"),
    [
        ((SUBWORDS, None), False, Filters()),
        ((SUBWORDS, None), True, Filters(max_words=12, max_ratio=1.9, drop_duplicates=True)),
        ((LOWERCASE, SUBWORDS), False, Filters(max_words=9)),
        ((SUBWORDS, ENGLISH), False, Filters(max_ratio=2.5)),
    ],
)
def test_subwords(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tokenizers: tuple[TokenizerSettings, TokenizerSettings | None],
    shared: bool,
    filters: Filters,
) -> None:
    monkeypatch.setattr(utterances, "_ROWS_PER_GROUP", 64)  # several groups
    source, target = tokenizers[0], tokenizers[1] or tokenizers[0]
    content = numbers(250) + numbers(20)
    rows = [oracle_row(line) for line in content.encode().splitlines()]
    options = {"tokenizer": tokenizers[0], "target_tokenizer": tokenizers[1], "shared_vocabulary": shared}
    settings = pair_settings(**options, filters=filters, vocabulary_size=300, target_vocabulary_size=290)
    prepare(settings, [write(tmp_path, content)], tmp_path / "out")

    # The tokenizers are trained on train as it is before pairs are left out because of their lengths.
    plain = tuple(create_tokenizer(WORDS if name is SUBWORDS else name) for name in (source, target))
    by_text = source is SUBWORDS
    train = oracle(rows, plain, Filters(drop_duplicates=filters.drop_duplicates), by_text=by_text).splits["train"]
    files: list[Tokenizer] = []
    for side, (name, prefix, size) in enumerate(((source, "", 300), (target, "target_", 300 if shared else 290))):
        if name is not SUBWORDS:
            files.append(create_tokenizer(name))
            continue
        texts = [text for pair in train for text in (pair[:2] if shared else pair[side : side + 1])]
        files.append(SubwordTokenizer.train(texts, size, "unigram"))
        file = tmp_path / "out" / f"{'' if shared else prefix}tokenizer.json"
        assert file.read_bytes() == files[-1].file_content
        vocabulary = Vocabulary.load(file.with_name(file.name.replace("tokenizer.json", "vocabulary.txt")))
        assert vocabulary.words[4:] == list(files[-1].tokens or ())
    expected = oracle(rows, (files[0], files[1]), filters, by_text=by_text)
    assert [any(expected.left_out.values()), any(expected.splits.values())] == [filters != Filters(), True]
    for name, pairs in expected.splits.items():
        text = "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)
        assert (tmp_path / "out" / f"{name}.tsv").read_text() == text
    table = pq.read_table(tmp_path / "out" / "utterances.parquet").to_pylist()
    tokens = [" ".join(words) for name in SPLITS for pair in expected.splits[name] for words in pair[2:]]
    assert [row["tokens"] for row in table] == tokens
    statistics = json.loads((tmp_path / "out" / "statistics.json").read_text())
    assert statistics["left_out"] == expected.left_out
    assert (statistics["tokenizer"], statistics["target_tokenizer"]) == (source.name, target.name)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_a_large_file_is_read_in_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = "\ufeff" + numbers(300).replace("a200 ", "a200") + "only one\n" + numbers(50, 400) + "\n \n"
    path = write(tmp_path, content)
    plain: Any = prepare(pair_settings(), [path], tmp_path / "whole")
    monkeypatch.setattr(pipeline, "_RANGE_BYTES", 1000)
    monkeypatch.setattr(pipeline, "_TASK_BYTES", 1)
    divided: Any = prepare(pair_settings(), [path], tmp_path / "divided")
    (damage,) = divided["reading"]["damages"]
    assert plain["reading"]["damages"] == [f"{path}, line 301: 1 column instead of 2, separated by a tab"]
    number, start = map(int, re.findall(r"line (\d+) after byte (\d+): 1 column", damage)[0])
    assert content.encode()[start:].split(b"\n")[number - 1] == b"only one"
    files = contents(tmp_path / "divided"), contents(tmp_path / "whole")
    assert [file.pop("statistics.json") for file in files]
    assert files[0] == files[1]


def test_damage_is_named(tmp_path: Path) -> None:
    bad = [b"one", b"a\tb\tc", b"a\t ", b"\tb", b"a\xe9\tb", b"a\t" + b"b" * (1 << 20), b"y" * (1 << 26) + b"z"]
    path = write(tmp_path, b"\n".join([*bad, numbers(100).encode()]))
    statistics: Any = prepare(pair_settings(max_bad=10), [path], tmp_path / "out")
    reasons = ["1 column instead of 2, separated by a tab", "3 columns instead of 2, separated by a tab"]
    reasons += ["the target is empty", "the source is empty", "byte 1 of the line is not UTF-8"]
    reasons += ["longer than 1 MiB"] * 2
    assert statistics["reading"]["damages"] == [f"{path}, line {n}: {why}" for n, why in enumerate(reasons, start=1)]
    assert statistics["reading"]["damaged"] == 7
    with pytest.raises(TooMuchDamage, match=r"line 1: 1 column .*7 of 107 lines .*--max-bad"):
        prepare(pair_settings(max_bad=5), [path], tmp_path / "none")
    assert not (tmp_path / "none" / "train.tsv").exists()


def test_damage_of_a_target_names_its_file(tmp_path: Path) -> None:
    source, target = write(tmp_path, "x\n" * 99, "a.en"), write(tmp_path, b"y\n" * 98 + b"y\xe9\n", "a.fr")
    statistics: Any = prepare(pair_settings(max_bad=2), [source, target], tmp_path / "out")
    assert statistics["reading"]["damages"] == [f"{source}, line 99: in a.fr, byte 1 of the line is not UTF-8"]


def test_sides_of_a_row_are_at_most_a_mebibyte_together(tmp_path: Path) -> None:
    long = "a" * 600_000
    source, target = (write(tmp_path, numbers(50).replace("\t", " ") + long, name) for name in ("en", "fr"))
    statistics: Any = prepare(pair_settings(max_bad=5, tokenizer=UNICODE), [source, target], tmp_path / "out")
    assert statistics["reading"]["damages"] == [f"{source}, line 51: a row of both sides is longer than 1 MiB"]
    assert statistics["left_out"]["without_tokens"] == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.txt": "x\ny\n"}, r"a\.txt has no tab-separated columns.* exactly two files.*; there is 1 file\."),
        ({"a.en": "x\n", "a.fr": "y\n", "a.de": "z\n"}, r"a\.en has no tab-separated columns.*; there are 3 files\."),
        ({"a.tsv": "x\ty\n", "a.de": "z\n"}, r"a\.de has no tab-separated columns.*; there are 2 files\."),
        ({"a.en": "x\n" * 1200, "a.fr": "y\n" * 1199}, r"a\.en has 1,200 lines, but .*a\.fr has 1,199 lines\."),
        ({"a.en": "x\n", "a.fr": ""}, r"a\.fr is empty\."),
        ({"a.en": "x\n", "a.fr": b"\x1f\x8b\x08"}, r"a\.fr: the compressed data are damaged"),
        ({"a.tsv": "a;b\n"}, "1 column instead of 2"),
        ({"a.tsv": ""}, r"a\.tsv is empty\."),
        ({"a.tsv": "x\ty\n".encode("utf-16")}, "UTF-16"),
        ({"a.tsv": "привет\tпривет\n" * 100}, "The english tokenizer removes 100 % of the letters in the sources"),
        ({"a.tsv": "hello\tпривет\n" * 100}, "The english tokenizer removes 100 % of the letters in the targets"),
        ({"a.tsv": "...\t...\n", "b.tsv": "a\t*\n"}, r"No pairs are left .* 1 pair \(without tokens .* “a\\t\*”\)"),
    ],
)
def test_unusable_inputs(tmp_path: Path, files: dict[str, str | bytes], message: str) -> None:
    paths = [write(tmp_path, content, name) for name, content in files.items()]
    if message.startswith("No pairs"):
        paths.pop(0)
    with pytest.raises(CorpusError, match=message) as error:
        prepare(pair_settings(), paths, tmp_path / "out")
    assert len(re.split(r"(?<=[.?!])\s+(?=[A-Z])", str(error.value))) <= 2
    assert not (tmp_path / "out" / "train.tsv").exists()


def test_a_folder_without_columns(tmp_path: Path) -> None:
    write(tmp_path, "one\ntwo\n", "a.txt")
    with pytest.raises(CorpusError, match=r"contains no \.tsv, \.csv or \.jsonl file"):
        prepare(pair_settings(), [tmp_path], tmp_path / "out")


def test_output_of_another_corpus_is_replaced(tmp_path: Path) -> None:
    path = write(tmp_path, numbers(60))
    prepare(pair_settings(tokenizer=SUBWORDS, vocabulary_size=300), [path], tmp_path / "out")
    prepare(PrepareSettings("lines", LinesSettings(as_is=True)), [path], tmp_path / "out")
    names = ["statistics.json", "test.txt", "train.txt", "utterances.parquet", "validation.txt", "vocabulary.txt"]
    assert sorted(contents(tmp_path / "out")) == names


# ---- engines ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"tokenizer": UNICODE, "filters": Filters(9, 1.1, True)},
        {"tokenizer": SUBWORDS, "target_tokenizer": ENGLISH, "filters": Filters(max_words=9)},
        pytest.param({"shared_vocabulary": True, "split": None, "drop_leaked": True}, marks=pytest.mark.nightly),
    ],
)
def test_engines_agree(spark: None, tmp_path: Path, options: dict[str, Any]) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    for number, name in enumerate(("train", "validation", "test")):
        write(folder, numbers(400, 100 * number) + numbers(50) + "Où ?\tWhere?\n", f"{name}.tsv")
    for engine in ("duckdb", "spark"):
        prepare(pair_settings(engine=engine, vocabulary_size=300, **options), [folder], tmp_path / engine)
    assert contents(tmp_path / "duckdb") == contents(tmp_path / "spark")


@pytest.mark.slow
def test_more_pairs_than_memory(tmp_path: Path) -> None:
    """The engine sorts pairs that it has written itself."""
    words = "".join(f" word{n}" for n in range(12))
    content = "".join(f"a{n % 300_000}{words}\tb{n % 300_000}{words}\n" for n in range(450_000))
    settings = pair_settings(tokenizer=UNICODE, filters=Filters(drop_duplicates=True), memory="300MB", jobs=2)
    statistics: Any = prepare(settings, [write(tmp_path, content)], tmp_path / "out")
    assert statistics["total"]["pairs"] == 300_000
    assert statistics["left_out"]["duplicates"] == 150_000
