"""A small language whose probabilities are known, so that the best possible answer is known too.

Every sentence is about one animal or person, and that topic is never written down. It walks
through the slots of a sentence, most of them optional, and each slot draws a word that suits the
topic. This is a hidden Markov model; the forward-backward algorithm (Rabiner 1989, section III)
gives the exact probability of a hidden word from what stands left of it, right of it, or on both
sides. No model that sees only one side, however large, can beat that side's limit. The same two
passes tell what models after BERT are asked: two blanks at once, or the topic.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from bertedu.files import table_beside

_TABLES = table_beside(__file__)
_SLOTS: dict[str, tuple[float, str]] = _TABLES["slots"]
_OF_TOPICS: dict[str, list[str]] = _TABLES["topics"]
_SLOTS_OF_TOPICS = ("adjective", "noun", "verb", "adverb", "place")
TOPICS = tuple(_OF_TOPICS)
Blanked = Sequence[str | None]  # a blank, None, is a word of which nothing is known


def _words(slot: str, topic: str) -> list[tuple[str, float]]:
    """List the words of a slot that suit a topic, with their weights."""
    entries = _SLOTS[slot][1].split()
    if slot in _SLOTS_OF_TOPICS:
        entries += _OF_TOPICS[topic][_SLOTS_OF_TOPICS.index(slot)].split()
    return [(word, float(weight)) for word, weight in (entry.split(":") for entry in entries)]


class ToyLanguage:
    """The language as matrices: K states (slot and topic), W words.

    ``start`` (K,), ``move`` (K, K) and ``stop`` (K,) say how a sentence walks through the states,
    ``emit`` (K, W) which word a state writes. ``words`` names the columns, in alphabetical order.
    """

    def __init__(self) -> None:
        """Fill the matrices from the table of slots."""
        states = [(topic, slot) for topic in TOPICS for slot in _SLOTS]
        self.words = sorted({word for topic, slot in states for word, _ in _words(slot, topic)})
        size = len(states)
        self.start = torch.zeros(size, dtype=torch.float64)
        self.move = torch.zeros(size, size, dtype=torch.float64)
        self.stop = torch.zeros(size, dtype=torch.float64)
        self.emit = torch.zeros(size, len(self.words), dtype=torch.float64)
        for k, (topic, slot) in enumerate(states):
            for word, weight in _words(slot, topic):
                self.emit[k, self.words.index(word)] += weight
            for following, share in _next_slots(slot):
                if following is None:
                    self.stop[k] += share
                else:
                    self.move[k, states.index((topic, following))] += share
            if slot == "determiner":
                self.start[k] = 1 / len(TOPICS)
        self.emit /= self.emit.sum(dim=1, keepdim=True)

    def sample(self, count: int, seed: int) -> list[list[str]]:
        """Write ``count`` sentences, all of them one slot at a time."""
        generator = torch.Generator().manual_seed(seed)
        go_on = torch.cat([self.move, self.stop[:, None]], dim=1)  # (K, K + 1): last is the end
        state = torch.multinomial(self.start, count, replacement=True, generator=generator)
        sentences: list[list[str]] = [[] for _ in range(count)]
        writing = torch.arange(count)
        while len(writing):
            word = torch.multinomial(self.emit[state], 1, generator=generator)[:, 0]
            for row, column in zip(writing.tolist(), word.tolist(), strict=True):
                sentences[row].append(self.words[column])
            state = torch.multinomial(go_on[state], 1, generator=generator)[:, 0]
            open_ = state < len(self.stop)
            state, writing = state[open_], writing[open_]
        return sentences

    def posterior(
        self, sentence: Sequence[str], position: int, left: bool = True, right: bool = True
    ) -> Tensor:
        """Return the exact distribution (W,) of the word at a position, given the chosen sides.

        The word that stands there is not looked at, so it may be a blank. Every reader knows the
        place itself, the first word, the second: position embeddings tell. So a reader of the
        right side alone knows how many words came before, though not which. Raises ValueError if
        the position is outside the sentence, or the sentence is not of this language.
        """
        if not 0 <= position < len(sentence):
            raise ValueError(f"position {position} is outside a sentence of {len(sentence)} words")
        words_before, words_after = sentence[:position], sentence[position + 1 :]
        unknown = {*words_before, *words_after} - set(self.words)
        if unknown:
            raise ValueError(f"not a word of the toy language: {', '.join(sorted(unknown))}")
        before = self.forward([*(words_before if left else [None] * position), None])[-1]
        after = self.backward([None, *words_after])[0] if right else torch.ones_like(self.stop)
        joint = (before * after) @ self.emit  # (W,)
        if joint.sum() <= 0:
            raise ValueError(f"{' '.join(sentence)!r} is not a sentence of the toy language")
        return joint / joint.sum()

    def log_probability(self, sentence: Sequence[str]) -> float:
        """Return the exact log P(words, and then the end): minus infinity for no sentence of it.

        The forward algorithm: every topic and every way through the slots is added up.
        """
        if not sentence or not set(sentence) <= set(self.words):
            return -math.inf
        ends = float(self.forward(sentence)[-1] * self.likelihood(sentence[-1]) @ self.stop)
        return math.log(ends) if ends > 0 else -math.inf

    def likelihood(self, word: str | None) -> Tensor:
        """P(word | state), (K,); one everywhere for a blank, None."""
        if word is None:
            return torch.ones_like(self.stop)
        return self.emit[:, self.words.index(word)]

    def forward(self, sentence: Blanked) -> list[Tensor]:
        """P(all words before place t, state at t): n of (K,)."""
        before = [self.start]
        for word in sentence[:-1]:
            before.append((before[-1] * self.likelihood(word)) @ self.move)
        return before

    def backward(self, sentence: Blanked) -> list[Tensor]:
        """P(all words after place t, and the end there | state at t): n of (K,)."""
        after = [self.stop]
        for word in reversed(sentence[1:]):
            after.append(self.move @ (self.likelihood(word) * after[-1]))
        return after[::-1]


def blank_posteriors(language: ToyLanguage, sentence: Blanked) -> Tensor:
    """Return (n, W): at each place, the chances of its word given all *other* known words."""
    both = zip(language.forward(sentence), language.backward(sentence), strict=True)
    joint = torch.stack([before * after for before, after in both]) @ language.emit
    return joint / joint.sum(dim=1, keepdim=True)


def pair_posterior(language: ToyLanguage, sentence: Blanked, first: int, second: int) -> Tensor:
    """Return (W, W): the chances of both words at two places, given all others.

    Neither of the two words is looked at. Raises ValueError unless first < second, both inside.
    """
    if not 0 <= first < second < len(sentence):
        raise ValueError(f"places {first} and {second} are not two of {len(sentence)}, in order")
    reached = (language.forward(sentence)[first][:, None] * language.emit).T  # (W, K)
    for word in sentence[first + 1 : second]:
        reached = (reached @ language.move) * language.likelihood(word)
    after = language.backward(sentence)[second]
    joint = (reached @ language.move) @ (after[:, None] * language.emit)  # (W, W)
    return joint / joint.sum()


def mutual_information(joint: Tensor) -> float:
    """Nats that two words tell of each other: mean ln of P(a, b) / (P(a) P(b)), joint (W, W)."""
    apart = joint.sum(dim=1, keepdim=True) * joint.sum(dim=0)
    seen = joint > 0
    return float((joint[seen] * (joint[seen] / apart[seen]).log()).sum())


def topic_posterior(language: ToyLanguage, sentence: Blanked) -> Tensor:
    """Return (6,): the chances of each of `TOPICS`, given the known words."""
    last = language.forward(sentence)[-1] * language.likelihood(sentence[-1]) * language.stop
    joint = last.view(len(TOPICS), -1).sum(dim=1)  # states are numbered topic by topic
    return joint / joint.sum()


def _next_slots(slot: str) -> list[tuple[str | None, float]]:
    """Say which slot can follow, and how often; None is the end of the sentence.

    Without a preposition there is no article and no place either.
    """
    following: list[tuple[str | None, float]] = []
    share, names = 1.0, list(_SLOTS)
    for candidate in names[names.index(slot) + 1 :]:
        skip = _SLOTS[candidate][0]
        following.append((candidate, share * (1 - skip)))
        share *= skip
        if candidate == "preposition":
            break
        if skip == 0:
            return following
    return [*following, (None, share)]
