"""What must hold of any BERT of ours, each rule as a function that takes a way to make models.

The tests run them on the real code; `test_museum.py` runs them on code with a bug planted, where
the named one must fail. Shapes alone prove nothing: most checks change an input and say which
outputs must move, which must not; the others work out the answer again, in loops or by formula.
"""

import copy
import dataclasses
import math
from collections.abc import Callable

import torch
from torch import Tensor

from bertedu.model import bert
from bertedu.model.attention import attention_mask
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import hugging_face_name, load_weights
from bertedu.model.config import DIRECTIONS, BertConfig, Direction, count_parameters
from bertedu.pretraining import objective
from bertedu.pretraining.batches import Batch

MakeModel = Callable[[BertConfig], BertForPreTraining]
Check = Callable[[MakeModel], None]

# no two sizes are equal, so that mixing up two axes cannot go unseen
CONFIG = BertConfig(
    vocab_size=37,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=40,
    max_position_embeddings=16,
    dropout=0.2,
)
LENGTHS = (9, 7, 4)  # real tokens of each row of `sample`
MOVED, STILL = 1e-6, 1e-12  # in float64, a change is far above the first or below the second


def make_model(config: BertConfig) -> BertForPreTraining:
    """Make a model in float64 and evaluation mode, with no weight left at zero or one."""
    torch.manual_seed(0)
    model = bert.BertForPreTraining(config)
    shake(model)
    return model.double().eval()


def shake(model: torch.nn.Module, spread: float = 0.2) -> None:
    """Add noise to every parameter, so that no bias of 0 or scale of 1 hides a mistake."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=spread)


def sample(config: BertConfig = CONFIG, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, segment ids and padding mask: three rows of two segments, two of them padded."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.tensor(LENGTHS)[:, None]
    place = torch.arange(max(LENGTHS))
    padding = place < lengths  # (B, S)
    ids = torch.randint(1, config.vocab_size, padding.shape, generator=generator) * padding
    segments = ((place >= lengths // 2) & padding).long()
    return ids, segments, padding


def sample_batch(config: BertConfig = CONFIG) -> Batch:
    """Wrap `sample` as a step of pre-training, with five selected positions."""
    ids, segments, padding = sample(config)
    selected = torch.zeros_like(padding)
    for row, column in ((0, 2), (0, 5), (0, 8), (1, 3), (2, 1)):
        selected[row, column] = True
    labels = torch.tensor([5, 11, 17, 23, 29]) % config.vocab_size
    return Batch(ids, segments, padding, selected, labels, torch.tensor([0, 1, 1]))


def moved(before: Tensor, after: Tensor) -> Tensor:
    """Say at which positions (B, S, ...) -> (B, S) a state moved; refuse what is in between."""
    change = (before - after).detach().abs().flatten(2).amax(-1)
    assert bool(((change < STILL) | (change > MOVED)).all()), f"neither still nor moved: {change}"
    return change > MOVED


def assert_close(ours: Tensor, expected: Tensor, what: str, tolerance: float = 1e-9) -> None:
    """Compare values, and name what was compared."""
    torch.testing.assert_close(
        ours, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}: {text}"
    )


def norm_by_hand(x: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    """Layer norm written out: the variance of the whole layer, epsilon inside the root."""
    centered = x - x.mean(-1, keepdim=True)
    variance = (centered * centered).mean(-1, keepdim=True)
    return centered / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def gelu_by_hand(x: Tensor) -> Tensor:
    """x Φ(x), with Φ from the standard library's error function."""
    values = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.flatten().tolist()]
    return torch.tensor(values, dtype=x.dtype).view_as(x)


# --- shapes: every exhibit of the museum passes this one -----------------------------------------


def check_shapes(make: MakeModel) -> None:
    """Every output has the shape that the documentation states."""
    model, (ids, segments, padding) = make(CONFIG), sample()
    batch, size = ids.shape
    output = model.bert(ids, segments, padding, return_attention=True)
    assert [state.shape for state in output.hidden_states] == [(batch, size, 24)] * 4
    assert [weights.shape for weights in output.attention] == [(batch, 4, size, size)] * 3
    assert output.pooled.shape == (batch, 24)
    words, follows = model(ids, segments, padding)
    assert words.shape == (batch, size, 37)
    assert follows.shape == (batch, 2)
    loss, scores = objective.pretraining_loss(model, sample_batch())
    assert loss.shape == ()
    assert scores.shape == (4,)


