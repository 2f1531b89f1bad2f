"""Tiny random models with a new layer, and examples of our own, for the tests of fine-tuning."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertedu.finetuning.examples import AnyExample, Choice, Example, Question, Tagged, Task
from bertedu.finetuning.finetune import kind_named
from bertedu.finetuning.kinds import Answer, Kind, TaskBatch, collate
from bertedu.finetuning.saving import FineTuned, save_finetuned
from bertedu.finetuning.training import TaskModel, score_items
from bertedu.model.bert import Bert
from bertedu.model.config import BertConfig
from bertedu.model.features import BertFeatures
from bertedu.text.fast_tokenizer import load_tokenizer

TOKENIZER = load_tokenizer()
# so wide a spread that attention is uneven and every token moves every score
CONFIG = BertConfig(TOKENIZER.get_vocab_size(), 16, 2, 2, 32, 128, initializer_range=0.4)
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
CLASSES = ("bad", "so so", "good")
SENTENCES = (
    "The café by the river was closed.",
    "Nobody had told the two brothers, who had walked for three hours in the rain.",
    "They laughed.",
    "Then the older one opened his bag, and there was bread, cheese and an unbelievably old map.",
)
CONTEXT = (
    "Mira planted forty apple trees behind her grandmother's house in 1987. Wolves came down "
    "from the hills every winter, so she built a fence of willow branches around the trees. "
    "When the first snow fell, the gate was open. "
)
TASKS: dict[str, Task] = {
    "classification": Task("moods", "classification", "", CLASSES, "accuracy", dict),
    "regression": Task("degrees", "regression", "", (), "pearson", dict, pairs=True),
    "choice": Task("endings", "choice", "", (), "accuracy", dict),
    "tagging": Task("names", "tagging", "", TAGS, "f1", dict),
    "span": Task("answers", "span", "", (), "f1", dict),
}
EXAMPLES: dict[str, Sequence[AnyExample]] = {
    "classification": [
        Example(SENTENCES[0], None, 0),
        Example(SENTENCES[1], SENTENCES[2], 1),
        Example(SENTENCES[3], None, 2),
        Example(SENTENCES[2], SENTENCES[0], 1),
    ],
    "regression": [
        Example(SENTENCES[0], SENTENCES[3], 2.5),
        Example(SENTENCES[1], SENTENCES[2], -1),
        Example(SENTENCES[2], None, 4),
    ],
    "choice": [
        Choice(SENTENCES[0], (SENTENCES[1], SENTENCES[2], SENTENCES[3]), 0),
        Choice(SENTENCES[2], (SENTENCES[0], SENTENCES[3], SENTENCES[1]), 2),
    ],
    "tagging": [
        Tagged(("Unbelievably", "Mira", "Okonjo", "left", "Lyon"), ("O", *TAGS[1:3], "O", TAGS[3])),
        Tagged(("Lyon", "slept"), ("B-LOC", "O")),
    ],
    "span": [
        Question("year", "When did she plant them?", CONTEXT, (("1987", CONTEXT.index("1987")),)),
        Question("long", "What was open?", CONTEXT * 4, (("gate", CONTEXT.index("gate")),)),
        Question("none", "Who sold the house?", CONTEXT, ()),
    ],
}  # fmt: skip


def make_kind(name: str) -> Kind:
    return kind_named(TASKS[name].kind, TASKS[name].labels)


def tiny(kind: Kind, seed: int = 0, **config: Any) -> TaskModel:
    """Make a model in evaluation mode, with no weight left at zero or one."""
    torch.manual_seed(seed)
    model = TaskModel(BertFeatures(Bert(dataclasses.replace(CONFIG, **config))), kind, 0.3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.3)
    return model.eval()


def encoded(kind: Kind, examples: Sequence[AnyExample]) -> TaskBatch:
    return collate(kind.encode(examples, TOKENIZER, 128))


def answers(model: TaskModel, examples: Sequence[AnyExample]) -> list[Answer]:
    items = model.kind.encode(examples, TOKENIZER, 128)
    return model.kind.answers(examples, items, score_items(model, items))


@torch.no_grad()
def scores_and_loss(model: TaskModel, batch: TaskBatch) -> tuple[Tensor, Tensor]:
    scores = model(batch)
    return scores, model.kind.loss(scores, batch)


def tuned(model: TaskModel, name: str, **more: Any) -> FineTuned:
    return dataclasses.replace(FineTuned.of(model, TOKENIZER, TASKS[name]), **more)


def save(model: TaskModel, name: str, folder: Path) -> Path:
    save_finetuned(tuned(model, name), folder, {"seed": 0})
    return folder


def theirs_of(folder: Path, their_class: Any) -> Any:
    """Open in `transformers` what we saved; nothing is missing or left over."""
    theirs, told = their_class.from_pretrained(
        folder, output_loading_info=True, local_files_only=True, attn_implementation="eager"
    )
    assert not any(told.values()), told
    return theirs.eval()


def named(batch: TaskBatch) -> dict[str, Tensor]:
    """Name the rows as `transformers` does."""
    return {
        "input_ids": batch.ids,
        "token_type_ids": batch.segment_ids,
        "attention_mask": batch.padding_mask.long(),
    }


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
