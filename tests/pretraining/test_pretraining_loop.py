"""The loop: schedule, optimizer, loss, and what is left after a stop, a fault or a full disk."""

import json
import math
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertedu.files import FileError
from bertedu.model import checkpoints
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.model.config import BertConfig
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.embeddings import sinusoidal_positions
from bertedu.pretraining import loop, objective, watching
from bertedu.pretraining.batches import Position, batches, fixed_batches
from bertedu.pretraining.loop import Every, initialize, make_optimizer, train
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import pretraining_loss
from bertedu.pretraining.recipe import Phase, Recipe
from bertedu.pretraining.run_folder import alone_in
from bertedu.pretraining.state import State, load_state, save_state
from bertedu.pretraining.watching import TrainingDiverged

VOCAB = 40
CONFIG = BertConfig(VOCAB, 16, 2, 2, 32, 32, dropout=0.1)
RECIPE = Recipe(12, phases=(Phase(0.6, 16, 8, 0.3), Phase(0.4, 24, 4)), learning_rate=3e-3)


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def collection(documents: int = 8, seed: int = 0) -> list[EncodedDocument]:
    """Each document keeps to its own dozen of words, two of which always go together."""
    rng = np.random.default_rng(seed)
    made = []
    for document in range(documents):
        low = 5 + 3 * document % 20
        sentences = []
        for _ in range(12):
            words = rng.integers(low, low + 12, 4)
            sentences.append([int(w) for word in words for w in (word, (word - 5 + 17) % 35 + 5)])
        made.append(EncodedDocument("s", sentences))
    return made


DOCUMENTS = collection()
HELD_OUT = fixed_batches(collection(3, seed=9), 24, 8, VOCAB)


def new_model(config: BertConfig = CONFIG) -> BertForPreTraining:
    torch.manual_seed(0)
    return BertForPreTraining(config)


def run(
    path: Path | None = None,
    resume: bool = False,
    model: BertForPreTraining | None = None,
    recipe: Recipe = RECIPE,
    documents: list[EncodedDocument] = DOCUMENTS,
    **options: Any,
) -> tuple[BertForPreTraining, State]:
    model = model or new_model()
    every = Every(*(options.pop(name, n) for name, n in (("log", 1), ("evaluate", 4), ("save", 1))))
    options = {"progress": False} | options
    state = train(model, documents, HELD_OUT, recipe, path, resume, every=every, **options)
    return model, state


def weights(model: BertForPreTraining) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_same(one: BertForPreTraining, two: BertForPreTraining) -> None:
    other = weights(two)
    for name, value in weights(one).items():
        assert torch.equal(value, other[name]), f"{name} is not bit-identical"


def without_seconds(state: State) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in state.curve]


# --- Schedule and optimizer ---------------------------------------------------------------------


def test_the_rate_rises_and_falls_in_straight_lines() -> None:
    recipe = Recipe(steps=100, learning_rate=0.5, warmup_share=0.1)
    assert recipe.learning_rate_at(0) == pytest.approx(0.05)  # the first step moves, too
    assert recipe.learning_rate_at(4) == pytest.approx(0.25)
    assert recipe.learning_rate_at(9) == pytest.approx(0.5)
    assert recipe.learning_rate_at(10) == pytest.approx(0.5)
    assert recipe.learning_rate_at(55) == pytest.approx(0.25)
    assert recipe.learning_rate_at(99) == pytest.approx(0.5 / 90)
    assert recipe.learning_rate_at(100) == 0
    paper = Recipe(steps=1_000_000, learning_rate=1e-4, warmup_share=0.01)
    assert paper.learning_rate_at(4_999) == pytest.approx(5e-5)
    assert paper.learning_rate_at(505_000) == pytest.approx(5e-5)
    assert all(Recipe(1).learning_rate_at(step) > 0 for step in range(1))


