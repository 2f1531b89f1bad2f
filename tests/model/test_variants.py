"""What came after BERT: who reads whom in each, what each shares, and what each refuses.

Bugs that people make and this finds stand in the docstrings.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from folders import dice
from torch import Tensor, nn

from bertedu.analysis.leak import MOVED, movement
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import hugging_face_tensors
from bertedu.model.config import BertConfig
from bertedu.model.variants.albert import albert
from bertedu.model.variants.bigbird import bigbird, reach, sparse_mask
from bertedu.model.variants.distillation import distillation_loss, every_second_layer
from bertedu.model.variants.electra import Electra, replaced
from bertedu.model.variants.rotary import modern_bert, rotate
from bertedu.model.variants.seq2seq import Recurrent, Transformer, cross_attention, translate
from bertedu.model.variants.transformer_xl import TransformerXL
from bertedu.model.variants.xlnet import XLNet
from bertedu.text.tokenization import CLS_ID, MASK_ID, PAD_ID, SEP_ID

S = 12
CONFIG = BertConfig(50, 16, 3, 2, 32, 20, dropout=0.0, initializer_range=0.5)
ONE_SEGMENT = replace(CONFIG, type_vocab_size=1)
ONE_WAY = replace(
    ONE_SEGMENT, num_hidden_layers=2, max_position_embeddings=8, direction="left-to-right"
)
PLACE = torch.arange(S)
STATE, WORD = PLACE[:, None], PLACE
AWAY = (STATE - WORD).abs()
IDS = torch.randint(5, 49, (2, S), generator=torch.Generator().manual_seed(1))
SELECTED = torch.rand(2, S, generator=torch.Generator().manual_seed(2)) < 0.4
ORDER = torch.tensor([0, 6, 4, 1, 5, 3, 2, 11, 8, 10, 7, 9])


def seeded(make: Callable[..., Any], *given: Any, **more: Any) -> Any:
    """Make a model in double precision and evaluation mode, the same at each call."""
    torch.manual_seed(0)
    return make(*given, **more).double().eval()


# --- who reads whom ------------------------------------------------------------------------------


def bigbird_after(layers: int, **keys: int) -> tuple[Any, Tensor]:
    model = seeded(bigbird, CONFIG, **keys)
    expected = reach(sparse_mask(S, **keys), 3)[layers - 1]
    return (lambda ids: model.bert(ids).hidden_states[layers]), expected


def xl(memory: int, back: int) -> tuple[Any, Tensor]:
    """Two layers, in segments of 4: a layer looks back ``memory`` places, each time again."""
    model = seeded(TransformerXL, ONE_WAY, memory)
    return (lambda ids: model.read(ids, 4)), (WORD <= STATE) & (STATE // 4 * 4 - back <= WORD)


def xlnet() -> tuple[Any, Tensor]:
    """A guess has read what came before it in the order and never its own word: through three
    layers, also no content that has itself read the word."""
    model, turn = seeded(XLNet, CONFIG), ORDER.argsort()
    return (lambda ids: model(ids, ORDER)), turn[None, :] < turn[:, None]


def modern(number: int) -> tuple[Any, Tensor]:
    """Only every third layer sees all."""
    model = seeded(modern_bert, replace(ONE_SEGMENT, num_hidden_layers=5), window=1)
    layer = model.bert.encoder.layers[number]
    given = model.bert.embeddings
    return (lambda ids: layer(given(ids, torch.zeros_like(ids)), None)[0]), (
        (AWAY <= 1) | (number % 3 == 0)
    )


def writer(kind: str) -> tuple[Any, Tensor]:
    """A score does not move with its own answer or what follows."""
    model = seeded(Transformer, CONFIG) if kind == "T" else seeded(Recurrent, 50, 16)
    source = torch.tensor([[7, 8, 9, PAD_ID]])
    return (lambda ids: model(source.expand(len(ids), -1), ids)[0]), WORD <= STATE


READS: dict[str, Callable[[], tuple[Any, Tensor]]] = {
    **{
        f"bigbird {keys}, {layers}": lambda keys=keys, layers=layers: bigbird_after(layers, **keys)
        for keys in (
            {"window": 1},
            {"window": 2, "global_tokens": 1},
            {"window": 1, "random_keys": 2},
        )
        for layers in (1, 2)
    },
    "transformer-xl": lambda: xl(4, 8),
    "transformer-xl without memory": lambda: xl(0, 0),
    "xlnet": xlnet,
    **{f"modernbert, layer {n}": lambda n=n: modern(n) for n in range(5)},
    "transformer": lambda: writer("T"),
    "two GRUs": lambda: writer("GRU"),
}


@pytest.mark.parametrize("name", READS)
def test_a_state_moves_with_exactly_the_words_that_it_may_read(name: str) -> None:
    read, expected = READS[name]()
    with torch.no_grad():
        moved, again = movement(read, IDS[0], 49) > MOVED / 1e3, read(IDS)
        with torch.device("meta"):  # whatever it makes is where the text is
            assert torch.equal(read(IDS), again)
    assert torch.equal(moved, expected)


PADDED: dict[str, Callable[[], Any]] = {
    "bigbird": lambda: seeded(bigbird, CONFIG, 3, 1).bert,
    "modernbert": lambda: seeded(modern_bert, ONE_SEGMENT, 2).bert,
    "albert": lambda: seeded(albert, CONFIG, 4).bert,
    "electra": lambda: seeded(Electra, CONFIG, 4).detector,  # one head is left
}
FRESH: list[Callable[[], Any]] = [
    *PADDED.values(),
    lambda: seeded(albert, CONFIG, 4).mlm,
    lambda: seeded(TransformerXL, ONE_WAY, 4),
    lambda: seeded(Transformer, CONFIG),
]


@pytest.mark.parametrize("name", [*PADDED, "xlnet"])
def test_padding_is_read_by_nobody(name: str) -> None:
    """Also where it is early in XLNet's order."""
    real = (PLACE < 9).expand(2, -1)
    answers = []
    for other in (0, 49):
        ids = IDS.masked_fill(~real, other)
        if name == "xlnet":
            answers.append(seeded(XLNet, CONFIG)(ids, ORDER.flip(0), real)[real])
        else:
            answers.append(PADDED[name]()(ids, padding_mask=real).last[real])
    assert answers[0].isfinite().all()
    torch.testing.assert_close(*answers)


