"""Features of frozen layers: which are read, what learns, and that nothing else moves."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig, Direction
from bertedu.model.features import READS, BertFeatures, BiLSTM, BiLSTMFeatures, LayerFeatures

L, H, K, SIZE = 4, 16, 6, 9
CONFIG = BertConfig(60, H, L, 4, 32, 24, dropout=0.5, initializer_range=0.5)
# by hand, not from the table of the package: the numbers of the hidden states that each reads
STATES = {
    "embeddings": [0],
    "second-to-last": [3],
    "last": [4],
    "sum of last two": [3, 4],
    "concat of last two": [3, 4],
    "sum of all": [1, 2, 3, 4],
    "concat of all": [1, 2, 3, 4],
}
SUMS = [name for name in STATES if name.startswith("sum")]


def bert(direction: Direction = "bidirectional", layers: int = L) -> Bert:
    torch.manual_seed(0)
    return Bert(dataclasses.replace(CONFIG, direction=direction, num_hidden_layers=layers))


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.randint(5, 60, (2, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(12) < torch.tensor([[SIZE], [5]])
    segments = (torch.arange(12) > 3).long().expand(2, -1)
    return ids * mask, segments, mask


def stacked(reads: str, direction: Direction = "bidirectional") -> BiLSTMFeatures:
    torch.manual_seed(1)
    return BiLSTMFeatures(LayerFeatures(bert(direction), reads), K, layers=2)


def learn(model: nn.Module, steps: int = 3) -> None:
    """Train a tagger on it, with weight decay: even what has no gradient could move."""
    torch.manual_seed(2)
    tag = nn.Linear(model.size, 3)
    parameters = [p for p in [*model.parameters(), *tag.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)
    ids, segments, mask = inputs()
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        tokens = model(ids, segments, mask).tokens
        F.cross_entropy(tag(tokens[mask]), ids[mask] % 3).backward()
        optimizer.step()


def test_the_list_is_that_of_the_paper() -> None:
    assert list(READS) == list(STATES)


@pytest.mark.parametrize("reads", STATES)
def test_features_are_those_hidden_states(reads: str) -> None:
    model, (ids, segments, mask) = LayerFeatures(bert(), reads).train(), inputs()
    with torch.no_grad():
        states = bert().eval()(ids, segments, mask).hidden_states
    chosen = [states[number] for number in STATES[reads]]
    right = sum(chosen) / len(chosen) if reads in SUMS else torch.cat(chosen, dim=-1)
    found = model(ids, segments, mask)
    torch.testing.assert_close(found.tokens, right)
    torch.testing.assert_close(found.whole, right[:, 0])
    assert model.size == right.shape[-1]
    read = model.states(ids, segments, mask)
    assert read.shape == (len(chosen), 2, 12, H)
    assert torch.equal(model.combine(read), found.tokens), "states that were kept give the same"


@pytest.mark.parametrize("reads", STATES)
@pytest.mark.parametrize("layer", range(L + 1))
def test_what_lies_above_what_is_read_does_not_matter(reads: str, layer: int) -> None:
    """Spoil layer 1 to 4, or with 0 the token table: only states from there on may move."""
    model, given = LayerFeatures(bert(), reads), inputs()
    before = model(*given).tokens
    with torch.no_grad():
        part = model.bert.encoder.layers[layer - 1] if layer else model.bert.embeddings.token
        for p in part.parameters():
            p.add_(torch.randn(p.shape))
    moved = not torch.allclose(model(*given).tokens, before, atol=1e-3)
    assert moved == (layer <= max(STATES[reads]))


@pytest.mark.parametrize("reads", STATES)
def test_each_state_that_is_read_counts(reads: str) -> None:
    model, given = LayerFeatures(bert(), reads), inputs()
    states = model.states(*given)
    before = model.combine(states)
    for number in range(len(STATES[reads])):
        other = states.clone()
        other[number] += 1
        assert not torch.allclose(model.combine(other), before, atol=0.1)


@pytest.mark.parametrize("reads", STATES)
def test_learning_moves_nothing_of_the_bert(reads: str) -> None:
    model = stacked(reads)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learn(model)
    moved = {name for name, value in model.state_dict().items() if not value.equal(before[name])}
    above = {name for name in before if name.startswith("layers.")}
    mix = {"below.mix.weights", "below.mix.scale"} if reads in SUMS else set()
    assert moved == above | mix
    assert all(p.grad is None and not p.requires_grad for p in model.below.bert.parameters())


@pytest.mark.parametrize("reads", STATES)
def test_dropout_stays_off_below_in_training(reads: str) -> None:
    model, given = stacked(reads).train(), inputs()
    assert torch.equal(model(*given).tokens, model(*given).tokens)
    assert torch.equal(model(*given).tokens, model.eval()(*given).tokens)
    assert model.training is False
    assert model.train().training is True


@pytest.mark.parametrize("reads", SUMS)
def test_the_weights_of_a_sum_follow_their_softmax(reads: str) -> None:
    model, given = LayerFeatures(bert(), reads), inputs()
    assert model.mix is not None
    states = model.states(*given)
    with torch.no_grad():
        model.mix.weights[-1] = 50.0
        model.mix.scale.fill_(3.0)
    torch.testing.assert_close(model(*given).tokens, 3 * states[-1])


def test_a_sum_finds_the_layer_that_tells() -> None:
    """The tag is written into one of four states; its weight grows, and only the mix learns."""
    torch.manual_seed(0)
    model = LayerFeatures(bert(), "sum of all")
    assert model.mix is not None
    states = torch.randn(4, 8, 10, H)
    tags = (states[2, ..., 0] > 0).float()
    optimizer = torch.optim.Adam(model.mix.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(8 * model.combine(states)[..., 0], tags).backward()
        optimizer.step()
    assert int(model.mix.weights.argmax()) == 2
    assert model.mix.weights.softmax(0)[2] > 0.6


@pytest.mark.parametrize("reads", STATES)
@pytest.mark.parametrize("direction", ["left-to-right", "right-to-left"])
def test_one_way_features_open_no_side(direction: Direction, reads: str) -> None:
    model = LayerFeatures(bert(direction), reads)
    ids, segments, mask = inputs()
    before, place = model(ids, segments, mask), torch.arange(SIZE)
    for changed in range(SIZE):
        other = ids.clone()
        other[0, changed] = 5 + (other[0, changed] - 4) % 55
        after = model(other, segments, mask)
        moved = (after.tokens - before.tokens)[0, :SIZE].abs().amax(dim=-1) > 1e-6
        allowed = {
            "left-to-right": place >= changed,
            "right-to-left": place <= changed,
        }[direction]
        expected = place == changed if reads == "embeddings" else allowed
        assert torch.equal(moved, expected)
        if reads != "embeddings":
            assert not torch.equal(before.whole[0], after.whole[0]), "the whole does not see all"
        assert torch.equal(before.tokens[1], after.tokens[1]), "another row moved"


@pytest.mark.parametrize("reads", STATES)
def test_padding_changes_nothing(reads: str) -> None:
    model, (ids, segments, mask) = stacked(reads), inputs()
    wide = model(ids, segments, mask)
    for other in (
        model(ids.masked_fill(~mask, 7), segments, mask),
        model(ids[:, :SIZE], segments[:, :SIZE], mask[:, :SIZE]),
    ):
        torch.testing.assert_close(other.whole, wide.whole)
        real = mask[:, : other.tokens.shape[1]]
        torch.testing.assert_close(other.tokens[real], wide.tokens[mask])


def test_segments_are_read() -> None:
    model, (ids, segments, mask) = LayerFeatures(bert(), "last"), inputs()
    assert not torch.allclose(
        model(ids, segments, mask).tokens, model(ids, 1 - segments, mask).tokens, atol=1e-3
    )


# --- The BiLSTM above ---------------------------------------------------------------------------


def test_two_layers_are_those_of_torch() -> None:
    """Row by row, without padding, with the same weights: torch's own two-layer BiLSTM."""
    model, (ids, segments, mask) = stacked("concat of all"), inputs()
    theirs = nn.LSTM(L * H, K, num_layers=2, bidirectional=True, batch_first=True)
    with torch.no_grad():
        for number, layer in enumerate(model.layers):
            assert isinstance(layer, BiLSTM)
            for lstm, end in ((layer.forwards, ""), (layer.backwards, "_reverse")):
                for name, value in lstm.named_parameters():
                    wanted = name.replace("l0", f"l{number}") + end
                    theirs.get_parameter(wanted).copy_(value)
        tokens = model(ids, segments, mask).tokens
        features = model.below(ids, segments, mask).tokens
        for row, size in enumerate((SIZE, 5)):
            torch.testing.assert_close(
                tokens[row, :size], theirs(features[row : row + 1, :size])[0][0]
            )


