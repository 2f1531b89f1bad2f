"""`python -m course.classroom.site` makes build/site of the course.

No notebook is run, but with `--train` those whose toys ask a model that they train, if need be.
"""

import argparse
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

from course.classroom.asked import course
from course.classroom.site import ROOT, prepare
from course.classroom.weights import lay_weights
from course.language import in_korean


def main() -> int:
    """Build the site anew; return Sphinx's exit status, which is not 0 after a warning."""
    parser = argparse.ArgumentParser(prog="python -m course.classroom.site", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="Made anew.")
    parser.add_argument("--train", action="store_true", help="Run the notebooks that train a toy.")
    parser.add_argument("--languages", action="store_true", help="with a switch to Korean, at ko/")
    given = parser.parse_args()
    out = given.out.resolve()
    source, notes = (out.with_name(out.name + suffix) for suffix in ("-src", "-doctrees"))
    ours = (ROOT / "build").resolve() in out.parents or (out / ".buildinfo").is_file()
    for folder in (out, source, notes):
        if not ours and any(folder.glob("*")):
            parser.error(f"{folder} holds no site, and would be emptied: choose another --out")
        shutil.rmtree(folder, ignore_errors=True)
    prepare(source)
    options = ["-A", "languages=1"] if given.languages else []
    options += ["-D", "language=ko"] if in_korean() else []
    options += ["-q", "-W", "--keep-going", "-c", str(Path(__file__).parent), "-d", str(notes)]
    failed = build_main([*options, str(source), str(out)])
    if failed == 0:
        for name in lay_weights(out / "notebooks", list(course()), given.train):
            print(f"The last toy of {name} stands still; --train runs the notebook first.")
    return failed


if __name__ == "__main__":
    sys.exit(main())
