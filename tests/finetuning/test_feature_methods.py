"""Frozen features into a BiLSTM as methods of fine-tuning: named, run, recorded as the others."""

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import tiny_finetuning as tiny
import torch
from course.results.search import run_task
from torch import Tensor

from bertedu.finetuning.collation import Item, TaskBatch, collate
from bertedu.finetuning.examples import Splits, Task, TaskError
from bertedu.finetuning.finetune import (
    FEATURES,
    LSTM_SIZE,
    METHODS,
    RATES,
    Run,
    Setup,
    frozen_features,
    load_encoder,
    run_once,
)
from bertedu.finetuning.training import Hyperparameters, kept_states
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, save_checkpoint
from bertedu.model.features import READS, BiLSTMFeatures, LayerFeatures
from bertedu.text.fast_tokenizer import save_tokenizer
from course.results.record import RunRecord
from course.results.summary import paired_difference

SMALL = {"train": 16, "dev": 6, "test": 8}
RECIPE = Hyperparameters(3e-3, 8, 1)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Random weights, three layers."""
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(1000)
    config = dataclasses.replace(tiny.config(), num_hidden_layers=3)
    save_checkpoint(BertForPreTraining(config), folder)
    save_tokenizer(tiny.VOCABULARY, folder)
    return str(folder)


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("course.results.origin.current_commit", lambda: "abc1234")


def go(
    made: tuple[Task, Splits],
    model: str,
    method: str,
    recipe: Hyperparameters = RECIPE,
    **options: object,
) -> Run:
    return run_once(*made, Setup(model, method), recipe, progress=False, **options)  # type: ignore[arg-type]


def below(run: Run) -> dict[str, Tensor]:
    """Return the weights of the BERT under the BiLSTM."""
    prefix = "encoder.below.bert."
    found = {
        name.removeprefix(prefix): value
        for name, value in run.model.state_dict().items()
        if name.startswith(prefix)
    }
    assert found
    return found


def test_the_methods_have_the_names_that_the_record_knows() -> None:
    assert FEATURES == (
        "features:embeddings",
        "features:second-to-last",
        "features:last",
        "features:sum of last two",
        "features:concat of last two",
        "features:sum of all",
        "features:concat of all",
    )
    assert METHODS[:4] == ("fine-tuned", "frozen", "untrained", "fine-tuned + BiLSTM")
    own = {*METHODS[:4], *FEATURES, *(f"untrained {name}" for name in FEATURES)}
    assert set(METHODS) == own | {f"{name}, mean" for name in own}


@pytest.mark.parametrize("method", METHODS)
def test_a_method_says_what_it_needs(method: str) -> None:
    setup = Setup("x", method)
    assert setup.untrained == ("untrained" in method)
    reads = method.removesuffix(", mean")
    assert setup.reads == (reads.split(":")[1] if ":" in reads else "")
    assert setup.frozen == (reads == "frozen")
    if setup.reads:
        assert setup.rates == Setup("minilm", method).rates == RATES["frozen"]


@pytest.mark.parametrize("wrong", ["features", "features:", "features:first", "untrained features"])
def test_a_method_that_is_half_a_name_is_refused(wrong: str) -> None:
    with pytest.raises(TaskError, match="no method"):
        Setup("x", wrong)


@pytest.mark.parametrize("method", FEATURES)
def test_the_encoder_stays_and_what_is_above_learns(checkpoint: str, method: str) -> None:
    made = tiny.tagging_task(SMALL)
    given = load_checkpoint(checkpoint).bert.state_dict()
    still, run = (
        go(made, checkpoint, method, dataclasses.replace(RECIPE, learning_rate=rate))
        for rate in (0.0, 0.05)
    )
    for name, value in below(run).items():
        assert torch.equal(value, given[name])
    encoder = run.model.encoder
    assert isinstance(encoder, BiLSTMFeatures)
    assert isinstance(encoder.below, LayerFeatures)
    assert f"features:{encoder.below.reads}" == method
    assert (len(encoder.layers), encoder.size) == (2, 2 * LSTM_SIZE)
    start = still.model.state_dict()
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, start[name]) == name.startswith("encoder.below.bert."), name


@pytest.mark.parametrize("method", ["fine-tuned", "untrained", "fine-tuned + BiLSTM"])
def test_heads_of_what_is_fine_tuned_get_states_of_one_size(checkpoint: str, method: str) -> None:
    """Else a row of table 5 would be about a start: new LSTMs have states of a fifth of BERT's."""
    made = tiny.tagging_task(SMALL)
    encoder = go(
        made, checkpoint, method, dataclasses.replace(RECIPE, learning_rate=0.0)
    ).model.encoder
    ids = torch.randint(5, 60, (2, 8), generator=torch.Generator().manual_seed(0))
    features = encoder(ids, torch.zeros_like(ids), torch.ones_like(ids))
    assert float(features.tokens.std()) == pytest.approx(1, abs=0.1)
    if method == "fine-tuned + BiLSTM":  # without one, what stands for the whole is the pooler's
        assert float(features.whole.std()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("method", ["fine-tuned", "frozen", "fine-tuned + BiLSTM"])
def test_with_mean_the_same_encoder_is_read_in_another_way(checkpoint: str, method: str) -> None:
    """A head on the mean of the tokens: C's own layer has no part, and so does not learn."""
    made, recipe = tiny.keyword_task(SMALL), dataclasses.replace(RECIPE, learning_rate=0.05)
    before, after = (
        go(made, checkpoint, f"{method}, mean", one).model.state_dict()
        for one in (dataclasses.replace(recipe, learning_rate=0.0), recipe)
    )
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert not any("pooler" in name for name in moved)
    assert any(name.startswith("head.") for name in moved)
    assert any(name.startswith("encoder.below.") for name in moved) == (method != "frozen")
    plain = go(made, checkpoint, method, dataclasses.replace(recipe, learning_rate=0.0)).model
    given = plain.encoder.state_dict()
    assert given.keys() == {
        name.removeprefix("encoder.below.") for name in before if "head" not in name
    }


def test_untrained_features_are_of_random_weights_and_as_frozen(checkpoint: str) -> None:
    made = tiny.tagging_task(SMALL)
    given = load_checkpoint(checkpoint).bert.state_dict()["pooler.dense.weight"]
    still = dataclasses.replace(RECIPE, learning_rate=0.0)
    method = "untrained features:last"
    start, end = (below(go(made, checkpoint, method, r)) for r in (still, RECIPE))
    other = below(go(made, checkpoint, method, dataclasses.replace(RECIPE, seed=1)))
    assert all(torch.equal(value, end[name]) for name, value in start.items())
    assert not torch.equal(start["pooler.dense.weight"], given)
    assert not torch.equal(start["pooler.dense.weight"], other["pooler.dense.weight"])


def test_the_seed_draws_the_bilstm(checkpoint: str) -> None:
    made = tiny.tagging_task(SMALL)

    def drawn(seed: int) -> Tensor:
        torch.manual_seed(99 + seed)  # no say
        recipe = dataclasses.replace(RECIPE, learning_rate=0.0, seed=seed)
        run = go(made, checkpoint, "features:last", recipe)
        return run.model.state_dict()["encoder.layers.1.backwards.weight_hh_l0"]

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))


