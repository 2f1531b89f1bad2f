"""Writing: from left to right, a token at a time; and what BERT can do instead.

A left-to-right model knows the chance of every next token: it draws one, and asks again (Radford et
al. 2018, 2019). BERT knows the chance of one *between* others: it fills a text of blanks, and draws
each place anew (Wang and Cho 2019). Of special tokens only `[SEP]`, the end, is ever written.
"""

import torch
from torch import Generator, Tensor

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import Direction
from bertedu.model.inference import evaluating
from bertedu.text.tokenization import MASK_ID, PAD_ID, SEP_ID, SPECIAL_TOKENS


def next_token(scores: Tensor, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """Turn the scores of tokens (..., V) into the chances to draw them with.

    ``temperature`` divides the scores: below 1 the likely become likelier. Only the ``top_k`` best
    keep a chance (Fan et al. 2018, section 5); 1 is *greedy*. Raises ValueError if the temperature
    is not above 0, or ``top_k`` is below 1.
    """
    if temperature <= 0:
        raise ValueError(f"temperature {temperature} is not above 0; always the best is top_k=1")
    if top_k is not None:
        if top_k < 1:
            raise ValueError(f"top_k {top_k} leaves nothing to draw; the best one alone is top_k=1")
        worst = scores.topk(min(top_k, scores.shape[-1])).values[..., -1:]
        scores = scores.masked_fill(scores < worst, -torch.inf)
    return (scores / temperature).softmax(-1)


def generate(
    model: BertForPreTraining, prompt: Tensor, length: int, temperature: float = 1.0,
    top_k: int | None = None, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Go on from prompts (B, S), from left to right: (B, up to S + ``length``), prompts included.

    A prompt is `[CLS]` and what follows, without a tokenizer's `[SEP]`. A row that has written
    `[SEP]` ends there and is padded. Raises ValueError as `next_token` does, and if the model does
    not read from left to right, a prompt is empty or over, or it would outgrow the positions.
    """
    _check(model, "left-to-right", prompt, length)
    if ((prompt[:, -1] == SEP_ID) | (prompt[:, -1] == PAD_ID)).any():
        raise ValueError("a prompt ends in [SEP] or [PAD]: leave them out, ids[:, :-1], row by row")
    ids, ended = prompt, torch.zeros_like(prompt[:, 0], dtype=torch.bool)
    never = [i for i in range(len(SPECIAL_TOKENS)) if i != SEP_ID]
    with evaluating(model):
        for _ in range(length):
            scores = model(ids)[0][:, -1]  # (B, V), from the last token
            scores[:, never] = -torch.inf
            chances = next_token(scores, temperature, top_k)
            drawn = torch.multinomial(chances, 1, generator=generator)  # (B, 1)
            ids = torch.cat([ids, drawn.masked_fill(ended[:, None], PAD_ID)], dim=1)
            ended = ended | (drawn[:, 0] == SEP_ID)
            if ended.all():
                break
    return ids


def fill_and_resample(
    model: BertForPreTraining, ids: Tensor, rounds: int = 10, temperature: float = 1.0,
    top_k: int | None = None, generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Let BERT write where `[MASK]` stands in ids (B, S): every place is drawn once each round.

    The first time blanks stand around a blank, later words that were drawn. Rows may be padded.
    Raises ValueError as `next_token` does, if the model is not bidirectional, or nothing is to do.
    """
    _check(model, "bidirectional", ids)
    blank = ids == MASK_ID
    if not blank.any(dim=1).all() or rounds < 1:
        raise ValueError("nothing to write: give every row a [MASK] for each word, and a round")
    ids, real = ids.clone(), ids != PAD_ID
    with evaluating(model):
        for _ in range(rounds):
            for position in torch.randperm(ids.shape[1], generator=generator, device=ids.device):
                if (rows := blank[:, position]).any():
                    ids[rows, position] = MASK_ID  # what stood there must not be read
                    scores = model(ids[rows], padding_mask=real[rows])[0][:, position]
                    scores[:, : len(SPECIAL_TOKENS)] = -torch.inf
                    chances = next_token(scores, temperature, top_k)
                    ids[rows, position] = torch.multinomial(chances, 1, generator=generator)[:, 0]
    return ids


def append_masks(
    model: BertForPreTraining, ids: Tensor, length: int, generator: Generator | None = None
) -> Tensor:
    """Let BERT write as if it read one way: ids (B, S), `[MASK]`, `[SEP]`; fill it, and again.

    Wrong, though many do it: BERT has read whole texts, so it fills in each word as the *last* one.
    Returns (B, S + ``length``), without the `[SEP]`. Raises ValueError as `fill_and_resample` does.
    """
    tail = ids.new_tensor([[MASK_ID, SEP_ID]]).expand(len(ids), 2)
    for _ in range(length):
        ids = fill_and_resample(model, torch.cat([ids, tail], 1), 1, generator=generator)[:, :-1]
    return ids


def ending_score(scores: Tensor, ids: Tensor, start: int, per_token: bool = False) -> Tensor:
    """Return log P(ids from ``start`` on | ids before), or its mean over these tokens.

    ``scores`` (S, V) are a left-to-right model's on ``ids`` (S,): row t predicts token t + 1.
    """
    chances = scores[start - 1 : -1].log_softmax(-1)  # (S - start, V)
    each = chances.gather(1, ids[start:, None])[:, 0]
    return each.mean() if per_token else each.sum()


def _check(model: BertForPreTraining, wanted: Direction, ids: Tensor, more: int = 0) -> None:
    if model.config.direction != wanted:
        instead = "; ltr-L4H128 can generate, a bidirectional model can fill_and_resample"
        raise ValueError(f"this needs {wanted}, the model is {model.config.direction}{instead}")
    if ids.ndim != 2 or not ids.numel():
        raise ValueError(f"ids are {tuple(ids.shape)}, not (rows, tokens); begin with [CLS]")
    if ids.shape[1] + more > (most := model.config.max_position_embeddings):
        raise ValueError(f"{ids.shape[1]} tokens and {more} more are over {most}: cut the prompt")
