"""The commands for the classroom; each imports what it needs itself, so that --help is quick."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option, echo

from course.language import in_korean

app = typer.Typer()
HOME = Path("ko" if in_korean() else "notebooks")  # as `make lab IN=ko` lays them
Notebooks = Annotated[
    list[str] | None, Argument(metavar="[NOTEBOOK]...", help="Such as 03; none: all.")
]


@app.command()
def progress(folder: Annotated[Path, Argument(help="Where your notebooks lie.")] = HOME) -> None:
    """Show what you have solved, from your notebooks as they were saved. Nothing leaves here."""
    from course.classroom.progress import report

    for line in report(folder):
        echo(line)


@app.command()
def grade(
    folder: Annotated[Path, Argument(help="Holds a folder, or one notebook, for each learner.")],
    out: Annotated[Path, Option(help="CSV file for the marks; what it has is not run again.")],
    notebook: Annotated[
        list[str] | None, Option(help="Grade only this one, such as 03; repeatable.")
    ] = None,
    minutes: Annotated[float, Option(help="For one notebook; for a cell, a quarter.", min=0.1)] = 5,
    memory: Annotated[float, Option(help="GB for one notebook.", min=0.5)] = 4,
) -> None:
    """Run what learners handed in, and write down which exercises are solved.

    Notebooks are programs: grade those of strangers in a container without a network.
    """
    from bertedu.files import write_csv
    from course.classroom.asked import chosen
    from course.classroom.grade import MARK, Limits, by_learner, grade

    marks = grade(folder, out, chosen(notebook), Limits(minutes, memory))
    rows = by_learner(marks)
    for row in rows:
        echo("  ".join(f"{name} {count}" for name, count in row.items()).removeprefix("learner "))
    missing = (row for row in marks if row["verdict"] == "not judged")
    for reason in dict.fromkeys(f"{row['file']}: {row['message']}" for row in missing):
        echo(f"not judged: {reason}")
    without = {path.name for path in folder.glob("[!.]*") if path.is_dir()}
    for learner in sorted(without - {row["file"].partition("/")[0] for row in marks}):
        echo(f"not judged: {learner}: no such notebook in this folder")
    write_csv(out.with_stem(f"{out.stem}_by_learner"), rows, MARK)
    echo(f"written: {out}, {out.stem}_by_learner{out.suffix}")


@app.command()
def slides(
    out: Annotated[Path, Argument(help="Folder for the decks, such as build/slides.")],
    notebooks: Notebooks = None,
    pdf: Annotated[bool, Option("--pdf", help="Print each deck to a PDF, too.")] = False,
) -> None:
    """Write the lectures as decks for a browser without a network, with notes for the speaker."""
    from course.classroom.asked import chosen
    from course.classroom.decks import write

    write(out, chosen(notebooks), pdf)
    echo(f"Open {out / 'index.html'} in a browser; no network is needed.")


@app.command("check-room")
def check_room() -> None:
    """Check this machine before a class: environment, data, weights, browser, one notebook."""
    from course.classroom.room import check_room

    ready = True
    for fine, line in check_room():
        ready &= fine
        echo(line)
    if not ready:
        raise typer.Exit(1)


@app.command()
def nbgrader(
    out: Annotated[Path, Argument(help="Folder for the notebooks, such as source/week1.")],
    notebooks: Notebooks = None,
) -> None:
    """Write notebooks for nbgrader: a locked cell after each exercise asks its check."""
    from course.classroom.asked import chosen
    from course.classroom.nbgrader import export

    for name in chosen(notebooks):
        echo(f"written: {export(name, out)}")


@app.command()
def quiz(
    notebooks: Notebooks = None,
    gift: Annotated[Path | None, Option(help="Text file to write, for Moodle.")] = None,
    qti: Annotated[Path | None, Option(help="Zip file to write, for Canvas.")] = None,
) -> None:
    """Write the questions of the notebooks for Moodle or Canvas."""
    from course.classroom.asked import chosen
    from course.classroom.quiz import questions, write_gift, write_qti

    if not (gift or qti):
        raise typer.BadParameter("say what to write: --gift FILE, --qti FILE, or both")
    found = [one for name in chosen(notebooks) for one in questions(name)]
    if gift:
        write_gift(found, gift)
    if qti:
        write_qti(found, qti)
    echo(f"written: {len(found)} questions, {sum(len(one.options) for one in found)} options")
