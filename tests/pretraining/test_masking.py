"""80/10/10: shares, what is never touched, and the bugs that a shape test would let through."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from bertedu.pretraining.masking import PAPER, mask_tokens, read_procedure
from bertedu.text.tokenization import MASK_ID, PAD_ID, SPECIAL_TOKENS

VOCAB = 1000
SPECIALS = len(SPECIAL_TOKENS)
Mask = Callable[..., tuple[Tensor, Tensor]]


def text(rows: int = 4000, width: int = 256, seed: int = 0) -> Tensor:
    """About a million ids; a fifth are special, most of those padding at the end of the row."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(SPECIALS, VOCAB, (rows, width), generator=generator)
    sizes = torch.randint(width // 2, width + 1, (rows, 1), generator=generator)
    ids = ids.masked_fill(torch.arange(width) >= sizes, PAD_ID)
    ids[:, 0] = 2
    ids[:, 50] = 3
    ids[::2, 70] = 1
    ids[::3, 80] = MASK_ID
    return ids


IDS = text()


def within(count: Tensor | int, trials: Tensor | int, share: float, z: float = 5.0) -> bool:
    """Whether a count lies within z standard deviations of a binomial; exact for 0 and 1."""
    sigma = (float(trials) * share * (1 - share)) ** 0.5
    return abs(float(count) - float(trials) * share) <= z * sigma


def check_masking(mask: Mask, rate: float, mask_share: float, random_share: float) -> None:
    """Everything that section 3.1 promises; raises AssertionError."""
    before = IDS.clone()
    generator = torch.Generator().manual_seed(7)
    changed, selected = mask(IDS, VOCAB, generator, rate, mask_share, random_share)
    assert torch.equal(before, IDS), "the input was changed"
    special = IDS < SPECIALS
    assert not (selected & special).any(), "a special token was selected"
    assert torch.equal(changed[~selected], IDS[~selected]), "an unselected token was changed"
    words, picked = int((~special).sum()), int(selected.sum())
    assert words > 750_000
    assert within(picked, words, rate), f"selected {picked / words:.4f} of the words"

    now, then = changed[selected], IDS[selected]
    assert not ((now < SPECIALS) & (now != MASK_ID)).any(), "a random word is special"
    masked = int((now == MASK_ID).sum())
    assert within(masked, picked, mask_share), f"masked {masked / picked:.4f}"
    # a random word is the same word once in V - 5 times
    differs = int(((now != MASK_ID) & (now != then)).sum())
    other = random_share * (1 - 1 / (VOCAB - SPECIALS))
    assert within(differs, picked, other), f"random {differs / picked:.4f}"
    kept = int((now == then).sum())
    assert within(kept, picked, 1 - mask_share - other), f"kept {kept / picked:.4f}"
    drawn = now[(now != MASK_ID) & (now != then)]
    if len(drawn) > 50_000:  # all words are as likely, the first and the last one too
        expected = len(drawn) / (VOCAB - SPECIALS)
        counts = torch.bincount(drawn, minlength=VOCAB)[SPECIALS:].double()
        chi_square = float(((counts - expected) ** 2 / expected).sum())
        degrees = VOCAB - SPECIALS - 1
        assert abs(chi_square - degrees) < 5 * (2 * degrees) ** 0.5, chi_square

    # Neither the word nor its place has a say in being selected.
    for name, kind, size in (
        ("word", IDS, VOCAB),
        ("place", torch.arange(IDS.shape[1]).expand_as(IDS), IDS.shape[1]),
    ):
        trials = torch.bincount(kind[~special], minlength=size).double()
        hits = torch.bincount(kind[selected], minlength=size).double()
        used = trials > 0
        trials, hits = trials[used], hits[used]
        if rate < 1:
            z = (hits - trials * rate) / (trials * rate * (1 - rate)).sqrt()
            assert float(z.abs().max()) < 6, f"selection depends on the {name}"
            degrees = len(z)
            assert abs(float((z**2).sum()) - degrees) < 5 * (2 * degrees) ** 0.5, name


RECIPES = [
    (0.15, 0.8, 0.1),
    (0.15, 1.0, 0.0),
    (0.15, 0.0, 0.8),  # 0/20/80
    (0.15, 0.8, 0.2),
    (0.15, 0.8, 0.0),
    (0.15, 0.0, 1.0),
    (0.30, 0.8, 0.1),
    (1.00, 0.5, 0.5),
    (0.15, 0.0, 0.0),
]


@pytest.mark.parametrize(("rate", "mask_share", "random_share"), RECIPES)
def test_shares_over_a_million_tokens(rate: float, mask_share: float, random_share: float) -> None:
    check_masking(mask_tokens, rate, mask_share, random_share)


def test_the_defaults_are_the_papers() -> None:
    seeds = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    by_default = mask_tokens(IDS[:50], VOCAB, seeds[0])
    spelled_out = mask_tokens(IDS[:50], VOCAB, seeds[1], 0.15, 0.8, 0.1)
    assert all(map(torch.equal, by_default, spelled_out))


def mutant(name: str) -> Mask:
    """Plant a known mistake."""

    def mask(
        ids: Tensor, vocab: int, generator: torch.Generator, rate: float, m: float, r: float
    ) -> tuple[Tensor, Tensor]:
        def chance() -> Tensor:
            return torch.rand(ids.shape, generator=generator)

        word = ids >= SPECIALS
        if name == "specials are maskable":
            word = torch.ones_like(word)
        elif name == "padding is maskable":
            word = word | (ids == PAD_ID)
        selected = word & (chance() < rate)
        if name == "rate of the whole batch":  # 15 % of all places, padding counted
            wanted = int(rate * ids.numel())
            selected = torch.zeros_like(word)
            luck = chance().masked_fill(~word, 2.0)
            selected.view(-1)[luck.view(-1).argsort()[:wanted]] = True
        elif name == "the front first":
            slope = torch.linspace(1.1, 0.9, ids.shape[1])
            selected = word & (chance() < rate * slope)
        elif name == "frequent words first":
            selected = word & (chance() < torch.where(ids < 300, rate * 1.14, rate * 0.94))
        low = 0 if name == "random words may be special" else SPECIALS
        high = vocab - 1 if name == "the last word is never drawn" else vocab
        words = torch.randint(low, high, ids.shape, generator=generator)
        group = chance()
        masked, to_random = selected & (group < m), selected & (group >= m) & (group < m + r)
        if name == "groups drawn independently":
            masked, to_random = selected & (chance() < m), selected & (chance() < r)
        elif name == "a tenth of the rest":
            to_random = selected & ~masked & (chance() < r)
        changed = torch.where(to_random, words, ids.masked_fill(masked, MASK_ID))
        if name == "the input is changed":
            ids[0, 1] = VOCAB - ids[0, 1]
        elif name == "random words everywhere":
            changed = torch.where(chance() < r * rate, words, changed)
        elif name == "everything selected is masked":
            changed = ids.masked_fill(selected, MASK_ID)
        elif name == "nothing is hidden":  # the answer is left in the input
            changed = ids
        return changed, selected

    return mask


MUTANTS = """specials are maskable|padding is maskable|rate of the whole batch|the front first|
frequent words first|random words may be special|the last word is never drawn|
groups drawn independently|a tenth of the rest|the input is changed|random words everywhere|
everything selected is masked|nothing is hidden""".replace("\n", "").split("|")


def test_the_check_accepts_a_right_one_written_otherwise() -> None:
    check_masking(mutant("none"), 0.15, 0.8, 0.1)


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_mistakes_are_caught(name: str) -> None:
    saved = IDS.clone()
    shares = (0.9, 0.0, 1.0) if name == "the last word is never drawn" else (0.15, 0.8, 0.1)
    try:
        with pytest.raises(AssertionError):
            check_masking(mutant(name), *shares)
    finally:
        IDS.copy_(saved)


def test_the_same_seed_gives_the_same_masks_and_another_seed_others() -> None:
    one, again, other = (
        mask_tokens(IDS[:20], VOCAB, torch.Generator().manual_seed(s)) for s in (1, 1, 2)
    )
    assert torch.equal(one[0], again[0])
    assert torch.equal(one[1], again[1])
    assert not torch.equal(one[1], other[1])


@pytest.mark.parametrize("words", [1, 2])
def test_a_tiny_batch_has_something_to_predict(words: int) -> None:
    """Without it the mean over no tokens is NaN, and the run is lost."""
    ids = torch.tensor([[2] + [77] * words + [3, 0]])
    for seed in range(300):
        _, selected = mask_tokens(ids, VOCAB, torch.Generator().manual_seed(seed), 0.01)
        assert selected[0, 1 : 1 + words].any(), f"nothing selected at seed {seed}"
        assert selected.sum() == selected[0, 1 : 1 + words].sum()


def test_full_rate_selects_every_word() -> None:
    _, selected = mask_tokens(IDS[:100], VOCAB, torch.Generator().manual_seed(0), rate=1.0)
    assert torch.equal(selected, IDS[:100] >= SPECIALS)


@pytest.mark.parametrize(
    "shares",
    [
        (0.0, 0.8, 0.1),
        (-0.1, 0.8, 0.1),
        (1.1, 0.8, 0.1),
        (0.15, 1.1, 0.0),
        (0.15, -0.1, 0.1),
        (0.15, 0.8, 0.3),
        (0.15, 0.8, -0.1),
        (float("nan"), 0.8, 0.1),
    ],
)
def test_impossible_shares_are_refused(shares: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        mask_tokens(IDS[:2], VOCAB, torch.Generator(), *shares)


def test_a_procedure_is_read_in_the_order_of_table_8() -> None:
    assert read_procedure("80/10/10") == PAPER
    assert read_procedure("80/20/0") == (0.8, 0.0)  # 20 % stay the same, none are random
    assert read_procedure("0/0/100") == (0.0, 1.0)


@pytest.mark.parametrize(
    "text",
    ["", "80", "80/10", "80/10/10/0", "80/10/20", "a/b/c", "-10/100/10", "80 /10/10", "8//92"],
)
def test_what_is_no_procedure_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="three whole percentages that add up to 100"):
        read_procedure(text)


def test_nothing_but_specials_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to mask: every token is special"):
        mask_tokens(torch.tensor([[2, 3, 0], [2, 1, 4]]), VOCAB, torch.Generator())
