"""Who writes, and who answers untaught: how both are scored."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from bertedu.finetuning.examples import Choice
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.variants.generation import ending_score
from bertedu.text.fast_tokenizer import load_tokenizer
from course.experiments import writing
from course.experiments.writing import score_endings, score_texts


def one_way() -> BertForPreTraining:
    torch.manual_seed(0)
    sizes = (8192, 16, 1, 2, 32, 128, 2, 0.0)
    config = BertConfig(*sizes, initializer_range=0.5, direction="left-to-right")
    return BertForPreTraining(config).eval()


def test_texts_are_scored_by_hand() -> None:
    dog, cat = ("the", "dog", "barked"), ("the", "dog", "purred")
    p = 1 / 6 * 0.6 * 0.5 * 0.8 * 0.7 * 0.4 * 0.2
    counts = {"texts": 4, "sentences": 0.5, "different": 3}
    assert score_texts([dog, cat, dog, ()]) == counts | {"log_probability": round(math.log(p), 3)}
    assert score_texts([cat])["log_probability"] == ""


def test_endings_of_a_batch_are_scored_as_each_alone() -> None:
    """The usual bugs: padding is scored, too, or the first token of the ending is not."""
    tokenizer, model = load_tokenizer(), one_way()
    endings = ("He slept.", "He went to the old city in the north.", "Yes")
    for prompt in ("The king waited.", ""):
        scores = score_endings(model, tokenizer, prompt, endings)
        begin = tokenizer.encode(prompt).ids[:-1]
        for place, ending in enumerate(endings):
            ids = torch.tensor(begin + tokenizer.encode(ending, add_special_tokens=False).ids)
            alone = model(ids[None])[0][0].detach()
            wanted = [float(ending_score(alone, ids, len(begin), per)) for per in (False, True)]
            assert scores[:, place].tolist() == pytest.approx(wanted, rel=1e-4)


def test_each_way_chooses_by_its_own_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt decides: whole, per token, and what it adds to an ending that stands alone."""
    said = {"p": [[0.0, -1, -2, -3], [-3.0, 0, -2, -1]], "alone": [[5.0, 5, 0, 5], [0.0] * 4]}
    monkeypatch.setattr(writing, "load_named", lambda _: (one_way(), load_tokenizer()))
    monkeypatch.setattr(writing, "score_endings", lambda *x: torch.tensor(said[x[2].split()[0]]))
    asked = [("p the ship", ("a", "b", "c", "the ship"), label, "s") for label in range(4)]
    right = writing.choose_endings(asked, "alone")
    chosen = {way: hits.tolist() for way, hits in right.items()}
    assert chosen == {
        "whole": [1, 0, 0, 0],
        "per token": [0, 1, 0, 0],
        "beyond alone": [0, 0, 1, 0],
        "shared words": [0, 0, 0, 1],
    }


@pytest.mark.parametrize("task", ["next", "topic"])
def test_more_is_against_shared_words_or_no_examples(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions: Any = [Choice("x", ("a", "b"), 0, f"s{n}") for n in range(4)]
    hits = {"whole": [1, 1, 1, 0], "per token": [1, 0, 0, 0], "beyond alone": [1, 1, 0, 0]}
    hits["shared words"] = [0, 0, 0, 1]
    right = {way: 1 - np.array(some, float) for way, some in hits.items()}
    monkeypatch.setattr(writing, "load_task", lambda _: (None, {"test": questions}))
    monkeypatch.setattr(writing, "ask_topic", lambda shots: [("p", ("a",), 0, "s")] * 4)
    monkeypatch.setattr(writing, "choose_endings", lambda *_: right)
    rows = list(writing.zero_shot(task))
    assert [row["examples"] for row in rows[::4]] == [*(writing.SHOTS if task == "topic" else (0,))]
    for row in rows:
        accuracy = 1 - sum(hits[row["way"]]) / 4
        less = accuracy if task == "topic" else 3 / 4
        assert (row["questions"], row["accuracy"], row["more"]) == (4, accuracy, accuracy - less)
