"""What you write is what runs: a function that passes its check becomes a part of your BERT.

Once imported, it keeps what passes, as text, one file per part: in `my_bert/` at the top of the
clone, or where the environment variable BERTEDU_MY_BERT says. A new kernel runs it after `load()`.
"""

import __future__

import ast
import importlib
import inspect
import math
import re
import textwrap
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import bertedu
from bertedu.files import write_atomically
from bertedu.model.bert import Bert, BertForPreTraining
from bertedu.model.checkpoints import hugging_face_name
from bertedu.model.config import BertConfig
from bertedu.pretraining import next_sentence
from bertedu.text import tokenization
from course.exercises.encoder import Parts
from course.exercises.hints import folder
from course.exercises.judge import (
    KEEPERS,
    KNOWN,
    Exercise,
    Function,
    call_all,
    judge,
    report,
    undisturbed,
    whose,
)
from course.exercises.patch import source_of
from course.workshop.assembly import Ideas, MyBert, Rows, in_rows
from course.workshop.board import Board

__all__ = ["IDEAS", "PARTS", "Ideas", "Rows", "board", "build", "folder", "load", "part", "parts"]

PARTS = {  # by notebook, which is also the name of the file of its exercises
    "01 tokenization": "cut_word encode_pair",
    "02 embeddings": "input_sum layer_norm",
    "03 self attention": "multi_head",
    "04 encoder": "feed_forward post_norm_layer encoder_layer stack pooler our_name load",
    "05 masked language model": "masking mlm_loss",
    "06 next sentence prediction": "pair nsp_loss",
    "07 pretraining": "learning_rate clip adamw",
}
IDEAS = {  # not needed for a BERT; `build` and `MyBert.write` switch them on
    "17 after bert question": "next_token",
    "18 after bert machine": "window_mask rotate",
}
for _notebook in PARTS | IDEAS:
    importlib.import_module(f"course.exercises.{_notebook[3:].replace(' ', '_')}")
EXERCISES: dict[str, Exercise] = {n: KNOWN[n] for some in PARTS.values() for n in some.split()}
SWITCHED: dict[str, Exercise] = {n: KNOWN[n] for some in IDEAS.values() for n in some.split()}
KEPT = EXERCISES | SWITCHED
OURS: dict[str, Function] = {name: one.right for name, one in KEPT.items()}

# what the text of a part may use without more ado: torch's usual names, MASK_ID and its like
TOOLS = {"torch": torch, "nn": nn, "F": F, "Tensor": Tensor, "math": math, "sqrt": math.sqrt}
TOOLS |= {n: v for n, v in {**vars(tokenization), **vars(next_sentence)}.items() if n.isupper()}


class UnusableError(Exception):
    """A part that cannot be kept, or not be used. The message says why."""


class Part(NamedTuple):
    """A function of the learner's (ours if there is none), and why a BERT cannot use it, if so."""

    function: Function
    trouble: str = ""


_passed: dict[str, Part] = {}  # checked, or loaded, in this session


def _file(name: str) -> Path:
    return folder() / f"{name}.py"


# -- keeping


def _keep(exercise: Exercise, function: Function) -> str:
    """Keep what has passed its check, if it is a part; return what to add to the verdict."""
    name = exercise.name
    if KEPT.get(name) is not exercise:
        return ""
    try:
        text = _standing_alone(exercise, inspect.unwrap(function))
        _passed[name] = _whole_part(name, _made(text))
        write_atomically(_file(name), f"{_head(exercise)}\n{text}\n")
    except Exception as error:  # no check fails for it
        return f"\n{textwrap.indent(report(f'not kept: {error}'), '  ')}"
    kept = sum(one in _passed or _file(one).is_file() for one in EXERCISES)
    said = report(f"kept: {kept} of {len(EXERCISES)} parts of your BERT")
    if name in SWITCHED:
        said = report("kept: an idea that your BERT can switch on.")
    if trouble := _passed[name].trouble:
        said += "\n" + report(f"But your BERT cannot use it yet: {trouble}")
    return f"\n{textwrap.indent(said, '  ')}"


KEEPERS.append(_keep)


def _head(exercise: Exercise) -> str:
    version = f"{zlib.crc32(exercise.asks.encode()):08x}"
    return f"# {exercise.name}, kept {date.today()}, exercise {version}"