@pytest.mark.parametrize("task", ["classification", "choice", "tagging", "span"])
def test_every_kind_of_task_can_be_read_off(checkpoint: str, task: str) -> None:
    made = tiny.MAKERS[task](sizes=SMALL)
    run = go(made, checkpoint, "features:sum of last two")
    assert len(run.answers["test"]) == SMALL["test"]


def test_what_is_there_is_learned(checkpoint: str) -> None:
    """Places are known by their words: random embeddings are enough to find them."""
    made = tiny.tagging_task()
    recipe = Hyperparameters(1e-2, 8, 6)
    run = go(made, checkpoint, "features:embeddings", recipe)
    assert max(run.history.dev) > 0.9


def test_runs_are_recorded_and_compared_as_the_others(checkpoint: str, tmp_path: Path) -> None:
    book, made = RunRecord(tmp_path), tiny.tagging_task(SMALL)
    methods = ("fine-tuned", "features:last", "features:sum of all")
    for method in methods:
        for _ in range(2):  # the second time there is nothing to do
            runs = run_task(
                *made,
                Setup(checkpoint, method),
                RECIPE,
                range(2),
                book,
                say=lambda _: None,
            )
        assert runs == []
    rows = [row for row in book.rows() if row["method"] in methods]
    assert len(rows) == 6
    _, outcomes = book.outcomes("places")
    assert {row["method"] for row, _ in outcomes} == {"baseline", *methods}
    _, low, high = paired_difference(
        book, "places", *((checkpoint, method, "all") for method in methods[1:])
    )
    assert low <= high


def test_only_one_bert_has_layers_to_read(tmp_path: Path) -> None:
    left = tiny.save_bert(tmp_path / "left", "left-to-right")
    right = tiny.save_bert(tmp_path / "right", "right-to-left")
    pair, _ = load_encoder(f"{left}+{right}")
    with pytest.raises(ValueError, match="the layers of one BERT, not of PairFeatures"):
        frozen_features(pair, "last")


def test_elmo_is_read_as_a_weighted_sum_only(tmp_path: Path) -> None:
    elmo, _ = load_encoder(str(tiny.save_elmo(tmp_path)))
    for reads in ("last", "concat of all"):
        with pytest.raises(ValueError, match='ELMo is read as "sum of all"'):
            frozen_features(elmo, reads)


def test_of_a_frozen_elmo_the_mix_learns_and_nothing_else(tmp_path: Path) -> None:
    elmo = str(tiny.save_elmo(tmp_path))
    made = tiny.tagging_task(SMALL)
    before, after = (
        go(
            made, elmo, "features:sum of all", dataclasses.replace(RECIPE, learning_rate=rate)
        ).model.state_dict()
        for rate in (0.0, 0.05)
    )
    stayed = {name for name, value in after.items() if torch.equal(value, before[name])}
    assert stayed == {name for name in after if name.startswith("encoder.below.elmo.")}
    assert any(name.startswith("encoder.below.mix.") for name in after)


