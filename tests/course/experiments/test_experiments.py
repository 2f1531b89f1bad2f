"""What every study keeps: a seed repeats its rows, and the committed table holds all runs."""

import math
from collections.abc import Iterator
from typing import Any

import pytest

from bertedu.files import Row
from course.experiments import (
    diffusion,
    fitting,
    grammar,
    machines,
    objectives,
    recall,
    recurrence,
    sentence_order,
    tag_placement,
    toy,
    writing,
)
from course.results.pictures import committed
from course.results.study import Run, grid

# table: the runs, and what tells the rows of one run from each other
STUDIES: dict[str, tuple[list[Run], tuple[str, ...]]] = {
    "diffusion": (diffusion.WRITERS, ("order", "passes")),
    "repeated": (diffusion.REPEATED, ("readings",)),
    "grammar_reach": (grid(grammar.reach, pair=grammar.ENOUGH), ("words",)),
    "machines": (machines.PLAN, ("measure",)),
    "objectives": (objectives.PLAN, ("reader", "measure", "operations")),
    "recall": (recall.PLAN, ("length",)),
    "recurrence": (recurrence.PLAN, ("length", "pair")),
    "tagging": (tag_placement.plan(tag_placement.SETUPS, range(3)), ()),
    "sentence_order": (sentence_order.PLAN, ("kind",)),
    "writing": (writing.WRITERS, ("writer",)),
    "zero_shot": (writing.ASKED_TASKS, ("examples", "way")),
}
OTHERS = (
    *("ablations_summary", "context", "grammar", "grammar_differences", "heads", "longer_reading"),
    *("next_sentence", "pretraining", "same_question", "same_question_differences", "sizes"),
    *("question_order", "size_curves", "toy"),
)
# what no training decides: however short it was, it is as committed
EXACT = ("limit", "parameters", "encoder_weights", "steps_Transformer", "steps_GRUs")


def of_run(table: str, run: Row) -> list[Row]:
    return committed(table, **{name: str(value) for name, value in run.items()})


@pytest.mark.parametrize("table", STUDIES)
def test_the_committed_table_holds_every_run_whole_and_nothing_else(table: str) -> None:
    plan, inside = STUDIES[table]
    rows, found, shapes = committed(table), 0, {}
    for run, _ in plan:
        keys = [tuple(row[name] for name in inside) for row in of_run(table, run)]
        assert keys, run
        assert len(set(keys)) == len(keys), run
        kind = tuple((name, value) for name, value in run.items() if name != "seed")
        assert shapes.setdefault(kind, set(keys)) == set(keys), f"{run}: not as with another seed"
        found += len(keys)
    assert found == len(rows)
    assert all(row["commit"] for row in rows if row.get("model") != "(source)")


@pytest.mark.parametrize("table", [*STUDIES, *OTHERS])
def test_no_value_is_missing_or_outside_its_interval(table: str) -> None:
    for row in committed(table):
        for name, text in row.items():
            assert "nan" not in text.lower().split(), name
            low, high = (row.get(f"{name}_{end}") for end in ("low", "high"))
            if low:
                assert float(low) <= float(text) <= float(high or math.nan), row


