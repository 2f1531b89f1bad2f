"""A small language whose probabilities are known, so that the best possible answer is known too.

Every sentence is about one animal or person, and that topic is never written down. It walks
through the slots of a sentence, most of them optional, and each slot draws a word that suits the
topic. This is a hidden Markov model; the forward-backward algorithm (Rabiner 1989, section III)
gives the exact probability of a hidden word from what stands left of it, right of it, or on both
sides. No model that sees only one side, however large, can beat that side's limit.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

# slot -> (chance that it is left out, topic -> words with weights; "*" suits every topic)
_SLOTS: tuple[tuple[str, float, dict[str, str]], ...] = (
    ("determiner", 0.0, {"*": "the:6 a:3 every:1"}),
    (
        "adjective",
        0.5,
        {
            "*": "old:2 young:2 small:2 happy:2",
            "dog": "loyal:2",
            "cat": "shy:2",
            "bird": "yellow:2",
            "horse": "fast:2",
            "baby": "hungry:2",
            "singer": "famous:2",
        },
    ),
    (
        "noun",
        0.0,
        {
            "dog": "dog:8 puppy:2",
            "cat": "cat:8 kitten:2",
            "bird": "bird:7 parrot:3",
            "horse": "horse:8 pony:2",
            "baby": "baby:7 child:3",
            "singer": "singer:6 woman:4",
        },
    ),
    (
        "verb",
        0.0,
        {
            "*": "slept:1 waited:1",
            "dog": "barked:7 ran:1",
            "cat": "purred:6 jumped:2",
            "bird": "sang:4 flew:4",
            "horse": "ran:4 jumped:3",
            "baby": "cried:7 laughed:1",
            "singer": "sang:6 laughed:2",
        },
    ),
    (
        "adverb",
        0.4,
        {
            "*": "loudly:1 quietly:1",
            "dog": "loudly:3",
            "cat": "softly:3",
            "bird": "sweetly:3",
            "horse": "quickly:3",
            "baby": "loudly:3",
            "singer": "sweetly:3",
        },
    ),
    ("preposition", 0.2, {"*": "in:3 near:1"}),
    ("article", 0.0, {"*": "the:1"}),
    (
        "place",
        0.0,
        {
            "*": "garden:1",
            "dog": "yard:5",
            "cat": "kitchen:5",
            "bird": "tree:5",
            "horse": "field:5",
            "baby": "bedroom:5",
            "singer": "theater:5",
        },
    ),
)
TOPICS = ("dog", "cat", "bird", "horse", "baby", "singer")


class ToyLanguage:
    """The language as matrices: K states (slot and topic), W words.

    ``start`` (K,), ``move`` (K, K) and ``stop`` (K,) say how a sentence walks through the states,
    ``emit`` (K, W) which word a state writes. ``words`` names the columns, in alphabetical order.
    """

    def __init__(self) -> None:
        """Fill the matrices from the table of slots."""
        states = [(slot, topic) for topic in TOPICS for slot in range(len(_SLOTS))]
        words = {w.split(":")[0] for s in _SLOTS for line in s[2].values() for w in line.split()}
        self.words = sorted(words)
        size = len(states)
        self.start = torch.zeros(size, dtype=torch.float64)
        self.move = torch.zeros(size, size, dtype=torch.float64)
        self.stop = torch.zeros(size, dtype=torch.float64)
        self.emit = torch.zeros(size, len(self.words), dtype=torch.float64)
        for k, (slot, topic) in enumerate(states):
            for line in (_SLOTS[slot][2].get("*", ""), _SLOTS[slot][2].get(topic, "")):
                for word, weight in (entry.split(":") for entry in line.split()):
                    self.emit[k, self.words.index(word)] += float(weight)
            first_of_topic = k - slot
            for next_slot, share in _next_slots(slot):
                if next_slot == len(_SLOTS):
                    self.stop[k] += share
                else:
                    self.move[k, first_of_topic + next_slot] += share
            if slot == 0:
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
        right side alone knows how many words came before, though not which.

        Raises
        ------
        ValueError
            The position is outside the sentence, or the sentence is not of this language.

        """
        if not 0 <= position < len(sentence):
            raise ValueError(f"position {position} is outside a sentence of {len(sentence)} words")
        words_before, words_after = sentence[:position], sentence[position + 1 :]
        unknown = {*words_before, *words_after} - set(self.words)
        if unknown:
            raise ValueError(f"not a word of the toy language: {', '.join(sorted(unknown))}")
        if left:  # forward: P(words before, state here)
            before = self.start
            for column in map(self.words.index, words_before):
                before = (before * self.emit[:, column]) @ self.move
        else:  # how often a sentence is in each state at this place
            before = self.start
            for _ in words_before:
                before = before @ self.move
        after = torch.ones_like(self.stop)
        if right:  # backward: P(words after, end | state here)
            after = self.stop
            for column in map(self.words.index, reversed(words_after)):
                after = self.move @ (self.emit[:, column] * after)
        joint = (before * after) @ self.emit  # (W,)
        if joint.sum() <= 0:
            raise ValueError(f"{' '.join(sentence)!r} is not a sentence of the toy language")
        return joint / joint.sum()


def _next_slots(slot: int) -> list[tuple[int, float]]:
    """Say which slot can follow, and how often. No preposition, no article and place either."""
    following, share = [], 1.0
    for candidate in range(slot + 1, len(_SLOTS)):
        skip = _SLOTS[candidate][1]
        following.append((candidate, share * (1 - skip)))
        share *= skip
        if _SLOTS[candidate][0] == "preposition":
            break
        if skip == 0:
            return following
    return [*following, (len(_SLOTS), share)]
