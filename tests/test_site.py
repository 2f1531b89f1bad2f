"""The website of the course: what is made of the repository's own files."""

import base64
import re
from pathlib import Path

import nbformat
import pytest

from course.classroom import site
from course.classroom.site.__main__ import main

ROOT = site.ROOT
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site-src")
    site.prepare(folder)
    return folder


def test_every_star_of_every_notebook_is_an_exercise_of_the_list(source: Path) -> None:
    page = (source / "exercises.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        here, there = (nbformat.read(folder / path.name, 4) for folder in (
            path.parent, source / "notebooks"))  # fmt: skip
        texts = [cell.source for cell in here.cells if cell.cell_type == "markdown"]
        announced = re.findall(r"^\*\*(\d+)\. .*★", "\n".join(texts), re.M)
        assert announced
        assert re.findall(rf"\(#exercise-{path.name[:2]}-(\d+)\)", page) == announced
        targets = "\n".join(cell.source for cell in there.cells)
        found = re.findall(rf"^\(exercise-{path.name[:2]}-(\d+)\)=\n\*\*\1\. ", targets, re.M)
        assert found == announced
        assert "(exercise-" not in str(here)  # the repository is not changed by it
        assert [cell.id for cell in here.cells] == [cell.id for cell in there.cells]
        assert "widget" not in str(there.metadata) + str([c.get("outputs") for c in there.cells])
    count, hours = map(int, re.findall(r"^(\d+) exercises, (\d+) hours", page, re.M)[0])
    minutes = [int(number) for number in re.findall(r"\| ★[★☆]* \| (\d+) \|$", page, re.M)]
    assert count == page.count("(#exercise-") == len(minutes)
    assert hours == round(sum(minutes) / 60)


@pytest.mark.parametrize(
    ("heading", "address"),
    [
        ("causal mask", "causal-mask"),
        ('Which words should "it" listen to?', "Which-words-should-%22it%22-listen-to?"),
        ("Why ?", "Why-%24x-%2B-f(x)%24?"),  # Sphinx gives a heading without its formulas
        ("Add, do not replace: ", "Add,-do-not-replace:-%24x-%2B-f%28x%29%24"),
        ("Learned, or learned by heart?", "Learned,-or-learned-by-heart?"),
    ],
)
def test_a_heading_and_its_address_in_jupyterlab_have_one_slug(heading: str, address: str) -> None:
    assert site.slug(heading) == site.slug(address)
    assert site.slug(heading) != site.slug(f"{heading} Not")


def test_no_folder_of_others_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of mine").touch()
    monkeypatch.setattr("sys.argv", ["site", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert (tmp_path / "of mine").exists()


def test_the_letters_of_a_picture_stay_legible_in_a_column_of_any_width() -> None:
    sizes = b"".join(size.to_bytes(4, "big") for size in (1400, 200))
    png = base64.b64encode(bytes(16) + sizes + b"tEXtType\x009.5 pt").decode()
    whole = f'<img alt="wide" style="max-width: 100%" src="data:image/png;base64,{png}">'
    least = 1400 * 11 / (9.5 * 4 / 3)
    assert f'style="min-width: {least:.0f}px; max-width: 100%"' in site.legible(whole)


def test_each_module_of_the_package_stands_on_one_page() -> None:
    pages = "\n".join(map(site.api_page, [*site.MET, *site.ROOMS]))
    shown = re.findall(r"automodule:: (\S+)", pages)
    assert len(shown) == len(set(shown))
    files = [path.relative_to(ROOT) for path in (ROOT / "bertedu").rglob("*.py")]
    names = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    assert {name for name in shown if name.startswith("bertedu")} <= names
    assert {name for name in names if name.count(".") > 1} <= set(shown)


def test_a_copied_page_brings_the_files_it_links_and_links_pages_by_slug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    page = tmp_path / "here" / "page.md"
    page.parent.mkdir()
    (tmp_path / "LICENSE").write_text("free", encoding="utf-8")
    text = "[a](../README.md#start) [b](../LICENSE) [c](gone.py) [d](../x/y.ipynb#Why,-you?) "
    text += "[e](https://x.org/a.md#B,c)"
    page.write_text(text, encoding="utf-8")
    site.copy_with_links(page, tmp_path / "src", "here/page.md")
    copied = (tmp_path / "src" / "here" / "page.md").read_text(encoding="utf-8")
    assert copied == text.replace("Why,-you?", "Why-you")
    assert (tmp_path / "src" / "LICENSE").read_text(encoding="utf-8") == "free"
    assert len(list((tmp_path / "src").rglob("*.*"))) == 1


def test_the_front_page_welcomes_and_leads_to_every_page(source: Path) -> None:
    front = (source / "index.md").read_text(encoding="utf-8")
    assert 'href="notebooks/bert-L4H128.weights.js"' in front, "the blank is not alive"
    for path in NOTEBOOKS:
        title = site.heading(nbformat.read(path, 4))
        line = re.search(rf"\[{re.escape(title)}\]\(notebooks/{path.stem}.ipynb\)  \n(.*)", front)
        assert re.match(r"  \d+ minutes\. You will \w+", line[1]), line[1]
    for link in re.findall(r"\]\(([\w/.]+)\)", front):
        assert (source / link).is_file(), link
    pages = [p for p in source.rglob("*.*") if p.suffix in {".md", ".rst", ".ipynb"}]
    names = {str(page.relative_to(source).with_suffix("")) for page in pages} - {"index"}
    listed = front.split("```{toctree}", 1)[1] + (source / "api" / "index.rst").read_text("utf-8")
    found = set(re.findall(r"^ *((?:\w+/)*[\w.]+)$", listed, re.M))
    assert names - {f"api/{name}" for name in found} <= found
    assert (source / "data" / "results" / "fill_blank.png").exists()
