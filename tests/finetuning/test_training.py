"""The loop: what it learns, what it leaves alone, what it keeps, and what it may not look at."""

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import tiny_finetuning as tiny
import torch
from tiny_finetuning import moved, weights
from torch import Tensor

from bertedu.finetuning import training as loop
from bertedu.finetuning.examples import AnyExample, Splits, Task, TaskError
from bertedu.finetuning.finetune import make_kind
from bertedu.finetuning.kinds import MAX_LENGTH, Kind, collate
from bertedu.finetuning.training import (
    FineTuningDiverged,
    History,
    Hyperparameters,
    TaskModel,
    dev_metric,
    finetune,
    score_items,
)
from bertedu.model.features import BertFeatures
from bertedu.text.fast_tokenizer import load_tokenizer

TOKENIZER = load_tokenizer()
SMALL = {"train": 24, "dev": 8, "test": 8}
KEYWORD = tiny.keyword_task(SMALL)
RECIPE = Hyperparameters(3e-3, batch_size=8, epochs=4, patience=4, dropout=0.1)
STEPS = 3  # an epoch of SMALL has


def new_model(kind: Kind | None = None, dropout: float = 0.1, frozen: bool = False) -> TaskModel:
    encoder = BertFeatures(tiny.small_bert(dropout=dropout))
    torch.manual_seed(0)
    return TaskModel(encoder, kind or make_kind(*KEYWORD), dropout, frozen)


def train(
    made: tuple[Task, Splits] = KEYWORD,
    recipe: Hyperparameters = RECIPE,
    model: TaskModel | None = None,
    dev: Sequence[AnyExample] | None = None,
    progress: bool = False,
) -> tuple[TaskModel, History]:
    task, splits = made
    model = model or new_model(make_kind(task, splits))
    dev = splits["dev"] if dev is None else dev
    items = [model.kind.encode(some, TOKENIZER, MAX_LENGTH) for some in (splits["train"], dev)]
    return model, finetune(model, items[0], dev, items[1], task.metric, recipe, progress)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[float]], list[dict[str, Tensor]]]:
    """Let dev say these values, one a round; return the weights that each was asked of."""

    def begin(values: Sequence[float]) -> list[dict[str, Tensor]]:
        seen: list[dict[str, Tensor]] = []
        given = iter([*values, 0.0])

        def fake(model: TaskModel, *_: Any) -> float:
            seen.append(weights(model))
            if hasattr(model.kind, "threshold"):  # as dev sets it
                model.kind.threshold = float(seen[-1]["head.classifier.weight"].sum())
            return next(given)

        monkeypatch.setattr(loop, "dev_metric", fake)
        return seen

    return begin


# -- learning


def test_a_keyword_is_learned_and_found_in_sentences_never_seen() -> None:
    task, splits = made = tiny.keyword_task()
    model, history = train(made, Hyperparameters(2e-2, 8, 6, patience=6))
    assert history.losses[0] == pytest.approx(math.log(2), abs=0.1)
    assert sum(history.losses[-6:]) / 6 < 0.1
    items = model.kind.encode(splits["test"], TOKENIZER, MAX_LENGTH)
    assert dev_metric(model, task.metric, splits["test"], items) > 0.95


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_every_parameter_that_a_task_reads_learns(name: str) -> None:
    """A layer that were made in `forward` would be in no list, and would not move."""
    task, splits = made = tiny.MAKERS[name](SMALL)
    model = new_model(make_kind(task, splits))
    classifier: Any = model.head.classifier
    assert float(classifier.weight.detach().std()) == pytest.approx(0.02, rel=0.4)
    assert not classifier.bias.any()
    before = weights(model)
    assert {name for name, _ in model.named_parameters()} == set(before)
    train(made, replace(RECIPE, epochs=1), model)
    still = before.keys() - moved(before, weights(model))
    unread = {n for n in before if "pooler" in n and name in ("tagging", "span")}
    assert {name for name in still if not name.endswith("attention.key.bias")} == unread


# -- the optimizer


def test_each_step_gets_its_rate_a_clipped_gradient_and_the_decay_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates, norms, settings, original = [], [], set(), torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, *rest: Any) -> Any:
        groups = self.param_groups
        rates.append([group["lr"] for group in groups])
        squares = [float(p.grad.norm()) ** 2 for group in groups for p in group["params"]]
        norms.append(sum(squares) ** 0.5)
        settings.update((group["weight_decay"], group["eps"]) for group in groups)
        return original(self, *rest)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    train(recipe=replace(RECIPE, clip_norm=0.01, weight_decay=0.3, warmup_share=0.25))
    rising = [1e-3, 2e-3, 3e-3]
    falling = [3e-3 * left / 9 for left in range(9, 0, -1)]
    assert [rate for rate, _ in rates] == pytest.approx(rising + falling)
    assert all(matrices == all_else for matrices, all_else in rates)
    assert norms == pytest.approx([0.01] * 4 * STEPS, rel=1e-3)
    assert settings == {(0.3, 1e-6), (0.0, 1e-6)}


# -- what is kept


