"""python -m course check-room: a line for each thing that a class needs, whatever lacks."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_course import bertedu

from course.classroom import room

MAKEFILE = Path(room.__file__).parents[2] / "Makefile"
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


def test_what_make_weights_fetches_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    found = set[str]()
    monkeypatch.setattr(room, "read", lambda name, fetch_missing: found.add(name) or name)
    assert all(name in room.weights() for name in room.PUBLISHED)
    (fetched,) = re.findall(r"bertedu data fetch ([\w -]+) \$", MAKEFILE.read_text("utf-8"))
    assert found == {*room.PUBLISHED} == {*fetched.split()}


LOCALES: list[dict[str, str]] = [
    {"LC_ALL": "C"},
    {"PYTHONIOENCODING": "cp949", "PYTHONUTF8": "0", "PYTHONWARNDEFAULTENCODING": "1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},  # paths are bytes then
]
# commands of the README: what they say, and whether they are quick
COMMANDS = [
    ("bertedu data show encyclopedia", "members", False),
    ("bertedu fill 'I ask the ___.' --picture 그림.png", "%", True),
    ("course progress 낸것", "exercise 1", True),
    ("course quiz --gift 물음.txt --qti q.zip 03", "3 questions", False),
    ("course nbgrader 주/1 03", "written", False),
    ("course grade 낸것 --out marks.csv --notebook 03", "written: marks.csv", False),
    ("course slides 강의 03", "no network is needed", False),
    ("bertedu finetune 표.csv --text 글 --label 답 --from bert-L2H128 --out 모델", "try it", False),
    ("bertedu pretrain --config mini --minutes 0.02 --out runs/첫째", "written", False),
]
SLOW = pytest.mark.nightly


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize(
    ("command", "said"),
    [pytest.param(a, b, marks=[] if quick else SLOW) for a, b, quick in COMMANDS],
)
def test_commands_work_in_every_locale_in_a_clone_with_a_name_in_hangul(
    tmp_path: Path, locale: dict[str, str], command: str, said: str
) -> None:
    clone, root = tmp_path / "과정 수업", Path(room.__file__).parents[2]
    clone.symlink_to(root, target_is_directory=True)
    folder = tmp_path / "책상"
    (folder / "낸것").mkdir(parents=True)
    shutil.copy(root / "notebooks" / "03_self_attention.ipynb", folder / "낸것" / "김민수.ipynb")
    rows = [f"{word} {n}번,{word}\n" for n in range(20) for word in ("강", "산")]
    (folder / "표.csv").write_text("글,답\n" + "".join(rows), encoding="utf-8")
    known = ("PATH", "HOME", "SYSTEMROOT", "OMP_NUM_THREADS")
    environment = {name: os.environ[name] for name in known if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(command)],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(clone), "BERTEDU_MY_BERT": str(folder)} | locale,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert said.encode() in done.stdout
    # on a Windows whose encoding is cp949, a file that is opened without one is garbled
    assert re.findall(rb"\S*(?:bertedu|course)/\S+\.py:\d+: EncodingWarning", done.stderr) == []
