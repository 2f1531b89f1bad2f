"""What can be read out of heads and layers: relations, a linear probe with its control, a lens.

A score means little by itself. Each comes with what it has to beat: a head with the best fixed
offset, a probe with a look-up of the word and with a control task (Hewitt and Liang, 2019), a layer
with the layer below it.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from tokenizers import Encoding, Tokenizer
from torch import Tensor
from torch.nn.functional import cross_entropy

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.pretraining.batches import Batch
from bertedu.results.bootstrap import Floats
from bertedu.text.corpus import Document
from bertedu.text.tokenization import MASK_ID

OFFSETS = tuple(offset for offset in range(-8, 9) if offset)
# a noun phrase ends before one of these
ENDS = frozenset(
    ". , ; : ( ) of in and is was were are that which by to for with on at from or as who".split()
)
RELATIONS = ("previous word", "title again", "determiner → noun", "noun → determiner")


@dataclass(frozen=True)
class Text:
    """One document of the study: its word pieces, and which word each belongs to."""

    title: str
    ids: Tensor  # (S,)
    tokens: list[str]
    words: list[int | None]  # None at [CLS] and [SEP]
    capital: list[bool | None]  # per piece: did the word begin with a capital? None: not asked


def read_texts(
    tokenizer: Tokenizer, documents: Sequence[Document], count: int, length: int = 64
) -> list[Text]:
    """Take the beginnings of the first ``count`` documents, each at most ``length`` word pieces.

    What the model sees has no capitals. `Text.capital` keeps what they were, except at the start of
    a sentence, where every word has one.
    """
    texts = []
    for document in documents[:count]:
        sentences, line = document.sentences(), ""
        for sentence in sentences:
            longer = f"{line} {sentence}".strip()
            if line and len(tokenizer.encode(longer).ids) > length:
                break
            line = longer
        encoding = tokenizer.encode(line)
        keep = min(length - 1, len(encoding.ids) - 1)
        ids = torch.tensor([*encoding.ids[:keep], encoding.ids[-1]])
        tokens = [*encoding.tokens[:keep], encoding.tokens[-1]]
        words = [*encoding.word_ids[:keep], None]
        capital = _capitals(encoding, line, sentences)[:keep] + [None]
        texts.append(Text(document.title, ids, tokens, words, capital))
    return texts


def _capitals(encoding: Encoding, line: str, sentences: Sequence[str]) -> list[bool | None]:
    starts = {0, *accumulate(len(sentence) + 1 for sentence in sentences)}
    capitals: list[bool | None] = []
    pieces = zip(encoding.offsets, encoding.word_ids, encoding.tokens, strict=True)
    for (begin, _), word, token in pieces:
        asked = word is not None and begin not in starts and not token.startswith("##")
        letter = line[begin : begin + 1]
        capitals.append(letter.isupper() if asked and letter.isalpha() else None)
    return capitals


# -- relations


def pairs_of(text: Text, relation: str) -> list[tuple[int, list[int]]]:
    """Find the queries of a relation in a text, each with the keys that are right.

    - "previous word": from a word's first piece to any piece of the word before.
    - "title again": from a later mention of a word of the title to an earlier one.
    - "determiner → noun": from a, an, the to the last word before the noun phrase ends, and back.

    Raises ValueError if there is no such relation.
    """
    if relation not in RELATIONS:
        raise ValueError(f"no relation {relation!r}: choose one of {', '.join(RELATIONS)}")
    pieces: dict[int, list[int]] = defaultdict(list)
    for place, word in enumerate(text.words):
        if word is not None:
            pieces[word].append(place)
    order = [pieces[word] for word in sorted(pieces)]
    names = ["".join(text.tokens[p].removeprefix("##") for p in places) for places in order]
    if relation == "previous word":
        return [(after[0], before) for before, after in pairwise(order)]
    pairs = []
    if relation == "title again":
        title = {word for word in text.title.lower().split() if len(word) > 3}
        seen: dict[str, list[int]] = defaultdict(list)
        for name, places in zip(names, order, strict=True):
            if name in title:
                if name in seen:
                    pairs.append((places[0], list(seen[name])))
                seen[name] += places
        return pairs
    for i, name in enumerate(names):
        if name in ("a", "an", "the"):
            end = next((j for j in range(i + 1, len(names)) if names[j] in ENDS), i)
            if 2 <= end - i <= 4:  # one to three words
                query, key = order[i], order[end - 1]
                if relation == "noun → determiner":
                    query, key = key, query
                pairs.append((query[0], key))
    return pairs


def hits_of_heads(weights: Tensor, pairs: Sequence[tuple[int, list[int]]]) -> Tensor:
    """Count for each head how often its strongest other word is right: (…, S, S) -> (…).

    `[CLS]`, `[SEP]` and the query itself cannot be chosen: many heads rest there. Nor can a word
    of weight 0, which a one-way model does not see.
    """
    free = weights.clone()
    free[..., 0] = free[..., -1] = -1
    free.diagonal(dim1=-2, dim2=-1).fill_(-1)
    strongest, best = free.max(dim=-1)  # (…, S)
    hits = torch.zeros(best.shape[:-1])
    for query, right in pairs:
        hits += torch.isin(best[..., query], torch.tensor(right)) & (strongest[..., query] > 0)
    return hits


def hits_of_offsets(pairs: Sequence[tuple[int, list[int]]]) -> Tensor:
    """Count how often a key at a fixed distance is right, for each of `OFFSETS`."""
    return torch.tensor(
        [float(sum(query + offset in right for query, right in pairs)) for offset in OFFSETS]
    )


# -- a linear probe, and its control


@torch.no_grad()
def states_of(bert: Bert, text: Text) -> Tensor:
    """Return every layer's states of a text, the input embedding first: (L + 1, S, H)."""
    return torch.stack([state[0] for state in bert(text.ids[None]).hidden_states])


