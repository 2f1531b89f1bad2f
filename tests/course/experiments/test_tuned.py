"""The fine-tuned models that come with the course: what they answer, and what their record says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny_kinds import EXAMPLES, encoded, scores_and_loss

from bertedu.files import shipped
from bertedu.finetuning.examples import SPLITS, Splits, Tagged, Task
from bertedu.finetuning.finetune import Run, Setup
from bertedu.finetuning.training import Hyperparameters
from bertedu.model.checkpoints import load_tensors
from bertedu.model.variants.lora import LoraLinear
from course.experiments import tuned
from course.experiments.tasks import TASKS
from course.results.record import RunRecord
from course.results.summary import draw_systems

RECORD = RunRecord(shipped("results"), tuned.NAME)
ROWS = {
    row["name"]: row for row in RECORD.rows() if (row["purpose"], row["seed"]) == ("score", "0")
}
TEXT = (
    "Lake Vern is a deep lake in the northern mountains. Its water is cold and clear. "
    "The violin is a wooden string instrument. It is played with a bow. "
    "Mira Tolen was a painter and teacher. She lived in a small house by the sea."
)


def test_the_reader_marks_what_is_asked_for() -> None:
    reader = tuned.load_tuned(tuned.READER)
    asked = {
        "string instrument played with a bow": "The violin",
        "painter and teacher": "Mira Tolen",
        "deep lake in the mountains": "Lake Vern",
    }
    assert {question: reader.ask(question, TEXT).value for question in asked} == asked


@pytest.mark.parametrize("name", [tuned.READER, *tuned.ADAPTERS])
def test_the_record_is_of_the_model_that_lies_there(name: str) -> None:
    folder, row = shipped("checkpoints"), ROWS[name]
    if name == tuned.READER:
        text = (folder / name / "finetuning.json").read_text(encoding="utf-8")
        tensors, _ = load_tensors(folder / name / "model.safetensors")
        moved = sum(tensor.numel() for tensor in tensors.values())
        assert moved + 128 * 129 == int(row["moved"]), "all but the pooler, which is not read"
        assert sum(path.stat().st_size for path in (folder / name).iterdir()) < 4_100_000
    else:
        path = folder / "adapters" / f"{name}.safetensors"
        tensors, metadata = load_tensors(path)
        text = metadata["bertedu"]
        assert sum(tensor.numel() for tensor in tensors.values()) == int(row["moved"])
        assert path.stat().st_size < 500_000
    saved = {key: str(value) for key, value in json.loads(text).items()}
    assert saved == {key: value for key, value in row.items() if value}
    system = row["model"], row["method"], row["train_examples"]
    low, _ = draw_systems(RECORD, row["task"])[system].interval
    assert float(row["chance"]) < low, "no better than without reading"


@pytest.mark.parametrize("name", tuned.PLANS)
def test_what_dev_preferred_was_trained_to_its_end(name: str) -> None:
    tried = [row for row in RECORD.rows() if (row["name"], row["purpose"]) == (name, "grid")]
    for row in tried:
        assert int(row["best_epoch"]) <= int(row["epochs"]) - int(row["patience"])
        assert not row["test"]
    if name in tuned.ADAPTERS:
        assert len(tried) == len(tuned.PLANS[name].trials())
        best = max(tried, key=lambda row: float(row["dev"]))
        scored = [r for r in RECORD.rows() if (r["name"], r["purpose"]) == (name, "score")]
        for column in ("method", "learning_rate", "train_examples"):
            assert {row[column] for row in scored} == {best[column]}


def make_small(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a plan cheap: two short examples, one epoch, our own model, two ranks and rates."""
    task = TASKS[tuned.PLANS[name].task]
    some = EXAMPLES[task.kind][:2]
    if task.kind == "tagging":
        some = [Tagged(("Mira", "left"), task.labels[1:3]), Tagged(("They", "slept"), ("O", "O"))]
    few = dict.fromkeys(SPLITS, some)
    monkeypatch.setattr(tuned, "load_task", lambda _: (task, few))
    if task.kind == "span":  # it would look for whole articles
        monkeypatch.setattr(tuned, "chance", lambda *_: 0.5)
    setups = Setup("bert-L2H128", lora=3), Setup("bert-L2H128", lora=2)
    plan = tuned.Plan(task.name, setups, (1e-2, 1e-3), Hyperparameters(epochs=1), seeds=2)
    monkeypatch.setattr(tuned, "PLANS", {name: plan})


@pytest.mark.parametrize("name", tuned.ADAPTERS)
def test_an_adapter_comes_back_as_it_was_trained(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(name, monkeypatch)
    trained: list[tuple[Setup, Hyperparameters, Run]] = []
    train = tuned.train_model

    def remember(task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters) -> Run:
        trained.append((setup, recipe, train(task, splits, setup, recipe)))
        return trained[-1][-1]

    monkeypatch.setattr(tuned, "train_model", remember)
    where = tmp_path / "results", tmp_path / "checkpoints"
    row = tuned.run_seed(name, 0, *where)
    *tried, (setup, recipe, run) = trained
    assert len(tried) == 4
    best = max(tried, key=lambda one: max(one[2].history.dev))
    assert (setup, recipe) == best[:2]
    kept = [path.read_bytes() for path in where[1].rglob("*.safetensors")]
    other = tuned.run_seed(name, 1, *where)
    assert trained[-1][:2] == (setup, replace(recipe, seed=1))
    assert kept == [path.read_bytes() for path in where[1].rglob("*.safetensors")]
    assert [tuned.run_seed(name, seed, *where) for seed in range(2)] == [row, other]
    assert len(trained) == 6, "what the record has is not run again"
    monkeypatch.setattr(tuned, "shipped", lambda _: tmp_path / "checkpoints")
    again = tuned.load_tuned(name)
    batch = encoded(run.model.kind, tuned.load_task(name)[1]["test"])
    (before, _), (after, _) = (scores_and_loss(m, batch) for m in (run.model.eval(), again.model))
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)
    assert not any(isinstance(part, LoraLinear) for part in again.model.modules())
