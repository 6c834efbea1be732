"""Dates and times of chats, whose format depends on the language and the region of a phone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from dateutil import parser

from seq2seq_chat.data.corpus_file import CorpusError

DateOrder = Literal["dmy", "mdy", "ymd"]
"""The order of day, month and year."""

_CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2})?"
_DATE = r"\d{1,4}[^\d\n:]{1,4}\d{1,2}[^\d\n:]{1,4}\d{1,4}"
STAMP = rf"(?:{_DATE}[^\d\n:]{{1,14}}?{_CLOCK}|{_CLOCK}[^\d\n:]{{1,12}}?{_DATE})[^\d\n:\]\[]{{0,14}}?"
"""A date and a time as a regular expression, in most languages."""

DATE = re.compile(_DATE)
"""A date at the start of a stamp."""

_NUMBERS = re.compile(r"\d+")
_CLOCK_FIRST = re.compile(r"\D*\d{1,2}:")
_AFTERNOON = re.compile(
    r"p\W{0,3}m\b|오후|下午|午後|晚上|傍晚|中午|م|μ\W?μ|ös\b|odp|du\.|\be\.?m\b|nachm|अपराह्न|ptg|\bch\b|ip\b",
    re.IGNORECASE,
)
_MORNING = re.compile(
    r"a\W{0,3}m\b|오전|上午|午前|凌晨|早上|清晨|ص|π\W?μ|öö\b|dop|de\.|\bf\.?m\b|vorm|पूर्वाह्न|\bpg\b|\bsa\b|ap\b",
    re.IGNORECASE,
)
_BUDDHIST_YEARS = 543
_YEARS = range(1990, 2100)  # of chats
_EPOCH = datetime(1970, 1, 1)

Fields = tuple[int, int, int]
"""The numbers of a date in the order in which they are written."""


def from_milliseconds(milliseconds: float) -> datetime:
    """A time in UTC from the milliseconds since 1970. Raises OverflowError."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def seconds_since_1970(time: datetime) -> float:
    """The inverse of ``from_milliseconds``, in seconds."""
    return (time - _EPOCH).total_seconds()


def from_iso(text: str) -> datetime | None:
    """The time of day that ISO 8601 states, without its zone; None if it is none."""
    try:
        return datetime.fromisoformat(text[:19])
    except ValueError:
        return None


@lru_cache(maxsize=1 << 14)
def from_english(text: str) -> datetime | None:
    """A time or date with the English name of a month, such as 12-Mar-23 09:00 AM."""
    try:
        return parser.parse(text).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def date_fields(stamp: str) -> Fields | None:
    """The numbers of the date in a stamp or in a date alone."""
    numbers = [int(number) for number in _NUMBERS.findall(stamp)]
    if _CLOCK_FIRST.match(stamp):
        numbers = numbers[-3:]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) >= 3 else None


def to_date(fields: Fields, order: DateOrder) -> date | None:
    """The date that the numbers mean in an order, or None if there is none."""
    year, month, day = (fields[order.index(name)] for name in "ymd")
    year += 2000 if year < 100 else 0
    try:
        return date(year - (_BUDDHIST_YEARS if year > 2400 else 0), month, day)
    except ValueError:
        return None


class Clock:
    """Reads the stamps of one file, whose dates are all written in the same order.

    Args:
        stamps: One for each date of the file, in their order.
        name: Of the file, for the error message.
        given: The order, if the user said which.

    Raises:
        CorpusError: The dates make sense in two orders.
    """

    def __init__(self, stamps: Iterable[str], name: str, given: DateOrder | None = None) -> None:
        known = list(stamps)
        self.order: DateOrder = given or _find_order(known, name)
        self._has_halves = not known or any(_AFTERNOON.search(stamp) or _MORNING.search(stamp) for stamp in known)
        self._days: dict[tuple[int, ...], date | None] = {}

    def read(self, stamp: str) -> datetime | None:
        """The time of a stamp, or None if it is none in the order of the file."""
        numbers = tuple(map(int, _NUMBERS.findall(stamp)))
        fields, clock = numbers[:3], numbers[3:]
        if _CLOCK_FIRST.match(stamp):
            fields, clock = numbers[-3:], numbers[:-3]
        if fields not in self._days:
            self._days[fields] = to_date((fields[0], fields[1], fields[2]), self.order)
        day = self._days[fields]
        return None if day is None else at(day, clock, stamp if self._has_halves else "")


def at(day: date, clock: Sequence[int], stamp: str) -> datetime | None:
    """A time of a day.

    Args:
        clock: Hour, minute and possibly second.
        stamp: Says whether it is morning or afternoon, on a clock of twelve hours.
    """
    hour, minute, *second = clock
    if hour <= 12 and stamp:
        if _AFTERNOON.search(stamp):
            hour = hour % 12 + 12
        elif _MORNING.search(stamp):
            hour %= 12
    try:
        return datetime(day.year, day.month, day.day, hour, minute, second[0] if second else 0)
    except ValueError:
        return None


def _find_order(stamps: list[str], name: str) -> DateOrder:
    """The order in which most of the dates are dates, and then the one in which time goes back least often."""
    dates = [fields for fields in map(date_fields, stamps) if fields is not None]
    scores: dict[DateOrder, tuple[int, int]] = {}
    readings: dict[DateOrder, list[date]] = {}
    orders: tuple[DateOrder, ...] = ("dmy", "mdy", "ymd")
    for order in orders:
        possible = [day for day in (to_date(fields, order) for fields in dates) if day is not None]
        days = readings[order] = [day for day in possible if day.year in _YEARS]
        scores[order] = len(days), -sum(later < earlier for earlier, later in pairwise(days))
    best = max(orders, key=lambda order: scores[order])  # the first of equals
    is_tie = scores["dmy"] == scores["mdy"] and readings["dmy"] != readings["mdy"]
    if best == "dmy" and len(dates) > 1 and is_tie and "/" in stamps[0]:  # only with / do some write the month first
        raise CorpusError(
            f"{name}: dates such as {stamps[0]} may start with the day or with the month, and all dates of the file "
            "make sense either way. Say which with --date-order dmy or --date-order mdy."
        )
    return best
