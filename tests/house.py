"""The house as its imports show it: who opens whom. `python tests/house.py` draws it anew.

The drawing stands in CONTRIBUTING.md; a test says when it is out of date.
"""

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parent.parent
# A room may open the rooms before it, and those of the house before; the command line stands above.
ROOMS = {
    "bertedu": "files machine optimization text model pretraining finetuning analysis".split(),
    "course": "language results experiments exercises workshop classroom korean".split(),
}
ABOVE = ("cli", "__main__")
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PLACE = re.compile(r"(<!-- house -->\n```text\n).*?(```\n)", re.DOTALL)


def repository_files() -> list[Path]:
    """The files git tracks, and the new ones it would: all that could reach a reader."""
    command = "git ls-files -z --cached --others --exclude-standard".split()
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def modules(house: str) -> Iterator[tuple[str, str]]:
    """Name and source of each module of a package; a folder's own is called `….__init__`."""
    for path in sorted((ROOT / house).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name, path.read_text(encoding="utf-8")


def imports(source: str, module: str) -> set[str]:
    """All that a module imports, by its full name; of `from a import b`, both a and a.b.

    What the front door, `__init__` of a whole house, opens inside a function or for type checkers
    only is left out: it runs before every room, and opens nothing by itself.
    """
    tree, found = ast.parse(source), set()
    if module.count(".") == 1 and module.endswith(".__init__"):
        tree.body = [node for node in tree.body if not _deferred(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            here = module.split(".")[: -node.level] if node.level else []
            start = ".".join([*here, *([node.module] if node.module else [])])
            found |= {start, *(f"{start}.{alias.name}" for alias in node.names)}
    return found


def _deferred(node: ast.stmt) -> bool:
    typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    return typing or isinstance(node, ast.FunctionDef)


def opened(source: str, module: str, house: str) -> set[str]:
    """The rooms of a house that a module opens."""
    parts = [name.split(".") for name in imports(source, module)]
    return {part[1] for part in parts if part[0] == house and len(part) > 1}


def forbidden(source: str, module: str) -> set[str]:
    """The rooms that a module opens although they are to its right, or above it, or next door."""
    house, room = module.split(".")[:2]
    above = {name for name in imports(source, module) if name.split(".")[0] == "course" != house}
    if room in ABOVE:
        return above
    rooms = ROOMS[house]
    left = set(rooms[: rooms.index(room) + 1]) if room in rooms else set()
    command_line = opened(source, module, "bertedu") & set(ABOVE)
    return above | command_line | (opened(source, module, house) - left)


@contextmanager
def files_entered() -> Iterator[set[str]]:
    """Collect the files of bertedu of which something is called; an import alone does not count."""
    codes: set[CodeType] = set()
    found: set[str] = set()
    sys.setprofile(lambda frame, event, _: codes.add(frame.f_code) if event == "call" else None)
    try:
        yield found
    finally:
        sys.setprofile(None)
    called = {Path(code.co_filename) for code in codes if code.co_flags & inspect.CO_OPTIMIZED}
    house = ROOT / "bertedu"
    found |= {str(path.relative_to(house)) for path in called if path.is_relative_to(house)}


def drawing() -> str:
    """One line a room: the rooms that it opens, of its own house and of the one before."""
    lines = []
    for house, rooms in ROOMS.items():
        for room in (*rooms, "cli"):
            own = [one for one in modules(house) if one[0].split(".")[1] == room]
            cells = []
            for other in ROOMS:
                found = {name for module, source in own for name in opened(source, module, other)}
                listed = [name for name in ROOMS[other] if name in found - {room}]
                if listed:
                    cells.append(("" if other == house else f"{other}: ") + ", ".join(listed))
            name = f"{house}/{room}"
            lines.append(f"{name:<20} → {'; '.join(reversed(cells)) or 'nothing'}\n")
    return "".join(lines)


if __name__ == "__main__":
    text = CONTRIBUTING.read_text(encoding="utf-8")
    CONTRIBUTING.write_text(PLACE.sub(rf"\g<1>{drawing()}\g<2>", text), encoding="utf-8")
