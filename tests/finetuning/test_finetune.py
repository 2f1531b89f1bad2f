"""A run, from names to scores: what it starts from, what learns, and what it may not look at."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
import tiny_finetuning as tiny
import torch
from tiny_finetuning import moved
from torch import Tensor, nn

from bertedu.finetuning import finetune as runs
from bertedu.finetuning.examples import AnyExample, Splits, Task, TaskError
from bertedu.finetuning.finetune import (
    FEATURES,
    LSTM_SIZE,
    METHODS,
    RATES,
    Run,
    Setup,
    frozen_features,
    load_encoder,
    make_kind,
    run_once,
)
from bertedu.finetuning.kinds import Item, TaskBatch, collate
from bertedu.finetuning.training import Hyperparameters, kept_states
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_checkpoint, save_checkpoint
from bertedu.model.features import READS, BiLSTMFeatures, LayerFeatures, PairFeatures
from bertedu.text.fast_tokenizer import load_tokenizer, save_tokenizer

SMALL = {"train": 16, "dev": 6, "test": 8}
RECIPE = Hyperparameters(0.05, 8, 1, dropout=0.1)
STILL = replace(RECIPE, learning_rate=0.0)
KEYWORD, PLACES = tiny.keyword_task(SMALL), tiny.tagging_task(SMALL)
IDS = torch.tensor([[2, 100, 200, 300, 3], [2, 150, 3, 0, 0]])
MASK = IDS != 0


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    house = tmp_path_factory.mktemp("models")
    saved = {
        "both": tiny.save_bert(house / "both", layers=3),
        "ltr": tiny.save_bert(house / "ltr", "left-to-right", 1),
        "rtl": tiny.save_bert(house / "rtl", "right-to-left", 2),
        "elmo": tiny.save_elmo(house / "elmo", 3),
        "other": house / "other",  # cuts words in another way
    }
    save_checkpoint(BertForPreTraining(tiny.config("right-to-left")), saved["other"])
    save_tokenizer([*tiny.VOCABULARY[:-2], *tiny.VOCABULARY[:-3:-1]], saved["other"])
    return {name: str(path) for name, path in saved.items()}


def named(folders: dict[str, str], names: str) -> str:
    return "+".join(folders.get(name, name) for name in names.split("+"))


def same(one: nn.Module, two: nn.Module) -> bool:
    other = two.state_dict()
    return all(torch.equal(value, other[name]) for name, value in one.state_dict().items())


def read(encoder: Any) -> Tensor:
    with torch.no_grad():
        return encoder(IDS, torch.zeros_like(IDS), MASK).tokens[MASK]


# -- what stands below the new layer


@pytest.mark.parametrize("names", ["both", "elmo", "ltr+rtl"])
@pytest.mark.parametrize("untrained", [False, True])
def test_an_encoder_is_what_the_checkpoint_holds_or_drawn_by_the_seed_alone(
    folders: dict[str, str], names: str, untrained: bool
) -> None:
    name, loaded = named(folders, names), []
    for seed in (0, 0, 1):
        torch.manual_seed(4711 + len(loaded))  # has no say
        encoder, tokenizer = load_encoder(name, 0.4, untrained, seed)
        loaded.append(encoder.eval())
        assert {m.p for m in encoder.modules() if isinstance(m, nn.Dropout)} == {0.4}
    one, again, other = loaded
    assert tokenizer.get_vocab() == load_tokenizer().get_vocab()
    assert same(one, again)
    assert torch.equal(read(one), read(again))
    assert same(one, other) != untrained
    trained, _ = load_encoder(name)
    assert same(one, trained) != untrained
    if names == "both":
        assert same(trained.bert, load_checkpoint(Path(name)).bert)  # type: ignore[arg-type]
    if isinstance(one, PairFeatures):
        halves = [half.bert.embeddings.token.weight for half in one.halves]  # type: ignore[union-attr]
        assert not torch.equal(*halves)
        sides = [load_encoder(folders[side])[0].eval() for side in ("ltr", "rtl")]
        together = torch.cat([read(side) for side in sides], dim=-1)
        assert torch.equal(read(trained.eval()), together)
        assert trained.size == sum(side.size for side in sides)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("rtl+ltr", "a pair is a left-to-right and a right-to-left model"),
        ("both+rtl", "a pair is a left-to-right and a right-to-left model"),
        ("ltr+elmo", "is an ELMo; a pair is made of two Transformers"),
        ("ltr+other", "do not have the same word pieces"),
        ("nothing-there", "no checkpoint 'nothing-there'"),
        ("ltr+nothing-there", "no checkpoint 'nothing-there'"),
        ("ltr+rtl", "layers of one BERT, not of PairFeatures"),
        ("elmo", 'ELMo is read as "sum of all"'),
    ],
)
def test_what_makes_no_encoder_or_none_to_read_off_is_named(
    folders: dict[str, str], names: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        frozen_features(load_encoder(named(folders, names))[0], "last")


def test_a_published_pooler_that_is_missing_is_drawn_by_the_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And nothing else of a published encoder is."""

    def fake(_: str) -> tuple[Any, Any]:
        pooler = torch.randn(16, 16)  # of the seed that whoever asks has set
        bert = tiny.small_bert(seed=77)
        bert.pooler.dense.weight.data = pooler
        return bert, load_tokenizer()

    monkeypatch.setattr(runs, "find_model", fake)
    loaded = [load_encoder("bert-tiny", seed=seed)[0].state_dict() for seed in (0, 0, 1)]
    for name, value in loaded[0].items():
        assert torch.equal(value, loaded[1][name])
        assert torch.equal(value, loaded[2][name]) == (name != "bert.pooler.dense.weight")


