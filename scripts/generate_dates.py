#!/usr/bin/env python3
"""Generate the bundled dates: dates in many formats, and the same dates in ISO 8601.

python scripts/generate_dates.py configs/sample

Writes dates_train.tsv, dates_validation.tsv and dates_test.tsv to FOLDER, for example a line "Tue, the 3rd of March
1987", a tab, and "1987-03-03". No date is in two of the files. With dots the day comes first (3.12.1987), with slashes
the month (12/3/1987); two-digit years are between 1950 and 2049. The output is always the same.
"""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

import click

from seq2seq_chat.cli.options import run_command

FIRST, LAST = date(1950, 1, 1), date(2049, 12, 31)
LINES = {"train": 8700, "validation": 300, "test": 1000}
LOWER_CASE = 0.15  # share of the dates that are written without capitals
ORDINALS = [
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"),
    *("eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth"),
    *("nineteenth", "twentieth"),
]
ORDINALS += [f"twenty-{ordinal}" for ordinal in ORDINALS[:9]] + ["thirtieth", "thirty-first"]
MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
DAYS = ("{d}", "{d}", "{dth}", "{dth} of", "the {dth} of", "the {ordinal} of")  # as they stand before a month
FORMATS = [
    *(f"{day} {{month}} {{yyyy}}" for day in DAYS),
    *(f"{day} {{month}}, {{yyyy}}" for day in DAYS[2:]),
    *("{month} {d}, {yyyy}", "{month} {d} {yyyy}", "{month} {dth}, {yyyy}", "{month} {dth} {yyyy}"),
    *("{mon} {d}, {yyyy}", "{mon} {d} {yyyy}", "{mon}. {d}, {yyyy}", "{mon} {dth}, {yyyy}", "{mon} {d}, '{yy}"),
    *("{d} {mon} {yyyy}", "{d} {mon}. {yyyy}", "{dth} {mon} {yyyy}", "{d} {mon} '{yy}", "{d} {mon} {yy}"),
    *("{weekday}, {month} {d}, {yyyy}", "{weekday}, {month} {dth} {yyyy}", "{weekday} {d} {month} {yyyy}"),
    *("{weekday}, {d} {month} {yyyy}", "{weekday}, the {dth} of {month} {yyyy}", "{wkd} {d} {mon} {yyyy}"),
    *("{wkd}, {mon} {d}, {yyyy}", "{wkd}, {mon} {d} {yyyy}", "{wkd} {d} {mon} '{yy}", "{yyyy}, {month} {d}"),
    *("{dd}.{mm}.{yyyy}", "{d}.{m}.{yyyy}", "{d}. {m}. {yyyy}", "{dd}.{mm}.{yy}", "{d}.{m}.{yy}"),
    *("{mm}/{dd}/{yyyy}", "{m}/{d}/{yyyy}", "{mm}/{dd}/{yy}", "{m}/{d}/{yy}"),
    *("{d}-{mon}-{yyyy}", "{dd}-{mon}-{yy}", "{yyyy}/{mm}/{dd}", "{yyyy}-{mm}-{dd}", "{yyyy} {mon} {d}"),
]


def write_date(day: date, form: str) -> str:
    """A date in one of ``FORMATS``."""
    suffix = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    month, weekday = MONTHS[day.month - 1], WEEKDAYS[day.weekday()]
    return form.format(
        d=day.day,
        dd=f"{day.day:02}",
        dth=f"{day.day}{suffix}",
        ordinal=ORDINALS[day.day - 1],
        m=day.month,
        mm=f"{day.month:02}",
        month=month,
        mon=month[:3],
        yyyy=day.year,
        yy=f"{day.year % 100:02}",
        weekday=weekday,
        wkd=weekday[:3],
    )


def generate_dates(seed: int = 1) -> dict[str, list[tuple[str, str]]]:
    """The pairs of each file; all dates differ."""
    rng = random.Random(seed)
    numbers = iter(rng.sample(range((LAST - FIRST).days + 1), sum(LINES.values())))
    files: dict[str, list[tuple[str, str]]] = {}
    for name, lines in LINES.items():
        files[name] = []
        for _, number in zip(range(lines), numbers, strict=False):
            day = FIRST + timedelta(number)
            written = write_date(day, rng.choice(FORMATS))
            files[name].append((written.lower() if rng.random() < LOWER_CASE else written, day.isoformat()))
    return files


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path) -> None:
    """Write the files and print their sizes."""
    for name, pairs in generate_dates().items():
        text = "".join(f"{source}\t{target}\n" for source, target in pairs)
        (folder / f"dates_{name}.tsv").write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"{len(pairs):,} dates in {folder / f'dates_{name}.tsv'}")


if __name__ == "__main__":
    run_command(main)
