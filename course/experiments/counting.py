"""What can be had without a network: word frequencies, and the two neighboring words, counted.

A model that does not beat these has learned nothing that needs attention.
"""

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from bertedu.model.config import Direction
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import sum_by_pair
from bertedu.text.tokenization import CLS_ID, SEP_ID


class UnigramModel:
    """Answer every blank with the same distribution: how often each word piece occurs."""

    def __init__(self, documents: Sequence[EncodedDocument], vocab_size: int) -> None:
        """Count; every word piece gets one count for free, so that none is impossible."""
        counts = torch.bincount(_running_text(documents), minlength=vocab_size).double() + 1
        share = counts / counts.sum()
        self.share, self.log_probabilities = share.float(), share.log().float()  # (V,)

    def scores(self, batch: Batch, direction: Direction = "bidirectional") -> Tensor:
        """Log probabilities (n, V) of the n words that a batch asks for."""
        return self.log_probabilities.expand(len(batch.labels), -1)


class NeighborModel(UnigramModel):
    """Predict a word piece from the one before and the one after, by counting.

    P(w | previous, next) mixes two estimates. (1) How often w stood between exactly these two.
    (2) P(w | previous) P(w | next) / P(w): what each neighbor says alone, as if they were
    independent given w. The more kinds of words stood between the two in proportion to the
    occurrences, the less (1) counts (Witten and Bell, 1991).
    """

    def __init__(
        self, documents: Sequence[EncodedDocument], vocab_size: int, prior: float = 100.0
    ) -> None:
        """Count neighbors. ``prior`` is the weight, in occurrences, of the plain frequencies."""
        super().__init__(documents, vocab_size)
        text = _running_text(documents)
        self.vocab_size, self.prior = vocab_size, prior
        pair = text[:-1] * vocab_size + text[1:]
        self.pairs = torch.bincount(pair, minlength=vocab_size**2).view(vocab_size, -1)  # (V, V)
        between = (text[:-2] * vocab_size + text[2:]) * vocab_size + text[1:-1]
        self.between, self.between_counts = torch.unique(between, return_counts=True)  # sorted

    def scores(self, batch: Batch, direction: Direction = "bidirectional") -> Tensor:
        """Log probabilities (n, V) of the n words that a batch asks for.

        For masked words from both neighbors, those in the text *before* masking: the counts may see
        them even where the network sees `[MASK]`. For next or previous words from the one neighbor
        that is known: it stands at the selected place. The word itself is not looked at.
        """
        beside = batch.ids[batch.selected]  # (n,)
        if direction == "left-to-right":
            return self._smooth(self.pairs[beside]).log()
        if direction == "right-to-left":
            return self._smooth(self.pairs[:, beside].T).log()
        original = batch.ids.masked_scatter(batch.selected, batch.labels)
        row, column = batch.selected.nonzero(as_tuple=True)
        before, after = original[row, column - 1], original[row, column + 1]  # (n,)
        after_before = self._smooth(self.pairs[before])  # (n, V): P(w | previous)
        before_after = self._smooth(self.pairs[:, after].T)  # (n, V): P(w | next)
        both = after_before * before_after / self.share
        both /= both.sum(dim=-1, keepdim=True)
        start = (before * self.vocab_size + after) * self.vocab_size
        first = torch.searchsorted(self.between, start)
        last = torch.searchsorted(self.between, start + self.vocab_size)
        for i, (low, high) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            if high > low:
                counts = self.between_counts[low:high].float()
                words = self.between[low:high] - start[i]
                both[i] *= len(words) / (counts.sum() + len(words))
                both[i, words] += counts / (counts.sum() + len(words))
        return both.log()

    def _smooth(self, counts: Tensor) -> Tensor:
        """Counts (n, V) -> probabilities, leaning on plain frequencies where counts are few."""
        total = counts.sum(dim=-1, keepdim=True)
        return (counts + self.prior * self.share) / (total + self.prior)


def score_baseline(
    model: UnigramModel, batches: Sequence[Batch], direction: Direction = "bidirectional"
) -> Tensor:
    """Score a baseline on the same words as a network of a direction: (N, 3), as `score_pairs`."""
    return torch.cat([sum_by_pair(b, model.scores(b, direction)) for b in batches]).double()


def _running_text(documents: Sequence[EncodedDocument]) -> Tensor:
    """All ids in one row, each document between `[CLS]` and `[SEP]`."""
    ids = []
    for document in documents:
        ids += [CLS_ID, *chain.from_iterable(document.sentences), SEP_ID]
    return torch.tensor(ids)
