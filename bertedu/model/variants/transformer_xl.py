"""Transformer-XL (Dai et al. 2019): read on, with the states of the last segment in memory.

A text that is cut into segments loses at each cut what stood before. Here the states of the last
segment are kept, and the next one may attend to them. No gradient flows into them: they are a
record, not a part of this step. And since the same word is now at another place for each segment
that looks at it, a place is told by its distance only.
"""

import torch
from torch import Tensor, nn

from bertedu.model.bert import init_weights
from bertedu.model.config import BertConfig
from bertedu.model.encoder import EncoderLayer
from bertedu.model.heads import MLMHead

Memory = list[Tensor]  # for each layer what it was given, (B, M, H), the latest last


def remember(old: Tensor, new: Tensor, size: int) -> Tensor:
    """Keep the last ``size`` states of (B, M, H) and then (B, S, H), without their gradient."""
    both = torch.cat([old, new], dim=1)
    return both[:, max(0, both.shape[1] - size) :].detach()


class TransformerXL(nn.Module):
    """A left-to-right model with a memory of ``memory_size`` states a layer.

    Positions are one learned number for each head and distance, added to the score: of the four
    terms of the paper's section 3.3 the last, (d), without its sinusoids. All distances from
    ``max_position_embeddings`` - 1 up share one, so a text may be of any length. Raises ValueError
    if the model would read both ways or has its norms in front, or the size is negative.
    """

    def __init__(self, config: BertConfig, memory_size: int) -> None:
        super().__init__()
        if (config.direction, config.norm) != ("left-to-right", "post"):
            raise ValueError(
                "a memory is of what was read before, and norms stand behind each part: not "
                f'{config.direction} and {config.norm}, but direction="left-to-right", norm="post"'
            )
        if memory_size < 0:
            raise ValueError(f"memory_size is {memory_size}; it must be 0 (no memory) or more")
        self.config, self.memory_size = config, memory_size
        self.token = nn.Embedding(config.vocab_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.distance = nn.Embedding(config.max_position_embeddings, config.num_attention_heads)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.head = MLMHead(config, self.token)  # scores of the next word, of states
        init_weights(self, config.initializer_range)

    def forward(self, ids: Tensor, memory: Memory | None = None) -> tuple[Tensor, Memory]:
        """Read a segment (B, S): its states (B, S, H), and the memory to read the next one with.

        Raises ValueError if the memory is of another number of texts.
        """
        x = self.norm(self.token(ids))  # no position: (B, S, H)
        memory = memory or [x[:, :0]] * len(self.layers)
        if len(memory[0]) != len(ids):
            raise ValueError(
                f"memory is of {len(memory[0])} texts, ids of {len(ids)}: new texts begin with none"
            )
        past = memory[0].shape[1]
        mask = self.scores_by_distance(past + ids.shape[1])
        new = (torch.arange(past + ids.shape[1], device=ids.device) >= past).expand(len(ids), -1)
        later = []
        for layer, old in zip(self.layers, memory, strict=True):
            later.append(remember(old, x, self.memory_size))
            # all of them are keys and values; of the queries, those of the new segment are kept
            x = layer(torch.cat([old, x], dim=1), mask, keep=new)[0].view_as(x)
        return x, later

    def scores_by_distance(self, length: int) -> Tensor:
        """Return what is added to the scores, (A, length, length): minus infinity at what comes."""
        position = torch.arange(length, device=self.distance.weight.device)
        back = position[:, None] - position  # (query, key)
        added = self.distance(back.clamp(0, self.config.max_position_embeddings - 1))
        return added.movedim(-1, 0).masked_fill(back < 0, -torch.inf)

    def read(self, ids: Tensor, segment: int) -> Tensor:
        """Read texts (B, S) in segments of that length, one after the other: states (B, S, H)."""
        states, memory = [], None
        for part in ids.split(segment, dim=1):  # type: ignore[no-untyped-call]
            x, memory = self(part, memory)
            states.append(x)
        return torch.cat(states, dim=1)
