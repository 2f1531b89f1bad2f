"""The loop: what it learns, what it leaves alone, what it keeps, and what it may not look at."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import tiny_finetuning as tiny
import torch
from torch import Tensor, nn

from bertedu.finetuning import training as loop
from bertedu.finetuning.collation import MAX_LENGTH, Item, collate, training_batches
from bertedu.finetuning.examples import AnyExample, Example, Splits, Tagged, Task, TaskError
from bertedu.finetuning.finetune import make_kind
from bertedu.finetuning.kinds import Kind
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.training import (
    FineTuningDiverged,
    History,
    Hyperparameters,
    TaskModel,
    dev_metric,
    finetune,
    score_items,
)
from bertedu.model.elmo import Elmo, ElmoSizes
from bertedu.model.features import (
    BertFeatures,
    BiLSTMFeatures,
    ElmoFeatures,
    Encoder,
    PairFeatures,
)
from bertedu.text.fast_tokenizer import load_tokenizer

TOKENIZER = load_tokenizer()
SMALL = {"train": 24, "dev": 8, "test": 8}
RECIPE = Hyperparameters(3e-3, batch_size=8, epochs=4, patience=4, dropout=0.1)
STEPS = 3  # an epoch of SMALL has
ENCODERS: dict[str, Callable[[float], Encoder]] = {
    "bidirectional": lambda p: BertFeatures(tiny.small_bert(dropout=p)),
    "left-to-right": lambda p: BertFeatures(tiny.small_bert("left-to-right", dropout=p)),
    "right-to-left": lambda p: BertFeatures(tiny.small_bert("right-to-left", dropout=p)),
    "pair": lambda p: PairFeatures(
        tiny.small_bert("left-to-right", 1, p), tiny.small_bert("right-to-left", 2, p)
    ),
    "elmo": lambda p: ElmoFeatures(Elmo(replace(tiny.config(), dropout=p), ElmoSizes(1, 24))),
    "bilstm": lambda p: BiLSTMFeatures(
        BertFeatures(tiny.small_bert(dropout=p)), 8, layer_norm=True
    ),
}


def new_model(
    kind: Kind, encoder: str = "bidirectional", dropout: float = 0.1, frozen: bool = False
) -> TaskModel:
    torch.manual_seed(0)
    below = ENCODERS[encoder](dropout)
    torch.manual_seed(0)
    return TaskModel(below, kind, dropout, frozen)


def train(
    made: tuple[Task, Splits],
    recipe: Hyperparameters = RECIPE,
    model: TaskModel | None = None,
    dev: Sequence[AnyExample] | None = None,
    **options: Any,
) -> tuple[TaskModel, History]:
    task, splits = made
    kind = model.kind if model else make_kind(task, splits)
    model = model or new_model(kind)
    dev = splits["dev"] if dev is None else dev
    items = [kind.encode(some, TOKENIZER, MAX_LENGTH) for some in (splits["train"], dev)]
    settings = {"progress": False, **options}
    return model, finetune(model, items[0], dev, items[1], task.metric, recipe, **settings)


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def moved(one: dict[str, Tensor], two: dict[str, Tensor]) -> set[str]:
    return {name for name, value in one.items() if not torch.equal(value, two[name])}


def script(monkeypatch: pytest.MonkeyPatch, values: Sequence[float]) -> list[dict[str, Tensor]]:
    """Let dev say these values, one an epoch; return the weights that each was asked of."""
    seen: list[dict[str, Tensor]] = []
    given = iter([*values, 0.0])

    def fake(model: TaskModel, *_: Any) -> float:
        seen.append(weights(model))
        return next(given)

    monkeypatch.setattr(loop, "dev_metric", fake)
    return seen


# --- Learning -----------------------------------------------------------------------------------


def test_a_keyword_is_learned_and_found_in_sentences_never_seen() -> None:
    task, splits = made = tiny.keyword_task()
    model, history = train(made, Hyperparameters(2e-2, 8, 6, patience=6))
    assert history.losses[0] == pytest.approx(math.log(2), abs=0.1)
    assert sum(history.losses[-6:]) / 6 < 0.1
    kind = model.kind
    items = kind.encode(splits["test"], TOKENIZER, MAX_LENGTH)
    assert dev_metric(model, task.metric, splits["test"], items) > 0.95
    assert len(history.dev) * 12 == len(history.losses)
    assert history.dev[history.best_epoch - 1] == max(history.dev)


# What no task reads, and so no gradient reaches.
UNREAD = {
    "tagging": {"encoder.bert.pooler.dense.weight", "encoder.bert.pooler.dense.bias"},
    "span": {"encoder.bert.pooler.dense.weight", "encoder.bert.pooler.dense.bias"},
}


def check_all_moved(model: TaskModel, made: tuple[Task, Splits], unread: set[str]) -> None:
    before = weights(model)
    listed = {name for name, _ in model.named_parameters()}
    assert listed == set(before), "something that is saved is no parameter, or the other way"
    train(made, replace(RECIPE, epochs=1), model)
    still = before.keys() - moved(before, weights(model))
    # A key's bias adds the same to every score of a query: softmax does not see it.
    assert {name for name in still if not name.endswith("attention.key.bias")} == unread


@pytest.mark.parametrize("name", tiny.MAKERS)
def test_every_parameter_that_a_task_reads_learns(name: str) -> None:
    """A layer that were made in `forward` would be in no list, and would not move."""
    task, splits = made = tiny.MAKERS[name](SMALL)
    check_all_moved(new_model(make_kind(task, splits)), made, UNREAD.get(name, set()))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_every_parameter_of_every_encoder_learns(encoder: str) -> None:
    task, splits = made = tiny.keyword_task(sizes=SMALL)
    unread = {f"encoder.below.bert.pooler.dense.{part}" for part in ("weight", "bias")}
    model = new_model(make_kind(task, splits), encoder)
    check_all_moved(model, made, unread if encoder == "bilstm" else set())


@pytest.mark.parametrize("encoder", ENCODERS)
def test_the_new_layer_starts_small_and_without_a_bias(encoder: str) -> None:
    kind = make_kind(*tiny.tagging_task(SMALL))
    classifier: Any = new_model(kind, encoder).head.classifier
    assert float(classifier.weight.detach().std()) == pytest.approx(0.02, rel=0.4)
    assert not classifier.bias.any()


# --- The optimizer ------------------------------------------------------------------------------


def test_the_rate_rises_and_falls_in_straight_lines() -> None:
    recipe = Hyperparameters(0.5, warmup_share=0.1)
    steps = [0, 4, 9, 10, 55, 99, 100]
    expected = [0.05, 0.25, 0.5, 0.5, 0.25, 0.5 / 90, 0]
    assert [recipe.learning_rate_at(s, 100) for s in steps] == pytest.approx(expected)
    assert Hyperparameters(0.5).learning_rate_at(0, 1) == 0.5, "a single step learns, too"
    assert Hyperparameters(0.5, warmup_share=0).learning_rate_at(0, 10) == 0.5
    assert Hyperparameters(0.5, warmup_share=1).learning_rate_at(9, 10) == pytest.approx(0.5)


@pytest.fixture
def spied(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Everything the optimizer is given, step by step."""
    seen: list[dict[str, Any]] = []
    original = torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, *rest: Any) -> Any:
        squares = [float(p.grad.norm()) ** 2 for g in self.param_groups for p in g["params"]]
        seen.append(
            {
                "rates": [group["lr"] for group in self.param_groups],
                "norm": sum(squares) ** 0.5,
                "decay": {
                    g["weight_decay"]: [id(p) for p in g["params"]] for g in self.param_groups
                },
            }
        )
        return original(self, *rest)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    return seen


