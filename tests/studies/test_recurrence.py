"""Translations, pairs and their limits, the counting of steps, and the committed runs."""

import math
from pathlib import Path

import pytest
import torch

from bertedu.model.evaluating import evaluating
from bertedu.results.files import read_csv
from bertedu.studies import recurrence
from bertedu.studies.recurrence import (
    ASKED,
    FIRST,
    KEYS,
    LONGEST,
    MEMORIES,
    PAIRS,
    SEGMENT,
    TRANSLATORS,
    WORDS,
    draw_pairs,
    draw_translations,
    findings,
    make_translator,
    recall_limit,
    score_translator,
    steps_in_a_row,
    train_reader,
    train_translator,
    value_losses,
)
from bertedu.text.sources import shipped
from bertedu.text.tokenization import CLS_ID, PAD_ID, SEP_ID

ROWS = read_csv(shipped("results") / "recurrence.csv")


def test_a_target_is_the_source_turned_around_in_other_words() -> None:
    sources, targets = draw_translations(200, 1, 6, torch.Generator().manual_seed(0))
    dictionary: dict[int, int] = {}
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        words = [w for w in source if w != PAD_ID]
        assert source == words + [PAD_ID] * (6 - len(words))
        assert target[0] == CLS_ID
        assert target[len(words) + 1 :] == [SEP_ID] + [PAD_ID] * (6 - len(words))
        for word, other in zip(words, reversed(target[1 : len(words) + 1]), strict=True):
            assert dictionary.setdefault(word, other) == other
    assert set(dictionary) == set(range(FIRST, FIRST + WORDS))
    assert set(dictionary.values()) == set(range(FIRST + WORDS, FIRST + 2 * WORDS))


def test_the_limit_is_what_a_reader_by_heart_pays() -> None:
    """Who writes down all pairs that it has seen, and guesses among all values otherwise."""
    ids = draw_pairs(3000, 2, torch.Generator().manual_seed(0)).view(3000, 2, PAIRS, 2).tolist()
    for memory in (0, SEGMENT):
        paid = torch.zeros(PAIRS)
        for first, second in ids:
            known = dict(first) if memory else {}
            for pair, (key, value) in enumerate(second):
                paid[pair] += 0 if key in known else math.log(KEYS)
                assert known.setdefault(key, value) == value
        limits = torch.tensor([recall_limit(pair, 1, memory) for pair in range(PAIRS)])
        torch.testing.assert_close(paid / 3000, limits, atol=0.06, rtol=0)


def test_the_steps_of_a_recurrence_grow_with_the_length_and_those_of_attention_do_not() -> None:
    x = torch.ones((), requires_grad=True)
    assert steps_in_a_row(x.exp().sin() + x.cos()) == 4  # add, sin, exp, and where x is written
    counts = {
        name: [
            steps_in_a_row(make_translator(name).encode(torch.full((2, n), FIRST))) for n in (3, 6)
        ]
        for name in ("Transformer", "GRUs")
    }
    assert counts["Transformer"][0] == counts["Transformer"][1]
    assert counts["GRUs"][1] > 1.7 * counts["GRUs"][0]


def test_translators_are_of_one_size_and_learn() -> None:
    sizes = [sum(p.numel() for p in make_translator(name).parameters()) for name in TRANSLATORS]
    assert max(sizes) < 1.02 * min(sizes)
    model, spent = train_translator("Transformer", 0, steps=60, longest=1)
    exact, shares = score_translator(model, 1)
    assert exact > 0.9
    assert torch.allclose(shares, torch.ones(2, 4))  # of one word
    assert spent["tokens"] == 60 * 64 * (1 + 2)


def test_what_a_reader_pays_does_not_move_with_the_value_itself() -> None:
    model, spent = train_reader(SEGMENT, 0, steps=1)
    assert spent["tokens"] % (64 * SEGMENT) == 0
    ids = draw_pairs(2, 2, torch.Generator().manual_seed(1))
    other = ids.clone()
    other[:, -1] = FIRST + KEYS + (ids[:, -1] - FIRST - KEYS + 1) % KEYS
    with evaluating(model):
        before, after = value_losses(model, ids), value_losses(model, other)
    torch.testing.assert_close(before[:, :-1], after[:, :-1])
    assert not torch.allclose(before[:, -1], after[:, -1])


def test_rows_that_are_there_are_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[object, int]] = []

    def rows(run: object, seed: int) -> list[dict[str, object]]:
        made.append((run, seed))
        return [{"model": run if isinstance(run, str) else f"memory {run}", "seed": seed}]

    monkeypatch.setattr(recurrence, "_translation_rows", rows)
    monkeypatch.setattr(recurrence, "_memory_rows", rows)
    monkeypatch.setattr(recurrence, "compare_steps", lambda length: {"length": length})
    for seeds in (1, 2, 2):
        recurrence.main(tmp_path / "recurrence.csv", seeds)
    assert made == [(run, seed) for seed in (0, 1) for run in (*TRANSLATORS, *MEMORIES)]


def test_the_committed_runs_keep_to_their_limits() -> None:
    memory = [row for row in ROWS if row["experiment"] == "memory"]
    assert len({row["seed"] for row in memory}) >= 3
    for row in memory:
        at, segment, pair = int(row["at_test"]), int(row["segment"]) - 1, int(row["pair"]) - 1
        assert segment in ASKED
        assert float(row["limit"]) == round(recall_limit(pair, segment, at), 4)
        past = recall_limit(pair, segment, 2 * PAIRS * segment if at else 0)
        assert float(row["loss"]) > past - 0.1  # of 1,000 texts


def test_the_committed_findings_are_of_all_seeds() -> None:
    transformer, memory = findings(shipped("results"))
    lines = [r for r in ROWS if r["model"] == "GRUs" and r["length"] == str(LONGEST)]
    assert transformer.runs == len(lines) >= 3
    assert memory.runs >= 3
    assert transformer.low <= transformer.value <= transformer.high
