"""Few rows of each class: which are drawn, and what the record says of counted words."""

from collections import Counter

from bertedu.files import read_csv, shipped
from course.experiments.few_rows import NAME, SETS, few_of, summary_rows
from course.experiments.tasks import load_task
from course.results.record import RunRecord


def test_a_seed_draws_its_own_rows_of_each_class_and_leaves_the_test_alone() -> None:
    _, splits = load_task("topic")
    first, again, other = (few_of(splits, 20, seed) for seed in (0, 0, 1))
    assert first == again
    assert not {*map(id, first["train"])} >= {*map(id, other["train"])}
    for some in (first, other):
        assert {*Counter(e.label for e in some["train"]).values()} == {20}
        assert max(Counter(e.label for e in some["dev"]).values()) == 6
        assert some["test"] == splits["test"]


def test_a_class_with_fewer_rows_gives_all_it_has() -> None:
    _, splits = load_task("topic")
    rare = min(Counter(e.label for e in splits["train"]).items(), key=lambda item: item[1])
    some = few_of(splits, 10_000, 0)["train"]
    assert Counter(e.label for e in some)[rare[0]] == rare[1]


def test_a_tagged_sentence_counts_for_its_first_name() -> None:
    _, splits = load_task("entities")
    some = few_of(splits, 15, 0)["train"]
    first = (next(tag for tag in e.tags if tag != "O") for e in some)
    assert {*Counter(tag[2:] for tag in first).values()} == {15}


def test_the_summary_is_what_its_command_makes_of_the_record() -> None:
    results = shipped("results")
    rows = [*summary_rows(RunRecord(results, NAME))]
    committed = read_csv(results / f"{NAME}_summary.csv")
    assert committed == [{name: str(row.get(name, "")) for name in committed[0]} for row in rows]
    assert {row["set"] for row in rows} <= {*SETS}
    assert all(int(row["seeds"]) >= 3 for row in rows)
