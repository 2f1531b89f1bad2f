"""The wheel: one top-level name, and a model inside."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from called import printed_by

ROOT = Path(__file__).parent.parent


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

    def bertedu(*words: str) -> str:
        # the wheel's files first, and nothing of the course
        code = f"""import sys
sys.path.insert(0, {str(tmp_path / "site")!r})
sys.modules["course"] = None
from bertedu.cli import app
app({list(words)}, prog_name="bertedu")"""
        return printed_by("-c", code, cwd=tmp_path)

    assert "congress" in bertedu("fill", "I ask the ___ to pass this bill.").lower()
    rows = [f'"the {w} {n} came",{w}' for n in range(8) for w in ("ship", "train")]
    (tmp_path / "own.csv").write_text("\n".join(["message,class", *rows]))
    said = bertedu("finetune", "--csv", "own.csv", "--text", "message", "--label", "class")
    assert "minus counting" in said
    assert bertedu("predict", "my-model", "the ship 9 came").startswith(("ship", "train"))
