"""A fine-tuning run, from names to scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from bertedu.finetuning.collation import MAX_LENGTH
from bertedu.finetuning.encoders import frozen_features, load_encoder, with_bilstm
from bertedu.finetuning.examples import KindName, Splits, Task, TaskError
from bertedu.finetuning.kinds import Answer, Classification, Kind, MultipleChoice, Regression
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.tagging import Tagging
from bertedu.finetuning.training import History, Hyperparameters, TaskModel, finetune, score_items
from bertedu.machine import device_named
from bertedu.model.checkpoints import is_published
from bertedu.model.features import READS, MeanFeatures

# "features:last" reads the last layer of the frozen model; "untrained features:last" is its control
FEATURES = tuple(f"features:{reads}" for reads in READS)
METHODS = ("fine-tuned", "frozen", "untrained", "fine-tuned + BiLSTM", *FEATURES)
METHODS += tuple(f"untrained {name}" for name in FEATURES)
MEAN = ", mean"  # behind a method: the whole input is the mean of its tokens, not the pooled C
METHODS += tuple(f"{name}{MEAN}" for name in METHODS)
Rates = tuple[float, float, float]
# The paper's are for 110 million parameters; small models bear more, new layers alone still more.
RATES: dict[str, Rates] = {
    "fine-tuned": (1e-4, 3e-4, 1e-3),
    "frozen": (1e-3, 3e-3, 1e-2),
    "published": (3e-5, 1e-4, 3e-4),
}


def make_kind(task: Task, splits: Splits) -> Kind:
    """Return the kind of a task, ready to encode its examples."""
    if task.kind == "span":
        can_be_none = any(not question.answers for question in splits["train"])
        return QuestionAnswering(can_be_none, by_character=task.metric == "character_f1")
    return kind_with(task.kind, task.labels)


def kind_with(name: KindName, labels: tuple[str, ...]) -> Kind:
    """Return a kind that is no "span": all that it needs is its labels, if any."""
    if name in ("regression", "choice"):
        return Regression() if name == "regression" else MultipleChoice()
    return Tagging(labels) if name == "tagging" else Classification(labels)


@dataclass(frozen=True)
class Setup:
    """Which model, how: all that a run needs besides the task and the recipe."""

    model: str
    method: str = "fine-tuned"
    train_examples: int | None = None  # none: all
    device: str | None = None  # none: the best

    def __post_init__(self) -> None:
        """Refuse a method that is none, and a device that is not here."""
        device_named(self.device)
        if self.method not in METHODS:
            raise TaskError(f"no method {self.method!r}: choose one of {', '.join(METHODS)}")
        if self.train_examples is not None and self.train_examples < 1:
            raise TaskError(f"{self.train_examples} training examples: at least one is needed")

    @property
    def untrained(self) -> bool:
        """Whether the encoder is drawn at random."""
        return self.method.startswith("untrained")

    @property
    def reads(self) -> str:
        """What is read off a frozen encoder (`READS`); empty if its last layer is trained on."""
        return self.method.removesuffix(MEAN).partition("features:")[2]

    @property
    def frozen(self) -> bool:
        """Whether only the new layer learns."""
        return self.method.removesuffix(MEAN) == "frozen"

    @property
    def rates(self) -> Rates:
        """Learning rates worth trying."""
        if self.reads or self.frozen:
            return RATES["frozen"]
        return RATES["published" if is_published(self.model) else "fine-tuned"]


@dataclass
class Run:
    """A fine-tuned model and what it answered."""

    model: TaskModel
    tokenizer: Tokenizer
    history: History
    answers: dict[str, list[Answer]]
    bfloat16: bool  # products in 16 bits


def run_once(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Hyperparameters,
    score: Sequence[str] = ("dev", "test"),
    bfloat16: bool = False,
    progress: bool = True,
    kind: Kind | None = None,
) -> Run:
    """Fine-tune once, and answer the splits of ``score``; the task says of which kind it is.

    Raises TaskError if the examples cannot be encoded, CheckpointError or SourceError if the
    encoder cannot be loaded, and FineTuningDiverged if the loss became NaN.
    """
    device = device_named(setup.device)
    encoder, tokenizer = load_encoder(setup.model, recipe.dropout, setup.untrained, recipe.seed)
    kind = kind or make_kind(task, splits)
    splits = splits | {"train": splits["train"][: setup.train_examples]}
    torch.manual_seed(recipe.seed)  # of the new layers
    if setup.reads:
        encoder = frozen_features(encoder, setup.reads)
    elif "+ BiLSTM" in setup.method:
        encoder = with_bilstm(encoder)
    if setup.method.endswith(MEAN):
        encoder = MeanFeatures(encoder)
    model = TaskModel(encoder, kind, recipe.dropout, setup.frozen).to(device)
    needed = {"train", "dev", *score}
    items = {split: kind.encode(splits[split], tokenizer, MAX_LENGTH) for split in needed}
    history = finetune(
        model, items["train"], splits["dev"], items["dev"], task.metric, recipe, bfloat16, progress
    )
    answers = {
        split: kind.answers(splits[split], items[split], score_items(model, items[split], bfloat16))
        for split in score
    }
    return Run(model, tokenizer, history, answers, bfloat16)