@pytest.mark.parametrize("make", FRESH)
def test_maps_and_tables_begin_as_wide_as_the_config_says(make: Callable[[], Any]) -> None:
    for name, weight in make().named_parameters():
        if weight.requires_grad and weight.ndim == 2:  # ModernBERT's places stay nothing
            assert 0.3 < weight.std() < 0.7, name


# --- what is BERT again, at one end of a setting -------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: seeded(albert, CONFIG, share_layers=False),
        lambda: seeded(albert, CONFIG, CONFIG.hidden_size, share_layers=False),
        lambda: seeded(bigbird, CONFIG, 20),
        lambda: seeded(bigbird, CONFIG, 0, S),
    ],
)
def test_a_variant_with_nothing_varied_is_bert(make: Callable[[], Any]) -> None:
    model, bert = make(), BertForPreTraining(CONFIG).double().eval()
    bert.load_state_dict(model.state_dict())
    torch.testing.assert_close(model(IDS), bert(IDS))


# --- ALBERT --------------------------------------------------------------------------------------


def loss_of(model: BertForPreTraining) -> Tensor:
    words, follows = model(IDS, selected=SELECTED)
    return nn.functional.cross_entropy(words, IDS[SELECTED]) + follows[:, 0].sum()


def test_the_gradient_of_alberts_layer_is_the_sum_over_all_depths() -> None:
    """Fails when layers are copied, or only start out alike, and then part."""
    model = seeded(albert, CONFIG)
    copies = copy.deepcopy(model)
    copies.bert.encoder.layers = nn.ModuleList(
        copy.deepcopy(same.layer) for same in model.bert.encoder.layers
    )
    for each in (model, copies):
        loss_of(each).backward()  # type: ignore[no-untyped-call]
    layers = [dict(layer.named_parameters()) for layer in copies.bert.encoder.layers]
    shared = dict(model.bert.encoder.layers[0].layer.named_parameters())
    for name, weight in shared.items():
        each = torch.stack([layer[name].grad for layer in layers])
        torch.testing.assert_close(weight.grad, each.sum(0))
    assert not torch.allclose(each[0], each[1], rtol=0.1), "the depths disagree"
    torch.optim.AdamW(model.parameters(), lr=0.1).step()
    first, *others = (same.state_dict() for same in model.bert.encoder.layers)
    assert all(torch.equal(first[name], other[name]) for other in others for name in first)


