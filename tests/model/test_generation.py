"""Writing: what is drawn comes from the model's scores at the right place, and nothing else."""

from collections.abc import Callable

import pytest
import torch
from folders import dice
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig, Direction
from bertedu.model.variants.generation import (
    append_masks,
    ending_score,
    fill_and_resample,
    generate,
    next_token,
)
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS

FIRST = len(SPECIAL_TOKENS)


def small(direction: Direction = "left-to-right", end: float = -20.0) -> BertForPreTraining:
    """A BERT whose random weights are large, so that each word read shows; ``end`` biases [SEP]."""
    torch.manual_seed(1)
    config = BertConfig(20, 16, 2, 2, 32, 12, 2, 0.0, initializer_range=0.5, direction=direction)
    model = BertForPreTraining(config).eval()
    with torch.no_grad():
        model.decoder.bias[SEP_ID] = end
    return model


PROMPTS = torch.tensor([[CLS_ID, 7, 8], [CLS_ID, 9, 6]])
ONE_BLANK = torch.tensor([[CLS_ID, MASK_ID], [CLS_ID, 9]])


def test_temperature_and_top_k_by_hand() -> None:
    scores = torch.tensor([1.0, 2.0, 4.0, 3.0]).log()
    assert next_token(scores).tolist() == pytest.approx([0.1, 0.2, 0.4, 0.3])
    # halved temperature: chances squared, and made to add up again
    assert next_token(scores, 0.5).tolist() == pytest.approx([1 / 30, 4 / 30, 16 / 30, 9 / 30])
    assert next_token(scores, top_k=2).tolist() == pytest.approx([0, 0, 4 / 7, 3 / 7])
    assert next_token(scores, 0.5, 1).tolist() == [0, 0, 1, 0]
    assert torch.equal(next_token(scores, top_k=99), next_token(scores))
    assert torch.equal(next_token(scores.expand(2, 3, 4), 0.5, 2)[1, 2], next_token(scores, 0.5, 2))


def test_greedy_takes_the_best_token_after_the_last_one() -> None:
    model = small()
    written = generate(model, PROMPTS, 6, top_k=1)
    assert torch.equal(written[:, :3], PROMPTS)
    for place in range(3, 9):
        scores = model(written[:, :place])[0][:, -1].detach()
        scores[:, :FIRST] = -torch.inf
        assert torch.equal(written[:, place], scores.argmax(-1))


def test_words_come_as_often_as_their_chances() -> None:
    model = small()
    many = PROMPTS[:1].expand(4000, -1)
    drawn = generate(model, many, 1, temperature=0.7, top_k=4, generator=dice())[:, 3]
    scores = model(PROMPTS[:1])[0][0, -1].detach()
    scores[[PAD_ID, 1, CLS_ID, MASK_ID]] = -torch.inf
    expected = next_token(scores, 0.7, 4)
    share = torch.bincount(drawn, minlength=20) / len(many)
    assert (share - expected).abs().max() < 0.03
    assert expected.max() < 0.9  # else any bug would pass


def test_a_seed_gives_the_same_text_and_another_one_another() -> None:
    model = small()
    one, other = (generate(model, PROMPTS, 8, generator=dice(s)) for s in (0, 1))
    with torch.device("meta"):  # whatever it makes is where the prompts are
        again = generate(model, PROMPTS, 8, generator=dice())
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


def test_a_text_ends_at_its_sep_and_the_others_go_on() -> None:
    written = generate(small(end=1.5), PROMPTS[:1].expand(200, -1), 9, generator=dice())
    ended = (written == SEP_ID).any(dim=1)
    assert 0 < ended.sum() < 200
    for row in written.tolist():
        words, _, rest = " ".join(map(str, row)).partition(f" {SEP_ID}")
        assert set(rest.split()) <= {str(PAD_ID)}
        assert all(int(word) >= FIRST for word in words.split()[1:])
    assert generate(small(end=99.0), PROMPTS, 9, generator=dice()).shape == (2, 4)  # all are over


