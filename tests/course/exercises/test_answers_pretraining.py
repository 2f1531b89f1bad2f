"""Notebooks 05 to 07, 13 and 14: right in other ways than ours, wrong in others than the patch."""

import math
import random
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from verdicts import learners_tests, right_ones, seen, then, verdict, words, wrong_ones

from bertedu.model.attention import attention_mask
from bertedu.model.config import Direction
from bertedu.pretraining.batches import Recipe
from bertedu.pretraining.masking import mask_tokens, read_procedure
from bertedu.pretraining.next_sentence import EncodedDocument, make_pairs
from course.exercises import ablation_directionality, check
from course.exercises.ablation_directionality import (
    LONGEST,
    States,
    play_reader,
    right_reach,
    right_together,
)
from course.exercises.ablation_size_masking_steps import (
    TABLE_8,
    Record,
    play_record,
    predict_order,
    right_fair,
)
from course.exercises.masked_language_model import right_masking, right_mlm_loss
from course.exercises.museum import exhibits
from course.exercises.next_sentence_prediction import right_nsp_loss, right_pair
from course.exercises.patch import patched
from course.exercises.pretraining import SmallRun, right_adamw, right_resume_test
from course.experiments.ablations import PROCEDURES
from course.results.bootstrap import Estimate, interval, verdict_of

# -- our own answers do what the package does


def test_the_pair_reference_walks_as_the_package_does() -> None:
    """The same draws in the same order; there is room enough, so nothing is cut."""
    documents = [
        EncodedDocument("one source", [[100 * d + s] for s in range(5, 17)]) for d in (0, 1)
    ]
    theirs = list(make_pairs(documents, 99, np.random.default_rng(4)))
    rng, ours = np.random.default_rng(4), []
    for index, document in enumerate(documents):
        sentences, start = document.sentences, 0
        while start + 1 < len(sentences):
            split = int(rng.integers(start + 1, len(sentences)))
            coin, other = float(rng.random()), []
            if coin >= 0.5:
                while int(rng.integers(2)) == index:
                    pass
                begin = int(rng.integers(len(documents[1 - index].sentences)))
                other = list(chain(*documents[1 - index].sentences[begin:]))
            a, b, label, start = right_pair(sentences, start, split, len(sentences), other, coin)
            rng.random(2)  # truncate_pair
            ours.append((a, b, label))
    assert ours == [(pair.a, pair.b, pair.label) for pair in theirs]


def test_the_masking_reference_does_what_the_package_does() -> None:
    ids = torch.randint(0, 300, (40, 60), generator=torch.Generator().manual_seed(1))
    masked, selected = mask_tokens(ids, 300, torch.Generator().manual_seed(2))
    generator = torch.Generator().manual_seed(2)  # the same draws, in the same order
    chance, group = (torch.rand(ids.shape, generator=generator) for _ in range(2))
    drawn = torch.randint(5, 300, ids.shape, generator=generator)
    again, chosen = right_masking(ids, chance, group, drawn)
    assert torch.equal(again, masked)
    assert torch.equal(chosen, selected)


def test_the_shares_are_those_of_table_8() -> None:
    for (mask, same), procedure in zip(TABLE_8, PROCEDURES, strict=True):
        assert read_procedure(procedure) == pytest.approx((mask, 1 - mask - same))


# -- the readers of notebook 13

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


def test_a_pair_reaches_as_far_as_bert_and_cannot_join_both_sides() -> None:
    """What the notebook claims, on every place between every two."""
    pair, bert = play_reader("pair"), play_reader("bert")
    halves = [play_reader(kind)(IDS) for kind in ("left to right", "right to left")]
    assert torch.equal(pair(IDS), torch.cat(halves, dim=-1))
    assert right_reach(pair, IDS, 99).all()
    for i in range(1, 11):
        for j, k in ((i - 1, i + 1), (0, 11), (i + 1, 0)):
            assert right_together(pair, IDS, i, j, k, 99).abs().max() < 1e-5
            assert right_together(bert, IDS, i, j, k, 99).abs().max() > 0.01
    one_side = right_together(pair, IDS, 7, 2, 4, 99)
    assert one_side[:16].abs().max() > 0.01  # two tokens on one side are read together
    assert one_side[16:].abs().max() < 1e-5


