"""The frame of the repository: commands, pins, README, notebooks, import arrows, sizes."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from typer.testing import CliRunner

from bertedu.cli import app

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def repository_files() -> list[Path]:
    """The files git tracks, and the new ones it would: all that could reach a reader."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


# -- make and CI


@needs_make
def test_make_help_lists_every_target() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target in make_targets():
        assert re.search(rf"^  make {target} +\w", shown, re.MULTILINE), f"make help omits {target}"


def make_targets() -> list[str]:
    return re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_makefile_has_the_promised_targets() -> None:
    promised = "help env data lab test lint types unit notebooks bench html slides clean"
    assert set(promised.split()) <= set(make_targets())


# Plays Python for `make env`: it writes down what it is asked to install instead of installing.
# The files "old", "no_venv", "fail" and "slow" give it Python 3.10, no venv module, a pip that
# fails, and one that takes its time.
FAKE_PYTHON = """#!/bin/sh
top="{top}"
case "$1 $2" in
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && echo venv >> "$top/log" ;;
  "-m pip") echo "pip $*" >> "$top/log"; [ ! -e "$top/slow" ] || sleep 3; [ ! -e "$top/fail" ] ;;
  "-m jupyterlab"|"-m bertedu"|"-m ruff"|"-m course.classroom.pages") echo "$*" >> "$top/log" ;;
  "-c import pip"|"-c import pathlib,"*) exit 0 ;;
  "-c import sys; sys.exit("*)
    version="(3, 11, 0)"; [ ! -e "$top/old" ] || version="(3, 10, 14)"
    "{real}" -c "import sys; sys.version_info = $version; $2" ;;
  "-c import venv, ensurepip") [ ! -e "$top/no_venv" ] ;;
  *) exit 1 ;;
esac
"""


