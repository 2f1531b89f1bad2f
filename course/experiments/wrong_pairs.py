"""What does a next-sentence model go by? Ask it about wrong pairs of different kinds.

In training a wrong pair comes from two documents, and two documents differ in topic: whoever sees
that B speaks of something else is done, and need not know what order is. So here the same real
pairs are spoiled in ways from easy to hard, down to A and B exchanged, where every word is right.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.pretraining.batches import pack_pairs
from bertedu.pretraining.next_sentence import IS_NEXT, NOT_NEXT, Pair, encode_documents
from bertedu.text.corpus import DEFAULT_CORPORA, Document, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from course.results.bootstrap import drawn_means, estimate
from course.results.columns import estimate_columns, ratio_columns
from course.results.origin import origin

# how the wrong B is chosen; "other document" is what pre-training does, openings included
KINDS = ("other source", "an opening", "other document", "same topic", "same document", "swapped")
Scores = dict[str, Tensor]  # (N,) of the real pairs, and of each kind
LENGTH, BATCH = 128, 32
_HALF = (LENGTH - 3) // 2  # ids; a longer sentence would have to be cut, and cuts tell who is A


def spoil_pairs(
    documents: Sequence[Document], tokenizer: Any
) -> tuple[dict[str, list[Pair]], Tensor]:
    """Make pairs of one sentence each, not too long, from documents that have a topic.

    Returns N "real" pairs, and for each of `KINDS` N wrong ones with the same A (with A as B, if
    swapped); and (N,) the number of the document of each. No sentence is the first of its document,
    which says what it is about, except in the kind "an opening". Raises ValueError if no document
    has a topic and four sentences, or there is no second source, or no second of some topic.
    """
    rng = np.random.default_rng([2018])
    encoded = [document.sentences for document in encode_documents(documents, tokenizer)]
    with_topic = [i for i, d in enumerate(documents) if d.topic not in (None, "Uncategorized")]
    usable = [i for i in with_topic if len(encoded[i]) >= 4]
    if not usable:
        raise ValueError("no document has a topic and four sentences: use the encyclopedia")

    def draw(candidates: list[int], opening: bool = False) -> list[int]:
        if not candidates:
            raise ValueError("some document has no other of its topic, or there is one source only")
        sentences = encoded[candidates[int(rng.integers(len(candidates)))]]
        return sentences[0 if opening else int(rng.integers(1, len(sentences)))]

    number: list[int] = []
    pairs: dict[str, list[Pair]] = {kind: [] for kind in ("real", *KINDS)}
    for i in usable:
        here, sentences = documents[i], encoded[i]
        others = [j for j in usable if j != i]
        topic = [j for j in others if documents[j].topic == here.topic]
        foreign = [j for j, other in enumerate(documents) if other.source != here.source]
        foreign = [j for j in foreign if len(encoded[j]) >= 2]
        for t in range(1, len(sentences) - 1):
            a, b = sentences[t], sentences[t + 1]
            if max(len(a), len(b)) > _HALF:
                continue
            later = [s for k, s in enumerate(sentences) if k not in (0, t, t + 1)]
            chosen = {
                "other source": draw(foreign),
                "an opening": draw(others, opening=True),
                "other document": draw(others),
                "same topic": draw(topic),
                "same document": later[int(rng.integers(len(later)))],
            }
            pairs["real"].append(Pair(a, b, IS_NEXT))
            for kind, other in chosen.items():
                pairs[kind].append(Pair(a, other[:_HALF], NOT_NEXT))
            pairs["swapped"].append(Pair(b, a, NOT_NEXT))
            number.append(i)
    return pairs, torch.tensor(number)


@torch.inference_mode()
def chance_of_next(model: BertForPreTraining, pairs: Sequence[Pair]) -> Tensor:
    """(N,) probability that B follows A, as the model says."""
    model.eval()
    parts = (pairs[start : start + BATCH] for start in range(0, len(pairs), BATCH))
    return torch.cat([ask(model, part)[0].softmax(-1)[:, IS_NEXT] for part in parts])


def ask(model: BertForPreTraining, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor]:
    """Return the scores of pairs, (N, 2), and their labels, (N,)."""
    packed = pack_pairs(pairs, LENGTH)
    width = packed.sizes.max()
    tables = (packed.ids[:, :width], packed.segments[:, :width])
    ids, segments = (torch.from_numpy(table).long() for table in tables)
    scores = model.nsp(model.bert(ids, segments, ids != 0).pooled)
    return scores, torch.from_numpy(packed.labels)


def word_overlap(pairs: Sequence[Pair], weigh: Any) -> Tensor:
    """(N,) cosine of A and B as a vectorizer's TF-IDF: the topic shortcut without a network."""
    a, b = weigh.transform([p.a for p in pairs]), weigh.transform([p.b for p in pairs])
    # rounded: the same words in another order must not win by the last bit
    return torch.from_numpy(np.asarray(a.multiply(b).sum(axis=1))[:, 0]).round(decimals=9)


