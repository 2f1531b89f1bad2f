"""Blanks told by one side: found by counting, as many of either kind, and asked fairly."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_finetuning as tiny
import torch
from torch import Tensor
from typer.testing import CliRunner

from bertedu.cli import app
from bertedu.model.weight_files import CheckpointError
from bertedu.pretraining.counting import UnigramModel
from bertedu.pretraining.next_sentence import EncodedDocument
from bertedu.results.files import read_csv
from bertedu.studies import sides
from bertedu.studies.sides import (
    REACH,
    READERS,
    SEEN,
    Blank,
    CooccurrenceCounts,
    Reader,
    answer_blanks,
    compare_sides,
    find_blanks,
    held_out_blanks,
)
from bertedu.text.corpus import Document, load_documents
from bertedu.text.tokenization import CLS_ID, MASK_ID, SEP_ID, SPECIAL_TOKENS

SIZE = 60
DICE = np.random.default_rng(3)


def random_documents(count: int, seed: int = 0, size: int = SIZE) -> list[EncodedDocument]:
    dice = np.random.default_rng(seed)
    return [
        EncodedDocument("x", [dice.integers(5, size, dice.integers(1, 14)).tolist()] * 2)
        for _ in range(count)
    ]


# -- counting


def test_pairs_are_counted_in_order_within_reach_and_within_a_sentence() -> None:
    documents = random_documents(80, size=20)
    company = CooccurrenceCounts(documents, 20)
    counted: Counter[tuple[int, int]] = Counter()
    for document in documents:
        for sentence in document.sentences:
            for i, first in enumerate(sentence):
                for second in sentence[i + 1 : i + 1 + REACH]:
                    counted[first, second] += 1
    total = sum(counted.values())
    firsts, seconds = Counter[int](), Counter[int]()
    for (first, second), count in counted.items():
        firsts[first] += count
        seconds[second] += count
    pairs = [(a, b) for a in range(20) for b in range(20)]
    found = company.lift(*np.array(pairs).T)
    for (a, b), lift in zip(pairs, found, strict=True):
        often = counted[a, b] >= SEEN
        right = counted[a, b] * total / (firsts[a] * seconds[b]) if often else 1.0
        assert lift == pytest.approx(right)
    assert (found != 1).any()


# -- finding

# bark and purr tell; the, a and all are everywhere. "dog" and "cat" go before and after.
WORDS = [*SPECIAL_TOKENS, "the", "and", "all", "dog", "cat", "bark", "purr", "##s", "it", *"uvwxyz"]
ID = {word: i for i, word in enumerate(WORDS)}
COMMON = {ID["the"], ID["and"], ID["all"]}


def ids(text: str) -> list[int]:
    return [ID[word] for word in text.split()]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> CooccurrenceCounts:
    """A language in which "bark" gives "dog" away, on both sides, and "purr" gives "cat"."""
    monkeypatch.setattr(sides, "TELLING", 4.0)
    monkeypatch.setattr(sides, "SILENT", 1.5)
    filler = "the and all u v w x y z it".split()
    dice = np.random.default_rng(0)
    sentences = []
    for _ in range(400):
        noun, verb = (("dog", "bark"), ("cat", "purr"))[int(dice.integers(2))]
        words = [noun, verb] if dice.integers(2) else [verb, noun]
        for _ in range(12):
            words.insert(int(dice.integers(len(words) + 1)), str(dice.choice(filler)))
        sentences.append(ids(" ".join(words)))
    for _ in range(4000):  # most sentences are of neither
        sentences.append(ids(" ".join(dice.choice(filler, 14))))
    return CooccurrenceCounts([EncodedDocument("x", sentences)], len(WORDS))


def blanks_of(company: CooccurrenceCounts, *sentences: str) -> list[Blank]:
    documents = [EncodedDocument("x", [ids(s)]) for s in sentences]
    return find_blanks(documents, company, WORDS, COMMON)


@pytest.mark.parametrize(("often", "tells"), [(sides.SEEN - 1, False), (sides.SEEN, True)])
def test_a_pair_that_was_counted_too_rarely_tells_nothing(often: int, tells: bool) -> None:
    sentences = [ids("dog bark")] * often + [ids("the and")] * 100
    counts = CooccurrenceCounts([EncodedDocument("x", sentences)], len(WORDS))
    (lift,) = counts.lift(np.array([ID["dog"]]), np.array([ID["bark"]]))
    assert lift == pytest.approx((often + 100) / often if tells else 1.0)


LEFT, RIGHT = "the bark all and the dog it", "the dog and all it bark"


def test_the_kind_is_the_side_of_the_telling_word(told: CooccurrenceCounts) -> None:
    found = {(b.word, b.kind): b for b in blanks_of(told, LEFT, RIGHT) if b.word == ID["dog"]}
    assert found.keys() == {(ID["dog"], "left"), (ID["dog"], "right")}
    left, right = found[ID["dog"], "left"], found[ID["dog"], "right"]
    assert (left.document, left.place) == (0, 5)
    assert (right.document, right.place) == (1, 1)
    assert list(left.sentence) == ids(LEFT)


@pytest.mark.parametrize(
    ("spoiled", "why"),
    [
        ("the dog ##s and it bark", "the word goes on"),
        ("dog and the bark", "the sentence is too short"),
        ("the bark dog and it bark", "both sides tell"),
        ("the dog and all it purr", "the other word tells of another"),
        ("the dog " + "and all " * 5 + "it bark", "it is too far away"),
        ("bark " + "and all " * 5 + "dog it", "it is too far away"),
        ("the dog and dog it bark", "a word does not tell of itself"),
    ],
)
def test_what_is_no_such_blank_is_left_out(
    told: CooccurrenceCounts, spoiled: str, why: str
) -> None:
    for many in ((1, 4), (4, 1)):  # so that one more of the rarer kind would be chosen
        blanks = blanks_of(told, *[LEFT] * many[0], *[RIGHT] * many[1], spoiled)
        dogs = [b for b in blanks if b.word == ID["dog"]]
        assert len(dogs) == 2, why
        assert spoiled not in [" ".join(WORDS[i] for i in b.sentence) for b in dogs], why


def test_frequent_words_and_short_ones_are_never_hidden(told: CooccurrenceCounts) -> None:
    found = blanks_of(told, LEFT, RIGHT)
    assert {WORDS[b.word] for b in found} <= {"dog", "bark"}
    hidden = find_blanks(
        [EncodedDocument("x", [ids(s)]) for s in (LEFT, RIGHT)], told, WORDS, COMMON | {ID["dog"]}
    )
    assert {WORDS[b.word] for b in hidden} == {"bark"}


def test_both_kinds_hide_the_same_words_equally_often(told: CooccurrenceCounts) -> None:
    found = blanks_of(told, *[LEFT] * 9, *[RIGHT] * 3, "the bark cat and all it dog")
    many = Counter((b.word, b.kind) for b in found)
    assert many[ID["dog"], "left"] == many[ID["dog"], "right"] == 3
    assert many[ID["bark"], "left"] == many[ID["bark"], "right"] == 3
    found = blanks_of(told, *[LEFT] * 9, *[RIGHT] * 8)
    assert Counter((b.word, b.kind) for b in found)[ID["dog"], "left"] == sides.PER_WORD
    assert blanks_of(told, *[LEFT] * 9) == []
    assert blanks_of(told, *[LEFT] * 9, *[RIGHT] * 8) == found, "chosen otherwise the second time"


# -- asking


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    house = tmp_path_factory.mktemp("models")
    return {
        "bert": str(tiny.save_bert(house / "bert")),
        "ltr": str(tiny.save_bert(house / "ltr", "left-to-right", 2)),
        "rtl": str(tiny.save_bert(house / "rtl", "right-to-left", 3)),
        "elmo": str(tiny.save_elmo(house / "elmo", 4)),
    }


@pytest.fixture(scope="module")
def unigram() -> UnigramModel:
    return UnigramModel(random_documents(300, 1, len(tiny.VOCABULARY)), len(tiny.VOCABULARY))


def reader_of(models: dict[str, str], name: str, unigram: UnigramModel) -> Reader:
    for short in sorted(models, key=len, reverse=True):
        name = name.replace(short, models[short])
    return Reader(name, unigram)


def at_blank(reader: Reader, sentence: Tensor, place: int) -> Tensor:
    blank = torch.zeros_like(sentence, dtype=torch.bool)
    blank[place] = True
    return reader.log_chances(sentence.masked_fill(blank, MASK_ID)[None], blank[None])[0]


SEES = {
    "bert": "both",
    "ltr": "left",
    "rtl": "right",
    "ltr+rtl": "both",
    "elmo": "both",
    "elmo:left": "left",
    "elmo:right": "right",
}


@pytest.mark.parametrize("name", SEES)
def test_a_reader_sees_its_side_and_never_the_hidden_word(
    name: str, models: dict[str, str], unigram: UnigramModel
) -> None:
    reader = reader_of(models, name, unigram)
    sentence = torch.tensor([CLS_ID, *range(300, 312), SEP_ID])
    before = at_blank(reader, sentence, 6)
    assert before.exp().sum().item() == pytest.approx(1, abs=1e-5)
    for place in range(1, 13):
        changed = sentence.clone()
        changed[place] = 777
        moved = not torch.allclose(at_blank(reader, changed, 6), before, atol=1e-5)
        side = "left" if place < 6 else "right"
        assert moved == (place != 6 and SEES[name] in ("both", side)), place


def test_a_pair_multiplies_and_divides_by_the_share_of_the_word(
    models: dict[str, str], unigram: UnigramModel
) -> None:
    sentence = torch.tensor([CLS_ID, *range(300, 312), SEP_ID])
    left, right, pair = (
        at_blank(reader_of(models, name, unigram), sentence, 4)
        for name in ("ltr", "rtl", "ltr+rtl")
    )
    joined = (left + right - unigram.log_share).log_softmax(-1)
    assert torch.allclose(pair, joined, atol=1e-4)
    assert not torch.allclose(pair, (left + right).log_softmax(-1), atol=1e-2)


def test_blanks_of_many_lengths_are_answered_in_their_order(
    models: dict[str, str], unigram: UnigramModel
) -> None:
    reader = reader_of(models, "bert", unigram)
    blanks = []
    for number in range(25):
        sentence = DICE.integers(10, 8000, DICE.integers(6, 12)).tolist()
        place = int(DICE.integers(len(sentence)))
        blanks.append(Blank(tuple(sentence), place, number, "left"))
    loss, right = answer_blanks(reader, blanks, "")
    for i, blank in enumerate(blanks):
        scores = at_blank(reader, torch.tensor([CLS_ID, *blank.sentence, SEP_ID]), blank.place + 1)
        assert loss[i] == pytest.approx(-scores[blank.word].item(), abs=1e-4)
        assert right[i] == (scores.argmax() == blank.word)


def test_parts_that_do_not_fit_are_refused(
    models: dict[str, str], unigram: UnigramModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rtl+ltr", "ltr+ltr", "bert+rtl", "elmo+rtl", "ltr+rtl+rtl"):
        with pytest.raises(ValueError, match="join a left-to-right model and a right-to-left one"):
            reader_of(models, name, unigram)
    for name in ("bert:left", "ltr+rtl:left", "elmo:lefft", "elmo:both"):
        with pytest.raises(ValueError, match="only an ELMo has halves, left and right"):
            reader_of(models, name, unigram)
    with pytest.raises(CheckpointError, match="no checkpoint 'nowhere'"):
        Reader("nowhere", unigram)
    sentence = torch.tensor([[CLS_ID, 300, MASK_ID, SEP_ID]])
    monkeypatch.setattr(sides, "find_model", lambda name: SimpleNamespace(model=name))
    with pytest.raises(ValueError, match="an encoder alone"):
        reader_of(models, "alone", unigram)
    monkeypatch.undo()
    half = reader_of(models, "elmo:left", unigram)
    assert half.log_chances(sentence, sentence == MASK_ID).shape == (1, len(tiny.VOCABULARY))


# -- the table


class Knows:
    """A reader that knows the words of one kind of blank, and nothing of the other."""

    def __init__(self, kind: str, _: object) -> None:
        self.kind = kind

    def log_chances(self, ids: Tensor, blank: Tensor) -> Tensor:
        raise AssertionError


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[Blank]:
    def answers(reader: Any, blanks: list[Blank], name: str) -> Any:
        right = np.array([float(b.kind == reader.kind or reader.kind == "all") for b in blanks])
        return 5 - 4 * right, right

    monkeypatch.setattr(sides, "Reader", Knows)
    monkeypatch.setattr(sides, "answer_blanks", answers)
    return [
        Blank((9, 10, 11), n % 3, n // 4, kind) for n in range(80) for kind in ("left", "right")
    ]


def test_shares_and_differences_come_out_by_kind(
    planted: list[Blank], unigram: UnigramModel
) -> None:
    readers = {"whole": "all", "half": "left"}
    rows = compare_sides(readers, planted, unigram)
    by = {(r["reader"], r["telling_word"]): r for r in rows}
    assert len(by) == len(rows) == 2 * 3
    assert all(row["blanks"] == 80 for row in rows)
    assert [by["whole", kind]["accuracy"] for kind in ("left", "right")] == [1, 1]
    assert [by["half", kind]["accuracy"] for kind in ("left", "right")] == [1, 0]
    assert [by["half", kind]["loss"] for kind in ("left", "right")] == [1, 5]
    low, high = (by["half", "left"][f"minus_first_{end}"] for end in ("low", "high"))
    assert float(str(low)) <= 0 <= float(str(high))
    assert float(str(by["half", "right"]["minus_first_high"])) < 0
    assert by["half", "right"]["minus_first"] == -1
    assert "minus_first" not in by["whole", "left"]
    expected = -float(unigram.log_share[[9, 10, 11]].mean())
    assert by["word frequencies", "left"]["loss"] == pytest.approx(expected, abs=0.01)
    often = max((9, 10, 11), key=lambda word: float(unigram.log_share[word]))
    share = np.mean([b.word == often for b in planted])
    assert by["word frequencies", "left"]["accuracy"] == pytest.approx(share, abs=1e-4)
    assert 0.2 < share < 0.5
    with pytest.raises(ValueError, match="no blanks"):
        compare_sides(readers, [], unigram)


def test_documents_are_drawn_whole(unigram: UnigramModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty blanks of one document are one piece of luck, not twenty."""
    monkeypatch.setattr(sides, "Reader", Knows)
    right = np.repeat(DICE.integers(0, 2, 30), 20).astype(float)

    def width(documents: list[int]) -> float:
        blanks = [Blank((9, 10), 0, d, "left") for d in documents]
        blanks += [Blank((9, 10), 0, 0, "right")]
        monkeypatch.setattr(
            sides, "answer_blanks", lambda *_: (np.zeros(601), np.append(right, 1.0))
        )
        row = compare_sides({"x": "all"}, blanks, unigram)[0]
        return float(str(row["accuracy_high"])) - float(str(row["accuracy_low"]))

    assert width([n // 20 for n in range(600)]) > 3 * width(list(range(600)))


def test_the_command_writes_the_table(
    models: dict[str, str],
    unigram: UnigramModel,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    documents = {
        split: random_documents(60, seed, 120) for seed, split in enumerate(("train", "dev"))
    }
    # one sentence, told from the right, and its mirror image
    planted = [[6000, *range(40, 46), 7000], [7000, *range(40, 46), 6000]]
    documents["train"] += [EncodedDocument("x", planted) for _ in range(20)]
    documents["dev"] += [EncodedDocument("x", [s]) for s in planted]
    monkeypatch.setattr(sides, "load_splits", lambda say: documents)
    monkeypatch.setattr(sides, "load_vocabulary", lambda: ["word"] * len(tiny.VOCABULARY))
    monkeypatch.setattr(sides, "COMMON", 0)
    monkeypatch.setattr(sides, "TELLING", 3.0)
    given: dict[str, Any] = {}

    class Spied(CooccurrenceCounts):
        def __init__(self, some: Any, size: int) -> None:
            given["counted"] = some
            super().__init__(some, size)

    def spied(some: Any, *more: Any) -> list[Blank]:
        given["asked"] = some
        return find_blanks(some, *more)

    monkeypatch.setattr(sides, "CooccurrenceCounts", Spied)
    monkeypatch.setattr(sides, "find_blanks", spied)
    readers = {"BERT": models["bert"], "pair": f"{models['ltr']}+{models['rtl']}"}
    monkeypatch.setattr(sides, "READERS", readers)
    out = tmp_path / "sides.csv"
    result = CliRunner().invoke(app, ["sides", "--split", "dev", "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = read_csv(out)
    assert [row["reader"] for row in rows[:3]] == ["BERT", "pair", "word frequencies"]
    assert {row["telling_word"] for row in rows} == {"left", "right"}
    assert given == {"counted": documents["train"], "asked": documents["dev"]}
    result = CliRunner().invoke(app, ["sides", "--split", "train"])
    assert result.exit_code == 1
    assert "no held-out split 'train'" in result.output


def test_the_table_of_readers_covers_every_variant() -> None:
    models = {part.partition(":")[0] for name in READERS.values() for part in name.split("+")}
    assert models == {f"{v}-L4H128" for v in ("bert", "no-nsp", "ltr", "rtl", "elmo")}
    assert next(iter(READERS)) == "BERT"


def test_a_long_document_does_not_outweigh_all(
    told: CooccurrenceCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "PER_DOCUMENT", 3)
    monkeypatch.setattr(sides, "PER_WORD", 100)
    speech = EncodedDocument("x", [ids(s) for s in (LEFT, RIGHT)] * 50)
    short = [EncodedDocument("x", [ids(s)]) for s in (LEFT, RIGHT)] * 5
    found = Counter(b.document for b in find_blanks([speech, *short], told, WORDS, COMMON))
    assert 0 < found[0] <= 3
    assert len(found) > 5


@pytest.mark.parametrize(
    ("one_in", "enough"), [(3, 50), pytest.param(1, 400, marks=pytest.mark.nightly)]
)
def test_real_blanks_are_matched_and_from_many_documents(
    one_in: int, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All documents by night, else one in three."""

    def some(name: str) -> list[Document]:
        return load_documents(name)[::one_in]

    monkeypatch.setattr("bertedu.pretraining.texts.load_documents", some)
    blanks, unigram = held_out_blanks("dev")
    many = Counter((b.word, b.kind) for b in blanks)
    assert len(blanks) > enough
    assert max(Counter(b.document for b in blanks).values()) <= sides.PER_DOCUMENT
    assert all(many[word, "left"] == many[word, "right"] for word, _ in many)
    common = set(unigram.log_share.topk(sides.COMMON).indices.tolist())
    assert not {b.word for b in blanks} & common