def test_alberts_narrow_tables_are_one_table_at_both_ends() -> None:
    model = seeded(albert, CONFIG, 4)
    assert model.decoder.weight is model.bert.embeddings.token.weight
    words, _ = model(IDS)
    assert torch.linalg.matrix_rank(words.detach().flatten(0, 1)) <= 5  # 4 numbers, and a bias
    torch.testing.assert_close(model(IDS, selected=SELECTED)[0], words[SELECTED])
    # the way back begins like every other map, and its norm has the config's epsilon
    assert not model.mlm.transform.bias.any()
    assert not model.decoder.bias.any()
    norm = albert(replace(CONFIG, layer_norm_eps=3.0), 4).mlm.norm
    row = torch.tensor([1.0, -1.0, 1.0, -1.0])
    torch.testing.assert_close(norm(row), row / 2)  # √(1 + 3)


# --- BigBird, ModernBERT -------------------------------------------------------------------------


def test_each_query_has_its_neighbors_the_global_tokens_and_so_many_more() -> None:
    """Fails when random keys fall on keys already seen, or nobody sees what sees all."""
    mask = sparse_mask(16, 2, 1, 3)
    place = torch.arange(16)
    known = (place[:, None] - place).abs() <= 2
    known[0] = known[:, 0] = True
    assert mask[known].all()
    assert ((mask & ~known).sum(dim=1)[1:] == 3).all()
    assert not torch.equal(mask, sparse_mask(16, 2, 1, 3, seed=1))
    assert sparse_mask(5, 1, 0, 9).all(), "all that are left"
    for layer, after in enumerate(reach(sparse_mask(S, 2), 4), start=1):
        assert torch.equal(after, 2 * layer >= AWAY)
    assert reach(sparse_mask(S, 2, 1), 2)[1].all(), "over a global token in two"


def test_a_rotary_score_depends_on_the_distance_only() -> None:
    """Fails when halves are turned as if pairs on one side only, or by the wrong dimension."""
    query, key = torch.randn(2, 8, generator=dice(), dtype=torch.double)
    turned = [rotate(x.expand(30, 8)) for x in (query, key)]  # the same vector at all places
    scores = turned[0] @ turned[1].T  # (30, 30)
    for distance in range(-29, 30):
        line = scores.diagonal(distance)
        assert torch.allclose(line, line[0].expand_as(line), atol=1e-9)
    assert rotate(query[None].bfloat16()).dtype == torch.bfloat16
    by_hand = torch.tensor([0.5403, 0.8415, 0.99995, 0.0100])  # place 1: 1 and 1/100 radian
    assert torch.allclose(rotate(torch.tensor([[1.0, 0.0] * 2] * 2))[1], by_hand, atol=1e-4)


def test_a_text_further_right_has_the_same_states_but_turned_around_others() -> None:
    """What stands before is far off and looks away: no layer sees further than its window."""
    model = seeded(modern_bert, replace(ONE_SEGMENT, max_position_embeddings=40), window=2, every=9)
    model.bert.encoder.layers[0] = model.bert.encoder.layers[1]  # else the first sees all
    ids = torch.randint(5, 50, (1, 30), generator=dice())
    later = torch.cat([torch.randint(5, 50, (1, 10), generator=dice(1)), ids], dim=1)
    here, there = model.bert(ids).last[0], model.bert(later).last[0, 10:]
    torch.testing.assert_close(here[6:], there[6:])  # 3 layers of 2 neighbors
    assert not torch.allclose(here[:3], there[:3], atol=1e-3)
    assert (model.bert(ids.flip(1)).last[0].flip(0) - here).abs().max() > 0.05
    assert not any("position" in n for n, p in model.named_parameters() if p.requires_grad)
    torch.testing.assert_close(model.bert(ids, return_attention=True).last[0], here)


# --- Transformer-XL, XLNet -----------------------------------------------------------------------


@pytest.mark.parametrize("segment", [1, 3, 4, 5, 6])
def test_in_segments_or_in_one_piece_it_is_the_same_text(segment: int) -> None:
    """Fails when places are counted from the segment's first word."""
    model = seeded(TransformerXL, ONE_WAY, S)
    torch.testing.assert_close(model.read(IDS, segment), model.read(IDS, S))
    one = seeded(TransformerXL, replace(ONE_WAY, num_hidden_layers=1), S)
    turned = torch.cat([IDS[:, [1, 0]], IDS[:, 2:]], dim=1)
    change = (one.read(turned, segment) - one.read(IDS, segment)).abs().amax(-1) > 1e-6
    assert change[:, 2:8].all(), "the words' order is told"
    assert not change[:, 8:].any(), "from distance 7 up all are one"
    assert len(one.scores_by_distance(S)[0, -1].unique()) == 8


