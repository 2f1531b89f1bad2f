"""Three words for an interval, and tables that say what they are about."""

import re
from html.parser import HTMLParser

import pytest
from scipy.stats import t

from course.results.bootstrap import verdict_of
from course.results.verdicts import VerdictTable, decided_together, say


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.1, 2, "supported"),
        (-2, -0.1, "contradicted"),
        (-1, 1, "undecided"),
        (0, 1, "undecided"),
        (-1, 0, "undecided"),
        (0, 0, "undecided"),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, word: str) -> None:
    assert verdict_of(low, high) == word
    assert verdict_of(low + 50, high + 50, than=50) == word


def test_a_verdict_is_said_with_its_interval(capsys: pytest.CaptureFixture[str]) -> None:
    say("it is so", -3, -1.25)
    assert capsys.readouterr().out == "contradicted   it is so: -3.0 to -1.2\n"
    say("and so", 0.126, 0.2, digits=2)
    assert capsys.readouterr().out == "supported      and so: +0.13 to +0.20\n"


ROWS = {
    "one <b> two": {"topic": (1.0, 2.0), "next": (-2.0, -1.0)},
    "longer": {"topic": (-1.0, 2.0), "next": (0.5, 1.0)},
}


def test_a_table_has_its_words_and_intervals_in_place() -> None:
    lines = repr(VerdictTable(ROWS, "These checkpoints only.")).splitlines()
    assert lines[0] == "These checkpoints only."
    assert lines[1].split() == ["topic", "next"]
    assert lines[2].split("  ")[0] == "one <b> two"
    assert "supported +1.0 to +2.0" in lines[2]
    assert lines[2].endswith("contradicted -2.0 to -1.0")
    assert lines[2].index("supported") == lines[3].index("undecided") == lines[1].index("topic")
    beside = repr(VerdictTable(ROWS, "c", {"the paper": {"longer": "yes"}}))
    assert beside.splitlines()[3].split()[:3] == ["longer", "yes", "undecided"]


@pytest.mark.parametrize(
    ("chances", "kept"),
    [
        ((0.04,), 1),
        ((0.03, 0.04), 0),  # 0.04 alone would do, behind 0.03 it does not
        ((0.04, 0.02), 2),  # the second is tested against one only
        ((0.02, 0.04, 0.01), 3),
        ((0.001, 0.03, 0.9), 1),
    ],
)
def test_many_claims_at_once_need_clearer_intervals(chances: tuple[float, ...], kept: int) -> None:
    reach = t.ppf(0.975, 6)
    rows = {}
    for number, chance in enumerate(chances):
        middle = (-1) ** number * t.isf(chance / 2, 6)  # to either side
        rows[str(number)] = {"task": (middle - reach, middle + reach)}
    clearest = sorted(rows, key=lambda claim: chances[int(claim)])
    assert decided_together(rows, 6) == [(claim, "task") for claim in clearest[:kept]]


def test_a_table_is_read_aloud_with_its_caption_and_headings() -> None:
    table = VerdictTable(ROWS, "These <only>.", {"paper": {"longer": "a <i> & b"}})
    shown = table._repr_html_()
    parts: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            parts.append(data)

    Reader().feed(shown)
    assert parts[0] == "These <only>."
    assert {"one <b> two", "a <i> & b", "contradicted", "-2.0 to -1.0"} <= set(parts)
    assert shown.count('scope="row"') == 2
    assert shown.count('scope="col"') == 4
    assert shown.count("<tr>") == 3


@pytest.mark.parametrize(
    ("ink", "papers"),  # JupyterLab's text (87 % of it), and its rows: plain, striped, pointed at
    [(0, ["#ffffff", "#f5f5f5", "#e1f5fe"]), (255, ["#111111", "#212121", "#0e2f3e"])],
)
def test_verdicts_can_be_read_in_both_themes(ink: int, papers: list[str]) -> None:
    shown = VerdictTable(ROWS, "c")._repr_html_()
    found = dict(re.findall(r'color-mix\(in srgb, (#\w+) 50%, currentColor\)">(\w+)', shown))
    assert sorted(found.values()) == ["contradicted", "supported", "undecided"]

    def light(color: list[float]) -> float:
        linear = [c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def rgb(color: str) -> list[float]:
        return [c / 255 for c in bytes.fromhex(color[1:])]

    for color in found:
        for paper in map(rgb, papers):
            text = [0.87 * ink / 255 + 0.13 * p for p in paper]
            mixed = [0.5 * c + 0.5 * t for c, t in zip(rgb(color), text, strict=True)]
            dark, bright = sorted([light(mixed), light(paper)])
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, (found[color], paper)


def test_a_table_without_a_caption_or_with_gaps_is_refused() -> None:
    with pytest.raises(ValueError, match="say in the caption"):
        VerdictTable(ROWS, " ")
    with pytest.raises(ValueError, match="the same tasks"):
        VerdictTable({**ROWS, "third": {"topic": (0.0, 1.0)}}, "c")
    with pytest.raises(ValueError, match="needs claims"):
        VerdictTable({}, "c")
