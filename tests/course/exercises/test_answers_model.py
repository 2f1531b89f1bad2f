"""Notebooks 00 to 04, 15 to 18, a1: right in other ways than ours, wrong in others than the patch.

That each mistake's own patch is answered by its message, test_judge.py tries for all exercises.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from verdicts import learners_tests, right_ones, then, verdict, words, wrong_ones

from bertedu.analysis.attention_heads import rollout, total_variation
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_name
from bertedu.model.variants.bigbird import sparse_mask
from bertedu.model.variants.distillation import distillation_loss
from bertedu.model.variants.electra import replaced
from bertedu.model.variants.rotary import rotate
from bertedu.model.variants.transformer_xl import remember
from bertedu.text.tokenization import SPECIAL_TOKENS, Merge, WordPiece, apply_merge, train_wordpiece
from course.exercises import check
from course.exercises.after_bert_machine import right_window_mask
from course.exercises.embeddings import right_input_sum
from course.exercises.encoder import right_our_name
from course.exercises.how_a_network_learns import Number, right_slope
from course.exercises.patch import patched
from course.exercises.reading_attention import by_loops, right_find_head
from course.exercises.real_bert import PLAY, published_bert, right_loader
from course.exercises.self_attention import right_attention, right_split_heads
from course.exercises.start_here import right_top_words

# -- our own answers do what the package and PyTorch do


def test_every_published_name_comes_back() -> None:
    for name in Bert(PLAY).state_dict():
        assert right_our_name(f"bert.{hugging_face_name(name)}") == name


def test_a_played_author_is_read_by_the_package_and_hides_no_zero() -> None:
    ids, segments = torch.arange(12)[None], torch.zeros(1, 12).long()
    tensors, right = published_bert()
    assert all(bool((tensor != 0).all()) for tensor in tensors.values())
    torch.testing.assert_close(right_loader(tensors)(ids, segments).pooled, right(ids, segments))
    assert not torch.allclose(published_bert(seed=1)[1](ids, segments), right(ids, segments))


def test_the_cases_hold_what_they_are_to_tell_apart() -> None:
    orders = [order for (order,) in check.order_mask.cases()]
    assert sum(not torch.equal(order, order.argsort()) for order in orders) > 30
    kinds = {
        (bool(total_variation(o, n).mean() > 0.5), bool(b.argmax() == a.argmax()))
        for o, n, b, a in check.refutes.cases()
    }
    assert len(kinds) == 4


# -- right in other ways


def decode_with_replace(tokens: list[str]) -> str:
    text = " ".join(token for token in tokens if token not in SPECIAL_TOKENS).replace(" ##", "")
    for mark in ".,!?":
        text = text.replace(" " + mark, mark)
    return text


def counted_by_building(hidden: int, inner: int) -> int:
    with torch.device("meta"):
        layer = nn.TransformerEncoderLayer(hidden, 1, inner)
    return sum(p.numel() for p in layer.parameters())


def attention_by_torch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Any:
    added = torch.zeros(mask.shape).masked_fill(mask.logical_not(), -1e9)
    weights = (query / query.shape[1] ** 0.5 @ key.T + added).softmax(1)
    return [F.scaled_dot_product_attention(query[None], key[None], value[None], mask)[0], weights]


def pieces_by_the_package(counts: dict[str, int], size: int) -> list[str]:
    """`train_wordpiece`, whose vocabulary begins with the special tokens, and needs the room."""
    letters = {(letter, i > 0) for word in counts for i, letter in enumerate(word)}
    room = len(SPECIAL_TOKENS) + max(size, len(letters))
    return train_wordpiece(counts, room, min_count=1)[0][len(SPECIAL_TOKENS) :]


def order_by_moving(last: Number) -> list[Number]:
    """Put each number in front whenever one meets it on a way down."""
    found, queue = list[Number](), [last]
    for one in queue:
        found = [one, *(other for other in found if other is not one)]
        queue += [part for part, _ in one.parts]
    return found


def slopes_by_moving(numbers: list[Number]) -> list[float]:
    """Follow every way down to the end, forward: slow, and right."""
    slopes = []
    for start in numbers:
        moved = {start: 1.0}
        for one in numbers:
            if one is not start:
                moved[one] = sum(slope * moved.get(part, 0.0) for part, slope in one.parts)
        slopes.append(moved[numbers[-1]])
    return slopes


def heads_by_loops(x: Tensor, mask: Tensor, w: dict[str, Tensor], heads: int) -> Tensor:
    """One row and one head after the other."""
    rows = []
    for row, sees in zip(x, mask, strict=True):
        made = [F.linear(row, w[f"{n}.weight"], w[f"{n}.bias"]) for n in ("query", "key", "value")]
        each = zip(*(one.chunk(heads, dim=-1) for one in made), strict=True)
        rows.append(torch.cat([right_attention(q, k, v, sees)[0] for q, k, v in each], dim=-1))
    return F.linear(torch.stack(rows), w["output.weight"], w["output.bias"])


def stack_by_sorting(x: Tensor, w: dict[str, Tensor], layer: Any) -> list[Tensor]:
    layers: dict[int, dict[str, Tensor]] = {}
    for name, tensor in w.items():
        if name.startswith("encoder."):
            _, _, number, own = name.split(".", 3)
            layers.setdefault(int(number), {})[own] = tensor
    return [x, *(x := layer(x, own) for _, own in sorted(layers.items()))]


def load_by_asking(tensors: Any, shapes: Any, our_name: Any) -> Any:
    w, missing = {}, set(shapes)
    for theirs, tensor in tensors.items():
        if shapes.get(our_name(theirs)) == tensor.shape:
            w[our_name(theirs)] = tensor
            missing.remove(our_name(theirs))
    return w, missing


def loop(order: str) -> Any:
    """A learner's loop: z for zero_grad, f for forward, b for backward, s for step."""

    def train(layer: nn.Linear, x: Tensor, y: Tensor, rate: float, steps: int) -> list[float]:
        optimizer = torch.optim.SGD(layer.parameters(), lr=rate)
        losses, now = [], {"loss": F.cross_entropy(layer(x), y)}
        lines = {
            "z": optimizer.zero_grad,
            "f": lambda: now.update(loss=F.cross_entropy(layer(x), y)),
            "b": lambda: now["loss"].backward(),
            "s": optimizer.step,
        }
        for _ in range(steps):
            for line in order:
                lines[line]()
            losses.append(now["loss"].item())
        return losses

    return train


