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
