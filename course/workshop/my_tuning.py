"""Your BERT under a new layer: its functions compute, and what it was pre-trained on goes on."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from bertedu.finetuning.kinds import TaskBatch
from bertedu.model.features import Features
from course.language import spoken
from course.workshop.assembly import MyBert


class MyFeatures(nn.Module):
    """What a head reads of a BERT that is made of functions: in the place of `BertFeatures`."""

    def __init__(self, bert: MyBert) -> None:
        super().__init__()
        self.bert, self.size = bert, bert.config.hidden_size

    def forward(self, ids: Tensor, segment_ids: Tensor, padding_mask: Tensor) -> Features:
        """Encode ids, segments and mask, each (B, S)."""
        last = self.bert.states(ids, segment_ids, padding_mask)[-1]
        return Features(last, self.bert.pooled(last, padding_mask))


class Tunable:
    """A BERT made of functions and the W (K, H) and b (K,) of a new layer, all ready to learn.

    ``weights`` holds all that learns, W and b the last two. What was there for pre-training alone,
    the heads of words and pairs, is left out. A bar counts the ``steps``.
    """

    def __init__(self, bert: MyBert, classes: int, steps: int, seed: int = 0) -> None:
        self.bert, self.features = bert, MyFeatures(bert)
        self._bar = tqdm(total=steps, desc=spoken("your BERT"), unit="step")
        rng = torch.Generator().manual_seed(seed)
        new = {"weight": torch.randn(classes, bert.config.hidden_size, generator=rng) * 0.02}
        new["bias"] = torch.zeros(classes)
        bert.w = {n: w for n, w in bert.w.items() if not n.startswith(("mlm.", "nsp."))}
        bert.w |= {f"head.{name}": weight.requires_grad_() for name, weight in new.items()}
        bert.averages = {n: (torch.zeros_like(w), torch.zeros_like(w)) for n, w in bert.w.items()}
        self.weights = [*bert.w.values()]

    def pooled(self, batch: TaskBatch) -> Tensor:
        """Return c, (B, H), of a batch of texts."""
        whole: Tensor = self.features(batch.ids, batch.segment_ids, batch.padding_mask).whole
        return whole

    def move(self, gradients: Sequence[Tensor], rate: float) -> None:
        """Do a step with your clip and your adamw: a gradient for each of ``weights``."""
        self.bert.update([*gradients], rate)
        self._bar.update()
        if self._bar.n == self._bar.total:
            self._bar.close()
