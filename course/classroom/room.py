"""`python -m course check-room`: whether this machine is ready for a class, in about a minute."""

import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata

from bertedu.text.corpus import DEFAULT_CORPORA, load_documents
from bertedu.text.sources import read
from course.classroom.decks import chromium
from course.classroom.weights import run

PUBLISHED = ("minilm", "bert-tiny", "e5-small", "korean")  # what `make weights` fetches
OPTIONAL = ("weights", "browser")  # a class can begin without them
FIRST = "00_start_here"


def environment() -> str:
    """Name the versions of what everything stands on."""
    found = (f"{name} {metadata.version(name)}" for name in ("torch", "jupyterlab", "ipykernel"))
    return ", ".join([f"Python {sys.version_info.major}.{sys.version_info.minor}", *found])


def data() -> str:
    """Read the texts that the notebooks read."""
    counts = {name: len(load_documents(name)) for name in DEFAULT_CORPORA}
    return ", ".join(f"{name} {count:,} documents" for name, count in counts.items())


def weights() -> str:
    """Look for what some notebooks need beside the texts, without fetching it."""
    here = [name for name in PUBLISHED if read(name, fetch_missing=False)]
    return f"{', '.join(here)} are here, for notebooks 04, 08 to 11, 16 and a2"


def notebook() -> str:
    """Run the first notebook in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run(FIRST, folder)
    return f"{FIRST} runs to its end"


CHECKS: dict[str, Callable[[], str]] = {
    "environment": environment,
    "data": data,
    "weights": weights,
    "browser": lambda: f"{chromium()} prints decks",
    "notebook": notebook,
}


def check_room() -> Iterator[tuple[bool, str]]:
    """Yield for each check whether a class may begin as far as it goes, and a line to show."""
    for name, check in CHECKS.items():
        try:
            yield True, f"✓ {name}: {check()}"
        except Exception as error:  # whatever lacks: the line says it, and the rest is checked, too
            said = (str(error).strip() or type(error).__name__).splitlines()[-1]
            mark = "…" if name in OPTIONAL else "✗"
            yield name in OPTIONAL, f"{mark} {name}: {said}"
