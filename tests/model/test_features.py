"""What each encoder's vectors are, who sees what, before and after fine-tuning; and what learns."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

import bertedu
from bertedu.model import checkpoints
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import Loaded
from bertedu.model.config import BertConfig, Direction
from bertedu.model.elmo import Elmo, ElmoForPreTraining, ElmoSizes
from bertedu.model.features import (
    READS,
    BertFeatures,
    BiLSTM,
    BiLSTMFeatures,
    ElmoFeatures,
    Encoder,
    LayerFeatures,
    MeanFeatures,
    PairFeatures,
    encode,
)
from bertedu.text.fast_tokenizer import load_tokenizer

L, H, K, SIZE = 4, 16, 6, 9  # SIZE: real tokens of the first row; the second has fewer
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


def bert(direction: Direction = "bidirectional", layers: int = L) -> Bert:
    return Bert(dataclasses.replace(CONFIG, direction=direction, num_hidden_layers=layers))


def stacked(reads: str) -> BiLSTMFeatures:
    return BiLSTMFeatures(LayerFeatures(bert(), reads), K, layers=2)


def ltr() -> BertFeatures:
    return BertFeatures(bert("left-to-right"))


def rtl() -> BertFeatures:
    return BertFeatures(bert("right-to-left"))


# what makes it; the pieces of the vector of token t, and which tokens move each: up to t, from t
# on, all, or t itself
ENCODERS: dict[str, tuple[Callable[[], Encoder], list[str]]] = {
    "bert": (lambda: BertFeatures(bert()), ["all"]),
    "ltr": (ltr, ["left"]),
    "rtl": (rtl, ["right"]),
    "pair": (lambda: PairFeatures(ltr().bert, rtl().bert), ["left", "right"]),
    "elmo": (lambda: ElmoFeatures(Elmo(CONFIG, ElmoSizes(2, 24))), ["left", "right"]),
    # a one-way encoder below, a BiLSTM above: the half that goes the other way sees all
    "ltr + BiLSTM": (lambda: BiLSTMFeatures(ltr(), 8), ["left", "all"]),
    "frozen rtl + BiLSTM": (lambda: BiLSTMFeatures(rtl(), 8, frozen=True), ["all", "right"]),
    "normed": (lambda: BiLSTMFeatures(BertFeatures(bert()), 8, layer_norm=True), ["all"]),
    "ltr, mean": (lambda: MeanFeatures(ltr()), ["left"]),
    **{
        f"{reads}, {short}": (
            lambda reads=reads, way=way: LayerFeatures(bert(way), reads),
            ["itself" if reads == "embeddings" else side],
        )
        for reads in STATES
        for way, short, side in (
            ("left-to-right", "ltr", "left"),
            ("right-to-left", "rtl", "right"),
        )
    },
    "two layers above": (lambda: stacked("sum of all"), ["all"]),
}
encoders = pytest.mark.parametrize("name", ENCODERS)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.randint(5, 60, (2, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.arange(12) < torch.tensor([[SIZE], [5]])
    segments = (torch.arange(12) > 3).long().expand(2, -1)
    return ids * mask, segments, mask


def tuned(name: str) -> Any:
    """Train a tagger and a classifier on it, and return it in evaluation mode."""
    torch.manual_seed(1)
    encoder: Any = ENCODERS[name][0]()
    torch.manual_seed(2)
    heads = nn.ModuleList(nn.Linear(encoder.size, size) for size in (3, 2))
    parameters = [p for p in [*encoder.parameters(), *heads.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.1)
    ids, segments, mask = inputs()
    encoder.train()
    for _ in range(3):
        optimizer.zero_grad()
        tokens, whole = encoder(ids, segments, mask)
        loss = F.cross_entropy(heads[0](tokens[mask]), ids[mask] % 3)
        (loss + F.cross_entropy(heads[1](whole), torch.tensor([0, 1]))).backward()
        optimizer.step()
    return encoder.eval()


@encoders
def test_fine_tuning_opens_no_side_that_was_closed(name: str) -> None:
    """The leak test, through the fine-tuning path: change a token, see which vectors move."""
    encoder, (ids, segments, mask) = tuned(name), inputs()
    before = encoder(ids, segments, mask)
    assert before.tokens.shape[-1] == before.whole.shape[-1] == encoder.size
    parts, place = ENCODERS[name][1], torch.arange(SIZE)
    for token in range(SIZE):
        other = ids.clone()
        other[0, token] = 5 + (other[0, token] - 4) % 55
        after = encoder(other, segments, mask)
        change = (before.tokens - after.tokens)[0, :SIZE].chunk(len(parts), dim=-1)
        sides = {"left": place >= token, "right": place <= token, "itself": place == token}
        sides["all"] = place >= 0
        for piece, sees in zip(change, parts, strict=True):
            assert torch.equal(piece.abs().amax(dim=-1) > 1e-7, sides[sees]), token
        if "itself" not in parts:
            assert not torch.equal(before.whole[0], after.whole[0]), "the whole does not see all"
        assert torch.equal(before.tokens[1], after.tokens[1]), "another row moved"
        assert torch.equal(before.whole[1], after.whole[1]), "another row moved"


@encoders
def test_padding_changes_nothing_and_segments_are_read(name: str) -> None:
    encoder, (ids, segments, mask) = tuned(name), inputs()
    wide = encoder(ids, segments, mask)
    if name == "normed":  # states as large as those of a BERT
        assert torch.cat([*wide.tokens, wide.whole]).square().mean(-1).sub(1).abs().max() < 0.5
    for other in (
        encoder(ids.masked_fill(~mask, 7), segments, mask),
        encoder(ids[:, :SIZE], segments[:, :SIZE], mask[:, :SIZE]),
    ):
        torch.testing.assert_close(other.whole, wide.whole)
        real = mask[:, : other.tokens.shape[1]]
        torch.testing.assert_close(other.tokens[real], wide.tokens[mask])
    turned = encoder(ids, 1 - segments, mask)
    assert torch.allclose(turned.tokens, wide.tokens, atol=1e-3) == (name == "elmo")


# --- the vectors themselves ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["bert", "ltr", "rtl", "elmo", "ltr + BiLSTM", "frozen rtl + BiLSTM", "ltr, mean"]
)
def test_the_whole_is_taken_where_everything_has_been_read(name: str) -> None:
    """Two halves have one end each, a BERT pools that place, and a mean takes all."""
    found = (encoder := tuned(name))(*inputs())
    for row, size in enumerate((SIZE, 5)):
        tokens = found.tokens[row, :size]
        expected = torch.cat([tokens[-1].chunk(2)[0], tokens[0].chunk(2)[1]])
        if isinstance(encoder, BertFeatures):
            expected = encoder.bert.pooler(tokens[-1 if name == "ltr" else 0])
        elif isinstance(encoder, MeanFeatures):
            expected = tokens.mean(0)
        torch.testing.assert_close(found.whole[row], expected)


def test_the_pair_is_its_two_halves_side_by_side() -> None:
    pair, given = tuned("pair"), inputs()
    both = pair(*given)
    for number, half in enumerate(pair.halves):
        alone, part = half(*given), slice(number * H, (number + 1) * H)
        assert torch.equal(both.tokens[..., part], alone.tokens)
        assert torch.equal(both.whole[..., part], alone.whole)


@pytest.mark.parametrize("reads", STATES)
def test_features_are_those_hidden_states(reads: str) -> None:
    assert list(READS) == list(STATES)
    model, given = LayerFeatures(bert(), reads), inputs()
    with torch.no_grad():
        states = model.eval().bert(*given).hidden_states
    chosen = [states[number] for number in STATES[reads]]
    right = torch.cat(chosen, dim=-1) if model.mix is None else sum(chosen) / len(chosen)
    assert (model.mix is None) == (not reads.startswith("sum"))
    found = model.train()(*given)
    torch.testing.assert_close(found.tokens, right)
    torch.testing.assert_close(found.whole, found.tokens[:, 0])
    assert model.size == found.tokens.shape[-1]
    assert torch.equal(model.combine(model.states(*given)), found.tokens), "kept states do as well"
    if model.mix is not None:
        with torch.no_grad():
            model.mix.weights[-1] = 50.0
            model.mix.scale.fill_(3.0)
        torch.testing.assert_close(model(*given).tokens, 3 * chosen[-1])


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
        tokens, below = (part(ids, segments, mask).tokens for part in (model, model.below))
        for row, size in enumerate((SIZE, 5)):
            expected = theirs(below[row : row + 1, :size])[0][0]
            torch.testing.assert_close(tokens[row, :size], expected)


@pytest.mark.parametrize("name", ["features", "frozen", "not frozen", "elmo"])
def test_dropout_stays_off_in_what_is_frozen(name: str) -> None:
    """What moves in training: `tests/finetuning/test_finetune.py`."""
    torch.manual_seed(1)
    model: Any = stacked("last") if name == "features" else ENCODERS["elmo"][0]()
    if "frozen" in name:
        model = BiLSTMFeatures(BertFeatures(bert()), 8, frozen=name == "frozen", layers=2)
    one, two = (model.train()(*inputs()).tokens for _ in range(2))
    assert torch.equal(one, two) == (name in ("features", "frozen"))
    assert model.training


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="features cannot be 'first': choose one of embeddings, "):
        LayerFeatures(bert(), "first")
    for reads in STATES:
        if "two" in reads or "second" in reads:
            with pytest.raises(ValueError, match="needs a model of two layers or more"):
                LayerFeatures(bert(layers=1), reads)
        else:
            LayerFeatures(bert(layers=1), reads)


# --- sentence vectors ----------------------------------------------------------------------------

TOKENIZER = load_tokenizer()
LONG = "Nobody had told the two brothers, who had walked for three hours in the rain, and longer."
TEXTS = ["The café by the river was closed.", "They laughed.", "", LONG, "They laughed.", "Rain."]


def whole() -> BertForPreTraining:
    torch.manual_seed(0)
    sizes = (TOKENIZER.get_vocab_size(), 16, 2, 2, 32, 20)
    return BertForPreTraining(BertConfig(*sizes, dropout=0.4, initializer_range=0.4)).train()


def test_each_vector_is_that_of_its_text_alone_whatever_is_beside_it() -> None:
    model = whole()
    model.bert.embeddings.eval()
    shapes: list[tuple[int, ...]] = []
    model.bert.register_forward_pre_hook(lambda _, given: shapes.append(tuple(given[0].shape)))
    found = {size: encode(model, TOKENIZER, TEXTS, size) for size in (1, 2, 100)}
    assert (model.bert.training, model.bert.embeddings.training) == (True, False), "as it was"
    padding = Tokenizer.from_str(TOKENIZER.to_str())
    padding.enable_padding()
    torch.testing.assert_close(encode(model, padding, TEXTS), found[100])
    bert = model.bert.eval()
    for number, text in enumerate(TEXTS):
        ids = TOKENIZER.encode(text).ids
        ids = ids if len(ids) <= 20 else [*ids[:19], ids[-1]]  # cut, but for the last [SEP]
        with torch.no_grad():
            expected = bert(torch.tensor([ids])).last[0].mean(0)
        for vectors in found.values():
            torch.testing.assert_close(vectors[number], expected, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[1][0], found[1][1], atol=1e-2)
    shapes.clear()
    encode(bert, TOKENIZER, ["Rain.", LONG] * 4, batch_size=4)
    assert shapes == [(4, 4), (4, 20)], "like lengths meet"
    assert not bert.training, "left as it was"
    assert encode(bert, TOKENIZER, []).shape == (0, 16)


def test_vectors_by_name_and_what_cannot_be_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = whole()
    models: dict[str, Any] = {"minilm": model.bert, "elmo": ElmoForPreTraining(model.config)}
    named = {name: Loaded(found, TOKENIZER) for name, found in models.items()}
    monkeypatch.setattr(checkpoints, "find_model", named.__getitem__)
    assert torch.equal(bertedu.encode(iter(TEXTS)), encode(model, TOKENIZER, TEXTS))
    with pytest.raises(TypeError, match="is an ELMo"):
        bertedu.encode(TEXTS, "elmo")
    with pytest.raises(TypeError, match=r"Put it in a list: \[text\]"):
        encode(model, TOKENIZER, "one text")
    with pytest.raises(TypeError, match="nan is no text"):
        encode(model, TOKENIZER, ["a", float("nan")])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="batch_size is 0"):
        encode(model, TOKENIZER, TEXTS, batch_size=0)
