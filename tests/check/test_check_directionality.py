"""The checks of notebook 13: reach, together, the interval of a difference, a claim, and a test."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import assert_named_alone, verdict, words

from bertedu.check import ablation_directionality as check
from bertedu.check.ablation_directionality import (
    CLAIM,
    DIFFERENCE_INTERVAL,
    LONGEST,
    REACH,
    READER_MUSEUM,
    RIGHT_READERS,
    TOGETHER,
    States,
    play_reader,
    right_claim,
    right_difference_interval,
    right_look_ahead_test,
    right_reach,
    right_together,
)
from bertedu.finetuning import report
from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction

Wrong = Callable[..., Any]
Planted = list[tuple[Wrong, str]]


def assert_rejected(name: str, wrong: Wrong, text: str) -> None:
    said = words(verdict(getattr(check, name), wrong))
    assert said.startswith(f"✗ {name}: ")
    assert text in said


# -- the readers to play with

IDS = torch.arange(5, 17)[None]  # 12 tokens, no two alike


@pytest.mark.parametrize(
    ("kind", "direction"),
    [
        ("bert", "bidirectional"),
        ("left to right", "left-to-right"),
        ("right to left", "right-to-left"),
    ],
)
def test_a_play_reader_reads_what_its_direction_allows(kind: str, direction: Direction) -> None:
    allowed = attention_mask(torch.ones_like(IDS).bool(), direction)  # (1, 1, query, key)
    sees = torch.ones(12, 12).bool() if allowed is None else allowed[0, 0]
    assert torch.equal(right_reach(play_reader(kind), IDS, 99), sees)


def test_a_pair_is_its_two_halves_side_by_side_and_reaches_as_far_as_bert() -> None:
    pair = play_reader("pair")
    halves = [play_reader(kind)(IDS) for kind in ("left to right", "right to left")]
    assert torch.equal(pair(IDS), torch.cat(halves, dim=-1))
    assert right_reach(pair, IDS, 99).all()


def test_play_readers_are_the_same_each_time_and_draw_nothing() -> None:
    check._bert.cache_clear()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = play_reader("bert")(IDS)
    assert torch.equal(torch.get_rng_state(), before)
    check._bert.cache_clear()
    torch.manual_seed(4)
    assert torch.equal(play_reader("bert")(IDS), first)
    assert not first.requires_grad


def test_what_cannot_be_read_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="choose one of bert, left to right, right to left, pair"):
        play_reader("gpt")
    for reader in [play_reader("pair"), *(states for _, states in RIGHT_READERS)]:
        with pytest.raises(ValueError, match="ids must be"):
            reader(IDS[0])
        with pytest.raises(ValueError, match="outside 0 to 99"):
            reader(IDS + 90)
        with pytest.raises(ValueError, match="there are position embeddings for 32"):
            reader(torch.zeros(1, LONGEST + 1).long())


# -- reach


def reach_in_one_batch(states: States, ids: Tensor, new_id: int) -> Tensor:
    """Right: a row for each change, so that the batch is S."""
    length = ids.shape[1]
    changed = ids.repeat(length, 1)
    changed[range(length), range(length)] = new_id
    return ((states(changed) - states(ids)).abs().amax(dim=-1) > 1e-4).T


def reach_by_loops(states: States, ids: Tensor, new_id: int) -> list[list[bool]]:
    before = states(ids)[0].tolist()
    table = []
    for j in range(ids.shape[1]):
        row = ids[0].tolist()
        row[j] = new_id
        after = states(torch.tensor([row]))[0].tolist()
        table.append(
            [
                any(abs(x - y) > 1e-4 for x, y in zip(a, b, strict=True))
                for a, b in zip(after, before, strict=True)
            ]
        )
    return [list(row) for row in zip(*table, strict=True)]


def reach_by_where(states: States, ids: Tensor, new_id: int) -> Any:
    place, rows = torch.arange(ids.shape[1]), []
    for j in place:
        after = states(torch.where(place == j, new_id, ids))[0]
        rows.append((after - states(ids)[0]).norm(dim=-1) > 1e-4)
    return torch.stack(rows, dim=-1).numpy()


def reach_by_closeness(states: States, ids: Tensor, new_id: int) -> Tensor:
    columns = []
    for i in range(ids.shape[1]):
        column = []
        for j in range(ids.shape[1]):
            changed = torch.cat([ids[:, :j], torch.tensor([[new_id]]), ids[:, j + 1 :]], dim=1)
            column.append(
                not torch.allclose(states(changed)[:, i], states(ids)[:, i], rtol=0, atol=1e-4)
            )
        columns.append(torch.tensor(column))
    return torch.stack(columns)


@pytest.mark.parametrize(
    "f",
    [right_reach, reach_in_one_batch, reach_by_loops, reach_by_where, reach_by_closeness],
)
def test_right_reaches_pass(f: Wrong) -> None:
    assert verdict(check.reach, f).startswith("✓ reach: 23 cases")


def test_no_case_of_reach_is_near_the_limit() -> None:
    """Any sensible limit, from 1e-5 to 2e-3, gives the same answers; and some cases do round."""
    rounding = 0.0
    for states, ids, new_id in REACH.cases():
        assert new_id not in ids
        for j in range(ids.shape[1]):
            changed = ids.clone()
            changed[0, j] = new_id
            moved = (states(changed) - states(ids)).abs().amax(dim=-1)
            assert ((moved < 1e-5) | (moved > 2e-3)).all()
            rounding = max([rounding, *moved[moved < 1e-5].tolist()])
    assert rounding > 1e-6


def piled(states: States, ids: Tensor, new_id: int) -> Tensor:
    before, changed, rows = states(ids), ids.clone(), []
    for j in range(ids.shape[1]):
        changed[0, j] = new_id
        rows.append((states(changed) - before)[0].abs().amax(dim=-1) > 1e-4)
    return torch.stack(rows, dim=-1)


def piled_on_ids(states: States, ids: Tensor, new_id: int) -> Tensor:
    before, rows = states(ids), []
    for j in range(ids.shape[1]):
        ids[0, j] = new_id
        rows.append((states(ids) - before)[0].abs().amax(dim=-1) > 1e-4)
    return torch.stack(rows, dim=-1)


def both_in_place(states: States, ids: Tensor, new_id: int) -> Tensor:
    rows = []
    for j in range(ids.shape[1]):
        changed = ids
        changed[0, j] = new_id
        rows.append((states(changed) - states(ids))[0].abs().amax(dim=-1) > 1e-4)
    return torch.stack(rows, dim=-1)


def put_back(states: States, ids: Tensor, new_id: int) -> Tensor:
    """Right answers, but ids itself is changed in the meantime; put back, it harms nobody."""
    rows = []
    for j in range(ids.shape[1]):
        before, kept = states(ids), int(ids[0, j])
        ids[0, j] = new_id
        rows.append((states(ids) - before)[0].abs().amax(dim=-1) > 1e-4)
        ids[0, j] = kept
    return torch.stack(rows, dim=-1)


def left_changed(states: States, ids: Tensor, new_id: int) -> Tensor:
    table = right_reach(states, ids, new_id)
    ids[0, -1] = new_id
    return table


def rows_of(row: Callable[[Tensor, Tensor, int], Any]) -> Wrong:
    """A reach that gets its copies right, and each row from (after, before (1, S, D), j)."""

    def wrong(states: States, ids: Tensor, new_id: int) -> Tensor:
        rows = []
        for j in range(ids.shape[1]):
            changed = ids.clone()
            changed[0, j] = new_id
            rows.append(torch.as_tensor(row(states(changed), states(ids), j)))
        return torch.stack(rows, dim=-1)

    return wrong


def on_copies(place: Callable[[int], Any]) -> Wrong:
    def wrong(states: States, ids: Tensor, new_id: int) -> Tensor:
        rows = []
        for j in range(ids.shape[1]):
            changed = ids.clone()
            changed[place(j)] = new_id
            rows.append((states(changed) - states(ids))[0].abs().amax(dim=-1) > 1e-4)
        return torch.stack(rows, dim=-1)

    return wrong


def only_its_own(after: Tensor, before: Tensor, j: int) -> Tensor:
    row = torch.zeros(after.shape[1], dtype=torch.bool)
    row[j] = (after[0, j] - before[0, j]).abs().max() > 1e-4
    return row


def no_diagonal(states: States, ids: Tensor, new_id: int) -> Tensor:
    return right_reach(states, ids, new_id).fill_diagonal_(False)


def full_diagonal(states: States, ids: Tensor, new_id: int) -> Tensor:
    return right_reach(states, ids, new_id).fill_diagonal_(True)


REACHES: Planted = [
    (lambda s, ids, new: reach_in_one_batch(s, ids, new).T, "the table is transposed"),
    (piled, "the changes pile up"),
    (piled_on_ids, "the changes pile up"),
    (both_in_place, "nothing ever moves"),
    (left_changed, "your function changes ids in place"),
    (on_copies(lambda j: (0, slice(j, None))), "all from j on"),
    (on_copies(lambda j: 0), "all tokens are replaced at once"),
    (on_copies(lambda j: j), "stopped with IndexError"),
    (rows_of(lambda a, b, j: (a != b)[0].any(dim=-1)), "rounding counts as a move"),
    (rows_of(lambda a, b, j: ~torch.isclose(a, b)[0].all(dim=-1)), "rounding counts as a move"),
    (
        rows_of(
            lambda a, b, j: [not torch.allclose(x, y) for x, y in zip(a[0], b[0], strict=True)]
        ),
        "rounding counts as a move",
    ),
    (
        rows_of(lambda a, b, j: [not torch.equal(x, y) for x, y in zip(a[0], b[0], strict=True)]),
        "rounding counts as a move",
    ),
    (rows_of(lambda a, b, j: (a - b).abs().amax(-1)[0] > 0.01), "a small move is overlooked"),
    (rows_of(lambda a, b, j: (a - b).abs().amax(-1)[0] > 0.1), "a small move is overlooked"),
    (rows_of(lambda a, b, j: a[0].abs().amax(-1) > 0), "everything moves, whatever is replaced"),
    (rows_of(lambda a, b, j: a[0].any(dim=-1)), "everything moves, whatever is replaced"),
    (rows_of(lambda a, b, j: (a - b)[0].abs().amax(-1) < 1e-4), "True and False are swapped"),
    (rows_of(lambda a, b, j: torch.isclose(a, b, atol=1e-4)[0].all(-1)), "True and False are swa"),
    (rows_of(only_its_own), "only state j is looked at: the diagonal"),
    (no_diagonal, "the diagonal is left out"),
    (full_diagonal, "the diagonal is taken for True without a look"),
    (
        rows_of(lambda a, b, j: [not torch.allclose(a, b, atol=1e-4)] * a.shape[1]),
        "one answer for all states",
    ),
    (rows_of(lambda a, b, j: (a - b)[0].sum(-1).abs() > 1e-4), "plus and minus cancel"),
    (rows_of(lambda a, b, j: (a.sum(-1) - b.sum(-1))[0].abs() > 1e-4), "plus and minus cancel"),
    (rows_of(lambda a, b, j: (a - b)[0].mean(-1) > 1e-4), "plus and minus cancel"),
    (rows_of(lambda a, b, j: (a - b)[0].amax(-1) > 1e-4), "a state that only goes down"),
    (rows_of(lambda a, b, j: ((a - b)[0] > 1e-4).any(-1)), "a state that only goes down"),
    (
        rows_of(lambda a, b, j: (a.norm(dim=-1) - b.norm(dim=-1))[0].abs() > 1e-4),
        "the lengths of the states are compared",
    ),
    (
        rows_of(lambda a, b, j: ((a - b)[0].abs() > 1e-4).all(-1)),
        "a state counts only if all its numbers move",
    ),
    (rows_of(lambda a, b, j: (a - b)[0, :, 0].abs() > 1e-4), "only the first number of a state"),
    (rows_of(lambda a, b, j: (a - b).abs().amax(-1) > 1e-4), "the batch axis is still there"),
    (
        lambda s, ids, new: right_reach(s, ids, new)[None],
        "the batch axis is still there. states(…)[0]",
    ),
    (rows_of(lambda a, b, j: (a - b)[0].abs() > 1e-4), "not for each of its 3 numbers"),
    (rows_of(lambda a, b, j: (a - b).abs().amax(1)[0] > 1e-4), "over the wrong axis"),
    (rows_of(lambda a, b, j: (a - b)[0, j].abs().max() > 1e-4), "look at all states each time"),
    (rows_of(lambda a, b, j: (a - b)[0].abs().amax(-1)), "True and False are wanted. How far"),
    (
        lambda s, ids, new: right_reach(s, ids, new).float(),
        "your answer holds numbers; True and False are wanted",
    ),
    (lambda s, ids, new: list(right_reach(s, ids, new)), "one tensor is wanted: torch.stack(col"),
    (lambda s, ids, new: right_reach(s, ids, new).any(), "has shape (); (2, 2) is wanted"),
    (lambda s, ids, new: s(ids[0]), "ids must be (batch, length), not (2,)"),
    (lambda s, ids, new: right_reach(s, ids, new).roll(1, 0), "cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), REACHES)
def test_each_wrong_reach_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("reach", wrong, text)


def test_ids_changed_and_put_back_harm_nobody() -> None:
    assert verdict(check.reach, put_back).startswith("✓")


def test_a_wrong_entry_is_told_with_its_place() -> None:
    said = words(verdict(check.reach, lambda s, ids, new: right_reach(s, ids, new).T))
    assert "Smallest case: states = a left-to-right reader, ids = [[" in said
    assert "Replacing token 1 does not move state 0: entry [0, 1] is False." in said
    said = words(verdict(check.reach, piled_on_ids))
    assert "Replacing token 1 does not move state 0: entry [0, 1] is False." in said


# -- together


def together_in_one_batch(s: States, ids: Tensor, i: int, j: int, k: int, new_id: int) -> Tensor:
    rows = ids.repeat(4, 1)
    rows[0, j] = rows[0, k] = rows[1, j] = rows[2, k] = new_id
    return torch.tensor([1.0, -1.0, -1.0, 1.0]) @ s(rows)[:, i]


def together_by_changes(s: States, ids: Tensor, i: int, j: int, k: int, new_id: int) -> Any:
    base = s(ids)[0, i]

    def change(*places: int) -> Tensor:
        row = [new_id if at in places else token for at, token in enumerate(ids[0].tolist())]
        return s(torch.tensor([row]))[0, i] - base

    return (change(j, k) - change(j) - change(k)).numpy()


def together_step_by_step(
    s: States, ids: Tensor, i: int, j: int, k: int, new_id: int
) -> list[float]:
    """Right: what k does once j is new, less what it does before."""
    with_j, with_k = ids.clone(), ids.clone()
    with_j[0, j] = with_k[0, k] = new_id
    with_both = with_j.clone()
    with_both[0, k] = new_id
    before = s(with_k) - s(ids)
    after = s(with_both) - s(with_j)
    return (after - before)[0, i].tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "f",
    [
        right_together,
        together_in_one_batch,
        together_by_changes,
        together_step_by_step,
        lambda s, ids, i, j, k, new: right_together(s, ids, i, k, j, new),
    ],
)
def test_right_togethers_pass(f: Wrong) -> None:
    assert verdict(check.together, f).startswith("✓ together: 19 cases")


def test_a_pair_cannot_join_both_sides_and_bert_does() -> None:
    """What the notebook claims, on every place between every two."""
    for i in range(1, 11):
        for j, k in ((i - 1, i + 1), (0, 11), (i + 1, 0)):
            pair = right_together(play_reader("pair"), IDS, i, j, k, 99)
            assert pair.abs().max() < 1e-5
            assert right_together(play_reader("bert"), IDS, i, j, k, 99).abs().max() > 0.01
    one_side = right_together(play_reader("pair"), IDS, 7, 2, 4, 99)
    assert one_side[:16].abs().max() > 0.01  # two tokens on one side are read together
    assert one_side[16:].abs().max() < 1e-5


def at(s: States, ids: Tensor, i: int, *changes: tuple[int, int]) -> Tensor:
    for place, token in changes:
        ids = ids.index_fill(1, torch.tensor([place]), token)
    return s(ids)[0, i]


def four(combine: Callable[[Tensor, Tensor, Tensor, Tensor], Any]) -> Wrong:
    return lambda s, ids, i, j, k, new: combine(
        at(s, ids, i, (j, new), (k, new)),
        at(s, ids, i, (j, new)),
        at(s, ids, i, (k, new)),
        at(s, ids, i),
    )


def piling(s: States, ids: Tensor, i: int, j: int, k: int, new: int) -> Tensor:
    base, changed = s(ids)[0, i], ids.clone()
    changed[0, j] = new
    first = s(changed)[0, i]
    changed[0, k] = new
    second = s(changed)[0, i]
    changed[0, [j, k]] = new
    return s(changed)[0, i] - first - second + base


def spoils_ids(s: States, ids: Tensor, i: int, j: int, k: int, new: int) -> Tensor:
    def state(*places: int) -> Tensor:
        changed = ids
        changed[0, list(places)] = new
        return s(changed)[0, i]

    return state(j, k) - state(j) - state(k) + state()


def base_too_late(s: States, ids: Tensor, i: int, j: int, k: int, new: int) -> Tensor:
    ids[0, j] = new
    first = s(ids)[0, i]
    ids[0, k] = new
    second = both = s(ids)[0, i]
    return both - first - second + s(ids)[0, i]


def leaves_ids_changed(s: States, ids: Tensor, i: int, j: int, k: int, new: int) -> Tensor:
    answer = right_together(s, ids, i, j, k, new)
    ids[0, j] = new
    return answer


def of_state(which: Callable[[int, int, int], int]) -> Wrong:
    return lambda s, ids, i, j, k, new: right_together(s, ids, which(i, j, k), j, k, new)


def of_all(s: States, ids: Tensor, i: int, j: int, k: int, new: int) -> Tensor:
    return torch.stack([right_together(s, ids, at, j, k, new) for at in range(ids.shape[1])])


TOGETHERS: Planted = [
    (four(lambda jk, j, k, h: jk - (j + k)), "the unchanged state is missing"),
    (four(lambda jk, j, k, h: jk - j - k - h), "the unchanged state has the wrong sign"),
    (four(lambda jk, j, k, h: jk - h), "the single changes are not taken away"),
    (four(lambda jk, j, k, h: (j - h) + (k - h) - (jk - h)), "all signs are turned around"),
    (four(lambda jk, j, k, h: (jk - h) + (j - h) + (k - h)), "single changes are added, not"),
    (four(lambda jk, j, k, h: jk + j + k + h), "single changes are added, not"),
    (four(lambda jk, j, k, h: jk - j + k - h), "one of the single changes is added"),
    (four(lambda jk, j, k, h: (jk - h) - (k - h) + (j - h)), "one of the single changes is added"),
    (piling, "the changes pile up"),
    (base_too_late, "what one of the two does once the other is replaced"),
    (four(lambda jk, j, k, h: jk - k), "what one of the two does once the other is replaced"),
    (spoils_ids, "this is always zero"),
    (lambda s, ids, i, j, k, new: 0 * s(ids)[0, i], "this is always zero"),
    (leaves_ids_changed, "your function changes ids in place"),
    (lambda *a: of_all(*a).mean(dim=0), "this is the mean over all states"),
    (of_state(lambda i, j, k: j), "this is another state's"),
    (of_state(lambda i, j, k: k), "this is another state's"),
    (of_state(lambda i, j, k: 0), "this is another state's"),
    (of_state(lambda i, j, k: -1), "this is another state's"),
    (lambda s, ids, i, j, k, new: right_together(s, ids, j, i, k, new), "another state's"),
    (four(lambda jk, j, k, h: abs(jk - j - k + h)), "absolute values are taken"),
    (
        four(lambda jk, j, k, h: (jk - h).abs() - (j - h).abs() - (k - h).abs()),
        "absolute values are taken",
    ),
    (four(lambda jk, j, k, h: 0.5 * (jk - j - k + h)), "the result is halved"),
    (four(lambda jk, j, k, h: (jk - j - k + h) ** 2), "the result is squared"),
    (four(lambda jk, j, k, h: jk - (j + k) / 2), "the mean of the single changes is taken away"),
    (four(lambda jk, j, k, h: (jk - j - k + h).norm()), "one number; the vector of 3 is wanted"),
    (of_all, "one state, states(…)[0, i]"),
    (
        lambda s, ids, i, j, k, new: right_together(s, ids, i, j, k, new)[None],
        "the batch axis is still there",
    ),
    (four(lambda jk, j, k, h: jk[:2]), "(3,) is wanted here"),
    (four(lambda jk, j, k, h: 3 * (jk - j - k + h)), "cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), TOGETHERS)
def test_each_wrong_together_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("together", wrong, text)


# -- the interval of a difference


def interval_by_numpy(ours: Tensor, theirs: Tensor, draws: Tensor) -> Any:
    means = [(ours[row].mean() - theirs[row].mean()).item() for row in draws]
    return np.quantile(means, [0.025, 0.975])


def interval_by_torch(ours: Tensor, theirs: Tensor, draws: Tensor) -> Tensor:
    means = (ours[draws] - theirs[draws]).sum(dim=-1) / ours.shape[0]
    return means.quantile(torch.tensor([0.025, 0.975]))


def interval_by_sorting(ours: Tensor, theirs: Tensor, draws: Tensor) -> list[float]:
    means = sorted((ours - theirs)[draws].mean(dim=1).tolist())
    last = len(means) - 1
    return [means[round(0.025 * last)], means[round(0.975 * last)]]


def interval_by_percentiles(ours: Tensor, theirs: Tensor, draws: Tensor) -> tuple[Any, Any]:
    counts = torch.stack([torch.bincount(row, minlength=len(ours)) for row in draws]).float()
    means = (counts @ (ours - theirs) / len(ours)).numpy()
    return np.percentile(means, 2.5), np.percentile(means, 97.5)


@pytest.mark.parametrize(
    "f",
    [
        right_difference_interval,
        interval_by_numpy,
        interval_by_torch,
        interval_by_sorting,
        interval_by_percentiles,
        # the order of the examples within a draw does not matter
        lambda o, t, d: interval_by_numpy(o, t, d.flip(1)),
    ],
)
def test_right_intervals_pass(f: Wrong) -> None:
    assert verdict(check.difference_interval, f).startswith("✓ difference_interval: 32 random")


def test_the_interval_is_the_packages() -> None:
    for ours, theirs, draws in DIFFERENCE_INTERVAL.cases():
        means = [float((ours - theirs)[row].mean()) for row in draws]
        assert right_difference_interval(ours, theirs, draws) == pytest.approx(
            report.interval(means), abs=1e-6
        )


def test_the_smallest_case_can_be_typed() -> None:
    said = words(verdict(check.difference_interval, lambda o, t, d: (0.0, 0.0)))
    assert "draws = [[" in said


def test_pairing_makes_the_interval_narrower_in_most_cases() -> None:
    """Why the same draw: the two are alike, as two systems on the same examples are."""
    narrower = 0
    for ours, theirs, draws in DIFFERENCE_INTERVAL.cases()[-16:]:
        low, high = right_difference_interval(ours, theirs, draws)
        other = (ours[draws].mean(1) - theirs[draws.flip(0)].mean(1)).tolist()
        far_low, far_high = report.interval(other)
        narrower += high - low < far_high - far_low
    assert narrower >= 14


def cut(low: float, high: float) -> Wrong:
    return lambda o, t, d: tuple(np.quantile((o - t)[d].mean(1).numpy(), [low, high]))


def unpaired(other: Callable[[Tensor], Tensor]) -> Wrong:
    def wrong(o: Tensor, t: Tensor, d: Tensor) -> Any:
        means = [float(o[a].mean() - t[b].mean()) for a, b in zip(d, other(d), strict=True)]
        return np.quantile(means, [0.025, 0.975])

    return wrong


def own_draws(o: Tensor, t: Tensor, d: Tensor) -> tuple[float, float]:
    mine = torch.randint(len(o), d.shape)
    return right_difference_interval(o, t, mine)


def each_subtracted(o: Tensor, t: Tensor, d: Tensor) -> tuple[float, float]:
    ends = [np.quantile(x[d].mean(1).numpy(), [0.025, 0.975]) for x in (o, t)]
    return float(ends[0][0] - ends[1][0]), float(ends[0][1] - ends[1][1])


def worst_case(o: Tensor, t: Tensor, d: Tensor) -> tuple[float, float]:
    ends = [np.quantile(x[d].mean(1).numpy(), [0.025, 0.975]) for x in (o, t)]
    return float(ends[0][0] - ends[1][1]), float(ends[0][1] - ends[1][0])


def spread(times: Callable[[Tensor], float]) -> Wrong:
    def wrong(o: Tensor, t: Tensor, d: Tensor) -> tuple[float, float]:
        means = (o - t)[d].mean(dim=1)
        reach = times(means) * means.std()
        return float(means.mean() - reach), float(means.mean() + reach)

    return wrong


def textbook(o: Tensor, t: Tensor, d: Tensor) -> tuple[float, float]:
    gap = o - t
    error = float(gap.std()) / len(gap) ** 0.5
    return float(gap.mean()) - 1.96 * error, float(gap.mean()) + 1.96 * error


def by_rank(o: Tensor, t: Tensor, d: Tensor) -> tuple[float, float]:
    means = sorted(((o - t)[d].mean(1)).tolist())
    out = int(len(means) * 0.025)
    return means[out], means[-out]


INTERVALS: Planted = [
    (unpaired(lambda d: d.flip(0)), "each system has a draw of its own"),
    (unpaired(lambda d: torch.cat([d[1:], d[:1]])), "each system has a draw of its own"),
    (unpaired(lambda d: torch.cat([d[-1:], d[:-1]])), "each system has a draw of its own"),
    (own_draws, "draws random numbers of its own"),
    (each_subtracted, "quantiles of each system, subtracted"),
    (worst_case, "quantiles of each system, subtracted"),
    (lambda o, t, d: interval_by_numpy(o, t.mean().expand(len(t)), d), "only one of the two"),
    (lambda o, t, d: interval_by_numpy(o, 0 * t, d), "of one system, not of the difference"),
    (lambda o, t, d: interval_by_numpy(t, o, d), "it is theirs minus ours"),
    (lambda o, t, d: interval_by_numpy(o, t, d)[::-1].copy(), "in the wrong order"),
    (cut(0.05, 0.95), "5 % are cut off at each end"),
    (cut(0.025, 0.95), "do not cut off the same share"),
    (cut(0.05, 0.975), "do not cut off the same share"),
    (cut(0.25, 0.75), "these are the quartiles"),
    (cut(0, 1), "the lowest and the highest draw"),
    (by_rank, "the upper end is one draw too high"),
    (spread(lambda m: 1), "one standard deviation to either side"),
    (spread(lambda m: 1.96), "a bell curve is laid over the draws"),
    (spread(lambda m: 2), "a bell curve is laid over the draws"),
    (textbook, "a bell curve is laid over the draws"),
    (spread(lambda m: 1.96 / len(m) ** 0.5), "divided by the root of the number of draws"),
    (spread(lambda m: 1 / len(m) ** 0.5), "divided by the root of the number of draws"),
    (
        lambda o, t, d: np.quantile((o - t)[d].mean(0).numpy(), [0.025, 0.975]),
        "the mean runs over the draws",
    ),
    (lambda o, t, d: np.quantile((o - t)[d].numpy(), [0.025, 0.975]), "quantiles of single"),
    (lambda o, t, d: np.quantile((o - t).numpy(), [0.025, 0.975]), "quantiles of single examples"),
    (lambda o, t, d: interval_by_numpy(o, t, d) * len(o), "this is a sum: the mean is missing"),
    (lambda o, t, d: interval_by_numpy((o - t).abs(), 0 * t, d), "absolute values are taken"),
    (lambda o, t, d: interval_by_numpy(o, t, d) * 100, "this is in percent"),
    (lambda o, t, d: [(o - t).mean()] * 2, "both ends are the mean"),
    (
        lambda o, t, d: (o - t)[d].mean(dim=1).quantile(2.5),
        "stopped with RuntimeError",
    ),
    (lambda o, t, d: (o - t)[d].mean(dim=1), "return two things: low, high"),
    (lambda o, t, d: (o - t)[d].quantile(torch.tensor([0.025, 0.975]), dim=1), "one number is"),
    (lambda o, t, d: (-0.3, 0.2), "32 of 32 cases come out wrong"),
]


@pytest.mark.parametrize(("wrong", "text"), INTERVALS)
def test_each_wrong_interval_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("difference_interval", wrong, text)


# -- a claim

SAY = {"higher": "supported", "lower": "contradicted", "undecided": "undecided"}


def claim_by_signs(low: float, high: float) -> str:
    signs = {(1, 1): "supported", (-1, -1): "contradicted"}
    return signs.get((int(np.sign(low)), int(np.sign(high))), "undecided")


def claim_by_inside(low: float, high: float) -> str:
    if low <= 0 <= high:
        return "undecided"
    return "supported" if low + high > 0 else "contradicted"


@pytest.mark.parametrize(
    "f",
    [
        right_claim,
        claim_by_signs,
        claim_by_inside,
        lambda low, high: SAY[report.verdict(low, high)],
        lambda low, high: right_claim(low, high).upper() + "\n",
    ],
)
def test_right_claims_pass(f: Wrong) -> None:
    assert verdict(check.claim, f).startswith("✓ claim: 37 intervals")


def said(yes: Wrong, no: Wrong) -> Wrong:
    return lambda low, high: (
        "supported" if yes(low, high) else "contradicted" if no(low, high) else "undecided"
    )


def never(low: float, high: float) -> bool:
    return False


CLAIMS: Planted = [
    (said(lambda a, b: b < 0, lambda a, b: a > 0), "are swapped"),
    (said(lambda a, b: (a + b) / 2 > 0, lambda a, b: True), "only the middle of the interval"),
    (
        said(lambda a, b: (a + b) / 2 > 0, lambda a, b: (a + b) / 2 < 0),
        "only the middle of the interval",
    ),
    (
        lambda a, b: "undecided" if abs(a) == abs(b) and a <= 0 <= b else said(
            lambda a, b: a + b > 0, lambda a, b: True)(a, b),
        "only the middle of the interval",
    ),
    (said(lambda a, b: a >= 0, lambda a, b: b <= 0), "an end at 0 is not undecided"),
    (said(lambda a, b: a > 0, lambda a, b: b <= 0), "an end at 0 is not undecided"),
    (said(lambda a, b: a >= 0, lambda a, b: b < 0), "an end at 0 is not undecided"),
    (said(lambda a, b: a > 0, lambda a, b: True), "'undecided' is missing"),
    (said(lambda a, b: a > 0, never), "you never say 'contradicted'"),
    (said(never, lambda a, b: b < 0), "you never say 'supported'"),
    (said(lambda a, b: b > 0, lambda a, b: a < 0), "the wrong end is asked"),
    (said(lambda a, b: b > 0, lambda a, b: True), "the wrong end is asked"),
    (
        lambda a, b: "undecided" if a == 0 or b == 0 else said(
            lambda a, b: a > 0, lambda a, b: True)(a, b),
        "only if an end is exactly 0",
    ),
    (said(lambda a, b: a < 0 < b, never), "cases come out wrong"),
    (
        lambda a, b: "supported" if a <= 0 <= b else "undecided",
        "stands where the interval leaves 0 out",
    ),
    (said(lambda a, b: a > 0.05, lambda a, b: b < -0.05), "0.05 is taken for the border"),
    (lambda a, b: right_claim(round(a, 2), round(b, 2)), "small differences are rounded away"),
    (lambda a, b: "supported", "you always say the same"),
    (lambda a, b: a > 0, "there are three answers"),
    (lambda a, b: "unsupported", "your function returned 'unsupported'; one of"),
    (lambda a, b: ["supported"], "your function returned something else; one of"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "text"), CLAIMS)
def test_each_wrong_claim_gets_its_own_message(wrong: Wrong, text: str) -> None:
    assert_rejected("claim", wrong, text)


# -- a test for readers that must not look ahead


def ahead(states: States, ids: Tensor = IDS) -> set[int]:
    """How far ahead states see: the distances at which a later token moves one."""
    table = right_reach(states, ids, 99)
    return {j - i for i, j in table.nonzero().tolist() if j > i}


def test_right_readers_are_what_they_are_called() -> None:
    back = {}
    for how, states in RIGHT_READERS:
        assert ahead(states) == set()
        torch.testing.assert_close(states(IDS[:, :5]), states(IDS)[:, :5])
        table = right_reach(states, IDS, 99)
        back[how.split()[-1]] = {i - j for i, j in table.nonzero().tolist()}
    everything = set(range(12))
    assert back == {"mask": everything, "LSTM": everything, "left": {0, 1, 2}, "positions": {0}}


def test_the_museum_is_as_described() -> None:
    everything = set(range(1, 12))
    sees = {
        "a diagonal off by one": {1, 2},  # one for each layer
        "a mask cut to a window": {9, 10, 11},
        "positions counted from the end": set(),
        "a cache by token id": set(),
    }
    for exhibit in READER_MUSEUM:
        assert exhibit.broken(IDS).shape == (1, 12, 16), "each passes a shape test"
        assert ahead(exhibit.broken) == sees.get(exhibit.seen, everything), exhibit.seen
    by_name = {exhibit.seen: exhibit.broken for exhibit in READER_MUSEUM}
    counted, cached = by_name["positions counted from the end"], by_name["a cache by token id"]
    assert not torch.allclose(counted(IDS[:, :5]), counted(IDS)[:, :5], atol=0.01)
    assert torch.allclose(cached(IDS[:, :5]), cached(IDS)[:, :5], atol=1e-5)
    assert 8 in ahead(cached, torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 5]]))
    copied = right_reach(by_name["a copied line"], IDS, 99)
    assert not copied.tril(-1).any()  # nothing of what came before
    weak, right = by_name["a mask too weak"], RIGHT_READERS[0][1]
    assert 1e-3 < (weak(IDS) - right(IDS)).abs().max() < 0.2


def by_replacing(length: int = LONGEST, atol: float = 1e-4, row: Tensor | None = None) -> Wrong:
    """Each token in turn; all states before it must stay."""

    def test(states: States) -> bool:
        ids = torch.randint(5, 50, (4, length)) if row is None else row
        before = states(ids)
        for j in range(1, ids.shape[1]):
            changed = ids.clone()
            changed[:, j] = 50 + changed[:, j] % 50
            if not torch.allclose(states(changed)[:, :j], before[:, :j], atol=atol):
                return False
        return True

    return test


def by_cutting(states: States) -> bool:
    ids = torch.arange(5, 5 + LONGEST)[None]
    return all(
        torch.allclose(states(ids[:, :n]), states(ids)[:, :n], atol=1e-4) for n in range(1, LONGEST)
    )


def by_other_ends(states: States) -> bool:
    """A right test of another kind: texts of all lengths that begin alike and end differently."""
    start = torch.randint(5, 100, (1, 8)).repeat(64, 1)
    for length in (1, 2, 12, 24):
        end = torch.randint(5, 100, (64, length))
        found = states(torch.cat([start, end], dim=1))[:, :8]
        if (found - states(start)).abs().max() > 1e-4:
            return False
    return True


@pytest.mark.parametrize(
    "t",
    [
        right_look_ahead_test,
        by_other_ends,
        lambda states: by_cutting(states) and by_replacing()(states),
    ],
)
def test_good_look_ahead_tests_pass(t: Wrong) -> None:
    text = words(verdict(check.look_ahead_test, t))
    assert text.startswith(
        "✓ look_ahead_test: accepts 4 right readers, catches 11 broken ones (VTongTV/"
    )


@pytest.mark.parametrize("exhibit", READER_MUSEUM, ids=[e.seen for e in READER_MUSEUM])
def test_each_reader_that_gets_past_is_named_alone(exhibit: Any) -> None:
    assert_named_alone(
        check.look_ahead_test,
        lambda f: f is exhibit.broken or right_look_ahead_test(f),
        "look_ahead_test: 1 of 11 broken readers got past your test.",
        exhibit,
    )


def last_and_first(states: States) -> bool:
    """The usual leak test: replace the last token, look at the first state."""
    ids = torch.arange(5, 5 + LONGEST)[None]
    changed = ids.clone()
    changed[0, -1] = 99
    return torch.allclose(states(ids)[:, 0], states(changed)[:, 0], atol=1e-4)


def last_one_only(states: States) -> bool:
    """All states are looked at, with too large a tolerance."""
    ids = torch.randint(5, 100, (8, LONGEST))
    changed = ids.clone()
    changed[:, -1] = 5 + (ids[:, -1] + 12) % 95
    return torch.allclose(states(ids)[:, :-1], states(changed)[:, :-1], atol=0.06)


def next_one_only(states: States) -> bool:
    ids = torch.arange(5, 5 + LONGEST)[None]
    for i in range(LONGEST - 1):
        changed = ids.clone()
        changed[0, i + 1] = 99
        if not torch.allclose(states(ids)[0, i], states(changed)[0, i], atol=1e-4):
            return False
    return True


DISTINCT = torch.arange(5, 5 + LONGEST)[None]


@pytest.mark.parametrize(
    ("test", "past"),
    [
        (by_replacing(), {"positions counted from the end"}),
        (by_replacing(row=DISTINCT), {"positions counted from the end", "a cache by token id"}),
        (by_cutting, {"a cache by token id"}),
        (
            lambda s: by_replacing(length=8)(s) and by_cutting(lambda ids: s(ids[:, :8])),
            {"a mask cut to a window"},
        ),
        (
            last_one_only,
            {
                "a mask too weak",
                "the mean of the text added",  # one of 32 tokens moves a mean by little
                "positions counted from the end",
            },
        ),
        (
            last_and_first,
            {"a diagonal off by one", "positions counted from the end", "a cache by token id"},
        ),
        (
            next_one_only,
            {"a mask cut to a window", "positions counted from the end", "a cache by token id"},
        ),
    ],
)
def test_each_weakness_of_a_test_lets_its_own_exhibits_past(test: Wrong, past: set[str]) -> None:
    text = words(verdict(check.look_ahead_test, test))
    assert text.startswith(f"✗ look_ahead_test: {len(past)} of 11 broken readers got past")
    assert {e.seen for e in READER_MUSEUM if f"- {e.seen}: {e.bug}." in text} == past


def wants_all_before(states: States) -> bool:
    return torch.equal(right_reach(states, IDS, 99), torch.ones(12, 12).tril().bool())


def wrong_way_round(states: States) -> bool:
    """Replaces the first token, and wants the last state to stay."""
    changed = IDS.clone()
    changed[0, 0] = 99
    return torch.allclose(states(IDS)[:, -1], states(changed)[:, -1], atol=1e-4)


def to_the_last_bit(states: States) -> bool:
    """Equal bit by bit, which sums in another order are not."""
    ids = torch.randint(5, 100, (8, LONGEST))
    return all(torch.equal(states(ids[:, :n]), states(ids)[:, :n]) for n in range(1, LONGEST))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda states: True, "11 of 11 broken readers got past your test"),
        (lambda states: states(IDS).shape == (1, 12, 16), "11 of 11 broken readers got past"),
        (lambda states: False, "refuses every reader, right ones included"),
        (wants_all_before, "refuses a right reader, one written as a convolution"),
        (wrong_way_round, "refuses a right reader, one written as a Transformer with a mask"),
        (to_the_last_bit, "refuses a right reader"),
        (lambda states: states(IDS[0]), "stopped with ValueError: ids must be (batch, length)"),
        (lambda states: states(IDS), "True or False is wanted"),
    ],
)
def test_weak_look_ahead_tests_are_told_why(t: Wrong, text: str) -> None:
    answer = words(verdict(check.look_ahead_test, t))
    assert answer.startswith("✗ look_ahead_test: ")
    assert text in answer


# -- all of them


@pytest.mark.parametrize("one", [REACH, TOGETHER, DIFFERENCE_INTERVAL, CLAIM])
def test_cases_are_the_same_at_every_call_and_draw_nothing(one: Any) -> None:
    def plain(cases: Any) -> list[str]:
        return [
            repr([x.tolist() if isinstance(x, Tensor) else x for x in inputs]) for inputs in cases
        ]

    torch.manual_seed(1)
    random.seed(1)
    state = torch.get_rng_state()
    first = plain(one.cases())
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert plain(one.cases()) == first
    assert not any("0x" in case for case in first)
