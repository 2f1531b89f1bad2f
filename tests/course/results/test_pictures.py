"""What pictures of results share: panels under their own headings, the paper's numbers in place."""

from matplotlib import pyplot as plt

from course.results import pictures


def test_every_panel_stands_under_its_heading_and_all_under_one_title() -> None:
    headings = {"a": "first", "b": "second", "c": "third"}
    figure, panels = pictures.headed_panels(headings, "all three", (4, 4), columns=2)
    assert {key: axes.get_title() for key, axes in panels.items()} == headings
    assert figure.get_suptitle() == "all three"
    assert list(panels.values()) == figure.axes[:3], "in reading order"
    assert [axes.axison for axes in figure.axes] == [True, True, True, False], "a place is empty"
    plt.close(figure)
    figure, panels = pictures.headed_panels(headings, "all three", (4, 4), sharey=True)
    assert [axes.get_title() for axes in figure.axes] == list(headings.values())
    panels["a"].set_ylim(3, 7)
    assert panels["c"].get_ylim() == (3, 7)
    plt.close(figure)


def test_a_table_of_the_paper_is_read_by_row_and_column() -> None:
    no_nsp = pictures.paper_table("table_5")["No NSP"]
    assert no_nsp == {"MNLI-m": 83.9, "QNLI": 84.9, "MRPC": 86.5, "SST-2": 92.6, "SQuAD": 87.9}
    assert pictures.paper_table("table_8")["0/0/100"]["NER, frozen"] == 94.6
