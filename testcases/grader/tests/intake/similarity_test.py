"""Who resembles whom."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testcases.grader.reports import write_reports
from testcases.grader.reports.pages import similarity
from testcases.grader.tests.reports.data import batch_rows, put, read_csv, result
from testcases.harness.catalog import SOLUTIONS, regions
from testcases.harness.oracle import all_stubs

OWN = """\
    horizon = rewards.shape[-1]
    bootstrap = values[..., 1:].masked_fill(dones.bool(), 0.0)
    pieces, running = [], torch.zeros_like(rewards[..., 0])
    alive = (~dones.bool()).to(rewards.dtype)
    for step in range(horizon - 1, -1, -1):
        surprise = rewards[..., step] + gamma * bootstrap[..., step] - values[..., step]
        running = surprise + gamma * lam * alive[..., step] * running
        pieces.insert(0, running)
    advantages = torch.stack(pieces, dim=-1) if pieces else torch.zeros_like(rewards)
    return AdvantagesAndReturns(advantages, advantages + values[..., :-1])
"""
RENAMED = (
    OWN.replace("horizon", "T")
    .replace("running", "acc")
    .replace("surprise", "d")
    .replace("pieces", "buffer")
    .replace("bootstrap", "nxt")
    .replace("    alive", "    # my own idea\n    alive")
)
OTHER = """\
    steps = rewards.size(-1)
    out = torch.empty_like(rewards)
    carry = 0.0
    t = steps
    while t > 0:
        t = t - 1
        stop = dones[..., t].bool()
        ahead = torch.where(stop, torch.zeros_like(values[..., t + 1]), values[..., t + 1])
        delta = rewards[..., t] + gamma * ahead - values[..., t]
        if isinstance(carry, float):
            carry = delta
        else:
            carry = torch.where(stop, delta, delta + gamma * lam * carry)
        out[..., t] = carry
    returns = out + values[..., :steps]
    return AdvantagesAndReturns(advantages=out, returns=returns)
