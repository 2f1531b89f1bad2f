"""A vector for each text: what search, clustering and near-duplicates are made of."""

from collections.abc import Sequence

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.evaluating import evaluating


def encode(
    model: Bert | BertForPreTraining,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    batch_size: int = 32,
) -> Tensor:
    """Return a vector for each text, (texts, H), in the order of the texts.

    It is the mean of the final states of the text's tokens, `[CLS]` and `[SEP]` included (Reimers
    and Gurevych 2019). Texts of like length meet in a batch, so that little is padded. What is
    longer than the model's positions is cut. Raises TypeError if ``texts`` is one string,
    ValueError if ``batch_size`` is below 1.
    """
    if isinstance(texts, str):
        raise TypeError("encode takes several texts, and got one str. Put it in a list: [text].")
    if batch_size < 1:
        raise ValueError(f"batch_size is {batch_size}; it must be 1 or more")
    bert = model if isinstance(model, Bert) else model.bert
    device, longest = next(bert.parameters()).device, bert.config.max_position_embeddings
    rows = [row.ids for row in tokenizer.encode_batch(list(texts))]
    # cut what there is no position for, from the end, but not the last [SEP]
    rows = [row if len(row) <= longest else [*row[: longest - 1], row[-1]] for row in rows]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    vectors = torch.empty(len(rows), bert.config.hidden_size, device=device)
    with evaluating(bert):
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            ids = pad_sequence([torch.tensor(rows[i]) for i in chosen], batch_first=True).to(device)
            sizes = torch.tensor([len(rows[i]) for i in chosen], device=device)[:, None]  # (B, 1)
            real = torch.arange(ids.shape[1], device=device) < sizes  # (B, S)
            states = bert(ids, padding_mask=real).last.float()  # (B, S, H)
            vectors[chosen] = (states * real[..., None]).sum(1) / sizes
    return vectors
