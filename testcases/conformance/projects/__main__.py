"""python -m testcases.conformance.projects: run the pinned projects, and write record.json and the page of the book.

--finding NAME: one finding of findings.toml, as it is and with its edit.
"""

import argparse
import json
import subprocess
import tomllib
import warnings
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from ..ppo_conformance import Report, check
from .adapters import PROJECTS, Adapter
from .page import FINDINGS, PAGE, RECORD, page
from .sources import PINS, Sources, fetch

UNAVAILABLE = (ImportError, FileNotFoundError, subprocess.CalledProcessError)
"""jax or scipy is not installed; a checkout is missing; a registry does not answer."""


def report_of(adapter: Adapter, operation: str) -> Report:
    """The report of one function; an operation may have several, told apart in brackets."""
    return check(
        adapter.function,
        operation.partition(" (")[0],
        conventions=adapter.conventions,
        not_supported=adapter.not_supported,
        framework=adapter.framework,
        dtype=adapter.dtype,
    )


def run(key: str, folder: Path) -> dict[str, Any]:
    """The reports of one project, by operation."""
    sources, reports = Sources(key, fetch(key, folder)), {}
    for convention, (file, text) in PINS[key].get("quotes", {}).items():
        if " ".join(text.split()) not in " ".join(sources.text(file).split()):
            raise ValueError(f"{key}: {file} does not say {text!r}, which is quoted for {convention}")
    for operation, adapter in PROJECTS[key](sources).items():
        report = report_of(adapter, operation)
        reports[operation] = {"outcome": report.outcome, **asdict(report), "around": adapter.around}
        print(f"{PINS[key]['name']}: {report}\n", flush=True)
    return {**PINS[key], "run on": date.today().isoformat(), "operations": reports}


def finding(name: str, folder: Path) -> tuple[Report, Report]:
    """The report of a finding's function, and that of the same function with the finding's edit."""
    found = _findings()[name]
    key, operation = found.get("project", name), found["operation"]
    place = fetch(key, folder)
    as_it_is = report_of(PROJECTS[key](Sources(key, place))[operation], operation)
    edits = {found["file"]: tuple(zip(found["old"], found["new"], strict=True))}
    return as_it_is, report_of(PROJECTS[key](Sources(key, place, edits))[operation], operation)


def _findings() -> dict[str, Any]:
    return {name: one for name, one in tomllib.loads(FINDINGS.read_text()).items() if name != "opened"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=Path, default=Path("runs/conformance"), help="where the sources are, or go")
    keys = list(PROJECTS)
    parser.add_argument("--only", nargs="*", metavar="KEY", choices=keys, default=keys, help="keys of projects.toml")
    parser.add_argument("--finding", choices=_findings(), help="one of findings.toml")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        if options.finding:
            print(*finding(options.finding, options.sources), sep="\n\nwith the edit:\n")
        elif missing := _record(options.only, options.sources):
            parser.error("; ".join(missing))
    except UNAVAILABLE as error:
        parser.error(str(error))


def _record(keys: list[str], folder: Path) -> list[str]:
    """Run these projects, and say which could not be had: those keep what was recorded, with its date."""
    record, missing = json.loads(RECORD.read_text()), []
    for key in keys:
        names = [name for name, one in _findings().items() if one.get("project", name) == key]
        try:
            record["projects"][key] = run(key, folder)
            record["with the edits"] |= {name: finding(name, folder)[1].outcome for name in names}
        except UNAVAILABLE as error:
            missing.append(f"{key} was not run: {error}")
    record["projects"] = {key: record["projects"][key] for key in PROJECTS if key in record["projects"]}
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page())
    return missing


if __name__ == "__main__":
    main()
