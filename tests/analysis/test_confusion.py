"""The picture of a confusion: what it counts, and what its words say."""

from bertedu.analysis.confusion import confusion_map

LABELS = ("sea", "land", "air")


def test_the_words_count_the_diagonal_and_name_the_most_frequent_mistake() -> None:
    right, said = [0, 0, 0, 1, 1, 2], [0, 1, 1, 1, 0, 2]
    alt = confusion_map(right, said, LABELS, "Six").alt
    assert alt == "Six: 3 of 6 on the diagonal. Most often sea was called land."
    assert confusion_map(said, right, LABELS, "Six").alt.endswith("land was called sea.")
    assert confusion_map(right, right, LABELS, "Six").alt == "Six: 6 of 6 on the diagonal."


def test_a_class_without_examples_has_an_empty_row() -> None:
    assert confusion_map([0, 1], [2, 1], LABELS, "Two").png.startswith(b"\x89PNG")