def test_phases_share_the_steps() -> None:
    recipe = Recipe(10, phases=(Phase(0.9, 64, 32), Phase(0.1, 128, 16)))
    assert [recipe.phase_at(s) for s in range(10)] == [0] * 9 + [1]
    thirds = Recipe(10, phases=(Phase(1 / 3, 8, 1), Phase(1 / 3, 8, 1), Phase(1 / 3, 8, 1)))
    assert [thirds.phase_at(s) for s in range(11)] == [0] * 3 + [1] * 4 + [2] * 4


def test_each_step_gets_its_scheduled_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[list[float]] = []
    original = torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, *rest: Any) -> Any:
        rates.append([group["lr"] for group in self.param_groups])
        return original(self, *rest)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    run()
    assert rates == [[RECIPE.learning_rate_at(s)] * 2 for s in range(12)]


def test_biases_and_norms_do_not_decay_and_nothing_is_left_out_or_counted_twice() -> None:
    model = new_model()
    optimizer = make_optimizer(model, 0.01)
    name_of = {id(p): n for n, p in model.named_parameters()}
    groups = {
        group["weight_decay"]: {name_of[id(p)] for p in group["params"]}
        for group in optimizer.param_groups
    }
    expected = {n for n in name_of.values() if n.endswith("bias") or "norm" in n}
    assert groups[0.0] == expected
    assert groups[0.01] == set(name_of.values()) - expected
    assert sum(len(g["params"]) for g in optimizer.param_groups) == len(name_of)
    assert all(g["betas"] == (0.9, 0.999) for g in optimizer.param_groups)


def test_an_unused_weight_decays_and_an_unused_bias_does_not() -> None:
    model = new_model()
    optimizer = make_optimizer(model, 0.1)
    before = weights(model)
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, value in weights(model).items():
        factor = 1.0 if name.endswith("bias") or "norm" in name else 1 - 0.5 * 0.1
        assert torch.allclose(value, factor * before[name]), name


def test_gradients_are_clipped_before_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    norms: list[float] = []
    original = torch.optim.AdamW.step

    def spy(self: torch.optim.AdamW, *rest: Any) -> Any:
        squares = [float(p.grad.norm()) ** 2 for g in self.param_groups for p in g["params"]]
        norms.append(sum(squares) ** 0.5)
        return original(self, *rest)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    run(recipe=replace(RECIPE, clip_norm=0.01))
    assert norms == pytest.approx([0.01] * 12, rel=1e-3)


# --- The loss -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "rel"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_the_loss_is_the_mean_over_words_plus_the_mean_over_pairs(
    dtype: torch.dtype, rel: float
) -> None:
    model = new_model(replace(CONFIG, dropout=0.0, initializer_range=0.3)).to(dtype)
    batch, _ = next(batches(DOCUMENTS, 24, 8, VOCAB, 0))
    loss, scores = pretraining_loss(model, batch)
    every, follows = model(batch.ids, batch.segment_ids, batch.padding_mask)  # (B, S, V)
    labels = iter(batch.labels.tolist())
    losses, hits = [], []
    for row, column in batch.selected.nonzero().tolist():
        label, given = next(labels), every[row, column].detach()
        losses.append(float(given.logsumexp(0) - given[label]))
        hits.append(int(given.argmax()) == label)
    pair_losses, pair_hits = [], []
    for given, label in zip(follows.detach(), batch.next_labels.tolist(), strict=True):
        pair_losses.append(float(given.logsumexp(0) - given[label]))
        pair_hits.append(int(given.argmax()) == label)
    mlm, nsp = sum(losses) / len(losses), sum(pair_losses) / 8
    assert loss.item() == pytest.approx(mlm + nsp, rel=rel)
    expected = [mlm, sum(hits) / len(hits), nsp, sum(pair_hits) / 8]
    assert scores.tolist() == pytest.approx(expected, rel=rel)
    assert not scores.requires_grad


