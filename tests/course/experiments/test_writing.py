"""Who writes, and who answers untaught: the scores, and the committed results."""

import math

import pytest
import torch

from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.variants.generation import ending_score
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.sources import shipped
from bertedu.text.tokenization import SEP_ID
from course.experiments import toy, writing
from course.experiments.toy import toy_ids, train_toy
from course.experiments.toy_language import ToyLanguage
from course.experiments.writing import score_endings, score_texts


def test_texts_are_scored_by_hand() -> None:
    dog, cat = ("the", "dog", "barked"), ("the", "dog", "purred")
    p = 1 / 6 * 0.6 * 0.5 * 0.8 * 0.7 * 0.4 * 0.2
    row = score_texts([dog, cat, dog, ()])
    assert row == {
        "texts": 4,
        "sentences": 0.5,
        "log_probability": round(math.log(p), 3),
        "different": 3,
    }
    assert score_texts([cat])["log_probability"] == ""


def test_endings_of_a_batch_are_scored_as_each_alone() -> None:
    """The usual bugs: padding is scored, too, or the first token of the ending is not."""
    torch.manual_seed(0)
    tokenizer = load_tokenizer()
    config = BertConfig(
        8192, 16, 1, 2, 32, 64, 2, 0.0, initializer_range=0.5, direction="left-to-right"
    )
    model = BertForPreTraining(config).eval()
    endings = ("He slept.", "He went to the old city in the north.", "Yes")
    for prompt in ("The king waited.", ""):
        scores = score_endings(model, tokenizer, prompt, endings)
        begin = tokenizer.encode(prompt).ids[:-1]
        for place, ending in enumerate(endings):
            ids = torch.tensor(begin + tokenizer.encode(ending, add_special_tokens=False).ids)
            alone = model(ids[None])[0][0].detach()
            wanted = [float(ending_score(alone, ids, len(begin), per)) for per in (False, True)]
            assert scores[:, place].tolist() == pytest.approx(wanted, rel=1e-4)


def test_a_writer_learns_where_texts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "TRAINING", 500)
    ids = toy_ids(ToyLanguage(), [("the", "dog", "barked", "loudly", "in", "the", "yard")])
    *_, (_, model) = train_toy("left-to-right", 0, 40, ends=True)
    assert model(ids)[0][0, -2].softmax(-1)[SEP_ID].item() > 0.5  # else it is never asked for
    with pytest.raises(ValueError, match="only a left-to-right model"):
        next(train_toy("bidirectional", 0, 1, ends=True))


def test_the_committed_runs_are_whole() -> None:
    rows = read_csv(shipped("results") / "writing.csv")
    seeds = {row["seed"] for row in rows}
    writers = {row["writer"] for row in rows}
    assert len(rows) == len(seeds) * len(writers)
    assert len(seeds) >= 3
    assert {*writing.FILLED.values(), writing.TRUE, writing.LTR, writing.APPENDED} < writers
    assert all(float(row["sentences"]) == 1 for row in rows if row["writer"] == writing.TRUE)
    zero = read_csv(shipped("results") / "zero_shot.csv")
    assert len(zero) == 4 + 4 * len(writing.SHOTS)