def score_kinds(
    name: str, scores: Scores, document: Tensor, above: float | None, rival: Scores | None = None
) -> list[Row]:
    """Sum up a judge: how often it puts the real pair above the wrong one, by kind.

    ``scores`` are (N,) of the "real" pairs and of each kind, higher for "B follows A"; from
    ``above`` on, if any, it says IsNext. A row a kind: ``ranked_right`` (half a point for a
    tie; chance 0.5) and ``called_next`` (share called IsNext), with 95 % intervals that draw whole
    documents; with the scores of a ``rival``, too, how far it is ahead of a coin and of that.
    """
    _, document, counts = torch.unique(document, return_inverse=True, return_counts=True)

    def ranked(judge: Scores, kind: str) -> Tensor:
        return (judge["real"] > judge[kind]) + 0.5 * (judge["real"] == judge[kind])

    def share(column: str, hits: Tensor) -> Row:
        return ratio_columns(column, torch.bincount(document, hits.double()), counts)

    rows = []
    for kind, some in scores.items():
        row: Row = {"judge": name, "kind": kind, "pairs": len(some)}
        if kind != "real":
            right = ranked(scores, kind)
            row |= share("ranked_right", right)
            theirs: dict[str, Any] = {"coin": 0.5, "rival": ranked(rival, kind)} if rival else {}
            for than, other in theirs.items():
                ahead = drawn_means((right - other).double().numpy(), document.numpy())
                row |= estimate_columns(f"ahead_of_{than}", estimate(ahead))
        if above is not None:
            row |= share("called_next", some >= above)
        rows.append(row)
    return rows


def judge_pairs(model: BertForPreTraining, name: str) -> list[Row]:
    """Judge the spoiled pairs of the test documents by a model and by word overlap.

    Raises `bertedu.text.sources.SourceError` if the corpora cannot be fetched.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = [d for corpus in DEFAULT_CORPORA for d in load_documents(corpus)]
    tokenizer = load_tokenizer()
    pairs, document = spoil_pairs([d for d in documents if d.split == "test"], tokenizer)
    training = encode_documents([d for d in documents if d.split == "train"], tokenizer)
    bags = [[i for sentence in d.sentences for i in sentence] for d in training]
    weigh = TfidfVectorizer(analyzer=lambda ids: ids, sublinear_tf=True).fit(bags)
    about = {"split": "test", "commit": origin()["commit"]}
    kinds = tqdm(pairs.items(), desc=f"pairs: {name}")
    chances = {kind: chance_of_next(model, some) for kind, some in kinds}
    overlaps = {kind: word_overlap(some, weigh) for kind, some in pairs.items()}
    rows = score_kinds(name, chances, document, 0.5, overlaps)
    rows += score_kinds("word overlap", overlaps, document, None)
    return [row | about for row in rows]