def test_play_readers_are_the_same_each_time_and_draw_nothing() -> None:
    found = []
    for seed in (3, 4):
        ablation_directionality._bert.cache_clear()
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        found.append(play_reader("bert")(IDS))
        assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(*found)
    assert not found[0].requires_grad


def test_what_cannot_be_read_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="choose one of bert, left to right, right to left, pair"):
        play_reader("gpt")
    for reader in [play_reader("pair"), *(states for _, states in check.look_ahead_test.right)]:
        with pytest.raises(ValueError, match="ids must be"):
            reader(IDS[0])
        with pytest.raises(ValueError, match="outside 0 to 99"):
            reader(IDS + 90)
        with pytest.raises(ValueError, match="there are position embeddings for 32"):
            reader(torch.zeros(1, LONGEST + 1).long())


def test_no_case_of_reach_is_near_the_limit() -> None:
    """Any sensible limit, from 1e-5 to 2e-3, gives the same answers; and some cases do round."""
    rounding = 0.0
    for states, ids, new_id in check.reach.cases():
        assert new_id not in ids
        for j in range(ids.shape[1]):
            changed = ids.index_fill(1, torch.tensor(j), new_id)
            moved = (states(changed) - states(ids)).abs().amax(dim=-1)
            assert ((moved < 1e-5) | (moved > 2e-3)).all()
            rounding = max([rounding, *moved[moved < 1e-5].tolist()])
    assert rounding > 1e-6


# -- right in other ways


def masking_by_loops(ids: Tensor, chance: Tensor, group: Tensor, words: Tensor) -> Any:
    masked, selected = ids.clone(), torch.zeros_like(ids)
    for i, j in np.ndindex(*ids.shape):
        selected[i, j] = ids[i, j] > 4 and chance[i, j] < 0.15
        if selected[i, j] and group[i, j] < 0.9:
            masked[i, j] = 4 if group[i, j] < 0.8 else words[i, j]
    return [masked.int(), selected]


def pair_in_torch(s: Any, start: int, split: int, end: int, other: Any, coin: float) -> Any:
    a = torch.cat([torch.tensor(sentence) for sentence in s[start:split]])
    label = torch.tensor(coin) >= 0.5
    return [a, other if label else (*chain(*s[split:end]),), label, torch.where(label, split, end)]


def clip_by_torch(gradients: list[Tensor], max_norm: float) -> Any:
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters]


