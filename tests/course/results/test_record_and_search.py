"""Runs and their record: nothing twice, nothing lost, and the test split only at the end."""

import csv
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest
import tiny_finetuning as tiny
import torch

from bertedu.finetuning.examples import AnyExample, Splits, Task, TaskError
from bertedu.finetuning.finetune import RATES, Run, Setup, make_kind, run_once
from bertedu.finetuning.kinds import Answer
from bertedu.finetuning.training import History, Hyperparameters
from bertedu.model.checkpoints import load_checkpoint
from course.results import record as recording
from course.results import search as running
from course.results.record import RunRecord, pack, unpack
from course.results.search import BATCH_SIZES, EPOCHS, run_task, search

SMALL = {"train": 16, "dev": 6, "test": 8}
RECIPE = Hyperparameters(3e-3, 8, 1, dropout=0.1, patience=2)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny.save_bert(tmp_path_factory.mktemp("model")))


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")


@pytest.fixture
def book(tmp_path: Path) -> RunRecord:
    return RunRecord(tmp_path / "results")


Asked = list[tuple[Setup, Hyperparameters, tuple[str, ...]]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Every run that is really made."""
    seen: Asked = []
    real = run_once

    def spy(task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters, **rest: Any) -> Run:
        seen.append((setup, recipe, tuple(rest.get("score", ("dev", "test")))))
        return real(task, splits, setup, recipe, **rest)

    monkeypatch.setattr(running, "run_once", spy)
    return seen


def silent(_: str) -> None:
    pass


def go(
    made: tuple[Task, Splits], book: RunRecord, model: str, seeds: int = 1, **options: Any
) -> list[Run]:
    settings: dict[str, Any] = {"say": silent, "recipe": RECIPE} | options
    recipe = settings.pop("recipe")
    return run_task(*made, Setup(model), recipe, range(seeds), book, **settings)


def pretend(task: Task, splits: Splits, dev: float = 0.5, right: int | None = None) -> Run:
    """Make a run without running; with ``right``, so many answers to the test are right."""
    kind = make_kind(task, splits)
    answers = {}
    if right is not None:
        labels = [int(e.label) for e in splits["test"]]  # type: ignore[union-attr]
        found = [label if i < right else 1 - label for i, label in enumerate(labels)]
        answers = {"test": [Answer(value) for value in found]}
    history = History([0.1], [dev, 1 - dev], 1, 1.25)  # the first of two epochs was kept
    model: Any = SimpleNamespace(kind=kind)
    tokenizer: Any = None
    return Run(model, tokenizer, history, answers)


def scored(book: RunRecord) -> list[dict[str, Any]]:
    return [row for row in book.rows() if row["purpose"] == "score" and row["method"] != "baseline"]


# --- One run ------------------------------------------------------------------------------------


class Poison(Sequence[AnyExample]):
    """A split that cannot be looked at, not even counted."""

    def _raise(self, *_: object) -> NoReturn:
        raise AssertionError("the test split was looked at")

    __getitem__ = __len__ = __iter__ = __contains__ = __bool__ = _raise  # type: ignore[assignment]


def states(run: Run) -> dict[str, torch.Tensor]:
    return run.model.state_dict()


def same(one: Run, two: Run) -> bool:
    other = states(two)
    return all(torch.equal(value, other[name]) for name, value in states(one).items())


def test_a_run_does_not_need_the_test_split(checkpoint: str) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    one = run_once(task, splits, Setup(checkpoint), RECIPE, progress=False)
    blind = {**splits, "test": Poison()}
    two = run_once(task, blind, Setup(checkpoint), RECIPE, score=("dev",), progress=False)
    assert same(one, two)
    assert two.answers.keys() == {"dev"}
    assert one.answers["dev"] == two.answers["dev"]
    with pytest.raises(AssertionError, match="looked at"):  # the poison works
        run_once(task, blind, Setup(checkpoint), RECIPE, progress=False)


def test_only_the_first_examples_are_trained_on(checkpoint: str) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)

    def train(change: int | None, examples: int | None) -> Run:
        some = list(splits["train"])
        if change is not None:
            some[change] = replace(some[change], text="tree tree tree")  # type: ignore[call-arg]
        setup = Setup(checkpoint, train_examples=examples)
        changed = {**splits, "train": some}
        return run_once(task, changed, setup, RECIPE, score=(), progress=False)

    assert same(train(None, 8), train(8, 8))
    assert same(train(None, 8), train(15, 8))
    assert not same(train(None, 8), train(7, 8))
    assert not same(train(None, None), train(15, None))


def test_methods_differ_in_what_they_start_from_and_in_what_learns(checkpoint: str) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    given = load_checkpoint(checkpoint).bert.state_dict()

    def encoder(method: str, recipe: Hyperparameters) -> dict[str, torch.Tensor]:
        run = run_once(task, splits, Setup(checkpoint, method), recipe, score=(), progress=False)
        prefix = "encoder.bert."
        return {n.removeprefix(prefix): v for n, v in states(run).items() if n.startswith(prefix)}

    def equal(one: dict[str, torch.Tensor]) -> bool:
        return all(torch.equal(value, one[name]) for name, value in given.items())

    still = replace(RECIPE, learning_rate=0.0)
    assert equal(encoder("fine-tuned", still))
    assert not equal(encoder("fine-tuned", RECIPE))
    assert equal(encoder("frozen", replace(RECIPE, learning_rate=0.1)))
    assert not equal(encoder("untrained", still))
    one, two = (encoder("untrained", replace(still, seed=seed)) for seed in (0, 1))
    assert not torch.equal(one["pooler.dense.weight"], two["pooler.dense.weight"])


def test_the_seed_decides_everything_that_chance_does(checkpoint: str) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)

    def head(seed: int, rate: float = 3e-3) -> torch.Tensor:
        recipe = replace(RECIPE, seed=seed, learning_rate=rate)
        torch.manual_seed(12345 + seed)  # no say
        run = run_once(task, splits, Setup(checkpoint), recipe, score=(), progress=False)
        return states(run)["head.classifier.weight"]

    assert torch.equal(head(0), head(0))
    assert not torch.equal(head(0), head(1))
    assert not torch.equal(head(0, 0.0), head(1, 0.0)), "where the new layer starts"


def test_dropout_of_the_recipe_reaches_encoder_and_head(checkpoint: str) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    recipe = replace(RECIPE, dropout=0.25)
    run = run_once(task, splits, Setup(checkpoint), recipe, score=(), progress=False)
    rates = {part.p for part in run.model.modules() if isinstance(part, torch.nn.Dropout)}
    assert rates == {0.25}
    assert run.model.encoder.bert.config.dropout == 0.25  # type: ignore[union-attr]


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_answers_do_not_depend_on_the_labels_of_the_test(checkpoint: str, name: str) -> None:
    task, splits = tiny.MAKERS[name](SMALL)
    one = run_once(task, splits, Setup(checkpoint), RECIPE, progress=False)
    turned = {**splits, "test": tiny.with_other_labels(task, splits["test"])}
    two = run_once(task, turned, Setup(checkpoint), RECIPE, progress=False)
    assert one.answers == two.answers
    outcomes = [
        run.model.kind.outcomes(some["test"], run.answers["test"])
        for run, some in ((one, splits), (two, turned))
    ]
    assert not np.array_equal(*outcomes), "the labels were not turned"


@pytest.mark.parametrize(
    ("method", "examples", "message"),
    [
        ("finetuned", None, "no method 'finetuned': choose one of fine-tuned, frozen, untrained"),
        ("", None, "no method ''"),
        ("baseline", None, "no method 'baseline'"),
        ("frozen", 0, "0 training examples: at least one is needed"),
        ("frozen", -3, "-3 training examples"),
    ],
)
def test_a_setup_that_makes_no_sense_is_refused(
    method: str, examples: int | None, message: str
) -> None:
    with pytest.raises(TaskError, match=message):
        Setup("x", method, examples)


def test_rates_go_with_the_method() -> None:
    assert Setup("x").rates == Setup("x", "untrained").rates == RATES["fine-tuned"]
    assert Setup("minilm").rates == RATES["published"]
    assert Setup("minilm", "frozen").rates == Setup("x", "frozen").rates == RATES["frozen"]


# --- The grid -----------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_the_grid_never_looks_at_the_test(
    checkpoint: str, book: RunRecord, asked: Asked, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    monkeypatch.setattr(running, "EPOCHS", (1, 2))
    monkeypatch.setattr(running, "BATCH_SIZES", (8,))
    task, splits = tiny.keyword_task(sizes=SMALL)
    blind = {**splits, "test": Poison()}
    search(task, blind, Setup(checkpoint), RECIPE, book, full, silent)
    assert len(asked) == (6 if full else 3)
    assert {score for *_, score in asked} == {()}
    assert not (book.folder / "outcomes").exists()
    for row in book.rows():
        assert row["purpose"] == "grid"
        assert not row.get("test")
        assert not any(name.startswith("test") for name in row)


class Landscape:
    """In place of runs: dev is read off a table, and the calls are kept."""

    def __init__(self, best: tuple[int, float, int], stop_at: int | None = None) -> None:
        self.best, self.stop_at, self.calls = best, stop_at, list[Hyperparameters]()

    def __call__(
        self, task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters, **_: Any
    ) -> Run:
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append(recipe)
        here = (recipe.batch_size, recipe.learning_rate, recipe.epochs)
        return pretend(task, splits, dev=0.9 if here == self.best else 0.8, right=3)


@pytest.mark.parametrize("place", [0, 11, 17])
def test_the_grid_finds_what_is_best_on_dev(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    best = list(product(BATCH_SIZES, RATES["fine-tuned"], EPOCHS))[place]
    runs = Landscape(best)
    monkeypatch.setattr(running, "run_once", runs)
    made = tiny.keyword_task(sizes=SMALL)
    recipe = Hyperparameters(5.0, 7, 1, patience=3, seed=4, weight_decay=0.2)
    found = search(*made, Setup("x"), recipe, book, True, silent)
    wanted = set(product(BATCH_SIZES, RATES["fine-tuned"], EPOCHS))
    tried = [(r.batch_size, r.learning_rate, r.epochs) for r in runs.calls]
    assert len(tried) == 18
    assert set(tried) == wanted
    assert all(r.patience >= r.epochs for r in runs.calls), "how long is one of the questions"
    expected = {"batch_size": best[0], "learning_rate": best[1], "epochs": best[2]}
    assert found == replace(recipe, **expected)  # type: ignore[arg-type]

    assert search(*made, Setup("x"), recipe, book, True, silent) == found
    assert len(runs.calls) == 18, "found again, not run again"


def test_searching_rates_leaves_the_rest_alone(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Landscape((8, 3e-3, 1))
    monkeypatch.setattr(running, "run_once", runs)
    made = tiny.keyword_task(sizes=SMALL)
    found = search(*made, Setup("x", "frozen"), RECIPE, book, False, silent)
    assert [r.learning_rate for r in runs.calls] == list(RATES["frozen"])
    assert found == replace(RECIPE, learning_rate=3e-3)


def test_a_search_that_was_stopped_goes_on_where_it_was(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    best = (BATCH_SIZES[0], RATES["fine-tuned"][0], EPOCHS[0])
    first, second = Landscape(best, stop_at=5), Landscape(best)
    monkeypatch.setattr(running, "run_once", first)
    with pytest.raises(KeyboardInterrupt):
        search(*made, Setup("x"), RECIPE, book, True, silent)
    assert len(book.rows()) == 5
    monkeypatch.setattr(running, "run_once", second)
    found = search(*made, Setup("x"), RECIPE, book, True, silent)
    assert len(second.calls) == 13
    assert (found.batch_size, found.learning_rate, found.epochs) == best, "a recorded one"


def test_the_chosen_recipe_is_the_one_that_is_scored(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Landscape((8, 1e-3, 1))
    monkeypatch.setattr(running, "run_once", runs)
    go(tiny.keyword_task(sizes=SMALL), book, "x", seeds=2, grid="rates")
    assert [(r["learning_rate"], r["seed"]) for r in scored(book)] == [("0.001", s) for s in "01"]
    assert [r.seed for r in runs.calls] == [0, 0, 0, 0, 1]
    assert all(row["test"] for row in scored(book))


# --- The record ---------------------------------------------------------------------------------


def test_what_is_recorded_is_not_run_again_unless_asked(
    checkpoint: str, book: RunRecord, asked: Asked
) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    said: list[str] = []
    assert len(go(made, book, checkpoint, 2, say=said.append)) == 2
    assert len(asked) == 2
    before, outcomes = book.rows(), book.outcomes("keyword")
    again: list[str] = []
    assert go(made, book, checkpoint, 2, say=again.append) == []
    assert len(asked) == 2
    assert again == said[2:], "the same scores are said, without the baselines"
    assert book.rows() == before

    assert len(go(made, book, checkpoint, 3)) == 1
    assert asked[-1][1].seed == 2
    assert len(go(made, book, checkpoint, 2, again=True)) == 2
    assert len(asked) == 5
    assert [row["seed"] for row in scored(book)] == ["0", "1", "2"], "replaced, not doubled"
    _, runs = book.outcomes("keyword")
    assert [row["seed"] for row, _ in runs if row["model"] == checkpoint] == ["0", "1", "2"]
    new = {(row["model"], row["seed"]): outcomes for row, outcomes in runs}
    for row, old in outcomes[1]:
        assert np.array_equal(old, new[row["model"], row["seed"]]), row


@pytest.mark.parametrize(
    "change",
    [
        {"batch_size": 4},
        {"learning_rate": 1e-3},
        {"epochs": 2},
        {"seed": 1},
        {"dropout": 0.2},
        {"patience": 1},
    ],
)
def test_another_recipe_is_another_run(book: RunRecord, change: dict[str, Any]) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    setup = Setup("x")
    book.add(task, splits, setup, RECIPE, pretend(task, splits, right=3), "score")
    assert book.find(task, setup, RECIPE, "score")
    assert not book.find(task, setup, replace(RECIPE, **change), "score")
    assert not book.find(task, setup, RECIPE, "grid")
    for another in (Setup("y"), Setup("x", "frozen"), Setup("x", train_examples=8)):
        assert not book.find(task, another, RECIPE, "score")
    assert not book.find(replace(task, name="other"), setup, RECIPE, "score")
    other = replace(RECIPE, **change)
    book.add(task, splits, setup, other, pretend(task, splits, right=3), "score")
    assert len(book.rows()) == 2, "one has replaced the other"


def test_a_row_is_replaced_and_its_neighbors_stay(book: RunRecord) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    for seed in range(3):
        run = pretend(task, splits, right=3)
        book.add(task, splits, Setup("x"), replace(RECIPE, seed=seed), run, "score")
    book.add(
        task, splits, Setup("x"), replace(RECIPE, seed=1), pretend(task, splits, right=7), "score"
    )
    assert [(r["seed"], r["test"]) for r in book.rows()] == [
        ("0", "0.375"),
        ("1", "0.875"),
        ("2", "0.375"),
    ]
    _, runs = book.outcomes("keyword")
    found = {row["seed"]: int((o[:, 0] == o[:, 1]).sum()) for row, o in runs}
    assert found == {"0": 3, "1": 7, "2": 3}


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_the_record_says_what_came_out(checkpoint: str, book: RunRecord, name: str) -> None:
    task, splits = tiny.MAKERS[name](SMALL)
    (run,) = go((task, splits), book, checkpoint)
    kind = run.model.kind
    expected = kind.outcomes(splits["test"], run.answers["test"])
    sources, runs = book.outcomes(task.name)
    by_model = {row["model"]: (row, outcomes) for row, outcomes in runs}
    assert by_model.keys() == {checkpoint, "majority", "word counts"}
    row, outcomes = by_model[checkpoint]
    assert row["columns"] == "/".join(kind.columns)
    assert outcomes == pytest.approx(expected, abs=5.1e-5)
    named = [e.source for e in splits["test"]]
    for i in range(8):
        for j in range(8):
            assert (sources[i] == sources[j]) == (named[i] == named[j])
    (line,) = scored(book)
    scores = kind.metrics(expected)
    assert float(line["test"]) == pytest.approx(scores[task.metric], abs=1e-5)
    for metric in scores.keys() - {task.metric}:
        assert float(line[f"test_{metric}"]) == pytest.approx(scores[metric], abs=1e-5)
    assert float(line["dev"]) == pytest.approx(max(run.history.dev), abs=1e-5)
    assert (line["commit"], line["seed"], line["metric"]) == ("abc1234", "0", task.metric)
    assert line["device"].startswith(("cpu", "cuda", "mps"))
    assert float(line["seconds"]) >= 0


def test_tasks_with_other_columns_share_a_table(checkpoint: str, book: RunRecord) -> None:
    go(tiny.keyword_task(sizes=SMALL), book, checkpoint)
    go(tiny.tagging_task(SMALL), book, checkpoint)
    go(tiny.rating_task(SMALL), book, checkpoint)
    rows = {(row["task"], row["model"]): row for row in book.rows()}
    assert len(rows) == 9
    assert len({tuple(row) for row in rows.values()}) == 1
    for task, filled in (("keyword", "macro_f1"), ("places", "precision"), ("rating", "spearman")):
        row = rows[task, checkpoint]
        for name in ("macro_f1", "precision", "spearman"):
            assert bool(row[f"test_{name}"]) == (name == filled)
    with book.table.open(encoding="utf-8", newline="") as file:
        assert len({len(line) for line in csv.reader(file)}) == 1


def test_baselines_are_run_once_and_first(
    checkpoint: str, book: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    calls: list[str] = []
    real = recording.baseline_answers

    def spy(name: str, *rest: Any) -> Any:
        calls.append(name)
        return real(name, *rest)

    monkeypatch.setattr(recording, "baseline_answers", spy)
    said: list[str] = []
    go(made, book, checkpoint, say=said.append)
    go(made, book, checkpoint, again=True)
    go((replace(made[0], name="another"), made[1]), book, checkpoint)
    assert calls == ["majority", "word counts"] * 2
    who = [line.split(": ")[0].split(", ")[1] for line in said]
    assert who == ["majority", "word counts", checkpoint]
    rows = [row for row in book.rows() if row["method"] == "baseline"]
    assert len(rows) == 4
    labels = [e.label for e in made[1]["test"]]  # type: ignore[union-attr]
    first = [e.label for e in made[1]["train"]]  # type: ignore[union-attr]
    most = max((0, 1), key=first.count)
    assert float(rows[0]["test"]) == pytest.approx(labels.count(most) / 8)


# --- Stopped in the middle ----------------------------------------------------------------------


def test_stopped_in_the_middle_it_keeps_what_was_written(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    monkeypatch.setattr(running, "run_once", Landscape((0, 0, 0), stop_at=2))
    with pytest.raises(KeyboardInterrupt):
        go(made, book, "x", seeds=4)
    assert [row["seed"] for row in scored(book)] == ["0", "1"]
    assert len(book.outcomes("keyword")[1]) == 2 + 2, "two runs and two baselines"
    rest = Landscape((0, 0, 0))
    monkeypatch.setattr(running, "run_once", rest)
    go(made, book, "x", seeds=4)
    assert [recipe.seed for recipe in rest.calls] == [2, 3]
    assert [row["seed"] for row in scored(book)] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("which", ["finetuning.csv", "keyword.csv"])
def test_stopped_while_writing_a_run_is_whole_or_is_made_again(
    book: RunRecord, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    """A row whose outcomes were never written would never be run again."""
    task, splits = tiny.keyword_task(sizes=SMALL)
    real = recording.write_csv

    def interrupted(path: Path, rows: Any) -> None:
        if path.name == which:
            raise KeyboardInterrupt
        real(path, rows)

    book.add(task, splits, Setup("x"), RECIPE, pretend(task, splits, right=3), "score")
    second = replace(RECIPE, seed=1)
    monkeypatch.setattr(recording, "write_csv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        book.add(task, splits, Setup("x"), second, pretend(task, splits, right=5), "score")
    monkeypatch.setattr(recording, "write_csv", real)
    assert book.find(task, Setup("x"), RECIPE, "score")
    assert not book.find(task, Setup("x"), second, "score"), "recorded, without its outcomes"
    book.add(task, splits, Setup("x"), second, pretend(task, splits, right=5), "score")
    _, runs = book.outcomes("keyword")
    assert [int((o[:, 0] == o[:, 1]).sum()) for _, o in runs] == [3, 5]


def _write_rows(folder: Path, model: str, count: int) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    for seed in range(count):
        run = pretend(task, splits, right=4)
        RunRecord(folder).add(task, splits, Setup(model), replace(RECIPE, seed=seed), run, "score")


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Between reading and writing, time for others to do harm."""
    real = recording.write_csv

    def slowly(path: Path, rows: Any) -> None:
        time.sleep(0.03)
        real(path, rows)

    monkeypatch.setattr(recording, "write_csv", slowly)
    return


@pytest.mark.usefixtures("slow_disk")
def test_two_processes_lose_no_row_of_each_other(tmp_path: Path) -> None:
    if "fork" not in multiprocessing.get_all_start_methods():
        pytest.skip("needs fork: a fresh process would take seconds to import torch")
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(target=_write_rows, args=(tmp_path, model, 6)) for model in ("one", "two")
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    wanted = {(model, str(seed)) for model in ("one", "two") for seed in range(6)}
    book = RunRecord(tmp_path)
    assert {(row["model"], row["seed"]) for row in book.rows()} == wanted
    _, runs = book.outcomes("keyword")
    assert {(row["model"], row["seed"]) for row, _ in runs} == wanted
    assert len(runs) == len(book.rows()) == 12


# --- Numbers as text ----------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [2, 3])
def test_outcomes_come_back_as_they_were_to_four_digits(columns: int) -> None:
    dice = np.random.default_rng(columns)
    for scale in (1, 10, 1e4):
        outcomes = np.concatenate(
            [dice.normal(0, scale, (50, columns)), dice.integers(0, 12, (50, columns))]
        )
        text = pack(outcomes)
        assert np.array_equal(unpack(text), np.round(outcomes, 4))
    assert pack(np.array([[1.0, 0.0], [10.0, 0.25]])) == "1/0 10/0.25"


def test_no_record_is_said_plainly(book: RunRecord) -> None:
    assert book.rows() == []
    with pytest.raises(TaskError, match="no outcomes of task 'keyword'"):
        book.outcomes("keyword")
    book.table.mkdir(parents=True)
    with pytest.raises(OSError, match=book.table.name):  # it is there: no empty one may replace it
        book.rows()


def test_a_task_without_an_answer_in_some_text_may_answer_none() -> None:
    makers: list[tuple[Callable[..., tuple[Task, Splits]], bool]] = [
        (lambda: tiny.span_task(SMALL), False),
        (lambda: tiny.span_task(SMALL, 0.4), True),
    ]
    for make, none in makers:
        assert make_kind(*make()).can_be_none == none  # type: ignore[attr-defined]


# -- one recipe a system


def test_a_system_is_scored_with_one_recipe(checkpoint: str, book: RunRecord) -> None:
    """Two runs of one recipe and one of another would make a mean of neither."""
    made = tiny.keyword_task(sizes=SMALL)
    other = replace(RECIPE, learning_rate=1e-3)
    go(made, book, checkpoint, 2)
    with pytest.raises(TaskError, match=r"another recipe .*learning_rate 0.003.*--again"):
        go(made, book, checkpoint, 1, recipe=other)
    _, runs = book.outcomes("keyword")
    assert [row["seed"] for row, _ in runs if row["model"] == checkpoint] == ["0", "1"]

    go(made, book, checkpoint, 1, recipe=other, again=True)
    _, runs = book.outcomes("keyword")
    assert [row["seed"] for row, _ in runs if row["model"] == checkpoint] == ["0"]
    assert [row["learning_rate"] for row in scored(book)] == ["0.001"]
    assert {row["model"] for row, _ in runs} >= {"majority", "word counts"}, "others stay"


def test_baselines_have_as_few_examples_as_the_model(checkpoint: str, book: RunRecord) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    for count in (None, 8):
        setup = Setup(checkpoint, train_examples=count)
        run_task(task, splits, setup, RECIPE, range(1), book, say=silent)
    counts = [row["train_examples"] for row in book.rows() if row["model"] == "majority"]
    assert sorted(counts) == ["8", "all"]


def test_models_that_are_needed_are_made_though_recorded(checkpoint: str, book: RunRecord) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    go(made, book, checkpoint, 1)
    before = book.table.read_bytes()
    assert len(go(made, book, checkpoint, 1, need_models=True)) == 1
    assert book.table.read_bytes() == before, "the record is not touched"
    assert len(go(made, book, checkpoint, 2, need_models=True)) == 2
    assert [row["seed"] for row in scored(book)] == ["0", "1"]
    with pytest.raises(TaskError, match="another recipe"):
        go(made, book, checkpoint, 1, need_models=True, recipe=replace(RECIPE, epochs=2))


def test_without_seeds_only_the_grid_is_searched(checkpoint: str, book: RunRecord) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    go(made, book, checkpoint, 1)
    before = scored(book)
    assert go(made, book, checkpoint, 0, grid="rates") == []
    assert scored(book) == before, "another recipe may be best, but none is scored"
    assert sum(row["purpose"] == "grid" for row in book.rows()) == 3
