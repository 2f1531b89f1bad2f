"""Notebooks 08 to 12: right in other ways than ours, wrong in others than the patch."""

import re
from collections.abc import Sequence
from itertools import product, zip_longest
from typing import Any

import numpy as np
import torch
from seqeval.metrics import f1_score as entity_f1
from seqeval.scheme import IOB2
from sklearn.metrics import f1_score
from torch import Tensor
from torch.nn import functional as F
from verdicts import learners_tests, right_ones, then, wrong_ones

from bertedu.finetuning import tagging
from bertedu.finetuning.evaluation.metrics import word_f1
from bertedu.finetuning.examples import Choice, Tagged
from bertedu.finetuning.kinds import MultipleChoice, collate, truncating
from bertedu.finetuning.question_answering import LONGEST_ANSWER, best_span, context_positions
from bertedu.model.elmo import ScalarMix
from bertedu.model.features import Features
from bertedu.text.fast_tokenizer import load_tokenizer
from course.exercises import check
from course.exercises.features_versus_finetuning import right_extract, right_trainable
from course.exercises.finetuning_question_answering import right_best_span, right_score_test
from course.exercises.finetuning_sentence_pairs import right_choice_head, right_choice_rows
from course.exercises.finetuning_single_sentence import PlayModel, right_leaked
from course.exercises.finetuning_tagging import right_align, right_entities
from course.exercises.museum import exhibits

# -- our own answers do what the package does


def test_the_rows_of_a_choice_are_those_of_the_package() -> None:
    tokenizer = load_tokenizer()
    texts = ("The river rises in the hills.", "It is short.", "A town lies there, too.")
    one = Choice(texts[0], texts[1:], 0)
    batch = collate(MultipleChoice().encode([one], tokenizer, 64))
    pieces = [tokenizer.encode(text, add_special_tokens=False).tokens for text in texts]
    tokens, segments, mask = right_choice_rows(pieces[0], pieces[1:])
    assert [[tokenizer.token_to_id(t) for t in row] for row in tokens] == batch.ids.tolist()
    assert segments == batch.segment_ids.tolist()
    assert mask == batch.padding_mask.int().tolist()


def test_the_head_of_a_choice_is_that_of_the_package() -> None:
    torch.manual_seed(0)
    kind, whole = MultipleChoice(), torch.randn(12, 5)
    head = kind.head(5, dropout=0.0)
    examples = [Choice("a", tuple("bcde"), 1)] * 3
    batch = collate(kind.encode(examples, load_tokenizer(), 16))
    linear = head.classifier
    scores, shares = right_choice_head(whole, linear.weight[0], linear.bias[0], 4)
    assert torch.allclose(kind.scores(head, Features(whole[:, None], whole), batch), scores)
    answers = kind.answers(examples, (), list(scores))
    assert np.allclose([a.probabilities for a in answers], shares.detach(), atol=1e-6)


def test_the_span_reference_decodes_as_the_package_does() -> None:
    generator = torch.Generator().manual_seed(3)
    for length in (1, 2, 7, 40, 60):
        start, end = torch.randn(2, length + 3, generator=generator)
        places = list(range(2, 2 + length))
        _, *found = best_span(start, end, places)
        assert right_best_span(start, end, places, LONGEST_ANSWER) == (*found,)


def test_one_span_is_the_best_in_every_case() -> None:
    for start, end, places, longest in check.best_span.cases():
        pairs = [(i, j) for i in places for j in places if i <= j < i + longest]
        sums = sorted(float(start[i] + end[j]) for i, j in pairs)
        assert sums[-1] - sums[-2] > 0.015


def test_targets_are_placed_as_the_package_does() -> None:
    tags = ("O", "B-PLACE", "I-PLACE", "B-PERSON", "I-PERSON", "B-LIFE", "I-LIFE")
    sentence = ("Unbelievably", "Mira", "\u200b\u200e", "Okonjo", "left", "Antananarivo", ".")
    truth = ("O", "B-PERSON", "O", "I-PERSON", "O", "B-PLACE", "O")
    kind = tagging.Tagging(tags)
    (item,) = kind.encode([Tagged(sentence, truth)], load_tokenizer(), 128)
    assert right_align(item.rows[0].word_ids, [tags.index(tag) for tag in truth]) == item.target


