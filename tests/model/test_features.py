"""Who sees what, for every model of the ablations: before, while and after fine-tuning."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import Bert, reads_all
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import Elmo, ElmoSizes
from bertedu.model.features import (
    BertFeatures,
    BiLSTMFeatures,
    ElmoFeatures,
    Encoder,
    MeanFeatures,
    PairFeatures,
)

CONFIG = BertConfig(60, 16, 2, 4, 32, 24, dropout=0.0, initializer_range=0.5)
SIZE = 9  # real tokens of the first row; the second has fewer
H = CONFIG.hidden_size


def bert(direction: Direction) -> Bert:
    return Bert(dataclasses.replace(CONFIG, direction=direction))


def pair() -> PairFeatures:
    return PairFeatures(bert("left-to-right"), bert("right-to-left"))


ENCODERS: dict[str, Callable[[], Encoder]] = {
    "bert": lambda: BertFeatures(bert("bidirectional")),
    "ltr": lambda: BertFeatures(bert("left-to-right")),
    "rtl": lambda: BertFeatures(bert("right-to-left")),
    "pair": pair,
    "elmo": lambda: ElmoFeatures(Elmo(CONFIG, ElmoSizes(2, 24))),
    "ltr + BiLSTM": lambda: BiLSTMFeatures(BertFeatures(bert("left-to-right")), 8),
    "ltr, mean": lambda: MeanFeatures(BertFeatures(bert("left-to-right"))),
    "frozen rtl + BiLSTM": lambda: BiLSTMFeatures(BertFeatures(bert("right-to-left")), 8, True),
}
# the halves of the vector of token t, and which tokens move them: up to t, from t on, or all
SEES = {
    "bert": ["all"],
    "ltr": ["left"],
    "ltr, mean": ["left"],
    "rtl": ["right"],
    "pair": ["left", "right"],
    "elmo": ["left", "right"],
    # a one-way encoder below, a BiLSTM above: the half that goes the other way sees all
    "ltr + BiLSTM": ["left", "all"],
    "frozen rtl + BiLSTM": ["all", "right"],
}


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.randint(5, 60, (2, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(12) < torch.tensor([[SIZE], [5]])
    segments = (torch.arange(12) > 3).long().expand(2, -1)
    return ids * mask, segments, mask


class Tagger(nn.Module):
    """A head for tokens and one for the whole, as in fine-tuning."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.tag, self.label = nn.Linear(encoder.size, 3), nn.Linear(encoder.size, 2)

    def loss(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        features = self.encoder(ids, segments, mask)
        return F.cross_entropy(self.tag(features.tokens[mask]), ids[mask] % 3) + F.cross_entropy(
            self.label(features.whole), torch.tensor([0, 1])
        )


def fine_tuned(name: str, steps: int = 5) -> Tagger:
    torch.manual_seed(1)
    model = Tagger(ENCODERS[name]()).train()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        model.loss(*inputs()).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("name", ENCODERS)
def test_fine_tuning_opens_no_side_that_was_closed(name: str) -> None:
    """The leak test, through the fine-tuning path: change a token, see which vectors move."""
    model = fine_tuned(name)
    ids, segments, mask = inputs()
    before = model.encoder(ids, segments, mask)
    assert before.tokens.shape[-1] == before.whole.shape[-1] == model.encoder.size
    place = torch.arange(SIZE)
    for changed in range(SIZE):
        other = ids.clone()
        other[0, changed] = 5 + (other[0, changed] - 4) % 55
        after = model.encoder(other, segments, mask)
        moves = {"all": place >= 0, "left": place >= changed, "right": place <= changed}
        parts = before.tokens[0, :SIZE].chunk(len(SEES[name]), dim=-1)
        new_parts = after.tokens[0, :SIZE].chunk(len(SEES[name]), dim=-1)
        for old, new, sees in zip(parts, new_parts, SEES[name], strict=True):
            moved = (old - new).abs().amax(dim=-1) > 1e-7
            assert torch.equal(moved, moves[sees]), f"{name}, token {changed}: {moved.tolist()}"
        assert not torch.equal(before.whole[0], after.whole[0]), "the whole does not see all"
        assert torch.equal(before.whole[1], after.whole[1]), "another row moved"


@pytest.mark.parametrize("name", ENCODERS)
def test_no_gradient_flows_from_the_closed_side(name: str) -> None:
    """The same through the backward pass: what a token's loss can teach."""
    model = fine_tuned(name)
    ids, segments, mask = inputs()
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding) and m.num_embeddings == 60]
    ids[0, :SIZE] = torch.arange(10, 10 + SIZE)  # each token once, so that rows are places
    model.requires_grad_(True)
    half = model.encoder.size // len(SEES[name])
    for number, sees in enumerate(SEES[name]):
        model.zero_grad()
        tokens = model.encoder(ids[:1], segments[:1], mask[:1]).tokens
        tokens[0, 4, number * half : (number + 1) * half].sum().backward()
        taught = sum((t.weight.grad for t in tables if t.weight.grad is not None), torch.zeros(()))
        touched = taught[10 : 10 + SIZE].abs().amax(dim=-1) > 0
        place = torch.arange(SIZE)
        assert torch.equal(
            touched, {"all": place >= 0, "left": place <= 4, "right": place >= 4}[sees]
        )


