"""What every kind of task keeps: transformers' numbers, a mean loss, answers that scores say."""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import pearsonr, spearmanr
from seqeval import metrics as seqeval_metrics
from seqeval.scheme import IOB2
from sklearn.metrics import f1_score, matthews_corrcoef
from tiny_kinds import (
    CONTEXT,
    EXAMPLES,
    SENTENCES,
    TAGS,
    TASKS,
    TOKENIZER,
    answers,
    assert_same,
    encoded,
    make_kind,
    named,
    save,
    scores_and_loss,
    theirs_of,
    tiny,
    tuned,
)

import bertedu
from bertedu.finetuning.evaluation.metrics import squad_scores
from bertedu.finetuning.examples import AnyExample, Choice, Example, Question, Tagged, TaskError
from bertedu.finetuning.kinds import NO_TARGET, Answer, Classification, Kind, Regression, collate
from bertedu.finetuning.saving import load_finetuned
from bertedu.finetuning.tagging import Tagging, first_pieces
from bertedu.finetuning.training import score_items

# kind -> (class of transformers, what one example weighs in the loss)
CONTRACT: dict[str, tuple[str, Any]] = {
    "classification": ("SequenceClassification", lambda e: 1),
    "regression": ("SequenceClassification", lambda e: 1),
    "choice": ("MultipleChoice", lambda e: 1),
    "tagging": ("TokenClassification", lambda e: len(e.words)),
    "span": ("QuestionAnswering", lambda e: len(make_items("span", [e]))),
}
kinds = pytest.mark.parametrize("name", CONTRACT)
LONGER: dict[str, AnyExample] = {
    "classification": Example(CONTEXT, SENTENCES[3], 2),
    "regression": Example(CONTEXT, SENTENCES[3], 2),
    "choice": Choice(CONTEXT, SENTENCES[1:], 1),
    "tagging": Tagged(tuple(CONTEXT.split()), ("O",) * len(CONTEXT.split())),
    "span": Question("longer", SENTENCES[3], CONTEXT, ()),
}


def make_items(name: str, examples: Sequence[AnyExample], length: int = 128) -> list[Any]:
    return make_kind(name).encode(examples, TOKENIZER, length)


# -- scores and loss


@kinds
@pytest.mark.parametrize("rows", [1, 4])
def test_scores_and_loss_are_those_of_transformers(name: str, rows: int, tmp_path: Path) -> None:
    """Saved as `finetune` does; and exported, read again and exported once more."""
    transformers = pytest.importorskip("transformers")
    model, batch = tiny(make_kind(name)), encoded(make_kind(name), EXAMPLES[name][:rows])
    if rows == 1:
        save(model, name, tmp_path)
    else:
        bertedu.save_hugging_face(tuned(model, name), tmp_path)
        bertedu.save_hugging_face(load_finetuned(tmp_path), tmp_path)
    theirs = theirs_of(tmp_path, getattr(transformers, f"AutoModelFor{CONTRACT[name][0]}"))
    assert theirs.config.problem_type == ("regression" if name == "regression" else None)
    if names := ("value",) if name == "regression" else TASKS[name].labels:
        assert theirs.config.id2label == dict(enumerate(names))
        assert theirs.config.label2id == {label: i for i, label in enumerate(names)}
    given, labels = named(batch), {"labels": batch.target}
    if name == "choice":
        given = {key: value.view(len(batch.target), 3, -1) for key, value in given.items()}
    if name == "span":
        labels = dict(zip(("start_positions", "end_positions"), batch.target.T, strict=True))
    scores, loss = scores_and_loss(model, batch)
    with torch.no_grad():
        out = theirs(**given, **labels)
    real = batch.padding_mask
    if name == "span":
        scores, expected = scores.movedim(1, 2), torch.stack((out.start_logits, out.end_logits), 2)
    else:
        expected = out.logits
    if name in ("span", "tagging"):
        scores, expected = scores[real], expected[real]
    assert_same(scores, expected)
    if name != "span" or real.all():  # theirs lets padding take part of the probability
        assert_same(loss, out.loss)


