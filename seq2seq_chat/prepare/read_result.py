"""The result of reading the inputs: shards, counts per file, and damage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from seq2seq_chat.data.alphabet import Letters, check_letters
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.inputs import InputFile
from seq2seq_chat.prepare.shards import MAX_DAMAGES, Damage, PieceReport, TaskReport


class TooMuchDamage(CorpusError):
    """More of the inputs is damaged than ``max_bad`` allows."""


class ReadingStatistics(TypedDict):
    """Statistics of reading.

    ``records`` are lines, comments or subtitle files; ``copies`` are files skipped as copies of others; ``damages``
    describes the first damaged records, incomplete files first.
    """

    files: int
    bytes: int
    records: int
    copies: int
    damaged: int
    incomplete_files: int
    damages: list[str]


@dataclass(frozen=True)
class ReadResult:
    """The result of reading the inputs."""

    files: Sequence[InputFile]
    shards: Sequence[Path]  # folders
    file_reports: Sequence[PieceReport]  # the reports of the pieces, summed for each file
    damages: Sequence[Damage]  # incomplete files first

    @classmethod
    def from_reports(cls, files: Sequence[InputFile], reports: Sequence[TaskReport], folder: Path) -> ReadResult:
        """Combine the reports of the tasks, whose shards are in ``folder``."""
        totals = [PieceReport(number) for number in range(len(files))]
        for report in reports:
            for piece in report.pieces:
                totals[piece.file].add(piece)
        damages = [damage for report in reports for damage in report.damages]
        damages.sort(key=lambda damage: not damage.incomplete)
        return cls(files, [folder / report.key for report in reports], totals, damages)

    def check_damage(self, max_percent: float) -> None:
        """Raise TooMuchDamage if more than ``max_percent`` of the records or of the files are damaged."""
        totals = self.statistics()
        files, incomplete = totals["files"], totals["incomplete_files"]
        records, damaged = totals["records"], totals["damaged"]
        if 100 * incomplete > max_percent * files:
            summary = f"{incomplete:,} of {files:,} files are incomplete"
        elif 100 * damaged > max_percent * records:
            summary = f"{damaged:,} of {records:,} lines or files are damaged"
        else:
            return
        if not self.damages:
            raise TooMuchDamage("Nothing could be read.")
        raise TooMuchDamage(
            f"{self.damages[0]}. In total, {summary}; repair them, or allow more than {max_percent:g} % (--max-bad)."
        )

    def check_letters(self) -> None:
        """Warn if cleaning removed more than half of the letters. Raises CorpusError if it removed nearly all."""
        raw, kept = (sum(getattr(report, name) for report in self.file_reports) for name in ("letters", "kept_letters"))
        check_letters("the inputs", Letters(raw, kept))

    def statistics(self, copies: int = 0) -> ReadingStatistics:
        """The statistics of reading; ``copies`` is the number of files skipped as copies."""
        return {
            "files": len(self.files),
            "bytes": sum(file.size for file in self.files),
            "records": sum(report.records for report in self.file_reports),
            "copies": copies,
            "damaged": sum(report.damaged for report in self.file_reports),
            "incomplete_files": sum(report.incomplete for report in self.file_reports),
            "damages": [str(damage) for damage in self.damages[:MAX_DAMAGES]],
        }