def test_each_step_gets_its_rate_and_a_clipped_gradient(spied: list[dict[str, Any]]) -> None:
    train(tiny.keyword_task(sizes=SMALL), replace(RECIPE, clip_norm=0.01))
    expected = [RECIPE.learning_rate_at(step, 4 * STEPS) for step in range(4 * STEPS)]
    assert [step["rates"] for step in spied] == [[rate] * 2 for rate in expected]
    assert [step["norm"] for step in spied] == pytest.approx([0.01] * 4 * STEPS, rel=1e-3)


def test_biases_and_norms_do_not_decay_and_nothing_is_left_out(
    spied: list[dict[str, Any]],
) -> None:
    model, _ = train(tiny.keyword_task(sizes=SMALL), replace(RECIPE, epochs=1, weight_decay=0.3))
    names = {id(p): name for name, p in model.named_parameters()}
    flat = {name for name in names.values() if name.endswith("bias") or "norm" in name}
    assert {names[i] for i in spied[0]["decay"][0.0]} == flat
    assert {names[i] for i in spied[0]["decay"][0.3]} == set(names.values()) - flat


def test_every_example_is_trained_on_once_an_epoch_in_an_order_of_its_own() -> None:
    kind = make_kind(*tiny.keyword_task(sizes=SMALL))
    items = kind.encode(tiny.keyword_task(sizes=SMALL)[1]["train"], TOKENIZER, MAX_LENGTH)

    def order(seed: int, epoch: int) -> list[list[int]]:
        return [[i.example for i in b.items] for b in training_batches(items, 8, seed, epoch)]

    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        assert sorted(i for batch in order(seed, epoch) for i in batch) == list(range(24))
    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(0, 1)
    assert order(0, 0) != order(1, 0)


