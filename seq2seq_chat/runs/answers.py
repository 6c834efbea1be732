"""Replies to the same questions, which a run keeps while its checkpoints come and go; in its file answers.jsonl."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from seq2seq_chat.runs.json_lines import append_durably, read_json_lines
from seq2seq_chat.runs.run import Run, snapshot_step


def read_answers(run: Run) -> dict[int, dict[str, str]]:
    """The replies of a run by training step and question."""
    answers: defaultdict[int, dict[str, str]] = defaultdict(dict)
    for line in read_json_lines(run.answers_file):
        question, reply = line.get("question"), line.get("reply")
        if isinstance(question, str) and isinstance(reply, str):
            answers[line["step"]][question] = reply
    return dict(answers)


def add_answer(run: Run, step: int, question: str, reply: str) -> None:
    """Store a reply. Raises UserError if the file could not be written."""
    append_durably(run.answers_file, {"step": step, "question": question, "reply": reply})


def unanswered_steps(run: Run, questions: Sequence[str], answers: Mapping[int, Mapping[str, str]]) -> list[int]:
    """The steps of weights that have not replied to all questions.

    Those that training deletes next are first: checkpoints, the oldest first, and then snapshots, the newest first.
    """
    kept = {snapshot_step(name) for name in run.snapshots()}
    steps = sorted(run.saved_steps(), key=lambda step: (step in kept, -step if step in kept else step))
    return [step for step in steps if not answers.get(step, {}).keys() >= set(questions)]
