"""Documents, sentences, the split, and files that cannot be used."""

import string
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertedu.text import corpus
from bertedu.text.corpus import CorpusError, Document, load_documents, split_sentences
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


LONG = "They " + "walked on and on " * 12 + "until night."


@pytest.mark.parametrize("marked", PARAGRAPHS)
def test_sentences_start_where_a_reader_would_start_them(marked: str) -> None:
    assert split_sentences(marked.replace(" | ", " ")) == marked.split(" | ")
    if marked[0].isupper() and marked[-1] in ".?!":  # so, too, far behind the start of a paragraph
        text = f"{LONG} {marked.replace(' | ', ' ')} {LONG}"
        assert split_sentences(text) == [LONG, *marked.split(" | "), LONG]


SNIPPETS = 'Mr.|U.S.|No.|5|A.|e.g.|he|The|"|).|?!|...|…|”|(|3.14|I.|é|Ünde.|- |.| '.split("|")
SNIPPETS += ["\t", "\u2003", "\x1f"]  # all of them spaces to Python
UGLY = st.lists(st.one_of(st.sampled_from(SNIPPETS), st.text(max_size=8))).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(UGLY, st.text(string.ascii_letters + " .!?\"')(…0123456789\n")))
@example("")
@example(" \t\n  \u00a0 ")
def test_nothing_is_lost_and_no_sentence_is_empty_or_padded(text: str) -> None:
    document = Document("t", "s", text)
    assert [" ".join(line.split()) for line in text.splitlines() if line.strip()] == (
        document.paragraphs()
    )
    cut = [split_sentences(paragraph) for paragraph in document.paragraphs()]
    assert [" ".join(sentences) for sentences in cut] == document.paragraphs()
    assert document.sentences() == [sentence for sentences in cut for sentence in sentences]
    assert all(sentence and sentence == sentence.strip() for sentence in document.sentences())
    assert " ".join(split_sentences(text)) == " ".join(text.split())


@pytest.mark.parametrize(
    "text",
    [
        "Abc c. " * 30_000,
        "." * 200_000 + "x",
        "a" * 200_000 + ". B",
        "He ran. " * 30_000,
        ")" * 100_000 + '. "' + '"' * 100_000,
    ],
)
def test_a_book_on_one_line_takes_no_hours(text: str) -> None:
    began = time.process_time()
    assert " ".join(split_sentences(text)) == text.strip()
    assert time.process_time() - began < 5


# --- Files --------------------------------------------------------------------------------------


def test_a_folder_is_read_in_a_fixed_order_one_document_a_file(tmp_path: Path) -> None:
    (tmp_path / "deep" / ".ipynb_checkpoints").mkdir(parents=True)
    (tmp_path / "folder.txt").mkdir()  # a folder by a strange name is no document
    for name in ("b.TXT", "a.txt", "deep/c.txt", "no.md", "deep/.ipynb_checkpoints/c-c.txt"):
        (tmp_path / name).write_text(f"This is\n\n{name}.", encoding="utf-8")
    documents = load_documents(str(tmp_path))
    assert [d.title for d in documents] == ["a", "b", "c"]
    assert {d.source for d in documents} == {tmp_path.name}
    assert documents[2].text == "This is\n\ndeep/c.txt."


def test_in_one_file_a_blank_line_ends_a_document(tmp_path: Path) -> None:
    file = tmp_path / "three.txt"
    file.write_bytes(b"\xef\xbb\xbf \n\nOne.\nTwo.\n\nThree.\r\n \t\r\n\r\nFour.\n")
    documents = load_documents(str(file))
    assert [d.sentences() for d in documents] == [["One.", "Two."], ["Three."], ["Four."]]
    assert [d.title for d in documents] == ["three 1", "three 2", "three 3"]
    assert {d.source for d in documents} == {"three.txt"}
    file.write_bytes(b"\xef\xbb\xbfHello.")  # a byte order mark is no part of the text
    assert load_documents(str(file)) == [Document("three", "three.txt", "Hello.")]


# bytes of a file (None: there is none; a path: a link to it), and what the error says of it
BAD: list[tuple[bytes | str | None, str]] = [
    (b"", "empty"),
    (b" \n\t ", "empty"),
    (b"\xef\xbb\xbf", "empty"),
    (b"text\0text", "NUL"),
    ("text".encode("utf-16"), "NUL"),
    ("caf\xe9".encode("latin-1"), "not UTF-8: byte 0xe9 at position 3"),
    (b"\xff\xfe\x41", "not UTF-8"),
    (b"a" * 101, "0 MiB; a document may have at most 0 MiB. Cut it"),
    ("nowhere", "cannot read"),
    (None, r"holds no \.txt file"),
]


@pytest.mark.parametrize(("content", "message"), BAD)
def test_a_file_that_is_not_text_is_named_with_what_to_do(
    tmp_path: Path, content: bytes | str | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "MAX_FILE_BYTES", 100)
    file = tmp_path / "odd.txt"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content:
        file.symlink_to(tmp_path / content)
    with pytest.raises(CorpusError, match=message) as error:
        load_documents(str(tmp_path))
    assert str(file if content is not None else tmp_path) in str(error.value)
    if content is None:
        with pytest.raises(CorpusError, match=r"neither a corpus \(encyclopedia"):
            load_documents(str(file))
    file.unlink(missing_ok=True)
    file.write_bytes(b"a" * 100)
    assert load_documents(str(tmp_path))[0].text == "a" * 100


# --- The real corpora ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least", "held_out"), [("encyclopedia", 9_900, 400), ("speeches", 240, 3)]
)
def test_a_corpus_has_enough_in_every_split(name: str, least: int, held_out: int) -> None:
    if not find(name).path.is_file():
        pytest.skip("not fetched: run `make data`")
    documents = load_documents(name)
    assert len({d.title for d in documents}) == len(documents) > least
    count = Counter(d.split for d in documents)
    assert 0.87 < count["train"] / len(documents) < 0.92
    assert min(count["dev"], count["test"]) > held_out
    assert all(d.source == name and d.sentences() for d in documents[::20])
    topics, described = Counter(d.topic for d in documents), [d.description for d in documents]
    if name == "encyclopedia":
        assert len(topics) == 12
        assert topics["Uncategorized"] < 1_100
        assert 8_000 < len(described) - described.count(None) < len(documents)
    else:
        assert {"1790-Washington-1", "1982-Reagan-1"} <= {d.title for d in documents}
        assert set(topics) == set(described) == {None}