@kinds
def test_the_loss_is_a_mean_over_what_is_asked(name: str) -> None:
    model, examples = tiny(make_kind(name)), EXAMPLES[name]
    weights = [CONTRACT[name][1](e) for e in examples]
    alone = [float(scores_and_loss(model, encoded(model.kind, [e]))[1]) for e in examples]
    together = float(scores_and_loss(model, encoded(model.kind, examples))[1])
    assert together == pytest.approx(np.average(alone, weights=weights), rel=1e-4)


@kinds
def test_downhill_the_target_rises_and_all_others_fall(name: str) -> None:
    kind = make_kind(name)
    batch = encoded(kind, EXAMPLES[name])
    scores = tiny(kind)(batch).detach().requires_grad_()
    (slope,) = torch.autograd.grad(kind.loss(scores, batch), scores)
    if name == "regression":
        assert torch.equal(slope[:, 0] > 0, scores[:, 0] > batch.target)
        return
    rows, target = slope.flatten(0, -2), batch.target.flatten()
    asked = target >= 0
    right = torch.zeros_like(rows[asked]).bool().scatter(1, target[asked][:, None], True)
    assert (rows[asked][right] < 0).all()
    assert (rows[asked][~right] >= 0).all()
    assert (rows[~asked] == 0).all()


@kinds
def test_a_longer_neighbor_and_what_stands_in_the_padding_change_no_score(name: str) -> None:
    model = tiny(make_kind(name))
    first, longer = (make_items(name, [e])[0] for e in (EXAMPLES[name][0], LONGER[name]))
    assert longer.length > first.length + 15
    with torch.no_grad():
        alone = model(collate([first]))[0]
        batch = collate([first, longer])
        padding = ~batch.padding_mask
        assert not batch.ids[padding].any()
        assert not batch.segment_ids[padding].any()
        found = [model(batch)[0], model(collate([longer, first]))[1]]
        batch.ids[padding], batch.segment_ids[padding] = 99, 1
        found.append(model(batch)[0])
        batch.padding_mask[:] = True  # taken for tokens, they would matter
        taken = model(batch)[0]
    if name == "tagging":
        found, taken = [one[: first.length] for one in found], taken[: first.length]
    if name == "span":
        assert (found[0].softmax(-1)[:, first.length :] == 0).all()
        found, taken = [one[:, : first.length] for one in found], taken[:, : first.length]
    for one in found:
        assert_same(one, alone)
    assert (taken - alone).abs().max() > 1e-3


def test_a_batch_without_a_word_to_tag_has_loss_zero() -> None:
    """The mean of nothing is NaN, and one NaN spoils every weight."""
    model = tiny(make_kind("tagging"))
    batch = encoded(model.kind, [Tagged(("\u200b",), ("O",))])
    assert model.kind.loss(model(batch), batch).item() == 0


# -- rows


@kinds
def test_rows_are_as_long_as_asked_and_no_longer(name: str) -> None:
    examples = [*EXAMPLES[name], LONGER[name]]
    for length in (8, 9, 16, 21, 40, 57):
        items = make_items(name, examples, length)
        assert max(item.length for item in items) == length
        numbers = [item.example for item in items]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(len(examples)))
    for short in (-1, 0, 7):
        with pytest.raises(TaskError, match=f"max_length {short} is too short"):
            make_items(name, examples, short)


def test_two_texts_are_one_row_with_segments_and_the_longer_is_cut() -> None:
    row = TOKENIZER.encode("One.", "Two.")
    for item in (
        make_items("classification", [Example("One.", "Two.", 0)])[0],
        make_items("choice", [Choice("One.", ("Two.", "Three."), 1)])[0],
    ):
        batch = collate([item])
        assert batch.ids[0].tolist() == row.ids
        assert batch.segment_ids[0].tolist() == row.type_ids
    assert item.target == 1
    short = TOKENIZER.encode(SENTENCES[2], add_special_tokens=False).ids
    for pair in ((SENTENCES[2], CONTEXT), (CONTEXT, SENTENCES[2])):
        (item,) = make_items("classification", [Example(*pair, 0)], 24)
        segment, (cut,) = pair.index(SENTENCES[2]), item.rows
        kept = [i for i, s in zip(cut.ids, cut.sequence_ids, strict=True) if s == segment]
        assert kept == short


