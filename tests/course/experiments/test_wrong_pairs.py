"""Spoiled pairs: each kind spoils what it says and nothing else; the sums are right."""

import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from bertedu.model.bert import BertForPreTraining
from bertedu.model.config import BertConfig
from bertedu.pretraining.next_sentence import IS_NEXT, NOT_NEXT, Pair
from bertedu.text.corpus import Document
from course.experiments.wrong_pairs import (
    KINDS,
    LENGTH,
    chance_of_next,
    score_kinds,
    spoil_pairs,
    word_overlap,
)


class Encoded:
    def __init__(self, text: str) -> None:
        self.ids = [int(word) for word in text.split()]


class Numbers:
    """A tokenizer of numbers: document * 1000 + sentence * 10 + word."""

    def encode_batch_fast(self, texts: list[str], add_special_tokens: bool) -> list[Encoded]:
        assert not add_special_tokens
        return [Encoded(text) for text in texts]


class Numbered(Document):
    """A document whose sentences are given, not cut."""

    def sentences(self) -> list[str]:
        return self.text.split("|")


def document(number: int, sentences: int, topic: str | None, source: str = "books") -> Document:
    words = [[str(number * 1000 + s * 10 + word) for word in range(3)] for s in range(sentences)]
    return Numbered(f"title {number}", source, "|".join(map(" ".join, words)), topic)


DOCUMENTS = [
    *(document(n, 4 + n % 3, "sea" if n < 6 else "sky") for n in range(1, 11)),
    document(11, 3, "sky"),  # too short to be asked about
    document(12, 8, None, "speeches"),
]
PAIRS, NUMBERS = spoil_pairs(DOCUMENTS, Numbers())


def place(span: list[int]) -> tuple[int, int]:
    """Return (document, sentence) of a span, which must be one whole sentence."""
    assert [token % 10 for token in span] == [0, 1, 2]
    return span[0] // 1000, span[0] % 1000 // 10


def test_real_pairs_are_neighbors_and_every_one_is_there() -> None:
    found = [(place(pair.a), place(pair.b)) for pair in PAIRS["real"]]
    assert found == [
        ((n, s), (n, s + 1))
        for n in range(1, 11)
        for s in range(1, len(DOCUMENTS[n - 1].sentences()) - 1)
    ]
    assert {pair.label for pair in PAIRS["real"]} == {IS_NEXT}
    assert (NUMBERS + 1).tolist() == [a[0] for a, _ in found]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_spoils_what_it_says_and_nothing_else(kind: str) -> None:
    topic, topics = {n + 1: d.topic for n, d in enumerate(DOCUMENTS)}, set()
    for real, wrong in zip(PAIRS["real"], PAIRS[kind], strict=True):
        assert wrong.label == NOT_NEXT
        if kind == "swapped":
            assert (wrong.a, wrong.b) == (real.b, real.a)
            continue
        assert wrong.a == real.a
        (here, at), (there, other) = place(real.a), place(wrong.b)
        topics.add(topic[there])
        assert (there == here) == (kind == "same document")
        assert (there == 12) == (kind == "other source")
        assert (other == 0) == (kind == "an opening")
        assert there != here or other not in (at, at + 1)
        assert kind != "same topic" or topic[there] == topic[here]
    assert kind not in ("an opening", "other document") or topics == {"sea", "sky"}


def test_the_same_seed_makes_the_same_pairs() -> None:
    assert spoil_pairs(DOCUMENTS, Numbers())[0] == PAIRS
    other, _ = spoil_pairs(DOCUMENTS, Numbers(), seed=1)
    assert all((other[kind] == PAIRS[kind]) == (kind in ("real", "swapped")) for kind in other)


def test_very_long_sentences_and_articles_without_topic_are_left_out() -> None:
    sizes = [5, 62, 63, 62, 10, 62]  # of the sentences
    sentences = [" ".join(map(str, range(100, 100 + size))) for size in sizes]
    long = Numbered("long", "books", "|".join(sentences), "sea")
    nobody = Numbered("nobody", "books", long.text, "Uncategorized")
    pairs, numbers = spoil_pairs([long, nobody, *DOCUMENTS], Numbers())
    own = [pair for pair, number in zip(pairs["real"], numbers, strict=True) if number == 0]
    assert [(len(pair.a), len(pair.b)) for pair in own] == [(62, 10), (10, 62)]
    assert 1 not in numbers, "no topic is not a topic"
    longest = max(len(pair.a) + len(pair.b) for some in pairs.values() for pair in some)
    assert longest + 3 <= LENGTH


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([document(1, 3, "sea"), document(2, 9, None)], "no document has a topic"),
        ([document(1, 5, "sea"), document(2, 5, "sky")], "no other of its topic"),
    ],
)
def test_text_that_cannot_be_asked_about_is_named(documents: list[Document], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        spoil_pairs(documents, Numbers())


def test_a_models_answer_does_not_depend_on_its_company() -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(BertConfig(60, 16, 2, 2, 32, LENGTH, initializer_range=0.5))
    pairs = [Pair(list(range(5, 5 + n)), list(range(20, 20 + 2 * n)), 0) for n in range(1, 15)] * 9
    together = chance_of_next(model.train(), pairs)
    alone = torch.cat([chance_of_next(model, [pair]) for pair in pairs[:14]])
    torch.testing.assert_close(together, alone.repeat(9))
    ids = torch.tensor([[2, 5, 6, 3, 20, 21, 22, 23, 3]])
    segments = torch.tensor([[0] * 4 + [1] * 5])
    expected = model.eval().nsp(model.bert(ids, segments).pooled).softmax(-1)[0, 0]
    torch.testing.assert_close(together[1], expected)


def test_word_overlap_is_the_cosine_and_knows_no_order() -> None:
    weigh = TfidfVectorizer(analyzer=lambda ids: ids).fit([[1, 2, 3], [1, 4], [1, 5, 5, 6]])
    same, none, some = Pair([2, 3], [3, 2], 0), Pair([2], [4], 0), Pair([1, 2], [1, 4], 0)
    scores = word_overlap([same, none, some, Pair([1, 4], [1, 2], 0)], weigh).tolist()
    assert scores[:2] == pytest.approx([1, 0])
    assert 0 < scores[2] == scores[3] < 0.5  # the common word weighs little


def test_shares_by_hand() -> None:
    scores = {"real": torch.tensor([0.9, 0.6, 0.4, 0.2]), "x": torch.tensor([0.1, 0.6, 0.5, 0.1])}
    first, second = score_kinds("me", scores, torch.tensor([7, 7, 9, 9]), 0.5)
    assert (first["judge"], first["kind"], first["called_next"]) == ("me", "real", 0.5)
    assert second["ranked_right"] == (1 + 0.5 + 0 + 1) / 4
    assert second["called_next"] == 0.5
    assert second["ranked_right_low"] <= 0.5 <= second["ranked_right_high"]
    assert "called_next" not in score_kinds("me", scores, torch.arange(4), None)[1]


def test_intervals_draw_whole_documents() -> None:
    """Ten pairs of one document say no more than one: the interval must not shrink."""
    hit = (torch.rand(40, generator=torch.Generator().manual_seed(0)) < 0.7).float()

    def width(repeats: int) -> float:
        real = hit.repeat_interleave(repeats)
        documents = torch.arange(40).repeat_interleave(repeats)
        scores = {"real": real, "x": torch.full_like(real, 0.5)}
        row = score_kinds("me", scores, documents, None)[1]
        return float(row["ranked_right_high"]) - float(row["ranked_right_low"])

    assert width(10) == pytest.approx(width(1), abs=0.02)
