"""ELECTRA: find the words that a small model has replaced (Clark et al. 2020)."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.model.heads import TaggingHead
from bertedu.text.tokenization import SPECIAL_TOKENS

DETECTOR_WEIGHT = 50.0  # the paper's λ (appendix A): a yes or no costs far fewer nats than a word


def replaced(original: Tensor, sampled: Tensor, selected: Tensor) -> tuple[Tensor, Tensor]:
    """Put samples where words were selected; say which words are now others. All are (B, S).

    A sample that happens to be the original is *not* replaced (section 2): the label is false.
    """
    ids = torch.where(selected, sampled, original)
    return ids, ids != original


class Electra(nn.Module):
    """A small generator fills blanks; the detector, which one keeps, tells for every word whether
    it is the original. Raises ValueError if the config is one-way: a blank needs both sides."""

    def __init__(self, config: BertConfig, generator_size: int) -> None:
        super().__init__()
        if config.direction != "bidirectional":
            raise ValueError(f"direction {config.direction!r}: ELECTRA needs 'bidirectional'")
        heads = max(1, config.num_attention_heads * generator_size // config.hidden_size)
        small = replace(
            config,
            hidden_size=generator_size,
            num_attention_heads=heads,
            intermediate_size=4 * generator_size,
        )
        self.generator = BertForPreTraining(small)
        self.detector = Bert(config)
        self.head = TaggingHead(config.hidden_size, num_labels=1)

    def forward(
        self,
        original: Tensor,
        masked: Tensor,
        selected: Tensor,
        generator: torch.Generator,
        padding_mask: Tensor | None = None,
        everywhere: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Return the generator's loss on blanks, and the detector's on words, in nats.

        ``masked`` (B, S) is ``original`` with `[MASK]` at the ``selected`` places. The detector
        answers for every word; without ``everywhere`` for the selected ones only.
        """
        scores, _ = self.generator(masked, None, padding_mask, selected)  # (n, V)
        guess = F.cross_entropy(scores, original[selected])
        # A drawn word is a number without a gradient: the detector cannot teach the generator.
        drawn = torch.multinomial(scores.detach().softmax(-1), 1, generator=generator)[:, 0]
        sampled = original.masked_scatter(selected, drawn)
        ids, labels = replaced(original, sampled, selected)
        says = self.head(self.detector(ids, None, padding_mask).last)[..., 0]  # (B, S)
        asked = original >= len(SPECIAL_TOKENS) if everywhere else selected
        return guess, F.binary_cross_entropy_with_logits(says[asked], labels[asked].float())