def adamw_by_torch(
    w: Tensor, g: Tensor, m: Tensor, v: Tensor, t: int, rate: float, decay: float
) -> Any:
    parameter = nn.Parameter(w.clone())
    optimizer = torch.optim.AdamW([parameter], lr=rate, weight_decay=decay)
    state = {"step": torch.tensor(t - 1.0), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
    optimizer.state[parameter] = state
    parameter.grad = g.clone()
    optimizer.step()
    return parameter, state["exp_avg"], state["exp_avg_sq"]


def reach_in_one_batch(states: States, ids: Tensor, new_id: int) -> Tensor:
    """A row for each change, so that the batch is S."""
    changed = ids.repeat(ids.shape[1], 1).fill_diagonal_(new_id)
    return ((states(changed) - states(ids)).abs().amax(dim=-1) > 1e-4).T


def crossing_in_torch(steps: list[int], ours: list[float], theirs: list[float]) -> Any:
    stays = (torch.tensor(ours) > torch.tensor(theirs)).flip(0).cumprod(0).flip(0)
    return torch.tensor(steps)[stays.argmax()] if stays.any() else None


test_right_in_another_way = right_ones([
    ("masking", masking_by_loops),
    ("mlm_loss", lambda x, y, chosen: right_mlm_loss(x.double(), y, chosen).numpy()),
    ("mlm_loss", lambda x, y, chosen: right_mlm_loss(x.half(), y, chosen)),
    ("pair", pair_in_torch),
    ("nsp_loss", F.cross_entropy),
    ("nsp_loss", lambda x, y: F.softplus((x[:, 1] - x[:, 0]) * (1 - 2 * y)).mean()),
    ("majority", lambda labels: torch.bincount(labels).max() / len(labels)),
    ("ranking", lambda real, wrong: ((real - wrong).sign().mean() + 1) / 2),
    ("learning_rate", lambda s, n, w, p: Recipe(n, p, w / n).learning_rate_at(s)),
    ("learning_rate", lambda s, n, w, p: np.interp(s, [-1, w - 1, w, n], [0, p, p, 0])),
    ("clip", clip_by_torch),
    ("adamw", adamw_by_torch),
    ("training_cost", lambda p, t, ops, share, usd: ((h := p * t / 600 / ops / share), h * usd)),
    ("reach", reach_in_one_batch),
    ("together", lambda s, x, i, j, k, new: right_together(s, x, i, k, j, new)),
    ("difference_interval", lambda o, t, d: interval([float((o - t)[row].mean()) for row in d])),
    ("difference_interval", lambda o, t, d: np.quantile([(o[row].mean() - t[row].mean()).item()
     for row in d.flip(1)], [0.025, 0.975])),  # the order within a draw does not matter
    ("claim", lambda a, b: ("undecided", "supported", "contradicted")[(a > 0) - (b < 0)]),
    ("corrupt", lambda ids, sel, coin, rnd, m, s, k: torch.where(sel, torch.where(coin < m, k,
     torch.where(coin < m + s, ids, rnd)), ids)),
    ("crossing", crossing_in_torch),
])  # fmt: skip

# -- wrong in other ways


def rolled(*inputs: Tensor) -> Any:
    masked, selected = right_masking(*inputs)
    return masked, selected.roll(1, dims=1)


def pairs(a: str = "s[start:split]", real: str = "a, b, 0, end", wrong: str = "1, split") -> Any:
    """Write a function as a learner would, with one expression changed."""
    scope: dict[str, Any] = {"join": lambda spans: list(chain(*spans))}
    lines = f"    a, b = join({a}), join(s[split:end])\n    if coin < 0.5: return {real}\n"
    exec(f"def f(s, start, split, end, other, coin):\n{lines}    return a, other, {wrong}", scope)
    return scope["f"]


def swapped(places: dict[int, Any]) -> Any:
    """Return the right pair with something else in these places."""
    return lambda *x: tuple(places.get(i, part) for i, part in enumerate(right_pair(*x)))


def clip_in_place(gradients: list[Tensor], max_norm: float) -> list[Tensor]:
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    for g in gradients:
        g *= min(1, max_norm / norm)
    return gradients


test_wrong_in_another_way = wrong_ones([
    ("masking", lambda ids, chance, *_: (torch.where(chance < 0.15, 4, ids), chance < 0.15),
     "special tokens can be selected. (There is more, but this comes first.)"),
    ("masking", rolled, "selected; it should give"),
    ("masking", lambda *x: [right_masking(*x)[0].float(), x[1] < 0], "must stay whole numbers"),
    ("masking", lambda *x: [right_masking(*x)[0]] * 2, "values other than True and False"),
    ("mlm_loss", lambda x, y, chosen: F.cross_entropy(x[chosen], y[chosen], reduction="none"),
     "one number is wanted. Is the mean missing"),
    ("mlm_loss", lambda x, y, s: F.cross_entropy(x.mT, y * s, ignore_index=0), "labels = [[0]]"),
    ("pair", pairs(a="s[start:split + 1]", wrong="1, end"), "too long. (There is more, but this"),
    ("pair", pairs(real="s[start:split], b, 0, end"), "list is a list; an id of a is wanted"),
    ("pair", then(right_pair, lambda s, *_: s[0].append(7)), "changes sentences in place"),
    ("pair", lambda s, i, j, k, other, _: right_pair(s, i, j, k, other, random.random()),
     "random numbers of its own"),
    ("pair", lambda *x: right_pair(*x)[:3], "); return four things: a, b, label, go_on."),
    ("pair", swapped({0: None}), "None; a list of ids for a is wanted"),
    ("pair", swapped({2: "IsNext"}), "label is a str; 0 (IsNext) or 1 (NotNext) is wanted"),
    ("pair", swapped({3: None}), "go_on is None; the number of a sentence is wanted"),
    ("pair", lambda *x: right_pair(*x) if x[-1] < 0.5 else None, "every path end in a return"),
    ("clip", lambda *given: clip_in_place(*given) and None, "in place and returns nothing"),
    ("clip", lambda gs, top: gs[:1], "returned a list; a list of tensors is wanted, as many as"),
    ("clip", lambda gs, top: [None for g in gs], "tensor 1 of the list is None"),
    ("adamw", lambda *x: (x[0], *right_adamw(*x)[1:]), "Yours gives weight ["),
    ("adamw", patched(right_adamw, "1e-8 => 1e-6", {}), "gradient = [0.0003]"),
    ("training_cost", lambda p, t, ops, share, usd: (p * t / 1800 / ops / share, usd),
     "the forward pass alone. (There is"),
    ("reach", lambda *x: right_reach(*x).float(), "True and False are wanted. How far is far"),
    ("reach", lambda s, ids, new: s(ids[0]), "ids must be (batch, length), not (2,)"),
    ("claim", lambda a, b: verdict_of(round(a, 2), round(b, 2)), "cases come out wrong"),
    ("claim", lambda a, b: verdict_of(a, b).capitalize(), "returned 'Undecided'; one of 'suppor"),
    ("crossing", lambda steps, a, b: crossing_in_torch(steps, a, b) if len(steps) < 3 else None,
     "Yours gives None; it should give "),
    ("claim", lambda a, b: a > 0, "your function returned False; one of 'supported'"),
])  # fmt: skip


def test_a_verdict_in_full() -> None:
    said = verdict(check.pair, pairs(real="a, b, 1, end", wrong="0, split"))
    assert said == (
        "✗ pair: the labels are swapped.\n"
        "  Smallest case: sentences = [[5, 6], [7]], start = 0, split = 1, end = 2, other = [8, 9],"
        " coin =\n    0.8.\n"
        "  Yours gives [[5, 6], [8, 9], 0, 1]; it should give [[5, 6], [8, 9], 1, 1].\n"
        "  Likely: IsNext is 0 and NotNext is 1, in the order of the paper's classifier.\n"
    )


# -- learners' tests

LOSS_EXAMPLE = (
    torch.tensor([[[0.0, 3.0, 1.0], [2.0, 0.0, 5.0], [1.0, 4.0, 0.0], [7.0, 1.0, 2.0]]]),
    torch.tensor([[1, 1, 0, 2]]),
    torch.tensor([[True, False, False, True]]),
)


SCORES, LABELS = torch.tensor([[2.0, -1.0], [0.5, 1.0], [3.0, 1.0]]), torch.tensor([0, 1, 1])


def not_next_alone(loss: Any) -> bool:
    return bool(torch.isclose(loss(SCORES[1:], LABELS[1:]), right_nsp_loss(SCORES[1:], LABELS[1:])))


DOCUMENTS = [
    (source, [[1000 * d + 10 * s + i for i in range(1 + s % 3)] for s in range(9)])
    for d, source in enumerate(("plays", "news", "plays", "news", "plays"))
]


def pairs_look_right(builder: Any) -> bool:
    """A right test of another kind: A + B is a stretch of a document, or B is one of another."""

    def within(span: list[int], document: int) -> bool:
        whole = list(chain(*DOCUMENTS[document][1]))
        return any(whole[i : i + len(span)] == span for i in range(len(whole)))

    labels, drawn = set(), set()
    for a, b, label in chain.from_iterable(builder(DOCUMENTS, seed) for seed in range(20)):
        home = a[0] // 1000
        labels.add(label)
        if label == 0 and not within(a + b, home):
            return False
        if label == 1:
            drawn.add((home, b[0]))
            if not any(within(b, d) for d in range(home % 2, 5, 2) if d != home):
                return False
    return labels == {0, 1} and len(drawn) >= 10


def run(trainer: Any, steps: int) -> Any:
    for _ in range(steps):
        trainer.step()
    return trainer


def resumes(saved: int, on: int, more: int = 0, spare: int = 0) -> Any:
    """A test of resuming: steps before the save, after it; steps that the first run does more."""

    def test(trainer: Any) -> bool:
        first = run(trainer(), saved)
        state = first.save()
        run(first, more)
        resumed, whole = run(trainer.load(state), on), run(trainer(), saved + on + spare)
        return torch.equal(resumed.weights(), whole.weights())

    return test


def round_trip(trainer: Any) -> bool:
    first = run(trainer(), 5)
    return torch.equal(trainer.load(first.save()).weights(), first.weights())


def forgets(trainer: Any) -> bool:
    resumed = trainer()
    resumed.load(run(trainer(), 5).save())  # what it returns is lost
    return torch.equal(run(resumed, 3).weights(), run(trainer(), 8).weights())


def by_cutting(states: States, close: float = 1e-4) -> bool:
    ids = torch.arange(5, 5 + LONGEST).repeat(8, 1)
    return all(
        torch.allclose(states(ids[:, :n]), states(ids)[:, :n], rtol=0, atol=close)
        for n in range(1, LONGEST)
    )


SAME = (
    *("task", "seed", "train_examples", "batch_size", "learning_rate", "epochs"),
    *("pretraining_steps", "pretraining_tokens", "split", "tries"),
)


def run_by_run(rows: Record) -> bool:
    """Right: every run has one run of each variant that is like it."""
    groups: dict[Any, list[str]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in SAME), []).append(row["variant"])
    variants = sorted({row["variant"] for row in rows})
    return all(sorted(group) == variants for group in groups.values())


