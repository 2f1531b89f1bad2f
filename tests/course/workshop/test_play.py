"""Things to play with, as far as Python goes: safe HTML, true still texts, clear errors."""

import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

from bertedu.finetuning.encoders import load_encoder
from bertedu.finetuning.kinds import Classification
from bertedu.finetuning.saving import FineTuned
from bertedu.finetuning.training import TaskModel
from bertedu.model.optimization import scheduled_rate
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import WordPiece, train_wordpiece
from course.experiments.toy_language import ToyLanguage
from course.workshop import play
from course.workshop.play import TOYS, Playground

FRESH = [["the", "dog", "barked"], ["a", "cat", "slept"]]
EXACT = {"right only": 1.05, "both": 0.74, "left only": 1.2, "chance": 3.9}
BANKS = {"money": ["A bank lends money."], "river": ["The bank of a river.", "A steep bank."]}
HUGS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}


def tuned(encoder: str = "bert-L4H128") -> FineTuned:
    torch.manual_seed(0)
    below, tokenizer = load_encoder(encoder)
    model = TaskModel(below, Classification(("yes", "no"))).eval()
    return FineTuned(model, tokenizer, "topic", "classification", ("yes", "no"))


MADE: dict[str, Callable[[], Playground]] = {
    "longest_match": lambda: play.longest_match("things"),
    "merge_stepper": lambda: play.merge_stepper(HUGS),
    "three_vectors": lambda: play.three_vectors(["ship", "bridge", "it"], [[2, 0], [0, 2], [1, 0]]),
    "dice": lambda: play.dice("The happy dog barked."),
    "warm_up": play.warm_up,
    "plug": play.plug,
    "limits": lambda: play.limits(FRESH, EXACT),
    "layer_norm": lambda: play.layer_norm([1, 1, 4]),
    "two_boxes": lambda: play.two_boxes("The war ended.", "He signed a treaty."),
    "neighbors": play.neighbors,
    "meet": play.meet,
    "three_readers": lambda: play.three_readers("it was small", "it", [(1, 1), (2, 2), (4, 1)]),
    "climb": lambda: play.climb("bank", "The bank closed.", BANKS),
    "own_text": lambda: play.own_text(tuned(), "A river."),
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Toys that compute with a model write its weights."""
    monkeypatch.chdir(tmp_path)


class Reader(HTMLParser):
    """Texts by element; an element that is closed in the wrong order is an error."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.places: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.places += [str(value) for key, value in attrs if key in ("id", "data-play")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


def data_of(page: str) -> Any:
    found = re.search(r"\nconst data = (.*);\n", page)
    assert found
    return json.loads(found[1])


def test_every_script_has_a_function_that_fills_it() -> None:
    assert set(TOYS) == set(MADE)
    assert all(make().toy == name for name, make in MADE.items())


@pytest.mark.parametrize("name", MADE)
def test_the_page_holds_alt_text_still_text_and_data(name: str) -> None:
    toy = MADE[name]()
    page = toy._repr_html_()
    reader = Reader(page)
    assert repr(toy) == toy.alt == reader.texts["p"][0]
    assert "".join(reader.texts["pre"]) == toy.still
    assert data_of(page) == json.loads(json.dumps(toy.data))
    assert TOYS[name].read_text(encoding="utf-8") in page
    assert page == MADE[name]()._repr_html_()  # an output that differed would fail nbval


@pytest.mark.parametrize("path", [play.SHARED, *TOYS.values()], ids=lambda path: path.name)
def test_a_script_asks_nobody(path: Any) -> None:
    script = path.read_text(encoding="utf-8").replace("http://www.w3.org/", "")  # names of XML
    assert not re.search(
        r"https?:|\bfetch\b|\bimport\b|XMLHttp|WebSocket|innerHTML|\beval\b", script
    )


@pytest.mark.parametrize("name", MADE)
def test_no_name_is_given_twice_in_a_script(name: str) -> None:
    """Twice is a syntax error of the page: shared files and the toy's own are one script."""
    script = MADE[name]()._repr_html_().partition("<script")[2]
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names)), sorted(n for n in set(names) if names.count(n) > 1)


def test_what_a_reader_gives_is_escaped() -> None:
    evil = "</script><b>&"
    toy = Playground("dice", {"text": evil}, f"alt {evil}", f"still {evil}")
    page = toy._repr_html_()
    reader = Reader(page)
    assert page.count("</script>") == 1
    assert "<b>" not in page
    assert reader.texts["p"][0] == toy.alt
    assert reader.texts["pre"] == [toy.still]
    assert data_of(page) == {"text": evil}


