"""The website of the course: what is made of the repository's own files."""

import json
import re
from pathlib import Path

import nbformat
import pytest

from course.classroom import site

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_every_star_of_every_notebook_is_an_exercise_of_the_list() -> None:
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in NOTEBOOKS}
    page = site.exercises_page(notebooks)
    for path in NOTEBOOKS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        announced = sum(len(re.findall(r"^\*\*\d+\. .*★", text, re.M)) for text in texts)
        assert announced > 0
        assert page.count(f"(#exercise-{path.name[:2]}-") == announced
        targets = "".join(cell.source for cell in notebooks[path.stem].cells)
        assert targets.count(f"(exercise-{path.name[:2]}-") == announced
    count, hours = map(int, re.findall(r"^(\d+) exercises, (\d+) hours", page, re.M)[0])
    assert count == page.count("(#exercise-")
    minutes = re.findall(r"\| (\d+) \|$", page, re.M)
    assert len(minutes) == count
    assert hours == round(sum(map(int, minutes)) / 60)


def test_an_exercise_is_read_with_its_number_stars_and_minutes() -> None:
    text = "**3. The [mask](glossary.md#mask) (★★☆, 1 minute).** Do it.\n\n**4. No (star).**"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text)])
    found = site.exercises_of(notebook, "07_pretraining")
    assert found == [site.Exercise(3, "The mask", "★★☆", 1, "exercise-07-3")]
    assert notebook.cells[0].source == f"(exercise-07-3)=\n{text}"


def test_a_page_has_no_progress_bar_but_the_still_picture_of_a_widget() -> None:
    def output(**data: str) -> nbformat.NotebookNode:
        return nbformat.v4.new_output("display_data", {site.WIDGET: "x", **data})

    kept = nbformat.v4.new_output("stream", name="stdout", text="done")
    cell = nbformat.v4.new_code_cell(
        outputs=[
            output(**{"text/plain": "0%"}),
            output(**{"text/html": "<img>", "text/plain": "a"}),
            kept,
        ]
    )
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})
    site.without_widgets(notebook)
    assert notebook.metadata == {}
    assert [dict(one.get("data", {})) for one in cell.outputs] == [
        {"text/html": "<img>", "text/plain": "a"},
        {},
    ]


@pytest.mark.parametrize(
    ("heading", "address"),
    [
        ("causal mask", "causal-mask"),
        ('Which words should "it" listen to?', "Which-words-should-%22it%22-listen-to?"),
        ("Why ?", "Why-%24x-%2B-f(x)%24?"),  # Sphinx gives a heading without its formulas
        ("Learned, or learned by heart?", "Learned,-or-learned-by-heart?"),
    ],
)
def test_a_heading_and_its_address_in_jupyterlab_have_one_slug(heading: str, address: str) -> None:
    assert site.slug(heading) == site.slug(address)
    assert site.slug(heading) != site.slug(f"{heading} Not")


def test_links_to_other_pages_get_that_slug_and_other_links_stay() -> None:
    text = "[a](03_x.ipynb#Who,-me?) [b](glossary.md#F1) [c](https://x.org/a.md#B,c) [d](3.ipynb)"
    assert site.with_slugs(text) == text.replace("Who,-me?", "Who-me")


def test_each_module_of_the_package_stands_on_one_page() -> None:
    pages = "\n".join(map(site.api_page, [*site.MET, *site.ROOMS]))
    shown = re.findall(r"automodule:: (\S+)", pages)
    assert len(shown) == len(set(shown))
    files = [path.relative_to(ROOT) for path in (ROOT / "bertedu").rglob("*.py")]
    rooms = {".".join(path.with_suffix("").parts) for path in files if len(path.parts) > 2}
    assert {name for name in rooms if not name.endswith(".__init__")} <= set(shown)


def test_a_copied_page_brings_the_files_it_links_and_links_the_front_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    page = tmp_path / "here" / "page.md"
    page.parent.mkdir()
    (tmp_path / "LICENSE").write_text("free", encoding="utf-8")
    text = "[a](../README.md#start) [b](../LICENSE) [c](gone.py) [d](../x/y.ipynb#Why,-you?)"
    page.write_text(text, encoding="utf-8")
    site.copy_with_links(page, tmp_path / "src", "here/page.md")
    copied = (tmp_path / "src" / "here" / "page.md").read_text(encoding="utf-8")
    assert copied == text.replace("README", "index").replace("Why,-you?", "Why-you")
    assert (tmp_path / "src" / "LICENSE").read_text(encoding="utf-8") == "free"
    assert len(list((tmp_path / "src").rglob("*.*"))) == 1


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site-src")
    site.prepare(folder)
    return folder


def test_the_front_page_is_the_readme_and_leads_to_every_page(source: Path) -> None:
    front = (source / "index.md").read_text(encoding="utf-8")
    assert front.startswith((ROOT / "README.md").read_text(encoding="utf-8"))
    pages = [p for p in source.rglob("*.*") if p.suffix in {".md", ".rst", ".ipynb"}]
    names = {str(page.relative_to(source).with_suffix("")) for page in pages} - {"index"}
    names = {name.removesuffix(".md") for name in names}
    assert names == set(re.findall(r"^(?:\w+/)*[\w.]+$", front.split("```{toctree}", 1)[1], re.M))
    assert (source / "data" / "results" / "fill_blank.png").exists()


def test_the_repository_is_not_changed_by_it(source: Path) -> None:
    here = nbformat.read(NOTEBOOKS[3], as_version=4)
    there = nbformat.read(source / "notebooks" / NOTEBOOKS[3].name, as_version=4)
    assert "exercise-03-1" not in str(here)
    assert "exercise-03-1" in str(there)
    assert [cell.id for cell in here.cells] == [cell.id for cell in there.cells]
