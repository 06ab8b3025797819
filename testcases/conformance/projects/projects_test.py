"""The page about other projects: every cell can be looked up, and what is said was run."""

import json
import re
import tomllib

import pytest
from markdown_it import MarkdownIt

from testcases.conformance.ppo_conformance import operation, operations
from testcases.conformance.ppo_conformance.slow import gae_response
from testcases.conformance.projects import page
from testcases.conformance.projects.sources import PINS

RECORD = json.loads(page.RECORD.read_text())
FINDINGS = tomllib.loads(page.FINDINGS.read_text())
OPENED = FINDINGS.pop("opened")
ISSUES = page.FINDINGS.with_name("issues.md").read_text("utf-8")
IDS = {case.id for name in operations() for case in operation(name).cases}
CELLS = [
    pytest.param(project, asked.partition(" (")[0], report, id=f"{key}-{asked}")
    for key, project in RECORD["projects"].items()
    for asked, report in project["operations"].items()
]


def test_the_page_is_made_from_the_record():
    assert page.PAGE.read_text() == page.page(), "run python -m testcases.conformance.projects, or page.page() alone"


def test_what_is_quoted_is_code_to_its_end():
    """A docstring's own backticks once ended the quotation, and the book was not built."""
    tokens = MarkdownIt().enable("table").parse(page.page())
    parts = [part for token in tokens for part in token.children or ()]
    assert any(part.type == "code_inline" and "``done``" in part.content for part in parts)
    assert not [part.content for part in parts if part.type == "text" and "`" in part.content]


def test_what_was_run_is_what_is_pinned():
    for key, project in RECORD["projects"].items():
        assert project == {**PINS[key], "run on": project["run on"], "operations": project["operations"]}, (
            "run it again"
        )
    assert list(RECORD["projects"]) == list(PINS)
    of_findings = {found.get("project", name) for name, found in FINDINGS.items()}
    assert max(RECORD["projects"][key]["run on"] for key in of_findings) <= OPENED, "open the threads again"
    assert all("wheel" in pin or len(pin["commit"]) == 40 for pin in PINS.values())


@pytest.mark.parametrize("project, name, report", CELLS)
def test_each_cell_has_a_case_or_a_quotation(project, name, report):
    entries = page.cells(project, name, report)
    assert entries
    for entry in entries:
        ids = re.findall(r"\b[a-z][a-z-]+-\d\d\b", entry)
        assert set(ids) <= IDS
        assert ids or re.search(r"as \S+=.*: \S+\.py, `.+`", entry), entry
    assert not report["inferred"], "a convention of a project is declared, or it is a difference"
    assert report["version"] == operation(name).version


def test_no_verdict_is_given():
    text = " ".join(page.page().split())
    for about_cases in ("doesn't mean that the project is wrong", "can also be wrong"):
        text = text.replace(about_cases, "")
    assert not re.search(r"\b(bugs?|wrong|broken|incorrect|fails? to)\b", text)


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_is_in_the_record_with_its_threads(name):
    found = FINDINGS[name]
    report = RECORD["projects"][found.get("project", name)]["operations"][found["operation"]]
    assert report["differences"] and found["setting"]
    assert all(thread in found["state"] for thread in found["threads"])
    assert len(found["old"]) == len(found["new"]) > 0
    assert RECORD["with the edits"][name] == "agrees"
    assert found["issue"] == ("been reported yet to " in found["state"])
    assert found["issue"] == (f"\n## {name}: " in ISSUES)


def test_the_numbers_of_the_text_about_gaps():
    numbers = []
    for gap in (0, 1, 20, 100):
        mask = [[True] * 2 + [False] * gap + [True] * 2]
        rewards, values = [[0.0] * (3 + gap) + [1.0]], [[0.5 * real for real in mask[0]]]
        both = [gae_response(rewards, values, mask, 1.0, 0.95, masked=masked) for masked in ("skipped", "zeroed")]
        numbers.append([round(made["advantages"][0][0], 4) for made in both])
    assert numbers == [[0.4287, 0.4287], [0.4287, 0.3835], [0.4287, -0.151], [0.4287, -0.4696]]
    assert all(str(number) in ISSUES for number in numbers[2])
