"""Write `tutorial/` from `solutions/`, or say where they disagree.

python -m testcases.course.stubs [--check]
"""

import argparse
import ast
import sys
from pathlib import Path

from ppo_by_hand.core.progress import while_read
from testcases.harness.catalog import SOLUTIONS, TUTORIAL, lesson_names, regions
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


def export(folder: Path) -> None:
    """Add a lesson's exercises to the imports of its `__init__.py`, where one is not there yet."""
    path = folder / "__init__.py"
    for file in sorted(folder.glob("*.py")):
        text = path.read_text("utf-8")
        known = [node for node in ast.parse(text).body if isinstance(node, ast.ImportFrom) and node.module == file.stem]
        names = {alias.name for node in known for alias in node.names}
        if added := {region.exercise.partition(".")[0] for region in regions(file)} - names:
            # As ruff sorts them: CONSTANTS, Classes, functions.
            ordered = sorted(names | added, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
            line = f"from .{file.stem} import {', '.join(ordered)}\n"
            if len(line) > 120:
                line = f"from .{file.stem} import (\n" + "".join(f"    {name},\n" for name in ordered) + ")\n"
            old = "".join(text.splitlines(keepends=True)[known[0].lineno - 1 : known[0].end_lineno]) if known else ""
            path.write_text(text.replace(old, line) if old else text + line, "utf-8")


@while_read()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make stubs", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="only say where the trees disagree; exit 1 if they do")
    if parser.parse_args().check:
        found = drift()
        print("\n".join(found) or "tutorial/ agrees with solutions/")
        sys.exit(bool(found))
    for lesson in lesson_names():
        export(SOLUTIONS / lesson)
    files = all_stubs()
    write_files(TUTORIAL, files)
    print(f"wrote {len(files)} files below tutorial/")


if __name__ == "__main__":
    main()
