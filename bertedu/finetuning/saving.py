"""A fine-tuned model on disk, as Hugging Face opens it, and asked again: of a text, of a table."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unicodedata import normalize

from tokenizers import Tokenizer
from tqdm.auto import tqdm

from bertedu.files import Row
from bertedu.finetuning.examples import Choice, Example, KindName, Question, Tagged, Task, TaskError
from bertedu.finetuning.finetune import kind_named
from bertedu.finetuning.kinds import MAX_LENGTH, Answer
from bertedu.finetuning.own_data import read_table
from bertedu.finetuning.question_answering import QuestionAnswering
from bertedu.finetuning.tagging import split_words
from bertedu.finetuning.training import TaskModel, score_items
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import (
    CheckpointError,
    hugging_face_config,
    hugging_face_tensors,
    load_tensors,
    load_weights,
    read_config,
    read_json,
    read_tokenizer,
    refuse_inexpressible,
    usable,
    write_folder,
)
from bertedu.model.features import BertFeatures

# kind -> (the class of `transformers` that opens it, what it calls the new layer)
_THEIRS: dict[KindName, tuple[str, str]] = {
    "classification": ("BertForSequenceClassification", "classifier."),
    "regression": ("BertForSequenceClassification", "classifier."),
    "choice": ("BertForMultipleChoice", "classifier."),
    "tagging": ("BertForTokenClassification", "classifier."),
    "span": ("BertForQuestionAnswering", "qa_outputs."),
}
_WITHOUT_POOLER = ("tagging", "span")  # nothing reads the pooled C there
_TOGETHER = 64  # rows of a table that are read at once: a batch, and no more in memory
_OURS_ALONE = "bertedu-one-way"  # model_type of a BERT that `transformers` does not have


@dataclass
class FineTuned:
    """A model that answers, with what it takes to ask it."""

    model: TaskModel
    tokenizer: Tokenizer
    task: str
    kind: KindName
    labels: tuple[str, ...]
    max_length: int = MAX_LENGTH
    pairs: bool = False

    @classmethod
    def of(cls, model: TaskModel, tokenizer: Tokenizer, task: Task) -> "FineTuned":
        """Let a model answer what its task asks."""
        return cls(model, tokenizer, task.name, task.kind, task.labels, pairs=task.pairs)

    def answer(self, examples: Sequence[Any]) -> list[Answer]:
        """Answer examples; their labels are not looked at."""
        kind = self.model.kind
        items = kind.encode(examples, self.tokenizer, self.max_length)
        return kind.answers(examples, items, score_items(self.model, items))

    def ask(self, *texts: str) -> Answer:
        """Answer about bare texts; raise ValueError as `example` does."""
        return self.answer([self.example(*texts)])[0]

    def example(self, *texts: str) -> Choice | Example | Question | Tagged:
        """Make bare texts an example, whose label says nothing.

        One text to classify or to rate, or two if the task is about pairs; a question and a text to
        find its answer in; a sentence to tag; a beginning and its endings to choose from.
        Raises ValueError for too few or too many texts for this kind of task, or an empty one.
        """
        fewest, most, usage = _USAGE["pairs" if self.pairs else self.kind]
        if not fewest <= len(texts) <= most:
            raise ValueError(f"{usage}, not {len(texts)}")
        if not all(isinstance(text, str) and text.strip() for text in texts):
            raise ValueError("a text is empty, or is not a text")
        if self.kind == "span":
            return Question("asked", texts[0], texts[1], ())
        if self.kind == "tagging":
            words = split_words(texts[0])
            return Tagged(words, (self.labels[0],) * len(words))
        # one é, as in the rows of a table that it learned from
        first, *others = (normalize("NFC", text) for text in texts)
        if self.kind == "choice":
            return Choice(first, tuple(others), 0)
        return Example(first, others[0] if self.pairs else None, 0)


_USAGE = {  # fewest and most texts to ask about, in words
    **dict.fromkeys(("classification", "regression"), (1, 1, "give one text")),
    "pairs": (2, 2, "give two texts, in the order in which the task has them"),
    "span": (2, 2, "give two texts: the question, and the text that may hold its answer"),
    "tagging": (1, 1, "give one sentence"),
    "choice": (3, 100, "give a beginning, and two endings or more to choose from"),
}


def save_hugging_face(tuned: FineTuned, folder: Path) -> None:
    """Write a folder for `transformers`; CheckpointError if it cannot express this model."""
    if isinstance(tuned.model.encoder, BertFeatures):
        refuse_inexpressible(tuned.model.encoder.bert.config)
    save_finetuned(tuned, folder)


def save_finetuned(tuned: FineTuned, folder: Path, about: dict[str, Any] | None = None) -> None:
    """Write a folder that `load_finetuned` and, read both ways, `transformers` opens.

    ``about`` goes to `finetuning.json`: recipe, seed, scores. Raises CheckpointError if the encoder
    is not one BERT (an ELMo, a pair, with a BiLSTM), FileError if ``folder`` cannot be written.
    """
    encoder, kind = tuned.model.encoder, tuned.model.kind
    if not isinstance(encoder, BertFeatures):
        raise CheckpointError(
            "only a single BERT with a new layer can be saved; this encoder is a "
            f"{type(encoder).__name__}, which `transformers` does not have"
        )
    bert, (their_class, head) = encoder.bert, _THEIRS[tuned.kind]
    tensors = hugging_face_tensors(bert, "bert.")
    if tuned.kind in _WITHOUT_POOLER:
        tensors = {n: tensor for n, tensor in tensors.items() if ".pooler." not in n}
    for name, tensor in tuned.model.head.state_dict().items():
        tensors[name.replace("classifier.", head)] = tensor
    config = hugging_face_config(bert.config) | {"architectures": [their_class]}
    regression = tuned.kind == "regression"
    if labels := tuned.labels or (("value",) if regression else ()):
        config["id2label"] = {str(i): label for i, label in enumerate(labels)}
        config["label2id"] = {label: i for i, label in enumerate(labels)}
    if regression:
        config["problem_type"] = "regression"
    if bert.config.direction != "bidirectional" or bert.config.norm != "post":
        config["model_type"] = _OURS_ALONE  # `transformers` would open it and say something else
    longest = min(tuned.max_length, bert.config.max_position_embeddings)
    own = config["bertedu"]
    own |= {"task": tuned.task, "kind": tuned.kind, "max_length": longest, "pairs": tuned.pairs}
    if isinstance(kind, QuestionAnswering):
        own["by_character"] = kind.by_character
        if kind.can_be_none:
            own["threshold"] = kind.threshold if math.isfinite(kind.threshold) else None
    more = {"finetuning.json": json.dumps(about, indent=1)} if about is not None else None
    write_folder(folder, tensors, config, tuned.tokenizer, longest, more)


def load_finetuned(folder: Path | str) -> FineTuned:
    """Open what `save_finetuned` wrote; raise CheckpointError if a file is missing or broken."""
    folder = Path(folder)
    values = read_json(folder)
    own = values.get("bertedu")
    if not isinstance(own, dict) or "kind" not in own:
        raise CheckpointError(
            f"{folder} holds no fine-tuned model: `bertedu finetune FILE --out FOLDER` makes one"
        )
    config = read_config(folder, {"bert", _OURS_ALONE})
    tensors, _ = load_tensors(folder / "model.safetensors")
    bert = Bert(replace(config, dropout=0.0))
    absent, _ = load_weights(bert, tensors, str(folder))
    try:
        tokenizer = read_tokenizer(folder, config.vocab_size)
        named = values.get("id2label", {})
        labels = tuple(named[number] for number in sorted(named, key=int))
        _, head = _THEIRS[own["kind"]]
        kind = kind_named(own["kind"], labels, "threshold" in own, bool(own.get("by_character")))
        if isinstance(kind, QuestionAnswering) and own.get("threshold") is not None:
            kind.threshold = own["threshold"]
        model = TaskModel(BertFeatures(bert), kind)
        state = model.head.state_dict()
        for own_name, tensor in state.items():
            name = own_name.replace("classifier.", head)
            state[own_name] = usable(tensors.get(name), tensor.shape, name, str(folder))
        model.head.load_state_dict(state)
        if absent and own["kind"] not in _WITHOUT_POOLER:
            raise ValueError(f"this head reads the {absent[0]}, which is not there")
        model.eval()
        about = own["task"], own["kind"], labels, own["max_length"], own["pairs"]
        return FineTuned(model, tokenizer, *about)
    except Exception as error:  # tokenizers raises nothing narrower
        raise CheckpointError(
            f"{folder}: the files do not fit together ({type(error).__name__}: {error}). Some of "
            "them are broken or from another model: get it or fine-tune it again"
        ) from None


def say_answer(tuned: FineTuned, texts: Sequence[str], answer: Answer) -> str:
    """Put an answer into words, with the probability of a class, for a terminal."""
    said = value_in_words(tuned, texts, answer) or "(no answer)"
    return f"{said} ({max(answer.probabilities):.0%})" if answer.probabilities else said


def value_in_words(tuned: FineTuned, texts: Sequence[str], answer: Answer) -> str:
    """Return the name of a class, a number, the words of an answer, or words with their tags."""
    if tuned.kind == "regression":
        return in_digits(answer.value)
    if tuned.kind == "span":
        return str(answer.value)
    if tuned.kind == "tagging":
        pairs = zip(split_words(texts[0]), answer.value, strict=True)
        return " ".join(word if tag == tuned.labels[0] else f"{word}/{tag}" for word, tag in pairs)
    return (texts[1:] if tuned.kind == "choice" else tuned.labels)[answer.value]


def in_digits(value: float) -> str:
    """Write a number with two decimals, or a small one with three digits that count."""
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"


def answer_table(
    tuned: FineTuned, path: str | Path, columns: Sequence[str], encoding: str = "utf-8"
) -> tuple[list[Row], int]:
    """Return the rows of a table, each with what is predicted of the texts in its ``columns``.

    A row with an empty text is not asked about; also returns how many were. Raises TaskError if
    table or texts do not fit.
    """
    rows: list[Row] = []
    asked: list[tuple[Row, list[str], Any]] = []
    columns = [normalize("NFC", column) for column in columns]
    for line, row in read_table(path, encoding):
        if missing := [column for column in columns if column not in row]:
            known = ", ".join(map(repr, row))
            raise TaskError(f"{path} has no column {missing[0]!r}; it has {known}: --text NAME")
        if taken := {"predicted", "probability"} & {*row}:
            raise TaskError(f"{path} has a column {min(taken)!r} already: rename it, to keep both")
        texts = [row[column] for column in columns]
        rows.append(row | {"predicted": "", "probability": ""})
        if all(text.strip() for text in texts):
            try:
                asked.append((rows[-1], texts, tuned.example(*texts)))
            except ValueError as error:
                raise TaskError(f"{path}, line {line}: {error} (--text once for each)") from None
    if not rows:
        raise TaskError(f"{path} has no row under the names of its columns")
    parts = range(0, len(asked), _TOGETHER)
    for begin in tqdm(parts, desc="answering", unit="row", unit_scale=_TOGETHER):
        some = asked[begin : begin + _TOGETHER]
        answers = tuned.answer([example for _, _, example in some])
        for (row, texts, _), answer in zip(some, answers, strict=True):
            row["predicted"] = value_in_words(tuned, texts, answer)
            if answer.probabilities:
                row["probability"] = f"{max(answer.probabilities):.3f}"
    return rows, len(asked)
