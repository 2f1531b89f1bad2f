"""80/10/10: shares, what is never touched, and what a shape test would let through."""

import pytest
import torch

from bertedu.pretraining.masking import PAPER, mask_tokens, read_procedure
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS

VOCAB = 1000
SPECIALS = len(SPECIAL_TOKENS)


def text(rows: int = 4000, width: int = 256) -> torch.Tensor:
    """About a million ids; a fifth are special, most of those padding at the end of the row."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(SPECIALS, VOCAB, (rows, width), generator=generator)
    sizes = torch.randint(width // 2, width + 1, (rows, 1), generator=generator)
    ids = ids.masked_fill(torch.arange(width) >= sizes, PAD_ID)
    ids[:, 0] = 2
    ids[:, 50] = 3
    ids[::2, 70] = 1
    ids[::3, 80] = MASK_ID
    return ids


IDS = text()


def masked(ids: torch.Tensor, *shares: float, seed: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    return mask_tokens(ids, VOCAB, torch.Generator().manual_seed(seed), *shares)


def assert_share(count: int, trials: int, share: float) -> None:
    """A count lies within 5 standard deviations of a binomial; exactly there for 0 and 1."""
    assert abs(count - trials * share) <= 5 * (trials * share * (1 - share)) ** 0.5, count / trials


def assert_even(counts: torch.Tensor, trials: torch.Tensor, rate: float) -> None:
    """None of many kinds is preferred, nor do all together vary more than chance makes them."""
    counts, trials = counts[trials > 0].double(), trials[trials > 0].double()
    z = (counts - trials * rate) / (trials * rate * (1 - rate)).sqrt()
    assert float(z.abs().max()) < 6
    assert abs(float((z**2).sum()) - len(z)) < 5 * (2 * len(z)) ** 0.5


@pytest.mark.parametrize(
    ("rate", "mask_share", "random_share"),
    [
        (0.15, 0.8, 0.1),
        (0.15, 1.0, 0.0),
        (0.15, 0.0, 0.8),  # 0/20/80
        (0.15, 0.8, 0.2),
        (0.15, 0.0, 1.0),
        (0.30, 0.8, 0.1),
        (1.00, 0.5, 0.5),
        (0.15, 0.0, 0.0),
    ],
)
def test_shares_over_a_million_tokens(rate: float, mask_share: float, random_share: float) -> None:
    before = IDS.clone()
    changed, selected = masked(IDS, rate, mask_share, random_share)
    assert torch.equal(before, IDS), "the input was changed"
    special = IDS < SPECIALS
    assert not (selected & special).any(), "a special token was selected"
    assert torch.equal(changed[~selected], IDS[~selected]), "an unselected token was changed"
    picked = int(selected.sum())
    assert_share(picked, int((~special).sum()), rate)

    now, then = changed[selected], IDS[selected]
    hidden = now == MASK_ID
    assert not ((now < SPECIALS) & ~hidden).any(), "a random word is special"
    assert_share(int(hidden.sum()), picked, mask_share)
    drawn = now[~hidden & (now != then)]
    # a random word is the same word once in V - 5 times
    assert_share(len(drawn), picked, random_share * (1 - 1 / (VOCAB - SPECIALS)))
    if len(drawn) > 50_000:  # all words are as likely, the first and the last one too
        counts = torch.bincount(drawn, minlength=VOCAB)[SPECIALS:]
        assert_even(counts, torch.full_like(counts, len(drawn)), 1 / (VOCAB - SPECIALS))
    if rate < 1:  # neither the word nor its place has a say in being selected
        for kind in (IDS, torch.arange(IDS.shape[1]).expand_as(IDS)):
            hits, trials = (torch.bincount(kind[x], minlength=VOCAB) for x in (selected, ~special))
            assert_even(hits, trials, rate)


def test_the_defaults_are_the_papers_and_the_seed_decides() -> None:
    one, spelled_out, other = (
        masked(IDS[:50], *shares, seed=seed)
        for shares, seed in (((), 3), ((0.15, 0.8, 0.1), 3), ((), 4))
    )
    assert all(map(torch.equal, one, spelled_out))
    assert not torch.equal(one[1], other[1])


@pytest.mark.parametrize("words", [1, 2])
def test_a_tiny_batch_has_something_to_predict(words: int) -> None:
    """Without it the mean over no tokens is NaN, and the run is lost."""
    ids = torch.tensor([[2] + [77] * words + [3, 0]])
    for seed in range(300):
        _, selected = masked(ids, 0.01, seed=seed)
        assert selected[0, 1 : 1 + words].any(), f"nothing selected at seed {seed}"
        assert selected.sum() == selected[0, 1 : 1 + words].sum()


def test_what_cannot_be_masked_is_refused() -> None:
    nan = float("nan")
    for rate, mask, random in (
        *((0.0, 0.8, 0.1), (-0.1, 0.8, 0.1), (1.1, 0.8, 0.1), (nan, 0.8, 0.1)),
        *((0.15, 1.1, 0.0), (0.15, -0.1, 0.1), (0.15, 0.8, 0.3), (0.15, 0.8, -0.1)),
    ):
        with pytest.raises(ValueError, match="between 0 and 1"):
            masked(IDS[:2], rate, mask, random)
    with pytest.raises(ValueError, match="nothing to mask: every token is special"):
        masked(torch.tensor([[2, 3, 0], [2, 1, 4]]))


def test_a_procedure_is_read_in_the_order_of_table_8() -> None:
    assert read_procedure("80/10/10") == PAPER
    assert read_procedure("80/20/0") == (0.8, 0.0)  # 20 % stay the same, none are random
    assert read_procedure("0/0/100") == (0.0, 1.0)
    for text in "|80|80/10|80/10/10/0|80/10/20|a/b/c|-10/100/10|80 /10/10|8//92".split("|"):
        with pytest.raises(ValueError, match="three whole percentages that add up to 100"):
            read_procedure(text)
