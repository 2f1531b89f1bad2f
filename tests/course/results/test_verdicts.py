"""Three words for an interval, and tables that say what they are about."""

import math
import re

import pytest

from course.results.bootstrap import Estimate, verdict_of
from course.results.verdicts import CEILING, TIE, VerdictTable, ends_of, say, verdicts_together


def estimate(low: float, high: float, p: float = 0.001) -> Estimate:
    return Estimate((low + high) / 2, low, high, p)


ROWS = {
    "one <b> two": {"topic": estimate(1, 2), "next": estimate(-2, -1)},
    "longer": {"topic": estimate(-1, 2, 0.4), "next": estimate(0, 0, 1)},
}


@pytest.mark.parametrize(
    ("low", "high", "word", "near"),  # near: that it is less than 1 away from 0
    [
        (0.25, 2, "supported", "undecided"),
        (-2, -0.25, "contradicted", "undecided"),
        (-0.75, 0.5, "undecided", "supported"),
        (0, 1, "undecided", "undecided"),
        (-2, -1.5, "contradicted", "contradicted"),
    ],
)
def test_the_whole_interval_decides_and_is_said_with_the_verdict(
    capsys: pytest.CaptureFixture[str], low: float, high: float, word: str, near: str
) -> None:
    assert verdict_of(low, high) == word
    assert verdict_of(low + 50, high + 50, than=50) == word
    say("so it is", estimate(low, high), digits=2)
    say("so it is", estimate(low, high), within=1)
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{word:<15}so it is: {low:+.2f} to {high:+.2f}"
    assert second.split()[0] == near


@pytest.mark.parametrize(
    ("chances", "kept"),
    [
        ((0.04,), 1),
        ((0.03, 0.04), 0),  # 0.04 alone would do, behind 0.03 it does not
        ((0.04, 0.02), 2),  # the second is tested against one only
        ((0.02, 0.04, 0.01), 3),
        ((0.001, 0.03, 0.9), 1),
        ((math.nan, 0.01), 1),
    ],
)
def test_many_claims_at_once_need_clearer_intervals(chances: tuple[float, ...], kept: int) -> None:
    found = [Estimate((-1) ** n, -2, 2, chance) for n, chance in enumerate(chances)]
    clearest = sorted(range(len(chances)), key=lambda n: (math.isnan(chances[n]), chances[n]))
    words = ("supported", "contradicted")
    for n, word in enumerate(verdicts_together(found)):
        assert word == (words[n % 2] if n in clearest[:kept] else "undecided")


def test_a_table_tests_its_verdicts_together_and_counts_them() -> None:
    def table(*chances: float) -> VerdictTable:
        return VerdictTable({str(p): {"task": estimate(0.5, 1, p)} for p in chances}, "These.")

    for chances, decided, counted in (
        ((0.04,), 1, "These. One verdict."),
        ((0.01, 0.04), 2, "These. 2 verdicts, tested together (Holm)."),
        ((0.04, 0.01, 0.03), 1, "These. 3 verdicts, tested together (Holm): 2 that would be "),
    ):
        made = table(*chances)
        assert (made.decided(), made.decided(alone=True)) == (decided, len(chances))
        assert repr(made).startswith(counted)
        assert (
            repr(made).count("undecided +0.5 to +1.0 (alone supported)")
            == made.decided(alone=True) - decided
        )
    assert "+0.5 to +1.0 (alone supported)</" in table(0.04, 0.03)._repr_html_().replace("<br>", "")


def test_a_table_has_its_words_and_intervals_in_place() -> None:
    lines = repr(VerdictTable(ROWS, "These only.", {"paper": {"longer": "yes"}})).splitlines()
    assert lines[0] == "These only. 4 verdicts, tested together (Holm)."
    assert lines[1].split() == ["paper", "topic", "next"]
    assert re.split("  +", lines[2])[0::2] == ["one <b> two", "contradicted -2.0 to -1.0"]
    assert lines[3].split()[:3] == ["longer", "yes", "undecided"]
    assert lines[3].endswith(f"undecided {TIE}")
    assert ends_of(Estimate(99.9, 99.9, 99.9, 0), 1) == CEILING
    assert lines[2].index("supported") == lines[3].index("undecided") == lines[1].index("topic")


@pytest.mark.parametrize(
    ("ink", "papers"),  # JupyterLab's text (87 % of it), and its rows: plain, striped, pointed at
    [(0, ["#ffffff", "#f5f5f5", "#e1f5fe"]), (255, ["#111111", "#212121", "#0e2f3e"])],
)
def test_verdicts_can_be_read_in_both_themes(ink: int, papers: list[str]) -> None:
    shown = VerdictTable(ROWS, "These <only>.", {"paper": {"longer": "a & b"}})._repr_html_()
    for text in ("These &lt;only&gt;.", ">one &lt;b&gt; two<", ">a &amp; b<", 'scope="row"'):
        assert text in shown
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


@pytest.mark.parametrize(
    ("rows", "caption", "message"),
    [
        (ROWS, " ", "say in the caption"),
        (ROWS | {"third": {"topic": estimate(0, 1)}}, "c", "the same tasks"),
        ({}, "c", "needs claims"),
    ],
)
def test_a_table_without_a_caption_or_with_gaps_is_refused(
    rows: dict[str, dict[str, Estimate]], caption: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        VerdictTable(rows, caption)
