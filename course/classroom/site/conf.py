"""Settings of Sphinx for the course's website; `python -m course.classroom.site` builds it."""

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from course.language import in_korean, shim, spoken

HERE = Path(__file__).parent

project = html_title = "bertedu"
smartquotes = False  # in code they would be wrong, and JupyterLab has none
author = copyright = "The bertedu contributors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "sphinx.ext.viewcode"]

# notebooks are shown as they are committed
nb_execution_mode = "off"
nb_code_prompt_show = spoken("Show the code")
nb_code_prompt_hide = spoken("Hide the code")
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_heading_slug_func = "course.classroom.site.slug"

# docstrings set code in single backticks, as Markdown does
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "sphinx_book_theme"
templates_path = [str(HERE / "templates")]
html_static_path = [str(HERE / "static"), str(files("jupyter_server_mathjax") / "static")]
html_css_files = ["site.css"]
# a page opened as a file may not read the others: the search then shows titles alone
no_summary = 'if (location.protocol == "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false'
html_js_files: list[Any] = [(None, {"body": no_summary})]
if in_korean():
    suppress_warnings = ["docutils"]  # of Sphinx's own Korean: `Row`의 별칭
    html_js_files += [(None, {"body": f"addEventListener('load', () => {{{shim()}}})"})]
html_copy_source = False
html_search_scorer = str(HERE / "scorer.js")
html_theme_options: dict[str, Any] = {
    "use_download_button": False,
    "article_header_end": ["language.html", "article-header-buttons.html"],
    "show_toc_level": 2,
    "max_navbar_depth": 1,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# in a workflow of GitHub, every page links its notebook, there and on Binder
if repository := os.environ.get("GITHUB_REPOSITORY"):
    html_theme_options |= {
        "repository_url": f"https://github.com/{repository}",
        "repository_branch": os.environ.get("GITHUB_REF_NAME", "main"),
        "use_repository_button": True,
        "launch_buttons": {
            "binderhub_url": "https://mybinder.org",
            "notebook_interface": "jupyterlab",
        },
    }
# MathJax 2, from the pages' own folder
mathjax_path = "MathJax.js?config=TeX-AMS-MML_HTMLorMML-full"
mathjax2_config = {
    "messageStyle": "none",
    "showMathMenu": False,  # it would make every formula a stop of the Tab key
    "tex2jax": {"processClass": "math"},
    "HTML-CSS": {"availableFonts": [], "webFont": "STIX-Web", "imageFont": None},  # what lies there
}
myst_update_mathjax = False  # it would write the settings of MathJax 4


def speak(app: Sphinx) -> None:
    """Let the theme say in Korean what neither it nor Sphinx has Korean for."""
    known = app.builder.templates.environment.globals
    theirs = known["gettext"]
    known["gettext"] = lambda text, **values: spoken(theirs(text, **values))


def setup(app: Sphinx) -> None:
    """Leave out the fields of named tuples, of which Python only says their number."""
    app.connect("builder-inited", speak)
    number = "Alias for field number"
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, member, skip, options: (
            skip or str(getattr(member, "__doc__", "")).startswith(number)
        ),
    )
