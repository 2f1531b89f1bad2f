"""The toy language: its limits against a walk through every one of its sentences."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
import torch

from course.experiments.toy_language import (
    TOPICS,
    ToyLanguage,
    blank_posteriors,
    mutual_information,
    pair_posterior,
    topic_posterior,
)

SIDES = {"both": (True, True), "left": (True, False), "right": (False, True), "none": (False,) * 2}
Sentence = tuple[str, ...]
LANGUAGE = ToyLanguage()
SHORT = ["the", "dog", "barked"]


@pytest.fixture(scope="module")
def everything() -> dict[Sentence, float]:
    """Every sentence and its probability, by walking through the states one word at a time."""
    start, move = LANGUAGE.start.tolist(), LANGUAGE.move.tolist()
    stop, emit = LANGUAGE.stop.tolist(), LANGUAGE.emit.tolist()
    choices = [[(w, p) for w, p in zip(LANGUAGE.words, row, strict=True) if p] for row in emit]
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


def seen(sentence: Sentence, position: int, side: str) -> tuple[Sentence, ...]:
    left, right = SIDES[side]
    # Every reader knows how many words came before; of the right side, how many after.
    return (
        sentence[:position] if left else ("?",) * position,
        (*sentence[position + 1 :], ">") if right else (),
    )


Limits = dict[str, dict[tuple[Sentence, ...], dict[str, float]]]


@pytest.fixture(scope="module")
def limits(everything: dict[Sentence, float]) -> Limits:
    """P(word, what is seen) of each side by adding up sentences: no matrices."""
    tables: Limits = {side: defaultdict(lambda: defaultdict(float)) for side in SIDES}
    for sentence, share in everything.items():
        for position, word in enumerate(sentence):
            for side in SIDES:
                tables[side][seen(sentence, position, side)][word] += share
    return tables


def test_shares_add_up_and_probabilities_are_those_worked_out_by_hand(
    everything: dict[Sentence, float],
) -> None:
    rows = (LANGUAGE.start, *LANGUAGE.emit, *torch.cat([LANGUAGE.move, LANGUAGE.stop[:, None]], 1))
    assert all(row.sum().item() == pytest.approx(1) and (row >= 0).all() for row in rows)
    assert LANGUAGE.words == sorted(set(LANGUAGE.words))
    assert (LANGUAGE.emit.sum(dim=0) > 0).all(), "a word that is never written"
    assert sum(everything.values()) == pytest.approx(1, rel=1e-12)
    # topic dog; "the" 6 of 10; no adjective; "dog" 8 of 10; "barked" 7 of 10; nothing more:
    # no adverb (0.4) and no preposition (0.2)
    p = 1 / 6 * 0.6 * 0.5 * 0.8 * 0.7 * 0.4 * 0.2
    assert everything[tuple(SHORT)] == pytest.approx(p)
    # "shy" 2 of 10; "slept" 1 of 10; "softly" 3 of 5; "near" 1 of 4; "kitchen" 5 of 6
    p = 1 / 6 * 0.3 * 0.5 * 0.2 * 0.2 * 0.1 * 0.6 * 0.6 * 0.8 * 0.25 * 5 / 6
    assert everything[tuple("a shy kitten slept softly near the kitchen".split())] == pytest.approx(
        p
    )
    for sentence in sorted(everything)[::997]:
        log = LANGUAGE.log_probability(sentence)
        assert log == pytest.approx(math.log(everything[sentence]))
    for none in ((), ("the", "dog", "purred"), ("the", "dog"), ("le", "dog")):
        assert none not in everything
        assert LANGUAGE.log_probability(none) == -math.inf


@pytest.mark.parametrize("side", SIDES)
def test_posteriors_equal_adding_up_all_sentences_whatever_word_is_hidden(
    everything: dict[Sentence, float], limits: Limits, side: str
) -> None:
    # every 97th sentence, rare ones as well as frequent ones; every position of each
    checked = sorted(everything)[::97]
    assert {len(sentence) for sentence in checked} == {len(sentence) for sentence in everything}
    for sentence in checked:
        for position in range(len(sentence)):
            row = limits[side][seen(sentence, position, side)]
            hidden = [*sentence[:position], "[MASK]", *sentence[position + 1 :]]
            got = LANGUAGE.posterior(hidden, position, *SIDES[side]).tolist()
            for word, chance in zip(LANGUAGE.words, got, strict=True):
                expected = row.get(word, 0) / sum(row.values())
                assert math.isclose(chance, expected, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("sentence", "position", "message"),
    [
        (SHORT, -1, "position -1 is outside a sentence of 3"),
        (SHORT, 3, "position 3 is outside"),
        (["le", "dog", "chien"], 1, r"not a word of the toy language: chien, le$"),
        (["the", "dog", "in"], 0, "'the dog in' is not a sentence"),
    ],
)
def test_what_is_no_sentence_or_place_is_named(
    sentence: list[str], position: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LANGUAGE.posterior(sentence, position)


# -- several blanks at once, against single ones


@pytest.mark.parametrize("words", ["the old bird sang in the tree", "a dog barked loudly"])
def test_a_joint_has_the_conditionals_and_the_sums_of_single_blanks(words: str) -> None:
    """Chain rule, both ways: P(b | a) and P(a | b) of every pair are those of one blank.

    The usual bug: the word between the two, or the step past it, is left out.
    """
    sentence = words.split()
    for place, row in enumerate(blank_posteriors(LANGUAGE, sentence)):
        torch.testing.assert_close(row, LANGUAGE.posterior(sentence, place))
    for j in range(len(sentence)):
        for i in range(j):
            joint = pair_posterior(LANGUAGE, sentence, i, j)
            assert joint.sum().item() == pytest.approx(1)
            blanked = [None if place in (i, j) else word for place, word in enumerate(sentence)]
            single = blank_posteriors(LANGUAGE, blanked)
            for kept, asked, table in ((i, j, joint), (j, i, joint.T)):
                torch.testing.assert_close(table.sum(dim=1), single[kept])
                for a in table.sum(dim=1).nonzero()[:, 0].tolist():
                    filled = [*sentence]
                    filled[kept] = LANGUAGE.words[a]
                    chances = LANGUAGE.posterior(filled, asked)
                    torch.testing.assert_close(table[a] / table[a].sum(), chances)


def test_mutual_information_by_hand() -> None:
    half = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    assert mutual_information(half) == pytest.approx(math.log(2))
    apart = torch.tensor([[0.1, 0.3], [0.15, 0.45]])
    assert mutual_information(apart) == pytest.approx(0, abs=1e-7)
    # the topic is hidden: "the ___ slept in the ___" may be six things in six places
    sentence = "the dog slept in the yard".split()
    assert mutual_information(pair_posterior(LANGUAGE, sentence, 1, 5)) > 0.9


def test_topics_by_hand_and_by_filling_in() -> None:
    dog, horse = TOPICS.index("dog"), TOPICS.index("horse")
    chances = topic_posterior(LANGUAGE, ["the", None, "ran"])  # ran: 1 of 10 dogs, 4 of 9 horses
    assert chances[dog].item() == pytest.approx(0.1 / (0.1 + 4 / 9))
    assert chances[[dog, horse]].sum().item() == pytest.approx(1)
    assert topic_posterior(LANGUAGE, ["the", "pony", None])[horse].item() == pytest.approx(1)
    sentence = ["the", None, "slept", "loudly"]
    words = blank_posteriors(LANGUAGE, sentence)[1]
    mean = sum(
        words[w] * topic_posterior(LANGUAGE, ["the", LANGUAGE.words[w], "slept", "loudly"])
        for w in words.nonzero()[:, 0].tolist()
    )
    torch.testing.assert_close(mean, topic_posterior(LANGUAGE, sentence))
