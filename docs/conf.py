"""The site: `pip install -c constraints.txt -e '.[docs]'`, then `sphinx-build -W -c docs . site`; see README.md."""

import re
from pathlib import Path

from sphinx.application import Sphinx

from seq2seq_chat import __version__ as release

project = "seq2seq-chat"
author = "seq2seq-chat contributors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
include_patterns = ["*.md", "docs/**.md"]
root_doc = "docs/README"
html_theme = "furo"
html_theme_options = {"top_of_page_buttons": []}
html_title = f"{project} {release}"
myst_heading_anchors = 4
nb_execution_mode = "cache"  # a notebook is executed again if its cells have changed
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True
autodoc_typehints = "description"

ACCESSIBLE = {
    '<p class="caption" role="heading"': '<p class="caption" role="heading" aria-level="2"',
    '<aside class="sidebar-drawer"': '<aside class="sidebar-drawer" aria-label="Pages"',
    '<aside class="toc-drawer"': '<aside class="toc-drawer" aria-label="On this page"',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    "<pre>": '<pre tabindex="0">',
    '<div id="search-results"': '<h1>Search</h1><div id="search-results"',
}
"""What the theme lacks for screen readers and the keyboard."""


def add_navigation(app: Sphinx, page: str, content: list[str]) -> None:
    """Derive the navigation from the tables of the index, so that there is one list of the pages."""
    if page == root_doc:
        listed: dict[str, None] = {}
        sections = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", content[0], re.MULTILINE | re.DOTALL)
        root = "".join(f"](../{name.stem}.md)" for name in sorted(Path(app.srcdir).glob("*.md")))
        for title, section in [*sections, ("Project", root)]:
            found = dict.fromkeys(re.findall(r"\]\(([\w./-]+)\.md", section))
            pages = "\n".join(one for one in found if one not in listed)
            listed |= found
            content[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{pages}\n```\n"


def make_accessible(app: Sphinx, error: Exception | None) -> None:
    """Mend what the theme has written; pages that an earlier build wrote stay as they are."""
    for file in Path(app.outdir).rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        for old, new in ACCESSIBLE.items():
            text = text if new in text else text.replace(old, new)
        file.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", make_accessible)
