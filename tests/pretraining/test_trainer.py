"""The loop: what a step does and what it depends on, the curve, and that a model learns."""

import math
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CONFIG, DOCUMENTS, RECIPE, VOCAB, assert_same, new_model, run, weights
from torch import Tensor

from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.embeddings import sinusoidal_positions
from bertedu.pretraining import trainer
from bertedu.pretraining.batches import Phase, Position, Recipe, batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.trainer import initialize


def test_phases_share_the_steps() -> None:
    recipe = Recipe(10, phases=(Phase(0.9, 64, 32), Phase(0.1, 128, 16)))
    assert [recipe.phase_at(s) for s in range(10)] == [0] * 9 + [1]
    thirds = Recipe(10, phases=(Phase(1 / 3, 8, 1), Phase(1 / 3, 8, 1), Phase(1 / 3, 8, 1)))
    assert [thirds.phase_at(s) for s in range(11)] == [0] * 3 + [1] * 4 + [2] * 4


def test_each_step_has_its_scheduled_rate_and_its_gradient_is_clipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates, norms, step = [], [], torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, *rest: Any) -> Any:
        rates.append([group["lr"] for group in self.param_groups])
        squares = [float(p.grad.norm()) ** 2 for g in self.param_groups for p in g["params"]]
        norms.append(sum(squares) ** 0.5)
        return step(self, *rest)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    recipe = replace(RECIPE, clip_norm=0.01)
    run(recipe=recipe)
    assert rates == [[recipe.learning_rate_at(s)] * 2 for s in range(12)]
    assert norms == pytest.approx([0.01] * 12, rel=1e-3)


def test_every_step_seed_and_process_drops_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[bool, ...]] = []

    def watch(module: torch.nn.Module, _: Any, found: Tensor) -> None:
        if module.training:
            dropped.append(tuple((found[0, :8] == 0).flatten().tolist()))

    def steps(seed: int) -> None:
        model = new_model().eval()  # the mode that it comes in has no say
        model.bert.embeddings.dropout.register_forward_hook(watch)
        run(model=model, recipe=replace(RECIPE, seed=seed))

    steps(0)
    steps(1)
    monkeypatch.setattr(trainer.machine, "process_rank", lambda: 1)
    steps(0)
    assert len(set(dropped)) == len(dropped) == 3 * RECIPE.steps


def test_every_parameter_learns_and_both_losses_fall() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.1}
    model = new_model(replace(CONFIG, dropout=0.0, **sizes))
    before = weights(model)
    # One word a document: the words around a blank give it away, and so does B for the order.
    documents = [EncodedDocument("s", [[5 + d] * 5] * 30) for d in range(10)]
    recipe = Recipe(180, 5e-3, phases=(Phase(1.0, 16, 16),))
    _, state = run(None, False, model, recipe, documents, evaluate_every=500)
    first = state.curve[0]
    assert first["mlm_loss"] == pytest.approx(math.log(VOCAB), abs=0.6)
    assert first["nsp_loss"] == pytest.approx(math.log(2), abs=0.2)
    last = {key: sum(row[key] for row in state.curve[-20:]) / 20 for key in first}
    for name, limit in (("mlm_loss", 0.5), ("nsp_loss", 0.45)):
        assert last[name] < limit
    for name, limit in (("mlm_accuracy", 0.9), ("nsp_accuracy", 0.8)):
        assert last[name] > limit
    for name, value in weights(model).items():
        assert not torch.equal(value, before[name]), f"{name} never moved"


def test_the_head_start_is_log_frequency_and_small_sinusoids() -> None:
    model = new_model()
    before = weights(model)
    initialize(model, DOCUMENTS)
    flat = [w for d in DOCUMENTS for s in d.sentences for w in s]
    expected = [math.log((flat.count(w) + 1) / (len(flat) + VOCAB)) for w in range(VOCAB)]
    assert model.mlm.decoder.bias.tolist() == pytest.approx(expected, rel=1e-5)
    positions = model.bert.embeddings.position.weight
    assert torch.allclose(positions, 0.02 * sinusoidal_positions(32, 16))
    touched = {n for n, v in weights(model).items() if not torch.equal(v, before[n])}
    assert touched == {"mlm.decoder.bias", "bert.embeddings.position.weight"}
    elmo = ElmoForPreTraining(CONFIG)
    initialize(elmo, DOCUMENTS)
    assert elmo.decoder.bias.tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("bfloat16", [True, False])
def test_training_and_scoring_multiply_in_the_bits_asked_for(bfloat16: bool) -> None:
    found: set[tuple[bool, torch.dtype]] = set()
    model = new_model()
    model.bert.encoder.layers[0].attention.query.register_forward_hook(
        lambda module, _, made: found.add((module.training, made.dtype))
    )
    _, state = run(model=model, bfloat16=bfloat16)
    dtype = torch.bfloat16 if bfloat16 else torch.float32
    assert found == {(True, dtype), (False, dtype)}
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert state.curve[0]["mlm_loss"] == pytest.approx(math.log(VOCAB), abs=0.2)


# -- the curve


def test_the_curve_has_a_row_every_so_many_steps_and_counts_real_tokens() -> None:
    _, state = run(log_every=5, save_every=5, evaluate_every=10)
    assert [row["step"] for row in state.curve] == [5, 10, 12]
    assert ["dev_mlm_loss" in row for row in state.curve] == [False, True, True]
    first, second = RECIPE.phases
    used = [
        *islice(batches(DOCUMENTS, CONFIG, RECIPE, first), 7),
        *islice(batches(DOCUMENTS, CONFIG, RECIPE, second, Position(1, 0)), 5),  # its own epoch
    ]
    assert used[6][1].epoch == 0
    assert state.tokens == sum(int(batch.padding_mask.sum()) for batch, _ in used)
    assert state.position == used[-1][1]
    assert state.curve[-1]["tokens"] == state.tokens


def test_rows_are_means_over_their_steps_and_change_no_weight(tmp_path: Path) -> None:
    one, fine = run(evaluate_every=1)
    two, coarse = run(tmp_path / "s.safetensors", log_every=4, save_every=4, evaluate_every=100)
    assert_same(one, two)
    assert not one.training
    for i, row in enumerate(coarse.curve):
        for key in ("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"):
            mean = sum(r[key] for r in fine.curve[4 * i : 4 * i + 4]) / 4
            assert row[key] == pytest.approx(mean, rel=1e-5), (i, key)
    with pytest.raises(ValueError, match="save 7 is not a multiple of log 5"):
        run(log_every=5, save_every=7)
