"""Documents, sentences, the split, and files that cannot be used."""

import random
import string
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertedu.text import corpus
from bertedu.text.corpus import (
    SPLITS,
    CorpusError,
    Document,
    load_documents,
    read_text,
    split_of,
    split_sentences,
)
from bertedu.text.sources import find

# Every line is one paragraph; | marks where a new sentence starts.
PARAGRAPHS = """
Mr. Adams met Dr. W. Smith. | They talked.
Gen. Grant and Lt. Col. Lee met Prof. Kim, Sen. Hale and Gov. Hill. | It rained.
The U.S. Army won. | It left the U.S. | The law stood.
He left the U.S. | They stayed in the U.N. General Assembly.
Animals, e.g. Cats, i.e. Lions. | Fine.
Rule No. 5 holds. | See pp. 12 and Fig. 3, vol. 2, Sec. 4. | Done.
Is it so? | No. | That is wrong. | She said no. | Then she left.
St. Louis vs. Chicago, near Ft. Worth and Mt. Hood. | Good.
J. S. Bach wrote it. | George W. Bush read it. | A. A. Milne did not.
He took vitamin C. | The cold went. | So do I. | Then we left.
Pi is 3.14 and e is 2.72. | Exports rose by 2.5. | Imports fell 0.75 percent.
Version 2.0. | The next is 3.5. | Dogs ran.
He said "Go." | Then he left. | “Why?” | ‘No.’ | She ran.
(It was late.) | Then [he said so.] | "Yes!" | "No." | (Ha.) | End.
Well... | He came. | Wait… | No. | Hm... but no.
What?! | Yes! | No?? | "Really?!" | (Never!) | So.
See www.example.com. | Then http://a.example/b.html. | It works at example.org and a.b today.
It was in 1990. | In 1991 it was not. | 1992 was fine. | 12 men came.
Louis XIV was king. | Henry VIII. | He ruled. | World War II. | It ended. | Henry V. | He won.
it was. lower case goes on. | Up. iPhone is not a start.
Il est parti. étrange, non? | Non. | École fermée. | Он ушёл. | Они тоже. и всё.
Born c. 1900, d. 1980, fl. 1950. | Fin.
Feb. 5 was cold. | It was Sept. 11 and Dec. 24. | In May. | In June.
Cats, dogs, etc. | The rest.
He met Ph.D. Smith. | He has a Ph.D. | They do not. | It is at a.com. | Dogs ran.
(He said "Go.") | She ran. | He paused ...Mr. Adams spoke.
어제 늦게 잤니? | 피곤해 보이네. | 그래.
no period at the end
x
X.
.
?!
...
"
""".strip().split("\n")


@pytest.mark.parametrize("marked", PARAGRAPHS)
def test_sentences_start_where_a_reader_would_start_them(marked: str) -> None:
    assert split_sentences(marked.replace(" | ", " ")) == marked.split(" | ")


def test_a_long_paragraph_is_cut_where_a_short_one_is() -> None:
    """Each again, between two sentences longer than the few words that decide."""
    long = "They " + "walked on and on " * 12 + "until night."
    for marked in PARAGRAPHS:
        if marked[0].isupper() and marked[-1] in ".?!":
            text = f"{long} {marked.replace(' | ', ' ')} {long}"
            assert split_sentences(text) == [long, *marked.split(" | "), long]
            assert split_sentences(text[len(long) + 1 :]) == [*marked.split(" | "), long]


@pytest.mark.parametrize("nothing", ["", " ", " \t\n  \u00a0 "])
def test_no_text_has_no_sentences(nothing: str) -> None:
    assert split_sentences(nothing) == []
    assert Document("t", "s", nothing).sentences() == []


