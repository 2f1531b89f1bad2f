"""A pair that learns together: neither half reads the other's side, and one loss trains both."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bertedu.model.checkpoints import load_checkpoint
from bertedu.model.config import BertConfig
from bertedu.pretraining.batches import Batch
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.text.tokenization import SPECIAL_TOKENS
from course.experiments import joint_pair
from course.experiments.joint_pair import JointPair
from course.experiments.same_question import ALL, TOGETHER, Blanks, answer_all

SIZE = 40
CONFIG = BertConfig(SIZE, 16, 1, 2, 32, 16, 2, 0.0)
# 10 or 11 stands first, and 20 or 21 last; which word stands between is told by the two together
TEXTS = [[a, 30 + 2 * (a - 10) + b - 20, b] for a in (10, 11) for b in (20, 21)]
DOCUMENTS = [EncodedDocument("", [TEXTS[i % 4], TEXTS[i // 4 % 4]]) for i in range(32)]


@pytest.fixture
def pair() -> JointPair:
    torch.manual_seed(0)
    made = JointPair(CONFIG)
    made.start(DOCUMENTS)
    return made


def blank() -> Batch:
    ids = torch.tensor([[2, 10, 4, 20, 3]])
    selected = ids == 4
    ones = torch.ones_like(ids)
    return Batch(ids, 0 * ones, ones.bool(), selected, torch.tensor([30]), torch.tensor([0]))


def test_the_loss_is_that_of_the_sum_of_what_both_say(pair: JointPair) -> None:
    batch = blank()
    given = (batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)
    said = [half(*given)[0] for half in pair.halves]
    loss, _ = pair(batch)
    torch.testing.assert_close(loss, F.cross_entropy(said[0] + said[1], batch.labels))
    asked = Blanks([(10, 30, 20)], np.array([1]), np.array([0]), [ALL])
    ((nats, _),) = answer_all({TOGETHER: [[*pair.halves]]}, asked, torch.rand(SIZE))[TOGETHER]
    sums = (said[0] + said[1])[:, len(SPECIAL_TOKENS) :]  # no other can be asked for
    assert nats[0] == pytest.approx(-sums.log_softmax(-1)[0, 30 - len(SPECIAL_TOKENS)].item())
    for half in pair.halves:  # at the start each holds one half of the words' log shares
        words = half.decoder.bias.detach()
        torch.testing.assert_close(words, pair.halves[0].decoder.bias.detach())
    both = 2 * words
    assert float(both.exp().sum()) == pytest.approx(1, abs=1e-4), "together, one share"


def test_each_half_reads_its_own_side_only(pair: JointPair) -> None:
    batch = blank()
    for half, (mine, other) in zip(pair.halves, ((1, 3), (3, 1)), strict=True):
        before = half(batch.ids, selected=batch.selected)[0]
        for place, moves in ((mine, True), (other, False)):
            ids = batch.ids.clone()
            ids[0, place] = 35
            after = half(ids, selected=batch.selected)[0]
            assert bool((after - before).abs().max() > 1e-4) is moves


def test_both_halves_are_written_as_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joint_pair, "load_splits", lambda: {"train": DOCUMENTS})
    joint_pair.main(tmp_path, "L1H64", steps=60, seed=1)
    curve = json.loads((tmp_path / "joint-ltr-1" / "training.json").read_text())["curve"]
    assert curve[-1]["mlm_loss"] < curve[0]["mlm_loss"]
    directions = [
        load_checkpoint(tmp_path / f"{name}-1").config.direction for name in joint_pair.NAMES
    ]
    assert directions == ["left-to-right", "right-to-left"]