def test_a_batch_of_not_next_alone_has_a_loss() -> None:
    """One label number must not be ignored, as 0 is where MLM and NSP share `ignore_index`."""
    model = new_model(replace(CONFIG, dropout=0.0))
    batch, _ = next(batches(DOCUMENTS, 24, 8, VOCAB, 0))
    for label in (0, 1):
        same = replace(batch, next_labels=torch.full_like(batch.next_labels, label))
        nsp = float(pretraining_loss(model, same)[1][2])
        assert 0.5 < nsp < 0.9


def test_every_parameter_learns_and_both_losses_fall() -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.1}
    model = new_model(replace(CONFIG, dropout=0.0, **sizes))
    before = weights(model)
    # One word a document: the words around a blank give it away, and so does B for the order.
    documents = [EncodedDocument("s", [[5 + d] * 5] * 30) for d in range(10)]
    recipe = Recipe(180, 5e-3, phases=(Phase(1.0, 16, 16),))
    _, state = run(None, False, model, recipe, documents, log=1, evaluate=500)
    first = state.curve[0]
    assert first["mlm_loss"] == pytest.approx(math.log(VOCAB), abs=0.6)
    assert first["nsp_loss"] == pytest.approx(math.log(2), abs=0.2)
    last = {key: sum(row[key] for row in state.curve[-20:]) / 20 for key in first}
    assert last["mlm_loss"] < 0.5
    assert last["mlm_accuracy"] > 0.9
    assert last["nsp_loss"] < 0.45
    assert last["nsp_accuracy"] > 0.8
    assert not model.training
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
    assert positions.requires_grad
    elmo = ElmoForPreTraining(CONFIG)
    initialize(elmo, DOCUMENTS)
    assert elmo.decoder.bias.tolist() == pytest.approx(expected, rel=1e-5)


# --- The curve ----------------------------------------------------------------------------------


def test_the_curve_has_a_row_every_so_many_steps_and_counts_real_tokens() -> None:
    _, state = run(log=5, save=5, evaluate=10)
    assert [row["step"] for row in state.curve] == [5, 10, 12]
    assert ["dev_mlm_loss" in row for row in state.curve] == [False, True, True]
    first = batches(DOCUMENTS, 16, 8, VOCAB, 0, 0.3)
    second = batches(DOCUMENTS, 24, 4, VOCAB, 0, 0.15, Position(1, 0))  # its own epoch
    used = [*islice(first, 7), *islice(second, 5)]
    assert used[6][1].epoch == 0
    assert state.tokens == sum(int(batch.padding_mask.sum()) for batch, _ in used)
    assert state.position == used[-1][1]
    assert state.curve[-1]["tokens"] == state.tokens
    assert state.curve[-1]["seconds"] >= state.curve[0]["seconds"] >= 0