SNIPPETS = 'Mr.|U.S.|No.|5|A.|e.g.|he|The|"|).|?!|...|…|”|(|3.14|I.|é|Ünde.|- |.| '.split("|")
SNIPPETS += ["\t", "\u2003", "\x1f"]  # all of them spaces to Python
UGLY = st.lists(
    st.one_of(
        st.sampled_from(SNIPPETS),
        st.text(max_size=8),
    )
).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(UGLY, st.text(string.ascii_letters + " .!?\"')(…0123456789\n")))
def test_nothing_is_lost_and_no_sentence_is_empty_or_padded(text: str) -> None:
    sentences = split_sentences(text)
    assert " ".join(sentences) == " ".join(text.split())
    assert all(s and s == s.strip() for s in sentences)
    of_document = Document("t", "s", text).sentences()
    assert " ".join(of_document) == " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "Abc c. " * 30_000,
        "." * 200_000 + "x",
        "a" * 200_000 + ". B",
        "He ran. " * 30_000,
        ")" * 100_000 + '. "' + '"' * 100_000,
    ],
    ids=["no-end", "dots", "one-word", "one-line", "closers"],
)
def test_a_book_on_one_line_takes_no_hours(text: str) -> None:
    began = time.process_time()
    assert " ".join(split_sentences(text)) == text.strip()
    assert time.process_time() - began < 5


def test_no_sentence_crosses_a_line_break_and_spaces_are_single() -> None:
    document = Document("t", "s", "One  two.\tThree\n\n four. \r\nFive\u2028Six. Seven")
    assert document.paragraphs() == ["One two. Three", "four.", "Five", "Six. Seven"]
    assert document.sentences() == ["One two.", "Three", "four.", "Five", "Six.", "Seven"]


# --- The split ----------------------------------------------------------------------------------


def test_the_split_of_a_title_never_changes() -> None:
    """Pinned: published vocabularies, checkpoints and results stand on these."""
    pinned = {
        "Seoul": "train",
        "한국": "train",
        "1790-Washington-1": "train",
    }
    pinned |= dict.fromkeys(("Albert Einstein", "Guitar", "Harry Potter", "Viola"), "dev")
    pinned |= dict.fromkeys(("Acne", "Piano sonatas (Beethoven)", "Sesame Street"), "test")
    assert {title: split_of(title) for title in pinned} == pinned
    assert Document("Acne", "anything", "any text", "any topic").split == "test"


def test_shares_are_90_5_5_whatever_the_order_and_the_company() -> None:
    letters = random.Random(5)
    titles = ["".join(letters.choices(string.ascii_letters + " é한", k=12)) for _ in range(20_000)]
    before = {title: split_of(title) for title in titles}
    count = Counter(before.values())
    for split, share in zip(SPLITS, (0.90, 0.05, 0.05), strict=True):
        sigma = (len(before) * share * (1 - share)) ** 0.5
        assert abs(count[split] - len(before) * share) < 5 * sigma, (split, count)
    letters.shuffle(titles)
    for other in range(1000):
        split_of(f"a new document {other}")
    assert {title: split_of(title) for title in reversed(titles)} == before


# --- Files --------------------------------------------------------------------------------------


def test_a_folder_is_read_in_a_fixed_order_one_document_a_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "folder.txt").mkdir()  # a folder by a strange name is no document
    for name in ("b.txt", "a.txt", "deep/c.txt", "no.md"):
        (tmp_path / name).write_text(f"This is {name}.", encoding="utf-8")
    documents = load_documents(str(tmp_path))
    assert [d.title for d in documents] == ["a", "b", "c"]
    assert {d.source for d in documents} == {tmp_path.name}
    assert documents[2].text == "This is deep/c.txt."


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "bom.txt"
    file.write_bytes(b"\xef\xbb\xbfHello.")
    assert read_text(file) == "Hello."
    assert load_documents(str(file)) == [Document("bom", "bom.txt", "Hello.")]


