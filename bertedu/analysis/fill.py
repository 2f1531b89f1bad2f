"""Fill blanks: the question that BERT was pre-trained on, asked by hand."""

import re
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from bertedu.model.bert import BertForPreTraining
from bertedu.text.tokenization import MASK_ID, SPECIAL_TOKENS

BLANK = re.compile(r"_{2,}|\[MASK\]")


@dataclass(frozen=True)
class Guess:
    """A word piece and the probability that the model gives it."""

    word: str
    probability: float


def fill_blanks(
    model: BertForPreTraining, tokenizer: Tokenizer, text: str, top: int = 5
) -> list[list[Guess]]:
    """Return the ``top`` most likely word pieces for every blank of a text, best first.

    A blank is two or more underscores, or `[MASK]`.

    Raises
    ------
    TypeError
        ``text`` is not a string.
    ValueError
        There is no blank, the text is longer than the model's positions, or ``top`` is not
        between 1 and the number of word pieces.

    """
    choices = model.bert.config.vocab_size - len(SPECIAL_TOKENS)
    if not 1 <= top <= choices:
        raise ValueError(f"top is {top}: ask for 1 to {choices} guesses, the word pieces there are")
    logits, _ = blank_logits(model, tokenizer, text)
    logits[:, : len(SPECIAL_TOKENS)] = -torch.inf  # "[PAD]" is no answer
    best = logits.softmax(-1).topk(top)  # (blanks, top)
    return [
        [Guess(str(tokenizer.id_to_token(i)), p) for i, p in zip(ids, ps, strict=True)]
        for ids, ps in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


@torch.no_grad()
def blank_logits(
    model: BertForPreTraining, tokenizer: Tokenizer, text: str
) -> tuple[torch.Tensor, list[str]]:
    """Return the scores of all words at each blank, (blanks, V), and the tokens of the text."""
    if not isinstance(text, str):
        raise TypeError(f"the text must be a string, not {type(text).__name__}")
    if not BLANK.search(text):
        raise ValueError(f"no blank in {text!r}: write ___ or [MASK] where a word is missing")
    encoding = tokenizer.encode(BLANK.sub("[MASK]", text))
    device = next(model.parameters()).device
    ids = torch.tensor([encoding.ids], device=device)
    was_training = model.training
    model.eval()
    try:
        logits, _ = model(ids, selected=ids == MASK_ID)
    finally:
        model.train(was_training)
    return logits.float().cpu(), encoding.tokens