def test_the_bar_tells_the_speed_since_the_last_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, now, told = tmp_path / "s.safetensors", [0.0], []

    def loss(*arguments: Any) -> Any:
        now[0] += 2.0
        return pretraining_loss(*arguments)

    class Bar(watching.tqdm):  # type: ignore[type-arg]
        def set_postfix_str(self, text: str = "", refresh: bool = True) -> None:
            told.append(int(text.split(", ")[-1].removesuffix(" tokens/s").replace(",", "")))

    monkeypatch.setattr(objective, "pretraining_loss", loss)
    monkeypatch.setattr(watching.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(watching, "tqdm", Bar)
    run(path, stop_at=6, log=2, save=2)
    now[0] += 1000.0
    _, state = run(path, resume=True, log=2, save=2)
    tokens = [0, *(row["tokens"] for row in state.curve)]
    assert told == pytest.approx([(two - one) / 4 for one, two in pairwise(tokens)], abs=1)


def test_rows_are_means_over_their_steps() -> None:
    _, fine = run(log=1, save=1)
    _, coarse = run(log=4, save=4)
    for i, row in enumerate(coarse.curve):
        for key in ("mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"):
            mean = sum(r[key] for r in fine.curve[4 * i : 4 * i + 4]) / 4
            assert row[key] == pytest.approx(mean, rel=1e-5), (i, key)


def test_evaluating_or_logging_more_often_changes_no_weight(tmp_path: Path) -> None:
    one, _ = run(log=1, evaluate=1)
    two, _ = run(tmp_path / "s.safetensors", log=6, save=6, evaluate=100)
    assert_same(one, two)


def test_saving_where_no_row_ends_is_refused() -> None:
    with pytest.raises(ValueError, match="save 7 is not a multiple of log 5"):
        run(log=5, save=7)


# --- Stop and resume ----------------------------------------------------------------------------


class Killed(BaseException):
    """Ends the loop where it stands, as a kill would."""


def kill_before(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = iter(range(10_000))

    def loss(*arguments: Any) -> Any:
        if next(steps) == step:
            raise Killed
        return pretraining_loss(*arguments)

    monkeypatch.setattr(objective, "pretraining_loss", loss)


@pytest.mark.parametrize("save_every", [1, 3])
def test_killed_at_any_step_and_resumed_it_ends_bit_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_every: int
) -> None:
    """All 12 places: within both phases, at the boundary (7), before the first save."""
    expected, whole = run()
    for step in range(12):
        path = tmp_path / f"{step}.safetensors"
        kill_before(step, monkeypatch)
        with pytest.raises(Killed):
            run(path, save=save_every)
        monkeypatch.undo()
        assert path.exists() == (step >= save_every)
        resumed, state = run(path, resume=True, save=save_every)
        assert_same(expected, resumed)
        assert without_seconds(state) == without_seconds(whole), "rows missing or twice"
        assert (state.tokens, state.step) == (whole.tokens, 12)


def test_dropout_is_on_and_depends_on_the_step_alone() -> None:
    expected, _ = run()
    torch.manual_seed(999)  # the state of the global generator has no say
    model = new_model()
    torch.rand(7)
    again, _ = run(model=model.eval())  # nor has the mode that a model comes in
    assert_same(expected, again)
    plain, _ = run(model=new_model(replace(CONFIG, dropout=0.0)))
    assert not torch.equal(plain.nsp.classifier.weight, expected.nsp.classifier.weight)
    other, _ = run(recipe=replace(RECIPE, seed=1))
    assert not torch.equal(other.nsp.classifier.weight, expected.nsp.classifier.weight)


def test_every_step_seed_and_process_drops_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[bool, ...]] = []

    def watch(module: torch.nn.Module, _: Any, found: Tensor) -> None:
        if module.training:
            dropped.append(tuple((found[0, :8] == 0).flatten().tolist()))

    def steps(seed: int) -> None:
        model = new_model()
        model.bert.embeddings.dropout.register_forward_hook(watch)
        run(model=model, recipe=replace(RECIPE, seed=seed))

    steps(0)
    steps(1)
    monkeypatch.setattr(loop.processes, "rank", lambda: 1)
    steps(0)
    assert len(set(dropped)) == len(dropped) == 3 * RECIPE.steps


def test_a_finished_state_resumes_to_itself(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    expected, whole = run(path)
    again, state = run(path, resume=True)
    assert_same(expected, again)
    assert without_seconds(state) == without_seconds(whole)


def press_ctrl_c_in(step: int, monkeypatch: pytest.MonkeyPatch, times: int = 1) -> None:
    """Raise the real signal in the middle of a step."""
    steps = iter(range(10_000))

    def loss(*arguments: Any) -> Any:
        if next(steps) == step:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGINT)
        return pretraining_loss(*arguments)

    monkeypatch.setattr(objective, "pretraining_loss", loss)


