"""Bring the newest version of the course into this clone, and leave alone what has been written in it: make update.

A file that only the course has changed becomes the new one; one that only you have changed stays; where both have,
the two are joined line by line. If that cannot be done, yours stays and the new one is put beside it as FILE.new.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).parents[1]


class Refused(Exception):
    """Why nothing was done, and what to do."""


@dataclass
class Update:
    """What happened to each file that the new version changes."""

    new: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    """Changed by both, in different lines."""
    conflicts: list[str] = field(default_factory=list)
    """Changed by both in the same lines, or removed by one: yours is there, untouched."""

    def lines(self) -> list[str]:
        """For a person to read."""
        found = [f"{len(self.new)} files are new; what you have written is as it was."]
        found += [f"joined with your changes: {path}" for path in self.joined]
        found += [
            f"conflict: {path} is yours still; the new version lies beside it as {path}.new" for path in self.conflicts
        ]
        if any(path.startswith("requirements") for path in self.new):
            found.append("The next make installs what has changed in requirements.lock.")
        return found


def git(top: Path, *arguments: str, fails: str = "") -> str:
    """What git says; with `fails`, that sentence where it does not succeed."""
    done = subprocess.run(["git", *arguments], cwd=top, capture_output=True, text=True, errors="surrogateescape")
    if done.returncode:
        raise Refused(fails or done.stderr.strip())
    return done.stdout


def update(top: Path = TOP) -> Update | None:
    """Bring the upstream branch's version; None where this is the newest.

    Raises:
        Refused: there is no upstream, or there are commits that it does not have.
    """
    branch, none = "@{upstream}^{commit}", "expected a clone with an upstream branch; git branch -u origin/main sets it"
    git(top, "rev-parse", branch, fails=none)
    git(top, "fetch", "--quiet")
    old, upstream = git(top, "rev-parse", "HEAD").strip(), git(top, "rev-parse", branch).strip()
    if old == upstream:
        return None
    if git(top, "rev-list", f"{upstream}..HEAD"):
        raise Refused("expected no commits of your own, got some; git merge brings the new version into them")
    found = Update()
    for path in git(top, "diff", "--name-only", "-z", old, upstream).split("\0"):
        if path:
            _bring(top, path, old, upstream, found)
    git(top, "reset", "--quiet", upstream)  # the index alone: every file is as it should be by now
    return found


def _bring(top: Path, path: str, old: str, new: str, found: Update) -> None:
    before, theirs = _version(top, old, path), _version(top, new, path)
    place = top / path
    mine = place.read_bytes() if place.is_file() else None
    if mine == theirs:
        return
    if mine == before:
        found.new.append(path)
        _put(place, theirs)
    elif (
        None not in (mine, before, theirs) and (both := _joined(mine or b"", before or b"", theirs or b"")) is not None
    ):
        found.joined.append(path)
        _put(place, both)
    else:
        found.conflicts.append(path)
        if theirs is not None:
            _put(place.with_name(place.name + ".new"), theirs)


def _version(top: Path, commit: str, path: str) -> bytes | None:
    done = subprocess.run(["git", "show", f"{commit}:{path}"], cwd=top, capture_output=True)
    return None if done.returncode else done.stdout


def _joined(mine: bytes, before: bytes, theirs: bytes) -> bytes | None:
    """Both changes in one text; None where they touch the same lines."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("mine", "before", "theirs")]
        for file, text in zip(files, (mine, before, theirs), strict=True):
            file.write_bytes(text)
        done = subprocess.run(["git", "merge-file", "-p", *map(str, files)], capture_output=True)
    return None if done.returncode else done.stdout


def _put(place: Path, text: bytes | None) -> None:
    if text is None:
        place.unlink(missing_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    mode = place.stat().st_mode if place.exists() else None
    beside = place.with_name(f".{place.name}.tmp")
    beside.write_bytes(text)
    if mode is not None:
        beside.chmod(mode)
    beside.replace(place)


def main() -> None:
    try:
        found = update()
    except (Refused, OSError) as error:
        sys.exit(f"error: {error}")
    print("\n".join(found.lines()) if found else "This is the newest version.")


if __name__ == "__main__":
    main()
