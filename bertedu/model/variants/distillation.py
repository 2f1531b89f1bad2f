"""DistilBERT: every second layer of a trained model, taught by all of it (Sanh et al. 2019)."""

from dataclasses import replace

from torch import Tensor
from torch.nn import functional as F

from bertedu.model.bert import BertForPreTraining


def every_second_layer(teacher: BertForPreTraining) -> BertForPreTraining:
    """Copy a model with layers 1, 3, 5, … only (section 3). Raises ValueError if L is odd."""
    layers = teacher.config.num_hidden_layers
    if layers % 2:
        raise ValueError(f"a teacher of {layers} layers cannot be halved: give it an even number")
    student = BertForPreTraining(replace(teacher.config, num_hidden_layers=layers // 2))
    weights = {}
    for name, weight in teacher.state_dict().items():
        before, found, after = name.partition("encoder.layers.")
        number, _, rest = after.partition(".")
        if not found:
            weights[name] = weight
        elif int(number) % 2 == 0:
            weights[f"{before}{found}{int(number) // 2}.{rest}"] = weight
    student.load_state_dict(weights)  # copies the numbers: the teacher stays as it is
    return student


def distillation_loss(student: Tensor, teacher: Tensor, temperature: float = 2.0) -> Tensor:
    """Nats that the teacher's answers tell beyond the student's: scores (n, V), (n, V) -> ().

    KL(teacher || student) of both softened by a temperature, times its square, so that gradients
    keep their size (Hinton et al. 2015, section 2). The teacher gets no gradient.
    """
    soft = (teacher.detach() / temperature).log_softmax(-1)
    hard = (student / temperature).log_softmax(-1)
    return F.kl_div(hard, soft, log_target=True, reduction="batchmean") * temperature**2
