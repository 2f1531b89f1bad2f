"""ERNIE 2.0 on real text: whole titles hidden, and "was this word capitalized?" as a second task.

``python -m course.experiments.names`` adds to `data/results/names.csv` what it lacks; half an hour
of one core. A model is trained further on its own training articles, then fine-tuned on `entities`:
how many names does it find that no training sentence has marked?
"""

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate, product
from pathlib import Path

import numpy as np
import torch
from tokenizers import Encoding
from torch import Tensor
from torch.nn import functional as F

from bertedu.files import Row
from bertedu.finetuning.collation import MAX_LENGTH, NO_TARGET
from bertedu.finetuning.tagging import Tagging, known_spans
from bertedu.finetuning.training import TaskModel, finetune, score_items
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import find_checkpoint, load_checkpoint
from bertedu.model.features import BertFeatures
from bertedu.model.heads import TaggingHead
from bertedu.model.inference import evaluating
from bertedu.model.variants.ernie import mask_phrases
from bertedu.pretraining.objective import word_loss
from bertedu.text.corpus import Document, by_split, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID
from course.experiments.fitting import train
from course.experiments.tag_placement import FEW, RECIPE, count_by_group
from course.experiments.tasks import load_task
from course.experiments.toy_readers import RATE, drawn
from course.results.study import Run, study

MODEL, STEPS, PEAK, LENGTH, TUNINGS = "bert-L2H128", 1200, 5e-4, 64, 3
ARMS = ("not trained further", "single words", "whole titles", "+ capitals")
UNTRAINED, SINGLE, WHOLE, CAPITALS = ARMS
MEASURES = {"F1": ("", "f1"), "known names": ("seen", "recall"), "new names": ("unseen", "recall")}
TOKENIZER = load_tokenizer()


def capitals(encoding: Encoding, text: str, starts: Sequence[int]) -> list[int]:
    """Return 1 or 0 for each piece that begins a word with a capital or without, else `NO_TARGET`.

    Nor is the first word after each of ``starts`` asked: there a sentence begins. Raises ValueError
    if the pieces are not those of the text.
    """
    word, asked = re.compile(r"\w"), []
    heads = {found.start() for start in starts if (found := word.search(text, start))}
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        there = TOKENIZER.normalizer.normalize_str(text[start:end]).strip()
        if token not in ("[UNK]", there, "##" + there):
            raise ValueError(f"at {start} stands {text[start:end]!r}, and not the piece {token!r}")
        ask = text[start].isalpha() and not token.startswith("##") and start not in heads
        asked.append(int(text[start].isupper()) if ask else NO_TARGET)
    return asked


def phrases(encoding: Encoding, titles: set[tuple[str, ...]]) -> list[int]:
    """Return for each piece the place where its title begins, or else its word."""
    tokens, longest = tuple(encoding.tokens), max(map(len, titles), default=0)
    first = [*range(len(tokens))]
    for start, end in known_spans(tokens, titles, longest):
        first[start:end] = [start] * (end - start)
    for place, token in enumerate(tokens):
        first[place] = first[place - 1] if token.startswith("##") else first[place]
    return first


def windows(documents: Sequence[Document], titles: set[tuple[str, ...]]) -> Tensor:
    """Cut documents into rows of `LENGTH` pieces: (3, N, S) of ids, phrases' starts, capitals."""
    rows, size = [], LENGTH - 2
    for document in documents:
        sentences = document.sentences()
        starts = [*accumulate((len(s) + 1 for s in sentences[:-1]), initial=0)]
        encoding = TOKENIZER.encode(text := " ".join(sentences), add_special_tokens=False)
        first, asked = phrases(encoding, titles), capitals(encoding, text, starts)
        for at in range(0, len(first), size):
            ids = [CLS_ID, *encoding.ids[at : at + size], SEP_ID]
            begins = [0, *(max(place - at, 0) + 1 for place in first[at : at + size]), 0]
            capital = [NO_TARGET, *asked[at : at + size], NO_TARGET]
            columns = ((ids, PAD_ID), (begins, 0), (capital, NO_TARGET))
            rows.append([some + [fill] * (LENGTH - len(ids)) for some, fill in columns])
    return torch.tensor(rows).transpose(0, 1)