SAVED = [seen(exhibit) for exhibit in exhibits(check.resume_test)]

test_a_learners_test_is_told_what_it_misses = learners_tests([
    ("loss_test", lambda loss: abs(float(loss(*LOSS_EXAMPLE)) - 9) < 1e-3, "refuses every loss"),
    ("loss_test", lambda loss: loss is right_mlm_loss, "use torch.isclose"),
    ("loss_test", lambda loss: not check.loss_test.ours(loss), "True and False are swapped"),
    ("nsp_loss_test", not_next_alone, ["codertimo/BERT-pytorch, NLLLoss(ignore_index=0)"]),
    ("pair_test", pairs_look_right, []),
    ("pair_test", lambda f: all(b in chain(*(s for _, s in DOCUMENTS))
     for _, b, _ in f(DOCUMENTS, 0)), "refuses a right builder, one written with make_pairs"),
    ("pair_test", lambda f: f(DOCUMENTS[:2], 0) == [], "source 'plays' has one document"),
    ("resume_test", resumes(4, 20, more=20), []),
    ("resume_test", round_trip, SAVED[:-1]),
    ("resume_test", resumes(5, 3), ["a loop that saves no copy"]),
    ("resume_test", resumes(5, 4, spare=-1), "the two runs have not done the same number of steps"),
    ("resume_test", forgets, "keep what load returns: resumed = trainer.load(state)"),
    ("resume_test", lambda trainer: right_resume_test(trainer) and "m" in trainer().save(),
     "refuses a right trainer, one written with torch.optim.AdamW"),
    ("look_ahead_test", by_cutting, []),
    ("look_ahead_test", lambda s: right_reach(s, IDS, 99)[:, 0].all(), "one written as an"),
    ("look_ahead_test", lambda states: by_cutting(states, close=0), "refuses a right reader"),
    ("fair", run_by_run, []),
    ("fair", lambda rows: len({str(row) for row in rows}) == 1, "refuses every record, right ones"),
    ("fair", lambda rows: right_fair(rows) and len({row["method"] for row in rows}) == 1,
     "one written with variants that differ by their method"),
])  # fmt: skip


