"""A class in parts: each machine grades one, and `make merge` joins them.

A student's part depends on the name alone, so that it stays the same whoever else hands in. The parts share a secret,
which stands in none of them.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_json

from ..intake import HandIn

FILE = "part.json"
MOST = 10_000


@dataclass(frozen=True)
class Shard:
    """One part of so many."""

    number: int
    of: int

    @property
    def folder(self) -> str:
        return f"shard-{self.number}-of-{self.of}"

    def holds(self, hand_in: HandIn) -> bool:
        digest = hashlib.sha256((hand_in.group or hand_in.student).encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:8], "big") % self.of == self.number - 1


def shard_of(text: str) -> Shard | None:
    """Raises ValueError: it is not as 3/16."""
    if not text:
        return None
    found = re.fullmatch(r"\s*(\d{1,5})\s*/\s*(\d{1,5})\s*", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]) <= MOST:
        raise ValueError(f"SHARD: expected a part and how many there are, such as 3/16, got {text!r}")
    return Shard(int(found[1]), int(found[2]))


@dataclass(frozen=True)
class Part:
    """What was graded in one folder; it is written when the part is complete."""

    number: int
    of: int
    secret: str
    """A hash of it."""
    course: str
    """A hash of the suites, the engine and the limits."""
    suite: str
    """The same, and of the exercises."""
    sandbox: str
    assignment: dict[str, Any]
    everybody: str
    """A hash of the names of the whole class."""
    rows: list[list[Any]]
    """Place in the class, name and file of each submission."""

    def write(self, out: Path) -> None:
        write_json(out / FILE, asdict(self))


def of_everybody(file_names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(file_names).encode()).hexdigest()


def read_part(folder: Path) -> Part:
    """Raises ValueError: it is no part that is complete."""
    try:
        data = json.loads((folder / FILE).read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{folder}: this part is not complete, grade it again: it goes on where it was") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / FILE}: cannot be read ({type(error).__name__}), grade this part again") from None
    names = {field.name for field in fields(Part)}
    if not isinstance(data, dict) or set(data) != names:
        raise ValueError(f"{folder / FILE}: is of another version of the course, grade this part again")
    if not isinstance(data["rows"], list) or not all(map(_is_row, data["rows"])):
        raise ValueError(f"{folder / FILE}: is damaged, grade this part again")
    return Part(**data)


def _is_row(row: Any) -> bool:
    """The name of the file is one: it is read below one folder, and written below another."""
    kinds = [type(value) for value in row] if isinstance(row, list) else []
    return kinds == [int, str, str] and bool(re.fullmatch(r"[\w.~-]+", row[2])) and not row[2].startswith(".")


def check_parts(parts: Sequence[tuple[Path, Part]]) -> None:
    """Raises ValueError: they are no whole class, graded alike."""
    (first_folder, first), *others = parts
    alike = {
        "secret": "was graded under another secret",
        "course": "was graded with another version of the course, or other limits",
        "assignment": "was graded for another assignment",
        "sandbox": "was graded with another SANDBOX",
        "of": "is of a class in another number of parts",
        "everybody": "is of another folder of submissions",
    }
    for folder, part in others:
        for name, what in alike.items():
            if getattr(part, name) != getattr(first, name):
                raise ValueError(f"{folder}: {what} than {first_folder}: grade one of them again")
    places: dict[int, Path] = {}
    for folder, part in parts:
        if part.number in places:
            raise ValueError(f"shard {part.number} is there twice, in {places[part.number]} and in {folder}: leave one")
        places[part.number] = folder
    if missing := [number for number in range(1, first.of + 1) if number not in places]:
        told = ", ".join(map(str, missing[:20])) + (", ..." if len(missing) > 20 else "")
        which = "shard" if len(missing) == 1 else "shards"
        raise ValueError(f"missing: {which} {told} of {first.of}; grade with SHARD={missing[0]}/{first.of}")
    rows = sorted((row for _, part in parts for row in part.rows), key=lambda row: row[0])
    if [row[0] for row in rows] != list(range(len(rows))) or of_everybody(row[2] for row in rows) != first.everybody:
        raise ValueError("PARTS: expected each submission of the class in one part, and they are not: grade them again")
