"""python -m course check-room: a line for each thing that a class needs, whatever lacks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_course import bertedu, save, tiny

from course.classroom import room

PASS = dict.fromkeys(room.CHECKS, lambda: "well")


def lacks() -> str:
    raise OSError("there is none\nfetch it")


@pytest.mark.parametrize(("name", "mark", "code"), [*((n, "✗", 1) for n in PASS), ("", "", 0)])
def test_what_lacks_is_said_and_the_rest_is_checked(
    monkeypatch: pytest.MonkeyPatch, name: str, mark: str, code: int
) -> None:
    if name in room.OPTIONAL:
        mark, code = "…", 0
    monkeypatch.setattr(room, "CHECKS", PASS | ({name: lacks} if name else {}))
    done = bertedu("check-room")
    assert done.exit_code == code
    lines = done.output.splitlines()
    assert len(lines) == len(PASS)
    for one, line in zip(PASS, lines, strict=True):
        assert line == (f"{mark} {one}: fetch it" if one == name else f"✓ {one}: well")


def test_data_of_another_place_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    monkeypatch.setenv("CHROMIUM", "mine")
    with pytest.raises(Exception, match="minilm"):
        room.weights()
    assert room.CHECKS["browser"]() == "mine prints decks"


@pytest.mark.parametrize(
    "locale",
    [{"LC_ALL": "C"}, {"PYTHONIOENCODING": "cp949"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}],
)
def test_commands_work_in_every_locale_in_a_folder_called_in_hangul(
    tmp_path: Path, locale: dict[str, str]
) -> None:
    folder = tmp_path / "과정 수업"
    notebook = tiny()
    notebook.cells[1].source = notebook.cells[1].source.replace("The", "그")
    save(notebook, folder / "김민수.ipynb")
    root = Path(room.__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONUTF8": "0"} | locale
    done = subprocess.run(
        [sys.executable, "-m", "course", "progress", "."],
        cwd=folder,
        env=environment,
        capture_output=True,
    )
    assert b"no notebook of the course in ." in done.stderr, done.stderr.decode(errors="replace")
    assert done.returncode == 1