class Sandbox:
    """A folder with the Makefile and a Python that only pretends to install."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "constraints.txt"):
            shutil.copy(ROOT / name, folder)
        self.python = folder / "fake_python"
        self.python.write_text(
            FAKE_PYTHON.replace("{top}", str(folder)).replace("{real}", sys.executable),
            encoding="utf-8",
        )
        self.python.chmod(0o755)

    def make(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        # Without the variables of an outer make, which would change what the inner one prints.
        env = {k: v for k, v in os.environ.items() if k not in {"MAKELEVEL", "MAKEFLAGS", "MFLAGS"}}
        return subprocess.run(
            ["make", *words, "PYTHON=./fake_python"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            env=env | variables,
        )

    def make_env(self) -> subprocess.CompletedProcess[str]:
        return self.make("env")

    def log(self) -> str:
        log = self.folder / "log"
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def installs(self) -> int:
        return self.log().count("pip -m pip install")


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path)


@needs_make
def test_env_installs_once_with_the_pins(sandbox: Sandbox) -> None:
    assert sandbox.make_env().returncode == 0
    assert "-c constraints.txt -e .[dev]" in sandbox.log()
    again = sandbox.make_env()
    assert again.returncode == 0
    assert "ready" in again.stdout
    assert sandbox.installs() == 1


@needs_make
@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_env_installs_again_when_the_lists_change(sandbox: Sandbox, changed: str) -> None:
    sandbox.make_env()
    with (sandbox.folder / changed).open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    sandbox.make_env()
    assert sandbox.installs() == 2


@needs_make
def test_env_does_not_take_a_failed_install_as_done(sandbox: Sandbox) -> None:
    (sandbox.folder / "fail").touch()
    failed = sandbox.make_env()
    assert failed.returncode != 0
    assert "did not finish" in failed.stdout
    (sandbox.folder / "fail").unlink()
    assert sandbox.make_env().returncode == 0
    assert sandbox.installs() == 2


@needs_make
def test_env_that_was_done_and_then_broken_off_is_done_again(sandbox: Sandbox) -> None:
    sandbox.make_env()
    constraints = sandbox.folder / "constraints.txt"
    before = constraints.read_text(encoding="utf-8")
    constraints.write_text(before + "# changed\n", encoding="utf-8")
    (sandbox.folder / "fail").touch()
    assert sandbox.make_env().returncode != 0
    # Back to the old list: what is installed is now a mixture, so the old stamp must be gone.
    constraints.write_text(before, encoding="utf-8")
    (sandbox.folder / "fail").unlink()
    sandbox.make_env()
    assert sandbox.installs() == 3


@needs_make
@pytest.mark.parametrize(
    ("lacks", "message"),
    [("old", "needs Python 3.11 or newer"), ("no_venv", "apt install python3-venv")],
)
def test_env_says_what_python_lacks(sandbox: Sandbox, lacks: str, message: str) -> None:
    (sandbox.folder / lacks).touch()
    refused = sandbox.make_env()
    assert refused.returncode != 0
    assert message in refused.stdout
    assert sandbox.installs() == 0


@needs_make
@pytest.mark.parametrize("machine", ["Darwin x86_64", "Darwin arm64", "Linux x86_64"])
def test_an_intel_mac_is_told_before_anything_is_installed(sandbox: Sandbox, machine: str) -> None:
    fake = sandbox.folder / "bin"
    fake.mkdir()
    (fake / "uname").write_text(f"#!/bin/sh\necho {machine}\n", encoding="utf-8")
    (fake / "uname").chmod(0o755)
    done = sandbox.make("lab", PATH=f"{fake}{os.pathsep}{os.environ['PATH']}")
    intel = machine == "Darwin x86_64"
    assert ("Intel processor. PyTorch's last version for it is 2.2.2" in done.stdout) == intel
    assert (sandbox.installs() == 0) == (done.returncode != 0) == intel


@needs_make
def test_lab_installs_what_learners_need_and_tests_what_maintainers_need(sandbox: Sandbox) -> None:
    wanted = [("lab", "course"), ("lab", None), ("slides", "classroom"), ("slides", None)]
    wanted += [("lab", None), ("lint", "dev"), ("lab", None), ("slides", None)]
    for target, extra in wanted:
        before = sandbox.installs()
        done = sandbox.make(target)
        assert done.returncode == 0, done.stdout + done.stderr
        assert sandbox.installs() == before + (extra is not None), target
        if extra:
            *_, last = re.findall(r"-e \.\[(\w+)\]", sandbox.log())
            assert last == extra
    assert sandbox.log().count("jupyterlab") == 4


@pytest.mark.skipif(sys.platform == "win32", reason="make is for Linux and macOS")
def test_python_starts_in_every_locale_in_a_clone_with_a_name_in_hangul(tmp_path: Path) -> None:
    """What `make env` makes of the .pth that pip writes, in an environment of its own."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    code = re.search(r"^ASCII_PTH := ((?:.*\\\n)*.*)", makefile, re.MULTILINE)[1]  # type: ignore[index]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path], check=True)
    python, clone = tmp_path / "bin" / "python", tmp_path / "과정 수업"
    clone.mkdir()
    (pth,) = tmp_path.glob("lib/python*/site-packages")
    pth /= "__editable__.bertedu-0.1.0.pth"
    pth.write_text(f"{clone}\n", encoding="utf-8")
    for _ in range(2):  # what is ASCII stays as it is
        done = subprocess.run([python, "-c", code.replace("\\\n", "")], env={}, check=True)
        assert pth.read_text(encoding="utf-8").isascii()
    for locale in ({"LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}, {}):
        done = subprocess.run(
            [python, "-c", "import sys; print(*map(ascii, sys.path))"],
            capture_output=True,
            env=locale,
            check=True,
        )
        assert ascii(str(clone)) in done.stdout.decode()


@needs_make
def test_a_slow_install_says_that_it_goes_on(sandbox: Sandbox) -> None:
    assert "still installing" not in sandbox.make("env", "TICK=1").stdout
    (sandbox.folder / "constraints.txt").write_text("# changed\n", encoding="utf-8")
    (sandbox.folder / "slow").touch()
    done = sandbox.make("env", "TICK=1")
    assert re.search(r"^env: still installing after 1 s: \d+ MB so far$", done.stdout, re.M)
    assert done.stdout.endswith("env: done\n")
    assert done.returncode == 0


@needs_make
@pytest.mark.parametrize("user", [0, 1000])
def test_lab_starts_for_root_too(sandbox: Sandbox, user: int) -> None:
    """JupyterLab refuses root, which everybody is in a container, unless it is told."""
    fake = sandbox.folder / "bin"
    fake.mkdir()
    (fake / "id").write_text(f"#!/bin/sh\necho {user}\n", encoding="utf-8")
    (fake / "id").chmod(0o755)
    path = f"{fake}{os.pathsep}{os.environ['PATH']}"
    done = sandbox.make("lab", "LAB_ARGS=--port 8890", PATH=path)
    assert done.returncode == 0, done.stderr
    (started,) = re.findall("^-m jupyterlab .*", sandbox.log(), re.MULTILINE)
    assert ("--allow-root" in started.split()) == (user == 0)
    assert ("--allow-root" in done.stdout) == (user == 0)
    assert "--port 8890" in started
    assert "default_url=/lab/tree/notebooks/00_start_here.ipynb" in started  # what is printed, too


def test_bertedu_is_found_from_the_folder_above_the_clone(tmp_path: Path) -> None:
    """There a folder named bertedu comes first on the path, which is no package by itself."""
    (tmp_path / "bertedu").mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", "import bertedu; print(bertedu.load.__name__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout == "load\n", done.stderr


@pytest.mark.skipif(os.name == "nt", reason="CI runs bash")
@pytest.mark.parametrize("status", [0, 3])
def test_ci_runs_make_test_from_the_root_and_nothing_else(tmp_path: Path, status: int) -> None:
    root = tmp_path / "clone"
    (root / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", root / ".ci")
    fake = tmp_path / "make"
    fake.write_text(f'#!/bin/sh\necho "$PWD: make $*"\nexit {status}\n', encoding="utf-8")
    fake.chmod(0o755)
    done = subprocess.run(
        ["bash", str(root / ".ci" / "run")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )
    assert done.stdout == f"{root.resolve()}: make test\n"
    assert (done.returncode != 0) == (status != 0)


# -- dependencies: pyproject.toml asks, constraints.txt pins, environment.yml installs


def asked_for(extras: Iterable[str] = PROJECT["optional-dependencies"]) -> list[Requirement]:
    """Every direct dependency, without the package's own name."""
    lists = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][e] for e in extras)]
    return [
        requirement
        for names in lists
        for requirement in map(Requirement, names)
        if canonicalize_name(requirement.name) != PROJECT["name"]
    ]


def pins() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found: dict[str, Version] = {}
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][0-9a-z.]*)", line)
        # No address, no path, and no local version: "+cpu" can be had on some machines only.
        assert match, f"constraints.txt: {line!r} is not NAME==VERSION"
        name = canonicalize_name(match[1])
        assert name not in found, f"constraints.txt pins {name} twice"
        found[name] = Version(match[2])
    return found


