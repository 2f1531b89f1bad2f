"""DistilBERT: every second layer of a trained model, taught by all of it (Sanh et al. 2019)."""

from copy import deepcopy
from dataclasses import replace

from torch import Tensor
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining


def every_second_layer(teacher: BertForPreTraining) -> BertForPreTraining:
    """Copy a model with layers 1, 3, 5, … only (section 3). Raises ValueError if L is odd."""
    layers = teacher.config.num_hidden_layers
    if layers % 2:
        raise ValueError(f"a teacher of {layers} layers cannot be halved: give it an even number")
    student = deepcopy(teacher).requires_grad_(True).train()  # the teacher stays as it is
    student.bert.encoder.layers = student.bert.encoder.layers[::2]
    student.config = student.bert.config = replace(teacher.config, num_hidden_layers=layers // 2)
    return student


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 2.0) -> Tensor:
    """Nats that the teacher's answers tell beyond the student's: scores (n, V), (n, V) -> ().

    KL(teacher || student) of both softened by a temperature, times its square, so that gradients
    keep their size (Hinton et al. 2015, section 2). The teacher gets no gradient.
    """
    soft = (teacher.detach() / temperature).log_softmax(-1)
    hard = (student / temperature).log_softmax(-1)
    return F.kl_div(hard, soft, log_target=True, reduction="batchmean") * temperature**2
