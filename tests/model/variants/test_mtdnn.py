"""MT-DNN: what one task teaches. The usual bug: each head has an encoder of its own."""

import pytest
import torch

from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.model.variants.mtdnn import MultiTask

IDS = torch.tensor([[2, 7, 8, 9, 3]])


def test_a_batch_of_one_task_moves_the_encoder_and_no_other_head() -> None:
    model = MultiTask(Bert(BertConfig(20, 16, 1, 2, 32, dropout=0.0)), {"one": 2, "other": 3})
    assert model("other", IDS).shape == (1, 3)
    before = model("other", IDS).detach()
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    model("one", IDS)[0, 0].backward()
    assert all(p.grad is None for p in model.heads["other"].parameters())
    assert any(p.grad is not None and p.grad.any() for p in model.bert.parameters())
    optimizer.step()
    assert not torch.allclose(model("other", IDS), before)  # through the shared encoder


def test_tasks_that_are_none_are_refused() -> None:
    bert = Bert(BertConfig(20, 16, 1, 2, 32))
    for labels in ({}, {"one": 1}):
        with pytest.raises(ValueError, match="two answers or more"):
            MultiTask(bert, labels)
    with pytest.raises(ValueError, match="no task 'two'; there are one"):
        MultiTask(bert, {"one": 2})("two", IDS)
