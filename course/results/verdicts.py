"""What an interval makes of a claim, in three words, and tables of such verdicts."""

import html
from collections.abc import Mapping

from bertedu.analysis.views import BLUE, LIMIT, ORANGE
from course.results.bootstrap import Verdict, verdict_of

Ends = tuple[float, float]  # low, high
CEILING = "at the ceiling in every run"  # of a task too easy for an interval
Table = Mapping[str, Mapping[str, Ends]]  # claim -> task -> ends of the interval
_COLORS: dict[Verdict, str] = {"supported": BLUE, "undecided": LIMIT, "contradicted": ORANGE}


def say(text: str, low: float, high: float, digits: int = 1, within: float | None = None) -> None:
    """Print what the interval of a difference makes of a claim, with its ends.

    The claim is that the difference is above 0; with ``within``, that it is at most so large:
    "supported" if the whole interval is so near to 0, "contradicted" if no part of it is. To be
    undecided which of two is better is not enough, since the interval may be long.
    """
    if within is None:
        word = verdict_of(low, high)
    elif -within < low and high < within:
        word = "supported"
    else:
        word = "contradicted" if low > within or high < -within else "undecided"
    print(f"{word:<15}{text}: {_range(low, high, digits)}")


def _range(low: float, high: float, digits: int) -> str:
    return f"{low:+.{digits}f} to {high:+.{digits}f}"


def decided_together(rows: Table, freedom: int) -> list[tuple[str, str]]:
    """Return the (claim, task) that stay decided when a whole table is tested at once (Holm).

    The 95 % intervals are Student's t of so many degrees of ``freedom``, as `interval_over_runs`
    makes them. That any of those returned is false has at most a chance of 5 %. The clearest first.
    """
    from scipy.stats import t

    reach = t.ppf(0.975, freedom)
    cells = [(claim, task, *ends) for claim, of in rows.items() for task, ends in of.items()]
    chances = sorted(
        (2 * t.sf(reach * abs(low + high) / (high - low), freedom), claim, task)
        for claim, task, low, high in cells
    )
    kept = []
    for place, (chance, claim, task) in enumerate(chances):
        if chance * (len(chances) - place) >= 0.05:
            break  # nor any that is less clear
        kept.append((claim, task))
    return kept


class VerdictTable:
    """Claims as rows, tasks as columns: in each cell a verdict and its interval, or `CEILING`.

    A notebook shows it as a table with a caption; its plain text has the same words.
    """

    def __init__(
        self,
        rows: Table,
        caption: str,
        beside: Mapping[str, Mapping[str, str]] | None = None,
        digits: int = 1,
    ) -> None:
        """Take claim -> task -> ends of the interval, and heading -> claim -> text ``beside`` it.

        Raises ValueError if there is no claim, a claim has other tasks than the first, or the
        caption is empty.
        """
        tasks = {tuple(cells) for cells in rows.values()}
        if len(tasks) != 1:
            raise ValueError("a table needs claims, and for all of them the same tasks")
        if not caption.strip():
            raise ValueError("say in the caption what the intervals know, and what they do not")
        self.rows, self.caption, self.digits, self.beside = rows, caption, digits, beside or {}
        self.headings = ["", *self.beside, *next(iter(tasks))]

    def _line(self, claim: str) -> list[tuple[str, Verdict | None]]:
        ends = self.rows[claim].values()
        return [(texts.get(claim, ""), None) for texts in self.beside.values()] + [
            (_range(low, high, self.digits) if low != high else CEILING, verdict_of(low, high))
            for low, high in ends
        ]

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
