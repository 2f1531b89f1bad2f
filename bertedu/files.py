"""Where data lies; text files and tables, written so that nobody ever reads half of one."""

import csv
import io
import os
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from safetensors import SafetensorError

Row = dict[str, Any]
INSTALLED = Path(__file__).resolve().parent / "data"  # of a wheel, which brings a few files
_REPOSITORY_DATA = Path(__file__).resolve().parents[1] / "data"


class FileError(ValueError):
    """A file that cannot be written or used; the message says which, why and what to do."""


def data_dir() -> Path:
    """Folder ``BERTEDU_DATA`` names, else what a wheel brought, else ``data/`` of the clone.

    Raises FileError if there is none of them.
    """
    if chosen := os.environ.get("BERTEDU_DATA"):
        return Path(chosen).expanduser().absolute()
    if INSTALLED.is_dir():
        return INSTALLED
    if not (_REPOSITORY_DATA / "sources.toml").is_file():
        raise FileError(
            f"No data folder: {_REPOSITORY_DATA} has no sources.toml, so bertedu does not run from "
            "a clone of its repository. Set the environment variable BERTEDU_DATA to the `data` "
            "folder of a clone, or install from the clone with `pip install -e .`."
        )
    return _REPOSITORY_DATA


def shipped(name: str) -> Path:
    """Path of what comes with the course: ``tokenizer``, ``checkpoints``, ``results``.

    ``BERTEDU_DATA`` may name a folder for the downloads alone: all else is as without it.
    """
    places = (data_dir() / name, INSTALLED / name)
    return next((place for place in places if place.exists()), _REPOSITORY_DATA / name)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; rename it to ``path`` if all went well."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        os.replace(part, path)
    except (OSError, SafetensorError) as error:
        raise FileError(
            f"cannot write {path}: {error}. Free some space or choose another folder; "
            "the file that was there is unharmed."
        ) from error
    finally:
        with suppress(OSError):  # gone already if all went well
            part.unlink()


def check_writable(folder: Path) -> None:
    """Raise FileError if no file can be written to a folder; one that is not there stays so."""
    try:
        new = [one for one in (folder, *folder.parents) if not one.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise FileError(f"cannot write to {folder}: {reason}; choose another folder") from None
    with suppress(OSError):  # another program may have begun to write there
        for one in new:
            one.rmdir()


def write_atomically(path: Path, content: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never half of it."""
    with replacing(path) as part:
        part.write_text(content, encoding="utf-8")


def read_csv(path: Path) -> list[Row]:
    """Return the rows of a CSV file, values as text; none if there is no file."""
    csv.field_size_limit(10_000_000)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return []
    return list(csv.DictReader(io.StringIO(text)))


def table_beside(module: str) -> dict[str, Any]:
    """Read the TOML file that lies beside a module (``__file__``) and has its name."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))


def write_csv(path: Path, rows: Sequence[Row], mark: str = "") -> None:
    """Write rows in one rename, after a byte-order ``mark``; what a row lacks stays empty there."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline=None)  # every end of a line becomes \n, those in a cell, too
    writer = csv.DictWriter(text, columns)
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path, mark + text.getvalue())
