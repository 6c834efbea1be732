"""Dates and times of chats, whose format depends on the language and the region of a phone."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args

from dateutil import parser

from seq2seq_chat.data.corpus_file import CorpusError

logger = logging.getLogger(__name__)

DateOrder = Literal["dmy", "mdy", "ymd"]
"""The order of day, month and year."""
DATE_ORDERS: tuple[DateOrder, ...] = get_args(DateOrder)

_MONTHS = {
    name: month
    for names in (  # how they begin, in the languages that write dates with names; accents as written
        "jan feb mar apr may jun jul aug sep oct nov dec",  # English
        "jan feb mär apr mai juni juli aug sept okt nov dez",  # German
        "janv fév mars avr mai juin juil aoû sept oct nov déc",  # French
        "ene feb mar abr may jun jul ago sep oct nov dic",  # Spanish
        "gen feb mar apr mag giu lug ago set ott nov dic",  # Italian
        "jan fev mar abr mai jun jul ago set out nov dez",  # Portuguese
        "gen febr març abr maig juny jul ag set oct nov des",  # Catalan
        "xan feb mar abr mai xuñ xul ago set out nov dec",  # Galician
        "urt ots mar api mai eka uzt abu ira urr aza abe",  # Basque
        "ian feb mar apr mai iun iul aug sept oct noi dec",  # Romanian
        "jan feb mrt apr mei jun jul agu sep okt nov des",  # Dutch, Indonesian, Norwegian
        "jan feb maa apr maj jun jul aug sep okt nov dec",  # Dutch, Danish, Swedish
        "jan feb mac apr mei jun jul ogo sep okt nov dis",  # Malay
        "tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu",  # Finnish
        "jan febr már ápr máj jún júl aug szept okt nov dec",  # Hungarian, Slovak
        "sty lut mar kwi maj cze lip sie wrz paź lis gru",  # Polish
        "led úno bře dub kvě čvn čvc srp zář říj lis pro",  # Czech
        "led úno bře dub kvě června července srp zář říj lis pro",
        "jan shk mar pri maj qer korr gush sht tet nën dhj",  # Albanian
        "oca şub mar nis may haz tem ağu eyl eki kas ara",  # Turkish
        "янв фев мар апр мая июн июл авг сен окт ноя дек",  # Russian
        "яну фев мар апр май юни юли авг сеп окт ное дек",  # Bulgarian
        "січ лют бер кві тра чер лип сер вер жов лис гру",  # Ukrainian
        "ιαν φεβ μαρ απρ μαΐ ιουν ιουλ αυγ σεπ οκτ νοε δεκ",  # Greek
        "ιαν φεβ μάρ απρ μάι ιούν ιούλ αύγ σεπ οκτ νοέ δεκ",
    )
    for month, name in enumerate(names.split(), start=1)
}
_HALVES = (  # of the day, before and after noon, as regular expressions
    (r"a\W{0,3}m\b", r"p\W{0,3}m\b"),  # English, Spanish, Portuguese, …
    ("오전", "오후"),
    ("上午|午前|凌晨|早上|清晨", "下午|午後|晚上|傍晚|中午"),  # Chinese, Japanese
    ("ص", "م"),  # Arabic
    (r"π\W?μ", r"μ\W?μ"),  # Greek
    (r"öö\b", r"ös\b"),  # Turkish
    ("dop", "odp"),  # Czech
    (r"de\.", r"du\."),  # Hungarian
    (r"\bf\.?m\b", r"\be\.?m\b"),  # Swedish
    ("vorm", "nachm"),  # German
    ("पूर्वाह्न", "अपराह्न"),  # Hindi
    (r"\bpg\b", "ptg"),  # Malay
    (r"\bsa\b", r"\bch\b"),  # Vietnamese
    (r"ap\b", r"ip\b"),  # Finnish
    (r"\bp\W?d\b", r"\bm\W?d\b"),  # Albanian
    ("முற்பகல்|மு\\.ப", "பிற்பகல்|பி\\.ப"),  # Tamil
    ("manhã|madrugada", "tarde|noite"),  # Portuguese
    ("mañana", "noche"),  # Spanish
    (r"לפנה[״\"]צ", r"אחה[״\"]צ"),  # Hebrew
    (r"\bق\.?ظ|قبل.?از.?ظهر", r"\bب\.?ظ|بعد.?از.?ظهر"),  # Persian
    ("قبل دوپہر", "بعد دوپہر"),  # Urdu
    ("ก่อนเที่ยง", "หลังเที่ยง"),  # Thai
    (r"пр\.?\s?об", r"сл\.?\s?об"),  # Bulgarian
    (r"претпл|пр[еи]је? ?подне", r"попл|по(?:слије)? ?подне"),  # Macedonian, Serbian
    (r"\bдп\b", r"\bпп\b"),  # Ukrainian
    (r"prijepodne|pre podne", r"popodne|poslijepodne|po podne"),  # Bosnian, Croatian, Serbian
    (r"\bdop\b", r"\bpop\b"),  # Slovene
    ("priešpiet", "popiet"),  # Lithuanian
    ("priekšp", "pēcp"),  # Latvian
    (r"\bf\.h\b", r"\be\.h\b"),  # Icelandic
    (r"\br\.n\b", r"\bi\.n\b"),  # Irish
    (r"\bvm\b", r"\bnm\b"),  # Afrikaans
    (r"म\.पू", r"म\.उ"),  # Marathi
    (r"ਪੂ\.ਦੁ", r"ਬਾ\.ਦੁ"),  # Punjabi
    ("ಪೂರ್ವಾಹ್ನ", "ಅಪರಾಹ್ನ"),  # Kannada
    ("ព្រឹក", "ល្ងាច"),  # Khmer
    ("ກ່ອນທ່ຽງ", "ຫຼັງທ່ຽງ"),  # Lao
    ("ጥዋት|ጠዋት", "ከሰዓት"),  # Amharic
    ("နံနက်", "ညနေ"),  # Burmese
    (r"පෙ\.ව", r"ප\.ව"),  # Sinhala
)
_MORNING, _AFTERNOON = (re.compile("|".join(markers), re.IGNORECASE) for markers in zip(*_HALVES, strict=True))

_MONTH = f"(?i:{'|'.join(sorted(_MONTHS, key=len, reverse=True))})"
_DATE = (
    r"(?:\d{1,4}[^\d\n:]{1,4}\d{1,2}[^\d\n:]{1,4}\d{1,4}"
    rf"|\d{{1,4}}[^\d\n:]{{1,8}}?{_MONTH}[^\W\d_]*[^\d\n:]{{1,8}}\d{{1,4}}"  # 5 mars 2023, 2023(e)ko mar. 5(a)
    r"|[^\W\d_]{3,12}[. ]{1,2}\d{1,2}, \d{4})"  # Mar 5, 2023
)
_CLOCK = r"\d{1,2}(?:[:.]|\s?h\s?)\d{2}(?:(?:[:.]|\smin\s)\d{2})?"
STAMP = rf"(?:{_DATE}[^\d\n:]{{1,14}}?{_CLOCK}|{_CLOCK}[^\d\n:]{{1,12}}?{_DATE})[^\d\n:\]\[]{{0,20}}?"
"""A date and a time as a regular expression, in most languages."""

DATE = re.compile(_DATE)
"""A date at the start of a stamp."""

_NUMBERS = re.compile(r"\d+")
_NAMED_DATE = re.compile(rf"(?:\d{{1,4}}[^\d\n:]{{1,8}}?)?({_MONTH})[^\W\d_]*[^\d\n:]{{1,8}}\d{{1,4}}(?:, \d{{4}})?")
_CLOCK_FIRST = re.compile(r"\D*\d{1,2}:")
_HOURS = re.compile(r"\W*(?:ч|h|hs|hrs?|uhr|год|hod|น)\W*", re.IGNORECASE)  # of a clock of 24 hours
_CLOCK_AT_END = re.compile(r"\b(\d{1,2})[:.]\d{2}(?:[:.]\d{2})?([^\d:.]{2,20}\.?)$")
_BUDDHIST_YEARS = 543
_PERSIAN_YEARS = range(1369, 1479)
_YEARS = range(1990, 2100)  # of chats
_EPOCH = datetime(1970, 1, 1)

Fields = tuple[int, int, int]
"""The numbers of a date in the order in which they are written."""


def from_milliseconds(milliseconds: float | str | None) -> datetime | None:
    """A time in UTC from the milliseconds since 1970; None if they are no number, or none of a year before 10,000."""
    try:
        return _EPOCH + timedelta(milliseconds=float(milliseconds)) if milliseconds else None
    except (OverflowError, TypeError, ValueError):
        return None


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
    return _date_and_clock(stamp)[0]


def _date_and_clock(stamp: str) -> tuple[Fields | None, tuple[int, ...]]:
    """The numbers of the date in a stamp, None if it has none, and the numbers of its time of day."""
    numbers = tuple(map(int, _NUMBERS.findall(stamp)))
    if len(numbers) < 3:
        return None, ()
    first = len(numbers) - 3 if _CLOCK_FIRST.match(stamp) else 0
    year, month, day = numbers[first : first + 3]
    return (year, month, day), numbers[:first] or numbers[3:]


def to_date(fields: Fields, order: DateOrder) -> date | None:
    """The date that the numbers mean in an order, or None if there is none; four digits at the start are the year.

    A date of the Persian calendar may be off by a day.
    """
    order = "ymd" if fields[0] > 999 else order
    year, month, day = (fields[order.index(name)] for name in "ymd")
    year += 2000 if year < 100 else 0
    if year in _PERSIAN_YEARS and month <= 12 and day <= 31:  # six months of 31 days, the others of 30
        return date(year + 621, 3, 21) + timedelta(days=30 * (month - 1) + min(month - 1, 6) + day - 1)
    try:
        return date(year - (_BUDDHIST_YEARS if year > 2400 else 0), month, day)
    except (ValueError, OverflowError):
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
        given_stamps = list(stamps)
        known = list(map(_month_as_number, given_stamps))
        self._has_names = known != given_stamps
        self.order: DateOrder = given or _find_order(known, name)
        self._has_halves = not known or any(_AFTERNOON.search(stamp) or _MORNING.search(stamp) for stamp in known)
        self._days: dict[Fields, date | None] = {}
        if unknown := _unknown_half(known):
            logger.warning(
                "%s: times such as “%s” say whether it is before or after noon in unknown words; they are read "
                "as before noon, so breaks between conversations may be missed",
                *(name, unknown.strip()),
            )

    def read(self, stamp: str) -> datetime | None:
        """The time of a stamp, or None if it is none in the order of the file."""
        if self._has_names:
            stamp = _month_as_number(stamp)
        fields, clock = _date_and_clock(stamp)
        if fields is None or len(clock) < 2:
            return None
        if fields not in self._days:
            self._days[fields] = to_date(fields, self.order)
        day = self._days[fields]
        return None if day is None else at(day, clock, stamp if self._has_halves else "")


def at(day: date, clock: Sequence[int], stamp: str) -> datetime | None:
    """A time of a day.

    Args:
        clock: Hour, minute and possibly second.
        stamp: Says whether it is morning or afternoon, on a clock of twelve hours.
    """
    hour, minute, *second = clock
    hour %= 24  # some phones write 24:05
    if hour <= 12 and stamp:
        if _AFTERNOON.search(stamp):
            hour = hour % 12 + 12
        elif _MORNING.search(stamp):
            hour %= 12
    try:
        return datetime(day.year, day.month, day.day, hour, minute, second[0] if second else 0)
    except ValueError:
        return None


def _unknown_half(stamps: Iterable[str]) -> str | None:
    """The first stamp with an unknown word after its time, if all times may be of a clock of twelve hours."""
    clocks = [clock for clock in map(_CLOCK_AT_END.search, stamps) if clock is not None]
    if any(not 1 <= int(clock[1]) <= 12 for clock in clocks):
        return None
    for clock in clocks:
        is_known = _AFTERNOON.search(clock.string) or _MORNING.search(clock.string) or _HOURS.fullmatch(clock[2])
        if re.search(r"[^\W\d_]", clock[2]) and not is_known:
            return clock.string
    return None


def _month_as_number(stamp: str) -> str:
    """A stamp with the name of a month as one with year, month and day in numbers."""
    match = _NAMED_DATE.search(stamp)
    if match is None:
        return stamp
    first, second = _NUMBERS.findall(match[0])
    year, day = (first, second) if len(first) == 4 else (second, first)
    date = f"{int(year) + (2000 if len(year) < 4 else 0)}-{_MONTHS[match[1].lower()]}-{day}"
    return stamp[: match.start()] + date + stamp[match.end() :]


def _find_order(stamps: list[str], name: str) -> DateOrder:
    """The order in which most of the dates are dates, and then the one in which time goes back least often.

    Of equals, it is the one of 23/3/13, 23/3/14 if the first number is always the same and the last one is not.
    """
    dates = [fields for fields in map(date_fields, stamps) if fields is not None]
    scores: dict[DateOrder, tuple[int, int, bool]] = {}
    first, _, last = map(set, zip(*dates, strict=True)) if dates else ((), (), ())
    readings: dict[DateOrder, list[date]] = {}
    for order in DATE_ORDERS:
        possible = [day for day in (to_date(fields, order) for fields in dates) if day is not None]
        days = readings[order] = [day for day in possible if day.year in _YEARS]
        is_year_first = order == "ymd" and len(first) == 1 < len(last)
        scores[order] = len(days), -sum(later < earlier for earlier, later in pairwise(days)), is_year_first
    best = max(DATE_ORDERS, key=lambda order: scores[order])  # the first of equals
    is_tie = scores["dmy"] == scores["mdy"] and readings["dmy"] != readings["mdy"]
    if best == "dmy" and len(dates) > 1 and is_tie and "/" in stamps[0]:  # only with / do some write the month first
        raise CorpusError(
            f"{name}: dates such as {stamps[0]} may start with the day or with the month, and all dates of the file "
            "make sense either way. Say which with --date-order dmy or --date-order mdy."
        )
    return best
