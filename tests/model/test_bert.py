"""The six files that make BERT: every check on the real code, and what one module alone decides."""

import dataclasses
import math
from typing import Any

import model_checks as checks
import pytest
import torch
from model_checks import CONFIG, assert_close, make_model, norm_by_hand, sample, sample_states

from bertedu.model.attention import SelfAttention
from bertedu.model.bert import BertForPreTraining, reads_all
from bertedu.model.config import DIRECTIONS, BertConfig, Direction
from bertedu.model.embeddings import Embeddings, sinusoidal_positions

CHECKS = [check for name, check in vars(checks).items() if name.startswith("check_")]
directions = pytest.mark.parametrize("direction", DIRECTIONS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_it_holds_of_the_real_code(check: checks.Check) -> None:
    assert checks.complaint(check) is None


@directions
def test_a_changed_token_moves_only_what_may_see_it_in_pre_norm_too(direction: Direction) -> None:
    checks.check_leaks(
        lambda config: make_model(dataclasses.replace(config, norm="pre")), (direction,)
    )


# --- attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("explicit", [False, True])
def test_both_paths_drop_weights_in_training_only(explicit: bool) -> None:
    layer = SelfAttention(dataclasses.replace(CONFIG, dropout=0.5))
    torch.manual_seed(0)
    x = torch.randn(1, 7, CONFIG.hidden_size)
    plain = layer.eval()(x, None, explicit)[0]
    assert torch.equal(plain, layer(x, None, explicit)[0])
    many = torch.stack([layer.train()(x, None, explicit)[0] for _ in range(1500)])
    assert not torch.equal(many[0], many[1])
    assert_close(many.mean(0), plain, "mean of dropped mixtures", 0.07)


@directions
def test_gradients_of_both_paths_agree_and_queries_that_see_nothing_hurt_nobody(
    direction: Direction,
) -> None:
    """Right-to-left, padding behind the text sees no key at all: no NaN may come of it."""
    gradients = []
    for explicit in (False, True):
        model = make_model(dataclasses.replace(CONFIG, direction=direction, dropout=0.0)).train()
        ids, segments, padding = sample()
        output = model.bert(ids, segments, padding, explicit)
        assert all(state.isfinite().all() for state in output.hidden_states)
        ((output.last[padding] ** 3).sum() + output.pooled.sum()).backward()
        gradients.append([p.grad for p in model.bert.parameters()])
    for fast, slow in zip(*gradients, strict=True):
        assert fast.isfinite().all()
        assert_close(fast, slow, "gradient", 1e-8)


def test_bfloat16_takes_the_explicit_path_and_stays_near(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(CONFIG).float()
    ids, segments, padding = sample()
    exact = model.bert(ids, segments, padding).last
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", pytest.fail)
    with torch.autocast("cpu", torch.bfloat16):
        near = model.bert(ids, segments, padding).last.float()
    difference = (near - exact)[padding].abs().mean() / exact[padding].abs().mean()
    assert 0 < difference.item() < 0.03


# --- embeddings, encoder, heads ------------------------------------------------------------------


def test_dropout_falls_on_the_sum_of_the_three_tables() -> None:
    part = Embeddings(dataclasses.replace(CONFIG, dropout=0.5)).train()
    ids = torch.arange(1, 11)[None].repeat(20, 1)
    dropped = (part(ids, torch.zeros_like(ids)) == 0).float().mean()
    assert 0.45 < float(dropped) < 0.55
    assert (part.eval()(ids, torch.zeros_like(ids)) != 0).all()


def test_sinusoids_by_hand() -> None:
    for size in (10, 9):
        table = sinusoidal_positions(7, size)
        assert table.shape == (7, size)
        for position in range(7):
            for number in range(size):
                angle = position / 10000 ** (number // 2 * 2 / size)
                wave = math.cos(angle) if number % 2 else math.sin(angle)
                assert float(table[position, number]) == pytest.approx(wave, abs=1e-6)


def test_a_pre_norm_stack_is_its_layers_and_one_more_norm() -> None:
    encoder, x = make_model(dataclasses.replace(CONFIG, norm="pre")).bert.encoder, sample_states()
    expected = [x]
    for layer in encoder.layers:
        expected.append(layer(expected[-1], None)[0])
    expected[-1] = norm_by_hand(expected[-1], encoder.final_norm)
    for ours, by_hand in zip(encoder(x, None)[0], expected, strict=True):
        assert_close(ours, by_hand, "pre-norm stack")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_falls_on_what_is_added(norm: str) -> None:
    """With everything dropped, a layer keeps its input (post-norm: the norm of it)."""
    layer = make_model(dataclasses.replace(CONFIG, norm=norm, dropout=0.0)).bert.encoder.layers[0]
    layer.train().dropout.p = 1.0
    expected = x = sample_states()
    if norm == "post":
        expected = norm_by_hand(norm_by_hand(x, layer.attention_norm), layer.feed_forward_norm)
    assert_close(layer(x, None)[0], expected, norm)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_rows_that_no_head_reads_are_left_out_and_nothing_changes(norm: str) -> None:
    """`selected` spares the last feed-forward layer work; scores and gradients stay the same."""
    config = dataclasses.replace(CONFIG, norm=norm, dropout=0.0)
    ids = torch.randint(5, 30, (3, 6), generator=torch.Generator().manual_seed(1))
    real = torch.arange(6) < torch.tensor([[6], [4], [5]])
    selected = torch.zeros(3, 6, dtype=torch.bool)
    selected[0, 2] = selected[1, 3] = selected[2, 0] = selected[2, 4] = True  # once at [CLS] itself
    scores, gradients, rows = [], [], []
    for spared in (True, False):
        model = make_model(config)
        model.bert.encoder.layers[-1].feed_forward.register_forward_hook(
            lambda _m, inputs, _o: rows.append(inputs[0].numel() // config.hidden_size)
        )
        words, follows = model(ids, None, real, selected if spared else None)
        words = words if spared else words[selected]
        (words.sin().sum() + follows.cos().sum()).backward()
        scores.append((words, follows))
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    for spared_scores, all_scores in zip(*scores, strict=True):
        assert_close(spared_scores, all_scores, norm)
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        assert_close(gradient, gradients[1][name], name)
    assert rows == [6, 18]  # 4 selected and 3 [CLS], one of them both; else all
    assert model(ids, None, real, torch.zeros_like(selected))[0].shape == (0, config.vocab_size)


# --- the whole model -----------------------------------------------------------------------------


def test_what_stands_for_the_whole_has_read_everything() -> None:
    mask = torch.tensor([[True, True, True, False], [True] * 4])
    assert reads_all(mask, "left-to-right").int().tolist() == [[0, 0, 1, 0], [0, 0, 0, 1]]
    for direction in ("bidirectional", "right-to-left"):
        assert reads_all(mask, direction).int().tolist() == [[1, 0, 0, 0]] * 2
    elsewhere = torch.tensor([[False, True, True, True], [True, False, True, False]])
    found = reads_all(elsewhere, "left-to-right")  # padding in front, or in between
    assert found.int().tolist() == [[0, 0, 0, 1], [0, 0, 1, 0]]


def test_inputs_may_be_left_out_and_masks_be_numbers() -> None:
    """Hugging Face's tokenizers give integers."""
    model, (ids, segments, padding) = make_model(CONFIG), sample()
    full = torch.ones_like(ids)
    pairs = [(model(ids), model(ids, torch.zeros_like(ids), full.bool()))]
    for kind in (torch.long, torch.float32):
        pairs.append((model(ids, segments, padding.to(kind)), model(ids, segments, padding)))
    for found, expected in pairs:
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_fresh_weights_follow_the_config() -> None:
    """Normal with the config's spread; biases 0; norms 1 and 0. Scores start near chance."""
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig(2000, 128, 2, 2, 256, initializer_range=0.05))
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert bool((parameter == 0).all()), name
        elif "norm" in name:
            assert bool((parameter == 1).all()), name
        else:
            assert parameter.std().item() == pytest.approx(0.05, rel=0.15), name
            assert abs(parameter.mean().item()) < 0.01, name


IDS = torch.arange(1, 13).view(2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((IDS[0],), r"ids must be \(batch, length\), not \(6,\)"),
        ((IDS[None],), r"not \(1, 2, 6\)"),
        ((IDS[:, :0],), r"not \(2, 0\)"),
        ((IDS.float(),), "ids are torch.float32, no whole numbers"),
        ((IDS.bool(),), "ids are torch.bool"),
        ((IDS, IDS.float()), "segment_ids are torch.float32"),
        ((torch.ones(1, 17).long(),), "17 tokens.* for 16. Truncate"),
        ((IDS + 25,), "token id 37 is outside 0 to 36"),
        ((IDS - 2,), "token id -1 is outside"),
        ((IDS, torch.full_like(IDS, 2)), "segment id 2 is outside 0 to 1"),
        ((IDS, torch.full_like(IDS, -1)), "segment id -1 is outside"),
        ((IDS, IDS[:, :3]), r"segment_ids is \(2, 3\), ids is \(2, 6\)"),
        ((IDS, None, torch.ones(2, 5)), r"padding_mask is \(2, 5\)"),
        ((IDS, None, torch.ones(2, 1, 6)), r"padding_mask is \(2, 1, 6\)"),
        ((IDS, None, torch.tensor([[1] * 6, [0] * 6])), "row 1 holds nothing but padding"),
        ((IDS, None, None, torch.ones(2, 5).bool()), r"selected must be bool \(2, 6\)"),
        ((IDS, None, None, torch.ones(2, 6).long()), "selected .* not torch.int64"),
    ],
)
def test_wrong_input_is_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_model(CONFIG)(*arguments)


def test_the_last_id_segment_and_position_are_accepted() -> None:
    ids = torch.tensor([[0, 36] * 8])
    assert make_model(CONFIG)(ids, torch.tensor([[0, 1] * 8]))[0].isfinite().all()