def test_every_direct_dependency_is_pinned_as_pyproject_allows() -> None:
    pinned = pins()
    for requirement in asked_for():
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"constraints.txt does not pin {name}"
        assert pinned[name] in requirement.specifier, f"{name}: {pinned[name]} is not {requirement}"


def test_what_runs_here_is_what_is_pinned() -> None:
    pinned = pins()
    for requirement in asked_for(["course", "classroom", "dev"]):  # what `make env` installs
        name = canonicalize_name(requirement.name)
        here = Version(Version(metadata.version(name)).public)
        assert here == pinned[name], f"{name} {here} is installed, {pinned[name]} is pinned"


def test_environment_yml_installs_what_both_commands_need_with_the_pins() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["name"] == PROJECT["name"]
    *conda, pip = environment["dependencies"]
    # pyproject.toml is the one list: conda brings Python and pip, pip brings the rest.
    assert [re.split("[=<>]", spec)[0] for spec in conda] == ["python", "pip"]
    python = re.fullmatch(r"python=([\d.]+)", conda[0])
    assert python
    assert python[1] in Requirement(f"python{PROJECT['requires-python']}").specifier
    assert pip == {"pip": ["-c constraints.txt", "-e .[dev]"]}
    assert {"jupyterlab", "nbval"} <= {one.name for one in asked_for(["course", "dev"])}


def test_dev_includes_the_classroom_and_that_the_course() -> None:
    extras, name = PROJECT["optional-dependencies"], PROJECT["name"]
    assert f"{name}[classroom,stream]" in extras["dev"]
    assert f"{name}[course]" in extras["classroom"]


# -- README and CONTRIBUTING