def test_what_is_not_blank_stays_and_what_is_resampled_is_not_read() -> None:
    model = small("bidirectional")
    read: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].clone()))
    ids = torch.tensor([[CLS_ID, MASK_ID, 7, MASK_ID, SEP_ID], [CLS_ID, MASK_ID, SEP_ID, 0, 0]])
    written = fill_and_resample(model, ids, rounds=3, generator=dice())
    kept = ids != MASK_ID
    assert torch.equal(written[kept], ids[kept])
    assert (written[~kept] >= FIRST).all()
    assert len(read) == 6, "three rounds of two places"
    many = torch.tensor([[CLS_ID, MASK_ID, word, SEP_ID] for word in range(FIRST, 20)])
    wide = torch.nn.functional.pad(many, (0, 8), value=PAD_ID)
    with torch.device("meta"):
        padded, alone = (fill_and_resample(model, x, 1, top_k=1) for x in (wide, many))
    assert torch.equal(padded[:, :4], alone), "padding is not read"
    orders: dict[int, tuple[int, ...]] = {}
    for seed in [*range(9)] * 2:  # what is asked for is hidden, and the last has read the other
        read.clear()
        fill_and_resample(model, ids[:1], rounds=2, generator=dice(seed))
        order = tuple(int((asked[0] == MASK_ID).nonzero()) for asked in read[2:])
        assert orders.setdefault(seed, order) == order
    assert set(orders.values()) == {(1, 3), (3, 1)}


def test_appended_masks_are_filled_as_the_last_word() -> None:
    model = small("bidirectional")
    written = append_masks(model, PROMPTS, 4, dice())
    asked = torch.cat([written[:, :6], torch.tensor([[MASK_ID, SEP_ID]] * 2)], dim=1)
    chances = model(asked)[0][:, 6, FIRST:].softmax(-1)
    assert written.shape == (2, 7)
    with torch.device("meta"):
        assert torch.equal(append_masks(model, PROMPTS, 4, dice()), written)
    assert (written[:, 1:] >= FIRST).all()
    # of many endings drawn, the likeliest is that of a last word
    many = append_masks(model, written[:1, :6].expand(2000, -1), 1, dice())[:, 6]
    assert int(many.mode().values) == FIRST + int(chances[0].argmax())


def test_an_ending_is_scored_by_the_rows_before_its_tokens() -> None:
    scores = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]).log()
    ids = torch.tensor([0, 1, 2])
    assert ending_score(scores, ids, 1).exp().item() == pytest.approx(0.25 * 0.7)
    assert ending_score(scores, ids, 1, True).exp().item() == pytest.approx((0.25 * 0.7) ** 0.5)
    assert ending_score(scores, ids, 2).exp().item() == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: generate(small("bidirectional"), PROMPTS, 3), "fill_and_resample"),
        (lambda: generate(small("right-to-left"), PROMPTS, 3), "the model is right-to-left"),
        (lambda: fill_and_resample(small(), PROMPTS, 3), "generate"),
        (lambda: append_masks(small(), PROMPTS, 3), "generate"),
        (lambda: generate(small(), PROMPTS[:, :0], 3), r"begin with \[CLS\]"),
        (lambda: generate(small(), PROMPTS[0], 3), "not \\(rows, tokens\\)"),
        (lambda: generate(small(), torch.tensor([[CLS_ID, 7, SEP_ID]]), 3), "leave them out"),
        (lambda: generate(small(), torch.tensor([[CLS_ID, SEP_ID, PAD_ID]]), 3), "row by row"),
        (lambda: generate(small(), PROMPTS, 10), "3 tokens and 10 more are over 12"),
        (lambda: append_masks(small("bidirectional"), PROMPTS, 10), "are over 12"),
        (lambda: generate(small(), PROMPTS, 3, temperature=0), "always the best is top_k=1"),
        (lambda: generate(small(), PROMPTS, 3, top_k=0), "leaves nothing"),
        (lambda: fill_and_resample(small("bidirectional"), ONE_BLANK), r"every row a \[MASK\]"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], Tensor], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