# --- embeddings ----------------------------------------------------------------------------------


def check_three_sums(make: MakeModel) -> None:
    """The input state is the layer norm of token + segment + position, summed one by one."""
    part, (ids, segments, _) = make(CONFIG).bert.embeddings, sample()
    rows = [
        [
            part.token.weight[ids[b, s]]
            + part.segment.weight[segments[b, s]]
            + part.position.weight[s]
            for s in range(ids.shape[1])
        ]
        for b in range(ids.shape[0])
    ]
    by_hand = norm_by_hand(torch.stack([torch.stack(row) for row in rows]), part.norm)
    assert_close(part(ids, segments), by_hand, "embeddings")


def check_segments_matter(make: MakeModel) -> None:
    """Another segment id moves the state of that token at the input, and all scores later."""
    model, (ids, segments, padding) = make(CONFIG), sample()
    other = segments.clone()
    other[0, 2] = 1 - other[0, 2]
    before, after = (model.bert(ids, s, padding) for s in (segments, other))
    expected = torch.zeros_like(padding)
    expected[0, 2] = True
    at_input = moved(before.hidden_states[0], after.hidden_states[0])
    assert torch.equal(at_input, expected), "segment id changed: input"
    assert moved(before.last, after.last)[0].all(), "segment id changed: last state"
    assert not torch.equal(before.pooled[0], after.pooled[0]), "segment id changed: pooled"


# --- attention -----------------------------------------------------------------------------------


def check_attention_by_hand(make: MakeModel) -> None:
    """Both paths agree with attention written as loops over rows, heads, queries and keys."""
    model, (ids, segments, padding) = make(CONFIG), sample()
    layer = model.bert.encoder.layers[0].attention
    x = model.bert.embeddings(ids, segments).detach()
    mask = attention_mask(padding, "left-to-right")
    assert mask is not None
    heads, size = 4, 6
    query, key, value = (f(x).detach() for f in (layer.query, layer.key, layer.value))  # (B, S, H)
    weights = torch.zeros(x.shape[0], heads, x.shape[1], x.shape[1], dtype=x.dtype)
    mixed = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for a in range(heads):
            part = slice(a * size, (a + 1) * size)  # head a owns these dimensions
            for i in range(LENGTHS[b]):
                seen = range(i + 1)
                scores = [
                    math.exp(float(query[b, i, part] @ key[b, j, part]) / math.sqrt(size))
                    for j in seen
                ]
                for j in seen:
                    weights[b, a, i, j] = scores[j] / sum(scores)
                    mixed[b, i, part] += weights[b, a, i, j] * value[b, j, part]
    by_hand = layer.output(mixed)
    explicit, returned = layer(x, mask, return_weights=True)
    fast, nothing = layer(x, mask)
    assert nothing is None
    assert_close(explicit[padding], by_hand[padding], "explicit path")
    assert_close(fast[padding], by_hand[padding], "fast path")
    real = padding[:, None, :].expand(-1, heads, -1)
    assert_close(returned[real], weights[real], "weights")


def check_rows_sum_to_one(make: MakeModel) -> None:
    """Each query shares out one unit, none to padding; in training with dropout too."""
    for direction in DIRECTIONS:
        model = make(dataclasses.replace(CONFIG, direction=direction, dropout=0.5)).train()
        ids, segments, padding = sample()
        for weights in model.bert(ids, segments, padding, return_attention=True).attention:
            real = padding[:, None, :].expand(weights.shape[:3])
            rows = weights[real]  # real queries
            assert_close(rows.sum(-1), torch.ones(len(rows), dtype=rows.dtype), "sum of a row")
            hidden = ~padding[:, None, None, :].expand_as(weights)[real]
            assert bool((rows[hidden] == 0).all()), f"{direction}: weight on padding"


# --- who sees whom -------------------------------------------------------------------------------


def sees(direction: Direction, size: int) -> Tensor:
    """(S, S), true where position i (row) may depend on token j (column)."""
    i, j = torch.arange(size)[:, None], torch.arange(size)
    if direction == "left-to-right":
        return j <= i
    if direction == "right-to-left":
        return j >= i
    return torch.ones(size, size, dtype=torch.bool)