# --- What is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [1, 2, 3])
def test_the_weights_of_the_best_epoch_are_kept(monkeypatch: pytest.MonkeyPatch, best: int) -> None:
    values = [0.1, 0.2, 0.3, 0.2]
    values[best - 1] = 0.9
    seen = script(monkeypatch, values)
    model, history = train(tiny.keyword_task(sizes=SMALL))
    assert history.best_epoch == best
    assert history.dev == values
    assert not moved(seen[best - 1], weights(model))
    for other in {0, 1, 2, 3} - {best - 1}:
        assert moved(seen[other], weights(model)), f"epoch {other + 1} is the same"


def test_of_two_equal_epochs_the_first_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [0.3, 0.5, 0.5, 0.5])
    assert train(tiny.keyword_task(sizes=SMALL))[1].best_epoch == 2


@pytest.mark.parametrize(
    ("values", "patience", "epochs"),
    [
        ([0.5, 0.4, 0.3, 0.9, 0.9, 0.9], 2, 3),
        ([0.5, 0.4, 0.6, 0.5, 0.5, 0.9], 2, 5),  # counted anew from the better one
        ([0.5, 0.5, 0.9, 0.9, 0.9, 0.9], 1, 2),  # as good is not better
        ([0.5, 0.4, 0.3, 0.2, 0.1, 0.0], 6, 6),
    ],
)
def test_it_stops_once_dev_has_not_improved_for_so_many_epochs(
    monkeypatch: pytest.MonkeyPatch, values: list[float], patience: int, epochs: int
) -> None:
    script(monkeypatch, values)
    recipe = replace(RECIPE, epochs=6, patience=patience)
    _, history = train(tiny.keyword_task(sizes=SMALL), recipe)
    assert history.dev == values[:epochs]
    assert len(history.losses) == epochs * STEPS


@pytest.mark.parametrize(("min_steps", "epochs_in_round"), [(0, 1), (3, 1), (4, 2), (7, 3)])
def test_few_labels_do_not_mean_few_steps(
    monkeypatch: pytest.MonkeyPatch, min_steps: int, epochs_in_round: int
) -> None:
    """Between two looks at dev lie whole epochs, and at least so many steps."""
    script(monkeypatch, [0.5, 0.6, 0.4, 0.3, 0.9])
    recipe = replace(RECIPE, epochs=5, patience=2, min_steps=min_steps)
    _, history = train(tiny.keyword_task(sizes=SMALL), recipe)
    assert history.dev == [0.5, 0.6, 0.4, 0.3]
    assert len(history.losses) == 4 * epochs_in_round * STEPS


def test_the_threshold_for_none_is_that_of_the_kept_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is set on dev after every epoch; the last epoch's would be wrong for an earlier model."""
    task, splits = made = tiny.span_task(SMALL, none_share=0.4)
    kind = make_kind(task, splits)
    assert isinstance(kind, QuestionAnswering)
    real, said, thresholds = dev_metric, iter([0.1, 0.9, 0.2, 0.1, 0.0]), []

    def fake(model: TaskModel, *rest: Any) -> float:
        real(model, *rest)
        assert isinstance(model.kind, QuestionAnswering)
        model.kind.threshold = float(model.state_dict()["head.classifier.weight"].sum())
        thresholds.append(model.kind.threshold)
        return next(said)

    monkeypatch.setattr(loop, "dev_metric", fake)
    train(made, model=new_model(kind))
    assert kind.threshold == thresholds[1]
    assert kind.threshold != thresholds[3]


def test_dev_sets_the_threshold_for_none_and_the_metric_uses_it() -> None:
    task, splits = tiny.span_task(SMALL, none_share=0.5)
    kind = make_kind(task, splits)
    assert isinstance(kind, QuestionAnswering)
    model = new_model(kind)
    items = kind.encode(splits["dev"], TOKENIZER, MAX_LENGTH)
    with_none = dev_metric(model, task.metric, splits["dev"], items)
    none = sum(not e.answers for e in splits["dev"]) / 8  # type: ignore[union-attr]
    assert none > 0
    assert math.isfinite(kind.threshold)
    assert with_none >= none, "always to say none would have been better"


