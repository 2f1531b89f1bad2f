"""A BERT put together out of plain functions, those of the exercises: yours where you have them.

The package's model lends its weights, nothing else. What stands between the functions is here.
"""

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from bertedu.analysis.fill import BLANK, Guess
from bertedu.model.bert import Bert, BertForPreTraining, reads_all
from bertedu.model.checkpoints import CheckpointError, load_tensors, save_tensors
from bertedu.pretraining.batches import pack_pairs
from bertedu.pretraining.next_sentence import EncodedDocument, Pair, truncate_pair
from bertedu.text.tokenization import (
    PAD_ID,
    SEP_ID,
    SPECIAL_TOKENS,
    check_vocabulary,
    normalize,
    split_words,
)


class Rows(NamedTuple):
    """What to train on: ids, segments (N, S); with pairs, also labels (N,): 0 IsNext, 1 NotNext."""

    ids: Tensor
    segment_ids: Tensor
    next_labels: Tensor | None = None


class Ideas(NamedTuple):
    """What came after BERT and is switched on: each calls a function of notebooks 17 and 18."""

    rotary: bool = False  # places as angles, and no table of places: `rotate`
    window: int | None = None  # neighbors seen on each side: `window_mask`
    global_tokens: int = 0  # the first tokens, which then see all and are seen by all