"""
GAE = "lesson04_gae/gae.py"


def submit(folder: Path, name: str, body: str | None, text: str | bytes | None = None) -> None:
    stub = all_stubs()[GAE]
    line = '    raise NotImplementedError("lesson04: compute_gae")\n'
    assert line in stub
    target = folder / name / GAE
    target.parent.mkdir(parents=True)
    content = text if text is not None else stub if body is None else stub.replace(line, body)
    target.write_bytes(content if isinstance(content, bytes) else content.encode())


def solution_body() -> str:
    path = SOLUTIONS / GAE
    lines = path.read_text("utf-8").splitlines()
    region = next(region for region in regions(path) if region.exercise == "compute_gae")
    return "\n".join(lines[region.first + 1 : region.last]) + "\n"


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory) -> similarity.Report:
    folder = tmp_path_factory.mktemp("submissions")
    submit(folder, "ann", OWN)
    submit(folder, "bob", RENAMED)
    submit(folder, "cy", OTHER)
    for name in ("dee", "eve", "stub", "stub2"):
        submit(folder, name, solution_body() if "stub" not in name else None)
    submit(folder, "fay", OWN.replace("range(", "range((("))  # a copy that no longer compiles
    submit(folder, "binary", None, b"\xff\xfe\x00" * 100)
    (folder / "empty").mkdir()
    (folder / "broken.zip").write_bytes(b"PK no")
    return similarity.look(folder)


def test_the_stub_and_what_is_empty_are_nobodys_own():
    stub = all_stubs()[GAE]
    assert similarity.own_text(stub, stub).strip() == ""
    assert similarity.own_text("\n    " + stub + "mine = 1\n", stub) == "mine = 1\n"


def test_a_copy_is_flagged_in_spite_of_new_names(looked: similarity.Report):
    pairs = {frozenset((pair.first, pair.second)): pair for pair in looked.pairs}
    assert set(pairs) == {frozenset(pair) for pair in (("ann", "bob"), ("ann", "fay"), ("bob", "fay"))}
    pair = pairs[frozenset(("ann", "bob"))]
    assert min(pair.first_percent, pair.second_percent) > 80 and pair.files == (
        f"{GAE} {max(pair.first_percent, pair.second_percent):.0f}%",
    )
    assert looked.notes == ()


@pytest.mark.usefixtures("no_figures")
def test_similarity_is_a_flag_and_never_a_mark(tmp_path: Path):
    out, submissions = put(tmp_path / "out", result("ann"), result("bob"), result("cy")), tmp_path / "in"
    for name, body in (("ann", OWN), ("bob", RENAMED), ("cy", OTHER)):
        submit(submissions, name, body)
    write_reports(out, batch_rows(out), submissions)
    assert [row["score"] for row in read_csv(out / "gradebook.csv")] == ["3", "3", "3"]
    (row,) = read_csv(out / "similarity.csv")
    assert (row["first"], row["second"], row["files"].split()[0]) == ("ann", "bob", GAE)
    assert "resemble" in (out / "report" / "index.html").read_text("utf-8")
    for path in (out / "report" / "students").iterdir():
        assert "resemble" not in path.read_text("utf-8")


def arrays(prints: dict[str, dict[str, set[int]]]) -> dict[str, dict[str, Any]]:
    return {
        name: {file: np.array(sorted(own), dtype=np.int64) for file, own in part.items()}
        for name, part in prints.items()
    }


def test_one_copied_file_among_many_own_ones_is_seen():
    prints = {f"s{i}": {"own": set(range(i * 10_000, i * 10_000 + 5_000)), "f": set()} for i in range(1, 4)}
    prints["s1"]["f"] = prints["s3"]["f"] = set(range(200))
    ((a, b, of_a, _, shared, files),) = similarity.compare(arrays(prints))
    assert (a, b, round(of_a), shared, files) == ("s1", "s3", 4, 200, ("f 100%",))


def test_what_many_submissions_have_is_no_evidence():
    common, own = set(range(1000)), set(range(5000, 5400))
    prints = {f"s{i:02}": {"f": common | {10_000 + 500 * i + j for j in range(300)}} for i in range(40)}
    prints["s00"]["f"] |= own
    prints["s01"]["f"] |= own
    assert similarity.compare(arrays(prints)) == []  # 400 of 700 passages: 57 percent
    prints["s01"]["f"] -= {10_500 + j for j in range(300)}
    assert arrays(prints)["s01"]["f"].size == 1400
    ((a, b, of_a, of_b, shared, files),) = similarity.compare(arrays(prints))
    assert (a, b, shared, files) == ("s00", "s01", 400, ("f 100%",))
    assert (round(of_a), round(of_b)) == (57, 100)


@pytest.mark.parametrize("count", [0, 1])
def test_similarity_of_no_class_and_of_one(count: int):
    assert similarity.compare(arrays({f"s{i}": {"f": set(range(500))} for i in range(count)})) == []
    assert similarity.compare(arrays({"a": {}, "b": {"f": set()}})) == []


def test_similarity_of_many_groups_of_eight():
    prints = {f"s{i:03}": {"f": {7_000 * (i % 15) + j for j in range(700)}} for i in range(120)}
    found = similarity.compare(arrays(prints))
    assert len(found) == 15 * 8 * 7 / 2
    assert all(int(a[1:]) % 15 == int(b[1:]) % 15 for a, b, *_ in found)


def test_a_file_that_takes_too_long_costs_no_other_its_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def slow(text: str) -> Any:
        while "slow" in text:
            pass
        return known(text)

    known = similarity.fingerprints
    monkeypatch.setattr(similarity, "FILE_SECONDS", 0.3)
    monkeypatch.setattr(similarity, "fingerprints", slow)
    for name, body in (("ann", OWN), ("bob", OWN), ("eve", OWN + "    slow = 1\n")):
        submit(tmp_path, name, body)
    found = similarity.look(tmp_path)
    assert [(pair.first, pair.second) for pair in found.pairs] == [("ann", "bob")]
    assert found.notes == (f"similarity: {GAE} of eve left out (TooSlow)",)