def test_no_gradient_flows_into_the_memory() -> None:
    model, ids = seeded(TransformerXL, ONE_WAY, 4), torch.arange(5, 13)[None]
    _, memory = model(ids[:, :4])
    (model(ids[:, 4:], memory)[0] ** 2).sum().backward()
    taught = (model.token.weight.grad != 0).any(-1)
    assert taught.nonzero()[:, 0].tolist() == ids[0, 4:].tolist()


def test_a_query_is_read_by_no_other_place() -> None:
    """Not a leak, but another model: guesses would be made of guesses."""
    model, spoiled = seeded(XLNet, CONFIG), int(ORDER[2])

    def spoil(_: object, given: tuple[Tensor, ...], states: Tensor) -> Tensor:
        at = torch.arange(states.shape[1]) == spoiled
        return states + at[:, None] * 3.0 if (given[0] == MASK_ID).all() else states

    before = model(IDS, ORDER)
    model.model.bert.embeddings.register_forward_hook(spoil)
    change = (model(IDS, ORDER) - before).abs().amax(dim=(0, 2)) > 1e-9
    assert change.nonzero()[:, 0].tolist() == [spoiled]


# --- ELECTRA, DistilBERT -------------------------------------------------------------------------


def electra_losses(model: Electra, everywhere: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Both losses, and the ids that the detector was given; the last three words are padding."""
    given: list[Tensor] = []
    table = model.detector.embeddings.token
    hook = table.register_forward_hook(lambda _, inputs, out: given.append(inputs[0]))
    ids = IDS.clone()
    ids[:, 0], ids[:, 9:], chosen = CLS_ID, PAD_ID, SELECTED & (PLACE > 0) & (PLACE < 9)
    masked = ids.masked_fill(chosen, MASK_ID)
    guess, tell = model(ids, masked, chosen, dice(), ids != PAD_ID, everywhere)
    hook.remove()
    found = given[0]
    assert not (found == MASK_ID).any()
    assert torch.equal(found[~chosen], ids[~chosen])
    chance = model.head(model.detector(found, padding_mask=ids != PAD_ID).last)[..., 0].sigmoid()
    right = torch.where(found == ids, 1 - chance, chance)
    by_hand = -right[ids >= 5 if everywhere else chosen].log().mean()
    torch.testing.assert_close(tell, by_hand.float())
    return guess, tell, found[chosen]


@pytest.mark.parametrize("everywhere", [True, False])
def test_electras_detector_answers_for_what_it_gets_and_teaches_itself(everywhere: bool) -> None:
    """Fails when the detector reads a soft mixture of words, or shares the generator's table."""
    model = seeded(Electra, CONFIG, generator_size=8)
    electra_losses(model, everywhere)[1].backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None or not p.grad.any() for p in model.generator.parameters())
    assert model.detector.embeddings.token.weight.grad.any()
    model = seeded(Electra, CONFIG, generator_size=8)
    electra_losses(model, everywhere)[0].backward()  # type: ignore[no-untyped-call]
    assert all(p.grad is None for p in model.detector.parameters())
    assert model.generator.bert.embeddings.token.weight.grad.any()


def test_electras_samples_come_from_the_generator_and_a_lucky_one_is_no_replacement() -> None:
    model = seeded(Electra, replace(CONFIG, num_attention_heads=4), generator_size=8)
    assert model.generator.config.num_attention_heads == 2, "fewer, of the same width"
    assert model.generator.config.intermediate_size == 32
    with torch.no_grad():
        model.generator.mlm.decoder.bias[13] = 1e4  # it always says 13
    guess, _, sampled = electra_losses(model)
    assert guess > 1000
    assert (sampled == 13).all()
    ids, labels = replaced(
        torch.tensor([[5, 6, 7, 8]]),
        torch.tensor([[9, 6, 9, 9]]),
        torch.tensor([[True, True, False, False]]),
    )
    assert ids.tolist() == [[9, 6, 7, 8]]
    assert labels.tolist() == [[True, False, False, False]]