def _standing_alone(exercise: Exercise, function: Function) -> str:
    """Return a text that passes the check in a fresh kernel: the function, and helpers it calls."""
    text = _text(function, exercise)
    while missing := _missing(text, exercise):
        value = getattr(function, "__globals__", {}).get(missing)
        home, brought = inspect.getmodule(value), ""
        if inspect.ismodule(value):
            brought = f"import {value.__name__} as {missing}"
        elif home and home.__name__ != "__main__" and vars(home).get(missing) is value:
            brought = f"from {home.__name__} import {missing}"
        elif inspect.isfunction(value):
            brought = _text(value, exercise)
        if not brought or brought in text:
            name = f"my_{exercise.name}"
            said = f"{name} uses `{missing}`, which is defined outside the function: put it inside."
            raise UnusableError(said)
        text = f"{brought}\n\n\n{text}"
    if not judge(exercise, _made(text)).startswith("✓"):
        raise UnusableError("run alone, it gives other answers. Does it use a global variable?")
    return text


def _text(function: Function, exercise: Exercise) -> str:
    try:
        text = source_of(function)
        if [type(statement) for statement in ast.parse(text).body] == [ast.FunctionDef]:
            return text
    except (OSError, TypeError, SyntaxError):
        pass
    begin = f"def my_{exercise.name}({', '.join(exercise.arguments)}):"
    raise UnusableError(f"its text cannot be read. Write it in a cell, beginning with {begin}")


def _missing(text: str, exercise: Exercise) -> str:
    """Return the first name that a text needs and does not have."""
    try:
        outcomes = call_all(exercise, _made(text), list(exercise.cases()))
    except NameError as error:  # in a default value, or a decorator
        return error.name or ""
    return next((o.error.name or "" for o in outcomes if isinstance(o.error, NameError)), "")


def _made(text: str) -> Function:
    """Run the text of a part, and return its last function."""
    names = [one.name for one in ast.parse(text).body if isinstance(one, ast.FunctionDef)]
    if not names:
        raise UnusableError("its file holds no function.")
    scope: dict[str, Any] = dict(TOOLS)
    no_hints = __future__.annotations.compiler_flag  # what stands behind -> need not be known
    with undisturbed(seed=0):
        exec(compile(text, "<my_bert>", "exec", no_hints, dont_inherit=True), scope)
    made: Function = scope[names[-1]]
    return made


# -- loading


def load() -> None:
    """Run the parts that are kept, check each again, and say what is there."""
    for name, exercise in KEPT.items():
        if _file(name).is_file():
            try:
                _passed[name] = _whole_part(name, _read(exercise))
            except UnusableError as error:
                _passed[name] = Part(OURS[name], str(error))
                print(report(f"✗ {name}: {error} Ours is used; check.{name} keeps a new one."))
    print(board().headline)


def _read(exercise: Exercise) -> Function:
    try:
        text = _file(exercise.name).read_text(encoding="utf-8")
        function = _made(text)
    except UnusableError:
        raise
    except SyntaxError as error:
        raise UnusableError(
            f"line {error.lineno} of its file is not Python ({error.msg})."
        ) from None
    except (Exception, SystemExit) as error:
        raise UnusableError(f"its file stops with {_named(error)}.") from None
    if judge(exercise, function).startswith("✓"):
        return function
    first, version = text.split("\n")[0], _head(exercise).split(", ")[-1]
    if ", exercise " in first and version not in first:
        raise UnusableError("kept for another version of the exercise, it does not pass this one.")
    raise UnusableError("what is in its file does not pass the check anymore.")


def _named(error: BaseException) -> str:
    said = re.sub(r"0x[0-9a-f]+", "0x…", (str(error).splitlines() or [""])[0])[:120].rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


# -- does the whole still work with one part exchanged?

STAGES = (
    *("the weights of a file", "the ids of a text", "the pairs", "the states", "the scores"),
    *("the loss", "the gradients", "the weights after two steps", "what came after BERT"),
)


def _whole(parts: Mapping[str, Function]) -> Iterator[Sequence[Tensor]]:
    """Let a tiny BERT with these parts do all that it can; yield what comes out, by stage."""
    torch.manual_seed(0)
    vocab = [*tokenization.SPECIAL_TOKENS, *"abcdefgh", *("##" + c for c in "abcdefgh")]
    config = BertConfig(len(vocab), 8, 2, 2, 16, 12, dropout=0.0, initializer_range=0.5)
    bert = MyBert(BertForPreTraining(config), vocab, parts)
    with torch.no_grad():
        for weight in bert.w.values():  # no bias is 0 and no scale is 1, as after training
            weight.add_(torch.randn_like(weight), alpha=0.3)
    encoder = {n: 1.1 * w for n, w in bert.w.items() if not n.startswith(("mlm", "nsp"))}
    bert.read({hugging_face_name(name): tensor.detach() for name, tensor in encoder.items()})
    yield [weight.detach().clone() for weight in bert.w.values()]
    yield [*bert.encode("abc, ___ de", "fg a"), *bert.encode("Ha!")]
    sentences = [[5 + (3 * i + j) % 16 for j in range(2 + i % 3)] for i in range(12)]
    documents = [next_sentence.EncodedDocument("a", sentences[i : i + 6]) for i in (0, 6)]
    rows = bert.make_pairs(documents, 12, 8)
    yield [one for one in rows if one is not None]
    real = rows.ids != tokenization.PAD_ID
    yield bert.states(rows.ids, rows.segment_ids, real)
    yield bert(rows.ids, rows.segment_ids, real)
    loss = bert.loss(rows, 0.3, torch.Generator().manual_seed(0))
    yield [loss]
    yield torch.autograd.grad(loss, [*bert.w.values()], materialize_grads=True)
    for step in (0, 3):  # no dice: a part may have thrown some, and a right one thrown none
        gradients = [torch.sin(9 * weight.detach()) for weight in bert.w.values()]
        bert.update(gradients, bert.part.learning_rate(step, 10, 2, 0.1))
    yield [*bert.w.values()]
    bert.ideas = Ideas(rotary=True, window=2, global_tokens=1)
    chances = bert.part.next_token(torch.arange(4.0), 0.5, 2)
    yield [*bert.states(rows.ids, rows.segment_ids, real), chances]


