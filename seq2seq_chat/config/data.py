"""The section `data`: corpora, tokenizers, vocabularies, and how utterances become samples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Discriminator, Field, Tag

from seq2seq_chat.config.section import AppliesIf, FilePath, LanguageModelsRequire, PositiveInt, Section

BucketSize = Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)]  # a list in JSON
VocabularySize = Annotated[int, Field(gt=4)]
OWN_TARGET = LanguageModelsRequire(None)
NO_SAMPLES = "is trained on running text, not on samples"
WITH_UNICODE = AppliesIf("data.tokenizer", "unicode", when=lambda c: "unicode" in c.data.tokenizers)
OF_SUBWORDS = "applies to the subword tokenizer only, but the tokenizer is {}"
TokenizerName = Literal["english", "thesis", "unicode", "whitespace", "character", "subword", "english_character"]


class ParallelFiles(Section):
    """Two files; each line of the one belongs to the same line of the other."""

    source: FilePath
    """lines that the encoder reads"""
    target: FilePath
    """lines that the decoder writes"""

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"


CorpusFiles = Annotated[
    Annotated[FilePath, Tag("[file]")] | Annotated[ParallelFiles, Tag("[files]")],
    Discriminator(lambda value: "[files]" if isinstance(value, (dict, ParallelFiles)) else "[file]"),
]


_PAIRS_NAME = re.compile(r".*\.tsv(\.gz|\.bz2|\.xz|\.zst)?", re.IGNORECASE)


def is_pairs(files: CorpusFiles | str | Path) -> bool:
    """Whether a corpus consists of pairs rather than conversations: two files, or one whose name ends in .tsv."""
    return not isinstance(files, (str, Path)) or _PAIRS_NAME.fullmatch(Path(files).name) is not None


class TextSettings(NamedTuple):
    """The tokenizer and the vocabulary of one side of the samples; the source has the settings with these names."""

    tokenizer: TokenizerName
    tokenizer_file: str | None
    subword_model: Literal["unigram", "bpe"]
    lowercase: bool
    normalize_apostrophes: bool
    vocabulary: str | None
    vocabulary_size: int


TARGET_SETTINGS = ("target_tokenizer", "target_tokenizer_file", "target_vocabulary", "target_vocabulary_size")


class Data(Section):
    """Corpora, vocabulary, and how utterances become samples."""

    train: CorpusFiles
    """training corpus: a file of utterances, a .tsv of two columns, or {"source": FILE, "target": FILE} of parallel
    lines; paths are relative to the working directory"""
    validation: CorpusFiles | None = None
    """validation corpus; null: no validation"""
    test: CorpusFiles | None = None
    """test corpus, the default of `evaluate`; null: data.validation"""
    tokenizer: TokenizerName = "english"
    """how text is split into tokens; applies to the source only if data.target_tokenizer is set"""
    target_tokenizer: Annotated[TokenizerName | None, OWN_TARGET] = None
    """tokenizer of the target; null: data.tokenizer"""
    tokenizer_file: Annotated[FilePath | None, AppliesIf("data.tokenizer", "subword", error=OF_SUBWORDS)] = None
    """file of the tokenizer, from `prepare`; null: trained on the training corpus"""
    target_tokenizer_file: Annotated[
        FilePath | None, OWN_TARGET, AppliesIf("data.target_text.tokenizer", "subword", error=OF_SUBWORDS)
    ] = None
    """file of the target's own tokenizer; null: trained on the targets"""
    subword_model: Annotated[
        Literal["unigram", "bpe"], AppliesIf("data.tokenizer", "subword", when=lambda c: "subword" in c.data.tokenizers)
    ] = "unigram"
    """model of the tokenizer when it is trained on the training corpus"""
    lowercase: Annotated[bool, WITH_UNICODE] = False
    """convert text to lower case"""
    normalize_apostrophes: Annotated[bool, WITH_UNICODE] = False
    """read typographic apostrophes within words (don’t) as typewriter apostrophes (don't)"""
    vocabulary: FilePath | None = None
    """vocabulary file, one word per line; null: built from the training corpus"""
    vocabulary_size: VocabularySize = 50_000
    """words in the vocabulary, including the four special ones; other words become <unknown>"""
    shared_vocabulary: bool | None = None
    """whether source and target share the tokenizer and the vocabulary; null: true unless task is translation or a
    data.target_* setting is given"""
    target_vocabulary: Annotated[FilePath | None, OWN_TARGET] = None
    """vocabulary file of the target; null: built from the targets of the training corpus"""
    target_vocabulary_size: Annotated[VocabularySize | None, OWN_TARGET] = None
    """words in the target's own vocabulary; null: data.vocabulary_size"""
    pairing: Annotated[Literal["sliding", "alternating"], AppliesIf("task", "conversation")] = "sliding"
    """whether each utterance is the reply to the one before (sliding), or utterances are on odd lines and replies on
    even lines (alternating)"""
    buckets: Annotated[
        Literal["auto"] | list[BucketSize] | None,
        LanguageModelsRequire(None, NO_SAMPLES),
        AppliesIf("data.max_buckets", when=lambda c: c.data.buckets != "auto" or c.data.max_buckets > 1),
    ] = None
    """maximum steps [source, target] of each bucket, which has a graph of its own; samples go into the smallest
    that fits, to save padding; auto: chosen from the lengths in the corpus; null: one bucket"""
    max_buckets: Annotated[PositiveInt, AppliesIf("data.buckets", "auto")] = 6
    """maximum number of buckets"""
    context_turns: Annotated[int, Field(gt=0, le=1000), LanguageModelsRequire(1, NO_SAMPLES)] = 1
    """number of most recent turns in a source, separated by a marker word"""
    swap_source_target: Annotated[bool, LanguageModelsRequire(False, NO_SAMPLES)] = False
    """train on (reply, utterance) instead of (utterance, reply), for decoding.backward_run"""
    reverse_input: Annotated[bool, LanguageModelsRequire(False)] = False
    """feed the source to the encoder in reverse order"""
    max_length: Annotated[PositiveInt | None, LanguageModelsRequire(None, NO_SAMPLES)] = None
    """leave out training samples with more tokens than this in source or target; null: keep all"""

    @property
    def has_shared_vocabulary(self) -> bool:
        """Whether source and target share the tokenizer and the vocabulary."""
        if self.shared_vocabulary is not None:
            return self.shared_vocabulary
        return all(getattr(self, name) is None for name in TARGET_SETTINGS)

    @property
    def tokenizers(self) -> tuple[TokenizerName, TokenizerName]:
        return self.source_text.tokenizer, self.target_text.tokenizer

    @property
    def source_text(self) -> TextSettings:
        """The tokenizer and the vocabulary of the source, or of both sides."""
        return TextSettings(*(getattr(self, name) for name in TextSettings._fields))

    @property
    def target_text(self) -> TextSettings:
        """The tokenizer and the vocabulary of the target."""
        if self.has_shared_vocabulary:
            return self.source_text
        return self.source_text._replace(
            tokenizer=self.target_tokenizer or self.tokenizer,
            tokenizer_file=self.target_tokenizer_file,
            vocabulary=self.target_vocabulary,
            vocabulary_size=self.target_vocabulary_size or self.vocabulary_size,
        )

    def problems(self) -> Iterator[str]:
        own = [name for name in TARGET_SETTINGS if getattr(self, name) is not None]
        if self.shared_vocabulary and own:
            yield f"shared_vocabulary is true, but {own[0]} is set; remove one of them"
        for name in ("train", "validation", "test") if self.context_turns > 1 else ():
            files = getattr(self, name)
            if files is not None and is_pairs(files):
                yield (
                    f"context_turns is {self.context_turns}, but {name} ({files}) has pairs, which have no earlier "
                    "turns; use context_turns 1"
                )
        if self.swap_source_target and self.context_turns > 1:
            yield "swap_source_target requires context_turns 1, because the target is then one utterance"
