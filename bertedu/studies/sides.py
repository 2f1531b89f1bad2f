"""Where direction must matter: blanks whose word is given away by the words on one side only.

"The ___ barked all night": who stops at the blank has read "the". Such blanks are found by
counting, not by asking a model: beside a *telling* word, the hidden word is many times as frequent
as elsewhere in the training text. A blank is of the left kind if only its left has such a word,
of the right kind if only its right has. Both kinds hide the same words equally often.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.analysis.fill import score_blanks
from bertedu.model.bert import BertForPreTraining
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.loading import find_model
from bertedu.pretraining.counting import UnigramModel
from bertedu.pretraining.evaluation import PreTrainingModel
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.texts import load_splits
from bertedu.results.bootstrap import Floats, Ints, draw_texts, interval
from bertedu.results.files import Row
from bertedu.studies.columns import with_interval
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID, SPECIAL_TOKENS, UNK_ID

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


class CooccurrenceCounts:
    """How often each word piece stands up to `REACH` places before each other, in a sentence."""

    def __init__(self, documents: Sequence[EncodedDocument], vocab_size: int) -> None:
        """Count; some seconds for three million word pieces."""
        gap = [-1] * REACH
        text = np.array([i for d in documents for s in d.sentences for i in (*s, *gap)], np.int64)
        pairs = []
        for distance in range(1, REACH + 1):
            first, second = text[:-distance], text[distance:]
            real = (first >= 0) & (second >= 0)
            pairs.append(first[real] * vocab_size + second[real])
        self.pairs, self.counts = np.unique(np.concatenate(pairs), return_counts=True)
        self.total = int(self.counts.sum())
        self.vocab_size = vocab_size
        self.as_first = np.bincount(self.pairs // vocab_size, self.counts, vocab_size)
        self.as_second = np.bincount(self.pairs % vocab_size, self.counts, vocab_size)

    def lift(self, first: Ints, second: Ints) -> Floats:
        """How many times as often a pair occurs as by chance, (n,); 1 where it is too rare."""
        wanted = first * self.vocab_size + second
        at = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        count = np.where(self.pairs[at] == wanted, self.counts[at], 0)
        by_chance = self.as_first[first] * self.as_second[second] / self.total
        return np.where(count >= SEEN, count / np.maximum(by_chance, 1e-12), 1.0)


def find_blanks(
    documents: Sequence[EncodedDocument],
    counts: CooccurrenceCounts,
    vocabulary: Sequence[str],
    common: set[int],
    seed: int = 0,
) -> list[Blank]:
    """Return all blanks of the two kinds, as many of the left as of the right for every word.

    Hidden are whole words of one word piece and three letters or more, none of ``common``.
    """
    by_word: dict[int, dict[Kind, list[Blank]]] = defaultdict(lambda: {"left": [], "right": []})
    dice = np.random.default_rng(seed)
    for number, document in enumerate(documents):
        candidates = [
            Blank(tuple(sentence), place, number, kind)
            for sentence in document.sentences
            if SHORTEST <= len(sentence) <= LONGEST
            for place, word in enumerate(sentence)
            if word not in common and _whole(sentence, place, vocabulary)
            if (kind := _kind(np.array(sentence), place, counts))
        ]
        for i in dice.permutation(len(candidates))[:PER_DOCUMENT]:
            by_word[candidates[i].word][candidates[i].kind].append(candidates[i])
    chosen = []
    for _, kinds in sorted(by_word.items()):
        many = min(PER_WORD, *map(len, kinds.values()))
        for blanks in kinds.values():
            chosen += [blanks[i] for i in dice.permutation(len(blanks))[:many]]
    return chosen


def _whole(sentence: Sequence[int], place: int, vocabulary: Sequence[str]) -> bool:
    """Whether a word piece is a word: it does not go on, and is written in letters."""
    word = vocabulary[sentence[place]]
    goes_on = place + 1 < len(sentence) and vocabulary[sentence[place + 1]].startswith("##")
    return word.isalpha() and len(word) >= 3 and not goes_on


def _kind(sentence: Ints, place: int, counts: CooccurrenceCounts) -> Kind | None:
    left = sentence[max(0, place - REACH) : place]
    right = sentence[place + 1 : place + 1 + REACH]
    word = sentence[place]
    if word in left or word in right:  # it would tell of itself
        return None
    from_left = counts.lift(left, np.full_like(left, word)).max(initial=1.0)
    from_right = counts.lift(np.full_like(right, word), right).max(initial=1.0)
    if from_left >= TELLING and from_right < SILENT:
        return "left"
    if from_right >= TELLING and from_left < SILENT:
        return "right"
    return None


def held_out_blanks(split: str = "test") -> tuple[list[Blank], UnigramModel]:
    """Find the blanks of the default corpora's held-out documents; count words in the training.

    Raises ValueError if the split is not a held-out one, SourceError if the texts are not there,
    and cannot be fetched.
    """
    if split not in ("dev", "test"):
        raise ValueError(f"no held-out split {split!r}: choose dev or test")
    vocabulary = load_vocabulary()
    splits = load_splits(say=lambda _: None)
    unigram = UnigramModel(splits["train"], len(vocabulary))
    common = set(unigram.log_share.topk(COMMON).indices.tolist())
    counts = CooccurrenceCounts(splits["train"], len(vocabulary))
    return find_blanks(splits[split], counts, vocabulary, common), unigram


class Reader:
    """A model, one half of an ELMo, or a pair of one-way models whose answers are joined."""

    def __init__(self, name: str, unigram: UnigramModel) -> None:
        """Load by name: a checkpoint, two with a plus between them, or an ELMo and `:left`.

        Raises CheckpointError if there is no such checkpoint; ValueError if two do not read left
        to right and right to left, a half of no ELMo is asked for, or a model cannot name words.
        """
        name, _, half = name.partition(":")
        self.models: list[PreTrainingModel] = []
        for part in name.split("+"):
            model = find_model(part).model
            if not isinstance(model, BertForPreTraining | ElmoForPreTraining):
                raise ValueError(f"{part} is an encoder alone: it has no head that names words")
            self.models.append(model.eval())
        self.half: Any = half or "both"
        self.unigram = unigram
        ways = [getattr(model.config, "direction", "both") for model in self.models]
        if len(ways) > 1 and ways != ["left-to-right", "right-to-left"]:
            raise ValueError(f"{name}: join a left-to-right model and a right-to-left one")
        if half and (
            half not in ("left", "right") or not isinstance(self.models[0], ElmoForPreTraining)
        ):
            raise ValueError(f"{name}:{half}: only an ELMo has halves, left and right")

    @torch.inference_mode()
    def log_chances(self, ids: Tensor, blank: Tensor) -> Tensor:
        """Log probabilities (B, V) of the word at the one blank of each row; ids (B, S)."""
        answers = [score_blanks(model, ids, blank, UNK_ID, self.half) for model in self.models]
        scores = torch.stack(answers).sum(dim=0)
        if len(self.models) == 2:  # as the halves of an ELMo: both have counted the word's share
            scores = scores - self.unigram.log_share
        scores[:, : len(SPECIAL_TOKENS)] = -torch.inf
        return scores.log_softmax(-1)


def answer_blanks(reader: Reader, blanks: Sequence[Blank], name: str) -> tuple[Floats, Floats]:
    """Return the surprise in nats at each hidden word, (n,), and 1 where it was the first guess."""
    loss, right = np.zeros(len(blanks)), np.zeros(len(blanks))
    of_length: dict[int, list[int]] = defaultdict(list)
    for i, one in enumerate(blanks):
        of_length[len(one.sentence)].append(i)
    for group in tqdm(of_length.values(), desc=name):
        ids = torch.tensor([[CLS_ID, *blanks[i].sentence, SEP_ID] for i in group])
        blank = torch.zeros_like(ids, dtype=torch.bool)
        blank[range(len(group)), [blanks[i].place + 1 for i in group]] = True
        answers = ids[blank]
        log_chances = reader.log_chances(ids.masked_fill(blank, MASK_ID), blank)
        loss[group] = F.nll_loss(log_chances, answers, reduction="none").numpy()
        right[group] = (log_chances.argmax(-1) == answers).numpy()
    return loss, right


def compare_sides(
    readers: Mapping[str, str], blanks: Sequence[Blank], unigram: UnigramModel
) -> list[Row]:
    """Ask every reader about the blanks of both kinds; a row for each reader and kind.

    Share right, loss in nats a word, and the difference of the shares from the first reader's have
    95 % intervals over documents. "word frequencies" always guesses the word of these blanks that
    is most frequent in the training text. Raises ValueError if there are no blanks.
    """
    if not blanks:
        raise ValueError("no blanks: the held-out text is too small")
    asked = {
        name: answer_blanks(Reader(model, unigram), blanks, name) for name, model in readers.items()
    }
    shares = unigram.log_share.numpy()
    words = np.array([b.word for b in blanks])
    always = max(np.unique(words), key=shares.__getitem__)
    asked["word frequencies"] = -shares[words].astype(float), (words == always).astype(float)
    first = next(iter(readers))
    rows = []
    for kind in ("left", "right"):
        chosen = np.array([b.kind == kind for b in blanks])
        documents = np.array([b.document for b in blanks])[chosen]
        names, sources = np.unique(documents, return_inverse=True)
        draws = draw_texts(sources)
        for name, (loss, right) in asked.items():
            row: Row = {"reader": name, "model": readers.get(name, ""), "telling_word": kind}
            row |= {"blanks": len(sources), "documents": len(names)}
            columns = {"accuracy": right, "loss": loss}
            if name != first:
                columns["minus_first"] = right - asked[first][1]
            for column, values in columns.items():
                values = values[chosen]
                ends = interval([float(values[examples].mean()) for examples in draws])
                row |= with_interval(column, float(values.mean()), ends)
            rows.append(row)
    return rows
