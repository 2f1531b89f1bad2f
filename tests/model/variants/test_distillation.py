"""DistilBERT. Usual bugs: the student's layers *are* the teacher's; the divergence turned round."""

import math

import pytest
import torch

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.variants.distillation import distillation_loss, every_second_layer

CONFIG = BertConfig(20, 16, 4, 2, 32, 12, 2, 0.0)
IDS = torch.tensor([[2, 7, 8, 9, 3]])


def test_a_student_has_every_second_layer_and_its_own_weights() -> None:
    """Fails when layers are shared: a step of the student would change the teacher."""
    teacher = BertForPreTraining(CONFIG).eval()
    before = {name: weight.clone() for name, weight in teacher.state_dict().items()}
    student = every_second_layer(teacher).eval()
    assert student.config.num_hidden_layers == 2
    x = torch.randn(1, 5, 16)
    for ours, theirs in enumerate((0, 2)):
        layers = (student.bert.encoder.layers[ours], teacher.bert.encoder.layers[theirs])
        torch.testing.assert_close(*(layer(x, None)[0] for layer in layers))
    torch.testing.assert_close(
        student.mlm(x),
        teacher.mlm(x),  # the table, the head and its bias come along
    )
    assert student.mlm.decoder.weight is student.bert.embeddings.token.weight
    with torch.no_grad():
        for parameter in student.parameters():
            parameter += 1
    assert all(torch.equal(before[name], w) for name, w in teacher.state_dict().items())


def test_soft_targets_by_hand() -> None:
    """KL(teacher || student), not the other way round; at temperature 2, halved scores, times 4."""
    teacher = torch.tensor([[2 * math.log(3), 0.0]])  # 3 : 1 at temperature 2
    student = torch.tensor([[0.0, 0.0]])
    by_hand = 4 * (0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5))
    assert distillation_loss(student, teacher).item() == pytest.approx(by_hand)
    assert distillation_loss(teacher, teacher).item() == pytest.approx(0, abs=1e-7)
    turned = 4 * (0.5 * math.log(0.5 / 0.75) + 0.5 * math.log(0.5 / 0.25))
    assert abs(by_hand - turned) > 0.01


def test_only_the_student_learns() -> None:
    teacher, student = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    distillation_loss(student, teacher).backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None
    assert student.grad is not None
    assert student.grad.any()


def test_an_odd_teacher_is_refused() -> None:
    with pytest.raises(ValueError, match="a teacher of 3 layers cannot be halved"):
        every_second_layer(BertForPreTraining(BertConfig(20, 16, 3, 2, 32)))
