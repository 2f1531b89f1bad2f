"""What pyproject.toml cannot say: the wheel holds a model; `bertedu fill` answers at once."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("sources.toml", "tokenizer", "checkpoints/bert-mini")  # of data/, into bertedu/data/


class WithModel(build_py):
    """Copy a few files of `data` into the package, unless it is installed to be edited."""

    def run(self) -> None:
        """Build as ever, then copy."""
        super().run()
        if self.editable_mode:
            return
        for name in SHIPPED:
            source, target = Path("data", name), Path(self.build_lib, "bertedu", "data", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)


setup(cmdclass={"build_py": WithModel})