@pytest.mark.parametrize("step", [0, 5, 6, 9, 11])
def test_ctrl_c_finishes_the_step_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    path = tmp_path / "s.safetensors"
    expected, whole = run(log=5, save=10)
    before = signal.getsignal(signal.SIGINT)
    press_ctrl_c_in(step, monkeypatch)
    with pytest.raises(KeyboardInterrupt, match=f"stopped after step {step + 1}.*--resume"):
        run(path, log=5, save=10)
    assert signal.getsignal(signal.SIGINT) is before, "the handler was not put back"
    monkeypatch.undo()
    _, metadata = load_tensors(path)
    assert json.loads(metadata["training"])["state"]["step"] == step + 1
    resumed, state = run(path, resume=True, log=5, save=10)
    assert_same(expected, resumed)
    assert [row["step"] for row in state.curve] == [row["step"] for row in whole.curve]
    assert state.tokens == whole.tokens


def test_seconds_count_every_sitting_and_no_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock of its own, where a step takes 2 s: two sittings end early, in two ways."""
    path, now = tmp_path / "s.safetensors", [0.0]
    calls = iter(range(100))

    def loss(*arguments: Any) -> Any:
        now[0] += 2.0
        if next(calls) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return pretraining_loss(*arguments)

    def on_disk() -> float:
        now[0] += 1000.0  # the pause
        return float(json.loads(load_tensors(path)[1]["training"])["state"]["seconds"])

    monkeypatch.setattr(watching.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(objective, "pretraining_loss", loss)
    run(path, stop_at=3, log=2, save=2)
    assert on_disk() == 3 * 2
    run(path, resume=True, stop_at=5, log=2, save=2)
    assert on_disk() == 5 * 2
    with pytest.raises(KeyboardInterrupt):
        run(path, resume=True, log=2, save=2)
    assert on_disk() == 7 * 2
    _, state = run(path, resume=True, log=2, save=2)
    assert state.seconds == on_disk() == 12 * 2
    assert [row["seconds"] for row in state.curve] == [4, 8, 12, 16, 20, 24]


def test_a_second_ctrl_c_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    press_ctrl_c_in(5, monkeypatch, times=2)
    with pytest.raises(KeyboardInterrupt) as error:
        run(tmp_path / "s.safetensors", log=2, save=2)
    assert not str(error.value)
    _, metadata = load_tensors(tmp_path / "s.safetensors")
    assert json.loads(metadata["training"])["state"]["step"] == 4


def test_ctrl_c_without_a_file_says_that_nothing_was_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    press_ctrl_c_in(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt, match="stopped after step 4; nothing was saved"):
        run()


# --- Faults -------------------------------------------------------------------------------------


def poison(step: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a weight NaN before a step, or only the gradient of a step."""
    steps = iter(range(10_000))

    def loss(model: BertForPreTraining, batch: Any, *more: bool) -> Any:
        now = next(steps) == step
        if now and kind == "weight":
            with torch.no_grad():
                model.bert.embeddings.norm.weight[0] = float("nan")
        total, scores = pretraining_loss(model, batch)
        if now and kind == "gradient":
            total.register_hook(lambda gradient: gradient * float("nan"))
        return total, scores

    monkeypatch.setattr(objective, "pretraining_loss", loss)


@pytest.mark.parametrize("kind", ["weight", "gradient"])
@pytest.mark.parametrize("step", [4, 5])
def test_nan_stops_says_where_and_keeps_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, step: int
) -> None:
    """With "gradient" at step 5, the last before a save, the loss itself is still fine."""
    path = tmp_path / "s.safetensors"
    expected, _ = run(log=2, save=2)
    poison(step, kind, monkeypatch)
    with pytest.raises(TrainingDiverged) as error:
        run(path, log=2, save=2)
    for word in ("between steps 5 and 6", "learning rate 0.0", str(path), "half the learning"):
        assert word in str(error.value)
    monkeypatch.undo()
    tensors, metadata = load_tensors(path)
    assert json.loads(metadata["training"])["state"]["step"] == 4
    assert all(t.isfinite().all() for t in tensors.values())
    resumed, _ = run(path, resume=True, log=2, save=2)
    assert_same(expected, resumed)