def find_by_loops(weights: Tensor, queries: list[int], keys: list[int]) -> list[int]:
    hits = {}
    for layer, heads in enumerate(weights.tolist(), start=1):
        for head, rows in enumerate(heads, start=1):
            best = [rows[query].index(max(rows[query])) for query in queries]
            hits[layer, head] = sum(map(int.__eq__, best, keys))
    return [*max(hits, key=lambda place: hits[place])]


def refutes_by_loops(own: Tensor, new: Tensor, before: Tensor, after: Tensor) -> bool:
    moved = (own - new).clamp(min=0).sum().item() / own.shape[:2].numel()
    same = before.tolist().index(max(before)) == after.tolist().index(max(after))
    return same and moved > 0.5


RENAMED = """Norm.gamma:Norm.weight Norm.beta:Norm.bias word_embeddings:token
position_embeddings:position token_type_embeddings:segment embeddings.LayerNorm:embeddings.norm
attention.self.:attention. encoder.layer.:encoder.layers. attention.output.LayerNorm:attention_norm
attention.output.dense:attention.OUT intermediate.dense:feed_forward.intermediate
output.dense:feed_forward.output output.LayerNorm:feed_forward_norm OUT:output""".split()


def by_replacing(theirs: str) -> str:
    """Where order matters, the longer name comes first."""
    for pair in RENAMED:
        theirs = theirs.replace(*pair.split(":"))
    return theirs.removeprefix("bert.")


def first_above(gaps: list[float], tolerance: float) -> Any:
    above = ~(torch.tensor(gaps, dtype=torch.double) <= tolerance)
    return above.int().argmax() if above.any() else torch.tensor(-1)


def by_ranks(scores: Tensor, temperature: float, top_k: int) -> Tensor:
    """Chances of all first, cut by rank, made to add up again."""
    chances = (scores / temperature).softmax(-1)
    chances = chances * (scores.argsort(descending=True).argsort() < top_k)
    return chances / chances.sum()


def by_cross_entropy(scores: Tensor, ids: Tensor, start: int, per_token: bool) -> Tensor:
    how = "mean" if per_token else "sum"
    return -F.cross_entropy(scores[:-1][start - 1 :], ids[start:], reduction=how)


