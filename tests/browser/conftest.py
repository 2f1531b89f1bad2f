"""A real JupyterLab and a real Chromium, both started and ended by the tests.

Nothing is left behind: Lab gets a copy of the notebooks and settings of its own.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acts import watched, written

from course.classroom import decks
from course.classroom.asked import NotebookError

ROOT = Path(__file__).parents[2]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder is a browser test: `make browser` runs it, `make test` does not."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    api = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: make browser installs it"
    )
    try:
        path = decks.chromium()
    except NotebookError as error:
        pytest.skip(str(error))
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def watch(browser: Any) -> Iterator[Callable[..., Any]]:
    """Make watched pages, offline; at the end they are closed, and nothing has gone wrong."""
    pages: list[Any] = []

    def new_page(width: int, height: int, **how: Any) -> Any:
        pages.append(watched(browser, viewport={"width": width, "height": height}, **how))
        return pages[-1]

    yield new_page
    for page in pages:
        page.context.close()
        assert page.wrong == []


@pytest.fixture
def show(watch: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Put views on a page of their own, as `nbconvert --to html` does, without a network."""

    def open_page(*views: Any) -> Any:
        page = watch(1200, 900)
        page.goto(written(tmp_path / "page.html", *views))
        drawn = (
            ".bertedu-bertviz svg line, .bertedu-attention figure, .bertedu-machine h3, "
            ".bertedu-play.alive"
        )
        page.wait_for_selector(drawn, state="attached")
        page.wait_for_function(
            "[...document.querySelectorAll('.bertedu-play')].every((n) => n.matches('.alive'))"
        )
        return page

    return open_page


class Lab:
    """A JupyterLab server on a free port, with settings of its own."""

    def __init__(self, root: Path) -> None:
        """Start it and wait until it answers."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url, self.token = f"http://127.0.0.1:{self.port}", secrets.token_hex(16)
        self.home = tempfile.TemporaryDirectory()
        home = Path(self.home.name)
        self.settings(
            "apputils-extension/notification",
            {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True},
        )
        # draw every cell, not only those near the window
        self.settings("notebook-extension/tracker", {"windowingMode": "none"})
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "JUPYTER_DATA_DIR": "data",  # which notebooks are trusted, too
        }
        options = {
            "ip": "127.0.0.1",
            "port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.root_dir": root,
            "IdentityProvider.token": self.token,
            "FileCheckpoints.checkpoint_dir": home / "checkpoints",
            "LabApp.expose_app_in_browser": True,
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        }
        self.log = (home / "lab.log").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
            + [f"--{name}={value}" for name, value in options.items()],
            env=os.environ
            | {name: str(home / place) for name, place in places.items()}
            | {"BERTEDU_DATA": str(ROOT / "data"), "JUPYTER_CONFIG_PATH": str(ROOT / "binder")},
            stdout=self.log,
            stderr=subprocess.STDOUT,
            cwd=root,
        )
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{self.url}/api?token={self.token}", timeout=1)
                return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.25)
        self.log.seek(0)
        raise RuntimeError(f"JupyterLab did not start:\n{self.log.read()[-3000:]}")

    def settings(self, plugin: str, values: dict[str, object]) -> None:
        path = Path(self.home.name, "settings", "@jupyterlab", f"{plugin}.jupyterlab-settings")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    def address(self, notebook: str) -> str:
        workspace = secrets.token_hex(4)
        return f"{self.url}/doc/workspaces/{workspace}/tree/{notebook}?token={self.token}&reset"

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        self.home.cleanup()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Lab]:
    """JupyterLab over copies of the notebooks, so that nothing here can change the real ones."""
    root = tmp_path_factory.mktemp("lab")
    shutil.copytree(ROOT / "notebooks", root / "notebooks")
    server = Lab(root)
    server.root = root
    yield server
    server.close()
