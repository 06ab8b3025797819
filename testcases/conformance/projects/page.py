"""The book's page, from record.json and findings.toml."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from ..ppo_conformance import AGREES, operation, operations

RECORD = Path(__file__).parent / "record.json"
FINDINGS = Path(__file__).parent / "findings.toml"
PAGE = Path(__file__).parents[3] / "book/pages/conformance.md"
HIDDEN = ("padding=any", "differentiable=no")
"""Nearly every project has them; the text says so once."""
HEAD = """# Conformance: who agrees with whom

Do the projects that people use for training compute the same numbers? To find out, we took the functions that
compute PPO's quantities from the released sources of {projects} projects. On {date} we ran them, unchanged, on the
{cases} hand-worked cases of `ppo-conformance` {version} (`testcases/conformance/README.md`). This page is therefore
only about these versions, and it doesn't tell you how well a project trains. To repeat everything, run
`python -m testcases.conformance.projects`, or add `--only KEY` for a single project. This command downloads the wheels,
and tells you which checkouts it needs.

**How to read a row.** A project *agrees* if all its cases agree, perhaps under a convention that the project declares.
For each convention, we quote the place where the project declares it. A project *fails at a corner* if all ordinary
cases agree, but some special ones don't. The row gives you the id of one of these special cases to look at. And a
project *differs* if an ordinary case doesn't agree. (Ordinary cases are the plain ones and the ones with numbers under
the mask.) In parentheses you see how many cases of a kind don't agree. But a difference doesn't mean that the project
is wrong. Look at the case (`ppo-conform --case gae-response-gap-01`), read the code, and judge for yourself. A case can
also be wrong, and the README of `ppo-conformance` tells you how to convince us of that.

Since nearly every project declares the same two conventions, the rows don't repeat them. First, an answer can hold
anything on padding. Second, advantages and rewards carry no gradient. The rows also use four short phrases:

- "Left out" names what a project leaves to its caller, for example a mask with gaps. We skipped these cases, or ran
  them with finite numbers instead of NaN.
- "NaN enters" means that a NaN under the mask reaches the answer, because 0 * NaN is NaN. This matters only if padding
  can be NaN.
- "Six digits" means that the numbers agree to 2e-6 but not to 1e-9, for example because the function adds 1e-8 to a
  divisor or computes in float32.
- "Around the call" tells you what the project does before or after it calls the function. We did the same.

On {opened} we looked up every thread named on this page in a public archive of GitHub threads. The newest thread in the
archive is from September 2026, so some threads may have changed since then. When we say that a difference hasn't been
reported yet, we mean that we searched the archive on the same day and found nothing. If you'd like to report such a
difference yourself, you'll find a text for it in `testcases/conformance/projects/issues.md`. We searched only for the
differences in the next section, not for those in the other rows of the tables.

## The differences that you'd notice first
"""


def page() -> str:
    """Markdown."""
    record, findings = json.loads(RECORD.read_text()), tomllib.loads(FINDINGS.read_text())
    opened = findings.pop("opened")
    cases = [case for name in operations() for case in operation(name).cases]
    places = len({project["repository"] for project in record["projects"].values()})
    version = operation("gae").version
    dates = sorted({project["run on"] for project in record["projects"].values()})
    date = " and ".join(dates) if len(dates) < 3 else f"{dates[0]} to {dates[-1]}"
    counts = {"projects": places, "cases": len(cases), "version": version, "date": date, "opened": opened}
    text = HEAD.format(**counts)
    text += "".join(_finding(name, found, record) for name, found in findings.items())
    text += "\n## Operation by operation\n"
    for name in operations():
        rows = [
            _row(project, asked, report)
            for project in record["projects"].values()
            for asked, report in project["operations"].items()
            if asked.partition(" (")[0] == name
        ]
        if rows:
            of = operation(name)
            title = name.replace("_", " ")
            rule = re.sub(r"^[a-z](?=[a-z])", lambda first: first[0].upper(), of.rule)  # but not the r of r = ...
            text += f"\n### {title}\n\n{rule}. {len(of.cases)} cases. Source: {of.source}.\n\n"
            text += "| project | outcome | conventions, cases |\n|---|---|---|\n" + "".join(rows)
    return text


def _version(project: dict[str, Any]) -> str:
    return project["wheel"].partition("==")[2] if "wheel" in project else f"at {project['commit'][:7]}"


def _finding(name: str, found: dict[str, Any], record: dict[str, Any]) -> str:
    project = record["projects"][found.get("project", name)]
    report = project["operations"][found["operation"]]
    worst = max(report["differences"], key=lambda one: len(one["cases"]))
    lines = [
        f"\n**{project['name']} {_version(project)}, {found['operation']}.** {found['says']}",
        f"{found['setting']} {found['state']}",
        f"In case {worst['smallest']} we expected {_code(worst['expected'])} and got {_code(worst['got'])}.",
        f"To see the difference for yourself, along with an edit that makes all these cases agree, run "
        f"`python -m testcases.conformance.projects --finding {name}`.",
    ]
    return "\n".join(lines) + "\n"


def _row(project: dict[str, Any], asked: str, report: dict[str, Any]) -> str:
    variant = asked.partition(" (")[2].rstrip(")")
    name = f"{project['name']} {_version(project)}" + (f" ({variant})" if variant else "")
    around = [f"around the call: {report['around']}"] if report["around"] else []
    said = "; ".join(cells(project, asked.partition(" (")[0], report) + around).replace("|", "/")
    return f"| {name} | {_outcome(report)} | {said} |\n"


def _outcome(report: dict[str, Any]) -> str:
    only_nan = report["differences"] and all(one["kind"].startswith("nan ") for one in report["differences"])
    return "agrees, but NaN enters" if only_nan and not report["inferred"] else report["outcome"]


def cells(project: dict[str, Any], name: str, report: dict[str, Any]) -> list[str]:
    """What stands behind an outcome: each entry has the id of a case, or quotes the project's own text."""
    quotes = project.get("quotes", {})
    entries = [
        f"as {convention}: {quotes[convention][0]}, {_code(quotes[convention][1])}"
        for convention, _ in report["conventions"]
        if convention not in HIDDEN
    ]
    if _outcome(report).startswith(AGREES):
        digits = f", {len(report['six_digits'])} to six digits" if report["six_digits"] else ""
        entries.insert(0, f"{len(report['agreed'])} cases{digits}, {report['agreed'][0]} the first")
    for need, count in report["left_out"].items():
        first = next(case.id for case in operation(name).cases if need in case.needs)
        entries.append(f"left out: {need} ({count} case{'s' * (count > 1)}, {first} the first)")
    for one in report["differences"]:
        where = ", ".join(f"{at} ({report['fails_in'][at]})" for at in one["situations"])
        entries.append(f"{where}: {_what(one)} ({one['smallest']})")
    return entries


def _what(one: dict[str, Any]) -> str:
    if one["kind"].startswith("nan "):
        return "NaN enters"
    if one["kind"] == "value":
        return one["says"] or f"expected {_code(one['expected'])}, got {_code(one['got'])}"
    if one["kind"] == "gradient":
        return f"another gradient, {_code(one['got'])}"
    return f"it {one['kind']} {one['cause']}" if one["kind"] == "raises" else f"{one['kind']} {one['cause']}"


def _code(text: str) -> str:
    """Code in Markdown: between one backtick more than stand in a row in the text itself."""
    text = " ".join(text.split())
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"
