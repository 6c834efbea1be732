"""Aligned tables of text."""

import pytest

from seq2seq_chat.system.tables import format_table

ROWS = [("name", "loss", "n"), ("a", "12.50", "1"), ("longer", "3", "1,000")]


def test_columns_are_aligned_and_lines_have_no_trailing_spaces() -> None:
    assert format_table(ROWS, "lrr").splitlines() == [
        "name     loss      n",
        "a       12.50      1",
        "longer      3  1,000",
    ]
    assert format_table(ROWS).splitlines() == ["name    loss   n", "a       12.50  1", "longer  3      1,000"]


def test_the_last_letter_holds_for_all_further_columns() -> None:
    assert format_table(ROWS, "lr") == format_table(ROWS, "lrr")


def test_the_header_may_be_underlined() -> None:
    assert format_table(ROWS, "lr", "ruled").splitlines()[:2] == ["name     loss      n", "------  -----  -----"]


def test_markdown_says_which_columns_are_right_aligned() -> None:
    assert format_table(ROWS, "lr", "markdown").splitlines() == [
        "| name   |  loss |     n |",
        "| ------ | ----: | ----: |",
        "| a      | 12.50 |     1 |",
        "| longer |     3 | 1,000 |",
    ]


def test_rows_must_have_the_same_number_of_cells() -> None:
    with pytest.raises(ValueError, match="zip"):
        format_table([("a", "b"), ("c",)])
