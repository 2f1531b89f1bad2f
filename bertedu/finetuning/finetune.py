"""A fine-tuning run, from names to scores."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from bertedu.finetuning.examples import KindName, Splits, Task, TaskError
from bertedu.finetuning.kinds import (
    MAX_LENGTH,
    Answer,
    Classification,
    Kind,
    MultipleChoice,
    Regression,
)
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.tagging import Tagging
from bertedu.finetuning.training import History, Hyperparameters, TaskModel, finetune, score_items
from bertedu.machine import device_named
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import find_model, is_published
from bertedu.model.elmo import Elmo, ElmoForPreTraining
from bertedu.model.features import (
    READS,
    BertFeatures,
    BiLSTMFeatures,
    ElmoFeatures,
    Encoder,
    LayerFeatures,
    MeanFeatures,
    PairFeatures,
)
from bertedu.model.variants.lora import add_lora, merge_lora

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
    "LoRA": (3e-4, 1e-3, 3e-3),
}
LSTM_SIZE = 128  # cells in each direction, on frozen features; the paper has 768, its BERT's width


def load_encoder(
    name: str, dropout: float = 0.0, untrained: bool = False, seed: int = 0
) -> tuple[Encoder, Tokenizer]:
    """Load an encoder and its tokenizer.

    ``name`` is what `bertedu.load` takes, or two one-way checkpoints with a plus between them: the
    ELMo-style pair. ``dropout`` is that of fine-tuning; it may have been pre-trained with another.
    ``untrained``: the same architecture with random weights, drawn by ``seed``, as is a pooler that
    was not published.

    Raises CheckpointError if there is no such checkpoint, or a file of it is broken; SourceError if
    a published encoder cannot be fetched; ValueError if the two of a pair do not read in opposite
    directions, or other word pieces.
    """
    if "+" in name and not Path(name).is_dir():
        first, second = name.split("+", 1)
        left, tokenizer = _load_bert(first, dropout, untrained, seed)
        right, other = _load_bert(second, dropout, untrained, seed + 1_000_003)  # not left's draws
        if tokenizer.get_vocab() != other.get_vocab():
            raise ValueError(f"{first} and {second} do not have the same word pieces")
        return PairFeatures(left, right), tokenizer
    torch.manual_seed(seed)  # a part that its file lacks
    model, tokenizer, *_ = find_model(name)
    torch.manual_seed(seed)
    if isinstance(model, ElmoForPreTraining):
        elmo = Elmo(replace(model.config, dropout=dropout), model.elmo.sizes)
        if not untrained:
            elmo.load_state_dict(model.elmo.state_dict())
        return ElmoFeatures(elmo), tokenizer
    trained = model if isinstance(model, Bert) else model.bert
    bert = Bert(replace(trained.config, dropout=dropout))
    if not untrained:
        bert.load_state_dict(trained.state_dict())
    return BertFeatures(bert), tokenizer


def _load_bert(name: str, dropout: float, untrained: bool, seed: int) -> tuple[Bert, Tokenizer]:
    encoder, tokenizer = load_encoder(name, dropout, untrained, seed)
    if not isinstance(encoder, BertFeatures):
        raise ValueError(f"{name} is an ELMo; a pair is made of two Transformers")
    return encoder.bert, tokenizer


def with_bilstm(encoder: Encoder) -> BiLSTMFeatures:
    """Put a new BiLSTM on an encoder that is fine-tuned with it (paper, table 5, last row).

    A layer norm follows, which the paper does not name: without one the head gets states a fifth as
    large as any other variant's, and a tagger says "no name" everywhere after three epochs.
    """
    return BiLSTMFeatures(encoder, LSTM_SIZE, layer_norm=True)


def frozen_features(encoder: Encoder, reads: str) -> BiLSTMFeatures:
    """Put a new two-layer BiLSTM on a frozen BERT (paper, section 5.3) or ELMo.

    ELMo is read in its own way only: "sum of all", a weighted sum whose weights learn. Raises
    ValueError for another encoder than these two, or if ``reads`` is not in `READS` or not ELMo's.
    """
    if isinstance(encoder, ElmoFeatures):
        if reads != "sum of all":
            raise ValueError(f'ELMo is read as "sum of all", not as {reads!r}')
        frozen = BiLSTMFeatures(encoder, LSTM_SIZE, frozen=True, layers=2)
        encoder.mix.requires_grad_(True)  # the task chooses the layers (Peters et al., 2018, §3.2)
        return frozen
    if not isinstance(encoder, BertFeatures):
        raise ValueError(f"features are layers of one BERT, not of {type(encoder).__name__}")
    return BiLSTMFeatures(LayerFeatures(encoder.bert, reads), LSTM_SIZE, layers=2)


def make_kind(task: Task, splits: Splits) -> Kind:
    """Return the kind of a task, ready to encode its examples."""
    can_be_none = task.kind == "span" and not all(e.answers for e in splits["train"])
    return kind_named(task.kind, task.labels, can_be_none, task.metric == "character_f1")


def kind_named(
    name: KindName, labels: tuple[str, ...], can_be_none: bool = False, by_character: bool = False
) -> Kind:
    """Return a kind with its labels, if any; the last two are those of `QuestionAnswering`."""
    if name == "span":
        return QuestionAnswering(can_be_none, by_character=by_character)
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
    lora: int | None = None  # the rank of LoRA; none: every weight learns

    def __post_init__(self) -> None:
        """Refuse a method that is none, and a device that is not here."""
        device_named(self.device)
        if self.method not in METHODS:
            raise TaskError(f"no method {self.method!r}: choose one of {', '.join(METHODS)}")
        if self.train_examples is not None and self.train_examples < 1:
            raise TaskError(f"{self.train_examples} training examples: at least one is needed")
        if self.lora is not None and self.method != "fine-tuned":
            raise TaskError(f"LoRA is a way to fine-tune, and the method is {self.method!r}")

    @property
    def way(self) -> str:
        """How a record calls the method."""
        return self.method if self.lora is None else f"LoRA, rank {self.lora}"

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
        if self.lora is not None:
            return RATES["LoRA"]
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


def run_once(
    task: Task,
    splits: Splits,
    setup: Setup,
    recipe: Hyperparameters,
    score: Sequence[str] = ("dev", "test"),
    progress: bool = True,
    kind: Kind | None = None,
) -> Run:
    """Fine-tune once, and answer the splits of ``score``; the task says of which kind it is.

    Raises TaskError if the examples cannot be encoded, CheckpointError or SourceError if the
    encoder cannot be loaded, and FineTuningDiverged if loss or gradient became NaN.
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
    if setup.lora is not None:
        add_lora(encoder, setup.lora)
        if isinstance(encoder, BertFeatures) and "pooler" in find_model(setup.model).absent:
            encoder.bert.pooler.requires_grad_(True)  # not in its file: as new as the task's head
    model = TaskModel(encoder, kind, recipe.dropout, setup.frozen).to(device)
    needed = {"train", "dev", *score}
    items = {split: kind.encode(splits[split], tokenizer, MAX_LENGTH) for split in needed}
    history = finetune(
        model, items["train"], splits["dev"], items["dev"], task.metric, recipe, progress
    )
    answers = {
        split: kind.answers(splits[split], items[split], score_items(model, items[split]))
        for split in score
    }
    if setup.lora is not None:
        merge_lora(model)  # what is returned is a plain model again
    return Run(model, tokenizer, history, answers)
