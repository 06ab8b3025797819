"""Lesson 11 under DeepSpeed's ZeRO-2, with one and with two CPU processes.

`python -m testcases.course.zero` installs it and runs these."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from testcases.course import scaling_run
from testcases.course.scaling_test import equal, launch, saved_as_trained

# Each number of processes is started once for all tests of what they found.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("deepspeed") is None, reason="DeepSpeed isn't installed here: python -m testcases.course.zero"
    ),
]


@pytest.fixture(scope="module")
def zero(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[int, list[dict[str, Any]]]]:
    """The folder of a run without DeepSpeed and of runs of one and of two processes with it, and what they gave."""
    folder = tmp_path_factory.mktemp("zero")
    (folder / "prompts.txt").write_text("review the film :\nreview the food :\nreview the book :\n", "utf-8")
    alone, found = scaling_run.three_updates(folder / "in-none"), {}
    for count in (1, 2):
        done = launch("zero", folder, count)
        assert done.returncode == 0 and (folder / f"zero-{count}.pt").is_file(), done.stderr[-3000:]
        found[count] = torch.load(folder / f"zero-{count}.pt", weights_only=True)
    return folder, alone, found


@pytest.mark.parametrize("count", [1, 2])
def test_zero_makes_the_updates_of_one_process(zero: Any, count: int):
    _, alone, found = zero
    assert len(found[count]) == count
    for process in found[count]:
        assert process["run"]["kind"] == "DeepSpeedEngine, DeepSpeedOptimizerWrapper"
        for part in ("before", "after"):
            equal(process["run"][part], alone[part])


@pytest.mark.parametrize("count", [1, 2])
def test_zero_goes_on_from_its_checkpoint_in_as_many_processes(zero: Any, count: int):
    for process in zero[2][count]:
        assert process["run"]["again"]["metrics"] == process["run"]["after"]["metrics"]
        assert all(map(torch.equal, process["run"]["again"]["weights"], process["run"]["after"]["weights"]))


def test_a_checkpoint_of_another_number_of_processes_is_refused_and_nothing_replaced(zero: Any):
    folder, _, found = zero
    with_two = {name: why for process in found[2] for name, why in process["from others"].items()}
    assert (
        "of DeepSpeed in 2 processes, got" in with_two["in-1"] and "one of DeepSpeed in 1 process;" in with_two["in-1"]
    )
    assert "one of a whole optimizer;" in with_two["in-none"]
    assert "one of a whole optimizer;" in found[1][0]["from others"]["in-none"]
    plain = scaling_run.third_update(folder / "in-2")
    assert "of a whole optimizer, got" in plain and "one of DeepSpeed in 2 processes;" in plain


@pytest.mark.parametrize("count", [1, 2])
def test_the_command_saves_the_policy_under_zero(zero: Any, count: int):
    saved_as_trained(zero[0] / f"out-{count}")
