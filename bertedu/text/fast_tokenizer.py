"""The same WordPiece as `bertedu.text.tokenization`, in the `tokenizers` library; its files."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

from bertedu.files import shipped, write_atomically
from bertedu.text.tokenization import (
    CLS_ID,
    SEP_ID,
    SPECIAL_TOKENS,
    check_text,
    check_vocabulary,
    is_cjk,
    is_punctuation,
)

MAX_ALPHABET = 400  # single characters that a trained vocabulary may hold; others are [UNK]
RAREST_CHARACTER = 1e-6  # a character below this share of the text is not worth its two entries


def train_vocabulary(texts: Iterable[str], size: int = 8192) -> list[str]:
    """Train a lower-cased WordPiece vocabulary of at most `size` entries, special tokens first.

    The same texts give the same vocabulary in every process and on every machine.
    Raises ValueError if there is no text or `size` cannot hold the alphabet.
    """
    if isinstance(texts, str):
        raise TypeError("This takes several texts, and got one str. Put it in a list: [text].")
    normalized, counts = [], Counter[str]()
    for text in texts:
        check_text(text)
        normalized.append(_bert_normalizer().normalize_str(text))
        counts.update(normalized[-1])
    rarest = RAREST_CHARACTER * counts.total()
    seen = [c for c in counts if counts[c] >= rarest and not c.isspace()]
    alphabet = sorted(sorted(seen, key=lambda c: (-counts[c], c))[:MAX_ALPHABET])
    # Punctuation and CJK characters are always words of their own: they need no ## version.
    inner = ["##" + c for c in alphabet if not (is_cjk(c) or is_punctuation(c))]
    # The library numbers the characters in the order of a hash map, which differs from run to run,
    # and breaks ties between equally frequent pairs by number. Named as special tokens, the
    # characters get fixed numbers, so ties always break the same way.
    fixed = [*SPECIAL_TOKENS, *alphabet, *inner]
    if not alphabet:
        raise ValueError("No text to train a vocabulary on: `texts` holds no visible character.")
    if size < len(fixed):
        raise ValueError(
            f"A vocabulary of {size} is too small: special tokens and single characters alone "
            f"take {len(fixed)}. Ask for a larger size."
        )
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=fixed,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(normalized, trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def fast_tokenizer(vocab: Sequence[str]) -> tokenizers.Tokenizer:
    """Build the `tokenizers` tokenizer of a vocabulary; a token's id is its place in `vocab`.

    `[MASK]` and the other special tokens are recognized where they are written in a text. Asked for
    what is no text, half a surrogate pair, too, it raises TypeError, where `WordPiece` says more.
    Raises ValueError if `vocab` does not start with the special tokens or repeats a token.
    """
    check_vocabulary(vocab, "This vocabulary")
    tokenizer = bert_tokenizer(vocab)
    tokenizer.normalizer = _bert_normalizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", CLS_ID), ("[SEP]", SEP_ID)],
    )
    return tokenizer


def bert_tokenizer(vocab: Sequence[str]) -> tokenizers.Tokenizer:
    """Build the tokenizer of any BERT's vocabulary, wherever its special tokens stand."""
    ids = {token: i for i, token in enumerate(vocab)}
    return tokenizers.Tokenizer.from_str(tokenizers.BertWordPieceTokenizer(ids).to_str())


def save_tokenizer(vocab: Sequence[str], folder: Path) -> None:
    """Write vocab.txt, tokenizer.json and tokenizer_config.json, as Hugging Face reads them."""
    for name, text in tokenizer_files(fast_tokenizer(vocab), max_length=512).items():
        write_atomically(folder / name, text + "\n")
    write_atomically(folder / "vocab.txt", "".join(token + "\n" for token in vocab))


def tokenizer_files(tokenizer: tokenizers.Tokenizer, max_length: int) -> dict[str, str]:
    """Return the two files of a tokenizer that `transformers` opens: text by name.

    It is said to cut words as BERT's does, or just by `tokenizer.json`, if it does otherwise.
    """
    plain = tokenizers.Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()  # cut and padded by who uses it, not by habit
    plain.no_padding()
    parts = json.loads(plain.to_str())
    normalizer = parts["normalizer"] or {}
    berts = normalizer.get("type") == "BertNormalizer" and normalizer["clean_text"]
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
    if berts and parts["model"]["type"] == "WordPiece":
        settings = {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": normalizer["lowercase"],
            "strip_accents": normalizer["strip_accents"],
            "tokenize_chinese_chars": normalizer["handle_chinese_chars"],
        }
    known = [t for t in SPECIAL_TOKENS if plain.token_to_id(t) is not None]
    names = {f"{token[1:-1].lower()}_token": token for token in known}  # "mask_token" and so on
    settings |= {"model_max_length": max_length, **names}
    return {
        "tokenizer.json": plain.to_str(pretty=True),
        "tokenizer_config.json": json.dumps(settings, indent=2),
    }


def load_vocabulary(folder: Path | None = None) -> list[str]:
    """Read vocab.txt of `folder` (default: the course's own tokenizer).

    Raises FileNotFoundError if it is not there, ValueError if it is not a BERT vocabulary.
    """
    path = (shipped("tokenizer") if folder is None else folder) / "vocab.txt"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise FileNotFoundError(
            f"There is no vocabulary at {path}. Train one with train_vocabulary() and "
            "write it with save_tokenizer(), or restore the file from the repository."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text. Restore it from the repository.") from error
    # Not splitlines(): it would also split at characters that may be part of a token.
    vocab = text.removesuffix("\n").split("\n") if text else []
    check_vocabulary(vocab, str(path))
    return vocab


def load_tokenizer(folder: Path | None = None) -> tokenizers.Tokenizer:
    """Open the fast tokenizer of `folder` (default: the course's); raises as load_vocabulary."""
    return fast_tokenizer(load_vocabulary(folder))


def _bert_normalizer() -> normalizers.BertNormalizer:
    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True
    )
