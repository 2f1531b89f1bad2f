"""A corpus for the tests that start whole runs."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bertedu.text.fast_tokenizer import save_tokenizer, train_vocabulary


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Sixty documents of invented words, and a vocabulary of their own: small, so quick."""
    house = tmp_path_factory.mktemp("house")
    folder = house / "text"
    folder.mkdir()
    chance = random.Random(0)
    words = [a + b for a in "ba ke lo mi nu ra se to".split() for b in "n r s t l".split()]
    texts = []
    for document in range(60):
        own = chance.sample(words, 12)
        sentences = [" ".join(chance.choices(own, k=chance.randint(5, 14))) for _ in range(30)]
        texts.append("\n".join(f"{sentence.capitalize()}." for sentence in sentences))
        (folder / f"{document}.txt").write_text(texts[-1], encoding="utf-8")
    save_tokenizer(train_vocabulary(texts, 100), house / "data" / "tokenizer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTEDU_DATA", str(house / "data"))
        yield folder