def test_it_ends_in_evaluation_mode_and_dev_is_scored_in_it() -> None:
    task, splits = made = tiny.keyword_task(sizes=SMALL)
    model, history = train(made, replace(RECIPE, epochs=1))
    assert not any(part.training for part in model.modules())
    items = model.kind.encode(splits["dev"], TOKENIZER, MAX_LENGTH)
    assert history.dev == [dev_metric(model, task.metric, splits["dev"], items)]


# --- Chance -------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_gives_others() -> None:
    made = tiny.keyword_task(sizes=SMALL)
    one, first = train(made)
    kind = make_kind(*made)
    model = new_model(kind)
    torch.manual_seed(999)  # the state of the global generator has no say
    torch.rand(7)
    two, second = train(made, model=model)
    assert not moved(weights(one), weights(two))
    assert first.losses == second.losses
    three, third = train(made, replace(RECIPE, seed=1))
    assert "head.classifier.weight" in moved(weights(one), weights(three))
    assert first.losses != third.losses


def test_dropout_is_on_in_the_head_and_in_the_encoder() -> None:
    made = tiny.keyword_task(sizes=SMALL)
    kind = make_kind(*made)
    losses = []
    for head, encoder in ((0.0, 0.0), (0.5, 0.0), (0.0, 0.5)):
        model = new_model(kind, dropout=encoder)
        model.head.dropout.p = head  # type: ignore[union-attr]
        losses.append(train(made, replace(RECIPE, epochs=1), model)[1].losses[0])
    assert len(set(losses)) == 3


def test_dropout_differs_from_step_to_step() -> None:
    """With a rate of zero only dropout can move the loss of the same example."""
    task, splits = tiny.keyword_task(sizes=SMALL)
    kind = make_kind(task, splits)
    one = {**splits, "train": splits["train"][:1]}  # the same batch every time
    _, history = train(
        (task, one), replace(RECIPE, learning_rate=0.0), new_model(kind, dropout=0.5)
    )
    assert len(set(history.losses)) == 4


# --- Frozen -------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_frozen_encoder_stays_bit_for_bit_and_only_the_head_learns(encoder: str) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    model = new_model(make_kind(*made), encoder, 0.5, frozen=True)
    before = weights(model)
    train(made, model=model)
    assert moved(before, weights(model)) == {"head.classifier.weight", "head.classifier.bias"}
    assert all(p.grad is None for p in model.encoder.parameters())


def test_dropout_of_a_frozen_encoder_is_off_and_that_of_its_head_on() -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    kind = make_kind(task, splits)
    batch = collate(kind.encode(splits["train"], TOKENIZER, MAX_LENGTH))

    def states(model: TaskModel) -> Tensor:
        return model.encoder(batch.ids, batch.segment_ids, batch.padding_mask).tokens

    for frozen in (True, False):
        model = new_model(kind, dropout=0.5, frozen=frozen).train()
        assert torch.equal(states(model), states(model)) == frozen
        assert not torch.equal(model(batch), model(batch)), "dropout of the head"
        model.eval()
        assert torch.equal(model(batch), model(batch))
        model.train()
        score_items(model, kind.encode(splits["dev"], TOKENIZER, MAX_LENGTH))
        assert model.training, "scoring has left the model in another mode"
        assert torch.equal(states(model), states(model)) == frozen


# --- Scoring ------------------------------------------------------------------------------------


def test_scores_come_in_the_order_asked_and_do_not_depend_on_company() -> None:
    task, splits = tiny.keyword_task()
    kind = make_kind(task, splits)
    model = new_model(kind)
    long = Example(" ".join(tiny.FILLER * 4), None, 0)
    items = kind.encode([*splits["train"], long], TOKENIZER, MAX_LENGTH)
    together = score_items(model, items)
    assert len(together) == 97
    for i in (0, 40, 95, 96):
        (alone,) = score_items(model, [items[i]])
        assert torch.allclose(alone, together[i], atol=1e-5), i
    turned = score_items(model, items[::-1])
    assert torch.allclose(torch.stack(turned[::-1]), torch.stack(together), atol=1e-5)
    assert len({round(float(s[0]), 5) for s in together}) > 50, "all the same says nothing"


# --- What must not be looked at -----------------------------------------------------------------


def test_labels_of_dev_choose_the_epoch_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    splits = made[1]
    wrong = [replace(e, label=1 - e.label) for e in splits["dev"]]  # type: ignore[type-var, union-attr]
    real, seen = dev_metric, []

    def spy(model: TaskModel, *rest: Any) -> float:
        seen.append(weights(model))
        return real(model, *rest)

    monkeypatch.setattr(loop, "dev_metric", spy)
    _, right = train(made)
    _, turned = train(made, dev=wrong)
    assert right.losses == turned.losses
    for epoch in range(4):
        assert not moved(seen[epoch], seen[5 + epoch]), f"epoch {epoch + 1}"
    assert turned.dev == pytest.approx([1 - value for value in right.dev])


