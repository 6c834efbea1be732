"""The result of reading the inputs: shards, counts per file, and damage."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.samples import Letters, check_letters
from seq2seq_chat.prepare.shards import MAX_DAMAGES, Piece, PieceReport, TaskReport
from seq2seq_chat.prepare.tokenizing import keeps_texts
from seq2seq_chat.system.lines import UTF8_REMEDY
from seq2seq_chat.system.tables import pluralize
from seq2seq_chat.text.tokenizers import TokenizerSettings
from seq2seq_chat.text.tokenizers.english import describe_marks

logger = logging.getLogger(__name__)

_SHOWN_CHATS = 10


def warn_of_marks(words: Mapping[str, Sequence[str]]) -> None:
    """Warn of what the English tokenizer removes within words, see ``words_with_marks``."""
    logger.warning(
        "the english tokenizer removes %s; --tokenizer unicode keeps them, also with --lowercase", describe_marks(words)
    )


class TooMuchDamage(CorpusError):
    """More of the inputs is damaged than ``max_bad`` allows."""


class ReadResult:
    """The reports of all tasks, combined.

    Args:
        files: The inputs.
        reports: Of the tasks.
        folder: Where their shards are.
        tokenizers: Of source and target, see PrepareSettings.
        unit: Of what is left out, see RawCorpus.
    """

    def __init__(
        self,
        files: Sequence[Piece],
        reports: Sequence[TaskReport],
        folder: Path,
        tokenizers: Sequence[TokenizerSettings],
        unit: str,
    ) -> None:
        self.files, self.tokenizers, self.unit = files, tokenizers, unit
        self.shards = [folder / report.key for report in reports]
        self.file_reports = [PieceReport(number) for number in range(len(files))]  # summed for each file
        self.total = PieceReport(0)  # summed for all files
        for report in reports:
            for piece in report.pieces:
                self.file_reports[piece.file].add(piece)
                self.total.add(piece)
        damages = [damage for report in reports for damage in report.damages]
        self.damages = sorted(damages, key=lambda damage: not damage.incomplete)  # incomplete files first

    def check_damage(self, max_percent: float) -> None:
        """Raise TooMuchDamage if more than ``max_percent`` of the records or of the files are damaged."""
        statistics = self.statistics()
        files, incomplete = statistics["files"], statistics["incomplete_files"]
        records, damaged = statistics["records"], statistics["damaged"]
        if 100 * incomplete > max_percent * files:
            summary = f"{incomplete:,} of {files:,} files are incomplete"
        elif 100 * damaged > max_percent * records:
            summary = f"{damaged:,} of {records:,} lines or files are damaged"
        else:
            return
        if not self.damages:
            raise TooMuchDamage("Nothing could be read.")
        remedy = f" {UTF8_REMEDY}." if self.damages[0].text.endswith("is not UTF-8") else ""
        raise TooMuchDamage(
            f"{self.damages[0].text}. In total, {summary}; repair them, or allow more than {max_percent:g} % "
            f"(--max-bad).{remedy}"
        )

    def warn_of_empty_files(self) -> None:
        """Warn if some of the files have no records."""
        reports = zip(self.files, self.file_reports, strict=True)
        empty = [file for file, report in reports if not report.records and not report.incomplete]
        if empty and len(empty) < len(self.files):
            others = f", and so are {len(empty) - 1:,} others" if len(empty) > 1 else ""
            logger.warning("%s is empty%s", empty[0], others)

    def check_letters(self) -> None:
        """Warn of letters, accents, apostrophes and emoji that a tokenizer removed.

        Raises:
            CorpusError: It removed nearly all letters.
        """
        (tokenizer, target_tokenizer), total = self.tokenizers, self.total
        source, target = (
            Letters(total.letters.get(side, 0), total.kept_letters.get(side, 0)) for side in ("source", "target")
        )
        check_letters("the sources" if target.raw else "the inputs", tokenizer.name, source)
        check_letters("the targets", target_tokenizer.name, target)
        if total.marks:
            warn_of_marks(total.marks)

    def describe_left_out(self) -> str:
        """What is left out, by reason, with examples; empty if nothing is."""
        reasons = []
        for reason, count in sorted(self.total.left_out.items(), key=lambda item: -item[1]):
            examples = " and ".join(f"“{text}”" for text in self.total.examples.get(reason, ()))
            units = pluralize(count, self.unit.removesuffix("s"))
            reasons.append(f"{units} ({reason}{f', such as {examples}' if examples else ''})")
        return ", ".join(reasons)

    def statistics(self, copies: int = 0) -> dict[str, Any]:
        """The statistics of reading.

        ``records`` are lines, comments or subtitle files; ``lines``, those of the thesis, are comments or the sentences
        of subtitles, and ``unpacked_bytes`` is the size of the decompressed files; both are known of these corpora
        only. ``copies`` are files skipped as copies of others; ``damages`` describes the first damaged records,
        incomplete files first.

        Some tokenizers count what they remove: ``thesis`` words, ``unicode`` invisible characters. If corpus files hold
        texts as they are, ``replaced_characters`` are the line breaks and other characters that a line cannot hold.

        What is ``left_out``, of the corpus's ``unit``, is counted by reason, with ``examples``. If records are units,
        they are damaged, left out or ``used``. Records of chats are messages, of ``people``, whose number is given;
        ``chats`` are the largest ones in exports of several, with their numbers of messages.
        """
        statistics: dict[str, Any] = {
            "files": sum(2 if file.companion else 1 for file in self.files),
            "bytes": sum(file.size for file in self.files),
            "records": self.total.records,
            "copies": copies,
            "damaged": self.total.damaged,
            "incomplete_files": sum(report.incomplete for report in self.file_reports),
            "damages": [damage.text for damage in self.damages[:MAX_DAMAGES]],
        }
        if self.total.unpacked_bytes:
            statistics["lines"] = self.total.lines or self.total.records
            statistics["unpacked_bytes"] = self.total.unpacked_bytes
        names = [tokenizer.name for tokenizer in self.tokenizers]
        if "thesis" in names:
            statistics["removed_words"] = self.total.removed_words
        if "unicode" in names:
            statistics["removed_characters"] = self.total.removed_characters
        if any(map(keeps_texts, self.tokenizers)):
            statistics["replaced_characters"] = self.total.replaced
        statistics["unit"] = self.unit
        statistics["left_out"] = dict(sorted(self.total.left_out.items(), key=lambda item: -item[1]))
        statistics["examples"] = {reason: texts for reason, texts in self.total.examples.items() if texts}
        if self.unit not in ("utterances", "sentences"):
            damaged = self.total.damaged - statistics["incomplete_files"]  # the rest of a file is no record
            statistics["used"] = self.total.records - damaged - sum(self.total.left_out.values())
        if self.total.people:
            statistics["people"] = len(self.total.people)
        if len(self.total.chats) > 1:
            statistics["chats"] = dict(sorted(self.total.chats.items(), key=lambda item: -item[1])[:_SHOWN_CHATS])
        return statistics