@cache
def _right_whole() -> list[Sequence[Tensor]]:
    return [*_whole(OURS)]


def _whole_part(name: str, function: Function) -> Part:
    """Exchange one of our parts for this function, and see what goes wrong."""
    leaves = " Does it leave torch (.item(), .tolist(), NumPy)? No gradient comes back."
    with undisturbed(seed=0):
        mine = _whole(OURS | {name: function})
        for stage, right in zip(STAGES, _right_whole(), strict=True):
            said = f"with it, {stage} are not what they are with ours."
            try:
                pairs = zip(next(mine), right, strict=True)
                if all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in pairs):
                    continue
            except (Exception, SystemExit) as error:
                said = f"with it, {stage} cannot be computed ({_named(error)})."
            return Part(function, said + leaves * ("gradients" in stage and "inplace" not in said))
    return Part(function)


# -- using


def _usable() -> dict[str, Function]:
    return {n: _passed[n].function for n in KEPT if n in _passed and not _passed[n].trouble}


def part(name: str) -> Function:
    """Return your part of this name if it can be used, else ours, and say which."""
    yours = _usable()
    print(whose(name, name in yours))
    return yours.get(name, OURS[name])


def parts(*names: str) -> Parts:
    """Return your parts of these names, as functions of rows and of batches; say which they are."""
    rows = {"layer_norm", "feed_forward"}
    found = {name: part(name) for name in names}
    return Parts(**{name: in_rows(f) if name in rows else f for name, f in found.items()})


def build(
    source: str | Path | Bert | BertForPreTraining = "bert-mini",
    vocab: Sequence[str] = (),
    ideas: Ideas | None = None,
) -> MyBert:
    """Put a BERT together of your parts, and of ours where you have none; say which are yours.

    ``source`` has sizes and weights: a name that `bertedu.load` takes, or a model, then with all
    its tokens in the order of their ids. ``ideas`` of notebooks 17 and 18 are switched on. Raises
    what `bertedu.load` does, and ValueError for what these parts do not make (ELMo, pre-norm).
    """
    model: Any = source
    if isinstance(source, str | Path):
        model, tokenizer = bertedu.load(source)
        vocab = sorted(ids := tokenizer.get_vocab(), key=ids.__getitem__)
    usable, every = _usable(), len(EXERCISES)
    yours = [name for name in usable if name in EXERCISES]
    said = f"{len(yours)} of its {every} parts {'is' if len(yours) == 1 else 'are'} yours: "
    said += f"{', '.join(yours)}. The rest are ours."
    if len(yours) in (0, every):
        none = f"Its {every} parts are still the course's; each one you solve becomes your own."
        said = f"All {every} of its parts are yours." if yours else none
    ideas = ideas or Ideas()
    on = ["rotate"] * ideas.rotary + ["window_mask"] * (ideas.window is not None)
    on += ["next_token"] * (model.config.direction == "left-to-right")
    for name in on if any(ideas) else []:
        said += f" Switched on: {name}, {'yours' if name in usable else 'ours'}."
    print(report(f"Your BERT. {said}"))
    return MyBert(model, vocab, OURS | usable, ideas)


def board() -> Board:
    """Show which parts are yours, which are missing, and which break the whole."""
    marks = {name: "…" if _file(name).is_file() else "·" for name in EXERCISES}
    passed = {name: "!" if one.trouble else "✓" for name, one in _passed.items()}
    marks |= {name: mark for name, mark in passed.items() if name in EXERCISES}
    troubles = [f"! {name}: {one.trouble}" for name, one in _passed.items() if one.trouble]
    ideas = [name for name in SWITCHED if passed.get(name) == "✓"]
    after = [f"After BERT, yours to switch on: {', '.join(ideas)}."] * bool(ideas)
    return Board(marks, [*after, *troubles])