def newton_schulz(matrix: torch.Tensor, steps: int) -> torch.Tensor:
    """By singular values: a step moves each of them, and no vector."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(steps):
        values = 1.5 * values - 0.5 * values**3
    return left * values @ right


def mask_by_loops(length: int, window: int, global_tokens: int, drawn: Tensor) -> Any:
    mask = np.zeros((length, length), dtype=bool)
    for i, j in np.ndindex(length, length):
        mask[i, j] = abs(i - j) <= window or min(i, j) < global_tokens or j in drawn[i]
    return mask


test_right_in_another_way = right_ones([
    ("top_words", lambda x, k: [(ids := np.argsort(-x.numpy())[:k]), x.double().softmax(0)[ids]]),
    ("chance", np.log),
    ("merge_pieces", lambda p, a, b: apply_merge(p, Merge(a, b, a + b.removeprefix("##"), 1))),
    ("cut_word", lambda word, vocab: WordPiece([*SPECIAL_TOKENS, *vocab]).tokenize(word)),
    ("learn_pieces", pieces_by_the_package),
    ("encode_pair", lambda a, b: [("[CLS]", *a, "[SEP]", *b, "[SEP]"),
     torch.tensor([0] * (len(a) + 2) + [1] * (len(b) + 1))]),
    ("decode", decode_with_replace),
    ("layer_norm", lambda x, a, b, e: a * (x - x.mean(1, True)) * (x.double().var(1, correction=0,
     keepdim=True) + e).rsqrt() + b),
    ("input_sum", lambda i, s, t, e, p: [[(t[w] + e[g] + q).tolist() for w, g, q in
     zip(*pair, p, strict=False)] for pair in zip(i, s, strict=True)]),
    ("layer_parameters", counted_by_building),
    ("softmax", lambda scores: (scores - scores.logsumexp(1, keepdim=True)).exp()),
    ("attention", attention_by_torch),
    ("split_heads", lambda x, heads: np.stack(np.split(x.numpy(), heads, axis=-1), axis=1)),
    ("join_heads", lambda x: torch.cat(list(x.unbind(1)), dim=-1)),
    ("multi_head", heads_by_loops),
    ("stack", stack_by_sorting),
    ("load", load_by_asking),
    ("times", lambda a, b: Number(a.value * b.value, ((b, a.value), (a, b.value)))),
    ("in_order", order_by_moving),
    ("backward", slopes_by_moving),
    ("feed_forward", lambda x, A, a, B, b: F.linear(F.gelu(F.linear(x, A, a)), B, b)),
    ("post_norm_layer", lambda x, a, f, n, m: m(f(y := n(a(x) + x)) + y)),
    ("pooler", lambda states, W, b: torch.stack([(W @ row[0] + b).tanh() for row in states])),
    ("slope", lambda f, w, h: torch.tensor(sum(x * f(w + x * h) for x in (1, -1)) / h / 2)),
    *(("training_loop", loop(order)) for order in ("zfbs", "fzbs", "fbsz")),
    ("rollout", by_loops),
    ("find_head", find_by_loops),
    ("find_head", lambda w, asked, keys: right_find_head(w.flip(-1), asked, [len(w[0, 0]) - 1 - k
     for k in keys])),  # of equally strong keys the last
    ("refutes", refutes_by_loops),
    ("our_name", by_replacing),
    ("first_wrong", first_above),
    ("next_token", by_ranks),
    ("ending_score", by_cross_entropy),
    ("order_mask", lambda o: [[[a >= b for b in o.argsort()] for a in o.argsort()],
                              [[a > b for b in o.argsort()] for a in o.argsort()]]),
    ("replaced", lambda o, s, c: ((ids := o * ~c + s * c), (ids != o).float())),
    ("soft_targets", distillation_loss),
    ("cross_attention", lambda a, x, y, m: [a.mix(w := (a.split_heads(a.query(x)) @ a.split_heads(
     a.key(y)).mT / (x.shape[2] / a.num_heads) ** 0.5).masked_fill(~m, -1e9).softmax(-1), y), w]),
    ("remember", lambda *x: torch.hstack(x[:2]).detach().flip(1)[:, : x[2]].numpy()[:, ::-1]),
    ("window_mask", mask_by_loops),
    ("rotate", lambda x: rotate(x[None, None])[0, 0]),
    ("orthogonalize", newton_schulz),
])  # fmt: skip


def test_a_right_loop_passes_whatever_the_kind_of_number(request: pytest.FixtureRequest) -> None:
    """Notebook a1 computes in double precision, so that its digits are everybody's."""
    request.addfinalizer(lambda: torch.set_default_dtype(torch.float32))
    torch.set_default_dtype(torch.float64)
    assert verdict(check.training_loop, loop("zfbs")).startswith("✓")


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("softmax", lambda scores: F.softmin(-scores, dim=-1)),
        ("softmax", lambda scores: scores.log_softmax(-1).exp()),
        ("softmax", nn.Softmax(dim=-1)),
        ("layer_norm", lambda x, a, b, e: torch.layer_norm(x, x.shape[1:], eps=e) * a + b),
        (
            "layer_norm",
            lambda x, a, b, e: F.batch_norm(x.T, None, None, training=True, eps=e).T * a + b,
        ),
    ],
)
def test_what_is_ready_made_is_no_solution(name: str, f: Any) -> None:
    said, one = words(verdict(getattr(check, name), f)), getattr(check, name)
    assert said.startswith(f"✗ {name}: right, but {one.ready_made}.")
    assert said.endswith(one.instead)


