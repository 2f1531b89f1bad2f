"""Hints come when they are asked for, one at a time, and no notebook gives one away."""

import builtins
import dis
import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import nbformat
import pytest
from verdicts import verdict, words

from course.exercises import check
from course.exercises.hints import folder, hints_of, imports, taken
from course.exercises.judge import KNOWN, stub
from course.exercises.patch import source_of

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))
ASKED = {name: thing for name, thing in KNOWN.items() if hasattr(thing, "solution")}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTEDU_MY_BERT", str(tmp_path / "mine"))


@pytest.mark.parametrize("name", ASKED)
def test_each_call_tells_one_more_and_the_last_is_nearly_the_answer(name: str) -> None:
    every, said = hints_of(ASKED[name]), ""
    assert len(every) >= 2
    for count, text in enumerate(every, start=1):
        said = verdict(check.hint, name)
        assert words(text) in words(said)
        assert said.startswith(f"Hint {count} of {len(every)} for {name}. Start from ")
        assert taken() == {name: count}
        assert ("check.solution" in said) == (count == len(every))
    assert verdict(check.hint, name) == said, "and there it stays"
    *grows, last = every[1:]
    assert all(after.startswith(before) for before, after in pairwise([*grows, last]))
    assert "…" in last
    assert words("".join(grows[-1:])) in words(plain(verdict(check.solution, name)))


def globals_of(code: CodeType) -> set[str]:
    """Of a function, and of the functions in it."""
    own = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return own.union(*(globals_of(one) for one in code.co_consts if isinstance(one, CodeType)))


@pytest.mark.parametrize("name", ASKED)
def test_what_a_hint_uses_is_imported_unless_the_notebook_has_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, every = source_of(ASKED[name].ours), hints_of(ASKED[name])
    told = words("\n".join([*imports(ASKED[name], every[-1]), every[-1]]))
    assert told in words([verdict(check.hint, name) for _ in every][-1])
    needed, scope = imports(ASKED[name], source), dict(vars(builtins))
    exec("\n".join([*needed, source]), scope)
    assert globals_of(compile(source, name, "exec")) <= {*scope}
    for here, wanted in ((scope, []), (dict.fromkeys(scope), needed)):  # or another by that name
        monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(**here))
        assert imports(ASKED[name], source) == wanted


def plain(text: str) -> str:
    """Without what only linters read."""
    return re.sub(r"  # (type|noqa).*", "", text)


def test_hints_are_counted_for_each_exercise_and_a_broken_count_is_begun_anew() -> None:
    for name in ("slope", "pooler", "slope"):
        verdict(check.hint, name)
    assert taken() == {"slope": 2, "pooler": 1}
    for broken in ("{", "[]", '{"slope": "x"}', "\xff"):
        (folder() / "hints.json").write_text(broken, encoding="latin-1")
        assert taken() == {}
        assert verdict(check.hint, "slope").startswith("Hint 1 of ")
    assert json.loads((folder() / "hints.json").read_text()) == {"slope": 1}
    assert "Hint" not in verdict(check.slope, lambda f, w, h: f(w))  # a verdict knows nothing of it
    (folder() / "hints.json").unlink()
    (folder() / "hints.json").mkdir()  # it cannot be written
    assert "choose another folder" in verdict(check.hint, "slope")


def printed(cell: Any) -> str:
    """All text of a cell's outputs."""
    streams = [out.get("text", "") for out in cell.get("outputs", ())]
    data = [str(v) for out in cell.get("outputs", ()) for v in out.get("data", {}).values()]
    return words("\n".join([*streams, *data]))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_output_gives_an_answer_away(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    texts = [printed(cell) for cell in cells]
    for name, one in ASKED.items():
        if any(f"check.{name}(my_" in cell.source for cell in cells):
            assert stub(name) in texts
        first, *code = hints_of(one)
        lines = {words(line) for text in code for line in text.splitlines()}
        for given in [words(first), *(line for line in lines if len(line) > 40)]:
            assert not any(given in text for text in texts), f"{name}: {given}"
