"""The ready files: against their schemas, and through shellcheck. Nothing is run."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from testcases.grader.reports import classroom, gradescope
from testcases.harness.catalog.lessons import ROOT

READY = Path(__file__).parents[2] / "ready"
CONTAINER = (READY / "Containerfile").read_text("utf-8")
OWN = {path.stem: path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
WORKFLOWS = {"classroom": classroom.WORKFLOW, **OWN}


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow)["jobs"].values() for step in job["steps"]]


def test_workflows_fit_githubs_schema():
    from check_jsonschema.builtin_schemas import get_builtin_schema
    from jsonschema import Draft7Validator

    validator = Draft7Validator(get_builtin_schema("vendor.github-workflows"))
    for text in WORKFLOWS.values():
        # YAML takes "on" for a truth value.
        read = [yaml.safe_load(one.replace("\non:", '\n"on":')) for one in (text, text.replace("runs-on:", "run-on:"))]
        assert [validator.is_valid(one) for one in read] == [True, False], list(validator.iter_errors(read[0]))


def test_shell_scripts_pass_shellcheck(tmp_path: Path):
    texts = {"setup": gradescope.SETUP, "run": gradescope.RUN}
    texts["ci"] = (ROOT / ".ci" / "run").read_text("utf-8")
    for name, workflow in WORKFLOWS.items():
        for i, run in enumerate(step["run"] for step in steps(workflow) if "run" in step):
            # What GitHub fills in is a word to the shell.
            texts[f"{name}{i}"] = "#!/usr/bin/env bash\n" + re.sub(r"\$\{\{.*?\}\}", "w", run)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    command = [str(Path(sys.executable).with_name("shellcheck")), *sorted(texts)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_container_holds_what_grading_needs():
    text = re.sub(r"\\\n", " ", CONTAINER)
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert lines[0][0] == "FROM" and {line[0] for line in lines} == known
    assert ["USER", "1000:1000"] in lines
    copied = {name for line in lines if line[0] == "COPY" for name in line[1:-1]}
    assert all((ROOT / name).exists() for name in copied) and copied >= set(gradescope.CARRIED)


def test_what_make_is_given_exists():
    """In a command, or among the variables of the environment."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for text in (CONTAINER, classroom.WORKFLOW):
        names = re.findall(r"(?<![\w$-])(OUT|[A-Z]{5,})(?==)", text.replace("CHECK_RESULTS", ""))
        assert names
        for name in names:
            assert f"$({name})" in makefile or f"export {name} ?=" in makefile, name
