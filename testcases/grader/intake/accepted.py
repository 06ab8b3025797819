"""Files that are taken for one of the course's because the instructor said so: OUT/accepted.csv, which only grows.

student,file,taken_as,when
ann,lesson04_gae/gae (1).py,lesson04_gae/gae.py,2026-11-23T10:15+00:00
"""

import csv
import io
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

FILE = "accepted.csv"
COLUMNS = ("student", "file", "taken_as", "when")
MAX_BYTES = 16 * 2**20
Taken = tuple[tuple[str, str, str], ...]
"""File, what it is taken as, and since when."""


def read(out: Path) -> dict[str, Taken]:
    """Student -> what was accepted.

    Raises:
        ValueError: the file is not as it was written.
        OSError: it cannot be read.
    """
    path = out / FILE
    if not path.exists():
        return {}
    rows = list(csv.DictReader(io.StringIO(path.read_text("utf-8")[:MAX_BYTES], newline="")))
    if rows and set(rows[0]) != set(COLUMNS):
        raise ValueError(f"{FILE}: expected the columns {', '.join(COLUMNS)}, got {', '.join(map(str, rows[0]))}")
    found: dict[str, Taken] = {}
    for row in rows:
        found[row["student"]] = (*found.get(row["student"], ()), (row["file"], row["taken_as"], row["when"]))
    return found


def add(out: Path, student: str, proposals: Iterable[tuple[str, str]]) -> Taken:
    """Write down that these were accepted, and when."""
    path, when = out / FILE, datetime.now(UTC).isoformat(timespec="minutes")
    taken = tuple((file, path, when) for file, path in proposals)
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow(COLUMNS)
        writer.writerows((student, *one) for one in taken)
    return taken


def code_of(notebook: bytes) -> bytes:
    """The code cells of a notebook, without the lines that only a notebook understands; any other text as it is."""
    try:
        cells = json.loads(notebook)["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return notebook
    lines = "\n\n".join(texts).splitlines()
    return ("\n".join(line for line in lines if line.lstrip()[:1] not in ("%", "!")) + "\n").encode()
