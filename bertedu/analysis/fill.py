"""Fill blanks: the question that BERT was pre-trained on, asked by hand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from tokenizers import Tokenizer
from torch import Tensor

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.elmo import ElmoForPreTraining
from bertedu.model.inference import evaluating
from bertedu.pretraining.objective import PreTrainingModel
from bertedu.text.tokenization import SPECIAL_TOKENS

BLANK = re.compile(r"_{2,}|\[MASK\]")

Side = Literal["left", "right", "both"]


@dataclass(frozen=True)
class Guess:
    """A word piece and the probability that the model gives it."""

    word: str
    probability: float


def fill_blanks(
    model: PreTrainingModel | Bert,
    tokenizer: Tokenizer,
    text: str,
    top: int = 5,
    side: Side = "both",
) -> list[list[Guess]]:
    """Return the ``top`` most likely word pieces for every blank of a text, best first.

    A blank is two or more underscores, or `[MASK]`. ``side`` asks one half of an ELMo alone; what
    each kind of model reads, and how the halves are joined: see `blank_logits`.

    Raises TypeError if ``text`` is not a string; ValueError if there is no blank, the text is
    longer than the model's positions, ``top`` is not between 1 and the number of word pieces, the
    model has no halves to ask, or it is an encoder alone.
    """
    if isinstance(model, Bert):
        raise ValueError("this is an encoder alone, published without the head that fills blanks")
    choices = tokenizer.get_vocab_size() - len(SPECIAL_TOKENS)
    special = [_number(tokenizer, token) for token in SPECIAL_TOKENS]
    if not 1 <= top <= choices:
        raise ValueError(f"top is {top}: ask for 1 to {choices} guesses, the word pieces there are")
    logits, _ = blank_logits(model, tokenizer, text, side)
    logits[:, special] = -torch.inf  # "[PAD]" is no answer
    logits[:, tokenizer.get_vocab_size() :] = -torch.inf  # nor is a row without a word
    best = logits.softmax(-1).topk(top)  # (blanks, top)
    return [
        [Guess(str(tokenizer.id_to_token(i)), p) for i, p in zip(ids, ps, strict=True)]
        for ids, ps in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def ask_readers(
    models: Mapping[str, PreTrainingModel], tokenizer: Tokenizer, text: str, top: int = 5
) -> dict[str, list[list[Guess]]]:
    """Ask several models about the blanks of one text: name -> guesses, as from `fill_blanks`.

    An ELMo answers three times: its left half, its right half, and both joined.
    """
    answers = {}
    for name, model in models.items():
        if isinstance(model, ElmoForPreTraining):
            for half in ("left", "right"):
                answers[f"{name}, {half} half"] = fill_blanks(model, tokenizer, text, top, half)
            name = f"{name}, joined"
        answers[name] = fill_blanks(model, tokenizer, text, top)
    return answers


def blank_logits(
    model: PreTrainingModel, tokenizer: Tokenizer, text: str, side: Side = "both"
) -> tuple[Tensor, list[str]]:
    """Return the scores of all words at each blank, (blanks, V), and the tokens of the text.

    BERT reads the whole text, a `[MASK]` at each blank. A one-way model gives its score for the
    next word at the token before the blank (right to left: at the one behind it), so it reads
    neither the blank nor what follows. It has never met `[MASK]`: other blanks on its side are
    `[UNK]` to it, which it knows from rare characters.

    The halves of an ELMo never saw each other's side. If, given the word w, the two sides were
    independent, P(w | left, right) would be proportional to P(w | left) P(w | right) / P(w): on
    held-out text this beats the plain product and the mean of the two. P(w) is in the model: its
    output bias starts at the logarithms of the word counts, and hardly moves.
    """
    if not isinstance(text, str):
        raise TypeError(f"the text must be a string, not {type(text).__name__}")
    if not BLANK.search(text):
        raise ValueError(f"no blank in {text!r}: write ___ or [MASK] where a word is missing")
    if side not in ("left", "right", "both"):
        raise ValueError(f"side is {side!r}; it must be 'left', 'right' or 'both'")
    if side != "both" and not isinstance(model, ElmoForPreTraining):
        raise ValueError(f"only an ELMo has a {side} half; leave side out")
    encoding = tokenizer.encode(BLANK.sub("[MASK]", text))
    ids = torch.tensor([encoding.ids], device=next(model.parameters()).device)
    with evaluating(model):
        blank = ids == _number(tokenizer, "[MASK]")
        logits = score_blanks(model, ids, blank, _number(tokenizer, "[UNK]"), side)
    return logits.float().cpu(), encoding.tokens


def unreadable(tokenizer: Tokenizer, text: str) -> list[str]:
    """Return the words of a text that a model cannot read: each is one `[UNK]` to it.

    They hold a character that the vocabulary lacks: of ours, all but Latin and a few Greek letters.
    """
    asked = BLANK.sub("[MASK]", text)
    encoding = tokenizer.encode(asked)
    pieces = zip(encoding.tokens, encoding.offsets, strict=True)
    return [asked[start:end] for token, (start, end) in pieces if token == "[UNK]"]


def _number(tokenizer: Tokenizer, token: str) -> int:
    """Look up a special token: `[MASK]` is 4 in our vocabulary, and 103 in most published ones."""
    number = tokenizer.token_to_id(token)
    if number is None:
        raise ValueError(f"the vocabulary of this model has no {token}")
    return number


def score_blanks(
    model: PreTrainingModel, ids: Tensor, blank: Tensor, unknown: int, side: Side = "both"
) -> Tensor:
    """Score the words at the n blanks of rows without padding: (n, V). See `blank_logits`.

    ``ids`` and bool ``blank`` are (B, S); ``unknown`` is the id of `[UNK]`.
    """
    if isinstance(model, BertForPreTraining) and model.config.direction == "bidirectional":
        return model(ids, selected=blank)[0]
    ids = ids.masked_fill(blank, unknown)
    # Nothing rolls around an end: [CLS] and [SEP] stand there.
    before, behind = blank.roll(-1, dims=1), blank.roll(1, dims=1)
    if isinstance(model, BertForPreTraining):
        to_right = model.config.direction == "left-to-right"
        return model(ids, selected=before if to_right else behind)[0]
    left, right = map(model.decoder, model.before_decoder(ids, None, before, behind))
    if side != "both":
        return left if side == "left" else right
    return left + right - model.decoder.bias
