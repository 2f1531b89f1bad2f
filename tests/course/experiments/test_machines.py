"""The study of machines: its texts ask what they say, and every arm was run."""

import torch

from bertedu.files import read_csv
from bertedu.model.bert import BertForPreTraining
from bertedu.text.sources import shipped
from bertedu.text.tokenization import CLS_ID, MASK_ID
from course.experiments import machines
from course.experiments.machines import ARMS, BACK, FIRST, HOW, NAMES, WORDS, echo_texts, name_texts


def dice(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_text_holds_one_name_and_one_blank_that_asks_for_it() -> None:
    ids, selected, answers = name_texts(dice(), 500, 40)
    names = (ids >= FIRST) & (ids < FIRST + NAMES)
    assert (names.sum(dim=1) == 1).all()
    assert torch.equal(ids[names], answers)
    assert torch.equal(selected, ids == MASK_ID)
    assert (selected.sum(dim=1) == 1).all()
    assert (ids[:, 0] == CLS_ID).all()
    away = (names.nonzero()[:, 1] - selected.nonzero()[:, 1]).abs()
    assert away.min() == 1
    assert away.max() > 35
    assert set(answers.tolist()) == set(range(FIRST, FIRST + NAMES))


def test_a_blank_asks_for_a_word_that_can_be_seen_three_places_before() -> None:
    ids, selected, answers = echo_texts(dice(), 200, 30)
    rows, columns = selected.nonzero(as_tuple=True)
    assert torch.equal(ids[rows, columns - BACK], answers)
    assert columns.min() >= BACK
    assert (ids[selected] == MASK_ID).all()
    assert answers.max() < FIRST + WORDS
    assert (ids[~selected] >= FIRST).all()


def test_every_arm_reads_its_texts_at_every_length() -> None:
    for experiment, arms in ARMS.items():
        _, texts, _ = HOW[experiment]
        for arm, (make, config) in arms.items():
            ids, selected, answers = texts(dice())
            model: BertForPreTraining = make(config)
            scores, _ = model(ids, selected=selected)
            assert scores.shape == (len(answers), config.vocab_size), (experiment, arm)
            assert answers.max() < config.vocab_size
            if experiment in ("echo", "name"):
                longest = texts(dice(), 2, 4 * machines.LENGTH)[0]
                model(longest)


def test_every_arm_was_run_and_every_finding_has_three_seeds() -> None:
    rows = read_csv(shipped("results") / "machines.csv")
    runs = {(row["experiment"], row["arm"]) for row in rows}
    assert runs == {(experiment, arm) for experiment, arms in ARMS.items() for arm in arms}
    measured = [(row["experiment"], row["arm"], row["seed"], row["measure"]) for row in rows]
    assert len(measured) == len(set(measured))
    assert {(row["experiment"], row["arm"], row["seed"]) for row in rows} == {
        (*run, str(seed)) for run in runs for seed in range(3)
    }
