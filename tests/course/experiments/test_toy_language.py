"""The toy language: its limits against a walk through every one of its sentences."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
import torch

from course.experiments.toy_language import TOPICS, ToyLanguage

SIDES = {"both": (True, True), "left": (True, False), "right": (False, True), "none": (False,) * 2}
Sentence = tuple[str, ...]


@pytest.fixture(scope="module")
def language() -> ToyLanguage:
    return ToyLanguage()


@pytest.fixture(scope="module")
def everything(language: ToyLanguage) -> dict[Sentence, float]:
    """Every sentence and its probability, by walking through the states one word at a time."""
    start, move = language.start.tolist(), language.move.tolist()
    stop, emit = language.stop.tolist(), language.emit.tolist()
    choices = [[(w, p) for w, p in zip(language.words, row, strict=True) if p] for row in emit]
    followers = [[(k, p) for k, p in enumerate(row) if p] for row in move]

    def walk(state: int, words: Sentence, share: float) -> Iterator[tuple[Sentence, float]]:
        for word, p in choices[state]:
            here = (*words, word)
            if stop[state]:
                yield here, share * p * stop[state]
            for following, go in followers[state]:
                yield from walk(following, here, share * p * go)

    found: Counter[Sentence] = Counter()
    for state, share in enumerate(start):
        if share:
            for sentence, p in walk(state, (), share):
                found[sentence] += p
    return dict(found)


class Limits:
    """P(word | what is seen) by adding up sentences: no matrices."""

    def __init__(self, everything: dict[Sentence, float]) -> None:
        self.tables: dict[str, dict[tuple[Sentence, ...], dict[str, float]]] = {
            side: defaultdict(lambda: defaultdict(float)) for side in SIDES
        }
        for sentence, share in everything.items():
            for position, word in enumerate(sentence):
                for side in SIDES:
                    self.tables[side][seen(sentence, position, side)][word] += share

    def posterior(self, sentence: Sentence, position: int, side: str) -> dict[str, float]:
        row = self.tables[side][seen(sentence, position, side)]
        return {word: share / sum(row.values()) for word, share in row.items()}

    def entropy(self, side: str) -> float:
        """Mean surprise in nats a word, over all words of all sentences."""
        surprise = words = 0.0
        for row in self.tables[side].values():
            total = sum(row.values())
            surprise -= sum(share * math.log(share / total) for share in row.values())
            words += total
        return surprise / words


def seen(sentence: Sentence, position: int, side: str) -> tuple[Sentence, ...]:
    left, right = SIDES[side]
    # Every reader knows how many words came before; of the right side, how many after.
    return (
        sentence[:position] if left else ("?",) * position,
        (*sentence[position + 1 :], ">") if right else (),
    )


@pytest.fixture(scope="module")
def limits(everything: dict[Sentence, float]) -> Limits:
    return Limits(everything)


def test_the_shares_of_every_state_add_up_to_one(language: ToyLanguage) -> None:
    one = torch.tensor(1.0, dtype=torch.float64)
    torch.testing.assert_close(language.start.sum(), one)
    torch.testing.assert_close(language.emit.sum(dim=1), one.expand(len(language.start)))
    torch.testing.assert_close(
        language.move.sum(dim=1) + language.stop, one.expand(len(language.start))
    )
    for shares in (language.start, language.emit, language.move, language.stop):
        assert (shares >= 0).all()


def test_words_are_named_once_and_every_one_can_be_written(language: ToyLanguage) -> None:
    assert language.words == sorted(set(language.words))
    assert (language.emit.sum(dim=0) > 0).all()


def test_all_sentences_together_have_probability_one(everything: dict[Sentence, float]) -> None:
    assert math.isclose(sum(everything.values()), 1, rel_tol=1e-12)


def test_probabilities_worked_out_by_hand(everything: dict[Sentence, float]) -> None:
    # topic dog; "the" 6 of 10; no adjective; "dog" 8 of 10; "barked" 7 of 10; nothing more:
    # no adverb (0.4) and no preposition (0.2)
    p = 1 / 6 * 0.6 * 0.5 * 0.8 * 0.7 * 0.4 * 0.2
    assert math.isclose(everything["the", "dog", "barked"], p)
    # "shy" 2 of 10; "slept" 1 of 10; "softly" 3 of 5; "near" 1 of 4; "kitchen" 5 of 6
    p = 1 / 6 * 0.3 * 0.5 * 0.2 * 0.2 * 0.1 * 0.6 * 0.6 * 0.8 * 0.25 * 5 / 6
    sentence = ("a", "shy", "kitten", "slept", "softly", "near", "the", "kitchen")
    assert math.isclose(everything[sentence], p)
    assert ("the", "dog", "purred") not in everything


@pytest.mark.parametrize("side", SIDES)
def test_posteriors_equal_adding_up_all_sentences(
    language: ToyLanguage, everything: dict[Sentence, float], limits: Limits, side: str
) -> None:
    left, right = SIDES[side]
    # every 97th sentence, rare ones as well as frequent ones; every position of each
    for sentence in sorted(everything)[::97]:
        for position in range(len(sentence)):
            expected = limits.posterior(sentence, position, side)
            got = language.posterior(sentence, position, left, right)
            for word, share in zip(language.words, got.tolist(), strict=True):
                assert math.isclose(share, expected.get(word, 0), abs_tol=1e-12), (
                    f"{' '.join(sentence)!r}, position {position}, {word!r}"
                )


def test_the_probability_of_a_sentence_equals_walking_through_it(
    language: ToyLanguage, everything: dict[Sentence, float]
) -> None:
    """The usual bug: the end is forgotten, so that every beginning counts as a sentence."""
    for sentence in sorted(everything)[::97]:
        got = language.log_probability(sentence)
        assert math.isclose(got, math.log(everything[sentence]), abs_tol=1e-9)
        beginning = math.exp(language.log_probability(sentence[:-1]))
        assert math.isclose(beginning, everything.get(sentence[:-1], 0), abs_tol=1e-15)
    for none in ((), ("the",), ("the", "dog", "purred"), ("the", "dog", "spoke")):
        assert language.log_probability(none) == -math.inf


def test_all_positions_of_a_sentence_are_among_those_checked(
    everything: dict[Sentence, float],
) -> None:
    checked = sorted(everything)[::97]
    assert {len(sentence) for sentence in checked} == {len(sentence) for sentence in everything}
    assert len({sentence[-1] for sentence in checked}) >= 2 * len(TOPICS)


def test_from_the_right_alone_the_place_is_known(
    language: ToyLanguage, everything: dict[Sentence, float]
) -> None:
    # Nothing follows the third word: it is the last of a sentence of three.
    last: Counter[str] = Counter()
    for sentence, share in everything.items():
        if len(sentence) == 3:
            last[sentence[-1]] += share
    got = language.posterior(["the", "dog", "barked"], 2, left=False)
    assert got.sum().isclose(torch.tensor(1.0, dtype=torch.float64))
    for word, share in zip(language.words, got.tolist(), strict=True):
        assert math.isclose(share, last[word] / last.total(), abs_tol=1e-12)


def test_a_reader_who_does_not_know_the_place_would_pay_more(
    language: ToyLanguage, everything: dict[Sentence, float]
) -> None:
    """Positions are information: without them the limit from the right is a fifth higher."""
    rows: dict[Sentence, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for sentence, share in everything.items():
        for position, word in enumerate(sentence):
            rows[sentence[position + 1 :]][word] += share
    words = sum(sum(row.values()) for row in rows.values())
    without = -sum(
        p * math.log(p / sum(row.values())) for row in rows.values() for p in row.values()
    )
    knows = Limits(everything).entropy("right")
    assert without / words > 1.15 * knows


@pytest.mark.parametrize("side", SIDES)
def test_the_hidden_word_itself_is_not_looked_at(language: ToyLanguage, side: str) -> None:
    left, right = SIDES[side]
    sentence = ["the", "old", "bird", "sang", "in", "the", "tree"]
    for position in range(len(sentence)):
        expected = language.posterior(sentence, position, left, right)
        for other in ("barked", "the", "___", "[MASK]"):
            changed = [*sentence]
            changed[position] = other
            assert torch.equal(language.posterior(changed, position, left, right), expected)


def test_only_the_chosen_sides_are_looked_at(language: ToyLanguage) -> None:
    sentence = ["the", "dog", "ran", "in", "the", "garden"]
    horse = ["the", "pony", "ran", "in", "the", "field"]
    swapped_left, swapped_right = horse[:2] + sentence[2:], sentence[:3] + horse[3:]

    def moves(other: list[str], left: bool, right: bool) -> bool:
        here, there = (language.posterior(s, 2, left, right) for s in (sentence, other))
        return not torch.allclose(here, there, atol=1e-6)

    assert moves(swapped_left, True, False)
    assert not moves(swapped_left, False, True)
    assert moves(swapped_right, False, True)
    assert not moves(swapped_right, True, False)
    assert moves(horse, True, True)
    assert not moves(horse, False, False)


def test_samples_are_as_frequent_as_they_should_be(
    language: ToyLanguage, everything: dict[Sentence, float]
) -> None:
    count = 20_000
    sentences = [tuple(s) for s in language.sample(count, seed=7)]
    assert len(sentences) == count
    assert set(sentences) <= set(everything)

    def compare(what: str, got: float, share: float) -> None:
        # Five standard errors of a binomial: about one false alarm in two million.
        bound = 5 * math.sqrt(share * (1 - share) / count) + 1e-12
        assert abs(got / count - share) < bound, f"{what}: {got / count:.4f}, not {share:.4f}"

    drawn = Counter(sentences)
    frequent = sorted(everything, key=everything.__getitem__)[-50:]
    for sentence in frequent:
        compare(" ".join(sentence), drawn[sentence], everything[sentence])
    expected: Counter[str | int] = Counter()
    for sentence, p in everything.items():
        for feature in (*set(sentence), len(sentence)):
            expected[feature] += p
    got = Counter(feature for s in sentences for feature in (*set(s), len(s)))
    for feature, share in expected.items():
        compare(str(feature), got[feature], share)


def test_each_side_helps_and_both_help_most(language: ToyLanguage, limits: Limits) -> None:
    exact = {side: limits.entropy(side) for side in SIDES}
    assert exact["both"] < exact["left"] < exact["none"]
    assert exact["both"] < exact["right"] < exact["none"]
    # The lesson needs a gap that a class can see, not one in the third digit.
    assert min(exact["left"], exact["right"]) - exact["both"] > 0.2

    sentences = language.sample(150, seed=1)
    for side, (left, right) in SIDES.items():
        surprise = torch.tensor(
            [
                -float(language.posterior(s, i, left, right)[language.words.index(s[i])].log())
                for s in sentences
                for i in range(len(s))
            ]
        )
        # Words of a sentence hang together, so the plain standard error is too small: eight.
        bound = 8 * float(surprise.std()) / math.sqrt(len(surprise))
        assert abs(float(surprise.mean()) - exact[side]) < bound, side


def test_a_seed_gives_the_same_sentences_again(language: ToyLanguage) -> None:
    torch.manual_seed(1)
    first = language.sample(50, seed=3)
    torch.manual_seed(2)
    assert language.sample(50, seed=3) == first
    assert language.sample(50, seed=4) != first
    assert ToyLanguage().sample(50, seed=3) == first


@pytest.mark.parametrize("position", [-1, 3, 100])
def test_a_position_outside_is_an_error(language: ToyLanguage, position: int) -> None:
    with pytest.raises(ValueError, match=f"position {position} is outside a sentence of 3 words"):
        language.posterior(["the", "dog", "barked"], position)


def test_an_empty_sentence_has_no_position(language: ToyLanguage) -> None:
    with pytest.raises(ValueError, match="outside a sentence of 0 words"):
        language.posterior([], 0)


def test_words_of_another_language_are_named(language: ToyLanguage) -> None:
    with pytest.raises(ValueError, match=r"not a word of the toy language: chien, le$"):
        language.posterior(["le", "dog", "chien"], 1)


@pytest.mark.parametrize("sentence", ["dog the barked", "the dog in", "the dog dog barked"])
def test_a_sentence_of_another_language_is_an_error(language: ToyLanguage, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"'{sentence}' is not a sentence of the toy language"):
        language.posterior(sentence.split(), 0)
