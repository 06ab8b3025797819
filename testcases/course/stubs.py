"""Write `tutorial/` from `solutions/`, or say where they disagree.

python -m testcases.course.stubs [--check]
"""

import argparse
import sys
from pathlib import Path

from testcases.harness.catalog import TUTORIAL
from testcases.harness.oracle.mutations import all_stubs, write_files

TEXTS = {".md", ".png", ".svg", ".yaml"}
ONE_SCREEN = "lesson00_one_screen/"
"""Has no exercise, so it is written by hand, in `tutorial/` alone."""


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
        by_hand = path.startswith(ONE_SCREEN) or file.suffix in TEXTS
        if file.is_file() and path not in wanted and not by_hand and "__pycache__" not in file.parts:
            found.append(f"stray: tutorial/{path}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="make stubs", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say where the trees disagree; exit 1 if they do")
    if parser.parse_args().check:
        found = drift()
        print("\n".join(found) or "tutorial/ agrees with solutions/")
        sys.exit(bool(found))
    files = all_stubs()
    write_files(TUTORIAL, files)
    print(f"wrote {len(files)} files below tutorial/")


if __name__ == "__main__":
    main()