def poisoned(example: AnyExample) -> AnyExample:
    """Turn the last words of an example into others."""
    assert isinstance(example, Tagged)
    return replace(example, words=(*example.words[:-2], "stone", "London"))


@pytest.mark.parametrize(
    ("encoder", "backward", "forward"),
    [
        ("left-to-right", False, True),
        ("right-to-left", True, False),
        ("bidirectional", True, True),
        ("pair", True, True),
        ("elmo", True, True),
        ("bilstm", True, True),
    ],
)
def test_fine_tuned_a_one_way_model_still_sees_one_way(
    encoder: str, backward: bool, forward: bool
) -> None:
    """``backward``: scores of a word depend on later ones; ``forward``: on earlier ones."""
    task, splits = made = tiny.tagging_task(SMALL)
    model = new_model(make_kind(task, splits), encoder)
    train(made, replace(RECIPE, epochs=2), model)
    said = "the old man saw some house".split()

    def scores(words: list[str]) -> Tensor:
        (item,) = model.kind.encode([Tagged(tuple(words), ("O",) * 6)], TOKENIZER, MAX_LENGTH)
        assert len(item.rows[0].ids) == 8
        return score_items(model, [item])[0][1:-1]

    before = scores(said)
    for place in range(6):
        other = scores([*said[:place], "river", *said[place + 1 :]])
        changed = ((before - other).abs().amax(-1) > 1e-6).tolist()
        expected = [
            place == i or (place > i and backward) or (place < i and forward) for i in range(6)
        ]
        assert changed == expected, f"word {place} changed"


def test_read_from_left_to_right_the_whole_input_decides_the_class() -> None:
    """`[CLS]` has seen nothing there: a head that read it would answer without reading."""
    task, splits = tiny.keyword_task(sizes=SMALL)
    for encoder in ENCODERS:
        model = new_model(make_kind(task, splits), encoder)
        texts = ["the old man saw wonderful", "the old man saw terrible", "a old man saw wonderful"]
        items = model.kind.encode([Example(t, None, 0) for t in texts], TOKENIZER, MAX_LENGTH)
        one, last, first = score_items(model, items)
        assert not torch.equal(one, last), f"{encoder}: the last word is not read"
        assert not torch.equal(one, first), f"{encoder}: the first word is not read"


# --- Faults -------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("progress", [False, True])
def test_a_loss_that_is_no_number_names_epoch_and_rate(
    monkeypatch: pytest.MonkeyPatch, value: float, progress: bool
) -> None:
    made = tiny.keyword_task(sizes=SMALL)
    kind = make_kind(*made)
    real, calls = kind.loss, []

    def loss(scores: Tensor, batch: Any) -> Tensor:
        calls.append(1)
        return real(scores, batch) * (value if len(calls) == 5 else 1)

    monkeypatch.setattr(kind, "loss", loss)
    with pytest.raises(FineTuningDiverged, match=r"in epoch 2 at learning rate 0\.003"):
        train(made, model=new_model(kind), progress=progress)


def test_far_too_high_a_rate_diverges() -> None:
    with pytest.raises(FineTuningDiverged, match="1e\\+30"):
        train(tiny.rating_task(SMALL), replace(RECIPE, learning_rate=1e30))


@pytest.mark.parametrize("empty", ["train", "dev"])
def test_nothing_to_train_or_to_select_on_is_refused(empty: str) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    with pytest.raises(TaskError, match="at least one training and one dev example"):
        train((task, {**splits, empty: []}))


def test_fewer_examples_than_a_batch_are_trained_on(spied: list[dict[str, Any]]) -> None:
    task, splits = tiny.keyword_task(sizes=SMALL)
    model = new_model(make_kind(task, splits))
    before = weights(model)
    _, history = train((task, {**splits, "train": splits["train"][:3]}), model=model)
    assert len(history.losses) == len(spied) == 4
    assert "head.classifier.weight" in moved(before, weights(model))


def test_rows_are_padded_with_what_is_not_asked() -> None:
    task, splits = tiny.tagging_task(SMALL)
    items: list[Item] = make_kind(task, splits).encode(splits["train"], TOKENIZER, MAX_LENGTH)
    batch = collate(items)
    assert (batch.target[~batch.padding_mask] == -100).all()
    assert (batch.ids[~batch.padding_mask] == 0).all()
    asked = (batch.target != -100).sum(1).tolist()
    assert asked == [len(e.words) for e in splits["train"]]  # type: ignore[union-attr]