def test_one_layer_is_the_default_and_what_it_was() -> None:
    torch.manual_seed(3)
    one = BiLSTMFeatures(BertFeatures(bert().eval()), K)
    assert len(one.layers) == 1
    assert one.size == 2 * K
    ids, segments, mask = inputs()
    one.eval()
    x = one.below(ids, segments, mask).tokens
    torch.testing.assert_close(
        one(ids, segments, mask).tokens[0, :SIZE, :K], one.layers[0].forwards(x[:1, :SIZE])[0][0]
    )
    assert torch.equal(one.read(x, mask).tokens, one(ids, segments, mask).tokens)


def test_each_of_two_layers_learns() -> None:
    model = stacked("last")
    learn(model, steps=1)
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.layers.parameters())


# --- What is refused ----------------------------------------------------------------------------


def test_unknown_features_are_named() -> None:
    with pytest.raises(ValueError, match="features cannot be 'first': choose one of embeddings, "):
        LayerFeatures(bert(), "first")


@pytest.mark.parametrize("reads", ["second-to-last", "sum of last two", "concat of last two"])
def test_one_layer_is_too_few_for_two(reads: str) -> None:
    with pytest.raises(ValueError, match="needs a model of two layers or more"):
        LayerFeatures(bert(layers=1), reads)
    for fine in ("embeddings", "last", "sum of all", "concat of all"):
        LayerFeatures(bert(layers=1), fine)
