"""Your BERT under a new layer, beside the package's own fine-tuning."""

import torch
from torch.nn import functional as F

from bertedu.finetuning.examples import Example
from bertedu.finetuning.finetune import load_encoder
from bertedu.finetuning.kinds import Classification
from bertedu.finetuning.training import ADAM_EPS, TaskModel, training_batches
from bertedu.optimization import descend, make_optimizer
from course.exercises.finetuning_single_sentence import right_tune
from course.workshop import my_bert
from course.workshop.my_tuning import MyFeatures, Tunable

TEXTS = ("The lake is deep.", "She wrote a book.", "Rivers rise in hills.", "He sang an opera.")
RATES = [3e-4, 3e-4, 1e-4]


def test_the_loop_on_your_bert_does_what_the_package_does() -> None:
    encoder, tokenizer = load_encoder("bert-L2H128")
    kind = Classification(("a", "b"))
    mine = Tunable(my_bert.build("bert-L2H128"), 2, len(RATES))
    model = TaskModel(encoder, kind)
    with torch.no_grad():
        for theirs, ours in zip(model.head.parameters(), mine.weights[-2:], strict=True):
            theirs.copy_(ours)
    examples = [Example(text, None, i % 2) for i, text in enumerate(TEXTS)]
    (batch,) = training_batches(kind.encode(examples, tokenizer, 32), 4, 0, 0)
    optimizer = make_optimizer(model, 0.01, ADAM_EPS)
    expected = []
    for rate in RATES:
        loss = F.cross_entropy(model(batch), batch.target)
        descend(model.parameters(), optimizer, loss, rate, 1.0)
        expected.append(loss.item())
    losses = right_tune(mine, [batch] * len(RATES), RATES)
    assert torch.allclose(torch.tensor(losses), torch.tensor(expected), atol=2e-4)
    assert losses[-1] < losses[0]


def test_a_head_reads_the_same_states() -> None:
    encoder, _ = load_encoder("bert-L2H128")
    mine = MyFeatures(my_bert.build("bert-L2H128"))
    ids = torch.tensor([[2, 100, 200, 300, 3], [2, 400, 3, 0, 0]])
    given = ids, torch.zeros_like(ids), ids != 0
    with torch.no_grad():
        for ours, theirs in zip(mine(*given), encoder(*given), strict=True):
            real = given[2] if ours.ndim == 3 else ...
            assert torch.allclose(ours[real], theirs[real], atol=1e-5)


def test_only_what_the_task_reads_learns() -> None:
    """The heads of words and pairs are gone: a gradient for each of the weights exists."""
    mine = Tunable(my_bert.build("bert-L2H128"), 3, 1)
    assert not any(name.startswith(("mlm.", "nsp.")) for name in mine.bert.w)
    assert [tuple(weight.shape) for weight in mine.weights[-2:]] == [(3, 128), (3,)]
    for mean, square in mine.bert.averages.values():
        square += 1
        assert not mean.any(), "a step may write in place"
