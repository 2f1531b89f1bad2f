"""A model of your own: fine-tuned on `OwnData` until dev stops rising, beside counted words."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertedu.finetuning.evaluation.metrics import Floats, exact_match
from bertedu.finetuning.examples import SPLITS, Choice, Question, Splits, Tagged, Task
from bertedu.finetuning.finetune import Run, Setup, load_encoder, run_once
from bertedu.finetuning.kinds import MAX_LENGTH, Answer, Outcomes
from bertedu.finetuning.own_data import OwnData
from bertedu.finetuning.saving import FineTuned, in_digits, save_finetuned
from bertedu.finetuning.training import Hyperparameters
from bertedu.model.checkpoints import CheckpointError
from bertedu.model.features import BertFeatures

# At most so many rounds of at least so many steps; dev ends it sooner.
UNTIL_DEV_STOPS = Hyperparameters(epochs=40, patience=4, min_steps=30)
DRAWS = 500


@dataclass
class OwnModel:
    """A fine-tuned model, and how it does on the test split beside the baselines."""

    data: OwnData
    model: str
    recipe: Hyperparameters
    run: Run
    answers: dict[str, list[Answer]]  # on test, of the baselines, then of the model
    notes: list[str]  # what was noticed while it was trained

    @property
    def tuned(self) -> FineTuned:
        """The model, ready to be asked."""
        return FineTuned.of(self.run.model, self.run.tokenizer, self.data.task)

    def outcomes(self, name: str) -> Outcomes:
        """Return how each test example came out: (examples, columns of its kind)."""
        return self.run.model.kind.outcomes(self.data.splits["test"], self.answers[name])

    def table(self) -> str:
        """Return a line for each system, with 95 % intervals over texts, and the difference."""
        metric = self.data.task.metric
        drawn = {name: self._drawn(name) for name in self.answers}
        lines = [f"{'test ' + metric:<26}95 % interval over texts"]
        for name, scores in drawn.items():
            lines.append(f"  {name:<17}{scores[0]:7.3f}  {_interval(scores, '.3f')}")
        gap = drawn[self.model] - drawn["word counts"]
        lines.append(f"  {'minus counting':<17}{gap[0]:+7.3f}  {_interval(gap, '+.3f')}")
        return "\n".join(lines)

    def _drawn(self, name: str) -> Floats:
        """Return the test score of a system, then on `DRAWS` draws of whole sources."""
        examples, outcomes = self.data.splits["test"], self.outcomes(name)
        number = {source: i for i, source in enumerate(sorted({e.source for e in examples}))}
        sources = np.array([number[e.source] for e in examples])
        members = [np.flatnonzero(sources == source) for source in range(sources.max() + 1)]
        generator = np.random.default_rng(0)  # the same draws for every system
        some = [np.arange(len(examples))]
        for _ in range(DRAWS):
            picked = generator.integers(len(members), size=len(members))
            some.append(np.concatenate([members[i] for i in picked]))
        metrics = self.run.model.kind.metrics
        return np.array([metrics(outcomes[chosen])[self.data.task.metric] for chosen in some])

    def worst(self, count: int = 10) -> list[str]:
        """Return the test examples that it got most wrong: truth, answer and text."""
        examples, answers = self.data.splits["test"], self.answers[self.model]
        costs = [_cost(example, answer) for example, answer in zip(examples, answers, strict=True)]
        order = sorted(range(len(costs)), key=lambda i: -costs[i])[:count]
        lines = [self._line(examples[i], answers[i]) for i in order if costs[i] > 0]
        return [line if len(line) <= 240 else f"{line[:239]}…" for line in lines]

    def _line(self, example: Any, answer: Answer) -> str:
        if isinstance(example, Question):
            right = " | ".join(text for text, _ in example.answers) or "no answer"
            return f"{right!r}, said {answer.value!r}: {example.question}"
        if isinstance(example, Tagged):
            words = zip(example.words, example.tags, answer.value, strict=True)
            return " ".join(w if t == a else f"{w}[{t}, said {a}]" for w, t, a in words)
        if isinstance(example, Choice):
            right, said = (example.endings[int(i)] for i in (example.label, answer.value))
            return f"{right!r}, said {said!r}: {example.text}"
        labels = self.data.task.labels
        right, said = (
            labels[int(value)] if labels else in_digits(value)
            for value in (example.label, answer.value)
        )
        return f"{right}, said {said}: {' | '.join(example.texts)}"

    def try_it(self, folder: str | Path) -> str:
        """Return a command that asks the saved model about the shortest test example."""
        texts = min((e.texts for e in self.data.splits["test"]), key=lambda t: sum(map(len, t)))
        dashes = ["--"] * any(text.startswith("-") for text in texts)  # no option
        return shlex.join(["bertedu", "predict", str(folder), *dashes, *texts])

    def save(self, folder: str | Path) -> None:
        """Write a folder that `bertedu predict` and `transformers` open.

        Raises CheckpointError if it cannot be written.
        """
        metric, metrics = self.data.task.metric, self.run.model.kind.metrics
        scores = {name: float(metrics(self.outcomes(name))[metric]) for name in self.answers}
        about = {"data": self.data.notes, "from": self.model, "dev": self.run.history.dev}
        save_finetuned(self.tuned, Path(folder), about | {"test": {metric: scores}})


def fit(
    data: OwnData,
    model: str = "bert-mini",
    learning_rate: float | None = None,
    seed: int = 0,
    device: str | None = None,
    progress: bool = True,
    lora: int | None = None,
) -> OwnModel:
    """Fine-tune a model on your data until dev stops rising, and test it beside the baselines.

    ``learning_rate``: none is the middle of those that suit the model. ``lora``: the rank of the
    thin products that learn in place of the encoder (Hu et al. 2021); none: all of it learns.
    Raises what `run_once` does, and CheckpointError for a model that could not be saved after it.
    """
    from bertedu.finetuning.evaluation.baselines import BASELINES, baseline_answers

    task, splits, setup = data.task, data.splits, Setup(model, device=device, lora=lora)
    if not isinstance(load_encoder(model)[0], BertFeatures):
        raise CheckpointError(f"{model} is no single BERT; no other is saved: --from bert-mini")
    rate = setup.rates[1] if learning_rate is None else learning_rate
    few = len(splits["train"]) < 1000  # then smaller batches: more steps in an epoch
    recipe = replace(UNTIL_DEV_STOPS, learning_rate=rate, seed=seed, batch_size=16 if few else 32)
    answers = {name: baseline_answers(name, task, splits)["test"] for name in BASELINES}
    if task.kind == "regression":
        run = _learned_in_any_unit(task, splits, setup, recipe, progress)
    else:
        run = run_once(task, splits, setup, recipe, progress=progress)
    notes = [*_cut(data, run), *_unknown(data, run)]
    return OwnModel(data, model, recipe, run, answers | {model: run.answers["test"]}, notes)


def _learned_in_any_unit(
    task: Task, splits: Splits, setup: Setup, recipe: Hyperparameters, progress: bool
) -> Run:
    """Learn values of mean 0 and deviation 1, then let the last layer answer in their own unit.

    A new layer answers near 0, whatever the text: prices in thousands would be out of its reach.
    """
    values = [example.label for example in splits["train"]]
    mean, deviation = float(np.mean(values)), float(np.std(values)) or 1.0
    scaled: Splits = {
        split: [replace(e, label=(e.label - mean) / deviation) for e in some]
        for split, some in splits.items()
    }
    run = run_once(task, scaled, setup, recipe, progress=progress)
    last: Any = run.model.head
    with torch.no_grad():
        last.classifier.weight.mul_(deviation)
        last.classifier.bias.mul_(deviation).add_(mean)
    answers = {
        split: [replace(a, value=a.value * deviation + mean) for a in some]
        for split, some in run.answers.items()
    }
    return replace(run, answers=answers)


def _unknown(data: OwnData, run: Run) -> list[str]:
    """Say so if the vocabulary lacks the words of the texts, as of another script."""
    rows = [run.tokenizer.encode(" ".join(e.texts)).tokens for e in data.splits["train"]]
    share = sum(row.count("[UNK]") for row in rows) / sum(map(len, rows))
    said = f"{share:.0%} of the word pieces are [UNK]: the model was not made for such texts"
    return [f"{said}; --from names another"] if share > 0.1 else []


def _cut(data: OwnData, run: Run) -> list[str]:
    """Say how many texts were longer than what is read of them; long contexts are read in parts."""
    examples = [e for split in SPLITS for e in data.splits[split] if not isinstance(e, Question)]
    longer = 0
    for example in examples:
        first, *others = example.texts  # of a choice: the beginning with each of its endings
        rows = [run.tokenizer.encode(first, other) for other in others or [None]]
        longer += any(len(row) > MAX_LENGTH for row in rows)
    some = f"{longer} of {len(examples)} texts are longer than {MAX_LENGTH} word pieces"
    return [f"{some}: what comes after is not read"] if longer else []


def _interval(scores: Floats, form: str) -> str:
    low, high = np.quantile(scores[1:], [0.025, 0.975])
    return f"{low:{form}} to {high:{form}}" if low < high else "not known from so few"


def _cost(example: Any, answer: Answer) -> float:
    """Say how wrong an answer is: 0 if it is right."""
    if isinstance(example, Question):
        right = [text for text, _ in example.answers] or [""]
        wrong = not any(exact_match(str(answer.value), text) for text in right)
        return float(wrong) * (1 + abs(answer.no_answer))
    if isinstance(example, Tagged):
        return float(sum(t != a for t, a in zip(example.tags, answer.value, strict=True)))
    if answer.probabilities:  # the less it gave the truth, the worse
        return float(answer.value != example.label) * (2 - answer.probabilities[int(example.label)])
    return float(abs(answer.value - example.label))
