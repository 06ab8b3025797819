"""Write `tutorial/` from `solutions/`, or say where they disagree.

python -m testcases.selfcheck.stubs [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from testcases.engine.contract import TUTORIAL
from testcases.engine.stubs import all_stubs

TEXTS = {".md", ".png", ".svg", ".yaml"}


def drift(tutorial: Path = TUTORIAL) -> list[str]:
    """What is missing, different or stray in `tutorial/`."""
    wanted = all_stubs()
    found = []
    for path, text in wanted.items():
        file = tutorial / path
        if not file.is_file():
            found.append(f"missing: tutorial/{path}")
        elif file.read_text("utf-8") != text:
            found.append(f"differs from its solution: tutorial/{path}")
    for file in sorted(tutorial.rglob("*")):
        path = file.relative_to(tutorial).as_posix()
        if file.is_file() and path not in wanted and file.suffix not in TEXTS and "__pycache__" not in file.parts:
            found.append(f"stray: tutorial/{path}")
    return found


def write(tutorial: Path = TUTORIAL) -> None:
    for path, text in all_stubs().items():
        (tutorial / path).parent.mkdir(parents=True, exist_ok=True)
        (tutorial / path).write_text(text, "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make stubs", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say where the trees disagree; exit 1 if they do")
    if parser.parse_args().check:
        found = drift()
        print("\n".join(found) or "tutorial/ agrees with solutions/")
        sys.exit(bool(found))
    write()
    print(f"wrote {len(all_stubs())} files below tutorial/")


if __name__ == "__main__":
    main()