@cache
def read(split: str) -> Tensor:
    """Return the articles of a split, and in them the titles of training articles."""
    articles = by_split(load_documents("encyclopedia"))
    names = [article.title for article in articles["train"] if " " in article.title]
    titles = {tuple(TOKENIZER.encode(name, add_special_tokens=False).tokens) for name in names}
    return windows(articles[split], titles)


def hide(rows: Tensor, arm: str, dice: torch.Generator) -> tuple[Tensor, Tensor]:
    """Hide pieces of rows (3, N, S), or whole titles and words, as `mask_phrases` does."""
    ids, first, _ = rows
    return mask_phrases(ids, first if arm == WHOLE else ids * 0 + torch.arange(LENGTH), dice, RATE)


def loss_of(model: BertForPreTraining, text: Tensor, arm: str, dice: torch.Generator) -> Tensor:
    """Mean nats of the hidden pieces of drawn rows; of capitals, of all words asked, too."""
    rows = text[:, drawn(torch.arange(text.shape[1]), dice)]
    (ids, _, capital), (hidden, selected) = rows, hide(rows, arm, dice)
    states = model.bert(hidden, padding_mask=ids != PAD_ID).last
    words = model.mlm.before_decoder(states[selected])
    nats = word_loss(words, model.decoder, ids[selected])[0]
    asked = F.cross_entropy(model.nsp(states).mT, capital, ignore_index=NO_TARGET)
    return nats + asked if arm == CAPITALS else nats


def capital_accuracy(model: BertForPreTraining, text: Tensor) -> dict[str, float]:
    """Return the share of capitals told right, and that of always saying that there is none."""
    hidden, selected = hide(text, CAPITALS, torch.Generator().manual_seed(0))
    with evaluating(model):
        states = model.bert(hidden, padding_mask=text[0] != PAD_ID).last
        right, asked = model.nsp(states).argmax(-1) == text[2], text[2] != NO_TARGET
    shares = {"visible": right[asked & ~selected], "hidden": right[asked & selected]}
    shares |= {"always lower case": text[2][asked] == 0}
    return {f"capitals, {name}": some.double().mean().item() for name, some in shares.items()}


def tagged(bert: Bert, seed: int) -> dict[str, float]:
    """Fine-tune a copy on `entities`, and score it on test."""
    task, splits = load_task("entities")
    splits |= {"train": splits["train"][:FEW]}
    kind, recipe = Tagging(task.labels), replace(RECIPE, seed=seed)
    items = {name: kind.encode(some, TOKENIZER, MAX_LENGTH) for name, some in splits.items()}
    torch.manual_seed(seed)
    model = TaskModel(BertFeatures(copy.deepcopy(bert)), kind)
    finetune(model, items["train"], splits["dev"], items["dev"], task.metric, recipe)
    answers = kind.answers(splits["test"], items["test"], score_items(model, items["test"]))
    counts = count_by_group(splits, {tag[2:] for tag in task.labels[1:]}, answers)
    return {
        name: kind.metrics(np.sum([n for of, n in counts.items() if of.startswith(met)], 0))[by]
        for name, (met, by) in MEASURES.items()
    }


def run(arm: str, seed: int) -> Iterator[Row]:
    """Train one arm further, and score it; a row for each measure."""
    model = load_checkpoint(find_checkpoint(MODEL))
    torch.manual_seed(seed)
    model.nsp = TaggingHead(model.config.hidden_size, 2)  # no pairs are asked here, but capitals
    if arm != UNTRAINED:
        train(model, partial(loss_of, model, read("train"), arm), seed, STEPS, PEAK)
    tuned = [tagged(model.bert, TUNINGS * seed + number) for number in range(TUNINGS)]
    values = {name: float(np.mean([scores[name] for scores in tuned])) for name in MEASURES}
    values |= capital_accuracy(model, read("dev")) if arm == CAPITALS else {}
    yield from ({"measure": name, "value": round(value, 5)} for name, value in values.items())


PLAN: list[Run] = [
    ({"arm": arm, "seed": seed}, partial(run, arm, seed)) for seed, arm in product(range(3), ARMS)
]

if __name__ == "__main__":
    study(Path("data/results/names.csv"), PLAN)
