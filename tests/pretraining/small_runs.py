"""A model, texts and runs so small that a test can make them by the dozen."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import load_tensors
from bertedu.model.config import BertConfig
from bertedu.pretraining import objective
from bertedu.pretraining.batches import Phase, Recipe, fixed_batches
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.trainer import State, Trainer

VOCAB = 40
CONFIG = BertConfig(VOCAB, 16, 2, 2, 32, 32, dropout=0.1)
RECIPE = Recipe(12, phases=(Phase(0.6, 16, 8, 0.3), Phase(0.4, 24, 4)), learning_rate=3e-3)


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
    model: Any = None,
    recipe: Recipe = RECIPE,
    documents: list[EncodedDocument] = DOCUMENTS,
    stop_at: int | None = None,
    **settings: Any,
) -> tuple[Any, State]:
    """Train, a row and a save at every step; ``settings`` of the trainer may say otherwise."""
    model = model or new_model()
    settings = {"log_every": 1, "evaluate_every": 4, "save_every": 1, "progress": False} | settings
    trainer = Trainer(model, recipe, path, **settings)
    return model, trainer.train(documents, HELD_OUT, resume, stop_at)


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_same(one: torch.nn.Module, two: torch.nn.Module) -> None:
    torch.testing.assert_close(weights(one), weights(two), rtol=0, atol=0)


def without_seconds(state: State) -> list[dict[str, float]]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in state.curve]


def state_on_disk(path: Path) -> dict[str, Any]:
    return dict(json.loads(load_tensors(path)[1]["training"])["state"])


def ctrl_c(times: int = 1) -> None:
    for _ in range(times):
        os.kill(os.getpid(), signal.SIGINT)


def do_in(step: int, act: Callable[[Any], None], patch: pytest.MonkeyPatch) -> None:
    loss, steps = objective.pretraining_loss, iter(range(10_000))

    def acting(model: Any, *more: Any) -> Any:
        if next(steps) == step:
            act(model)
        return loss(model, *more)

    patch.setattr(objective, "pretraining_loss", acting)