def test_a_student_has_every_second_layer_and_its_own_weights() -> None:
    """Fails when layers are shared: a step of the student would change the teacher."""
    teacher = seeded(BertForPreTraining, replace(CONFIG, num_hidden_layers=4)).requires_grad_(False)
    before = copy.deepcopy(teacher.state_dict())
    student = every_second_layer(teacher)
    assert student.training
    expected = copy.deepcopy(teacher)
    expected.bert.encoder.layers = expected.bert.encoder.layers[::2]
    assert student.config.num_hidden_layers == 2
    assert student.mlm.decoder.weight is student.bert.embeddings.token.weight
    torch.testing.assert_close(student.double().eval()(IDS), expected(IDS), rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        for parameter in student.parameters():
            assert parameter.requires_grad, "as its teacher need not"
            parameter += 1
    assert all(torch.equal(before[name], w) for name, w in teacher.state_dict().items())


def test_soft_targets_by_hand_teach_the_student_alone() -> None:
    """KL(teacher || student), not the other way round; at temperature 2, halved scores, times 4."""
    teacher = torch.tensor([[2 * math.log(3), 0.0]], requires_grad=True)  # 3 : 1 at temperature 2
    student = torch.zeros(1, 2, requires_grad=True)
    by_hand = 4 * (0.75 * math.log(0.75 / 0.5) + 0.25 * math.log(0.25 / 0.5))
    loss = distillation_loss(student, teacher)
    assert loss.item() == pytest.approx(by_hand)
    assert distillation_loss(teacher, teacher).item() == pytest.approx(0, abs=1e-7)
    loss.backward()  # type: ignore[no-untyped-call]
    assert teacher.grad is None
    assert student.grad is not None
    assert student.grad.any()


# --- a reader and a writer -----------------------------------------------------------------------

SOURCE = torch.tensor([[7, 8, 9, 10, PAD_ID, PAD_ID], [11, 12, 13, 14, 15, 16]])
TARGET = torch.tensor([[CLS_ID, 17, 18, 19, 20], [CLS_ID, 21, 22, 23, 24]])
SEQ2SEQ: dict[str, Callable[[], Any]] = {
    "Transformer": lambda: seeded(Transformer, CONFIG),
    "GRUs": lambda: seeded(Recurrent, 50, 16),
}
seq2seq = pytest.mark.parametrize("kind", SEQ2SEQ)


@seq2seq
def test_every_real_word_of_the_source_is_read_and_no_padding(kind: str) -> None:
    """Fails when cross-attention sees the padding of the source."""
    model = SEQ2SEQ[kind]()
    before, _ = model(SOURCE, TARGET)
    longer, _ = model(nn.functional.pad(SOURCE, (0, 2), value=PAD_ID), TARGET)
    torch.testing.assert_close(longer, before)
    for place in range(4):
        other = SOURCE.clone()
        other[:, place] = 25
        assert ((model(other, TARGET)[0] - before).abs().amax(-1) > 1e-9).all()


def test_what_is_read_and_what_is_written_are_two_segments() -> None:
    model = SEQ2SEQ["Transformer"]()
    for segment, read in ((0, True), (1, False)):
        before, scores = model.encode(SOURCE), model(SOURCE, TARGET)[0]
        with torch.no_grad():
            model.embeddings.segment.weight[segment] += torch.arange(16) / 16
        assert torch.equal(model.encode(SOURCE), before) is not read
        assert torch.equal(model.decode(TARGET, SOURCE, before)[0], scores) is read


def test_a_decoder_layer_is_that_of_torch() -> None:
    model = SEQ2SEQ["Transformer"]()
    own = model.layers[0]
    theirs = nn.TransformerDecoderLayer(16, 2, 32, 0.0, "gelu", 1e-12, batch_first=True).double()
    for ours, other in ((own.attention, theirs.self_attn), (own.cross, theirs.multihead_attn)):
        parts = {"in_proj": (ours.query, ours.key, ours.value), "out_proj.": (ours.output,)}
        for name, maps in parts.items():
            for kind in ("weight", "bias"):
                whole = other.get_parameter(f"{name}{'' if name[-1] == '.' else '_'}{kind}")
                whole.data = torch.cat([getattr(one, kind) for one in maps])
    theirs.linear1, theirs.linear2 = own.feed_forward.intermediate, own.feed_forward.output
    theirs.norm1, theirs.norm2, theirs.norm3 = own.norms
    x, source = torch.randn(2, 2, 6, 16, generator=dice(), dtype=torch.double)
    written, real = torch.ones(6, 6).bool().tril(), SOURCE != PAD_ID
    found, _ = own(x, source, written, real[:, None, None, :])
    expected = theirs(x, source, ~written, memory_key_padding_mask=~real)
    torch.testing.assert_close(found, expected)
    _, weights = cross_attention(own.cross, x, source, real[:, None, None, :])
    _, per_head = theirs.multihead_attn(
        x, source, source, key_padding_mask=~real, average_attn_weights=False
    )
    torch.testing.assert_close(weights, per_head)
    returned = model(SOURCE, TARGET)[1]
    assert [w.shape for w in returned] == [(2, 2, 5, 6)] * 3
    assert all((w[0, :, :, 4:] == 0).all() for w in returned)


@seq2seq
def test_a_translation_is_what_the_scores_say_and_stops(kind: str) -> None:
    model = SEQ2SEQ[kind]()
    begun = torch.cat([TARGET[:, :1], translate(model, SOURCE, 5)], dim=1)
    for row, ids in enumerate(begun.tolist()):
        end = ids.index(SEP_ID) if SEP_ID in ids else len(ids) - 1
        best = model(SOURCE[row : row + 1], begun[row : row + 1, :end])[0].argmax(-1)
        assert ids[1 : end + 1] == best[0].tolist()

    class Stops(Recurrent):
        """Writes word 9, then ends; the second text never ends."""

        def decode(self, target: Tensor, *_: Tensor) -> tuple[Tensor, list[Tensor]]:
            scores = torch.zeros(2, target.shape[1], 30)
            scores[:, :, 9] = 1
            scores[0, 1:, SEP_ID] = 2
            return scores, []

    stops = Stops(30, 4).train()
    assert translate(stops, SOURCE, 4).tolist() == [[9, SEP_ID, PAD_ID, PAD_ID], [9] * 4]
    assert stops.training


# --- what cannot be ------------------------------------------------------------------------------

BOTH_WAYS, ZERO = replace(ONE_WAY, direction="bidirectional"), torch.zeros(1, 3).long()
REFUSED: list[tuple[Callable[[], object], str]] = [
    *((lambda n=n: albert(CONFIG, n), rf"embedding_size {n} should be .* 16") for n in (0, -1, 17)),
    *(
        (lambda keys=keys: bigbird(CONFIG, *keys), "0 or more, and 20 keys")
        for keys in ((-1, 0, 0), (1, 21, 0), (1, 0, -2), (1, -1, 0))
    ),
    (lambda: bigbird(ONE_WAY, 2, 1), "look ahead in a model that is left-to-right"),
    (lambda: hugging_face_tensors(bigbird(CONFIG, 2)), "no folder tells of SparseLayer: keep"),
    (lambda: modern_bert(CONFIG), "no segments: set type_vocab_size=1"),
    (lambda: modern_bert(replace(ONE_SEGMENT, hidden_size=14)), "an even number"),
    (lambda: modern_bert(ONE_SEGMENT, window=0), "window 0 and every 3"),
    (lambda: modern_bert(ONE_SEGMENT, every=0), "window None and every 0"),
    (lambda: rotate(torch.ones(3, 7)), "7 numbers a head are no pairs"),
    (lambda: modern_bert(ONE_SEGMENT).bert(ZERO, ZERO + 1), "segment id 1 is outside 0 to 0"),
    (lambda: TransformerXL(BOTH_WAYS, 4), 'but direction="left-to-right"'),
    (lambda: TransformerXL(ONE_WAY, -1), "memory_size is -1"),
    (lambda: TransformerXL(replace(ONE_WAY, norm="pre"), 4), "norms stand behind each part"),
    (lambda: TransformerXL(ONE_WAY, 4)(ZERO, [IDS[..., None]]), "is of 2 texts, ids of 1"),
    (lambda: XLNet(ONE_WAY), "fixes the order of reading"),
    *(
        (lambda order=order: XLNet(CONFIG)(ZERO, torch.tensor(order)), "each of 3 places once")
        for order in ([0, 1], [0, 1, 1], [1, 2, 3])
    ),
    (lambda: XLNet(CONFIG)(ZERO + 50, torch.arange(3)), "token id 50"),
    (lambda: Electra(ONE_WAY, 8), "ELECTRA needs 'bidirectional'"),
    (lambda: every_second_layer(BertForPreTraining(CONFIG)), "of 3 layers cannot be halved"),
    (lambda: Transformer(ONE_WAY), "norms behind each part"),
    (lambda: Transformer(replace(CONFIG, norm="pre")), "norms behind each part"),
    (lambda: Transformer(CONFIG).encode(ZERO), "nothing but padding"),
]


@pytest.mark.parametrize(("make", "word"), REFUSED, ids=[word for _, word in REFUSED])
def test_what_cannot_be_is_refused(make: Callable[[], object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        make()