def test_in_one_file_a_blank_line_ends_a_document(tmp_path: Path) -> None:
    file = tmp_path / "three.txt"
    file.write_bytes(b"\n\nOne.\nTwo.\n\nThree.\r\n \t\r\n\r\nFour.\n")
    documents = load_documents(str(file))
    assert [d.sentences() for d in documents] == [["One.", "Two."], ["Three."], ["Four."]]
    assert [d.title for d in documents] == ["three 1", "three 2", "three 3"]
    assert {d.source for d in documents} == {"three.txt"}
    (whole,) = load_documents(str(tmp_path))  # a file of a folder is one document
    assert whole.text == read_text(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty"),
        (b" \n\t ", "empty"),
        (b"\xef\xbb\xbf", "empty"),
        (b"text\0text", "NUL"),
        ("text".encode("utf-16"), "NUL"),
        ("caf\xe9".encode("latin-1"), "not UTF-8: byte 0xe9 at position 3"),
        (b"\xff\xfe\x41", "not UTF-8"),
    ],
)
def test_a_file_that_is_not_text_is_named_with_what_to_do(
    tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "odd.txt"
    file.write_bytes(content)
    for read in (lambda: read_text(file), lambda: load_documents(str(tmp_path))):
        with pytest.raises(CorpusError, match=message) as error:
            read()
        assert str(file) in str(error.value)


def test_a_huge_file_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "MAX_FILE_BYTES", 2**20)
    file = tmp_path / "huge.txt"
    file.write_bytes(b"a" * 2**20)
    assert len(read_text(file)) == 2**20
    file.write_bytes(b"a" * (2**21))
    monkeypatch.setattr(Path, "read_bytes", lambda self: pytest.fail("read a huge file"))
    with pytest.raises(CorpusError, match=r"2 MiB.*at most 1 MiB.*Cut it"):
        read_text(file)


def test_missing_and_unreadable_paths(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"'encyclopaedia' is neither a corpus.*encyclopedia"):
        load_documents("encyclopaedia")
    with pytest.raises(CorpusError, match=r"holds no \.txt file"):
        load_documents(str(tmp_path))
    with pytest.raises(CorpusError, match="cannot read"):
        read_text(tmp_path / "nothing.txt")
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match=r"cannot read .*gone\.txt"):
        load_documents(str(tmp_path))


# --- The real corpora ---------------------------------------------------------------------------


def fetched(name: str) -> bool:
    return find(name).path.is_file()


@pytest.mark.skipif(not fetched("encyclopedia"), reason="not fetched: run `make data`")
def test_the_encyclopedia_has_topics_and_enough_in_every_split() -> None:
    documents = load_documents("encyclopedia")
    assert len(documents) > 9_900
    assert len({d.title for d in documents}) == len(documents)
    topics = Counter(d.topic for d in documents)
    assert len(topics) == 12
    assert topics["Uncategorized"] < 1_100
    count = Counter(d.split for d in documents)
    assert 0.88 < count["train"] / len(documents) < 0.92
    assert min(count["dev"], count["test"]) > 400
    assert sum(d.description is not None for d in documents) > 8_000
    assert all(d.text.strip() for d in documents)
    sentences = [s for d in documents[::20] for s in d.sentences()]
    words = sum(len(s.split()) for s in sentences) / len(sentences)
    assert 17 < words < 26  # cut at every abbreviation it would be below, at none above
    ends = Counter(s.rstrip("\"'”’)]").rpartition(" ")[2] for s in sentences)
    assert ends["Mr."] == ends["Dr."] == ends["St."] == 0


@pytest.mark.skipif(not fetched("speeches"), reason="not fetched: run `make data`")
def test_the_speeches_are_in_every_split() -> None:
    documents = load_documents("speeches")
    assert len(documents) > 240
    assert {"1790-Washington-1", "1982-Reagan-1"} <= {d.title for d in documents}
    assert min(Counter(d.split for d in documents)[split] for split in SPLITS) > 3
    assert all(len(d.sentences()) > 20 for d in documents[::10])
    assert {d.topic for d in documents} == {None}