def check_leaks(make: MakeModel, directions: tuple[Direction, ...] = DIRECTIONS) -> None:
    """A changed token moves exactly the states that may see it: all layers, both paths, heads."""
    ids, segments, padding = sample()
    ids, segments, padding = ids[1:2], segments[1:2], padding[1:2]  # seven tokens, two of padding
    real = LENGTHS[1]
    for direction in directions:
        model = make(dataclasses.replace(CONFIG, direction=direction))
        expected = sees(direction, real)
        for explicit in (False, True):
            before = model.bert(ids, segments, padding, explicit)
            words, follows = model.mlm(before.last), model.nsp(before.pooled)
            for j in range(real):
                other = ids.clone()
                other[0, j] = 1 + ids[0, j] % (CONFIG.vocab_size - 1)
                after = model.bert(other, segments, padding, explicit)
                where = f"{direction}, token {j} changed"
                at_input = moved(before.hidden_states[0], after.hidden_states[0])[0, :real]
                assert torch.equal(at_input, torch.arange(real) == j), f"{where}: input"
                pairs = list(zip(before.hidden_states, after.hidden_states, strict=True))
                for number, (old, new) in enumerate(pairs[1:], start=1):
                    changed = moved(old, new)[0, :real]
                    assert torch.equal(changed, expected[:, j]), f"{where}: layer {number}"
                changed = moved(words, model.mlm(after.last))[0, :real]
                assert torch.equal(changed, expected[:, j]), f"{where}: word scores"
                order = (follows - model.nsp(after.pooled)).abs().max() > STILL
                # whatever the direction, the vector of the whole input has read everything
                assert order, f"{where}: next-sentence scores"


def check_padding(make: MakeModel) -> None:
    """More padding, whatever stands under it, changes no real state and no score."""
    for direction in DIRECTIONS:
        model = make(dataclasses.replace(CONFIG, direction=direction))
        ids, segments, padding = sample()
        wide, wide_segments, real = (
            torch.nn.functional.pad(x, (0, 5)) for x in (ids, segments, padding)
        )
        wide[~real] = 1 + torch.arange(int((~real).sum())) % (CONFIG.vocab_size - 1)
        wide_segments[~real] = 1
        for explicit in (False, True):
            before = model.bert(ids, segments, padding, explicit)
            after = model.bert(wide, wide_segments, real, explicit)
            pairs = zip(before.hidden_states, after.hidden_states, strict=True)
            for number, (old, new) in enumerate(pairs):
                assert_close(new[real], old[padding], f"{direction}, state {number}")
            assert_close(after.pooled, before.pooled, f"{direction}, pooled")
        narrow = model(ids[2:, :4], segments[2:, :4])  # the same row with no padding at all
        words, follows = model(ids, segments, padding)
        assert_close(narrow[0][0], words[2, :4], f"{direction}, unpadded words")
        assert_close(narrow[1][0], follows[2], f"{direction}, unpadded order")


# --- encoder -------------------------------------------------------------------------------------


def check_layer_by_hand(make: MakeModel) -> None:
    """Post-norm is norm(x + f(x)), twice; pre-norm is x + f(norm(x)), twice."""
    x = sample_states()
    for norm in ("post", "pre"):
        layer = make(dataclasses.replace(CONFIG, norm=norm)).bert.encoder.layers[1]
        one, two = layer.attention_norm, layer.feed_forward_norm
        if norm == "post":
            middle = norm_by_hand(x + layer.attention(x, None)[0], one)
            expected = norm_by_hand(middle + layer.feed_forward(middle), two)
        else:
            middle = x + layer.attention(norm_by_hand(x, one), None)[0]
            expected = middle + layer.feed_forward(norm_by_hand(middle, two))
        assert_close(layer(x, None)[0], expected, f"{norm}-norm layer")


def check_gelu_is_erf(make: MakeModel) -> None:
    """Feed-forward and MLM head use x Φ(x) itself, not the tanh formula that comes near it."""
    model = make(CONFIG)
    x = 2 * sample_states()
    part = model.bert.encoder.layers[0].feed_forward
    inner = gelu_by_hand(part.intermediate(x))
    expected = inner @ part.output.weight.T + part.output.bias
    assert_close(part(x), expected, "feed-forward")
    expected = model.mlm.decoder(model.mlm.norm(gelu_by_hand(model.mlm.transform(x))))
    assert_close(model.mlm(x), expected, "MLM head")


