"""No document that is scored has a sister among those that are trained on."""

import re
from collections import Counter, defaultdict

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
@pytest.mark.parametrize(("corpus", "missing"), [("speeches", SISTERS), ("encyclopedia", set())])
def test_what_is_left_out_is_in_no_split_and_all_else_stays(corpus: str, missing: set[str]) -> None:
    documents = load_documents(corpus)
    splits = by_split(documents)
    assert tuple(splits) == SPLITS
    kept = [d.title for some in splits.values() for d in some]
    assert {d.title for d in documents} - set(kept) == missing
    for split, some in splits.items():
        assert some == [d for d in documents if d.split == split == split_of(d.title)]
    if corpus == "speeches":  # no scored message is of a year that is trained on, so its sisters
        years = {split: {d.title[:4] for d in some} for split, some in splits.items()}
        assert not years["train"] & (years["dev"] | years["test"])
        assert all(split_of(title) != "train" for title in SISTERS)
        left = {title for title in SISTERS if title[:4] not in years["train"]}
        assert left <= {"1981-Carter-1"}, "left out without a reason"


def test_only_the_corpus_of_speeches_has_sisters() -> None:
    (title, *_) = sorted(SISTERS)
    assert Document(title, "my letters", "text").split == split_of(title) != "train"
    some = [Document(title, "speeches", "a"), Document("1980-Carter-1", "speeches", "b")]
    assert some[0].split == "left out"
    assert by_split(some) == {"train": [some[1]], "dev": [], "test": []}


def test_the_split_of_a_title_never_changes() -> None:
    """Pinned: published vocabularies, checkpoints and results stand on these."""
    pinned = dict.fromkeys(("Seoul", "한국", "1790-Washington-1"), "train")
    pinned |= dict.fromkeys(("Albert Einstein", "Guitar", "Harry Potter", "Viola"), "dev")
    pinned |= dict.fromkeys(("Acne", "Piano sonatas (Beethoven)", "Sesame Street"), "test")
    assert {title: split_of(title) for title in pinned} == pinned
    count = Counter(split_of(f"title {number}") for number in range(20_000))
    for split, share in zip(SPLITS, (0.90, 0.05, 0.05), strict=True):
        sigma = (20_000 * share * (1 - share)) ** 0.5
        assert abs(count[split] - 20_000 * share) < 5 * sigma, (split, count)
