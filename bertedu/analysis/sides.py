"""Where direction must matter: blanks whose word is given away by the words on one side only.

"The ___ barked all night": who stops at the blank has read "the". Such blanks are found by
counting, not by asking a model: beside a *telling* word, the hidden word is many times as frequent
as elsewhere in the training text. A blank is of the left kind if only its left has such a word,
of the right kind if only its right has. Both kinds hide the same words equally often.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.analysis.fill import score_blanks
from bertedu.finetuning.report import Floats, interval, resample, verdict
from bertedu.model.bert import BertForPreTraining
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.loading import find_model
from bertedu.pretraining.baselines import UnigramModel
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.run import load_splits
from bertedu.text.tokenization import (
    CLS_ID,
    MASK_ID,
    SEP_ID,
    SPECIAL_TOKENS,
    UNK_ID,
    load_vocabulary,
)

REACH = 8  # word pieces on each side of a blank that are looked at
TELLING, SILENT = 20.0, 3.0  # times as frequent: beside a telling word, and what the rest may do
SEEN = 5  # pairs counted less often tell nothing
COMMON = 100  # the most frequent word pieces are never hidden
PER_WORD = 5  # blanks of each kind that hide the same word
PER_DOCUMENT = 80  # candidates that one document may bring: a long speech must not outweigh all
SHORTEST, LONGEST = 6, 60  # word pieces of a sentence
Kind = Literal["left", "right"]
# what the table compares; a plus joins two checkpoints, a colon asks one half of an ELMo
READERS = {
    "BERT": "bert-L4H128",
    "No NSP": "no-nsp-L4H128",
    "left to right": "ltr-L4H128",
    "right to left": "rtl-L4H128",
    "left to right and right to left, joined": "ltr-L4H128+rtl-L4H128",
    "ELMo, left half": "elmo-L4H128:left",
    "ELMo, right half": "elmo-L4H128:right",
    "ELMo, joined": "elmo-L4H128",
}
Ids = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Blank:
    """A sentence with one word hidden. ``place`` counts its word pieces from 0, without `[CLS]`."""

    sentence: tuple[int, ...]
    place: int
    document: int  # its number; blanks of one document are not independent
    kind: Kind

    @property
    def word(self) -> int:
        """The hidden word."""
        return self.sentence[self.place]


class Company:
    """How often each word piece stands up to `REACH` places before each other, in a sentence."""

    def __init__(self, documents: Sequence[EncodedDocument], vocab_size: int) -> None:
        """Count; some seconds for three million word pieces."""
        gap = [-1] * REACH
        text = np.array(
            [i for d in documents for s in d.sentences for i in (*s, *gap)], dtype=np.int64
        )
        found = []
        for distance in range(1, REACH + 1):
            first, second = text[:-distance], text[distance:]
            real = (first >= 0) & (second >= 0)
            found.append(first[real] * vocab_size + second[real])
        self.pairs, self.counts = np.unique(np.concatenate(found), return_counts=True)
        self.total = int(self.counts.sum())
        self.vocab_size = vocab_size
        self.as_first = np.bincount(self.pairs // vocab_size, self.counts, vocab_size)
        self.as_second = np.bincount(self.pairs % vocab_size, self.counts, vocab_size)

    def lift(self, first: Ids, second: Ids) -> Floats:
        """How many times as often a pair occurs as by chance, (n,); 1 where it is too rare."""
        wanted = first * self.vocab_size + second
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        count = np.where(self.pairs[at] == wanted, self.counts[at], 0)
        by_chance = self.as_first[first] * self.as_second[second] / self.total
        return np.where(count >= SEEN, count / np.maximum(by_chance, 1e-12), 1.0)


def find_blanks(
    documents: Sequence[EncodedDocument],
    company: Company,
    vocabulary: Sequence[str],
    common: set[int],
    seed: int = 0,
) -> list[Blank]:
    """Return all blanks of the two kinds, as many of the left as of the right for every word.

    Hidden are whole words of one word piece and three letters or more, none of ``common``. Of the
    blanks of a document `PER_DOCUMENT` are kept, by chance.
    """
    by_word: dict[int, dict[Kind, list[Blank]]] = defaultdict(lambda: {"left": [], "right": []})
    dice = np.random.default_rng(seed)
    for number, document in enumerate(documents):
        found = []
        for sentence in document.sentences:
            if not SHORTEST <= len(sentence) <= LONGEST:
                continue
            for place, word in enumerate(sentence):
                if word in common or not _whole(sentence, place, vocabulary):
                    continue
                kind = _kind(np.array(sentence), place, company)
                if kind is not None:
                    found.append(Blank(tuple(sentence), place, number, kind))
        for i in dice.permutation(len(found))[:PER_DOCUMENT]:
            by_word[found[i].word][found[i].kind].append(found[i])
    chosen = []
    for word in sorted(by_word):
        kinds = by_word[word]
        many = min(PER_WORD, *map(len, kinds.values()))
        for blanks in kinds.values():
            chosen += [blanks[i] for i in dice.permutation(len(blanks))[:many]]
    return chosen


def _whole(sentence: Sequence[int], place: int, vocabulary: Sequence[str]) -> bool:
    """Whether a word piece is a word: it does not go on, and is written in letters."""
    word = vocabulary[sentence[place]]
    goes_on = place + 1 < len(sentence) and vocabulary[sentence[place + 1]].startswith("##")
    return word.isalpha() and len(word) >= 3 and not goes_on


def _kind(sentence: Ids, place: int, company: Company) -> Kind | None:
    left = sentence[max(0, place - REACH) : place]
    right = sentence[place + 1 : place + 1 + REACH]
    word = sentence[place]
    if word in left or word in right:  # it would tell of itself
        return None
    from_left = company.lift(left, np.full_like(left, word)).max(initial=1.0)
    from_right = company.lift(np.full_like(right, word), right).max(initial=1.0)
    if from_left >= TELLING and from_right < SILENT:
        return "left"
    if from_right >= TELLING and from_left < SILENT:
        return "right"
    return None


def held_out_blanks(split: str = "test") -> tuple[list[Blank], UnigramModel]:
    """Find the blanks of the default corpora's held-out documents; count words in the training.

    Raises
    ------
    ValueError
        The split is not a held-out one.
    SourceError
        The texts are not there, and cannot be fetched.

    """
    if split not in ("dev", "test"):
        raise ValueError(f"no held-out split {split!r}: choose dev or test")
    vocabulary = load_vocabulary()
    splits = load_splits(say=lambda _: None)
    unigram = UnigramModel(splits["train"], len(vocabulary))
    common = set(unigram.log_share.topk(COMMON).indices.tolist())
    company = Company(splits["train"], len(vocabulary))
    return find_blanks(splits[split], company, vocabulary, common), unigram


class Reader:
    """A model, one half of an ELMo, or a pair of one-way models whose answers are joined."""

    def __init__(self, name: str, unigram: UnigramModel) -> None:
        """Load by name: a checkpoint, two with a plus between them, or an ELMo and `:left`.

        Raises
        ------
        CheckpointError
            There is no such checkpoint.
        ValueError
            The parts are not one left-to-right model and one right-to-left one; a half of no ELMo
            is asked for; or a model has no head that names words.

        """
        name, _, half = name.partition(":")
        self.models = [_with_head(part) for part in name.split("+")]
        self.half, self.unigram = half or "both", unigram
        ways = [getattr(model.config, "direction", "both") for model in self.models]
        if len(ways) > 1 and ways != ["left-to-right", "right-to-left"]:
            raise ValueError(f"{name}: join a left-to-right model and a right-to-left one")
        if half and (
            half not in ("left", "right") or not isinstance(self.models[0], ElmoForPreTraining)
        ):
            raise ValueError(f"{name}:{half}: only an ELMo has halves, left and right")

    @torch.inference_mode()
    def log_chances(self, ids: Tensor, blank: Tensor) -> Tensor:
        """Log probabilities (B, V) of the word at the one blank of each row; ids (B, S).

        Two one-way answers are joined like the halves of an ELMo: multiplied, and divided by the
        share of the word, which both have counted.
        """
        scores = torch.stack(
            [
                score_blanks(model, ids, blank, UNK_ID, self.half)  # type: ignore[arg-type]
                for model in self.models
            ]
        ).sum(dim=0)
        if len(self.models) == 2:
            scores = scores - self.unigram.log_share
        scores[:, : len(SPECIAL_TOKENS)] = -torch.inf
        return scores.log_softmax(-1)


def _with_head(name: str) -> PreTrainingModel:
    model = find_model(name).model
    if not isinstance(model, BertForPreTraining | ElmoForPreTraining):
        raise ValueError(f"{name} is an encoder alone: it has no head that names words")
    return model.eval()


def answer_blanks(
    reader: Reader, blanks: Sequence[Blank], progress: str | None = None
) -> tuple[Floats, Floats]:
    """Return the surprise in nats at each hidden word, (n,), and 1 where it was the first guess."""
    loss, right = np.zeros(len(blanks)), np.zeros(len(blanks))
    order = sorted(range(len(blanks)), key=lambda i: len(blanks[i].sentence))
    groups = [list(group) for _, group in groupby(order, key=lambda i: len(blanks[i].sentence))]
    for group in tqdm(groups, desc=progress, disable=progress is None):
        ids = torch.tensor([[CLS_ID, *blanks[i].sentence, SEP_ID] for i in group])
        blank = torch.zeros_like(ids, dtype=torch.bool)
        blank[range(len(group)), [blanks[i].place + 1 for i in group]] = True
        answers = ids[blank]
        log_chances = reader.log_chances(ids.masked_fill(blank, MASK_ID), blank)
        loss[group] = F.nll_loss(log_chances, answers, reduction="none").numpy()
        right[group] = (log_chances.argmax(-1) == answers).numpy()
    return loss, right


def compare_sides(
    readers: Mapping[str, str],
    blanks: Sequence[Blank],
    unigram: UnigramModel,
    progress: bool = True,
) -> list[dict[str, object]]:
    """Ask every reader about the blanks of both kinds; a row for each reader and kind.

    Columns: the number of blanks and of their documents; the share right and the loss in nats a
    word, each with its 95 % interval over documents; and the difference of the shares from the
    first reader, on the same blanks. "word frequencies" always guesses the word of these blanks
    that is most frequent in the training text.

    Raises
    ------
    CheckpointError, ValueError
        See `Reader`; or there are no blanks.

    """
    if not blanks:
        raise ValueError("no blanks: the held-out text is too small")
    asked = {
        name: answer_blanks(Reader(model, unigram), blanks, name if progress else None)
        for name, model in readers.items()
    }
    shares = unigram.log_share.numpy()
    always = max(sorted({b.word for b in blanks}), key=shares.__getitem__)
    asked["word frequencies"] = (
        np.array([-shares[b.word] for b in blanks], dtype=float),
        np.array([float(b.word == always) for b in blanks]),
    )
    first = next(iter(readers))
    rows: list[dict[str, object]] = []
    for kind in ("left", "right"):
        mine = np.array([b.kind == kind for b in blanks])
        documents = np.array([b.document for b in blanks])[mine]
        _, sources = np.unique(documents, return_inverse=True)
        draws = [examples for examples, _ in resample(sources, 1)]
        for name, (loss, right) in asked.items():
            row: dict[str, object] = {
                "reader": name,
                "model": readers.get(name, ""),
                "telling_word": kind,
                "blanks": int(mine.sum()),
                "documents": len(np.unique(sources)),
            }
            row |= _columns("accuracy", right[mine], draws)
            row |= _columns("loss", loss[mine], draws)
            if name != first:
                gap = right[mine] - asked[first][1][mine]
                row |= _columns("minus_first", gap, draws)
                row["verdict"] = verdict(*interval([float(gap[d].mean()) for d in draws]))
            rows.append(row)
    return rows


def _columns(name: str, values: Floats, draws: Sequence[Ids]) -> dict[str, object]:
    low, high = interval([float(values[d].mean()) for d in draws])
    return {
        name: round(float(values.mean()), 4),
        f"{name}_low": round(low, 4),
        f"{name}_high": round(high, 4),
    }
