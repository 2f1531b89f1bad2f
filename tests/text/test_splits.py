"""No document that is scored has a sister among those that are trained on."""

import re
from collections import defaultdict

import pytest

from bertedu.text.corpus import (
    DEFAULT_CORPORA,
    SISTERS,
    SPLITS,
    Document,
    by_split,
    load_documents,
    split_of,
)
from bertedu.text.sources import find

PHRASE = 8  # words; two documents that share many such sequences share sentences
SHARE = 0.03  # of the shorter document's: all but sisters stay below half of it
ENOUGH = 50  # an article of a hundred words may share a stock sentence or two with another

needs_text = pytest.mark.skipif(
    not all(find(name).path.is_file() for name in DEFAULT_CORPORA),
    reason="not fetched: run `make data`",
)


def phrases(text: str) -> set[int]:
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[i : i + PHRASE])) for i in range(len(words) - PHRASE + 1)}


def overlaps() -> dict[tuple[str, str], tuple[int, float]]:
    """(Held-out title, training title) -> eight-word sequences in common: number, share."""
    documents = [d for corpus in DEFAULT_CORPORA for d in load_documents(corpus)]
    held_out, where = {}, defaultdict(list)
    for document in documents:
        if split_of(document.title) != "train":
            held_out[document.title] = found = phrases(document.text)
            for phrase in found:
                where[phrase].append(document.title)
    shared: dict[tuple[str, str], tuple[int, float]] = {}
    for document in documents:
        if split_of(document.title) == "train":
            found = phrases(document.text)
            count: dict[str, int] = defaultdict(int)
            for phrase in found & where.keys():
                for title in where[phrase]:
                    count[title] += 1
            for title, number in count.items():
                shorter = min(len(found), len(held_out[title]))
                shared[title, document.title] = number, number / shorter
    return shared


@needs_text
def test_what_is_scored_shares_no_wording_with_what_is_trained_on() -> None:
    shares = {titles: share for titles, (number, share) in overlaps().items() if number >= ENOUGH}
    alike = {titles for titles, share in shares.items() if share > SHARE}
    assert {held_out for held_out, _ in alike} <= SISTERS
    assert ("1981-Carter-1", "1980-Carter-1") in alike
    assert len(alike) == 3  # 1953 and 1973 are left out for their year alone
    others = {titles: share for titles, share in shares.items() if titles not in alike}
    assert len(others) > 5
    assert max(others.values()) < SHARE / 2  # a gap: the exact threshold decides nothing


@needs_text
def test_no_scored_message_is_of_a_year_that_is_trained_on() -> None:
    speeches = by_split(load_documents("speeches"))
    years = {split: {d.title[:4] for d in some} for split, some in speeches.items()}
    assert not years["train"] & (years["dev"] | years["test"])
    trained = {d.title for d in speeches["train"]}
    assert all(split_of(title) != "train" for title in SISTERS)
    for title in SISTERS:  # and none is left out without a reason
        sisters = {t for t in trained if t[:4] == title[:4]}
        assert sisters or title == "1981-Carter-1", title


@needs_text
def test_what_is_left_out_is_in_no_split_and_nothing_else_has_moved() -> None:
    for corpus, missing in (("speeches", SISTERS), ("encyclopedia", frozenset())):
        documents = load_documents(corpus)
        splits = by_split(documents)
        assert tuple(splits) == SPLITS
        kept = [d.title for some in splits.values() for d in some]
        assert {d.title for d in documents} - set(kept) == missing
        for split, some in splits.items():
            assert some == [d for d in documents if d.split == split]
            assert all(split_of(d.title) == split for d in some)


def test_only_the_corpus_of_speeches_has_sisters() -> None:
    (title, *_) = sorted(SISTERS)
    assert Document(title, "speeches", "text").split == "left out"
    assert Document(title, "my letters", "text").split == split_of(title) != "train"
    some = [Document(title, "speeches", "a"), Document("1980-Carter-1", "speeches", "b")]
    assert by_split(some) == {"train": [some[1]], "dev": [], "test": []}
