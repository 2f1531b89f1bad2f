"""Toys and machine, as far as Python goes: what the page is given is the package's, errors clear.

What a page computes with it is tested in Chromium, in tests/browser.
"""

import base64
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from shown import FRESH, HUGS, LANGUAGE, TOYS, exact, in_a_folder, saved, tuned
from torch import Tensor

from bertedu.model.checkpoints import load_named
from bertedu.optimization import scheduled_rate
from bertedu.text.fast_tokenizer import load_vocabulary
from bertedu.text.tokenization import WordPiece, train_wordpiece
from course.workshop import machine, play
from course.workshop.machine import HERE, Machine, write_weights

__all__ = ["in_a_folder"]  # a fixture


def content(path: Path) -> tuple[str, Any, dict[str, Tensor]]:
    """The name, the description and the tensors that a script of weights sets."""
    found = re.fullmatch(
        r'\(globalThis\.bertWeights \?\?= \{\}\)\[(".*?")\] = (\{.*\});\n', path.read_text("utf-8")
    )
    assert found
    about = json.loads(found[2])
    numbers = torch.frombuffer(bytearray(base64.b64decode(about["base64"])), dtype=torch.float16)
    tensors = numbers.split([math.prod(shape) for _, *shape in about["shapes"]])
    named = zip(about["shapes"], tensors, strict=True)
    return json.loads(found[1]), about, {name: x.view(shape) for (name, *shape), x in named}


def test_the_weights_are_the_checkpoints_and_are_written_only_when_they_differ() -> None:
    checkpoint = saved(Path("a <b> & c"))
    path = write_weights(checkpoint, "new/folder")
    name, about, tensors = content(path)
    assert (name, about["vocab"]) == (checkpoint.name, load_vocabulary())
    model, _ = load_named(checkpoint)
    assert about["config"] == {
        "layers": 2,
        "heads": 2,
        "eps": model.config.layer_norm_eps,
        "direction": "bidirectional",
    }
    expected = model.state_dict()
    assert set(expected) - set(tensors) == {"mlm.decoder.weight"}  # which is the token table
    assert all(torch.equal(x, expected[name].half()) for name, x in tensors.items())
    before = path.stat().st_ino
    assert Machine(checkpoint, folder="new/folder").weights == path
    assert path.stat().st_ino == before
    path.write_text("half a file", encoding="utf-8")
    assert content(write_weights(checkpoint, "new/folder"))[0] == name


def test_a_machine_starts_where_it_is_told_and_tells_its_picture() -> None:
    shown = Machine(saved(Path("tiny")), "I ask the ___ now.")
    assert shown.data["text"] == "I ask the ___ now."
    assert "I ask the ___ now. Its vector of [MASK]" in repr(shown)
    assert "layer 1, head 1; its guesses for the blank" in repr(shown)
    assert "guesses" not in repr(Machine("tiny", "No blank here."))
    assert len(shown._repr_html_()) < 250_000  # a notebook stays below 2 MB: no weights in it