# -- right in other ways


def sk_f1(true: Any, found: Any, classes: int) -> Any:
    return f1_score(true, found, labels=range(classes), average="macro", zero_division=0)


def rows_by_zip(beginning: list[str], endings: list[list[str]]) -> Any:
    """Pad by zip_longest; segments and mask as tensors, made from the tokens."""
    rows = [["[CLS]", *beginning, "[SEP]", *ending, "[SEP]"] for ending in endings]
    tokens = list(zip(*zip_longest(*rows, fillvalue="[PAD]"), strict=True))
    mask = torch.tensor([[token != "[PAD]" for token in row] for row in tokens])
    place = torch.arange(mask.shape[1])
    return tokens, (mask & (place >= len(beginning) + 2)).int(), mask


def folded_first(c: Tensor, weight: Tensor, bias: Tensor, choices: int) -> Any:
    folded = c.reshape(-1, choices, c.shape[-1])
    scores = torch.einsum("bnh,h->bn", folded, weight) + bias
    return [scores, torch.softmax(scores, 1)]


def span_vectorized(start: Tensor, end: Tensor, places: Sequence[int], longest: int) -> Any:
    at = torch.tensor(places)
    sums = start[at][:, None] + end[at]
    window = torch.ones_like(sums).triu() - torch.ones_like(sums).triu(longest)
    best = sums.masked_fill(window == 0, -torch.inf).argmax()
    return at[best // len(at)], at[best % len(at)]


def windows_of_the_tokenizer(length: int, room: int, stride: int) -> Any:
    tokenizer = load_tokenizer()
    with truncating(tokenizer, room + 4, stride, "only_second"):
        row = tokenizer.encode("?", " ".join(["a"] * length))
    rows = [row, *row.overflowing]
    return np.array([r.offsets[context_positions(r)[0]][0] // 2 for r in rows])


def align_by_set(word_ids: list[int | None], tags: list[int]) -> Tensor:
    before, targets = {None}, []
    while word_ids:  # a list of one's own may be used up
        word = word_ids.pop(0)
        targets.append(-100 if word in before else tags[word])
        before.add(word)
    return torch.tensor(targets)


def with_seqeval(truth: list[list[str]], found: list[list[str]]) -> float:
    return float(entity_f1(truth, found, mode="strict", scheme=IOB2, zero_division=0))


def mix_by_the_package(states: Tensor, weights: Tensor, scale: float) -> Tensor:
    mix = ScalarMix(len(states))
    mix.weights.data, mix.scale.data = weights, torch.tensor(scale)
    return mix(states[:, None])[0]


def tuned_by_backward(model: Any, batches: Any, rates: Any, part: slice = slice(None)) -> Any:
    """Fine-tune with .backward(), and by hand the surprise at the right class."""
    for step, batch in enumerate(batches):
        weight, bias = model.weights[-2:]
        log_probabilities = (model.pooled(batch) @ weight.T + bias).log_softmax(-1)
        loss = -log_probabilities[range(len(log_probabilities)), batch.target].mean()
        for one in model.weights:
            one.grad = None
        loss.backward()
        model.move([one.grad for one in model.weights][part], rates[step])
        yield loss.detach()


test_right_in_another_way = right_ones([
    ("tune", lambda *given: torch.stack([*tuned_by_backward(*given)])),
    ("class_probabilities", lambda c, w, b: [F.softmax(w @ row + b, 0).tolist() for row in c]),
    ("macro_f1", sk_f1),
    ("choose", lambda dev, test: (dev.index(max(dev)), test[np.argmax(dev)])),
    ("leaked", lambda train, test: set(right_leaked(train, test))),
    ("choice_rows", rows_by_zip),
    ("choice_head", folded_first),
    ("best_span", span_vectorized),
    ("word_f1", word_f1),
    ("windows", windows_of_the_tokenizer),
    ("windows", lambda n, room, stride: range(0, max(n - stride, 1), room - stride)),
    ("align", align_by_set),
    ("entities", lambda tags: [tagging.entities(tags), tags.append("spoiled")][0]),  # a copy
    ("entities", lambda tags: tuple(map(list, right_entities(tags)[::-1]))),
    ("entity_f1", with_seqeval),
    ("layer_mix", mix_by_the_package),
    ("concat_layers", lambda h, n: torch.cat(list(h), dim=-1)[:, -n * h[0].shape[-1] :]),
    ("trainable", lambda m: sum(len(p.flatten()) * p.requires_grad for p in m.parameters())),
])  # fmt: skip

# -- wrong in other ways


test_wrong_in_another_way = wrong_ones([
    ("tune", lambda *given: [*tuned_by_backward(*given, part=slice(1, 3))], "2 gradients for 3"),
    *(("leaked", lambda train, test, key=key: [i for i, text in enumerate(test) if key(text) in
       map(key, train)], "cases come out wrong") for key in (
        lambda text: set(text.lower().split()),
        lambda text: re.findall(r"\w+", text.lower()),
        lambda text: text.lower().strip().replace("  ", " "),
    )),
    ("leaked", lambda train, test: list(test), "is a str; a place"),
    ("leaked", lambda train, test: [i for i, text in enumerate(test) for one in train
     if one.lower().split() == text.lower().split()], "cases come out wrong"),  # some places twice
    ("choice_rows", then(right_choice_rows, lambda a, b: b[0].pop()), "changes endings in place."),
    ("choice_rows", lambda a, b: (rows_by_zip(a, b)[0], *[rows_by_zip(a, b)[2]] * 2),
     "Row 0 of your segments is 1 1 1 1 1 0; it should be 0 0 0 1 1 0"),
    ("choice_rows", lambda a, b: right_choice_rows(a, b[:1]), "has 1 and not 2 rows; each end"),
    ("choice_rows", lambda a, b: ("a", "b", "c"), "tokens is no list of rows"),
    ("choice_rows", lambda a, b: (*right_choice_rows(a, b)[:2], [[1]] * len(b)), "one number"),
    ("choice_rows", lambda a, b: [right_choice_rows(a, b)[0]] * 3, "hold only whole"),
    ("best_span", lambda *x: [float(i) for i in right_best_span(*x)], "first is a float; the"),
    ("windows", lambda n, room, stride: 3, "your function returned an int; a list of starts"),
    ("align", lambda w, t: t, "your list has length 1; 3 targets are wanted"),
    ("entities", lambda t: [(a, b, k) for k, a, b in right_entities(t)], "(type, start, end)"),
    ("entities", lambda t: len(right_entities(t)), "a list or a set of (type, start, end) is"),
    ("trainable", then(right_trainable, lambda m: m.requires_grad_(True)), "must leave the model"),
])  # fmt: skip

# -- learners' tests


def test_the_play_model_needs_eval() -> None:
    model = PlayModel()
    texts = ["one", "one two", "a b c"]
    assert model(texts) == [1, 0, 0], "the third is dropped out"
    model.eval()
    assert model(texts) == [1, 0, 1]


ARTICLES = [
    (split, topic, [[100 * n + 10 * s + i for i in range(1 + (3 * s + n) % 5)] for s in range(9)])
    for n, (split, topic) in enumerate(
        product(("test", "test", "train", "train"), ("birds", "ships", "ships", "birds"))
    )
]


def choices(builder: Any, seeds: int = 20) -> list[Any]:
    made = [builder(ARTICLES, seed) for seed in range(seeds)]
    return [(split, one) for some in made for split in some for one in some[split]]


def test_the_builders_draw_by_their_seed_and_leave_articles_alone() -> None:
    before = repr(ARTICLES)
    for builder in [right for _, right in check.choice_data_test.right]:
        assert builder(ARTICLES, 1) == builder(ARTICLES, 1) != builder(ARTICLES, 2)
    for exhibit in exhibits(check.choice_data_test):
        assert exhibit.wrong[0](ARTICLES, 1) == exhibit.wrong[0](ARTICLES, 1)
        assert all(len(endings) == 4 for _, (_, endings, _) in choices(exhibit.wrong[0], 1))
        assert exhibit.wrong[0](ARTICLES[:1], 1)  # nobody to draw from, and no error
    assert repr(ARTICLES) == before


def asking(demand: Any) -> Any:
    """A test of more than the rules: what it demands of windows, and where the answer begins."""
    context = "Zoë met Al. Then Al, at a café, met Zoë again, and Al left"
    at = context.index("again")
    return lambda mark: demand(mark(context, "again", at, 8, 5), at)


ONE = ([None, 0, 2, 2, None, None], ["B-PLACE", "O", "B-LIFE"])  # word 1 has no piece
GOOD = ["O", "B-PLACE", "B-LIFE", "I-LIFE", "O", "O"]
MISSED = ([None, 0, 1, 2, None], ["B-LIFE", "O", "B-LIFE"], ["O"] * 5)


def scored(scorer: Any, found: list[str]) -> float:
    return float(scorer([(*ONE, found)]))


TAGGING = [  # what holds of a right scorer, one for each exhibit
    lambda f: scored(f, [*GOOD[:3], "O", "O", "O"]) == 1,  # a later piece
    lambda f: scored(f, [*GOOD[:5], "B-PLACE"]) == 1,  # padding
    lambda f: f([MISSED]) == 0,  # accuracy would be 1/3
    lambda f: abs(scored(f, ["O", "B-PLACE", "I-LIFE", "O", "O", "O"]) - 2 / 3) < 1e-9,
    lambda f: scored(f, ["O", "B-PERSON", *GOOD[2:]]) == 0.5,  # a type
    lambda f: abs(f([(*ONE, GOOD), MISSED]) - 2 * 2 / (2 + 4)) < 1e-9,
]

test_a_learners_test_is_told_what_it_misses = learners_tests([
    ("accuracy_test", lambda f: f(PlayModel(), [("two words", 0), ("one", 1)], 2) == 1,
     ["dropout left on", "the last batch dropped", "mean of batch means"]),
    ("choice_data_test", lambda f: len(choices(f)) > 999, "one written with one example per"),
    ("mark_test", lambda mark: mark("one two three four", "two", 4, 8, 3)[0][1] == (1, 1),
     ["bytes", "first place", "cut answer", "last token", "no sharing"]),
    ("mark_test", asking(lambda found, at: all(place for _, place in found)),
     "every marker, right ones included. Likely: it wants the answer in every window."),
    ("mark_test", asking(lambda found, at: all(o[p[1] - 1][1] == at + 5 for o, p in found if p)),
     "a right marker, one written by hand, with whole words as tokens. Likely: it takes last for "
     "the token after the answer."),
    ("mark_test", lambda mark: len(mark("Zoë", "Zoë", 0, 9, 2)[0][0]) == 1,
     "refuses a right marker, one written with the package, whose tokens are word pieces. Likely: "
     "it takes tokens for words"),
    ("score_test", lambda score: score("lake", ["lake"])[0] == 100,
     "refuses every scorer, right ones included. Likely: it returns False on every path, or expec"),
    ("score_test", lambda f: right_score_test(f) and f("the", []) == f(".", []) == (1, 1), []),
    ("tagging_test", lambda f: all(holds(f) for holds in TAGGING), []),
    ("tagging_test", lambda f: f is check.tagging_test.right[0][1], "a right scorer, one written"),
    ("tagging_test", lambda f: f([]) == 0, 'list of list. Line 1: ("tagging_test", lambda f: f('),
    ("feature_test", lambda extract: extract is right_extract, "one written with LayerFeatures"),
])  # fmt: skip