def test_targets_of_a_regression_are_numbers_with_a_fraction() -> None:
    batch = encoded(Regression(), [Example("Two.", None, 2), Example("One.", None, True)])
    assert (batch.target.dtype, batch.target.tolist()) == (torch.float32, [2, 1])


def test_unequal_numbers_of_endings_are_refused() -> None:
    """Two and four make six rows, and six rows also make two times three."""
    examples = [Choice("One.", ("A.", "B."), 1), Choice("Two.", ("A.", "B.", "C.", "D."), 3)]
    with pytest.raises(TaskError, match="2 endings and another 4"):
        make_items("choice", examples)


# one piece; several; punctuation inside; no piece at all; spaces; a special token's name
WORDS = ("the", "unbelievably", "don't", "\u200b\u200e", "New York", "[MASK]")
TRUTH = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-PER")
FIRSTS = {0: "the", 1: "unb", 2: "don", 4: "new", 5: "[MASK]"}


def test_the_first_piece_of_a_word_carries_its_tag_alone() -> None:
    """Neither the target nor the answer knows of any other piece."""
    kind, example = make_kind("tagging"), Tagged(WORDS, TRUTH)
    (item,) = kind.encode([example], TOKENIZER, 128)
    (row,) = item.rows
    firsts = first_pieces(row)
    assert {word: row.tokens[place] for word, place in firsts.items()} == FIRSTS
    tagged = {place: TAGS.index(TRUTH[word]) for word, place in firsts.items()}
    assert item.target == [tagged.get(place, NO_TARGET) for place in range(len(row.ids))]
    dice = torch.Generator().manual_seed(0)
    scores = torch.randn(len(row.ids), len(TAGS), generator=dice)
    for place, tag in tagged.items():
        scores[place, tag] = 10
    (answer,) = kind.answers([example], [item], [scores])
    assert answer.value == tuple(
        tag if word in FIRSTS else TAGS[0] for word, tag in enumerate(TRUTH)
    )


def test_words_that_are_cut_off_get_the_first_tag_and_count_as_missed() -> None:
    example, kind = Tagged(("mira",) * 12, ("B-PER",) * 12), make_kind("tagging")
    (item,) = kind.encode([example], TOKENIZER, 10)
    kept = len(first_pieces(item.rows[0]))
    scores = torch.zeros(item.length, len(TAGS))
    scores[:, TAGS.index("B-PER")] = 1
    (answer,) = kind.answers([example], [item], [scores])
    assert 0 < kept < 12
    assert answer.value == ("B-PER",) * kept + ("O",) * (12 - kept)
    assert kind.outcomes([example], [answer]).tolist() == [[kept, kept, 12]]


# -- answers


@pytest.mark.parametrize("name", ["classification", "regression", "choice"])
@pytest.mark.parametrize("seed", [1, 2])
def test_an_answer_is_what_its_scores_say(name: str, seed: int) -> None:
    """Of tags, above; of spans: `test_question_answering.py`."""
    model, examples = tiny(make_kind(name), seed=seed), [*EXAMPLES[name], LONGER[name]]
    scores = score_items(model, make_items(name, examples))
    found = answers(model, examples)
    for score, answer in zip(scores, found, strict=True):
        if name == "regression":
            assert answer == Answer(float(score))
        else:
            expected = np.exp(score.numpy()) / np.exp(score.numpy()).sum()
            assert answer.probabilities == pytest.approx(tuple(expected))
            assert answer.value == max(range(3), key=answer.probabilities.__getitem__)
    assert len({repr(answer) for answer in found}) > 1


# -- from answers to scores


