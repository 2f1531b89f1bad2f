"""Pairs from documents whose ids say where they come from: document and place."""

import numpy as np
import pytest

from bertedu.pretraining.next_sentence import (
    IS_NEXT,
    NOT_NEXT,
    EncodedDocument,
    Pair,
    encode_documents,
    make_pairs,
    outward_signs,
    truncate_pair,
)
from bertedu.text.corpus import Document
from bertedu.text.fast_tokenizer import fast_tokenizer
from bertedu.text.tokenization import SPECIAL_TOKENS

WIDE = 100_000  # id = document * WIDE + place in the document


def collection(
    documents: int = 60, sentences: int = 30, longest: int = 25, sources: int = 2, seed: int = 0
) -> list[EncodedDocument]:
    """Documents with 1 to 2n sentences; every id is document * WIDE + place."""
    rng = np.random.default_rng(seed)
    made = []
    for document in range(documents):
        place, texts = 0, []
        for _ in range(int(rng.integers(1, 2 * sentences))):
            size = int(rng.integers(1, longest + 1))
            texts.append(list(range(document * WIDE + place, document * WIDE + place + size)))
            place += size
        made.append(EncodedDocument(f"source {document % sources}", texts))
    return made


def pairs_of(documents: list[EncodedDocument], length: int = 64, epochs: int = 1) -> list[Pair]:
    rng = np.random.default_rng(1)
    return [pair for _ in range(epochs) for pair in make_pairs(documents, length, rng)]


