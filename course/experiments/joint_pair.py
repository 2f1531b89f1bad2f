"""A pair that learns together: the left and the right of a blank, and one loss (section 5.1).

The pair of notebook 13 is made of two readers, each of which learned to fill blanks by itself. Here
two narrow readers, as large together as one that sees both sides, learn to fill the same blanks
together: what they say of each word is added before the softmax. Neither sees what the other has
read, but each can leave to the other what that one knows.
``python -m course.experiments.joint_pair --out FOLDER`` writes both halves as checkpoints.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, cast

import torch
import typer
from torch import Tensor, nn

from bertedu.files import write_atomically
from bertedu.machine import current_commit, default_device, describe_machine
from bertedu.model.bert import BertForPreTraining
from bertedu.model.checkpoints import save_checkpoint
from bertedu.model.config import ONE_WAY, BertConfig
from bertedu.pretraining.batches import Batch, halved, load_splits
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.pretraining.objective import word_loss
from bertedu.pretraining.run import PreTrainingOptions
from bertedu.pretraining.trainer import Trainer, initialize
from bertedu.text.fast_tokenizer import load_vocabulary, save_tokenizer

NAMES = ("joint-ltr", "joint-rtl")  # the folder of each half, before its seed


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

    @property
    def config(self) -> BertConfig:
        """The size of each half."""
        return self.halves[0].config

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Mean nats of the hidden words, and the four scores of `pretraining_loss`."""
        given = (batch.ids, batch.segment_ids, batch.padding_mask, batch.selected)
        states = [half.before_decoder(*given)[0] for half in self.halves]  # (n, H) each
        decoders = [half.decoder for half in self.halves]
        # the sum of two maps is one map of both states, side by side
        table = torch.cat([decoder.weight for decoder in decoders], dim=1)  # (V, 2 H)
        bias = torch.stack([decoder.bias for decoder in decoders]).sum(0)
        joined: Any = SimpleNamespace(weight=table, bias=bias)
        loss, right = word_loss(torch.cat(states, dim=1), joined, batch.labels)
        none = torch.zeros_like(right)  # no sentence pairs
        return loss, torch.stack([loss.detach(), right, none, none])


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
    trainer = Trainer(cast(Any, pair.to(device)), recipe)
    trainer.step_loss = pair  # both halves answer at once, which `pretraining_loss` cannot ask
    state = trainer.train(documents)
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
