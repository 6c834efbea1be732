"""Aligned tables of text."""

from typing import Literal

import pytest

from seq2seq_chat.system.tables import format_table

ROWS = [("name", "loss", "n"), ("a", "12.50", "1"), ("longer", "3", "1,000")]
RIGHT = ["name     loss      n", "a       12.50      1", "longer      3  1,000"]
MARKDOWN = [
    *("| name   |  loss |     n |", "| ------ | ----: | ----: |"),
    *("| a      | 12.50 |     1 |", "| longer |     3 | 1,000 |"),
]


@pytest.mark.parametrize(
    ("align", "style", "lines"),
    [
        ("l", "plain", ["name    loss   n", "a       12.50  1", "longer  3      1,000"]),  # no spaces at the end
        ("lr", "plain", RIGHT),  # the last letter holds for all further columns
        ("lrr", "plain", RIGHT),
        ("lr", "ruled", [RIGHT[0], "------  -----  -----", *RIGHT[1:]]),
        ("lr", "markdown", MARKDOWN),
    ],
)
def test_columns_are_aligned(align: str, style: Literal["plain", "ruled", "markdown"], lines: list[str]) -> None:
    assert format_table(ROWS, align, style).splitlines() == lines


def test_rows_must_have_the_same_number_of_cells() -> None:
    with pytest.raises(ValueError, match="zip"):
        format_table([("a", "b"), ("c",)])
