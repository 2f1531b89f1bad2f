"""What can be read out of heads and layers: relations, a linear probe with its control, a lens.

A score means little alone. Each comes with what it has to beat: a head with the best fixed offset,
a probe with a look-up and a control task (Hewitt and Liang, 2019), a layer with the one below it.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.objective import sum_by_pair
from bertedu.text.corpus import Document
from bertedu.text.tokenization import MASK_ID

Pairs = list[tuple[int, list[int]]]  # a query, and the keys that are right
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
    capital: dict[int, bool]  # place of a first piece -> did the word begin with a capital?


def read_texts(tokenizer: Tokenizer, documents: Sequence[Document], length: int = 64) -> list[Text]:
    """Take the beginnings of documents, whole sentences, each at most ``length`` word pieces.

    What the model sees has no capitals. `Text.capital` keeps what they were, except at the start of
    a sentence, where every word has one.
    """
    cutting = Tokenizer.from_str(tokenizer.to_str())  # a copy: the given one stays as it is
    cutting.enable_truncation(length)
    texts = []
    for document in documents:
        line, *more = document.sentences() or [""]
        starts = {0, *accumulate(len(sentence) + 1 for sentence in (line, *more))}
        for sentence in more:
            longer = f"{line} {sentence}"
            if cutting.encode(longer).overflowing:
                break
            line = longer
        encoding = cutting.encode(line)
        ids, tokens, words = torch.tensor(encoding.ids), encoding.tokens, encoding.word_ids
        capital = {
            position: line[begin].isupper()
            for position, (begin, _) in enumerate(encoding.offsets)
            if words[position] is not None and begin not in starts and line[begin].isalpha()
            if not tokens[position].startswith("##")
        }
        texts.append(Text(document.title, ids, tokens, words, capital))
    return texts


# -- relations


def relations_in(text: Text) -> dict[str, Pairs]:
    """Find the queries of each of `RELATIONS` in a text, each with the keys that are right.

    - "previous word": from a word's first piece to any piece of the word before.
    - "title again": from a later mention of a word of the title to an earlier one.
    - "determiner → noun": from a, an, the to the last word before the noun phrase ends, and back.
    """
    pieces: dict[int, list[int]] = defaultdict(list)
    for position, word in enumerate(text.words):
        if word is not None:
            pieces[word].append(position)
    order = list(pieces.values())
    names = ["".join(text.tokens[p].removeprefix("##") for p in positions) for positions in order]
    title = {word for word in text.title.lower().split() if len(word) > 3}
    seen: dict[str, list[int]] = defaultdict(list)
    pairs: dict[str, Pairs] = {relation: [] for relation in RELATIONS}
    pairs["previous word"] = [(after[0], before) for before, after in pairwise(order)]
    for i, (name, positions) in enumerate(zip(names, order, strict=True)):
        if name in title:
            if name in seen:
                pairs["title again"].append((positions[0], list(seen[name])))
            seen[name] += positions
        if name in ("a", "an", "the"):
            end = next((j for j in range(i + 1, len(names)) if names[j] in ENDS), i)
            if 2 <= end - i <= 4:  # one to three words
                noun = order[end - 1]
                pairs["determiner → noun"].append((positions[0], noun))
                pairs["noun → determiner"].append((noun[0], positions))
    return pairs


def hits_of_heads(weights: Tensor, pairs: Pairs) -> Tensor:
    """Count for each head how often its strongest other word is right: (…, S, S) -> (…).

    `[CLS]`, `[SEP]` and the query itself cannot be chosen: many heads rest there. Nor can a word
    of weight 0, which a one-way model does not see.
    """
    free = weights.cpu().clone()
    free[..., 0] = free[..., -1] = -1
    free.diagonal(dim1=-2, dim2=-1).fill_(-1)
    strongest, best = free.max(dim=-1)  # (…, S)
    hits = torch.zeros(best.shape[:-1])
    for query, right in pairs:
        hits += torch.isin(best[..., query], torch.tensor(right)) & (strongest[..., query] > 0)
    return hits


def hits_of_offsets(pairs: Pairs) -> Tensor:
    """Count how often a key at a fixed distance is right, for each of `OFFSETS`."""
    return torch.tensor([float(sum(q + one in right for q, right in pairs)) for one in OFFSETS])


# -- a linear probe, and its control


def control_label(token: str, share: float) -> bool:
    """Give a word type a label that means nothing, the same wherever it stands."""
    number = int.from_bytes(hashlib.sha256(token.encode()).digest()[:8], "big")
    return number / 2**64 < share


def probe(
    states: Sequence[Tensor], texts: Sequence[Text], train: int
) -> dict[str, tuple[Tensor, Tensor]]:
    """Train a linear probe on one layer: did this word have a capital? The model never saw it.

    ``states`` are (S, H) for each text; the first ``train`` texts are learned from. Besides the
    "probe": the "control" task, with labels drawn once for each word type, and two that see no
    states: "look-up", the usual answer for the word, and "majority". "…, both ways" count only
    words that the first texts write both ways, the rarer one in a fifth of the cases or more.
    Returns for each how many words of each other text it gets right, and of how many, (texts,).
    """
    from sklearn.linear_model import LogisticRegression

    pairs = list(zip(states, texts, strict=True))
    rows = np.concatenate([state[list(text.capital)].numpy() for state, text in pairs])
    tokens = np.array([text.tokens[position] for text in texts for position in text.capital])
    labels = np.array([capital for text in texts for capital in text.capital.values()])
    numbers = np.repeat(range(len(texts)), [len(text.capital) for text in texts])
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
    asked = tokens[~known].tolist()
    said = [usual[t].most_common(1)[0][0] if t in usual else majority for t in asked]
    right |= {"look-up": said == labels[~known], "majority": majority == labels[~known]}
    mixed = np.array(
        [5 * min(usual[t][True], usual[t][False]) >= usual[t].total() > 0 for t in asked]
    )
    every = {name: (each, np.ones_like(mixed)) for name, each in right.items()}
    every |= {f"{name}, both ways": (right[name], mixed) for name in ("probe", "look-up")}
    count = partial(np.bincount, numbers[~known] - train, minlength=len(texts) - train)
    return {
        name: (torch.tensor(count(each & some)), torch.tensor(count(some)))
        for name, (each, some) in every.items()
    }


# -- the logit lens


@torch.no_grad()
def lens(model: BertForPreTraining, batch: Batch) -> Tensor:
    """Let the word head read every layer, not only the last: (L + 1, B, 3), as `sum_by_pair`.

    A blank is a `[MASK]`: a selected word that was left as it is could be copied. For a one-way
    model, the "blank" is each next word.
    """
    states = model.bert(batch.ids, batch.segment_ids, batch.padding_mask).hidden_states
    blank = batch.selected
    if model.config.direction == "bidirectional":
        blank = blank & (batch.ids == MASK_ID)
    asked = replace(batch, selected=blank, labels=batch.labels[blank[batch.selected]])
    normed = [*map(model.bert.encoder.final_norm, states[:-1]), states[-1]]  # the last has it
    return torch.stack([sum_by_pair(asked, model.mlm(state[blank])) for state in normed])
