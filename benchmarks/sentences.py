"""Sentence vectors: one sentence, and many of mixed length, beside Hugging Face used plainly."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import BertConfig as TheirConfig
from transformers import BertModel as TheirModel

from benchmarks.report import SENTENCES, Row
from benchmarks.sides import NotEqual
from benchmarks.timing import WARM_UP, milliseconds, ratio, take_turns
from bertedu.model.bert import Bert
from bertedu.model.checkpoints import hugging_face_config, hugging_face_tensors
from bertedu.model.config import BertConfig
from bertedu.model.features import encode
from bertedu.text.corpus import DEFAULT_CORPORA, load_documents
from bertedu.text.fast_tokenizer import load_tokenizer
from bertedu.text.sources import find

SIZE = BertConfig(30522, 384, 6, 12, 1536)  # that of the published encoder `minilm`
MANY, BATCH, REPEATS = 256, 32, 5
TARGETS = {"many sentences": "target 1.3"}
TOLERANCE = 1e-4


def load_sentences(count: int) -> list[str]:
    """Draw held-out sentences, or make as many of like lengths if no corpus is there."""
    dice = np.random.default_rng(0)
    if not all(find(name).path.is_file() for name in DEFAULT_CORPORA):
        lengths = np.clip(dice.lognormal(3.0, 0.6, count), 3, 90).astype(int)
        return [" ".join(["word"] * length) for length in lengths]
    held_out = [
        sentence
        for corpus in DEFAULT_CORPORA
        for document in load_documents(corpus)
        if document.split == "dev"
        for sentence in document.sentences()
    ]
    return [held_out[i] for i in dice.permutation(len(held_out))[:count]]


def make_sides(config: BertConfig) -> tuple[Bert, nn.Module]:
    """Make both models with the same random weights: what they are does not change the speed."""
    torch.manual_seed(0)
    ours = Bert(config).eval()
    theirs: nn.Module = TheirModel(TheirConfig(**hugging_face_config(config)))
    theirs.eval()
    theirs.load_state_dict(hugging_face_tensors(ours))
    return ours, theirs


@torch.inference_mode()
def encode_plainly(
    model: nn.Module, tokenizer: Tokenizer, texts: Sequence[str], longest: int
) -> Tensor:
    """Encode with Hugging Face as its guides show it: in the order of the texts, mean pooling."""
    tokenizer.enable_truncation(longest)
    tokenizer.enable_padding()
    vectors = []
    for begin in range(0, len(texts), BATCH):
        rows = tokenizer.encode_batch(list(texts[begin : begin + BATCH]))
        ids = torch.tensor([row.ids for row in rows])
        mask = torch.tensor([row.attention_mask for row in rows])
        states = model(ids, mask).last_hidden_state
        vectors.append((states * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return torch.cat(vectors)


def count_sentence_calls(rounds: int) -> int:
    """Count the calls of `compare_sentences`, for a progress bar."""
    return 2 * (WARM_UP + REPEATS * rounds) + 2 * (WARM_UP + rounds)


def compare_sentences(
    rounds: int, advance: Callable[[], object], config: BertConfig = SIZE, many: int = MANY
) -> list[Row]:
    """Time both sides on one sentence and on many, tokenizing included.

    Raises
    ------
    NotEqual
        The two sides do not give the same vectors.

    """
    ours, theirs = make_sides(config)
    tokenizer, longest = load_tokenizer(), config.max_position_embeddings
    sentences = load_sentences(many)
    middle = sorted(sentences, key=len)[many // 2]
    rows = []
    for name, texts, repeat in (
        ("one sentence", [middle], REPEATS),
        ("many sentences", sentences, 1),
    ):
        right = encode_plainly(theirs, tokenizer, texts, longest)
        difference = encode(ours, tokenizer, texts, batch_size=BATCH) - right
        if not difference.abs().max() <= TOLERANCE:
            raise NotEqual(f"the vectors differ by up to {float(difference.abs().max()):.2g}")
        functions: dict[str, Callable[[], object]] = {
            "theirs": partial(encode_plainly, theirs, tokenizer, texts, longest),
            "ours": partial(encode, ours, tokenizer, texts, batch_size=BATCH),
        }
        seconds = take_turns(functions, repeat * rounds, advance)
        tokens = [len(row.ids) for row in tokenizer.encode_batch(texts)]
        length = round(sum(tokens) / len(tokens))
        rows.append(
            Row(
                SENTENCES,
                f"L{config.num_hidden_layers} H{config.hidden_size}",
                name,
                "float32, like lengths together",
                "sdpa, float32, in the order of the texts",
                *ratio(seconds["theirs"], seconds["ours"]),
                ours_ms=milliseconds(seconds["ours"]),
                theirs_ms=milliseconds(seconds["theirs"]),
                batch=len(texts),
                length=length,
                tokens=len(texts) * length,
                rounds=repeat * rounds,
                target=TARGETS.get(name, ""),
            )
        )
    return rows
