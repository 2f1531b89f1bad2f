"""Can BERT write? And what does a one-way model know of tasks that nobody taught it?

Small models of both directions learn the toy language, five seeds each, and write; the language
tells exactly which texts are sentences. BERT is given the lengths of true ones. And ltr-L4H128,
nothing fine-tuned, chooses among the endings of `next`, and names a `topic` after 0, 1 and 4
examples in its prompt. ``python -m course.experiments.writing`` adds to `writing.csv` and
`zero_shot.csv` what they lack, a quarter of an hour in all.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bertedu.files import Row
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_named
from bertedu.model.inference import evaluating
from bertedu.model.variants import generation as g
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID
from course.experiments.tasks import TOPICS, load_task
from course.experiments.toy import BATCH, train_toy
from course.experiments.toy_readers import FIRST, LANGUAGE
from course.results.bootstrap import Floats, draw_texts, interval
from course.results.columns import with_interval
from course.results.study import grid, study

STEPS, TEXTS, LONGEST = 1500, 500, 10
TRUE, LTR, APPENDED = "the language itself", "left to right", "BERT, [MASK] appended"
FILLED = {1: "BERT, each place once", 4: "BERT, 4 rounds", 16: "BERT, 16 rounds"}
WAYS, SHARED = ("whole", "per token", "beyond alone"), "shared words"  # to choose an ending
SHOTS, PIECES, ASKED = (0, 1, 4), 18, 300  # of `topic`: short, as the model has read 128 tokens
ENDS = ("", "_low", "_high")
Asked = tuple[str, Sequence[str], int, str]  # prompt, endings, the right one, source


def write_texts(
    gpt: BertForPreTraining, bert: BertForPreTraining, lengths: Sequence[int], seed: int
) -> Iterator[tuple[str, Tensor]]:
    """Write as many texts as there are lengths in each way: its name, and their ids."""
    rng = torch.Generator().manual_seed(seed)
    begin = torch.full((len(lengths), 1), CLS_ID)
    for name, heat, top_k in ((LTR, 1, None), ("cooler, T = 0.5", 0.5, None), ("greedy", 1, 1)):
        yield name, g.generate(gpt, begin, LONGEST, heat, top_k, rng)
    texts = g.append_masks(bert, begin, LONGEST, rng)
    yield APPENDED, pad_sequence([t[: n + 1] for t, n in zip(texts, lengths, strict=True)], True)
    blank = pad_sequence([torch.tensor([CLS_ID, *[MASK_ID] * n, SEP_ID]) for n in lengths], True)
    for rounds, name in FILLED.items():
        yield name, g.fill_and_resample(bert, blank, rounds, generator=rng)


def texts_of(ids: Tensor) -> list[list[str]]:
    """Read rows of ids as words of the toy language."""
    return [[LANGUAGE.words[i - FIRST] for i in row if i >= FIRST] for row in ids.tolist()]


def score_texts(texts: Sequence[Sequence[str]]) -> Row:
    """Share of texts that are toy sentences, mean log P of these, how many texts differ."""
    logs = [log for log in map(LANGUAGE.log_probability, texts) if log > -math.inf]
    row: Row = {"texts": len(texts), "sentences": round(len(logs) / len(texts), 4)}
    row["log_probability"] = round(float(np.mean(logs)), 3) if logs else ""
    return row | {"different": len(set(map(tuple, texts)))}


def write_all(seed: int) -> Iterator[Row]:
    """Train both directions, let them write, and score what they wrote."""
    *_, (_, gpt) = train_toy("left-to-right", seed, STEPS, ends=True)
    *_, (_, bert) = train_toy("bidirectional", seed, STEPS)
    true = LANGUAGE.sample(TEXTS, 20_000 + seed)  # a seed that no training run has
    lengths = [len(sentence) for sentence in true]
    tokens = STEPS * BATCH * (sum(lengths) / TEXTS + 2)
    work = 6 * tokens * sum(p.numel() for p in bert.bert.encoder.parameters())
    yield {"writer": TRUE, "seed": seed} | score_texts(true)
    for name, ids in write_texts(gpt, bert, lengths, seed):
        spent: Row = {"tokens": round(tokens), "operations": round(work)}
        yield {"writer": name, "seed": seed} | score_texts(texts_of(ids)) | spent


def score_endings(
    model: BertForPreTraining, tokenizer: Tokenizer, prompt: str, endings: Sequence[str]
) -> Tensor:
    """Return the log probability of K endings after a prompt: (2, K), whole and per token."""
    begin = tokenizer.encode(prompt).ids[:-1]  # without [SEP]
    pieces = [tokenizer.encode(ending, add_special_tokens=False).ids for ending in endings]
    ids = pad_sequence([torch.tensor(begin + some) for some in pieces], batch_first=True)
    asked = ids != PAD_ID  # padding is 0
    asked[:, : len(begin) - 1] = False  # from the last token of the prompt on
    with evaluating(model):
        scores, _ = model(ids, padding_mask=ids != PAD_ID, selected=asked)
    cut = zip(scores.split([len(some) + 1 for some in pieces]), pieces, strict=True)
    pairs = [(some, torch.tensor(begin[-1:] + ending)) for some, ending in cut]
    scored = [[g.ending_score(*pair, 1, per) for pair in pairs] for per in (False, True)]
    return torch.tensor(scored)


def choose_endings(asked: Sequence[Asked], alone: str) -> dict[str, Floats]:
    """Choose endings by their log probability: way -> 1.0 where that is right, (N,).

    ``alone`` is the prompt whose log probability the last of `WAYS` takes off (Brown et al. 2020,
    section 2.4). Shared words need no model: the share of an ending's words that the prompt has.
    """
    gpt, tokenizer = load_named("ltr-L4H128")
    assert isinstance(gpt, BertForPreTraining)
    right: dict[str, list[bool]] = {way: [] for way in (*WAYS, SHARED)}
    for prompt, endings, label, _ in asked:
        given = score_endings(gpt, tokenizer, prompt, endings)
        beyond = given[0] - score_endings(gpt, tokenizer, alone, endings)[0]
        said, *words = (set(tokenizer.encode(x).ids) for x in (prompt, *endings))
        shared = torch.tensor([len(some & said) / len(some) for some in words])
        for way, scores in zip(right, (*given, beyond, shared), strict=True):
            right[way].append(int(scores.argmax()) == label)
    return {way: np.array(hits, float) for way, hits in right.items()}


def ask_topic(shots: int) -> list[Asked]:
    """Return questions "sentence topic:" after ``shots`` examples of their form, drawn for each."""
    splits, (_, tokenizer) = load_task("topic")[1], load_named("ltr-L4H128")
    rng = np.random.default_rng(shots)
    asked: list[Asked] = []

    def line(text: str, topic: str = "") -> str:
        cut = tokenizer.decode(tokenizer.encode(text, add_special_tokens=False).ids[:PIECES])
        return f"{cut} topic: {topic}." if topic else f"{cut} topic:"

    for x in splits["test"][:ASKED]:
        shown = [splits["train"][i] for i in rng.integers(len(splits["train"]), size=shots)]
        lines = [line(one.text, TOPICS[int(one.label)]) for one in shown]
        asked.append((" ".join([*lines, line(x.text)]), TOPICS, int(x.label), x.source))
    return asked


def zero_shot(task: str) -> Iterator[Row]:
    """Return the share right of every way, and how much ``more`` that is than a reference.

    It is shared words for `next`, and no examples for `topic`. Intervals are over questions, whole
    articles drawn anew: they know of no other pre-training.
    """
    topic = task == "topic"
    endings = [(x.text, x.endings, x.label, x.source) for x in load_task("next")[1]["test"]]
    asked = {shots: ask_topic(shots) for shots in SHOTS} if topic else {0: endings}
    right = {k: choose_endings(some, "topic:" if topic else "") for k, some in asked.items()}
    draws = draw_texts(np.array([source for *_, source in asked[0]]))
    for shots, ways in right.items():
        for way, hits in ways.items():
            row: Row = {"task": task, "examples": shots, "way": way, "questions": len(hits)}
            less = right[0][way if topic else SHARED]
            for name, values in (("accuracy", hits), ("more", hits - less)):
                ends = interval([float(values[draw].mean()) for draw in draws])
                row |= with_interval(name, float(values.mean()), ends)
            yield row


WRITERS = grid(write_all, seed=range(5))
ASKED_TASKS = grid(zero_shot, task=("next", "topic"))

if __name__ == "__main__":
    study(writing=WRITERS, zero_shot=ASKED_TASKS)
