"""Two questions, the same real pairs: only what makes a pair wrong differs."""

from typing import Any

import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.next_sentence import IS_NEXT, NOT_NEXT, Pair
from course.experiments import sentence_order as module

CONFIG = BertConfig(50, 32, 1, 2, 64, 16, 2, 0.0)
COUNT = 40
_dice = torch.Generator().manual_seed(0)
# A holds only words 5 to 24, B only 25 to 44: who looks at both can tell their order
LOW, HIGH = (torch.randint(s, s + 20, (COUNT, 3), generator=_dice).tolist() for s in (5, 25))
PAIRS = {
    "real": [Pair(a, b, IS_NEXT) for a, b in zip(LOW, HIGH, strict=True)],
    "other document": [Pair(LOW[i], HIGH[(i + 1) % COUNT], NOT_NEXT) for i in range(COUNT)],
    "swapped": [Pair(b, a, NOT_NEXT) for a, b in zip(LOW, HIGH, strict=True)],
}


def test_the_two_questions_share_their_batches_but_for_the_wrong_pairs() -> None:
    nsp, sop = (
        module.draw_pairs(PAIRS["real"], PAIRS[kind], torch.Generator().manual_seed(3))
        for kind in module.QUESTIONS.values()
    )
    assert [p.label for p in nsp] == [p.label for p in sop] == [IS_NEXT, NOT_NEXT] * 16
    assert nsp[::2] == sop[::2]
    assert [p.a for p in nsp[1::2]] == [p.b for p in sop[1::2]]
    # No wrong pair is made of a real one of the batch: that A or B was seen twice would tell it.
    assert not {tuple(p.a) for p in nsp[::2]} & {tuple(p.a) for p in nsp[1::2]}


def test_the_loss_is_that_of_the_labels_and_reads_the_order() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(CONFIG).eval()
    torch.nn.init.normal_(model.nsp.classifier.weight)
    real, swapped = (module.pair_loss(model, PAIRS[kind]) for kind in ("real", "swapped"))
    assert real != swapped
    with torch.no_grad():  # says "B follows A" of every pair
        model.nsp.classifier.bias.copy_(torch.tensor([20.0, -20.0]))
    assert module.pair_loss(model, PAIRS["real"]) < 0.1
    assert module.pair_loss(model, PAIRS["swapped"]) > 10


def test_the_model_that_is_asked_for_the_order_learns_it(monkeypatch: pytest.MonkeyPatch) -> None:
    splits: list[str] = []

    def pairs_of(split: str) -> tuple[dict[str, list[Pair]], torch.Tensor]:
        splits.append(split)
        return PAIRS, torch.arange(COUNT) // 4

    monkeypatch.setattr(module, "load_named", lambda name: (BertForPreTraining(CONFIG), None))
    monkeypatch.setattr(module, "pairs_of", pairs_of)
    monkeypatch.setattr(module, "STEPS", 60)
    monkeypatch.setattr(module, "RATE", 3e-3)

    def right(question: str) -> dict[str, Any]:
        return {row["kind"]: row["ranked_right"] for row in module.run(question, 0)}

    assert right("SOP")["swapped"] > 0.95
    assert right("as it is")["swapped"] < 0.8
    assert splits == ["train", "test", "test"]


def test_pairs_are_of_the_articles_of_one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DEFAULT_CORPORA", ("encyclopedia",))
    monkeypatch.setattr(module, "spoil_pairs", lambda documents, _: documents)
    for split in ("train", "test"):
        assert {document.split for document in module.pairs_of.__wrapped__(split)} == {split}
