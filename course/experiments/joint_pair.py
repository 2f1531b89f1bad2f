"""A pair that learns together: the left and the right of a blank, and one loss (section 5.1).

The pair of notebook 13 is made of two readers, each of which learned to fill blanks by itself. Here
two narrow readers, as large together as one that sees both sides, learn to fill the same blanks
together: what they say of each word is added before the softmax. Neither sees what the other has
read, but each can leave to the other what that one knows.
``python -m course.experiments.joint_pair --out FOLDER`` writes both halves as checkpoints.
"""

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import torch
import typer
from torch import Tensor, nn
from tqdm.auto import tqdm

from bertedu.files import write_atomically
from bertedu.machine import current_commit, default_device, describe_machine
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import ONE_WAY, BertConfig
from bertedu.model.optimization import descend, make_optimizer
from bertedu.pretraining.batches import Batch, Recipe, halved, load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import word_loss
from bertedu.pretraining.run import PreTrainingOptions
from bertedu.pretraining.trainer import State, initialize, stream_of
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer

NAMES = ("joint-ltr", "joint-rtl")  # the folder of each half, before its seed
LOG_EVERY = 50


class JointPair(nn.Module):
    """Two one-way readers whose scores of each word are added."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        halves = [BertForPreTraining(replace(config, direction=way)) for way in ONE_WAY]
        self.halves: Sequence[BertForPreTraining] = nn.ModuleList(halves)  # type: ignore[assignment]

    def start(self, documents: Sequence[EncodedDocument]) -> None:
        """Let both halves start as any reader does; the sum of their biases is one log share."""
        for half in self.halves:
            initialize(half, documents)
            half.decoder.bias.data /= len(self.halves)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean nats of the hidden words, and the share of them that is right."""
        given = (batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)
        states = [half.before_decoder(*given)[0] for half in self.halves]  # (n, H) each
        decoders = [half.decoder for half in self.halves]
        # the sum of two maps is one map of both states, side by side
        table = torch.cat([decoder.weight for decoder in decoders], dim=1)  # (V, 2 H)
        bias = torch.stack([decoder.bias for decoder in decoders]).sum(0)
        joined: Any = SimpleNamespace(weight=table, bias=bias)
        return word_loss(torch.cat(states, dim=1), joined, batch.labels)


def train_pair(pair: JointPair, documents: Sequence[EncodedDocument], recipe: Recipe) -> State:
    """Train in place on the batches that `pretrain` makes of the recipe; return the curve.

    Raises FloatingPointError if the loss is no number any more.
    """
    device, state = next(pair.parameters()).device, State()
    optimizer, began = make_optimizer(pair, recipe.weight_decay), time.perf_counter()
    stream = stream_of(documents, pair.halves[0].config, recipe, state)
    seen: list[Tensor] = []
    pair.train()
    for step in tqdm(range(recipe.steps), desc="pre-training"):
        batch, state.position = next(stream)
        loss, right = pair.loss(batch.to(device))
        rate = recipe.learning_rate_at(step)
        descend(pair.parameters(), optimizer, loss, rate, recipe.clip_norm)
        seen.append(torch.stack([loss.detach(), right]))
        state.step, state.tokens = step + 1, state.tokens + int(batch.padding_mask.sum())
        if state.step % LOG_EVERY == 0 or state.step == recipe.steps:
            mean, share = torch.stack(seen).mean(0).tolist()
            if not math.isfinite(mean):
                raise FloatingPointError(f"the loss became {mean} before step {state.step}")
            said = {"mlm_loss": mean, "mlm_accuracy": share}
            state.curve.append({"step": state.step, "tokens": state.tokens} | said)
            seen.clear()
    state.seconds = time.perf_counter() - began
    return state


def main(
    out: Annotated[Path, typer.Option(help="Folder that receives both halves.")],
    config: Annotated[str, typer.Option(help="Size of each half.")] = "L4H80",
    steps: Annotated[int, typer.Option(min=1)] = 10500,
    seed: Annotated[int, typer.Option(min=0)] = 0,
) -> None:
    """Pre-train a pair, and write its halves."""
    device, commit = default_device(), current_commit()
    vocabulary = load_vocabulary()
    size = replace(BertConfig.preset(config, len(vocabulary)), dropout=0.0)
    recipe = PreTrainingOptions(out, steps=steps, seed=seed, variant="mlm-ltr").recipe(size)
    documents = halved(load_splits()["train"])
    torch.manual_seed(seed)
    pair = JointPair(size)
    pair.start(documents)
    state = train_pair(pair.to(device), documents, recipe)
    record = {"variant": "joint pair", "recipe": asdict(recipe), **describe_machine(device)}
    record |= {"commit": commit, "seconds": round(state.seconds, 3)}
    record |= {"steps": state.step, "tokens": state.tokens, "curve": state.curve}
    for half, name in zip(pair.cpu().halves, NAMES, strict=True):
        folder = out / f"{name}-{seed}"
        save_checkpoint(half, folder, torch.float16)
        save_tokenizer(vocabulary, folder)
        write_atomically(folder / "training.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