# -- methods


@pytest.mark.parametrize("method", METHODS)
def test_a_method_says_what_it_needs(method: str) -> None:
    setup, plain = Setup("x", method), method.removesuffix(", mean")
    assert setup.untrained == ("untrained" in method)
    assert setup.reads == (plain.split(":")[1] if ":" in plain else "")
    assert setup.frozen == (plain == "frozen")
    little = bool(setup.frozen or setup.reads)
    assert setup.rates == RATES["frozen" if little else "fine-tuned"]
    assert Setup("minilm", method).rates == RATES["frozen" if little else "published"]


@pytest.mark.parametrize(
    ("method", "examples", "message"),
    [
        ("finetuned", None, "no method 'finetuned': choose one of fine-tuned, frozen, untrained"),
        ("features:first", None, "no method"),
        ("untrained features", None, "no method"),
        ("frozen", 0, "0 training examples"),
    ],
)
def test_a_setup_without_sense_is_refused(method: str, examples: int | None, message: str) -> None:
    with pytest.raises(TaskError, match=message):
        Setup("x", method, examples)


def go(
    made: tuple[Task, Splits], setup: Setup, recipe: Hyperparameters = RECIPE, **options: Any
) -> Run:
    return run_once(*made, setup, recipe, progress=False, **options)


def weights(run: Run) -> dict[str, Tensor]:
    """Return all weights, those of the checkpoint by the names that they have there."""
    return {name.replace("below.", ""): value for name, value in run.model.state_dict().items()}


@pytest.mark.parametrize(
    ("names", "method"),
    [
        *(("both", method) for method in (*METHODS[:4], *FEATURES, "untrained features:last")),
        *(("both", f"{some}, mean") for some in ("fine-tuned", "frozen", "fine-tuned + BiLSTM")),
        *((names, method) for names in ("ltr+rtl", "elmo") for method in ("fine-tuned", "frozen")),
    ],
)
def test_what_a_method_starts_from_and_what_learns(
    folders: dict[str, str], names: str, method: str
) -> None:
    setup = Setup(named(folders, names), method)
    made = KEYWORD if "mean" in method else PLACES
    torch.manual_seed(99)  # has no say
    start, end = (go(made, setup, recipe, score=()) for recipe in (STILL, RECIPE))
    before, learned = weights(start), moved(weights(start), weights(end))
    given = load_encoder(setup.model)[0].state_dict()
    below = {f"encoder.{name}" for name in given}
    equal = [torch.equal(value, before[f"encoder.{name}"]) for name, value in given.items()]
    assert all(equal) != setup.untrained
    pooler = {name for name in below if "pooler" in name}  # of tags and means not asked
    fixed = below if setup.frozen or setup.reads else pooler
    assert learned == {n for n in before.keys() - fixed if not n.endswith("attention.key.bias")}
    other = weights(go(made, setup, replace(STILL, seed=1), score=()))
    drawn = moved(before, other)
    by_chance = ("encoder.layers", "head.classifier.weight")  # norms, and biases of heads, are not
    assert {name for name in before if name.startswith(by_chance)} <= drawn
    assert bool(drawn & below) == setup.untrained
    assert {p.p for p in end.model.modules() if isinstance(p, nn.Dropout)} >= {0.1}
    encoder: Any = end.model.encoder
    if setup.reads or "BiLSTM" in method:
        encoder = encoder if isinstance(encoder, BiLSTMFeatures) else encoder.below
        assert (len(encoder.layers), encoder.size) == (2 if setup.reads else 1, 2 * LSTM_SIZE)
    if setup.reads:
        assert encoder.below.reads == setup.reads


def test_heads_of_what_is_fine_tuned_get_states_of_one_size(folders: dict[str, str]) -> None:
    """Else a row of table 5 would be about a start: new LSTMs have states of a fifth of BERT's."""
    for method in ("fine-tuned", "untrained", "fine-tuned + BiLSTM"):
        encoder = go(PLACES, Setup(folders["both"], method), STILL, score=()).model.encoder
        assert float(read(encoder).std()) == pytest.approx(1, abs=0.1)


