"""Put a lesson's stubs back, after asking; what was there is kept.

python -m testcases.harness.student.reset 4
"""

import argparse
import shutil
import time
from pathlib import Path

from ppo_by_hand.core.files import unused

from ..catalog import ROOT, TUTORIAL, Lesson, read_lesson
from ..oracle.mutations import stubs_of, write_files
from .progress import FOLDER, forget, said_plainly


def reset(lesson: Lesson, tutorial: Path = TUTORIAL) -> Path | None:
    """Write the stubs of a lesson again.

    Returns:
        Where the former files are kept; None if there were none.
    """
    folder, kept = tutorial / lesson.name, None
    if folder.exists():
        kept = unused(FOLDER / "backup" / time.strftime("%Y%m%d-%H%M%S")) / lesson.name
        skipped = shutil.ignore_patterns("__pycache__")
        shutil.copytree(folder, kept, ignore=skipped, ignore_dangling_symlinks=True)
    write_files(tutorial, stubs_of(lesson.name))
    forget(lesson.name)
    return kept


@said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog="make reset LESSON=4", description="Put a lesson's stubs back.")
    parser.add_argument("lesson", help='number or folder name, such as "4"')
    lesson = read_lesson(parser.parse_args().lesson)
    try:
        answer = input(f"Replace your work in tutorial/{lesson.name} by the stubs? We keep a copy. [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        print("Nothing was changed.")
        return
    kept = reset(lesson)
    print(
        f"tutorial/{lesson.name} holds the stubs again."
        + (f" Your work is in {kept.relative_to(ROOT)}." if kept else "")
    )


if __name__ == "__main__":
    main()