def document_of(ids: list[int]) -> int:
    numbers = {i // WIDE for i in ids}
    assert len(numbers) == 1, f"one span out of the documents {numbers}"
    return numbers.pop()


@pytest.mark.parametrize("length", [16, 64, 128])
def test_what_every_pair_promises(length: int) -> None:
    documents = collection()
    ends = {s[-1] for d in documents for s in d.sentences}
    starts = {s[0] for d in documents for s in d.sentences}
    pairs = pairs_of(documents, length, epochs=10)
    assert (IS_NEXT, NOT_NEXT) == (0, 1)
    uncut = 0
    for pair in pairs:
        assert len(pair.a) + len(pair.b) + 3 <= length
        first, second = document_of(pair.a), document_of(pair.b)
        for span in (pair.a, pair.b):
            assert span == list(range(span[0], span[-1] + 1)), "a span skips words"
        if pair.label == IS_NEXT:
            assert first == second
            assert pair.b[0] > pair.a[-1], "B does not come after A"
            if len(pair.a) + len(pair.b) + 3 < length:  # nothing was cut: B is what follows
                assert pair.b[0] == pair.a[-1] + 1
                uncut += 1
            # a gap is what was cut off inside: less than the last sentence that was put in
            assert pair.b[0] - pair.a[-1] - 1 < (25 if length > 50 else 50)
        else:
            assert first != second, "a NotNext pair out of one document"
            assert documents[first].source == documents[second].source
        if len(pair.a) + len(pair.b) + 3 < length:  # whole sentences
            assert pair.a[0] in starts
            assert pair.a[-1] in ends
            assert pair.b[0] in starts
            assert pair.b[-1] in ends
    assert uncut > 5


@pytest.mark.parametrize("length", [64, 128])
def test_lengths_do_not_tell_the_label(length: int) -> None:
    """A random B as long as the whole pair would be cut more often than a real one."""
    pairs = pairs_of(collection(documents=200, sentences=40), length, epochs=4)
    label = np.array([p.label for p in pairs])
    assert abs(label.mean() - 0.5) < 5 * 0.5 / len(label) ** 0.5
    a, b = np.array([len(p.a) for p in pairs]), np.array([len(p.b) for p in pairs])
    for name, values in (("A", a), ("B", b), ("both", a + b), ("difference", a - b)):
        real, drawn = values[label == IS_NEXT], values[label == NOT_NEXT]
        assert abs(real.mean() - drawn.mean()) < 0.06 * length, f"length of {name}"
        # the best threshold on it would be right this often
        grid = np.arange(-length, length + 1)
        below = np.array([[(x <= t).mean() for t in grid] for x in (real, drawn)])
        assert 0.5 + np.abs(below[0] - below[1]).max() / 2 < 0.56, f"length of {name}"


def test_a_document_of_one_sentence_is_b_only_and_an_empty_one_nothing() -> None:
    documents = [
        EncodedDocument("s", [[0, 1, 2], [3, 4], [5]]),
        EncodedDocument("s", [[WIDE, WIDE + 1]]),
        EncodedDocument("s", []),
        EncodedDocument("another source, all empty", []),
    ]
    pairs = pairs_of(documents, epochs=200)
    assert {document_of(p.a) for p in pairs} == {0}
    assert {document_of(p.b) for p in pairs if p.label == NOT_NEXT} == {1}


def test_all_parts_of_all_documents_are_reached() -> None:
    """Also the middle of a sentence that is many times longer than a row."""
    documents = [
        *collection(documents=8, longest=60),
        EncodedDocument("source 0", [list(range(8 * WIDE, 8 * WIDE + 120)), [8 * WIDE + 120]]),
        EncodedDocument("source 1", [list(range(9 * WIDE, 9 * WIDE + 150))]),
    ]
    seen = {i for p in pairs_of(documents, 32, epochs=250) for i in (*p.a, *p.b)}
    assert seen == {i for d in documents for s in d.sentences for i in s}


def test_the_longer_span_is_cut_and_never_more_than_needed() -> None:
    rng = np.random.default_rng(0)
    for size_a, size_b, room in rng.integers(1, 60, (3000, 3)).tolist():
        room += 1
        a, b = list(range(size_a)), list(range(1000, 1000 + size_b))
        cut_a, cut_b = truncate_pair(a, b, room, rng)
        # one word at a time off the longer one: Google's way
        x, y = size_a, size_b
        while x + y > room:
            x, y = (x - 1, y) if x > y else (x, y - 1)
        assert (len(cut_a), len(cut_b)) == (x, y)
        assert cut_a == a[cut_a[0] : cut_a[0] + x]
        assert cut_b == b[cut_b[0] - 1000 : cut_b[0] - 1000 + y]


def test_a_lone_document_is_refused_by_name() -> None:
    documents = [*collection(4, sources=1), EncodedDocument("my book", [[1], [2], [3]])]
    with pytest.raises(ValueError, match=r"source 'my book' has one document.*blank line.*no-nsp"):
        pairs_of(documents)
    assert pairs_of([]) == []


def test_the_shortest_length_has_one_word_a_span() -> None:
    assert {(len(p.a), len(p.b)) for p in pairs_of(collection(6), 5)} == {(1, 1)}
    for length in (-1, 0, 4):
        with pytest.raises(ValueError, match=f"length {length} leaves no room"):
            pairs_of(collection(4), length)


def test_sentences_are_encoded_each_in_its_document_without_specials() -> None:
    vocab = [*SPECIAL_TOKENS, *"abcdefgh.", *("##" + c for c in "abcdefgh")]
    tokenizer = fast_tokenizer(vocab)
    documents = [
        Document("one", "s", "A be. Cd.\nD e f."),
        Document("nothing to read", "t", "\u200b\n\u200d"),  # sentences, but no word pieces
        Document("two", "t", "Ah."),
    ]
    assert encode_documents(documents, tokenizer) == [
        EncodedDocument("s", [[5, 6, 18, 13], [7, 17, 13], [8, 9, 10, 13]]),
        EncodedDocument("t", []),
        EncodedDocument("t", [[5, 21, 13]]),
    ]


def test_outward_signs_of_pairs_made_by_hand() -> None:
    documents = [
        EncodedDocument("s", [[1, 2], [3, 4, 5], [6, 7, 8, 9]]),
        EncodedDocument("s", [[11], [12, 13]]),  # shorter than what an opening is known by
    ]
    pairs = [
        Pair([1, 2], [3, 4, 5, 6, 7, 8, 9], IS_NEXT),
        Pair([11], [1, 2, 3, 4, 5, 6, 7, 8, 9], NOT_NEXT),
        Pair([11], [2, 3, 4, 5, 6, 7, 8, 9], NOT_NEXT),  # its front is cut off
        Pair([1, 2], [11, 12, 13], NOT_NEXT),
        Pair([1, 2], [12, 13], NOT_NEXT),
    ]
    lengths, opens, labels = outward_signs(pairs, documents)
    assert lengths.tolist() == [7, 9, 8, 3, 2]
    assert opens.tolist() == [False, True, False, True, False]
    assert labels.tolist() == [IS_NEXT, NOT_NEXT, NOT_NEXT, NOT_NEXT, NOT_NEXT]