def test_of_a_frozen_elmo_the_mix_learns_and_nothing_else(folders: dict[str, str]) -> None:
    setup = Setup(folders["elmo"], "features:sum of all")
    before, after = (weights(go(PLACES, setup, recipe, score=())) for recipe in (STILL, RECIPE))
    stayed = before.keys() - moved(before, after)
    assert stayed == {name for name in before if name.startswith("encoder.elmo.")}
    assert len(frozen_features(load_encoder(setup.model)[0], setup.reads).layers) == 2


# -- what must not be looked at


class Poison(Sequence[AnyExample]):
    """A split that cannot be looked at, not even counted."""

    def _raise(self, *_: object) -> NoReturn:
        raise AssertionError("the test split was looked at")

    __getitem__ = __len__ = __iter__ = __contains__ = __bool__ = _raise  # type: ignore[assignment]


def test_a_run_does_not_need_the_test_split(folders: dict[str, str]) -> None:
    task, splits = KEYWORD
    blind, setup = (task, {**splits, "test": Poison()}), Setup(folders["ltr"])
    one, two = go(KEYWORD, setup), go(blind, setup, score=("dev",))
    assert same(one.model, two.model)
    assert two.answers == {"dev": one.answers["dev"]}
    with pytest.raises(AssertionError, match="looked at"):  # the poison works
        go(blind, setup)


def test_only_the_first_examples_are_trained_on(folders: dict[str, str]) -> None:
    task, splits = KEYWORD

    def train(change: int | None, examples: int | None) -> nn.Module:
        some = list(splits["train"])
        if change is not None:
            some[change] = replace(some[change], text="tree tree tree")
        setup = Setup(folders["ltr"], train_examples=examples)
        return go((task, {**splits, "train": some}), setup, score=()).model

    assert same(train(None, 8), train(8, 8))
    assert not same(train(None, 8), train(7, 8))
    assert not same(train(None, None), train(15, None))


def test_a_task_without_an_answer_in_some_text_may_answer_none() -> None:
    for share in (0.0, 0.4):
        task, splits = tiny.span_task(SMALL, share)
        kind: Any = make_kind(task, splits)
        assert (kind.can_be_none, kind.by_character) == (share > 0, False)
        assert make_kind(replace(task, metric="character_f1"), splits).by_character  # type: ignore[attr-defined]


# -- kept states


class Row(NamedTuple):
    ids: list[int]
    type_ids: list[int]


ONE = Row([2, 100, 200, 300, 3, 400, 3], [0, 0, 0, 0, 0, 1, 1])
TWO = Row([2, 150, 250, 3], [0, 0, 0, 0])
# the same with other segments, fewer of them, and another order
OTHERS = (Row(ONE.ids, [0] * 7), Row(ONE.ids[:5], ONE.type_ids[:5]), Row(ONE.ids[::-1], [0] * 7))


def batch_of(*rows: Any) -> TaskBatch:
    return collate([Item(i, (row,), 0) for i, row in enumerate(rows)])


@pytest.mark.parametrize("reads", READS)
def test_kept_states_are_the_same_and_computed_once(folders: dict[str, str], reads: str) -> None:
    encoder = frozen_features(load_encoder(folders["both"])[0], reads)
    kept, computed = kept_states(encoder), []
    assert kept is not None

    def hook(_: Any, given: Any) -> None:
        computed.append(len(given[0]))

    for rows, new in (
        ((ONE, TWO), [2]),
        ((ONE, TWO), []),
        ((TWO,), []),  # a kept row, padded otherwise
        ((ONE, OTHERS[0]), [1]),
        (OTHERS, [2]),
    ):
        batch = batch_of(*rows)
        seen = kept.below.bert.register_forward_pre_hook(hook)
        found = kept.features(batch)
        seen.remove()
        anew = encoder(batch.ids, batch.segment_ids, batch.padding_mask)
        real = batch.padding_mask
        torch.testing.assert_close(found.tokens[real], anew.tokens[real])
        torch.testing.assert_close(found.whole, anew.whole)
        assert computed == new
        computed.clear()


def test_training_runs_a_frozen_bert_once_for_each_text(
    folders: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    usual = LayerFeatures.states
    monkeypatch.setattr(
        LayerFeatures,
        "states",
        lambda self, ids, *more: rows.append(len(ids)) or usual(self, ids, *more),
    )
    setup = Setup(folders["both"], "features:last")
    go(PLACES, setup, replace(RECIPE, epochs=3), score=())
    texts = {tuple(e.words) for split in ("train", "dev") for e in PLACES[1][split]}
    assert len(texts) <= sum(rows) <= SMALL["train"] + SMALL["dev"]
