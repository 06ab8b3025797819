"""Gradescope and GitHub Classroom can read their files, and those in ready/ fit their schemas; most is never run."""

import base64
import json
import re
import shlex
import stat
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from testcases.grader.marking.assignment import from_dict
from testcases.grader.reports import classroom, gradescope
from testcases.grader.reports.sheets import Sheet
from testcases.grader.tests.reports.data import CAUSE, exercise, put, result, sheet
from testcases.grader.tests.running import LONGEST
from testcases.harness.catalog.lessons import ROOT


def test_gradescope_fields():
    data = gradescope.results(sheet(result()))
    assert data["score"] == 3 and type(data["execution_time"]) is float
    assert [(t["number"], t["score"], t["max_score"], t["status"]) for t in data["tests"]] == [
        ("1.1", 2, 2, "passed"),
        ("1.2", 1, 4, "failed"),
    ]
    assert CAUSE in data["tests"][1]["output"] and data["tests"][1]["tags"] == ["wrong"]
    for key in ("output_format", "test_output_format", "test_name_format"):
        assert data[key] == "text"
    assert data["visibility"] == "visible" and data["stdout_visibility"] == "hidden"


def test_gradescope_gets_no_score_without_a_verdict():
    mixed = sheet(result(exercises={"a": exercise(), "td_errors": exercise(0, 2, "grader-error")}))
    for one in (Sheet("ann", "ann"), mixed):
        data = gradescope.results(one)
        assert "score" not in data and data["tests"] == [] and "GRADER ERROR" in data["output"]


def test_the_autograder_zip(tmp_path: Path):
    path = tmp_path / "autograder.zip"
    gradescope.main(["zip", str(path), "--lessons", "1, 4", "--points", "20"])
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        for name in ("setup.sh", "run_autograder"):
            info = archive.getinfo(name)
            assert info.create_system == 3 and stat.S_IMODE(info.external_attr >> 16) & 0o111 == 0o111
            assert archive.read(name).startswith(b"#!/usr/bin/env bash\n") and b"\r" not in archive.read(name)
        assert "course/Makefile" in names and "course/testcases/grader/reports/templates/base.html" in names
        assert not [name for name in names if "__pycache__" in name or ".venv" in name or ".git/" in name]
        text = archive.read("course/assignment.toml").decode()
    asked = from_dict(tomllib.loads(text))
    assert asked.lessons == ("lesson01_masked_sequences", "lesson04_gae") and asked.total == 20
    assert path.read_bytes() == gradescope.make_autograder_zip(tmp_path / "again.zip", text).read_bytes()


FAKE_PYTHON = """\
#!/bin/sh
case "$2" in *.gradescope) exec {python} "$@" ;; esac
printf '%s\\n' "$*" >> {folder}/calls
case "{refuses} $*" in "yes "*"--sandbox none"*) ;; yes*) exit 2 ;; esac
[ -e {folder}/result.json ] || exit 1
mkdir -p "$5/results" && cp {folder}/result.json "$5/results/submission.json"
ls -l "$3/submission" > {folder}/seen
"""