def test_nobody_is_below_an_exact_limit() -> None:
    """On so few texts a reader may be a little lucky."""
    for row in committed("recall"):
        limit = recall.recall_limit(row["layout"], row["reader"], int(row["length"]))
        assert float(row["limit"]) == round(limit, 4)
    for row in committed("recurrence", experiment="memory"):
        limit = recurrence.recall_limit(int(row["pair"]) - 1, 1, int(row["model"].split()[1]))
        assert float(row["limit"]) == round(limit, 4)
    memory = committed("recurrence", experiment="memory")
    for row in committed("recall") + memory + committed("toy"):
        assert float(row["loss"]) > float(row["limit"]) - 0.1, row
    for row in committed("objectives"):
        assert "excess" not in row["measure"] or float(row["value"]) > -0.01, row


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train two steps as if they were all, and score on few texts."""
    whole = fitting.fit

    def two(model: Any, loss: Any, seed: int, steps: int, *more: Any, **how: Any) -> Iterator[int]:
        yield from whole(model, loss, seed, 2, *more, **how)
        yield from range(3, steps + 1)

    for module in (fitting, objectives, toy, diffusion):
        monkeypatch.setattr(module, "fit", two)
    few = [(recurrence, "HELD_OUT"), (toy, "HELD_OUT"), (toy, "TRAINING")]
    for module, name in [*few, (writing, "TEXTS"), (diffusion, "TEXTS")]:
        monkeypatch.setattr(module, name, 20)
    monkeypatch.setattr(machines, "questions", toy.held_out_questions)
    monkeypatch.setattr(diffusion, "DRAWS", 2)


def first_of(table: str) -> dict[tuple[Any, ...], tuple[Row, Any, Any]]:
    """Return the runs of seed 0 that are cheap, each with the maker of seed 1 (or its own)."""
    plan = STUDIES[table][0]
    makers = {tuple(run.items()): make for run, make in plan}
    return {
        tuple(run.values()): (run, make, makers.get(tuple((run | {"seed": 1}).items()), make))
        for run, make in plan
        if run.get("seed", 0) == 0 and run.get("length", 8) == 8
        if run.get("layout", recall.XOR) == recall.XOR
    }


TINY = [
    pytest.param(table, *given, id=" ".join(map(str, (table, *name))))
    for table in ("diffusion", "machines", "objectives", "recall", "recurrence", "writing")
    for name, given in first_of(table).items()
]


# of each study a run that is cheap: made whole, at night
GOLDEN: dict[str, Row] = {
    "diffusion": {"reader": diffusion.EXACT},
    "grammar_reach": {"pair": "a/an"},
    "machines": {"experiment": "echo", "arm": "learned"},
    "objectives": {"idea": "mmbert"},
    "recall": {"layout": recall.XOR, "reader": "BERT"},
    "recurrence": {"experiment": "memory"},
    "repeated": {"sentences": 50},
    "sentence_order": {"judge": sentence_order.START},
    "tagging": {"model": "look-up"},
    "zero_shot": {"task": "next"},
}


@pytest.mark.nightly
@pytest.mark.parametrize("table", GOLDEN)
def test_a_committed_run_comes_out_again(table: str) -> None:
    """To the last digit where it was made; elsewhere a float's last digits may differ."""
    plan, inside = STUDIES[table]
    run, make = next(one for one in plan if GOLDEN[table].items() <= one[0].items())
    found, known = (
        sorted(rows, key=lambda row: [str(row.get(name, "")) for name in inside])
        for rows in (make(), of_run(table, run))
    )
    for row, there in zip(found, known, strict=True):
        for name, value in row.items():
            if isinstance(value, float):
                assert value == pytest.approx(float(there[name]), rel=0.02, abs=0.02), name
            else:
                assert str(value) == there[name], name


@pytest.mark.parametrize(("table", "run", "make", "make_other"), TINY)
def test_a_seed_repeats_its_rows_and_they_are_those_of_the_table(
    short: None, table: str, run: Row, make: Any, make_other: Any
) -> None:
    def key(row: Row) -> list[str]:
        return [str((run | row).get(name, "")) for name in STUDIES[table][1]]

    first, again, other = (sorted(some(), key=key) for some in (make, make, make_other))
    known = sorted(of_run(table, run), key=key)
    for one, same, there in zip(first, again, known, strict=True):
        assert key(one) == key(there)
        for name in one:
            timed = name == "time_ratio" or one.get("measure") == "times faster"
            assert timed or one[name] == same[name], name
            assert name not in EXACT or str(one[name]) == there[name], name
        filled = {name for name, text in there.items() if text} - {"log_probability"}
        assert filled <= one.keys() | run.keys() | {"device", "commit"}
    assert "seed" not in run or other != first
