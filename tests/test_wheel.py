"""The wheel: one top-level name, a model inside, and dependencies that are true."""

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Asks the installed wheel with everything out of reach that it does not declare.
ASK = """
import sys
from importlib.abc import MetaPathFinder

class Undeclared(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"not in the wheel's dependencies: {{name}}")

sys.meta_path.insert(0, Undeclared())
from bertedu.cli import app
app({words}, prog_name="bertedu")
"""


@pytest.mark.nightly
def test_an_installed_wheel_fills_finetunes_and_predicts(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT], check=True)
    (wheel,) = tmp_path.glob("bertedu-*.whl")
    with zipfile.ZipFile(wheel) as files:
        tops = {name.partition("/")[0] for name in files.namelist()}
        assert {top for top in tops if not top.endswith(".dist-info")} == {"bertedu"}
        assert "bertedu/data/checkpoints/bert-mini/model.safetensors" in files.namelist()
        (about,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        assert "\nVersion: 1." in files.read(about).decode()
        files.extractall(tmp_path / "site")
    lists = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {name for some in lists["optional-dependencies"].values() for name in some}
    undeclared = {re.match(r"[\w-]+", name)[0].replace("-", "_") for name in extras}  # type: ignore[index]
    undeclared |= {"course", "exercises", "sphinx_book_theme", "IPython", "pandas"}

    def bertedu(*words: str) -> str:
        code = ASK.format(blocked=sorted(undeclared - {"bertedu"}), words=list(words))
        code = f"import sys\nsys.path.insert(0, {str(tmp_path / 'site')!r})\n" + code
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    assert "congress" in bertedu("fill", "I ask the ___ to pass this bill.").lower()
    rows = [f'"the {w} {n} came",{w}' for n in range(8) for w in ("ship", "train")]
    (tmp_path / "own.csv").write_text("\n".join(["message,class", *rows]))
    said = bertedu("finetune", "--csv", "own.csv", "--text", "message", "--label", "class")
    assert "minus counting" in said
    assert bertedu("predict", "my-model", "the ship 9 came").startswith(("ship", "train"))