def control_label(token: str, share: float) -> bool:
    """Give a word type a label that means nothing, the same wherever it stands."""
    number = int.from_bytes(hashlib.sha256(token.encode()).digest()[:8], "big")
    return number / 2**64 < share


def probe(
    states: Sequence[Tensor], texts: Sequence[Text], train: int
) -> dict[str, tuple[Tensor, Tensor]]:
    """Train a linear probe on one layer: did this word have a capital? The model never saw it.

    ``states`` are (S, H) for each text; the first ``train`` texts are learned from. Besides the
    probe: the control task, with labels drawn once for each word type, and two that see no states:
    "look-up", the usual answer for the word, and "majority".

    Returns for each how many words of each other text it gets right, and how many it is asked,
    both (texts,).
    """
    places = [[i for i, c in enumerate(text.capital) if c is not None] for text in texts]
    rows = np.concatenate([s[p].numpy() for s, p in zip(states, places, strict=True)])
    words = [
        (number, text.tokens[i], bool(text.capital[i]))
        for number, (text, p) in enumerate(zip(texts, places, strict=True))
        for i in p
    ]
    numbers, tokens, labels = (np.array(column) for column in zip(*words, strict=True))
    known = numbers < train
    share = float(labels[known].mean())
    drawn = np.array([control_label(token, share) for token in tokens])
    rows = (rows - rows[known].mean(0)) / (rows[known].std(0) + 1e-6)
    right = {}
    for name, target in (("probe", labels), ("control", drawn)):
        learner = LogisticRegression(max_iter=300, C=0.1).fit(rows[known], target[known])
        right[name] = learner.predict(rows[~known]) == target[~known]
    usual: dict[str, Counter[bool]] = defaultdict(Counter)
    for token, label in zip(tokens[known], labels[known].tolist(), strict=True):
        usual[token][label] += 1
    majority = share > 0.5
    said = [usual[t].most_common(1)[0][0] if t in usual else majority for t in tokens[~known]]
    right |= {"look-up": said == labels[~known], "majority": majority == labels[~known]}
    others = numbers[~known] - train

    def count(weights: Floats | None = None) -> Tensor:
        return torch.from_numpy(np.bincount(others, weights, len(texts) - train)).float()

    return {name: (count(each), count()) for name, each in right.items()}


# -- the logit lens


@torch.no_grad()
def lens(model: BertForPreTraining, batch: Batch) -> Tensor:
    """Let the word head read every layer, not only the last: (B, L + 1, 3).

    For each sequence and layer: number of blanks, sum of their losses, number right. A blank is a
    `[MASK]`: a selected word that was left as it is could be copied. For a one-way model, the
    "blank" is each next word.
    """
    states = model.bert(batch.ids, batch.segment_ids, batch.padding_mask).hidden_states
    blank = batch.selected
    if model.config.direction == "bidirectional":
        blank = blank & (batch.ids == MASK_ID)
    labels = batch.labels[blank[batch.selected]]
    row = blank.nonzero()[:, 0]
    sums = torch.zeros(len(states), len(batch.ids), 3)
    for layer, state in enumerate(states):
        if layer < len(states) - 1:  # the last has it already
            state = model.bert.encoder.final_norm(state)
        scores = model.mlm(state[blank]).float()
        loss = cross_entropy(scores, labels, reduction="none")
        right = (scores.argmax(-1) == labels).float()
        sums[layer].index_add_(0, row, torch.stack([torch.ones_like(loss), loss, right], dim=1))
    return sums.transpose(0, 1)