# -- wrong in other ways


test_wrong_in_another_way = wrong_ones([
    ("top_words", lambda x, k: right_top_words(x, k)[0], "return two things: ids, probabilities"),
    ("top_words", lambda x, k: right_top_words(x, len(x)), "ids has shape (2,); (1,) is wanted"),
    ("top_words", lambda x, k: [y.float() for y in right_top_words(x, k)], "stay whole numbers"),
    ("softmax", lambda x: (e := (x - x.amin(1, True)).exp()) / e.sum(1, True), "too little is"),
    ("chance", lambda v: "ln V", "returned the str 'ln V'; one number is wanted"),
    ("chance", lambda v: math.log(v) + 1, "7 of 7 cases come out wrong"),
    ("merge_pieces", lambda p, a, b: [x for i, x in enumerate(p) if p[i + 1] != b], "past the end"),
    ("merge_pieces", lambda p, a, b: " ".join(p), "a list of tokens is wanted"),
    ("cut_word", lambda w, v: [0], "Return tokens, not ids"),
    ("decode", lambda t: decode_with_replace(" ".join(t).replace(" ##", "").split()),
     "Yours gives 'sing [UNK]s'; it should give 'sings'."),
    ("decode", lambda t: t, "one text is wanted"),
    ("layer_parameters", lambda h, i: counted_by_building(h, i) + 0.5, "a whole number is wanted"),
    ("layer_parameters", lambda h, i: 1234567, "Yours gives 1,234,567; it should give 16."),
    ("attention", lambda *qkvm: (qkvm[1], right_attention(*qkvm)[1]), "Yours gives mixed ["),
    ("attention", lambda q, k, v, m: right_attention(q, k, k, m | ~m), "every key. (There is more"),
    ("split_heads", lambda x, a: right_split_heads(x, a).flip(1), "None of the usual mistakes"),
    ("load", lambda t, s, our_name: (list(t), []), "return w, a dictionary"),
    ("times", lambda a, b: a.value * b.value, "a Number is wanted: Number(value, [(part, slope)"),
    ("times", lambda a, b: Number(a.value * b.value, [(Number(x.value), y.value) for x, y in
     ((a, b), (b, a))]), "a part is a copy; the Number itself is wanted."),
    ("times", lambda a, b: Number(a.value * b.value, [(a.value, b.value)]), "a part is a float; "),
    ("times", lambda a, b: Number(a.value * b.value, [(b.value, a)]), "pairs are (part, slope)"),
    ("times", lambda a, b: Number(a.value * b.value, {a: 1, b: 1}), "a Number is wanted: Number("),
    ("times", lambda a, b: type("Product", (), {"value": 6.0}), "a Number is wanted: Number("),
    ("in_order", lambda last: [last.value], "a list of Numbers is wanted"),
    ("backward", then(slopes_by_moving, list.clear), "changes numbers in place. Smallest"),
    ("slope", lambda f, w, h: right_slope(f, w, 2 * h), "Smallest case: f = cube, w = 1.0, h ="),
    ("refutes", lambda o, n, b, a: 0.7, "True or False"),
    ("refutes", lambda o, n, b, a: refutes_by_loops(o[:1], n[:1], b, a), "cases come out wrong"),
    ("our_name", lambda name: [name], "one name, a str, is wanted"),
    ("attention", lambda q, k, v, m: attention_by_torch(q, k, v, ~m), "the mask is inverted"),
    ("next_token", lambda s, t, k: (s * t).softmax(-1), "cases come out wrong"),
    ("order_mask", lambda o: [mask.int() for mask in check.order_mask.right(o)],
     "content is torch.int32; a mask holds True and False."),
    ("replaced", lambda o, s, c: replaced(o, s, ~c), "cases come out wrong"),
    ("remember", lambda old, new, n: remember(old, new, n).clone().requires_grad_(), "Your num"),
    ("window_mask", lambda s, w, g, d: mask_by_loops(s, w, 0, d), "cases come out wrong"),
    ("window_mask", lambda *a: right_window_mask(*a).float(), "a mask holds True and False"),
    ("window_mask", lambda *a: ~right_window_mask(*a), "may 0 see 0? True"),
    ("rotate", lambda x: rotate(x.flip(0)).flip(0), "cases come out wrong"),
    ("orthogonalize", lambda m, steps: newton_schulz(m, steps + 1), "cases come out wrong"),
    *((name, patched(getattr(check, name).right, patch, {}), said) for name, patch, said in (
        ("merge_pieces", 'right.removeprefix("##") => right[-1]', "cases come out wrong"),
        ("learn_pieces", "return pieces => return pieces[:size]", "cases come out wrong"),
        ("learn_pieces", "in word[1:] => in word[1] + word[2:]", "past the end"),
        ("cross_attention", "key, mask => key, mask[0]", "cases come out wrong"),
        ("cross_attention", "key, mask => key, mask.squeeze()", "cases come out wrong"),
        ("cross_attention", "key, mask => key.sum(0), mask", "cases come out wrong"),
    )),
])  # fmt: skip


