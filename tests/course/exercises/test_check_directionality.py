"""The checks of notebook 13: reach, together, the interval of a difference, a claim, and a test."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from verdicts import assert_named, seen, verdict, words

from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction
from course.exercises import ablation_directionality, check
from course.exercises.ablation_directionality import (
    DIFFERENCE_INTERVAL,
    LONGEST,
    LOOK_AHEAD_TEST,
    REACH,
    States,
    play_reader,
    right_difference_interval,
    right_look_ahead_test,
    right_reach,
    right_together,
)
from course.exercises.museum import exhibits
from course.results.bootstrap import interval, verdict_of

Wrong = Callable[..., Any]


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
    ablation_directionality._bert.cache_clear()
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = play_reader("bert")(IDS)
    assert torch.equal(torch.get_rng_state(), before)
    ablation_directionality._bert.cache_clear()
    torch.manual_seed(4)
    assert torch.equal(play_reader("bert")(IDS), first)
    assert not first.requires_grad


def test_what_cannot_be_read_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="choose one of bert, left to right, right to left, pair"):
        play_reader("gpt")
    for reader in [play_reader("pair"), *(states for _, states in LOOK_AHEAD_TEST.right)]:
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


def piled_on_ids(states: States, ids: Tensor, new_id: int) -> Tensor:
    before, rows = states(ids), []
    for j in range(ids.shape[1]):
        ids[0, j] = new_id
        rows.append((states(ids) - before)[0].abs().amax(dim=-1) > 1e-4)
    return torch.stack(rows, dim=-1)


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


REACHES: list[tuple[Wrong, str]] = [
    (lambda s, ids, new: reach_in_one_batch(s, ids, new).T, "the table is transposed"),
    (piled_on_ids, "the changes pile up"),
    (rows_of(lambda a, b, j: (a != b)[0].any(dim=-1)), "rounding counts as a move"),
    (rows_of(lambda a, b, j: (a - b)[0].abs().amax(-1)), "True and False are wanted. How far"),
    (lambda s, ids, new: right_reach(s, ids, new).any(), "has shape (); (2, 2) is wanted"),
    (lambda s, ids, new: s(ids[0]), "ids must be (batch, length), not (2,)"),
    (lambda s, ids, new: right_reach(s, ids, new).roll(1, 0), "cases come out wrong"),
]


# -- together


def together_in_one_batch(s: States, ids: Tensor, i: int, j: int, k: int, new_id: int) -> Tensor:
    rows = ids.repeat(4, 1)
    rows[0, j] = rows[0, k] = rows[1, j] = rows[2, k] = new_id
    return torch.tensor([1.0, -1.0, -1.0, 1.0]) @ s(rows)[:, i]


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


def of_all(s: States, ids: Tensor, i: int, j: int, k: int, new: int) -> Tensor:
    return torch.stack([right_together(s, ids, at, j, k, new) for at in range(ids.shape[1])])


TOGETHERS: list[tuple[Wrong, str]] = [
    (lambda *a: right_together(*a) - a[0](a[1])[0, a[2]], "the unchanged state is missing"),
    (lambda *a: of_all(*a)[a[3]], "this is another state's"),
    (lambda *a: right_together(*a)[:2], "(3,) is wanted here"),
    (lambda *a: 3 * right_together(*a), "cases come out wrong"),
]


# -- the interval of a difference


def interval_by_numpy(ours: Tensor, theirs: Tensor, draws: Tensor) -> Any:
    means = [(ours[row].mean() - theirs[row].mean()).item() for row in draws]
    return np.quantile(means, [0.025, 0.975])


def test_the_interval_is_the_packages() -> None:
    for ours, theirs, draws in DIFFERENCE_INTERVAL.cases():
        means = [float((ours - theirs)[row].mean()) for row in draws]
        assert right_difference_interval(ours, theirs, draws) == pytest.approx(
            interval(means), abs=1e-6
        )


INTERVALS: list[tuple[Wrong, str]] = [
    (
        lambda o, t, d: right_difference_interval(o, t, torch.randint(len(o), d.shape)),
        "draws random numbers of its own",
    ),
    (lambda o, t, d: np.quantile((o - t)[d].mean(1).numpy(), [0.05, 0.95]), "5 % are cut off at"),
    (lambda o, t, d: np.quantile((o - t)[d].numpy(), [0.025, 0.975]), "quantiles of single"),
    (lambda o, t, d: (o - t)[d].mean(dim=1).quantile(2.5), "stopped with RuntimeError"),
    (lambda o, t, d: (o - t)[d].mean(dim=1), "return two things: low, high"),
    (lambda o, t, d: (o - t)[d].quantile(torch.tensor([0.025, 0.975]), dim=1), "one number is"),
    (lambda o, t, d: (-0.3, 0.2), "32 of 32 cases come out wrong"),
]


# -- a claim


def claim_by_inside(low: float, high: float) -> str:
    if low <= 0 <= high:
        return "undecided"
    return "supported" if low + high > 0 else "contradicted"


CLAIMS: list[tuple[Wrong, str]] = [
    (lambda a, b: verdict_of(b, a), "the wrong end is asked"),
    (lambda a, b: verdict_of(round(a, 2), round(b, 2)), "cases come out wrong"),
    (lambda a, b: a > 0, "your function returned False; one of 'supported'"),
    (lambda a, b: "unsupported", "your function returned 'unsupported'; one of"),
    (lambda a, b: ["supported"], "your function returned something else; one of"),
]


RIGHT: list[tuple[str, Wrong, str]] = [
    ("reach", reach_in_one_batch, "21 cases"),
    ("reach", reach_by_closeness, "21 cases"),
    ("together", together_in_one_batch, "19 cases"),
    ("together", together_step_by_step, "19 cases"),
    ("together", lambda s, x, i, j, k, new: right_together(s, x, i, k, j, new), "19 cases"),
    ("difference_interval", interval_by_numpy, "32 random"),
    # the order of the examples within a draw does not matter
    ("difference_interval", lambda o, t, d: interval_by_numpy(o, t, d.flip(1)), "32 random"),
    ("claim", claim_by_inside, "37 intervals"),
    ("claim", verdict_of, "37 intervals"),
    ("claim", lambda low, high: verdict_of(low, high).upper() + "\n", "37 intervals"),
]


@pytest.mark.parametrize(("name", "f", "text"), RIGHT)
def test_right_answers_pass(name: str, f: Wrong, text: str) -> None:
    assert verdict(getattr(check, name), f).startswith(f"✓ {name}: {text}")


PLANTED = [
    (name, *planted)
    for name, some in (
        ("reach", REACHES),
        ("together", TOGETHERS),
        ("difference_interval", INTERVALS),
        ("claim", CLAIMS),
    )
    for planted in some
]


@pytest.mark.parametrize(("name", "wrong", "text"), PLANTED)
def test_a_wrong_answer_is_named(name: str, wrong: Wrong, text: str) -> None:
    assert_named(getattr(check, name), name, wrong, text)


# -- a test for readers that must not look ahead


def ahead(states: States, ids: Tensor = IDS) -> set[int]:
    """How far ahead states see: the distances at which a later token moves one."""
    table = right_reach(states, ids, 99)
    return {j - i for i, j in table.nonzero().tolist() if j > i}


def test_right_readers_are_what_they_are_called() -> None:
    back = {}
    for how, states in LOOK_AHEAD_TEST.right:
        assert ahead(states) == set()
        torch.testing.assert_close(states(IDS[:, :5]), states(IDS)[:, :5])
        table = right_reach(states, IDS, 99)
        back[how.split()[-1]] = {i - j for i, j in table.nonzero().tolist()}
    everything = set(range(12))
    assert back == {"mask": everything, "LSTM": everything, "positions": {0}}


def test_the_museum_is_as_described() -> None:
    everything = set(range(1, 12))
    sees = {
        "a diagonal off by one": {1, 2},  # one for each layer
        "a mask cut to a window": {9, 10, 11},
        "positions counted from the end": set(),
    }
    for exhibit in exhibits(LOOK_AHEAD_TEST):
        assert exhibit.wrong[0](IDS).shape == (1, 12, 16), "each passes a shape test"
        assert ahead(exhibit.wrong[0]) == sees.get(seen(exhibit), everything), seen(exhibit)
    by_name = {seen(exhibit): exhibit.wrong[0] for exhibit in exhibits(LOOK_AHEAD_TEST)}
    counted = by_name["positions counted from the end"]
    assert not torch.allclose(counted(IDS[:, :5]), counted(IDS)[:, :5], atol=0.01)
    weak, right = by_name["a mask too weak"], LOOK_AHEAD_TEST.right[0][1]
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


@pytest.mark.parametrize(
    "t",
    [
        right_look_ahead_test,
        lambda states: by_cutting(states) and by_replacing()(states),
    ],
)
def test_good_look_ahead_tests_pass(t: Wrong) -> None:
    text = words(verdict(check.look_ahead_test, t))
    assert text.startswith(
        "✓ look_ahead_test: accepts 3 right readers, catches 6 broken ones (VTongTV/"
    )


def last_one_only(states: States) -> bool:
    """All states are looked at, with too large a tolerance."""
    ids = torch.randint(5, 100, (8, LONGEST), generator=torch.Generator().manual_seed(1))
    changed = ids.clone()
    changed[:, -1] = 5 + (ids[:, -1] + 12) % 95
    return torch.allclose(states(ids)[:, :-1], states(changed)[:, :-1], atol=0.06)


DISTINCT = torch.arange(5, 5 + LONGEST)[None]


@pytest.mark.parametrize(
    ("test", "past"),
    [
        (by_replacing(), {"positions counted from the end"}),
        (by_replacing(row=DISTINCT), {"positions counted from the end"}),
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
    ],
)
def test_each_weakness_of_a_test_lets_its_own_exhibits_past(test: Wrong, past: set[str]) -> None:
    text = words(verdict(check.look_ahead_test, test))
    assert text.startswith(f"✗ look_ahead_test: {len(past)} of 6 broken readers got past")
    assert {seen(e) for e in exhibits(LOOK_AHEAD_TEST) if f"- {e.what} " in text} == past


def wants_all_before(states: States) -> bool:
    return torch.equal(right_reach(states, IDS, 99), torch.ones(12, 12).tril().bool())


def to_the_last_bit(states: States) -> bool:
    """Equal bit by bit, which sums in another order are not."""
    ids = torch.randint(5, 100, (8, LONGEST))
    return all(torch.equal(states(ids[:, :n]), states(ids)[:, :n]) for n in range(1, LONGEST))


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (lambda states: True, "6 of 6 broken readers got past your test"),
        (lambda states: states(IDS).shape == (1, 12, 16), "6 of 6 broken readers got past"),
        (lambda states: False, "refuses every reader, right ones included"),
        (wants_all_before, "refuses a right reader, one written as an embedding"),
        (to_the_last_bit, "refuses a right reader"),
        (lambda states: states(IDS[0]), "stopped with ValueError: ids must be (batch, length)"),
        (lambda states: states(IDS), "True or False is wanted"),
    ],
)
def test_weak_look_ahead_tests_are_told_why(t: Wrong, text: str) -> None:
    answer = words(verdict(check.look_ahead_test, t))
    assert answer.startswith("✗ look_ahead_test: ")
    assert text in answer
