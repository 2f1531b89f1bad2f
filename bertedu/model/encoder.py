"""One Transformer layer, and the stack of them."""

from torch import Tensor, nn
from torch.nn import functional as F

from bertedu.model.attention import SelfAttention
from bertedu.model.config import BertConfig


class FeedForward(nn.Module):
    """Two linear maps with a GELU between, for each token by itself: H -> 4H -> H."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.intermediate = nn.Linear(config.hidden_size, config.intermediate_size)
        self.output = nn.Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, H) -> (B, S, H)."""
        return self.output(F.gelu(self.intermediate(x)))


class EncoderLayer(nn.Module):
    """Attention mixes tokens, feed-forward works on each; both add to what came in."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.norm_first = config.norm == "pre"
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        return_weights: bool = False,
        keep: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, S, H) -> (B, S, H) and, if asked for, the attention weights (B, A, S, S).

        With ``keep``, bool (B, S), only the k true positions go on after attention: (k, H).
        """
        mixed, weights = self.attention(
            self.attention_norm(x) if self.norm_first else x, mask, return_weights
        )
        if keep is not None:
            x, mixed = x[keep], mixed[keep]
        if self.norm_first:  # pre-norm: x + f(norm(x))
            x = x + self.dropout(mixed)
            x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        else:  # post-norm, BERT's own: norm(x + f(x))
            x = self.attention_norm(x + self.dropout(mixed))
            x = self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))
        return x, weights


class Encoder(nn.Module):
    """A stack of L layers. Pre-norm needs one more norm at the end."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.final_norm: nn.Module = nn.Identity()
        if config.norm == "pre":
            self.final_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        return_weights: bool = False,
        keep: Tensor | None = None,
    ) -> tuple[list[Tensor], list[Tensor | None]]:
        """(B, S, H) -> L + 1 hidden states (B, S, H), and the weights of each layer.

        With ``keep`` the last state is (k, H): the last feed-forward layer skips what is not read.
        """
        states, weights = [x], []
        for layer in self.layers:
            x, w = layer(x, mask, return_weights, keep if layer is self.layers[-1] else None)
            states.append(x)
            weights.append(w)
        states[-1] = self.final_norm(x)
        return states, weights
