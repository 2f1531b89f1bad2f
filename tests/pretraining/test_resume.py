"""However a run ends, the same call with resume ends bit-identical to one that never stopped."""

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import (
    CONFIG,
    RECIPE,
    assert_same,
    ctrl_c,
    do_in,
    new_model,
    run,
    state_on_disk,
    weights,
    without_seconds,
)

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.pretraining import objective, trainer
from bertedu.pretraining.batches import Recipe
from bertedu.pretraining.run import VARIANTS
from bertedu.pretraining.trainer import TrainingDiverged, read_recipe

SAVE = 3


class Killed(BaseException):
    """Ends the loop where it stands, as a kill would."""


def kill() -> None:
    raise Killed


def spoil(model: Any) -> None:
    next(model.parameters()).data[0] = float("nan")


def spoil_gradient(model: Any) -> None:
    next(model.parameters()).register_hook(lambda gradient: gradient * float("nan"))


# how it ends: (what is done to the model in the step, error, its words, is the step itself kept)
ENDS: dict[str, tuple[Callable[[Any], None], type[BaseException], str, bool]] = {
    "kill": (lambda model: kill(), Killed, "^$", False),
    "ctrl-c": (lambda model: ctrl_c(), KeyboardInterrupt, "stopped after step .*--resume", True),
    "ctrl-c twice": (lambda model: ctrl_c(2), KeyboardInterrupt, "^$", False),
    "nan": (spoil, TrainingDiverged, r"between steps \d+ and \d+", False),
    "nan gradient": (spoil_gradient, TrainingDiverged, r"between steps \d+ and \d+", False),
    "nan, then ctrl-c": (lambda m: (spoil(m), ctrl_c())[0], TrainingDiverged, "between", False),
    "nan, then a stop": (spoil, TrainingDiverged, "between", False),
    "nan, then a step to keep": (spoil, TrainingDiverged, "between", False),
}


