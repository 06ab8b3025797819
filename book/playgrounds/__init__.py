"""The pages that move: their texts are here, their scripts in book/static/playgrounds."""

from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

RECORDED = Path(__file__).with_name("overoptimization.json")
SCRIPTS = ("recorded", "arithmetic", "controls", "playgrounds")


def add_scripts(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Only where there is something to move."""
    if pagename.startswith("book/playgrounds/") and pagename != "book/playgrounds/README":
        for name in SCRIPTS:
            app.add_js_file(f"playgrounds/{name}.js", loading_method="defer")


def write_recorded(app: Sphinx) -> None:
    """The recorded runs as a script, since a page opened from disk may not read other files."""
    path = Path(app.outdir) / "_static" / "playgrounds" / "recorded.js"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"const recorded = {RECORDED.read_text('utf-8').strip()};\n", "utf-8")