def test_a_diagonal_off_by_one_is_one_for_each_layer_and_a_window_is_8_wide() -> None:
    sees = {"a diagonal off by one": {1, 2}, "a mask cut to a window": {9, 10, 11}}
    for exhibit in exhibits(check.look_ahead_test):
        if seen(exhibit) in sees:
            table = right_reach(exhibit.wrong[0], IDS, 99)
            ahead = {j - i for i, j in table.nonzero().tolist() if j > i}
            assert ahead == sees[seen(exhibit)]


@pytest.mark.parametrize("shown", [e.wrong[0] for e in exhibits(check.resume_test)], ids=SAVED)
def test_all_trainers_learn_alike_until_they_are_stopped(shown: Any) -> None:
    """Nothing but resuming gives the broken ones away."""
    assert torch.equal(run(shown(), 300).weights(), run(SmallRun(), 300).weights())


def test_rows_that_a_test_spoils_are_fresh_for_the_next() -> None:
    for _ in range(2):
        assert verdict(check.fair, then(right_fair, list.clear)).startswith("✓")
    assert right_fair(play_record())


# -- the game of notebook 14

DIFFERENCES = {
    ("small", "middle"): Estimate(-9.0, -11.0, -7.0, 0.001),
    ("wide", "small"): Estimate(10.0, 8.0, 12.0, 0.001),
    ("middle", "wide"): Estimate(-1.0, -3.0, 1.0, 0.4),
    ("large", "small"): Estimate(19.0, 17.0, 21.0, 0.001),
    ("large", "middle"): Estimate(10.0, 6.0, 14.0, 0.001),
    ("large", "wide"): Estimate(9.0, 5.0, 13.0, 0.02),
}
EMPTY = (
    "… predict_order: nothing is predicted yet. Before you look: which is best? Write a list, "
    "best first, of large, middle, small, wide."  # by the alphabet, not by score
)


