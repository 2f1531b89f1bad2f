"""MT-DNN: one encoder, a head for each task, batches mixed by task (Liu et al. 2019)."""

from collections.abc import Mapping

from torch import Tensor, nn

from bertedu.model.bert import Bert
from bertedu.model.heads import ClassificationHead


class MultiTask(nn.Module):
    """A BERT that all tasks share; ``labels`` names the tasks: task -> number of answers."""

    def __init__(self, bert: Bert, labels: Mapping[str, int]) -> None:
        """Raises ValueError if there is no task, or one with fewer than two answers."""
        super().__init__()
        if not labels or min(labels.values()) < 2:
            raise ValueError(f"each task needs two answers or more, and one task: {dict(labels)}")
        self.bert, size = bert, bert.config.hidden_size
        self.heads = nn.ModuleDict({k: ClassificationHead(size, n) for k, n in labels.items()})

    def forward(self, task: str, ids: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Answer one task: ids (B, S) -> scores (B, answers). An unknown task: ValueError."""
        if task not in self.heads:
            raise ValueError(f"no task {task!r}; there are {', '.join(self.heads)}")
        pooled = self.bert(ids, padding_mask=padding_mask).pooled
        return self.heads[task](pooled)