def test_names_differ_with_toy_and_data_so_that_toys_on_one_page_do_not_mix() -> None:
    toys = [make() for make in MADE.values()] + [play.dice("Another one."), play.dice("The", 1)]
    names = [name for toy in toys for name in Reader(toy._repr_html_()).places]
    assert len(set(names)) == len(names) == len(toys)


def test_a_sense_without_two_sentences_is_refused() -> None:
    with pytest.raises(ValueError, match="money: give two senses"):
        play.climb("bank", "A bank.", {"money": ["A bank lends money."]})


def test_words_and_models_that_a_page_cannot_show_are_named() -> None:
    with pytest.raises(ValueError, match="'unaffable' is no piece of the vocabulary"):
        play.neighbors("unaffable")
    with pytest.raises(ValueError, match="one BERT with a new layer, no PairFeatures"):
        play.own_text(tuned("ltr-L4H128+rtl-L4H128"), "A river.")
    with pytest.raises(ValueError, match="give one text"):
        play.own_text(tuned(), "A river.", "A lake.")
    with pytest.raises(ValueError, match="'he' is no token of 'it was small'"):
        play.three_readers("it was small", "he", [(1, 1), (2, 2), (4, 1)])
    assert not list(Path().glob("*.weights.js")), "nothing is written before all is well"


def test_a_page_gets_the_parts_that_it_computes_with_and_no_more() -> None:
    play.neighbors()
    (file,) = Path().glob("*.js")
    shapes = json.loads(file.read_text("utf-8").partition("] = ")[2].rstrip(";\n"))["shapes"]
    assert len(shapes) == 5
    play.own_text(tuned(), "A river.", name="mine")
    text = Path("mine.weights.js").read_text("utf-8")
    assert "head.classifier.bias" in text
    assert "mlm." not in text
    page = MADE["own_text"]()._repr_html_()
    assert '<a hidden href="topic.weights.js"></a>' in page
    assert "function openBert" in page
    assert "function openBert" not in MADE["dice"]()._repr_html_()


def test_still_texts_tell_what_the_package_computes() -> None:
    pieces = WordPiece(load_vocabulary()).tokenize("unaffable")
    lines = play.longest_match("unaffable").still.splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == pieces
    assert lines[0].startswith("unaffable no, unaffabl no,")
    once = HUGS | {"hubs": 1}  # its pairs are too rare
    _, merges = train_wordpiece(once, 10**6)
    stepped = play.merge_stepper(once).still.splitlines()
    assert [line.split()[-1] for line in stepped] == [merge.piece for merge in merges]
    assert "67% to ship, 9% to bridge, 24% to it" in MADE["three_vectors"]().alt  # notebook 03
    rates = [float(line.split()[0]) for line in MADE["warm_up"]().still.splitlines()]
    assert rates == [round(scheduled_rate(step, 200, 0.5, 0.1), 3) for step in range(0, 200, 20)]
    met = play.meet().data
    words = ["[CLS]", *met["text"].split(), "[SEP]"]
    assert [words[met[side]] for side in ("left", "at", "right")] == ["king", "ruled", "night"]
    limits = MADE["limits"]().still
    assert limits.split("\n") == ["left only 1.200", "right only 1.050", "both 0.740"]
    assert MADE["layer_norm"]().still.split()[2::3] == ["-0.71", "-0.71", "1.41"]


def test_the_page_writes_the_toy_language() -> None:
    """Its tables, put together again, give a sentence the probability that the package gives it."""
    language, toy = ToyLanguage(), MADE["limits"]().data
    start, after, emit = (
        [dict(map(tuple, row)) for row in toy[name]] for name in ("start", "next", "emit")
    )
    size = len(emit)
    assert all(sum(row.values()) == pytest.approx(1) for row in (*start, *after, *emit))
    words = [language.words.index(word) for word in ("the", "old", "dog", "barked")]
    here = dict(start[0])
    for word in words:
        seen = {k: share * emit[k].get(word, 0) for k, share in here.items() if k < size}
        here = {}
        for k, share in seen.items():
            for to, chance in after[k].items():
                here[to] = here.get(to, 0) + share * chance
    exact = math.exp(language.log_probability(["the", "old", "dog", "barked"]))
    assert here[size] == pytest.approx(exact)
    assert toy["fresh"] == [[language.words.index(w) for w in s] for s in FRESH]
