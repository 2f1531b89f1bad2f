"""The bugs people make: cross-attention sees the padding of the source, a writer its own answer."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from bertedu.model.config import BertConfig
from bertedu.model.variants.seq2seq import Recurrent, Transformer, cross_attention, translate
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID

CONFIG = BertConfig(30, 16, 2, 2, 32, 8, 2, 0.0, initializer_range=0.5)
SOURCE = torch.tensor([[7, 8, 9, 10, PAD_ID, PAD_ID], [11, 12, 13, 14, 15, 16]])
TARGET = torch.tensor([[CLS_ID, 17, 18, 19, 20], [CLS_ID, 21, 22, 23, 24]])


def make(kind: str) -> Transformer | Recurrent:
    torch.manual_seed(0)
    return (Transformer(CONFIG) if kind == "Transformer" else Recurrent(30, 16)).double().eval()


kinds = pytest.mark.parametrize("kind", ["Transformer", "GRUs"])


@kinds
def test_a_score_does_not_move_with_its_own_answer_or_what_follows(kind: str) -> None:
    model = make(kind)
    before, _ = model(SOURCE, TARGET)
    for place in range(1, TARGET.shape[1]):
        other = TARGET.clone()
        other[:, place] = 25
        moved = (model(SOURCE, other)[0] - before).abs().amax(-1) > 1e-9
        assert not moved[:, :place].any()  # the score of the word at `place` stands before it
        assert moved[:, place:].all()


@kinds
def test_every_real_word_of_the_source_is_read_and_no_padding(kind: str) -> None:
    model = make(kind)
    before, _ = model(SOURCE, TARGET)
    longer, _ = model(nn.functional.pad(SOURCE, (0, 2), value=PAD_ID), TARGET)
    torch.testing.assert_close(longer, before)
    for place in range(4):
        other = SOURCE.clone()
        other[:, place] = 25
        moved = (model(other, TARGET)[0] - before).abs().amax(-1) > 1e-9
        assert moved.all()


def test_what_is_read_and_what_is_written_are_two_segments() -> None:
    model = make("Transformer")
    for segment, read in ((0, True), (1, False)):
        before, scores = model.encode(SOURCE), model(SOURCE, TARGET)[0]
        with torch.no_grad():
            model.embeddings.segment.weight[segment] += torch.arange(16) / 16  # type: ignore[union-attr]
        assert torch.equal(model.encode(SOURCE), before) is not read
        assert torch.equal(model.decode(TARGET, SOURCE, before)[0], scores) is read


def test_cross_attention_by_hand() -> None:
    """Identity maps and no bias: one query (1), keys 0 and ln 3, a third that is padding."""
    attention = Transformer(dataclasses.replace(CONFIG, num_attention_heads=1)).layers[0].cross
    for part in (attention.query, attention.key, attention.value, attention.output):
        part.weight, part.bias = nn.Parameter(torch.eye(1)), nn.Parameter(torch.zeros(1))
    source = torch.tensor([[[0.0], [1.0986123], [9.0]]])
    real = torch.tensor([[[[True, True, False]]]])
    mixed, weights = cross_attention(attention, torch.ones(1, 1, 1), source, real)
    assert weights.flatten().tolist() == pytest.approx([0.25, 0.75, 0])
    assert mixed.item() == pytest.approx(0.75 * 1.0986123)


def test_weights_are_a_row_for_each_word_written_and_none_for_padding() -> None:
    _, weights = make("Transformer")(SOURCE, TARGET)
    assert [tuple(w.shape) for w in weights] == [(2, 2, 5, 6)] * 2
    for w in weights:
        torch.testing.assert_close(w.sum(-1), torch.ones_like(w[..., 0]))
        assert (w[0, :, :, 4:] == 0).all()


@kinds
def test_a_translation_is_what_the_scores_say_and_stops(kind: str) -> None:
    model = make(kind)
    written = translate(model, SOURCE, 5)
    begun = torch.cat([TARGET[:, :1], written], dim=1)
    for row, ids in enumerate(begun.tolist()):
        end = ids.index(SEP_ID) if SEP_ID in ids else len(ids) - 1
        best = model(SOURCE[row : row + 1], begun[row : row + 1, :end])[0].argmax(-1)
        assert ids[1 : end + 1] == best[0].tolist()

    class Stops(Recurrent):
        """Writes word 9, then ends; the second text never ends."""

        def decode(self, target: Tensor, *_: Tensor) -> tuple[Tensor, list[Tensor]]:
            scores = torch.zeros(2, target.shape[1], 30)
            scores[:, :, 9] = 1
            scores[0, 1:, SEP_ID] = 2
            return scores, []

    stops = Stops(30, 4).train()
    assert translate(stops, SOURCE, 4).tolist() == [[9, SEP_ID, PAD_ID, PAD_ID], [9] * 4]
    assert stops.training


def test_what_is_no_transformer_is_refused() -> None:
    for change in ({"direction": "left-to-right"}, {"norm": "pre"}):
        with pytest.raises(ValueError, match="norms behind each part"):
            Transformer(dataclasses.replace(CONFIG, **change))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nothing but padding"):
        make("Transformer").encode(torch.full((1, 3), PAD_ID))
