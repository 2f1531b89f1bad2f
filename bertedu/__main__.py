"""``python -m bertedu``: the same as the command ``bertedu``."""

from bertedu.cli import app

if __name__ == "__main__":
    app(prog_name="bertedu")
