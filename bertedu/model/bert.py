"""BERT: embeddings, encoder and pooler put together, and the two heads of pre-training."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bertedu.model.attention import attention_mask
from bertedu.model.config import BertConfig, Direction
from bertedu.model.embeddings import Embeddings
from bertedu.model.encoder import Encoder
from bertedu.model.heads import ClassificationHead, MLMHead, Pooler
from bertedu.model.inference import check_input


@dataclass
class BertOutput:
    """What `Bert` returns: the input embedding and L states, pooled, attention if asked for."""

    hidden_states: list[Tensor]  # L + 1 of (B, S, H)
    pooled: Tensor  # (B, H), of the token that reads all: `[CLS]` (C), except left to right
    attention: list[Tensor | None]  # L of (B, A, S, S)

    @property
    def last(self) -> Tensor:
        """T_i of the paper: the final hidden vectors, (B, S, H)."""
        return self.hidden_states[-1]


class Bert(nn.Module):
    """The encoder that every task shares."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.pooler = Pooler(config)
        init_weights(self, config.initializer_range)

    def forward(
        self,
        ids: Tensor,
        segment_ids: Tensor | None = None,
        padding_mask: Tensor | None = None,
        return_attention: bool = False,
        keep: Tensor | None = None,
    ) -> BertOutput:
        """Encode token ids (B, S).

        ``segment_ids`` (B, S) are zeros if left out; ``padding_mask`` (B, S) is true at real
        tokens, all of them if left out. With ``keep``, bool (B, S), true at least where
        `reads_all` is, the last state is (k, H): the k true ones only, in reading order. Raises
        ValueError if the input is too long, ids are out of range, or a row is nothing but padding.
        """
        segment_ids = torch.zeros_like(ids) if segment_ids is None else segment_ids
        padding_mask = (torch.ones_like(ids) if padding_mask is None else padding_mask).bool()
        check_input(self.config, ids, segment_ids, padding_mask)
        mask = attention_mask(padding_mask, self.config.direction)
        x = self.embeddings(ids, segment_ids)
        states, weights = self.encoder(x, mask, return_attention, keep)
        position = reads_all(padding_mask, self.config.direction)
        whole = states[-1][position if keep is None else position[keep]]  # (B, H)
        return BertOutput(states, self.pooler(whole), weights if return_attention else [])


class BertForPreTraining(nn.Module):
    """BERT with the masked-language-model head and the next-sentence head."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.mlm = MLMHead(config, self.bert.embeddings.token)
        self.nsp = ClassificationHead(config.hidden_size, num_labels=2)
        init_weights(self.mlm.transform, config.initializer_range)
        init_weights(self.nsp, config.initializer_range)
        nn.init.zeros_(self.mlm.decoder.bias)

    def forward(
        self,
        ids: Tensor,
        segment_ids: Tensor | None = None,
        padding_mask: Tensor | None = None,
        selected: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return word scores and next-sentence scores (B, 2; column 0 is IsNext).

        With ``selected``, bool (B, S), words are scored at the n selected positions only: (n, V),
        in reading order, at 15 % a sixth of the work. Without it, (B, S, V).
        Raises ValueError as `Bert` does, and if ``selected`` has another shape or is not bool.
        """
        states, follows = self.before_decoder(ids, segment_ids, padding_mask, selected)
        return self.decoder(states), follows

    @property
    def decoder(self) -> nn.Linear:
        """The last map of the MLM head: H numbers to a score for each word."""
        return self.mlm.decoder

    def before_decoder(
        self,
        ids: Tensor,
        segment_ids: Tensor | None = None,
        padding_mask: Tensor | None = None,
        selected: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return what `forward` does, with H numbers at each position instead of V word scores."""
        if selected is None:
            output = self.bert(ids, segment_ids, padding_mask)
            return self.mlm.before_decoder(output.last), self.nsp(output.pooled)
        if selected.shape != ids.shape or selected.dtype != torch.bool:
            raise ValueError(
                f"selected must be bool {tuple(ids.shape)} like ids, not {selected.dtype} "
                f"{tuple(selected.shape)}"
            )
        mask = torch.ones_like(selected) if padding_mask is None else padding_mask.bool()
        keep = selected | reads_all(mask, self.config.direction)  # the two heads read nothing else
        output = self.bert(ids, segment_ids, padding_mask, keep=keep)
        return self.mlm.before_decoder(output.last[selected[keep]]), self.nsp(output.pooled)


def reads_all(padding_mask: Tensor, direction: Direction) -> Tensor:
    """Bool (B, S), true at the one token of each row whose state stands for the whole input.

    It is `[CLS]`, the first; but read from left to right, `[CLS]` has seen nothing except itself,
    so there it is the last real token.
    """
    mask = torch.zeros_like(padding_mask)
    if direction != "left-to-right":
        mask[:, 0] = True
        return mask
    position = torch.arange(padding_mask.shape[1], device=padding_mask.device)
    last = (padding_mask * position).amax(dim=1, keepdim=True)  # (B, 1)
    return mask.scatter(1, last, True)


def init_weights(module: nn.Module, spread: float) -> None:
    """Draw linear and embedding weights from a normal distribution; set biases to zero."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            nn.init.normal_(part.weight, std=spread)
        if isinstance(part, nn.Linear):
            nn.init.zeros_(part.bias)
