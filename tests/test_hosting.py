"""Where else the course runs: each place installs what pyproject.toml lists."""

import os
import re
import tomllib
from typing import Any

import pytest
import yaml
from called import printed_by
from house import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def load(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def section(title: str) -> list[str]:
    """The lines of the first code block below a heading of the README."""
    block = re.search(rf"^### {title}\n.*?^```\w+\n(.*?)^```", README, re.M | re.S)
    assert block, f"README.md has no code below '### {title}'"
    return block[1].splitlines()


def job_lines(job: str) -> list[str]:
    steps = load(".github/workflows/install.yml")["jobs"][job]["steps"]
    return "\n".join(step["run"] for step in steps if "run" in step).splitlines()


@pytest.mark.parametrize(("job", "title"), [("windows", "Windows"), ("conda", "conda")])
def test_ci_installs_as_the_readme_says(job: str, title: str) -> None:
    *install, lab = section(title)
    assert lab.startswith("jupyter lab ")
    done = [line for line in job_lines(job) if line in install]
    assert done[: len(install)] == install
    assert "jupyter lab --version" in job_lines(job)


def test_ci_installs_with_make_lab_on_both_systems_that_have_make() -> None:
    assert section("Linux without a GPU")[-1].endswith("make lab")
    assert job_lines("make")[0].startswith("make lab ")
    matrix = load(".github/workflows/install.yml")["jobs"]["make"]["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_every_job_ends_by_itself_may_only_read_and_names_notebooks_that_exist() -> None:
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        workflow = yaml.safe_load(text)
        assert workflow["permissions"] == {"contents": "read"}, path.name
        for name, job in workflow["jobs"].items():
            assert job["timeout-minutes"] <= 60, f"{path.name}: {name}"
        for name in re.findall(r"notebooks/\S+\.ipynb", text):
            assert (ROOT / name).exists(), f"{path.name}: {name}"


def test_binder_has_no_list_of_its_own() -> None:
    lines = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith(("#", "--extra-index-url "))] == [
        "-c ../constraints.txt",
        "-e .[course]",
    ]
    build = ROOT / "binder" / "postBuild"
    assert "bertedu data fetch" in build.read_text(encoding="utf-8")
    assert os.name == "nt" or os.access(build, os.X_OK)
    python = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    assert load("environment.yml")["dependencies"][0] == python.replace("-", "=")


def test_a_pipe_that_knows_no_bars_gets_question_marks() -> None:
    """As on Windows, where what is not a console is cp1252."""
    windows = os.environ | {"PYTHONIOENCODING": "cp1252"}
    command = ("-m", "bertedu", "fill", "I ask the ___ to pass this bill.")
    assert re.search(r"congress.*\?{4}", printed_by(*command, cwd=ROOT, env=windows))


def test_the_citation_is_of_this_version_and_names_the_paper() -> None:
    citation = load("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
    paper = citation["references"][0]["title"]
    assert f"{{{paper}}}" in README.replace("{{BERT}:", "{BERT:")


def test_an_issue_form_asks_something_and_says_what_for() -> None:
    forms = [p for p in (ROOT / ".github" / "ISSUE_TEMPLATE").iterdir() if p.stem != "config"]
    assert {form.stem for form in forms} == {"code", "page", "sentence"}
    for form in forms:
        content = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert content["name"]
        assert content["description"]
        assert any(field["validations"]["required"] for field in content["body"][:1])