def judged(name: str, rng: random.Random) -> tuple[list[Any], list[Answer]]:
    """Random truths, and answers that are right about half of the time."""
    made: list[Any] = []
    found: list[Answer] = []
    for n in range(rng.randint(3, 40)):
        sure, a, b = rng.random() < 0.5, rng.randrange(3), rng.randrange(3)
        if name == "tagging":
            tags = tuple(rng.choice(TAGS) for _ in range(rng.randint(1, 14)))
            said: Any = tuple(rng.choice(TAGS) if rng.random() < 0.2 else tag for tag in tags)
            made.append(Tagged(("x",) * len(tags), tags))
        elif name == "span":
            text, said = (rng.choice(["Mira", "the gate", "1987", ""]) for _ in range(2))
            place = ((text, CONTEXT.index(text)),) if text else ()
            made.append(Question(str(n), "?", CONTEXT, place))
        elif name == "regression":
            made.append(Example("x", None, float(a) + rng.random()))
            said = made[-1].label + rng.random()
        else:
            made.append(
                Choice("x", ("a", "b", "c"), a) if name == "choice" else Example("x", None, a)
            )
            said = a if sure else b
        found.append(Answer(said))
    return made, found


def expected_scores(name: str, made: list[Any], found: list[Answer]) -> dict[str, float]:
    values: Any = [answer.value for answer in found]
    if name == "tagging":
        tags = [list(e.tags) for e in made], [list(v) for v in values]
        how: Any = {"mode": "strict", "scheme": IOB2, "zero_division": 0}
        measures = ("f1", "precision", "recall")
        return {m: getattr(seqeval_metrics, f"{m}_score")(*tags, **how) for m in measures}
    if name == "span":
        said = {e.name: v for e, v in zip(made, values, strict=True)}
        return {key: value / 100 for key, value in squad_scores(made, said).items()}
    pair = [e.label for e in made], values
    if name == "regression":
        return {"pearson": pearsonr(*pair)[0], "spearman": spearmanr(*pair)[0]}
    scores = {
        "accuracy": float(np.equal(*pair).mean()),
        "macro_f1": f1_score(*pair, average="macro"),
        "matthews": matthews_corrcoef(*pair),
    }
    if {*pair[0], *values} <= {0, 1}:
        scores["binary_f1"] = f1_score(*pair)
    return scores


@kinds
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore")
def test_outcomes_of_any_part_score_as_the_library_scores_it(name: str, seed: int) -> None:
    rng, kind = random.Random(seed), make_kind(name)
    made, found = judged(name, rng)
    outcomes = kind.outcomes(made, found)
    assert outcomes.shape == (len(made), len(kind.columns))
    if kind.columns[1:] == ("found",):  # every measure here forgives a swap
        assert outcomes.T.tolist() == [[e.label for e in made], [a.value for a in found]]
    for part in (range(len(made)), range(3), range(1), rng.choices(range(len(made)), k=20)):
        some = [made[i] for i in part]
        if name == "span":
            some = [dataclasses.replace(e, name=str(n)) for n, e in enumerate(some)]
        if name == "regression" and len(part) == 1:
            expected = {"pearson": 0.0, "spearman": 0.0}
        else:
            expected = expected_scores(name, some, [found[i] for i in part])
        scores = kind.metrics(outcomes[list(part)])
        assert scores == pytest.approx({m: np.nan_to_num(v) for m, v in expected.items()})


def scores_of(kind: Kind, *columns: list[float]) -> dict[str, float]:
    return kind.metrics(np.array(columns, float).T)


@pytest.mark.filterwarnings("ignore")
def test_where_all_is_the_same_a_score_is_a_number() -> None:
    for found in ([5, 5, 5], [1, 2, 3]):
        same = scores_of(Regression(), [3, 3, 3], found)
        assert same == scores_of(Regression(), found, [3, 3, 3]) == {"pearson": 0, "spearman": 0}
    assert scores_of(Regression(), [0, 0, 1], [1, 1, 2])["pearson"] == pytest.approx(1)
    assert scores_of(Classification(()), [1, 1], [1, 1])["matthews"] == 0
    assert scores_of(Classification(()), [0, 0], [0, 0])["binary_f1"] == 0
    assert scores_of(Tagging(TAGS), [0], [0], [0]) == {"f1": 0, "precision": 0, "recall": 0}
    always = scores_of(Classification(()), [0] * 9 + [1], [0] * 10)
    assert always["macro_f1"] < 0.5, "always the same class must not look good"
