"""python -m testcases.conformance.projects: run the pinned projects, and write record.json and the page of the book."""

from __future__ import annotations

import argparse
import json
import warnings
from datetime import date
from pathlib import Path
from typing import Any

from ..ppo_conformance import check
from .adapters import PROJECTS
from .sources import PINS, Sources, fetch

RECORD = Path(__file__).parent / "record.json"


def run(key: str, folder: Path) -> dict[str, Any]:
    """The reports of one project, by operation."""
    adapters = PROJECTS[key](Sources(key, fetch(key, folder)))
    reports = {}
    for name, adapter in adapters.items():
        report = check(
            adapter.function,
            name.partition(" (")[0],
            conventions=adapter.conventions,
            not_supported=adapter.not_supported,
            framework=adapter.framework,
            dtype=adapter.dtype,
        )
        reports[name] = {**report.to_dict(), "around": adapter.around}
        print(f"{PINS[key]['name']}: {report}\n", flush=True)
    return {**PINS[key], "operations": reports}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, default=Path("runs/conformance"), help="where the sources are, or go")
    parser.add_argument("--only", nargs="*", default=list(PROJECTS), help="projects, by their key in projects.toml")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    record = json.loads(RECORD.read_text()) if RECORD.is_file() else {"projects": {}}
    for key in options.only:
        record["projects"][key] = run(key, options.sources)
    record["run on"] = date.today().isoformat()
    record["projects"] = {key: record["projects"][key] for key in PROJECTS if key in record["projects"]}
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
