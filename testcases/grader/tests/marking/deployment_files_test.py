"""The ready files for many machines: against their schemas, and through shellcheck. Nothing is run."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from testcases.grader.marking import shard_of
from testcases.grader.reports.formats import classroom, gradescope
from testcases.harness.catalog import ROOT

READY = Path(__file__).parents[2] / "ready"
MATRIX = (READY / "github-matrix.yml").read_text("utf-8")
SLURM = (READY / "slurm.sh").read_text("utf-8")
OWN = {path.stem: path.read_text("utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml")}
WORKFLOWS = {"matrix": MATRIX, "classroom": classroom.WORKFLOW, **OWN}


def steps(workflow: str) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(workflow)["jobs"].values() for step in job["steps"]]


@pytest.mark.xdist_group("nbformat")  # which loads jsonschema as well: three seconds
def test_workflows_fit_githubs_schema():
    from check_jsonschema.builtin_schemas import get_builtin_schema
    from jsonschema import Draft7Validator

    validator = Draft7Validator(get_builtin_schema("vendor.github-workflows"))
    for text in WORKFLOWS.values():
        # YAML takes "on" for a truth value.
        read = [yaml.safe_load(one.replace("\non:", '\n"on":')) for one in (text, text.replace("runs-on:", "run-on:"))]
        assert [validator.is_valid(one) for one in read] == [True, False], list(validator.iter_errors(read[0]))


def test_shell_scripts_pass_shellcheck(tmp_path: Path):
    texts = {"slurm": SLURM, "setup": gradescope.SETUP, "run": gradescope.RUN}
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


def test_the_matrix_grades_every_part_once():
    jobs = yaml.safe_load(MATRIX)["jobs"]
    parts = jobs["grade"]["strategy"]["matrix"]["part"]
    (grade,) = [step for step in jobs["grade"]["steps"] if step.get("run") == "make check"]
    shards = [shard_of(grade["env"]["SHARD"].replace("${{ matrix.part }}", str(part))) for part in parts]
    assert [(one.number, one.of) for one in shards if one] == [(part, len(parts)) for part in range(1, len(parts) + 1)]
    assert jobs["merge"]["needs"] == "grade"


def test_the_array_grades_every_part_once():
    lines = [line for line in SLURM.splitlines() if line.startswith("#SBATCH")]
    options = dict(re.fullmatch(r"#SBATCH --([a-z-]+)=(\S+)", line).groups() for line in lines)  # type: ignore[union-attr]
    assert set(options) == {"job-name", "array", "ntasks", "cpus-per-task", "mem", "time"}
    assert re.fullmatch(r"\d\d:\d\d:\d\d", options["time"]) and re.fullmatch(r"\d+[MG]", options["mem"])
    first, last = map(int, options["array"].split("-"))
    assert first == 1 and f"\nparts={last}\n" in SLURM
    # sbatch reads its lines up to the first command only.
    assert SLURM.index("#SBATCH", SLURM.rindex("#SBATCH")) < SLURM.index("\nset ")


def test_the_container_holds_what_grading_needs():
    text = re.sub(r"\\\n", " ", (READY / "Containerfile").read_text("utf-8"))
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    assert lines[0][0] == "FROM" and {line[0] for line in lines} == known
    assert ["USER", "1000:1000"] in lines
    copied = {name for line in lines if line[0] == "COPY" for name in line[1:-1]}
    assert all((ROOT / name).exists() for name in copied) and copied >= set(gradescope.CARRIED)


@pytest.mark.parametrize("text", [MATRIX, SLURM, (READY / "Containerfile").read_text("utf-8")])
def test_what_make_is_given_exists(text: str):
    """In a command, or among the variables of the environment."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names = re.findall(r"(?<!\S)(OUT|[A-Z]{4,})(?==|: )", re.sub("PIP_NO_CACHE_DIR|ENV HOME", "", text))
    assert names
    for name in names:
        assert f"$({name})" in makefile or f"export {name} ?=" in makefile, name