@pytest.mark.parametrize("seed", range(12))
def test_it_stops_when_dev_stops_rising_and_keeps_the_first_of_the_best_rounds(
    script: Callable[[Sequence[float]], list[dict[str, Tensor]]], seed: int
) -> None:
    """A round is as many whole epochs as hold `min_steps` steps; the threshold is the best's."""
    rng = random.Random(seed)
    values = [rng.choice([0.1, 0.3, 0.5, 0.7]) for _ in range(5)]
    patience, (min_steps, epochs) = rng.randint(1, 5), rng.choice([(0, 1), (3, 1), (4, 2), (7, 3)])
    rounds = next((n for n in range(1, 6) if n - 1 - values.index(max(values[:n])) >= patience), 5)
    seen = script(values)
    recipe = replace(RECIPE, epochs=5, patience=patience, min_steps=min_steps)
    model, history = train(tiny.span_task(SMALL, 0.4), recipe)
    best = values.index(max(values[:rounds]))
    assert history.dev == values[:rounds]
    assert history.best_epoch == best + 1
    assert len(history.losses) == rounds * epochs * STEPS
    kept = weights(model)
    same = {number for number, one in enumerate(seen) if not moved(one, kept)}
    assert same == {best, rounds}, "calibrated once more at the end"
    assert model.kind.threshold == float(kept["head.classifier.weight"].sum())  # type: ignore[attr-defined]


def test_it_ends_in_evaluation_mode_and_dev_is_scored_in_it() -> None:
    (task, splits), began = KEYWORD, time.perf_counter()
    model, history = train(recipe=replace(RECIPE, epochs=1))
    assert 0 < history.seconds < time.perf_counter() - began
    assert not any(part.training for part in model.modules())
    assert model.kept is None
    items = model.kind.encode(splits["dev"], TOKENIZER, MAX_LENGTH)
    assert history.dev == [dev_metric(model, task.metric, splits["dev"], items)]


def test_dev_sets_the_threshold_for_none_and_the_metric_uses_it() -> None:
    task, splits = tiny.span_task(SMALL, none_share=0.5)
    model = new_model(make_kind(task, splits))
    items = model.kind.encode(splits["dev"], TOKENIZER, MAX_LENGTH)
    none = sum(not e.answers for e in splits["dev"]) / 8
    assert dev_metric(model, task.metric, splits["dev"], items) >= none > 0
    assert math.isfinite(model.kind.threshold)  # type: ignore[attr-defined]


def test_labels_of_dev_choose_the_round_and_nothing_else() -> None:
    wrong = tiny.with_other_labels(*KEYWORD[:1], KEYWORD[1]["dev"])
    (_, right), (_, turned) = train(), train(dev=wrong)
    assert right.losses == turned.losses
    assert turned.dev == pytest.approx([1 - value for value in right.dev])


# -- chance


def test_the_seed_alone_decides() -> None:
    one, first = train()
    model = new_model()
    torch.manual_seed(999)  # the state of the global generator has no say
    two, second = train(model=model)
    assert not moved(weights(one), weights(two))
    assert first.losses == second.losses
    three, _ = train(recipe=replace(RECIPE, seed=1))
    assert "head.classifier.weight" in moved(weights(one), weights(three))


def test_dropout_is_on_in_head_and_encoder_and_differs_by_step_and_seed() -> None:
    """With a rate of zero only dropout can move the loss of the same example."""
    task, splits = KEYWORD
    one = task, {**splits, "train": splits["train"][:1]}
    still = [replace(RECIPE, learning_rate=0.0, seed=seed) for seed in (0, 1)]
    for head, encoder, losses in ((0.0, 0.0, 1), (0.5, 0.0, 8), (0.0, 0.5, 8)):
        model = new_model(dropout=encoder).eval()
        model.head.dropout.p = head  # type: ignore[union-attr]
        seen = {loss for recipe in still for loss in train(one, recipe, model)[1].losses}
        assert len(seen) == losses


@pytest.mark.parametrize("frozen", [True, False])
def test_dropout_of_a_frozen_encoder_is_off_and_that_of_its_head_on(frozen: bool) -> None:
    model = new_model(dropout=0.5, frozen=frozen).train()
    items = model.kind.encode(KEYWORD[1]["train"], TOKENIZER, MAX_LENGTH)
    batch = collate(items)

    def read() -> Tensor:
        return model.encoder(batch.ids, batch.segment_ids, batch.padding_mask).tokens

    assert torch.equal(read(), read()) == frozen
    assert not torch.equal(model(batch), model(batch))
    score_items(model, items)
    assert model.training, "scoring has left the model in another mode"
    assert torch.equal(model.eval()(batch), model(batch))


# -- faults


SPOILED = (lambda x: x * math.nan, lambda x: x * math.inf, lambda x: x + (x - x.detach()).sqrt())


@pytest.mark.parametrize("spoil", SPOILED, ids=("NaN", "infinite", "its gradient"))
def test_a_loss_or_gradient_that_is_no_number_names_epoch_and_rate(
    monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Tensor], Tensor]
) -> None:
    kind = make_kind(*KEYWORD)
    real, changes = kind.loss, iter([*[torch.clone] * 4, spoil])
    monkeypatch.setattr(kind, "loss", lambda *given: next(changes)(real(*given)))
    with pytest.raises(FineTuningDiverged, match=r"in epoch 2 at learning rate 0\.003"):
        train(model=new_model(kind), progress=True)


@pytest.mark.parametrize("empty", ["train", "dev"])
def test_nothing_to_train_or_to_select_on_is_refused(empty: str) -> None:
    task, splits = KEYWORD
    with pytest.raises(TaskError, match="at least one training and one dev example"):
        train((task, {**splits, empty: []}))


def test_a_recipe_that_trains_nothing_is_refused() -> None:
    for wrong in ({"epochs": 0}, {"batch_size": 0}, {"learning_rate": math.nan}):
        with pytest.raises(ValueError, match=f"from 1, the rate from 0: .*{next(iter(wrong))}"):
            Hyperparameters(**wrong)  # type: ignore[arg-type]