def shell_lines(document: Path) -> list[str]:
    """The lines of a document's code blocks, and its `code` that begins with a command."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"(?<!`)`((?:make|bertedu) [^`\n]+)`(?!`)", text)
    return [line.strip() for block in blocks for line in block.splitlines()] + inline


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_commands_in_the_documents_exist(document: Path) -> None:
    named = [m[1] for line in shell_lines(document) if (m := re.search(r"\bmake ([a-z]+)", line))]
    assert named
    assert set(named) <= set(make_targets())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_bertedu_commands_in_the_documents_exist(document: Path) -> None:
    lines = [m[1] for line in shell_lines(document) if (m := re.match(r"bertedu ([^#|]+)", line))]
    assert lines
    for line in lines:
        words = line.split()
        command = words[:2] if words[0] == "data" else words[:1]
        wide = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
        helped = CliRunner().invoke(app, [*command, "--help"], env=wide)
        assert helped.exit_code == 0, f"`bertedu {line}`: {helped.output}"
        for option in re.findall(r"--[a-z-]+", line):
            assert option in helped.output, f"`bertedu {line}`: no option {option}"


def broken_links(text: str, folder: Path) -> list[str]:
    """Links and pictures of a Markdown text that lead to no file."""
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [t.split("#")[0] for t in targets if not re.match(r"https?://|mailto:|#", t)]
    return [target for target in local if not (folder / target).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_the_documents_lead_somewhere(document: Path) -> None:
    assert broken_links(document.read_text(encoding="utf-8"), document.parent) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "here.md").touch()
    text = "[a](here.md#part) ![b](gone.png) [c](https://example.org/x) [d](#part)"
    assert broken_links(text, tmp_path) == ["gone.png"]


def test_readme_lists_all_nineteen_notebooks_and_the_appendix_and_links_those_that_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d\d|a\d) \| (.+?) \|", readme, re.MULTILINE)
    assert [number for number, _ in rows] == [*(f"{i:02}" for i in range(19)), "a1"]
    linked = {m[1] for _, cell in rows if (m := re.search(r"\]\(notebooks/(.+?)\)", cell))}
    assert linked == {path.name for path in NOTEBOOKS}


def test_readme_pictures_have_alt_text() -> None:
    pictures = re.findall(r"!\[([^\]]*)\]\(", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert pictures
    # A few words name a picture; its message takes a sentence.
    assert all(len(alt.split()) >= 8 for alt in pictures)


# -- notebooks


def notebook_problems(notebook: dict[str, Any], size: int) -> list[str]:
    """What keeps a notebook from being committed; empty when nothing does."""
    problems = []
    cells = [
        cell
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and "".join(cell["source"]).strip()
    ]
    # nbval compares only cells with an execution count: a stripped notebook checks nothing.
    if [cell["execution_count"] for cell in cells] != list(range(1, len(cells) + 1)):
        problems.append("was not run from top to bottom in a fresh kernel")
    if not any(cell["outputs"] for cell in cells):
        problems.append("has no outputs")
    if "widgets" in notebook.get("metadata", {}):
        problems.append("holds the state of its widgets, which a page loads from the network")
    if any("execution" in cell["metadata"] for cell in cells):
        problems.append("says when it was run, so that every run changes every cell")
    for cell in cells:
        # JupyterLab folds by the one, `make html` leaves out by the other
        folded = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
        if folded != ("hide-input" in cell["metadata"].get("tags", [])):
            problems.append(f"cell {cell['execution_count']} is folded in only one of lab and page")
        raises = "raises-exception" in cell["metadata"].get("tags", [])
        if not raises and any(output["output_type"] == "error" for output in cell["outputs"]):
            problems.append(f"cell {cell['execution_count']} ends with an error")
        streams = [output.get("name") for output in cell["outputs"]]
        if any(one is not None and one == after for one, after in pairwise(streams)):
            problems.append(f"the print-out of cell {cell['execution_count']} is cut in pieces")
    if size >= 2_000_000:
        problems.append(f"is {size / 1e6:.1f} MB; the limit is 2 MB")
    return problems


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_committed_with_the_outputs_of_one_clean_run(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook_problems(notebook, path.stat().st_size) == []


def code_cell(
    count: int | None, *outputs: dict[str, str], tags: tuple[str, ...] = (), folded: bool = False
) -> Any:
    return {
        "cell_type": "code",
        "source": ["1 + 1"],
        "execution_count": count,
        "outputs": list(outputs),
        "metadata": {"tags": list(tags), "jupyter": {"source_hidden": folded}},
    }


RESULT = {"output_type": "execute_result"}
ERROR = {"output_type": "error"}
PRINTED = {"output_type": "stream", "name": "stdout"}


@pytest.mark.parametrize(
    ("cells", "size", "problem"),
    [
        ([code_cell(None)], 10, "top to bottom"),
        ([code_cell(2, RESULT), code_cell(1, RESULT)], 10, "top to bottom"),
        ([code_cell(1, RESULT), code_cell(3, RESULT)], 10, "top to bottom"),
        ([code_cell(1), code_cell(2)], 10, "no outputs"),
        ([code_cell(1, ERROR)], 10, "error"),
        ([code_cell(1, PRINTED, PRINTED)], 10, "cut in pieces"),
        ([code_cell(1, RESULT, folded=True)], 10, "only one of lab and page"),
        ([code_cell(1, RESULT, tags=("hide-input",))], 10, "only one of lab and page"),
        ([code_cell(1, RESULT)], 2_000_000, "2 MB"),
    ],
)
def test_a_bad_notebook_is_noticed(cells: list[Any], size: int, problem: str) -> None:
    found = notebook_problems({"cells": cells}, size)
    assert len(found) == 1 or problem == "top to bottom"
    assert problem in found[0]


def test_a_saved_state_of_widgets_is_noticed() -> None:
    notebook = {"cells": [code_cell(1, RESULT)], "metadata": {"widgets": {}}}
    (problem,) = notebook_problems(notebook, 10)
    assert "state of its widgets" in problem


def test_a_planned_error_is_no_problem() -> None:
    cells = [
        code_cell(1, PRINTED, RESULT, PRINTED, RESULT, RESULT),
        code_cell(2, ERROR, tags=("raises-exception", "hide-input"), folded=True),
    ]
    assert notebook_problems({"cells": cells}, 10) == []


# -- what may be in the repository

TEXT = {*".py .md .toml .yml .yaml .txt .json .ipynb .csv .js .css .j2".split(), ""}


def private_places(text: str) -> list[str]:
    """Paths and package indexes that belong to one machine, not to every reader."""
    # Not inside a longer path or an address, where the same folder names mean other things.
    paths = r"(?<![\w.:/+-])/(?:work|root|tmp|home|Users|opt|mnt|private|var/folders)/[\w.-]+"
    windows = r"\b[A-Z]:\\\\?Users\\\\?\w+"
    # A test's own server on the loopback address is nobody's private place.
    addresses = r"https?://(?:10|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.[^\s\"')]*"
    index = r"https?://(?!pypi\.org/|127\.0\.0\.1[:/])[^\s\"')]+/simple\b/?"
    return re.findall("|".join([paths, windows, addresses, index]), text)


def test_no_file_names_a_place_of_one_machine() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {place}"
        for path in repository_files()
        if path.suffix in TEXT
        for place in private_places(path.read_text(encoding="utf-8"))
    }
    assert found == set()


# Put together here, so that this file passes its own test.
S = "/"


@pytest.mark.parametrize(
    "text",
    [
        f"see {S}work/x",
        f'"{S}root/.cache"',
        f"({S}tmp/abc.txt)",
        f"{S}home/anna/bertedu",
        f"{S}Users/anna/b",
        "C:\\" + "Users\\anna",
        f"http:/{S}10.0.0.5/data",
        f"https:/{S}mirror.example.org/pypi/simple/",
    ],
)
def test_a_place_of_one_machine_is_noticed(text: str) -> None:
    assert private_places(text)


@pytest.mark.parametrize(
    "text",
    [
        "homework/x",
        f"https://a.org{S}tmp/x",
        f"a{S}work/b",
        "https://pypi.org/simple/",
        "http://127.0.0.1:{port}/simple",
    ],
)
def test_other_places_pass(text: str) -> None:
    assert private_places(text) == []


def test_nothing_fetched_or_unfinished_is_in_the_repository() -> None:
    for path in repository_files():
        name = path.relative_to(ROOT).as_posix()
        assert path.suffix not in {".whl", ".zip", ".gz", ".bz2", ".pt", ".pth", ".bin"}, name
        assert not name.startswith("data/downloads/"), name
        if path.suffix in TEXT:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"\b(?:TO[D]O|FIX[M]E)\b", text), f"{name}: unfinished work"


def test_weights_lie_in_checkpoints_and_stay_below_60_mb_together() -> None:
    weights = [path for path in repository_files() if path.suffix == ".safetensors"]
    checkpoints = ROOT / "data" / "checkpoints"
    assert all(path.is_relative_to(checkpoints) for path in weights)
    in_checkpoints = [path for path in repository_files() if path.is_relative_to(checkpoints)]
    assert sum(path.stat().st_size for path in in_checkpoints) < 60_000_000


# -- the house: arrows go one way

# Each room may open the rooms before it. The command line stands above all rooms.
ROOMS = {
    "bertedu": ["files", "machine", "text", "model", "pretraining", "finetuning", "analysis"],
    "course": ["results", "experiments", "exercises", "workshop", "classroom"],
}
ABOVE = {"cli", "__main__"}


def opened_rooms(source: str, module: tuple[str, ...], house: str = "bertedu") -> set[str]:
    """The parts of a house that a module of it imports; ``module`` = its name without the house's.

    A package's ``__init__`` counts as a module of that name, so that relative imports resolve.
    """
    opened = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            here = [house, *module]
            base = here[: len(here) - node.level] if node.level else []
            start = [*base, *(node.module.split(".") if node.module else [])]
            # `from bertedu import model` opens the room as `from bertedu.model import x` does.
            names = [".".join([*start, alias.name]) for alias in node.names]
        else:
            continue
        opened |= {
            parts[1] for name in names if (parts := name.split("."))[0] == house and len(parts) > 1
        }
    return opened


def forbidden_rooms(source: str, module: tuple[str, ...], house: str = "bertedu") -> set[str]:
    """The parts of a house that a module opens although they are to its right, or above it."""
    room, rooms = module[0], ROOMS[house]
    if room in ABOVE:
        return set()
    if module == ("__init__",):
        # The front door runs before every room. What it opens at once, every room would import,
        # in a circle; inside a function, or for type checkers only, it opens nothing by itself.
        source = without_deferred(source)
    allowed = set(rooms[: rooms.index(room) + 1]) if room in rooms else set()
    return opened_rooms(source, module, house) - allowed


def without_deferred(source: str) -> str:
    """A module without its functions and its `if TYPE_CHECKING` blocks."""
    tree = ast.parse(source)
    tree.body = [
        node
        for node in tree.body
        if not isinstance(node, ast.FunctionDef)
        and not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return ast.unparse(tree)


def modules(folder: str = "bertedu") -> list[tuple[Path, tuple[str, ...]]]:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        found.append((path, path.relative_to(ROOT / folder).with_suffix("").parts))
    return found


@pytest.mark.parametrize("house", ROOMS)
def test_imports_go_only_to_the_left(house: str) -> None:
    wrong = {
        f"{'.'.join(module)} opens {name}"
        for path, module in modules(house)
        for name in forbidden_rooms(path.read_text(encoding="utf-8"), module, house)
    }
    assert wrong == set()
    folders = {path.parent.name for path in (ROOT / house).glob("*/__init__.py")}
    assert folders <= set(ROOMS[house]), "a folder that is no known room"


def test_the_package_knows_nothing_of_the_course() -> None:
    for path, module in modules():
        named = {name.split(".")[0] for name in named_in(path.read_text(encoding="utf-8"))}
        assert "course" not in named, module
    for path, module in modules("course"):
        opened = opened_rooms(path.read_text(encoding="utf-8"), module, "bertedu")
        assert "cli" not in opened or module == ("cli",), f"{path} opens the command line"


def named_in(source: str) -> list[str]:
    """The modules that a source names in its imports."""
    nodes = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom)]
    return [name for node in nodes for name in imported(node) if name]


def imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The modules that a statement names; and what it takes from them, which may be modules."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]


def test_no_two_modules_import_each_other_even_by_a_detour() -> None:
    """No circle: taking away what imports nothing that is left takes everything away."""
    opens: dict[str, set[str]] = {}
    for path, module in modules():
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(without_deferred(source) if module == ("__init__",) else source)
        opens[".".join(["bertedu", *module])] = {
            name
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in imported(node)
        }
    while opens:
        free = [name for name in opens if not (opens[name] & set(opens)) - {name}]
        assert free, f"a circle among {sorted(opens)}"
        for name in free:
            del opens[name]


# A name that stands for two things makes a reader open the wrong file. These may be used again:
# what every module has in its own form, and what a command line must be called.
TWICE = {"main", "app"}


def test_no_public_class_stands_for_two_things() -> None:
    places: dict[str, list[str]] = {}
    for path, module in modules():
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(".".join(module))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
    files = [module[-1] for _, module in modules() if not module[-1].startswith("__")]
    assert sorted({name for name in files if files.count(name) > 1}) == []


def lines_of(folder: str) -> int:
    """Lines of all that git holds of a folder: Python, JavaScript, styles and tables."""
    files = [path for path in repository_files() if path.is_relative_to(ROOT / folder)]
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)


def test_the_house_does_not_grow() -> None:
    """Lines with blanks and docstrings: more of them is a decision, made here and explained."""
    assert lines_of("bertedu") <= 9_800
    assert lines_of("course") <= 21_700


PATH = (
    "text/tokenization",
    "model/config",
    "model/embeddings",
    "model/attention",
    "model/encoder",
    "model/heads",
    "model/bert",
    "pretraining/masking",
    "pretraining/next_sentence",
    "pretraining/trainer",
)


def test_the_learners_path_can_be_read_in_one_sitting() -> None:
    files = [ROOT / "bertedu" / f"{name}.py" for name in PATH]
    assert sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= 1_300


def test_no_function_is_longer_than_a_page_or_takes_more_than_ten_things() -> None:
    long = {}
    for path, module in [one for house in ROOMS for one in modules(house)]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = (node.end_lineno or 0) - node.lineno + 1
            arguments = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
            taken = len([a for a in arguments if a not in ("self", "cls")])
            many = taken > 10 and module[0] not in ABOVE  # what a command takes is its help page
            if lines > 80 or many:
                long[f"{'.'.join(module)}.{node.name}"] = (lines, len(arguments))
    assert long == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("text.corpus", "from bertedu.model.bert import Bert"),
        ("text.corpus", "import bertedu.model.bert"),
        ("text.corpus", "from bertedu import model"),
        ("text.corpus", "from ..model import bert"),
        ("text.corpus", "from .. import model"),
        ("text.__init__", "from ..model import bert"),
        ("model.bert", "def f():\n    from bertedu.pretraining import trainer"),
        ("pretraining.trainer", "from bertedu.finetuning.training import x"),
        ("finetuning.training", "from bertedu.analysis import views"),
        ("results.files", "from bertedu.text import corpus"),
        ("analysis.views", "from bertedu.cli import app"),
        ("analysis.views", "from bertedu import load"),
        ("__init__", "from bertedu import model"),
        ("machine", "from bertedu.text import corpus"),
        ("__init__", "try:\n    import bertedu.text\nfinally:\n    pass"),
    ],
)
def test_an_arrow_to_the_right_is_noticed(module: str, source: str) -> None:
    assert forbidden_rooms(source, tuple(module.split(".")))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("analysis.views", "from bertedu.model.bert import Bert\nfrom bertedu import text"),
        ("model.bert", "from .config import Config\nfrom ..text import tokenization"),
        ("model.__init__", "from .bert import Bert"),
        ("__init__", "def load():\n    from bertedu.model import bert"),
        ("__init__", "if TYPE_CHECKING:\n    from bertedu.model import bert"),
        ("cli", "from bertedu.analysis import views"),
    ],
)
def test_an_arrow_to_the_left_passes(module: str, source: str) -> None:
    assert forbidden_rooms(source, tuple(module.split("."))) == set()


def lines_of_code(path: Path) -> int:
    """Count lines that do something: no blank lines, comments or docstrings."""
    source = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        if ast.get_docstring(node) is not None:
            told |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return sum(
        bool(line.strip()) and not line.strip().startswith("#") and number not in told
        for number, line in enumerate(source.splitlines(), start=1)
    )


def test_the_six_files_that_make_bert_stay_under_350_lines_of_code() -> None:
    names = ["config", "embeddings", "attention", "encoder", "heads", "bert"]
    lines = {name: lines_of_code(ROOT / "bertedu" / "model" / f"{name}.py") for name in names}
    assert 100 < sum(lines.values()) < 350, lines
