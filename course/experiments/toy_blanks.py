"""Exact answers about several blanks of the toy language at once, and about its hidden topic.

`ToyLanguage.posterior` hides one word. Models after BERT are asked about more: two blanks that tell
each other, or the topic that no sentence names. The same two passes over a sentence tell these.
"""

import torch
from torch import Tensor

from course.experiments.toy_language import TOPICS, Blanked, ToyLanguage


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