@pytest.mark.parametrize("refuses", [False, True], ids=["sandboxed", "refused"])
@pytest.mark.parametrize("works", [True, False], ids=["verdict", "grader-fails"])
def test_run_autograder_always_writes_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: bool, works: bool
):
    for folder in ("submission/lesson04_gae", "source/course", "results", "venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "submission" / "link").symlink_to("/etc/passwd")
    python = tmp_path / "venv/bin/python"
    words = {"python": shlex.quote(sys.executable), "folder": tmp_path, "refuses": "yes" if refuses else "no"}
    python.write_text(FAKE_PYTHON.format(**words))
    python.chmod(0o755)
    if works:
        data = result("submission", sandbox="none" if refuses else "bwrap")
        (tmp_path / "result.json").write_text(json.dumps(data))
    (tmp_path / "run").write_text(gradescope.RUN.replace("/autograder", str(tmp_path)))
    monkeypatch.setenv("PYTHONPATH", str(gradescope.ROOT))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    subprocess.run(["bash", str(tmp_path / "run")], timeout=LONGEST)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [("--sandbox none" in call) for call in calls] == ([False, True] if refuses else [False])
    written = json.loads((tmp_path / "results" / "results.json").read_text("utf-8"))
    if works:
        assert written["score"] == 3 and ("NOT SANDBOXED" in written["output"]) == refuses
        assert "link -> /etc/passwd" in (tmp_path / "seen").read_text()
    else:
        assert "score" not in written and written["tests"] == [] and "GRADER ERROR" in written["output"]


def test_classroom_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    bad = exercise(1, 4, "wrong", told="::error::x\n##[group]\n" + "y" * 1000)
    out = put(tmp_path, result(exercises={"td_errors": exercise(), "compute_gae": bad}, notes=["::set-env name=x::y"]))
    target = tmp_path / "output"
    target.touch()
    monkeypatch.setenv("GITHUB_OUTPUT", str(target))
    monkeypatch.setattr("sys.argv", ["classroom", str(out)])
    assert classroom.main() == 0
    (line,) = target.read_text().splitlines()
    data = json.loads(base64.b64decode(line.removeprefix("result=")))
    assert (data["version"], data["status"], data["max_score"]) == (3, "fail", 6)
    assert [(test["score"], test["status"]) for test in data["tests"]] == [(2, "pass"), (1, "fail")]
    assert len(data["tests"][1]["output"]) <= 500
    shown = capsys.readouterr().out + data["tests"][1]["output"]
    assert not re.search(r"^\s*::|##\[", shown, re.MULTILINE)
    (out / "results" / "r0000.json").write_text("{", "utf-8")
    assert classroom.main() == 1
    assert json.loads(base64.b64decode(target.read_text().splitlines()[1].removeprefix("result=")))["status"] == "error"


READY = Path(gradescope.__file__).parents[1] / "ready"
CONTAINER, CLASSROOM = ((READY / name).read_text("utf-8") for name in ("Containerfile", "github-classroom.yml"))
WORKFLOWS = [CLASSROOM, *(path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))]


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.xdist_group("nbformat")  # which loads jsonschema as well: three seconds
def test_workflows_fit_githubs_schema():
    from check_jsonschema.builtin_schemas import get_builtin_schema
    from jsonschema import Draft7Validator

    validator = Draft7Validator(get_builtin_schema("vendor.github-workflows"))
    for text in WORKFLOWS:
        # YAML takes "on" for a truth value.
        read = [yaml.safe_load(one.replace("\non:", '\n"on":')) for one in (text, text.replace("runs-on:", "run-on:"))]
        assert [validator.is_valid(one) for one in read] == [True, False], list(validator.iter_errors(read[0]))
    named = {step["name"]: step for step in steps(CLASSROOM) if "name" in step}
    assert "make check" in named["Grade"]["run"] and named["Grade"]["id"] == "check"
    assert named["Autograding Reporter"]["with"]["runners"] == "check"
    assert "CHECK_RESULTS" in named["Autograding Reporter"]["env"]


def test_shell_scripts_pass_shellcheck(tmp_path: Path):
    # What GitHub fills in is a word to the shell.
    runs = [re.sub(r"\$\{\{.*?\}\}", "w", step["run"]) for text in WORKFLOWS for step in steps(text) if "run" in step]
    texts = [gradescope.SETUP, gradescope.RUN, (ROOT / ".ci/run").read_text("utf-8")]
    texts += [f"#!/usr/bin/env bash\n{run}" for run in runs]
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text, "utf-8")
    command = [str(Path(sys.executable).with_name("shellcheck")), *map(str, range(len(texts)))]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_container_holds_what_grading_needs_and_make_knows_what_it_is_given():
    lines = [line.split() for line in re.sub(r"\\\n", " ", CONTAINER).splitlines() if line and line[0] != "#"]
    assert lines[0][0] == "FROM" and ["USER", "1000:1000"] in lines
    copied = {name for line in lines if line[0] == "COPY" for name in line[1:-1]}
    assert all((ROOT / name).exists() for name in copied) and copied >= set(gradescope.CARRIED)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for name in re.findall(r"(?<![\w$-])(OUT|[A-Z]{5,})(?==)", CONTAINER + CLASSROOM.replace("CHECK_RESULTS", "")):
        assert f"$({name})" in makefile or f"export {name} ?=" in makefile, name