PAIR = "ltr-L4H128+rtl-L4H128"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Machine("elmo-L4H128"), r"elmo-L4H128 is a Elmo\w+, not a BERT with the head"),
        (lambda: write_weights(saved(Path("pre"), norm="pre")), "pre is pre-norm"),
        (lambda: Machine(saved(Path("tiny")), "word " * 40), "42 tokens, and a walk shows 32"),
        (lambda: write_weights(saved(Path("tiny"))), r"1\d\d,\d{3} parameters, .* holds 100,000"),
        (lambda: play.neighbors("unaffable"), "'unaffable' is no piece of the vocabulary"),
        (lambda: play.own_text(tuned(of=PAIR), "A river."), "one BERT .* no PairFeatures"),
        (lambda: play.own_text(tuned(), "A river.", "A lake."), "give one text"),
        (lambda: play.climb("bank", "A bank.", {"money": ["A bank."]}), "money: give two senses"),
        (lambda: play.three_readers("it was small", "he", [(1, 1), (2, 2), (4, 1)]),
         "'he' is no token of 'it was small'"),
    ],
)  # fmt: skip
def test_what_a_page_cannot_show_is_named_and_nothing_written(
    call: Callable[[], Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "parameters" in said:
        monkeypatch.setattr(machine, "MOST_PARAMETERS", 100_000)
    with pytest.raises(ValueError, match=said):
        call()
    assert not list(Path().glob("*.weights.js"))


def test_a_page_gets_the_parts_that_it_computes_with_and_no_more() -> None:
    play.neighbors()
    (file,) = Path().glob("*.js")
    assert {name.rpartition(".")[0] for name in content(file)[2]} == {
        f"bert.embeddings.{part}" for part in ("token", "segment", "position", "norm")
    }
    play.own_text(tuned(), "A river.", name="mine")
    names = set(content(Path("mine.weights.js"))[2])
    assert "head.classifier.bias" in names
    assert not [name for name in names if name.startswith(("mlm.", "encoder."))]


def test_still_texts_tell_what_the_package_computes() -> None:
    pieces = WordPiece(load_vocabulary()).tokenize("unaffable")
    lines = play.longest_match("unaffable").still.splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == pieces
    tries = ["unaffable"[:end] for end in range(9, len(pieces[0]), -1)]
    assert lines[0] == " ".join([*(f"{piece} no," for piece in tries), pieces[0]])
    once = HUGS | {"hubs": 1}  # its pairs are too rare
    _, merges = train_wordpiece(once, 10**6)
    stepped = play.merge_stepper(once).still.splitlines()
    assert [line.split()[-1] for line in stepped] == [merge.piece for merge in merges]
    assert "67% to ship, 9% to bridge, 24% to it" in TOYS["three_vectors"]().alt  # notebook 03
    rates = [float(line.split()[0]) for line in TOYS["warm_up"]().still.splitlines()]
    assert rates == [round(scheduled_rate(step, 200, 0.5, 0.1), 3) for step in range(0, 200, 20)]
    met = play.meet().data
    words = ["[CLS]", *met["text"].split(), "[SEP]"]
    assert [words[met[side]] for side in ("left", "at", "right")] == ["king", "ruled", "night"]
    told = [line.split() for line in TOYS["which_word"]().still.splitlines()]
    assert [line[:2] for line in told] == [["both", "sides"], ["left", "alone"], ["right", "alone"]]
    both, left, right = (float(line[-1]) for line in told)  # the share of "an"
    assert both > 0.5 > left, "what tells stands on the right"
    assert right > 0.5
    for text, words in (("no blank", ("a", "an")), ("a ___", ("a", "unaffable"))):
        with pytest.raises(ValueError, match="two word pieces"):
            play.which_word(text, words)
    limits = [f"{name} {limit:.3f}" for name, limit in exact().items()]
    assert TOYS["limits"]().still.split("\n") == limits
    assert play.layer_norm([1, 1, 4]).still.split()[2::3] == ["-0.71", "-0.71", "1.41"]


def test_the_page_writes_the_toy_language() -> None:
    """Its tables, put together again, give a sentence the probability that the package gives it."""
    language, toy = LANGUAGE, TOYS["limits"]().data
    start, after, emit = (
        [dict(map(tuple, row)) for row in toy[name]] for name in ("start", "next", "emit")
    )
    assert all(sum(row.values()) == pytest.approx(1) for row in (*start, *after, *emit))
    here, size = dict(start[0]), len(emit)
    for word in map(language.words.index, ("the", "old", "dog", "barked")):
        seen = {k: share * emit[k].get(word, 0) for k, share in here.items() if k < size}
        here = {}
        for k, share in seen.items():
            for to, chance in after[k].items():
                here[to] = here.get(to, 0) + share * chance
    exact = math.exp(language.log_probability(["the", "old", "dog", "barked"]))
    assert here[size] == pytest.approx(exact)
    assert toy["fresh"] == [[language.words.index(w) for w in s] for s in FRESH]


def test_the_lines_of_python_stand_in_the_package() -> None:
    """What a step of the machine shows as the package's code is the package's code."""
    steps = (HERE / "machine_steps.js").read_text(encoding="utf-8")
    names = dict(re.findall(r'([A-Z]+) = "(model/\w+\.py)"', steps))
    shown = re.findall(r"python: \[\s*([^\s,]+),\s*(.*?)\],\n", steps, re.DOTALL)
    assert len(shown) == steps.count("python:") == steps.count("title:") == 14
    for file, text in shown:
        path = HERE.parents[1] / "bertedu" / names.get(file, file.strip('"'))
        code = path.read_text(encoding="utf-8").splitlines()
        lines = [line.split("  #")[0].strip() for line in code]
        quoted = re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", text)
        assert quoted
        for pair in quoted:
            assert "".join(pair) in lines, f"{path.name} has no line {''.join(pair)!r}"