def said(order: object, differences: Any = DIFFERENCES) -> str:
    text = verdict(partial(predict_order, differences=differences), order)
    assert max(map(len, text.splitlines())) <= 100
    return words(text)


@pytest.mark.parametrize(
    ("order", "told"),
    [
        *((order, EMPTY) for order in (..., None, [], [...], ["", ""])),
        ("large", "… predict_order: a list is wanted, not a str."),
        (["large", ..., "wide", "small"], "Still to be placed: middle."),
        (["large", "wide", "midle", "small"], "No variant is called 'midle'. Still to be pl"),
        (["large", "wide", "large", "large", "small"], "large stands there 3 times; once is en"),
        ([["large"]], "No variant is called ['large']. Still to be placed: large, middle, small,"),
        (["large", "wide", "middle", "small"], "✓ predict_order: 5 of 5 decided pairs came out as "
         "you said. 1 more is undecided."),
        (("large", "middle", "wide", "small"), "✓ predict_order: 5 of 5 decided pairs came out"),
        (["wide", "small", "large", "middle"],
         "predict_order: 2 of 5 decided pairs came out as you said. 1 more is undecided. "
         "- You put small before large, but large is better by 17.0 to 21.0. "
         "- You put small before middle, but middle is better by 7.0 to 11.0. "
         "- You put wide before large, but large is better by 5.0 to 13.0."),
    ],
)  # fmt: skip
def test_an_order_is_counted_once_it_is_complete(order: Any, told: str) -> None:
    text = said(order)
    assert told in text
    turned = {(b, a): -found for (a, b), found in reversed(DIFFERENCES.items())}
    assert said(order, turned) == text  # how a pair is written changes nothing
    if text.startswith("…"):  # no result is told before the prediction stands
        assert "better" not in text
        assert "decided" not in text


def test_a_pair_that_is_clear_only_alone_decides_nothing() -> None:
    clear = {("c", "a"): Estimate(1.5, 1, 2, 0.001), ("c", "b"): Estimate(3.5, 3, 4, 0.001)}
    touching = {("a", "b"): Estimate(1, 0, 2, 0.051), **clear}
    for order in ("cab", "cba"):
        assert said([*order], touching).startswith("✓ predict_order: 2 of 2 decided pairs")
    apart = {("a", "b"): Estimate(-1, -2, -0.1, 0.04), **clear}
    assert said(["c", "a", "b"], apart).startswith("predict_order: 2 of 3 decided pairs")
    assert "undecided" not in said(["c", "a", "b"], apart)
    both = {("a", "b"): Estimate(-1, -2, -0.1, 0.04), ("c", "a"): Estimate(1, 0.1, 2, 0.03)}
    assert "none of 3 pairs" in said(["c", "a", "b"], {**both, ("c", "b"): Estimate(0, -1, 1, 1)})
    assert "none of 1 pair" in said(["a", "b"], {("a", "b"): Estimate(1, *[math.nan] * 3)})
