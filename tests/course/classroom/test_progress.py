"""python -m course progress: what the saved outputs of check cells say, and nothing else."""

import re
from pathlib import Path

import pytest
from tiny_course import ANSWERS, NAME, bertedu, save, tiny
from verdicts import verdict

from course.classroom.asked import asked_in, course, recognize
from course.exercises import check
from course.exercises.judge import KNOWN
from course.workshop import my_bert


def test_every_exercise_has_a_heading_with_stars_and_its_own_check() -> None:
    asked = {name: asked_in(cells) for name, cells in course().items()}
    checks = [one.check for some in asked.values() for one in some if one.check]
    assert sorted(checks) == sorted(name for name, one in KNOWN.items() if hasattr(one, "solution"))
    alone = [(name[:2], one.number) for name, some in asked.items() for one in some if not one.cell]
    # for these, readers judge themselves
    assert alone == [("01", 6), ("08", 6), ("14", 4), ("a2", 2)]
    copy = Path("my copy.ipynb")
    assert all(recognize(copy, cells[1:]) == name for name, cells in course().items())
    for some in asked.values():
        assert [one.number for one in some] == list(range(1, len(some) + 1))
        assert len({one.function for one in some}) == len(some)


@pytest.mark.parametrize(
    ("solved", "said", "counted", "upcoming"),
    [
        # neither a demonstration nor a thought counts
        ([], "✓", "0 of 3 solved   · · ·", "03_tiny, exercise 1: The slope (1 minute)"),
        (["slope", "join_heads"], "✓", "2 of 3 solved   ✓ · ✓",
         "03_tiny, exercise 2: The chance (2 minutes)"),
        (["join_heads"], "✗", "0 of 3 solved   · · ✗", "exercise 3"),  # what was begun comes first
        ([*ANSWERS], "✓", "3 of 3 solved", "All that is here is solved."),
    ],
)  # fmt: skip
def test_what_is_solved_tried_and_open_is_counted(
    tiny_course: Path, tmp_path: Path, solved: list[str], said: str, counted: str, upcoming: str
) -> None:
    notebook = tiny(*solved, said=said)
    notebook.cells[2].id = "another"  # as after a copy
    save(notebook, tmp_path / "mine" / "my work.ipynb")
    done = bertedu("progress", tmp_path / "mine")
    assert done.exit_code == 0, done.output
    assert counted in done.output
    assert upcoming in done.output.splitlines()[-1].replace("my work", NAME)


def test_parts_that_are_kept_are_named(
    tiny_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "expanduser", lambda path: tmp_path / path.name)
    monkeypatch.setenv("BERTEDU_MY_BERT", "~/kept")
    (tmp_path / "kept").mkdir()
    for kept, mark in enumerate("·✓"):
        said = bertedu("progress", tiny_course).output
        assert f"{kept} of {len(my_bert.EXERCISES)} parts of your BERT are yours.\n" in said
        assert f"text  → {mark} cut_word → · encode_pair → " in said
        (tmp_path / "kept" / "cut_word.py").touch()
    assert "Hints" not in said
    verdict(check.hint, "slope")
    said = bertedu("progress", tiny_course).output
    assert "Hints asked for (only you see this): slope 1." in said


def lay_three(mine: Path) -> None:
    """Lay a notebook of another edition into a folder, one that was not run, and a broken one."""
    old = tiny("slope", said="✓")
    del old.cells[5:7]
    save(old, mine / "old.ipynb")
    fresh = tiny()
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    save(fresh, mine / "fresh.ipynb")
    (mine / "broken.ipynb").write_text('{"cells": [', encoding="utf-8")


def test_what_cannot_be_read_is_said_and_the_rest_is_read(
    tiny_course: Path, tmp_path: Path
) -> None:
    lay_three(mine := tmp_path / "mine")
    said = bertedu("progress", mine).output
    assert "broken.ipynb: cannot be read as a notebook (" in said
    assert "0 of 3 solved   · · ·\n   was not run, or was saved without its outputs" in said
    assert "1 of 3 solved   ✓ · ?\n   is another edition, without the check of: The join" in said


def test_in_korean_every_line_is_korean(
    tiny_course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTEDU_LANG", "ko")
    lay_three(mine := tmp_path / "mine")
    verdict(check.hint, "slope")
    said = [bertedu("progress", one).output for one in (mine, tmp_path / "none", tiny_course)]
    lines = "\n".join(re.sub(".* → .*|.*_.*", "", one) for one in said).splitlines()  # no board
    assert len(lines) > 10
    without = [one for one in lines if not re.search("[가-힣]", one)]
    assert not [one for one in without if re.search("[a-z]{2} [a-z]{2}|[a-z]{5}", one)]


@pytest.mark.parametrize("made", ["missing", "empty", "of others"])
def test_no_notebook_is_an_error_that_says_what_to_do(
    tiny_course: Path, tmp_path: Path, made: str
) -> None:
    mine = tmp_path / "mine"
    if made != "missing":
        mine.mkdir()
    if made == "of others":
        other = tiny()
        for number, cell in enumerate(other.cells):
            cell.id = f"other-{number}"
        save(other, mine / "other.ipynb")
    done = bertedu("progress", mine)
    assert done.exit_code == 1
    assert ("there is no folder" in done.output) == (made == "missing")
    assert "python -m course progress FOLDER" in done.output
