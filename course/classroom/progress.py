"""`python -m course progress`: what a learner has solved, read from saved notebooks."""

from collections.abc import Iterator
from pathlib import Path

from course.classroom.asked import Asked, NotebookError, asked_in, course, read_cells, recognize
from course.classroom.asked import saved_verdicts as verdicts
from course.language import spoken

SHOWN = {"✓": "✓", "✗": "✗", "…": "·"}
LEGEND = "✓ solved, ✗ tried, · open. Only what was saved is seen."
NOT_RUN = "was not run, or was saved without its outputs: run all cells, then save"


def report(folder: Path) -> Iterator[str]:
    """Yield the lines of the report on a folder, or on one notebook.

    NotebookError if there is no notebook of the course.
    """
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.ipynb"))
    left: list[tuple[bool, str]] = []  # (not yet tried, what to do)
    solved = every = seen = 0
    for path in paths:
        try:
            cells = read_cells(path)
        except NotebookError as error:
            yield f"{path.name}: {spoken(str(error))}"
            continue
        if not (name := recognize(path, cells)):
            continue
        seen += 1
        titles = {one.number: one.title for one in asked_in(cells)}  # in the learner's language
        checked = [one for one in asked_in(course()[name]) if one.check]
        asked = [one._replace(title=titles.get(one.number, one.title)) for one in checked]
        said = verdicts(cells, asked)
        ran = any(cell.get("execution_count") for cell in cells)
        done = [one for one in asked if said.get(one.number) == "✓"]
        solved, every = solved + len(done), every + len(asked)
        marks = " ".join(SHOWN.get(said.get(one.number, ""), "?") for one in asked)
        yield f"{path.stem:<34} {spoken(f'{len(done)} of {len(asked)} solved')}   {marks}"
        if not ran:
            yield f"   {spoken(NOT_RUN)}"
        if missing := ", ".join(one.title for one in asked if one.number not in said):
            yield f"   {spoken(f'is another edition, without the check of: {missing}')}"
        left += [
            (said[one.number] == "…", what_next(path, one))
            for one in asked
            if said.get(one.number, "✓") != "✓"
        ]
    if not seen:
        what = "no notebook of the course in" if folder.exists() else "there is no folder"
        where = "Name the folder where yours lie: python -m course progress FOLDER"
        raise NotebookError(spoken(f"{what} {folder}. {where}"))
    yield spoken(f"{solved} of {every} solved. {LEGEND}")
    yield kept_parts()
    yield from hints_taken()
    following = min(left, key=lambda one: one[0])[1] if left else ""
    yield spoken(f"Next: {following}" if left else "All that is here is solved.")


def what_next(path: Path, one: Asked) -> str:
    """Name an exercise so that it can be found."""
    minutes = f"{one.minutes} minute{'s' * (one.minutes > 1)}"
    return f"{path.stem}, exercise {one.number}: {one.title} ({minutes})"


def kept_parts() -> str:
    """Draw the learner's own BERT, with marks at the parts that are kept."""
    from course.workshop import my_bert  # loads torch, which takes seconds
    from course.workshop.board import Board

    kept = {name: (my_bert.folder() / f"{name}.py").is_file() for name in my_bert.EXERCISES}
    return repr(Board({name: "✓" if there else "·" for name, there in kept.items()}, []))


def hints_taken() -> list[str]:
    """Say which hints the learner has asked for here; nobody else is told."""
    from course.exercises.hints import taken

    some = [f"{name} {count}" for name, count in taken().items()]
    return [spoken(f"Hints asked for (only you see this): {', '.join(some)}.")] * bool(some)
