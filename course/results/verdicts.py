"""What an interval makes of a claim, in three words, and tables of such verdicts."""

import html
from collections.abc import Mapping, Sequence
from math import isnan

from bertedu.analysis.views import BLUE, LIMIT, ORANGE
from course.results.bootstrap import Estimate, Verdict

CEILING, TIE = "at the ceiling in every run", "no difference at all"  # neither has an interval
LEVEL = 0.05
Table = Mapping[str, Mapping[str, Estimate]]  # claim -> task -> difference
_COLORS: dict[Verdict, str] = {"supported": BLUE, "undecided": LIMIT, "contradicted": ORANGE}


def say(text: str, found: Estimate, digits: int = 1, within: float | None = None) -> None:
    """Print what a difference makes of one claim, with the ends of its 95 % interval.

    The claim is that the difference is above 0; with ``within``, a margin named beforehand, that it
    is at most so large: "supported" if the whole interval is so near to 0, "contradicted" if no
    part of it is. To be undecided which of two is better is not enough, since the interval may be
    long. Several claims belong into a `VerdictTable`, which tests them together.
    """
    low, high = found.low, found.high
    if within is None:
        word = found.verdict
    elif -within < low and high < within:
        word = "supported"
    else:
        word = "contradicted" if low > within or high < -within else "undecided"
    print(f"{word:<15}{text}: {ends_of(found, digits)}")


def ends_of(found: Estimate, digits: int) -> str:
    """Write the ends of an interval; if they are one, no chance was measured: `CEILING`, `TIE`."""
    low, high = found.low, found.high
    if low == high:
        return CEILING if low else TIE
    return f"{low:+.{digits}f} to {high:+.{digits}f}"


def verdicts_together(found: Sequence[Estimate]) -> list[Verdict]:
    """Return the verdicts of claims that are tested together (Holm 1979).

    That any that is decided is false has at most a chance of `LEVEL`. The clearest is tested as one
    of all, the next as one of the others, and so on; after the first that fails, none is decided.
    """
    verdicts: list[Verdict] = ["undecided"] * len(found)
    chances = [1.0 if isnan(one.p) else one.p for one in found]
    for rank, place in enumerate(sorted(range(len(found)), key=chances.__getitem__)):
        if chances[place] * (len(found) - rank) >= LEVEL:
            break
        verdicts[place] = "supported" if found[place].value > 0 else "contradicted"
    return verdicts


class VerdictTable:
    """Claims as rows, tasks as columns: in each cell a verdict and its interval.

    All are tested together (`verdicts_together`): where an interval that would decide alone is not
    clear enough for one of so many, the cell says "undecided" and what it would say alone. The
    caption ends with the number of verdicts. The plain text has the words of the table.
    """

    def __init__(
        self,
        rows: Table,
        caption: str,
        beside: Mapping[str, Mapping[str, str]] | None = None,
        digits: int = 1,
    ) -> None:
        """Take claim -> task -> difference, and heading -> claim -> text ``beside`` it.

        Raises ValueError for no claim, a claim of other tasks than the first, or an empty caption.
        """
        tasks = {tuple(cells) for cells in rows.values()}
        if len(tasks) != 1:
            raise ValueError("a table needs claims, and for all of them the same tasks")
        if not caption.strip():
            raise ValueError("say in the caption what the intervals know, and what they do not")
        self.beside, self.digits = beside or {}, digits
        self.headings = ["", *self.beside, *next(iter(tasks))]
        found = [one for cells in rows.values() for one in cells.values()]
        verdicts = iter(verdicts_together(found))
        self.rows = {
            claim: {task: (one, next(verdicts)) for task, one in cells.items()}
            for claim, cells in rows.items()
        }
        lost = self.decided(alone=True) - self.decided()
        counted = f"{len(found)} verdicts, tested together (Holm)"
        are = "is" if lost == 1 else "are"
        counted += f": {lost} that would be decided alone {are} not." if lost else "."
        self.caption = f"{caption} {counted if len(found) > 1 else 'One verdict.'}"

    def decided(self, alone: bool = False) -> int:
        """Return how many verdicts are decided; ``alone``: if each were the only one."""
        return sum(
            (one.verdict if alone else word) != "undecided"
            for cells in self.rows.values()
            for one, word in cells.values()
        )

    def _line(self, claim: str) -> list[tuple[str, Verdict | None]]:
        line: list[tuple[str, Verdict | None]] = [
            (texts.get(claim, ""), None) for texts in self.beside.values()
        ]
        for one, word in self.rows[claim].values():
            alone = f" (alone {one.verdict})" if one.verdict != word else ""
            line.append((ends_of(one, self.digits) + alone, word))
        return line

    def __repr__(self) -> str:
        """Return the table as text, columns aligned."""
        table = [self.headings]
        for claim in self.rows:
            cells = [" ".join(filter(None, (word, text))) for text, word in self._line(claim)]
            table.append([claim, *cells])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in table)
        return "\n".join([self.caption, *lines])

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.headings)
        body = ""
        for claim in self.rows:
            cells = "".join(f"<td>{_cell(text, word)}</td>" for text, word in self._line(claim))
            name = f'<th scope="row" style="text-align:left">{html.escape(claim)}</th>'
            body += f"<tr>{name}{cells}</tr>"
        style = "caption-side:bottom;text-align:left;font-style:italic;color:inherit"
        return (
            f'<table><caption style="{style}">{html.escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )


def _cell(text: str, word: Verdict | None) -> str:
    if word is None:
        return html.escape(text)
    # with some of the page's own text color, so that it can be read on white and on black
    color = f"color-mix(in srgb, {_COLORS[word]} 50%, currentColor)"
    return f'<b style="color: {color}">{word}</b><br>{html.escape(text)}'