def test_with_a_bilstm_on_top_everything_learns(checkpoint: str) -> None:
    made = tiny.tagging_task(SMALL)
    before, after = (
        go(
            made,
            checkpoint,
            "fine-tuned + BiLSTM",
            dataclasses.replace(RECIPE, learning_rate=rate),
        ).model
        for rate in (0.0, 0.05)
    )
    assert isinstance(after.encoder, BiLSTMFeatures)
    assert (len(after.encoder.layers), after.encoder.size) == (1, 2 * LSTM_SIZE)
    start = before.state_dict()
    stayed = {n for n, value in after.state_dict().items() if torch.equal(value, start[n])}
    # tags do not read C, so its layer gets no gradient; nor does what no input has used
    assert {name for name in stayed if "pooler" not in name} == set()


@pytest.mark.parametrize("method", ["fine-tuned", "fine-tuned + BiLSTM"])
def test_over_a_one_way_model_a_bilstm_sees_what_the_model_does_not(
    tmp_path: Path, method: str
) -> None:
    """Fine-tuned, left to right stays left to right; a BiLSTM on it sees the right (table 5)."""
    left = str(tiny.save_bert(tmp_path, "left-to-right"))
    run = go(tiny.tagging_task(SMALL), left, method)
    encoder = run.model.eval().encoder
    ids = torch.tensor([[2, 100, 200, 300, 3], [2, 100, 200, 400, 3]])
    mask = torch.ones_like(ids, dtype=torch.bool)
    with torch.no_grad():
        tokens = encoder(ids, torch.zeros_like(ids), mask).tokens[:, :3]
        under = encoder.below if isinstance(encoder, BiLSTMFeatures) else encoder
        states = under(ids, torch.zeros_like(ids), mask).tokens[:, :3]
    assert torch.equal(states[0], states[1])
    assert torch.equal(tokens[0], tokens[1]) == (method == "fine-tuned")


# --- Kept states --------------------------------------------------------------------------------


class Row(NamedTuple):
    ids: list[int]
    type_ids: list[int]


def batch_of(*rows: Row) -> TaskBatch:
    given: Any = rows  # as good as encodings of the library
    return collate([Item(i, (row,), 0) for i, row in enumerate(given)])


def read_anew(encoder: BiLSTMFeatures, batch: TaskBatch) -> Tensor:
    return encoder(batch.ids, batch.segment_ids, batch.padding_mask).tokens[batch.padding_mask]


ONE = Row([2, 100, 200, 300, 3, 400, 3], [0, 0, 0, 0, 0, 1, 1])
TWO = Row([2, 150, 250, 3], [0, 0, 0, 0])


@pytest.mark.parametrize("reads", READS)
def test_kept_states_are_the_same_and_computed_once(checkpoint: str, reads: str) -> None:
    encoder = frozen_features(load_encoder(checkpoint)[0], reads)
    kept = kept_states(encoder)
    assert kept is not None
    rows: list[int] = []
    seen = kept.below.bert.register_forward_pre_hook(lambda _, given: rows.append(len(given[0])))
    both, turned = batch_of(ONE, TWO), Row(ONE.ids[::-1], ONE.type_ids)
    found = [kept.features(both).tokens[both.padding_mask] for _ in range(2)]
    alone = kept.features(batch_of(TWO)).tokens[0]  # a kept row, padded otherwise
    assert rows == [2]
    kept.features(batch_of(ONE, turned))  # of these two, one is known
    assert rows == [2, 1]
    seen.remove()
    for tokens in found:
        torch.testing.assert_close(tokens, read_anew(encoder, both))
    torch.testing.assert_close(alone, read_anew(encoder, batch_of(TWO)))


def test_kept_states_know_what_they_are_of(checkpoint: str) -> None:
    """The same ids with other segments, or fewer of them, are another input."""
    encoder = frozen_features(load_encoder(checkpoint)[0], "last")
    kept = kept_states(encoder)
    assert kept is not None
    for row in (ONE, Row(ONE.ids, [0] * 7), Row(ONE.ids[:5], ONE.type_ids[:5])):
        batch = batch_of(row)
        tokens = kept.features(batch).tokens[batch.padding_mask]
        torch.testing.assert_close(tokens, read_anew(encoder, batch))


@pytest.mark.parametrize("method", ["features:last", "features:sum of all", "fine-tuned"])
def test_training_runs_a_frozen_bert_once_for_each_text(
    checkpoint: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    usual = LayerFeatures.states
    monkeypatch.setattr(
        LayerFeatures,
        "states",
        lambda self, ids, *more: read.append(len(ids)) or usual(self, ids, *more),
    )
    made = tiny.tagging_task(SMALL)
    go(made, checkpoint, method, dataclasses.replace(RECIPE, epochs=3), score=())
    texts = {tuple(example.words) for split in ("train", "dev") for example in made[1][split]}  # type: ignore[union-attr]
    if method == "fine-tuned":
        assert read == []
    else:
        assert len(texts) <= sum(read) <= SMALL["train"] + SMALL["dev"]