def test_nan_before_the_first_save_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(0, "weight", monkeypatch)
    with pytest.raises(TrainingDiverged, match=r"between steps 1 and 12.*No state was saved"):
        run(tmp_path / "s.safetensors", log=50, save=50)
    assert not list(tmp_path.iterdir())


def test_ctrl_c_does_not_save_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.safetensors"
    poison(4, "weight", monkeypatch)
    poisoned = objective.pretraining_loss
    calls: list[int] = []

    def loss(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return poisoned(*arguments)

    monkeypatch.setattr(objective, "pretraining_loss", loss)
    with pytest.raises(TrainingDiverged, match="between steps 5 and 6"):
        run(path, log=4, save=4)
    tensors, _ = load_tensors(path)
    assert all(t.isfinite().all() for t in tensors.values())


def test_a_full_disk_is_a_clear_error_and_the_old_state_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.safetensors"
    saves: list[int] = []
    original = checkpoints.save_file

    def save_file(tensors: dict[str, Tensor], part: Path, metadata: dict[str, str]) -> None:
        saves.append(1)
        if len(saves) == 3:
            part.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        original(tensors, part, metadata)

    monkeypatch.setattr(checkpoints, "save_file", save_file)
    with pytest.raises(FileError, match=r"cannot write .*No space left.*unharmed"):
        run(path)
    monkeypatch.undo()
    assert [p.name for p in tmp_path.iterdir()] == [path.name], "the half file was left there"
    expected, _ = run()
    resumed, _ = run(path, resume=True)
    assert_same(expected, resumed)


def test_a_state_of_another_recipe_or_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    run(path)
    changes: dict[str, Callable[[], Any]] = {
        "another recipe": lambda: run(path, True, recipe=replace(RECIPE, learning_rate=1.0)),
        "belongs to another model": lambda: run(
            path, True, new_model(replace(CONFIG, hidden_size=32))
        ),
    }
    for message, attempt in changes.items():
        with pytest.raises(CheckpointError, match=message) as error:
            attempt()
        assert "another --out" in str(error.value)
    for layers in (1, 3):  # fewer layers fit by name and size, but half the model would be dropped
        with pytest.raises(CheckpointError, match=r"another model.*layers"):
            run(path, True, new_model(replace(CONFIG, num_hidden_layers=layers)))
    with pytest.raises(CheckpointError, match="another model"):
        run(path, True, new_model(replace(CONFIG, vocab_size=41)))
    tensors, metadata = load_tensors(path)
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith("weight/")}
    save_tensors(weights, path, metadata)
    with pytest.raises(CheckpointError, match=r"another model.*step/"):
        run(path, True)


def test_a_run_that_is_refused_leaves_no_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    for out in (tmp_path / "a" / "b" / "c", tmp_path / "before" / "b" / "c"):
        with pytest.raises(ValueError, match="refused"), alone_in(out):
            raise ValueError("refused")
    assert [*tmp_path.rglob("*")] == [tmp_path / "before"]


def test_a_broken_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    run(path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not safetensors at all"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="broken or only half there"):
            run(path, resume=True)


def test_a_state_holds_all_that_adam_knows(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    model, state = run()
    optimizer = make_optimizer(model, 0.01)
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    save_state(path, model, optimizer, state, RECIPE)
    other = new_model()
    taken_up = make_optimizer(other, 0.01)
    assert load_state(path, other, taken_up, RECIPE) == state
    assert_same(model, other)
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        assert {"step", "exp_avg", "exp_avg_sq"} == set(optimizer.state[p])
        for key, value in optimizer.state[p].items():
            assert torch.equal(value, taken_up.state[q][key])


def test_too_little_text_ends_the_run_with_a_word() -> None:
    with pytest.raises(ValueError, match="do not fill one batch"):
        run(
            documents=DOCUMENTS[:2],
            recipe=replace(RECIPE, phases=(Phase(1, 16, 500),)),
        )


# --- 16 bits ------------------------------------------------------------------------------------


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
