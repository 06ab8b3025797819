"""JupyterLab in a real browser: a reader opens a notebook and runs all its cells."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from testcases.course.browser import QUIET, launched
from testcases.course.students import HANGS, course_copy
from testcases.harness.catalog.lessons import ROOT

MISSING = [name for name in ("jupyterlab", "playwright") if find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; make lab installs them"),
]

TOKEN = "browser-test"

READY = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    return panel?.context?.isReady && panel.sessionContext.session?.kernel?.status === "idle";
}"""
OUTCOME = """() => {
    const panel = window.jupyterapp.shell.currentWidget;
    const cells = [...panel.content.model.cells].filter(cell => cell.type === "code");
    const outputs = cells.flatMap(cell => cell.outputs.toJSON());
    const bad = outputs.filter(output => output.output_type === "error" || output.name === "stderr");
    const done = cells.every(cell => cell.executionCount) && panel.sessionContext.session.kernel.status === "idle";
    return bad.length || done ? {bad, cells: cells.length} : null;
}"""


def _dry_run(target: str) -> list[str]:
    return subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture(scope="module")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab on a copy of the course, without anybody's settings."""
    folder = course_copy(tmp_path_factory.mktemp("course"))
    home = folder / "home"
    environment = {f"JUPYTER_{kind.upper()}_DIR": str(home / kind) for kind in ("config", "data", "runtime")}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "OMP_NUM_THREADS": "1"}
    home.mkdir()
    # Those of `make lab`, and a server that this test finds.
    (line,) = [line for line in _dry_run("lab") if "-m jupyterlab" in line]
    options = [*line.split("-m jupyterlab")[1].split(), "--no-browser", "--expose-app-in-browser"]
    options += ["--ServerApp.port=0", f"--IdentityProvider.token={TOKEN}"]
    with (home / "log.txt").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            cwd=folder,
            env=os.environ | environment,
            stdout=log,
            stderr=log,
        )
        try:
            yield _address(home / "runtime", server, home / "log.txt")
        finally:
            server.terminate()
            server.wait(HANGS)


def _address(runtime: Path, server: subprocess.Popen[bytes], log: Path) -> str:
    """The server takes a free port and writes down which, a little before it answers."""
    end = time.monotonic() + HANGS
    while server.poll() is None and time.monotonic() < end:
        for path in runtime.glob("jpserver-*.json"):
            with suppress(json.JSONDecodeError, URLError):
                url = json.loads(path.read_text("utf-8"))["url"]
                urlopen(f"{url}api", timeout=HANGS).close()
                return url
        time.sleep(0.05)
    raise RuntimeError(f"expected JupyterLab to start, got\n{log.read_text('utf-8')}")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """What it has read of JupyterLab serves the next notebook as well."""
    with launched(chromium, QUIET) as context:
        yield context


def test_all_cells_run_and_the_figure_with_sliders_is_drawn(lab: str, page: Any) -> None:
    page.goto(f"{lab}lab/tree/notebooks/04_gae.ipynb?token={TOKEN}&reset")
    page.wait_for_function(READY)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    outcome = page.wait_for_function(OUTCOME).json_value()
    assert outcome["bad"] == [] and outcome["cells"] > 5
    page.wait_for_selector(".widget-interact img")
