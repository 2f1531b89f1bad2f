"""Five kinds of task, one interface: examples -> items -> head -> loss, and answers -> scores."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.finetuning.evaluation.metrics import TaskScores
from bertedu.finetuning.examples import Examples, TaskError
from bertedu.model.features import Features
from bertedu.model.heads import ClassificationHead, MultipleChoiceHead

MAX_LENGTH = 128  # the positions that this course pre-trains; longer texts are cut or windowed


@dataclass(frozen=True)
class Item:
    """One example, or one window of a long one."""

    example: int  # its number in the list that was encoded
    rows: tuple[Encoding, ...]  # of tokens: one, or one for each choice
    target: Any  # a number, the start and the end of an answer, or a tag for each token

    @property
    def length(self) -> int:
        """Tokens of the longest row."""
        return max(len(row.ids) for row in self.rows)


@dataclass
class TaskBatch:
    """Padded token rows; with choices, those of one item follow one another."""

    ids: Tensor  # (R, S), R rows
    segment_ids: Tensor  # (R, S)
    padding_mask: Tensor  # (R, S)
    target: Tensor  # (B,), (B, 2) or (B, S), by the kind of task
    items: Sequence[Item]

    def to(self, device: torch.device) -> "TaskBatch":
        """Copy to a device."""
        tensors = self.ids, self.segment_ids, self.padding_mask, self.target
        ids, segments, mask, target = (tensor.to(device) for tensor in tensors)
        return TaskBatch(ids, segments, mask, target, self.items)


NO_TARGET = -100  # where nothing is asked: padding, and the second and later pieces of a word


def collate(items: Sequence[Item]) -> TaskBatch:
    """Pad some items to the longest of them."""
    rows = [row for item in items for row in item.rows]
    length = max(len(row.ids) for row in rows)

    def padded(values: list[list[int]], filler: int = 0) -> Tensor:
        return torch.tensor([some + [filler] * (length - len(some)) for some in values])

    targets = [item.target for item in items]
    return TaskBatch(
        padded([row.ids for row in rows]),
        padded([row.type_ids for row in rows]),
        padded([[1] * len(row.ids) for row in rows]).bool(),
        padded(targets, NO_TARGET) if isinstance(targets[0], list) else torch.tensor(targets),
        items,
    )


@contextmanager
def truncating(
    tokenizer: Tokenizer, max_length: int, stride: int = 0, strategy: str = "longest_first"
) -> Iterator[Tokenizer]:
    """Cut what is too long, or with ``stride`` keep it in ``Encoding.overflowing``.

    After it the tokenizer cuts as before. Raises TaskError if ``max_length`` has no room for text.
    """
    if max_length < 8:
        raise TaskError(f"max_length {max_length} is too short: there is no room for two texts")
    before = tokenizer.truncation
    tokenizer.enable_truncation(max_length, stride=stride, strategy=strategy)
    try:
        yield tokenizer
    finally:
        tokenizer.no_truncation()
        if before:
            tokenizer.enable_truncation(**before)


Outcomes = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Items = Sequence[Item]
ItemScores = Sequence[Tensor]  # as the head gives them, of one item each


@dataclass(frozen=True)
class Answer:
    """What a model says of one example, and what stands behind it."""

    value: Any  # the number of a class or choice, a number, a tuple of tags, or a text
    probabilities: tuple[float, ...] = ()  # a probability for each class or choice
    start: int = 0  # where a text stands
    no_answer: float = 0.0  # how much "none" is above a text


class Kind(ABC):
    """How a kind of task meets an encoder.

    The score of a set of examples must follow from ``outcomes``, a row of numbers for each
    example: so any part of the examples, or a resample of them, can be scored afterwards.
    """

    columns: ClassVar[tuple[str, ...]]  # of the outcomes

    @abstractmethod
    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """Cut into word pieces and place the target."""

    @abstractmethod
    def head(self, size: int, dropout: float) -> nn.Module:
        """Make the new layer on features of that size."""

    @abstractmethod
    def scores(self, head: nn.Module, features: Features, batch: TaskBatch) -> Tensor:
        """Apply the head to what it reads; the first axis of the result is the item."""

    @abstractmethod
    def loss(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Return the mean loss of a batch."""

    @abstractmethod
    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Turn the scores of all items into one answer for each example."""

    @abstractmethod
    def outcomes(self, examples: Examples, answers: Sequence[Answer]) -> Outcomes:
        """Compare answers with the truth: (examples, columns)."""

    @abstractmethod
    def metrics(self, outcomes: Outcomes) -> TaskScores:
        """Return the scores of some examples, resampled or not."""

    def calibrate(self, examples: Examples, items: Items, scores: ItemScores) -> None:  # noqa: B027
        """Set on dev what training does not; most kinds have nothing to set."""


@dataclass
class Classification(Kind):
    """Softmax over K classes from the pooled C (paper, sections 4.1 and figure 4 a, b)."""

    labels: tuple[str, ...]
    columns = ("label", "found")
    target_type: ClassVar[type[int | float]] = int

    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """One row for each example: one text, or two with their segments."""
        with truncating(tokenizer, max_length):
            return [
                Item(number, (tokenizer.encode(e.text, e.pair),), self.target_type(e.label))
                for number, e in enumerate(examples)
            ]

    def head(self, size: int, dropout: float) -> nn.Module:
        """K scores from the pooled C."""
        return ClassificationHead(size, len(self.labels), dropout)

    def scores(self, head: nn.Module, features: Features, batch: TaskBatch) -> Tensor:
        """Return a score for each class, (B, K); of a regression, the value, (B, 1)."""
        return head(features.whole)

    def loss(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Cross entropy."""
        return F.cross_entropy(scores, batch.target)

    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Answer with the class that has the highest score."""
        return [Answer(int(s.argmax()), tuple(s.softmax(-1).tolist())) for s in scores]

    def outcomes(self, examples: Examples, answers: Sequence[Answer]) -> Outcomes:
        """Pair the right class of each example with the class that was predicted."""
        pairs = zip(examples, answers, strict=True)
        return np.array([(example.label, answer.value) for example, answer in pairs], float)

    def metrics(self, outcomes: Outcomes) -> TaskScores:
        """Accuracy; mean of the F1 of each class, frequent or not; Matthews' correlation (CoLA).

        With the two classes 0 and 1 also the F1 of class 1 (MRPC, QQP).
        """
        from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef  # slow to load

        labels, predictions = outcomes.astype(int).T
        classes = {*labels, *predictions}
        scores = {
            "accuracy": float(accuracy_score(labels, predictions)),
            "macro_f1": float(f1_score(labels, predictions, average="macro", zero_division=0)),
            "matthews": float(matthews_corrcoef(labels, predictions)) if len(classes) > 1 else 0.0,
        }
        if classes <= {0, 1}:
            scores["binary_f1"] = float(f1_score(labels, predictions, zero_division=0))
        return scores


@dataclass
class Regression(Classification):
    """One number from the pooled C, by the squared error (the paper's STS-B)."""

    labels: tuple[str, ...] = field(default=("value",), init=False)
    columns = ("value", "found")
    target_type = float

    def loss(self, scores: Tensor, batch: TaskBatch) -> Tensor:
        """Mean squared error."""
        return F.mse_loss(scores.squeeze(-1), batch.target)

    def answers(self, examples: Examples, items: Items, scores: ItemScores) -> list[Answer]:
        """Answer with the number itself."""
        return [Answer(float(s)) for s in scores]

    def metrics(self, outcomes: Outcomes) -> TaskScores:
        """Correlations of Pearson and Spearman; 0 if all answers are the same."""
        from scipy.stats import pearsonr, spearmanr

        if any(len(set(column)) < 2 for column in outcomes.T):
            return {"pearson": 0.0, "spearman": 0.0}
        return {
            "pearson": float(pearsonr(*outcomes.T).statistic),
            "spearman": float(spearmanr(*outcomes.T).statistic),
        }


@dataclass
class MultipleChoice(Classification):
    """One score from the pooled C for each ending, softmax over these (paper, section 4.4)."""

    labels: tuple[str, ...] = field(default=(), init=False)

    def encode(self, examples: Examples, tokenizer: Tokenizer, max_length: int) -> list[Item]:
        """A row for each ending: the beginning is segment A, the ending B."""
        counts = {len(e.endings) for e in examples}
        if len(counts) > 1:
            raise TaskError(
                f"an example has {min(counts)} endings and another {max(counts)}: give all of them "
                "the same number"
            )
        with truncating(tokenizer, max_length):
            return [
                Item(number, tuple(tokenizer.encode(e.text, end) for end in e.endings), e.label)
                for number, e in enumerate(examples)
            ]

    def head(self, size: int, dropout: float) -> nn.Module:
        """One score from the pooled C."""
        return MultipleChoiceHead(size, dropout)

    def scores(self, head: nn.Module, features: Features, batch: TaskBatch) -> Tensor:
        """Return a score for each ending, (B, choices)."""
        per_choice = features.whole.view(len(batch.items), -1, features.whole.shape[-1])
        return head(per_choice)