def test_the_mask_of_the_exercise_is_the_packages_without_chance() -> None:
    assert right_window_mask(12, 2, 1, torch.zeros(12, 0).long()).equal(sparse_mask(12, 2, 1))


# -- learners' tests


def compared(embed: Any, eps: float) -> float:
    """How far an input layer is from PyTorch's, at random inputs."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(5, (2, 6), generator=draw)
    segments = (torch.arange(6) > 2).long().expand(2, 6)
    tables = [torch.randn(rows, 4, generator=draw) for rows in (5, 2, 8)]
    x = right_input_sum(ids, segments, *tables)
    difference = embed(ids, segments, *tables, eps) - F.layer_norm(x, (4,), eps=eps)
    return float(difference.abs().max())


X, REAL = torch.tensor([[1.0, 0.5], [0.2, 1.0], [0.7, 0.1]]), torch.tensor([True, True, True])


def knows_one_leak(layer: Any, by: float = 1.0) -> bool:
    """Catches the plain mask, but not what shows with dropout, padding or the other side."""
    longer = X.clone()
    longer[2] += by
    before, after = (layer(x, REAL, "left-to-right")[0] for x in (X, longer))
    return bool(torch.allclose(before[:2], after[:2]))


def wants_the_same_bits(layer: Any) -> bool:
    """Refuses right layers, since dropout makes two runs differ."""
    first, second = (layer(X, REAL, "bidirectional", dropout=0.5)[0] for _ in range(2))
    return bool((first == second).all() or layer is check.leak_test.right[0][1])


def careless_loader_test(length: int, part: str, segment: int = 0) -> Any:
    """Compare one part of the answer, for a text of that length in one segment."""
    ids = torch.arange(length)[None]

    def compare(loader: Any) -> bool:
        models = (f(published_bert()[0]) for f in (loader, right_loader))
        with torch.no_grad():
            mine, right = (getattr(model(ids, 0 * ids + segment), part) for model in models)
        return torch.allclose(mine, right, atol=1e-4)

    return compare


test_a_learners_test_is_told_what_it_misses = learners_tests([
    ("embedding_test", lambda embed: compared(embed, 0.3) < 1e-4, []),
    ("embedding_test", lambda e: compared(e, 1e-12) < 1e-4, ["tracel-ai/burn, issue 2185"]),
    ("embedding_test", lambda embed: embed is check.embedding_test.right[0][1], "torch.allclose"),
    ("embedding_test", lambda embed: compared(embed, 0.3), "True or False is wanted"),
    ("leak_test", knows_one_leak, ["pytorchic-bert", "many first versions", "a copied line"]),
    ("leak_test", lambda layer: knows_one_leak(layer, 100.0), ["pytorchic-bert", "many", "a cop"]),
    ("leak_test", wants_the_same_bits, "your test refuses a right attention"),
    ("layer_test", lambda make: (lambda m: torch.equal(m(torch.eye(8)), m(torch.eye(8))))(make()),
     ["graykode/nlp-tutorial", "a missing sum", "the Annotated"]),
    ("layer_test", lambda make: bool(make()(torch.eye(8)).sum(-1).abs().max() < 1e-3),
     ["graykode/nlp-tutorial", "a missing sum", "issue 29"]),
    ("rollout_test", lambda f: f is rollout, "refuses a right rollout, one written with loops"),
    ("loader_test", careless_loader_test(12, "pooled"), ["segment B forgotten"]),
    ("loader_test", careless_loader_test(6, "pooled", 1), ["a table cut to short texts"]),
    ("loader_test", careless_loader_test(12, "last", 1), ["a pooler from chance"]),
])  # fmt: skip