def sample_states(seed: int = 2) -> Tensor:
    """Return (2, 7, H) random states."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, 7, CONFIG.hidden_size, dtype=torch.float64, generator=generator)


# --- the whole model -----------------------------------------------------------------------------


def check_decoder_tied(make: MakeModel) -> None:
    """Embedding and decoder are one parameter with one gradient, also once loaded or moved."""
    model = make(CONFIG)
    assert_tied(model, "new")
    ids, segments, padding = sample()
    words, _ = model(ids, segments, padding)
    words.logsumexp(-1).sum().backward()
    unseen = sorted(set(range(CONFIG.vocab_size)) - set(ids.flatten().tolist()))
    gradient = model.bert.embeddings.token.weight.grad
    assert bool((gradient[unseen].abs().amax(-1) > 0).all()), "no gradient from the decoder"
    state = {
        hugging_face_name(name): torch.randn_like(tensor)
        for name, tensor in model.state_dict().items()
        if name != "mlm.decoder.weight"
    }
    load_weights(model, state, "test")
    assert_tied(model, "loaded")
    assert_tied(copy.deepcopy(model), "copied")
    assert_tied(model.to(torch.bfloat16), "in bfloat16")
    assert_tied(model.to("cpu", torch.float32), "moved")


def assert_tied(model: BertForPreTraining, when: str) -> None:
    token, decoder = model.bert.embeddings.token.weight, model.mlm.decoder.weight
    assert decoder is token, f"{when}: two parameters"
    assert decoder.data_ptr() == token.data_ptr(), f"{when}: two storages"


def check_parameters(make: MakeModel) -> None:
    """All parameters are listed, get a gradient, and differ after one optimizer step."""
    for norm in ("post", "pre"):
        config = dataclasses.replace(CONFIG, norm=norm)
        model = make(config)
        listed = sum(parameter.numel() for parameter in model.parameters())
        assert listed == sum(count_parameters(config).values()), f"{listed} parameters are listed"
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        loss, _ = objective.pretraining_loss(model, sample_batch(config))
        loss.backward()
        torch.optim.SGD(model.parameters(), lr=1.0).step()  # moves by the gradient alone
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, f"{name} has no gradient"
            change = (parameter - before[name]).abs().max()
            if name.endswith("attention.key.bias"):
                # It adds the same to every score of a query, and softmax does not see that.
                assert change < 1e-6, f"{name} moved by {change}"
            else:
                assert change > 1e-5, f"{name} did not move"
        again = model(*sample())[0]
        assert torch.equal(again, model(*sample())[0]), "the same input gives two outputs"


# --- the loss ------------------------------------------------------------------------------------


def check_mlm_counts_selected(make: MakeModel) -> None:
    """The MLM loss is the mean of -log p over selected positions; no other has a say."""
    model, batch = make(CONFIG), sample_batch()
    words, _ = model(batch.ids, batch.segment_ids, batch.padding_mask)
    probabilities = words.detach().softmax(-1)[batch.selected]
    pairs = zip(probabilities, batch.labels, strict=True)
    losses = [-math.log(float(p[label])) for p, label in pairs]
    _, scores = objective.pretraining_loss(model, batch)
    by_hand = torch.tensor(sum(losses) / len(losses))
    assert_close(scores[0].float(), by_hand, "MLM loss", 1e-5)
    wider = {
        name: torch.nn.functional.pad(getattr(batch, name), (0, 4))
        for name in ("ids", "segment_ids", "padding_mask", "selected")
    }
    _, padded = objective.pretraining_loss(model, dataclasses.replace(batch, **wider))
    assert_close(padded, scores, "loss with more padding", 1e-5)


def check_nsp_of_one_kind(make: MakeModel) -> None:
    """A batch of IsNext alone, or NotNext alone, has the loss that its scores give."""
    model, batch = make(CONFIG), sample_batch()
    _, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)
    for label in (0, 1):
        labels = torch.full((len(LENGTHS),), label)
        loss, scores = objective.pretraining_loss(
            model, dataclasses.replace(batch, next_labels=labels)
        )
        by_hand = -follows.softmax(-1)[:, label].log().mean()
        assert bool(by_hand > 0.01)
        assert_close(
            scores[2].float(), by_hand.detach().float(), f"NSP loss of label {label}", 1e-5
        )
        assert_close(loss.float(), (scores[0] + scores[2]).float(), "the sum of both", 1e-5)


def complaint(check: Check) -> str | None:
    """Return what a check says against the code as it is now; None if it passes."""
    try:
        check(make_model)
    except AssertionError as error:
        return f"{check.__name__}: {error}"
    return None
