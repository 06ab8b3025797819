"""Groups on hierarchies that are folders: what is written where, for version 2, version 1 and neither."""

import os
from pathlib import Path

import pytest

from testcases.grader.sandbox import Limits, cgroups

LIMITS = Limits(memory_mb=512, processes=64)


def second(top: Path, controllers: str = "cpu memory pids", handed_on: str = "") -> tuple[Path, Path]:
    folder = top / "user.slice" / "run.scope"
    folder.mkdir(parents=True)
    for name, text in (
        ("cgroup.controllers", controllers),
        ("cgroup.subtree_control", handed_on),
        ("cgroup.procs", "11\n12\n"),
    ):
        (folder / name).write_text(text)
    own = top / "self"
    own.write_text("0::/user.slice/run.scope\n")
    return folder, own


def first(top: Path) -> Path:
    for name in ("memory", "pids", "cpu,cpuacct"):
        (top / name).mkdir(parents=True)
        (top / name / "cgroup.procs").touch()
    own = top / "self"
    own.write_text("7:cpu,cpuacct:/\n6:memory:/\n5:pids:/docker/of-the-host\n1:name=systemd:/\n")
    return own


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel makes a group's files when its folder is made; here they are made when they are written."""

    def write(path: Path, value: str) -> None:
        path.write_text(value)

    monkeypatch.setattr(cgroups, "_write", write)


def test_version_2_hands_its_controllers_on_and_moves_out_of_the_way(tmp_path: Path, files: None):
    folder, own = second(tmp_path)
    found = cgroups.find(tmp_path, own)
    assert found is not None and found.version == 2 and set(found.folders) == {"cpu", "memory", "pids"}
    assert (folder / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (folder / "grader" / "cgroup.procs").read_text() == "12"  # the last one that was written
    group = cgroups.Group(found, "worker-1", LIMITS)
    group.admit(77)
    values = {path.name: path.read_text() for path in (folder / "worker-1").iterdir()}
    assert values == {
        "cgroup.procs": "77",
        "memory.max": str(768 * 2**20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": "64",
        "cpu.weight": "100",
    }


def test_version_2_of_some_controllers_is_better_than_none(tmp_path: Path, files: None):
    folder, own = second(tmp_path, "pids memory", "memory pids")
    found = cgroups.find(tmp_path, own)
    assert found is not None and set(found.folders) == {"memory", "pids"} and not (folder / "grader").exists()


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path, files: None):
    found = cgroups.find(tmp_path, first(tmp_path))
    assert found is not None and found.version == 1
    group = cgroups.Group(found, "worker-1", LIMITS)
    group.admit(77)
    assert (tmp_path / "memory/worker-1/memory.limit_in_bytes").read_text() == str(768 * 2**20)
    assert (tmp_path / "pids/worker-1/pids.max").read_text() == "64"
    assert (tmp_path / "cpu,cpuacct/worker-1/cpu.shares").read_text() == "1024"
    assert {path.read_text() for path in tmp_path.glob("*/worker-1/cgroup.procs")} == {"77"}


def test_version_1_keeps_out_of_the_groups_of_others(tmp_path: Path, files: None):
    own = first(tmp_path)
    own.write_text("6:memory:/job\n5:pids:/\n")
    (tmp_path / "memory" / "job").mkdir()
    found = cgroups.find(tmp_path, own)
    assert found is not None and set(found.folders) == {"pids"}


def test_what_may_not_be_written_is_not_used(tmp_path: Path):
    own = tmp_path / "self"
    own.write_text("0::/elsewhere\n")
    assert cgroups.find(tmp_path, own) is None
    assert cgroups.find(tmp_path, tmp_path / "no such file") is None


def test_a_group_ends_with_all_that_is_in_it(tmp_path: Path, files: None, monkeypatch: pytest.MonkeyPatch):
    folder, own = second(tmp_path)
    found = cgroups.find(tmp_path, own)
    assert found is not None
    group = cgroups.Group(found, "worker-1", LIMITS)
    for path in (folder / "worker-1").iterdir():
        path.unlink()
    (folder / "worker-1" / "cgroup.kill").touch()
    monkeypatch.setattr(cgroups, "_write", lambda path, value: path.unlink())  # as if the kernel had done it
    group.close()
    assert not (folder / "worker-1").exists()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_sandboxes_have_cores_of_their_own_while_there_are_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3})
    one, two, three = (cgroups.Core(tmp_path) for _ in range(3))
    assert {one.number, two.number} == {0, 3} and three.number in (0, 3)
    one.close()
    again = cgroups.Core(tmp_path)
    assert again.number == one.number
    again.close()
    two.close()
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert cgroups.Core(tmp_path).number is None
