"""A plugin over nbval: two outputs are alike if their words are, and their numbers nearly.

What a network has learned differs in the fourth or fifth digit from one CPU to the next. A number
with a point in it may be off by 5 in 10,000, and by one in its last digit if it has four digits or
more. All else is compared sign by sign. Load it with ``-p nbval_tolerance``.
"""

import re
from typing import Any

from nbval.plugin import IPyNbCell

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*\.\d+(?:e[+-]?\d+)?(?![\w.])")
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
    if NUMBER.split(one) != NUMBER.split(other):
        return False
    return all(map(near, NUMBER.findall(one), NUMBER.findall(other)))


def near(one: str, other: str) -> bool:
    """Whether two numbers are near, as they are written."""
    a, b = (float(number.replace(",", "")) for number in (one, other))
    longer, last = max(one, other, key=len), 0.0  # 99.9 is as near to 100.0 as 100.0 to 99.9
    if "e" not in one + other and len(re.sub(r"\D", "", longer).lstrip("0")) >= 4:
        last = 1.01 * 10.0 ** -len(longer.partition(".")[2])
    return abs(a - b) <= max(RELATIVE * max(abs(a), abs(b)), last)


def pytest_configure() -> None:
    """Let nbval compare what it has sanitized by our measure."""
    as_it_was = IPyNbCell.sanitize

    def sanitize(cell: IPyNbCell, text: Any) -> Any:
        clean = as_it_was(cell, text)
        return Output(clean) if isinstance(clean, str) else clean

    IPyNbCell.sanitize = sanitize
