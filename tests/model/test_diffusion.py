"""Masked diffusion against the exact probabilities of the toy language.

With exact chances the loss is -log P, and a word a pass is the chain rule. The usual bugs: a weight
that is not 1 / rate, a mean in place of a sum, words that are asked for and can be seen, and a pass
that writes over what stood there.
"""

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from folders import dice
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.variants.diffusion import diffusion_loss, unmask
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID
from course.experiments.diffusion import least, log_of_length
from course.experiments.toy import toy_ids
from course.experiments.toy_language import blank_posteriors
from course.experiments.toy_readers import CONFIG, FIRST, LANGUAGE, ExactReader

SENTENCES = LANGUAGE.sample(4, 1)
EXACT: Any = ExactReader()


def test_with_exact_chances_the_loss_is_the_log_probability() -> None:
    """The mean of many estimates; else by 10 percent and more, whatever of the usual bugs it is."""
    exact = [log_of_length(len(s)) - LANGUAGE.log_probability(s) for s in SENTENCES]
    assert least(SENTENCES).tolist() == pytest.approx(exact)
    ids, draws = toy_ids(LANGUAGE, SENTENCES), 250
    estimate = float(diffusion_loss(EXACT, ids.repeat(draws, 1), dice()).sum()) / draws
    assert estimate == pytest.approx(sum(exact), rel=0.03)


def blanks(count: int) -> Tensor:
    return torch.tensor([[CLS_ID, MASK_ID, MASK_ID, MASK_ID, SEP_ID]]).repeat(count, 1)


def written(passes: int, count: int) -> Counter[tuple[str, ...]]:
    *_, ids = unmask(EXACT, blanks(count), passes, generator=dice())
    return Counter(tuple(LANGUAGE.words[i - FIRST] for i in row[1:-1]) for row in ids.tolist())


def test_a_word_a_pass_is_the_chain_rule_and_all_in_one_is_a_product() -> None:
    count = 4000
    apart = blank_posteriors(LANGUAGE, [None] * 3)  # (3, W), each without the others
    found = {passes: written(passes, count) for passes in (3, 9, 1)}
    sentence = "the dog barked".split()
    chance = math.exp(LANGUAGE.log_probability(sentence) - log_of_length(3))
    product = math.prod(float(apart[i, LANGUAGE.words.index(w)]) for i, w in enumerate(sentence))
    assert chance > 2 * product, "else nothing is tested"
    for passes, expected in ((3, chance), (9, chance), (1, product)):
        noise = (expected * (1 - expected) / count) ** 0.5
        assert abs(found[passes][tuple(sentence)] / count - expected) < 4 * noise
    for passes, texts in found.items():
        wrong = sum(n for s, n in texts.items() if LANGUAGE.log_probability(s) == -math.inf)
        assert (wrong == 0) == (passes > 1)


@pytest.mark.parametrize("confident", [False, True])
def test_each_pass_fills_what_is_due_and_leaves_the_rest(confident: bool) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(replace(CONFIG, initializer_range=0.5))
    model.decoder.bias.data[:FIRST] = 99.0  # a model that would write special tokens
    ids = toy_ids(LANGUAGE, [["the", "dog", "barked"], "the old bird sang in the tree".split()])
    before = ids.masked_fill(ids >= FIRST, MASK_ID)
    before[1, 1] = ids[1, 1]  # given: six blanks are left
    for number, after in enumerate(unmask(model, before, 4, confident, generator=dice()), 1):
        left = (after == MASK_ID).sum(1).tolist()
        assert left == [3 * (4 - number) // 4, 6 * (4 - number) // 4]
        known = before != MASK_ID
        assert torch.equal(after[known], before[known])
        before = after
    assert (before[ids >= FIRST] >= FIRST).all()
    given = ids[:1].masked_fill(ids[:1] >= FIRST, MASK_ID)
    with torch.device("meta"):  # whatever it makes is where the text is
        wide, alone = (next(unmask(model, x, 1, confident, 1e-4)) for x in (given, given[:, :5]))
    assert torch.equal(wide[:, :5], alone), "padding is not read"


def test_the_surest_come_first_and_a_temperature_sharpens() -> None:
    scores = torch.full((1, 5, CONFIG.vocab_size), -99.0)
    scores[0, 1:4, FIRST] = torch.tensor([0.0, 5.0, 1.0])  # against one other word
    scores[0, 1:4, FIRST + 1] = 0.0

    class Fixed(ExactReader):
        def forward(self, ids: Tensor, **_: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
            return scores.repeat(len(ids), 1, 1), None

    reader: Any = Fixed()
    for seed in range(20):
        first, *_ = unmask(reader, blanks(1), 3, True, generator=dice(seed))
        assert (first[0] != MASK_ID).nonzero()[:, 0].tolist() == [0, 2, 4]
    places = [
        int((next(unmask(reader, blanks(1), 3, generator=dice(s)))[0] >= FIRST).nonzero())
        for s in [*range(30)] * 2
    ]
    assert {*places} == {1, 2, 3}, "any order"
    assert places[:30] == places[30:], "a seed's own"
    *_, cold = unmask(reader, blanks(200), 1, temperature=0.1, generator=dice())
    assert (cold[:, 3] == FIRST).all()


@pytest.mark.parametrize(("passes", "direction"), [(0, "bidirectional"), (1, "left-to-right")])
def test_what_cannot_fill_blanks_is_refused(passes: int, direction: Any) -> None:
    model = BertForPreTraining(replace(CONFIG, direction=direction))
    with pytest.raises(ValueError, match=f"{passes} passes of a {direction} model"):
        next(unmask(model, blanks(1), passes))