class MyBert(nn.Module):
    """A BERT with the weights of ``model``; ``part`` holds the functions that it is made of."""

    def __init__(
        self,
        model: Any,
        vocab: Sequence[str],
        parts: Mapping[str, Callable[..., Any]],
        ideas: Ideas | None = None,
    ) -> None:
        """Copy the weights. Raises ValueError if it is an ELMo or pre-norm."""
        if not isinstance(model, Bert | BertForPreTraining) or model.config.norm == "pre":
            raise ValueError("these parts make a post-norm BERT; this model is another one")
        super().__init__()
        self.config, self.vocab, self.part = model.config, list(vocab), SimpleNamespace(**parts)
        self.ideas = ideas or Ideas()
        self.number = {token: i for i, token in enumerate(vocab)}
        self.package = copy.deepcopy(model)  # keeps the weights; its own forward is never called
        named = self.package.named_parameters()
        weights = {name.removeprefix("bert."): p for name, p in named}
        self.w: dict[str, Tensor] = {name: p for name, p in weights.items() if p.requires_grad}
        self.step = 0
        self.averages = {n: (torch.zeros_like(p), torch.zeros_like(p)) for n, p in self.w.items()}

    @torch.no_grad()
    def read(self, tensors: Mapping[str, Tensor]) -> list[str]:
        """Take the encoder's weights from a published file; return the names that it lacks."""
        heads = ("mlm.", "nsp.")
        shapes = {name: w.shape for name, w in self.w.items() if not name.startswith(heads)}
        found, missing = self.part.load(dict(tensors), shapes, self.part.our_name)
        for name, tensor in found.items():
            self.w[name].copy_(tensor)
        return list(missing)

    # -- from text to ids

    def pieces(self, text: str) -> list[str]:
        """Cut a text into word pieces; a blank, ___ or [MASK], is one."""
        found: list[str] = []
        for some in re.split(f"({BLANK.pattern})", text):
            words = [] if BLANK.fullmatch(some) else split_words(normalize(some))
            found += ["[MASK]"] if BLANK.fullmatch(some) else []
            for word in words:
                found += self.part.cut_word("".join(c.text for c in word), [*self.vocab])
        return found

    def encode(self, text: str, pair: str | None = None) -> tuple[Tensor, Tensor]:
        """Return ids and segment ids (1, S). A part may write into the lists that it is given."""
        first = self.pieces(text)
        tokens, segments = self.part.encode_pair([*first], self.pieces(pair) if pair else [*first])
        end = len(tokens) if pair else len(first) + 2  # one text alone: [CLS] text [SEP]
        ids = [self.number[token] for token in tokens[:end]]
        return torch.tensor([ids]), torch.tensor([list(segments[:end])])

    # -- from ids to vectors, and to scores

    def linear(self, name: str, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def norm(self, name: str, x: Tensor) -> Tensor:
        """(..., H) -> (..., H)."""
        w = self.w[f"{name}.weight"], self.w[f"{name}.bias"]
        return in_rows(self.part.layer_norm)(x, *w, self.config.layer_norm_eps)

    def multi_head(self, x: Tensor, mask: Tensor, w: Mapping[str, Tensor], heads: int) -> Tensor:
        """(B, S, H), bool (B, S, S): your attention; with places as angles, that of PyTorch."""
        if not self.ideas.rotary:
            mixed: Tensor = self.part.multi_head(x, mask, w, heads)
            return mixed
        mapped = (F.linear(x, w[f"{n}.weight"], w[f"{n}.bias"]) for n in ("query", "key", "value"))
        query, key, value = (one.view(*x.shape[:2], heads, -1).transpose(1, 2) for one in mapped)
        shape, turned = query.shape, (one.flatten(0, 1) for one in (query, key))  # (B·A, S, d)
        query, key = (each_head(self.part.rotate, one).view(shape) for one in turned)
        mixed = F.scaled_dot_product_attention(query, key, value, mask[:, None])
        return F.linear(mixed.transpose(1, 2).flatten(2), w["output.weight"], w["output.bias"])

    def states(
        self, ids: Tensor, segment_ids: Tensor | None = None, padding_mask: Tensor | None = None
    ) -> list[Tensor]:
        """(B, S) -> L + 1 states (B, S, H): the input, and what each layer makes of it."""
        segment_ids = torch.zeros_like(ids) if segment_ids is None else segment_ids
        real = torch.ones_like(ids).bool() if padding_mask is None else padding_mask.bool()
        token, segment = (self.w[f"embeddings.{one}.weight"] for one in ("token", "segment"))
        no_positions = torch.zeros(ids.shape[1], token.shape[1])
        places = no_positions if self.ideas.rotary else self.w["embeddings.position.weight"]
        x = self.part.input_sum(ids, segment_ids, token, segment, places)
        x = self.norm("embeddings.norm", x)
        sees = real[:, None, :].expand(-1, ids.shape[1], -1)  # (B, S, S)
        itself = torch.eye(ids.shape[1], dtype=torch.bool)  # or padding would see nothing
        if self.config.direction != "bidirectional":
            side = sees.tril() if self.config.direction == "left-to-right" else sees.triu()
            sees = side | itself
        if self.ideas.window is not None:
            none = torch.zeros(ids.shape[1], 0, dtype=torch.long)  # no random keys
            near = self.part.window_mask(ids.shape[1], *self.ideas[1:], none)
            sees = sees & near | itself
        part, heads = copy.copy(self.part), self.config.num_attention_heads
        part.multi_head = self.multi_head
        part.layer_norm = in_rows(self.part.layer_norm)
        part.feed_forward = in_rows(self.part.feed_forward)

        def layer(x: Tensor, own: dict[str, Tensor]) -> Tensor:
            made: Tensor = self.part.encoder_layer(x, sees, own, heads, part)
            return made

        states: list[Tensor] = self.part.stack(x, self.w, layer)
        return states

    def forward(
        self,
        ids: Tensor,
        segment_ids: Tensor | None = None,
        padding_mask: Tensor | None = None,
        selected: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return word scores (B, S, V), or (n, V) at n selected places, and pair scores (B, 2)."""
        last = self.states(ids, segment_ids, padding_mask)[-1]
        asked = last if selected is None else last[selected]
        asked = self.norm("mlm.norm", F.gelu(self.linear("mlm.transform", asked)))
        words = F.linear(asked, self.w["embeddings.token.weight"], self.w["mlm.decoder.bias"])
        return words, self.linear("nsp.classifier", self.pooled(last, padding_mask))

    def pooled(self, last: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Pool the state of the token that has read all, (B, H): [CLS], except left to right."""
        real = torch.ones(last.shape[:2]) if padding_mask is None else padding_mask
        first = last[reads_all(real.bool(), self.config.direction)][:, None]
        states = torch.cat([first, last[:, 1:]], 1)
        w = self.w["pooler.dense.weight"], self.w["pooler.dense.bias"]
        c: Tensor = self.part.pooler(states, *w)
        return c

    @torch.no_grad()
    def fill(self, text: str, top: int = 5) -> list[list[Guess]]:
        """Return the best words for each blank of a text, ___ or [MASK], as `fill_blanks` does.

        Raises ValueError if there is no blank, or the model reads one way or has no word head.
        """
        if self.config.direction != "bidirectional" or "mlm.decoder.bias" not in self.w:
            raise ValueError("only a model that reads both sides and has a word head fills blanks")
        if not BLANK.search(text):
            raise ValueError(f"no blank in {text!r}: write ___ where a word is missing")
        ids, segment_ids = self.encode(text)
        words, _ = self(ids, segment_ids, selected=ids == self.number["[MASK]"])
        words[:, [self.number[token] for token in SPECIAL_TOKENS]] = -torch.inf  # no answers
        best = words[:, : len(self.vocab)].softmax(-1).topk(top)
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [[Guess(self.vocab[i], p) for i, p in zip(*one, strict=True)] for one in pairs]

    @torch.no_grad()
    def write(
        self, text: str, length: int, temperature: float = 1.0, top_k: int = 50, seed: int = 0
    ) -> str:
        """Go on from a text by up to ``length`` tokens, or to its end; return all of it.

        Raises ValueError if the model does not read from left to right.
        """
        if self.config.direction != "left-to-right":
            raise ValueError(f"only a left-to-right model writes; this is {self.config.direction}")
        ids, rng = self.encode(text)[0][:, :-1], torch.Generator().manual_seed(seed)
        never = [i for i in range(len(SPECIAL_TOKENS)) if i != SEP_ID]
        while length > 0 and ids[0, -1] != SEP_ID:
            scores = self(ids)[0][0, -1].index_fill(0, torch.tensor(never), -torch.inf)
            chances = self.part.next_token(scores, temperature, min(top_k, len(scores)))
            ids = torch.cat([ids, torch.multinomial(chances, 1, generator=rng)[None]], dim=1)
            length -= 1
        words = [self.vocab[i] for i in ids[0].tolist() if i >= len(SPECIAL_TOKENS)]
        return " ".join(words).replace(" ##", "")

    # -- pre-training

    def make_pairs(
        self, documents: Sequence[EncodedDocument], length: int, count: int, seed: int = 0
    ) -> Rows:
        """Walk through documents: up to ``count`` pairs, about half of them real neighbors.

        The other B is of another document of the same source. Raises ValueError if a document is
        the only one of its source.
        """
        rng, pairs, room = np.random.default_rng(seed), list[Pair](), length - 3
        documents = [document for document in documents if document.sentences]
        for index in rng.permutation(len(documents)):
            sentences, start = documents[index].sentences, 0
            if len(pairs) == count:
                break
            same = [d for d in documents if d.source == documents[index].source]
            if len(same) < 2:
                raise ValueError(
                    f"one document alone is of source {same[0].source!r}: a B that does not "
                    "follow has to come from another one of it"
                )
            while start + 1 < len(sentences) and len(pairs) < count:
                end = start + 2
                while end < len(sentences) and sum(map(len, sentences[start:end])) < room:
                    end += 1
                split = int(rng.integers(start + 1, end))
                while (far := same[int(rng.integers(len(same)))].sentences) is sentences:
                    pass
                place = int(rng.integers(len(far)))
                other = [*chain(*far[place : place + end - split])]
                drawn = sentences, start, split, end, other, float(rng.random())
                a, b, label, start = self.part.pair(*drawn)
                pairs.append(Pair(*truncate_pair(list(a), list(b), room, rng), int(label)))
        packed = pack_pairs(pairs, length)
        return Rows(*(torch.tensor(t).long() for t in (packed.ids, packed.segments, packed.labels)))

    def loss(self, rows: Rows, mask_rate: float, rng: torch.Generator) -> Tensor:
        """Hide words; return the loss at them, and that of the pairs if there are any."""
        chance, group = (torch.rand(rows.ids.shape, generator=rng) for _ in range(2))
        words = torch.randint(len(SPECIAL_TOKENS), len(self.vocab), rows.ids.shape, generator=rng)
        # masking selects where chance < 0.15; for another rate, the dice are stretched
        ids, selected = self.part.masking(rows.ids, chance * 0.15 / mask_rate, group, words)
        selected = selected.bool()
        scores, follows = self(ids, rows.segment_ids, rows.ids != PAD_ID, selected)
        # only the selected places were scored: to mlm_loss they are one row, all of it selected
        labels = rows.ids[selected][None]
        loss: Tensor = self.part.mlm_loss(scores[None], labels, torch.ones_like(labels).bool())
        pairs = rows.next_labels is not None
        return loss + self.part.nsp_loss(follows, rows.next_labels) if pairs else loss

    def pretrain(
        self,
        rows: Rows,
        steps: int,
        peak: float,
        mask_rate: float = 0.15,
        batch_size: int = 64,
        until: int | None = None,
    ) -> list[float]:
        """Go on to the end of a run of ``steps``, or until a step of it; return the losses.

        All chance comes from the step's number: a run that is saved and resumed ends as if it had
        never stopped. Raises ValueError if the vocabulary does not begin as the course's does.
        """
        check_vocabulary(self.vocab, "The vocabulary of this model")
        losses = []
        for step in tqdm(range(self.step, until or steps), desc="your BERT"):
            rng = torch.Generator().manual_seed(step)
            some = torch.randint(len(rows.ids), (batch_size,), generator=rng)
            batch = Rows(*(part[some] for part in rows if part is not None))
            loss = self.loss(batch, mask_rate, rng)
            gradients = torch.autograd.grad(loss, [*self.w.values()], materialize_grads=True)
            self.update([*gradients], self.part.learning_rate(step, steps, steps // 50 + 1, peak))
            losses.append(loss.item())
        return losses

    @torch.no_grad()
    def update(self, gradients: list[Tensor], rate: float) -> None:
        """Do a step: clip all gradients together, then AdamW for each weight by itself."""
        self.step += 1
        each = zip(self.w.items(), self.part.clip(gradients, 1.0), strict=True)
        for (name, weight), gradient in each:
            decay = 0.01 if weight.ndim > 1 else 0.0  # not for biases and norms
            before = weight, gradient, *self.averages[name], self.step, rate, decay
            after, m, v = self.part.adamw(*before)
            weight.copy_(after)
            self.averages[name] = m, v

    def save(self, path: Path) -> None:
        """Write what it takes to go on: weights, both averages, the step."""
        three = {name: (weight, *self.averages[name]) for name, weight in self.w.items()}
        tensors = {f"{name}/{i}": t for name, some in three.items() for i, t in enumerate(some)}
        save_tensors(tensors, path, {"step": str(self.step)})

    @torch.no_grad()
    def resume(self, path: Path) -> None:
        """Take up a run where `save` left it.

        Raises CheckpointError if the file is broken, or of a run of another model.
        """
        tensors, metadata = load_tensors(path)
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        if shapes != {f"{name}/{i}": w.shape for name, w in self.w.items() for i in range(3)}:
            raise CheckpointError(f"{path} is not of a run of this model: build the same one again")
        for name, weight in self.w.items():
            weight.copy_(tensors[f"{name}/0"])
            self.averages[name] = tensors[f"{name}/1"], tensors[f"{name}/2"]
        self.step = int(metadata["step"])


def in_rows(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a function of rows (N, H) one of batches (B, S, H), too."""
    return lambda x, *more, **named: function(x.flatten(0, -2), *more, **named).view_as(x)


def each_head(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Apply a function of (S, d) in each of N heads, (N, S, d): at once, or else one by one."""
    try:
        made: Tensor = torch.vmap(function)(x)
    except Exception:  # it writes into a tensor, or asks what is in one
        made = torch.stack([function(one) for one in x])
    return made
