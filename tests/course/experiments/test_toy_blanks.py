"""Several blanks at once, against single blanks (which are tested against all sentences)."""

import math

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

LANGUAGE = ToyLanguage()
SENTENCES = [
    s.split()
    for s in (
        "the old bird sang in the tree",
        "a dog barked loudly",
        "every horse ran quickly in the field",
        "the woman sang",
    )
]


@pytest.mark.parametrize("sentence", SENTENCES, ids=" ".join)
def test_a_joint_has_the_conditionals_of_single_blanks(sentence: list[str]) -> None:
    """Chain rule, both ways: P(b | a) and P(a | b) of every pair are those of one blank.

    The usual bug: the word between the two, or the step past it, is left out.
    """
    for j in range(len(sentence)):
        for i in range(j):
            joint = pair_posterior(LANGUAGE, sentence, i, j)
            assert joint.sum().item() == pytest.approx(1)
            for axis, (kept, asked) in enumerate(((i, j), (j, i))):
                table = joint if axis == 0 else joint.T
                for a in table.sum(dim=1).nonzero()[:, 0].tolist():
                    filled = [*sentence]
                    filled[kept] = LANGUAGE.words[a]
                    torch.testing.assert_close(
                        table[a] / table[a].sum(), LANGUAGE.posterior(filled, asked)
                    )


@pytest.mark.parametrize("sentence", SENTENCES, ids=" ".join)
def test_one_blank_of_two_is_the_joint_summed_over_the_other(sentence: list[str]) -> None:
    for i, j in ((0, 1), (1, len(sentence) - 1)):
        blanked = [None if place in (i, j) else word for place, word in enumerate(sentence)]
        joint, single = (
            pair_posterior(LANGUAGE, sentence, i, j),
            blank_posteriors(LANGUAGE, blanked),
        )
        torch.testing.assert_close(joint.sum(dim=1), single[i])
        torch.testing.assert_close(joint.sum(dim=0), single[j])
    known = blank_posteriors(LANGUAGE, sentence)
    for place in range(len(sentence)):
        torch.testing.assert_close(known[place], LANGUAGE.posterior(sentence, place))


def test_mutual_information_by_hand() -> None:
    half = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    assert mutual_information(half) == pytest.approx(math.log(2))
    assert mutual_information(torch.tensor([[0.1, 0.3], [0.15, 0.45]])) == pytest.approx(
        0, abs=1e-7
    )
    # the topic is hidden: "the ___ slept in the ___" may be six things in six places
    sentence = "the dog slept in the yard".split()
    joint = pair_posterior(LANGUAGE, sentence, 1, 5)
    one, other = joint.sum(dim=1), joint.sum(dim=0)
    entropy = [float(-(p[p > 0] * p[p > 0].log()).sum()) for p in (one, other, joint.flatten())]
    assert mutual_information(joint) == pytest.approx(entropy[0] + entropy[1] - entropy[2])
    assert mutual_information(joint) > 0.9
    # and a preposition tells nothing of the place
    assert mutual_information(pair_posterior(LANGUAGE, sentence, 3, 5)) == pytest.approx(
        0, abs=1e-12
    )


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


@pytest.mark.parametrize("places", [(1, 1), (2, 1), (0, 3), (-1, 1)])
def test_places_that_are_no_pair_are_refused(places: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="are not two of 3, in order"):
        pair_posterior(LANGUAGE, ["the", "dog", "barked"], *places)
