"""A plugin over nbval: two outputs are alike if their words are, and their numbers nearly.

What a network has learned differs in the fourth or fifth digit from one CPU to the next. A number
with a point in it may be off by 5 in 10,000, and by one in its last digit if it has four digits or
more. A number and the blanks that pad it count as one thing: 100.0 stands where a blank and 99.9
stood. All else is compared sign by sign. Load it with ``-p nbval_tolerance``.
"""

import re
from decimal import Decimal
from typing import Any

from nbval.plugin import IPyNbCell

_WRITTEN = r"(?<![\w.])[-+−]?\d[\d,]*\.\d+(?:e[+-]?\d+)?(?![\w.])"
NUMBER = re.compile(_WRITTEN)
# in a table a wider number takes a blank before it (aligned to the right) or behind it
PADDED = (re.compile(f" *{_WRITTEN}"), re.compile(f"{_WRITTEN} *"))
RELATIVE = 5e-4


class Output(str):
    """Text of an output that compares numbers by their size."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and alike(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def alike(one: str, other: str) -> bool:
    """Whether two texts differ in the last digits of some numbers at most."""
    lines, others = one.split("\n"), other.split("\n")
    return len(lines) == len(others) and all(map(_line_alike, lines, others))


def _line_alike(one: str, other: str) -> bool:
    numbers, others = NUMBER.findall(one), NUMBER.findall(other)
    if len(numbers) != len(others) or not all(map(near, numbers, others)):
        return False
    return NUMBER.split(one) == NUMBER.split(other) or any(
        field.split(one) == field.split(other)
        and [*map(len, field.findall(one))] == [*map(len, field.findall(other))]
        for field in PADDED
    )


def near(one: str, other: str) -> bool:
    """Whether two numbers are near, as they are written."""
    (a, place), (b, other_place) = map(_value_and_last_place, (one, other))
    finer, larger = min(place, other_place), max(abs(a), abs(b))  # 99.9 has the place of 100.0
    last = 1.01 * finer if larger >= 999.99 * finer else 0.0
    return abs(a - b) <= max(RELATIVE * larger, last)


def _value_and_last_place(number: str) -> tuple[float, float]:
    """Return a number, and what one in its last digit is worth: 9.99e-5 -> 1e-7."""
    written = Decimal(number.replace(",", "").replace("−", "-"))
    return float(written), 10.0 ** int(written.as_tuple().exponent)


def pytest_configure() -> None:
    """Let nbval compare what it has sanitized by our measure."""
    as_it_was = IPyNbCell.sanitize

    def sanitize(cell: IPyNbCell, text: Any) -> Any:
        clean = as_it_was(cell, text)
        return Output(clean) if isinstance(clean, str) else clean

    IPyNbCell.sanitize = sanitize
