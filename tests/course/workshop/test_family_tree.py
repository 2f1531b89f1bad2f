"""The family tree: every word in its place, every box dated in its column, nobody left out."""

from itertools import pairwise

from test_schematics import misplaced, strong, tree

from course.workshop.family_tree import COLUMNS, FAMILY, family_tree, left, middle, right


def test_every_word_has_its_place() -> None:
    """The bug that one makes when a model is added: a line through another one's box."""
    assert misplaced(family_tree()) == []


def test_everyone_stands_in_the_column_of_their_date_and_nobody_on_anybody() -> None:
    for name, (date, column, row, _) in FAMILY.items():
        year, month = date.split("-")
        words = COLUMNS[column]
        assert year in words or int(year) <= 2017, name
        assert ("from July" in words) == (int(month) > 6) or year != "2019", name
        assert f"{name} {date}" in family_tree().alt
        assert sum((column, row) == (c, r) for _, c, r, _ in FAMILY.values()) == 1
    assert [column for _, column, *_ in FAMILY.values()] == sorted(
        c for _, c, *_ in FAMILY.values()
    )
    assert strong(family_tree()) == ["BERT 2018-10"]


def test_every_line_ends_at_a_box_and_everyone_but_the_first_two_has_one() -> None:
    heads = [tuple(map(float, p.attrib["points"].split()[0].split(","))) for p in
             tree(family_tree()).iter("{http://www.w3.org/2000/svg}polygon")]  # fmt: skip
    reached = {
        name
        for name in FAMILY
        for x, y in heads
        if left(name) - 1 <= x <= right(name) and abs(y - middle(name)) < 23
    }
    assert set(FAMILY) - reached == {"seq2seq", "Transformer"}
    assert len(heads) == 7 + 2 + 9
    assert list(pairwise(COLUMNS))  # from left to right in time