@pytest.mark.parametrize("name", ENCODERS)
def test_padding_changes_nothing(name: str) -> None:
    model = fine_tuned(name, steps=1)
    ids, segments, mask = inputs()
    wide = model.encoder(ids, segments, mask)
    noise = ids.masked_fill(~mask, 7)
    for other in (
        model.encoder(noise, segments, mask),
        model.encoder(ids[:, :SIZE], segments[:, :SIZE], mask[:, :SIZE]),
    ):
        torch.testing.assert_close(other.whole, wide.whole)
        torch.testing.assert_close(
            other.tokens[mask[:, : other.tokens.shape[1]]], wide.tokens[mask]
        )


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_means_that_nothing_below_moves(frozen: bool) -> None:
    torch.manual_seed(0)
    below = BertFeatures(Bert(dataclasses.replace(CONFIG, dropout=0.5)))
    before = {name: value.clone() for name, value in below.state_dict().items()}
    model = Tagger(BiLSTMFeatures(below, 8, frozen)).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    same_twice = torch.equal(below(*inputs()).tokens, below(*inputs()).tokens)
    assert same_twice == frozen, "in a frozen encoder dropout is off"
    model.loss(*inputs()).backward()
    optimizer.step()
    moved = any(not torch.equal(before[name], v) for name, v in below.state_dict().items())
    assert moved != frozen
    assert model.encoder.layers[0].forwards.weight_ih_l0.grad is not None


@pytest.mark.parametrize(("name", "place"), [("bert", 0), ("ltr", SIZE - 1), ("rtl", 0)])
def test_the_whole_of_a_bert_is_pooled_where_it_has_read_everything(name: str, place: int) -> None:
    model = fine_tuned(name, steps=1)
    assert isinstance(model.encoder, BertFeatures)
    found, dense = model.encoder(*inputs()), model.encoder.bert.pooler.dense
    c = torch.tanh(dense.weight @ found.tokens[0, place] + dense.bias)
    torch.testing.assert_close(found.whole[0], c)


@pytest.mark.parametrize("name", ["elmo", "ltr + BiLSTM", "frozen rtl + BiLSTM"])
def test_the_whole_is_what_each_half_says_where_it_has_read_everything(name: str) -> None:
    model = fine_tuned(name, steps=1)
    found = model.encoder(*inputs())
    half = model.encoder.size // 2
    for row, size in enumerate((SIZE, 5)):
        ends = [found.tokens[row, size - 1, :half], found.tokens[row, 0, half:]]
        torch.testing.assert_close(found.whole[row], torch.cat(ends))


def test_a_mean_is_of_real_tokens_and_of_all_of_them() -> None:
    ids, segments, mask = inputs()
    features = ENCODERS["ltr, mean"]()(ids, segments, mask)
    for row, real in enumerate(mask):
        torch.testing.assert_close(features.whole[row], features.tokens[row, real].mean(0))


def test_the_pair_is_its_two_halves_side_by_side() -> None:
    torch.manual_seed(0)
    model = pair().eval()
    ids, segments, mask = inputs()
    both = model(ids, segments, mask)
    for number, half in enumerate(model.halves):
        alone, part = half(ids, segments, mask), slice(number * H, (number + 1) * H)
        assert torch.equal(both.tokens[..., part], alone.tokens)
        assert torch.equal(both.whole[..., part], alone.whole)


def test_a_pair_of_anything_else_is_refused() -> None:
    with pytest.raises(ValueError, match="a left-to-right and a right-to-left"):
        PairFeatures(bert("right-to-left"), bert("left-to-right"))


def test_the_mix_of_elmo_learns() -> None:
    model = fine_tuned("elmo", steps=1)
    assert isinstance(model.encoder, ElmoFeatures)
    assert (model.encoder.mix.weights != 0).any()
    assert model.encoder.mix.scale != 1


def test_from_left_to_right_the_last_real_token_stands_for_the_whole() -> None:
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    assert reads_all(mask, "left-to-right").int().tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    for direction in ("bidirectional", "right-to-left"):
        assert reads_all(mask, direction).int().tolist() == [[1, 0, 0, 0]] * 2
    elsewhere = torch.tensor([[False, True, True, True], [True, False, True, False]])
    found = reads_all(elsewhere, "left-to-right")  # padding in front, or in between
    assert found.int().tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]
