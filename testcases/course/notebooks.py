"""Run the notebooks: `make notebooks` refreshes their outputs, `make test` only checks that they run.

An error, a warning or any other line on stderr fails a notebook. What changes from run to run (counters, times,
kernel versions) is stripped, so that a second `make notebooks` leaves git clean.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_client.manager import AsyncKernelManager

if TYPE_CHECKING:
    from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SECONDS = 900
"""Of one cell: only one that hangs takes as long, also on a busy machine."""
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def all_notebooks() -> list[Path]:
    """The course's notebooks, in the order of the lessons."""
    return sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))


def read(path: Path) -> NotebookNode:
    """A notebook as it is stored."""
    import nbformat  # Here: it takes three seconds to load, and every process of `make test` would.

    return nbformat.read(path, as_version=4)


def run(path: Path, kernels: type[AsyncKernelManager] = AsyncKernelManager) -> NotebookNode:
    """Execute a notebook from its first cell to its last, in its own folder, and return it with clean outputs.

    Args:
        path: of the notebook.
        kernels: what starts its kernel.

    Raises:
        RuntimeError: a cell raised, or wrote to stderr (a warning, say), with the cell and what it said.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook = read(path)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        startup_timeout=SECONDS,
        kernel_name="python3",
        kernel_manager_class=kernels,
        extra_arguments=["--log-level=ERROR"],
        shutdown_kernel="immediate",
        coalesce_streams=True,  # Whether two lines arrive together changes from run to run.
        resources={"metadata": {"path": str(path.parent)}},
    )
    try:
        client.execute(env={"OMP_NUM_THREADS": "1", **os.environ})
    except CellExecutionError as error:
        raise RuntimeError(f"{path.name}: a cell raised\n{error}") from None
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise RuntimeError(f"{path.name}, cell {number}: expected no warning, got\n{output.text}")
    return stripped(notebook)


def stripped(notebook: NotebookNode) -> NotebookNode:
    """The notebook without what changes between two runs on one machine."""
    import nbformat

    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in ("tags",) if key in cell.metadata})
        if cell.cell_type == "code":
            cell.execution_count = None
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = None
    return notebook


def refresh(path: Path) -> str:
    """Execute a notebook and write its outputs back; return what failed, else ""."""
    import nbformat

    try:
        nbformat.write(run(path), path)
    except RuntimeError as error:
        return str(error)
    return ""


def main() -> int:
    """Refresh all notebooks, three at a time; 1 where one failed, the others go on."""
    paths, failures = all_notebooks(), []
    with ProcessPoolExecutor(3) as pool:
        for path, failure in zip(paths, pool.map(refresh, paths), strict=True):
            print(f"{path.name} ...", f"FAILED\n{failure}" if failure else "done", flush=True)
            failures.append(failure)
    return int(any(failures))


if __name__ == "__main__":
    sys.exit(main())
