"""`python -m course nbgrader`: notebooks of the course as nbgrader assigns and grades them."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell

from bertedu.files import write_atomically
from course.classroom.asked import NOTEBOOKS, asked_in

ASK = """from contextlib import redirect_stdout
from io import StringIO

with redirect_stdout(StringIO()) as said:
    check.{check}({function})
assert said.getvalue().startswith("✓"), said.getvalue()"""


def export(name: str, folder: Path) -> Path:
    """Write a notebook with a locked cell of one point after each exercise, and no outputs."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    asked, cells = {one.cell: one for one in asked_in(notebook.cells) if one.check}, []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if one := asked.get(cell.id):
            about = {"grade_id": f"check_{one.check}", "points": 1, "schema_version": 3}
            about |= {"grade": True, "locked": True, "solution": False, "task": False}
            source = ASK.format(check=one.check, function=one.function)
            cells.append(new_code_cell(source, id=f"check-{cell.id}", metadata={"nbgrader": about}))
    notebook.cells = cells
    path = folder / f"{name}.ipynb"
    write_atomically(path, nbformat.writes(notebook) + "\n")
    return path
