"""How Sphinx builds the book. `make book` first writes the pages that are made from code: book/stage.py."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from sphinx.search.en import SearchEnglish

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def _stamp() -> str:
    """The version, and the commit where there is one."""
    from ppo_by_hand import __version__ as version

    git = ["git", "-C", str(ROOT), "log", "-1", "--format=%h, %cs"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, timeout=10).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        commit = ""
    return f"{version} ({commit})" if commit else version


sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # a tenth of the build: grammars no notebook needs
SearchEnglish.stem = cache(SearchEnglish.stem)  # type: ignore[method-assign]  # another tenth: each word once

project = "PPO by Hand"
author = "the authors of PPO by Hand"
release = _stamp()

extensions = ["myst_nb", "sphinx.ext.githubpages", "sphinx.ext.mathjax", "sphinx_copybutton", "book.extension"]
root_doc = "README"
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
include_patterns = ["README.md", "tutorial/**.md", "notebooks/*.md", "notebooks/*.ipynb", "testcases/grader/schema.md"]
include_patterns += ["testcases/conformance/README.md"]
include_patterns += ["book/pages/*.md", "book/playgrounds/*.md", "book/made/*.md"]
exclude_patterns = [".*", "**/.*", "**/__pycache__", "runs", "solutions", "tiny_models"]  # none of these is walked
exclude_patterns += [
    "book/pages/editors.md",
    "testcases/[!cg]*",
    "testcases/grader/[!s]*",
    "testcases/conformance/[!R]*",
]

nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show, nb_code_prompt_hide = "The code", "The code"
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_dmath_allow_labels = False
myst_heading_anchors = 4
myst_links_external_new_tab = False
math_number_all = False
highlight_language = "none"
copybutton_exclude = ".linenos, .gp, .go"

# The package has MathJax's files. Its own extension copies all of them, and would not let pages be read in parallel.
mathjax = find_spec("sphinx-mathjax-offline").submodule_search_locations[0]
mathjax_path = "mathjax/tex-chtml.js"
mathjax3_config = {"options": {"enableMenu": False}, "chtml": {"scale": 0.92}}
exclude_patterns += ["mathjax/[!ot]*", "mathjax/tex-[!c]*", "mathjax/tex-chtml-*", "mathjax/output/svg*"]

html_theme = "furo"
html_title = "PPO by Hand"
html_static_path = ["static", f"{mathjax}/static"]
html_search_scorer = str(ROOT / "book" / "scorer.js")
html_css_files = ["book.css"]
html_js_files = [("book.js", {"defer": "defer"})]
templates_path = ["templates"]
html_copy_source = False
html_use_index = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