@pytest.fixture(scope="module", params=["adamw", "muon"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return replace(RECIPE, optimizer=request.param)


@pytest.fixture(scope="module")
def whole(recipe: Recipe) -> Any:
    return run(recipe=recipe, log_every=SAVE, save_every=SAVE)


@pytest.mark.parametrize("step", [0, 2, 3, 6, 7, 11])
@pytest.mark.parametrize("end", ENDS)
def test_resumed_it_ends_bit_identical(
    end: str, step: int, recipe: Recipe, whole: Any, tmp_path: Path
) -> None:
    path, (act, error, words, kept) = tmp_path / "s.safetensors", ENDS[end]
    handler = signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        do_in(step, act, patch)
        more = {"stop_at": step + 1} if "a stop" in end else {"keep_every": int("keep" in end)}
        with pytest.raises(error, match=words) as raised:
            run(path, recipe=recipe, log_every=SAVE, save_every=SAVE, **more)
    assert signal.getsignal(signal.SIGINT) is handler
    saved = step + 1 if kept else step // SAVE * SAVE
    assert path.exists() == (saved > 0)
    if error is TrainingDiverged:
        first, last = saved + 1, step + 1 if "then" in end else saved + SAVE
        rate = f"{RECIPE.learning_rate_at(last - 1):.2g}"
        assert f"between steps {first} and {last}, at learning rate {rate}." in str(raised.value)
        assert (str(path) if saved else "No state was saved yet") in str(raised.value)
    if saved:
        assert state_on_disk(path)["step"] == saved
        assert all(tensor.isfinite().all() for tensor in load_tensors(path)[0].values())
    for _ in range(2):  # the second time there is nothing left to do
        resumed, state = run(path, True, recipe=recipe, log_every=SAVE, save_every=SAVE)
        assert_same(whole[0], resumed)
        assert (state.tokens, state.step) == (whole[1].tokens, RECIPE.steps)
        assert [row["step"] for row in state.curve] == [row["step"] for row in whole[1].curve]
        if not kept:
            assert without_seconds(state) == without_seconds(whole[1])


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_resumes_after_a_stop_of_its_own(variant: str, tmp_path: Path) -> None:
    direction, next_sentence, question = VARIANTS[variant]
    recipe = replace(RECIPE, next_sentence=next_sentence, question=question)
    make = ElmoForPreTraining if variant == "elmo" else BertForPreTraining

    def model() -> Any:
        torch.manual_seed(0)
        return make(replace(CONFIG, direction=direction))

    path = tmp_path / "s.safetensors"
    expected, state = run(model=model(), recipe=recipe)
    still = {n for n, p in expected.named_parameters() if torch.equal(p, weights(model())[n])}
    assert still == {n for n in still if n.startswith(("nsp.", "bert.pooler."))}
    assert bool(still) == (not next_sentence and variant != "elmo"), "what no loss asks for"
    for name in ("nsp_loss", "nsp_accuracy", "dev_nsp_loss", "dev_nsp_accuracy"):
        assert (name in state.curve[-1]) == next_sentence
    run(path, model=model(), recipe=recipe, stop_at=5)
    assert state_on_disk(path)["step"] == 5
    assert_same(expected, run(path, resume=True, model=model(), recipe=recipe)[0])


def test_without_a_file_it_says_that_nothing_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    do_in(3, lambda model: ctrl_c(), monkeypatch)
    with pytest.raises(KeyboardInterrupt, match="stopped after step 4; nothing was saved"):
        run()


def test_seconds_count_every_sitting_and_no_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a clock of its own, where a step takes 2 s: two sittings end early, in two ways."""
    path, now = tmp_path / "s.safetensors", [0.0]
    loss, often = objective.pretraining_loss, {"log_every": 2, "save_every": 2}

    def slow(*arguments: Any) -> Any:
        now[0] += 2.0
        return loss(*arguments)

    monkeypatch.setattr(trainer.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(objective, "pretraining_loss", slow)
    do_in(6, lambda model: ctrl_c(), monkeypatch)
    run(path, stop_at=3, **often)
    assert state_on_disk(path)["seconds"] == 3 * 2
    now[0] += 1000.0  # the pause
    with pytest.raises(KeyboardInterrupt):
        run(path, resume=True, **often)
    assert state_on_disk(path)["seconds"] == 7 * 2
    now[0] += 1000.0
    _, state = run(path, resume=True, progress=True, **often)
    assert state.seconds == state_on_disk(path)["seconds"] == 12 * 2
    assert [row["seconds"] for row in state.curve] == [4, 8, 12, 16, 20, 24]
    before, after = (row["tokens"] for row in state.curve[-2:])
    assert f"{(after - before) / 4:,.0f} tokens/s" in capsys.readouterr().err


def test_what_is_no_state_of_this_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.safetensors"
    run(path)
    assert read_recipe(path) == RECIPE
    # with one layer these weights fit, but half the model would be dropped
    others = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 41}
    for name, size in others.items():
        with pytest.raises(CheckpointError, match=r"belongs to another model.*another --out"):
            run(path, True, new_model(replace(CONFIG, **{name: size})))
    with pytest.raises(CheckpointError, match=r"another model.*layers"):
        run(path, True, new_model(replace(CONFIG, num_hidden_layers=3)))
    with pytest.raises(CheckpointError, match=r"another recipe.*another --out"):
        run(path, True, recipe=replace(RECIPE, learning_rate=1.0))
    tensors, metadata = load_tensors(path)
    of_weights = {name: value for name, value in tensors.items() if name.startswith("weight/")}
    save_tensors(of_weights, path, metadata)
    with pytest.raises(CheckpointError, match=r"another model.*step/"):
        run(path, True)
    save_tensors(of_weights, path, {})
    with pytest.raises(CheckpointError, match="is not the state of a training run"):
        read_recipe(path)
