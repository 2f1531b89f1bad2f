"""`python -m course.classroom.site` makes build/site of the course, without running a notebook."""

import argparse
import os
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from course.classroom.asked import NOTEBOOKS
from course.classroom.site import ROOT, prepare
from course.language import in_korean
from course.workshop import play


def main() -> int:
    """Build the site anew; return Sphinx's exit status, which is not 0 after a warning."""
    parser = argparse.ArgumentParser(prog="python -m course.classroom.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--languages", action="store_true", help="with a switch to Korean, at ko/")
    asked = parser.parse_args()
    out = asked.out.resolve()
    source, notes = (out.with_name(out.name + suffix) for suffix in ("-src", "-doctrees"))
    for folder in (out, source, notes):
        shutil.rmtree(folder, ignore_errors=True)
    prepare(source)
    settings = Path(__file__).parent
    switch = ["-A", "languages=1"] if asked.languages else []
    language = ["-D", "language=ko"] if in_korean() else []
    options = [
        *switch,
        *language,
        "-q",
        "-W",
        "--keep-going",
        "-c",
        str(settings),
        "-d",
        str(notes),
    ]
    failed = build_main([*options, str(source), str(out)])
    if failed == 0:
        # the weights of what computes in a page lie beside it
        os.chdir(out / "notebooks")
        play.neighbors()
        play.meet()
        for weights in NOTEBOOKS.glob("*.weights.js"):  # of models that a notebook has trained here
            shutil.copy(weights, ".")
    return failed


if __name__ == "__main__":
    sys.exit(main())
