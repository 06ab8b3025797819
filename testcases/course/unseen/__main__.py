"""What each of these answers hears first.

    python -m testcases.course.unseen                    # all of them, some minutes
    python -m testcases.course.unseen singles 10 40      # these rows

Prints a line for each: right, silent, or look, where what was said is none of the words that a right cause has.
"""

import sys
from collections import Counter

from testcases.harness.diagnosis.explain import faults

from . import failures, rows


def main() -> None:
    kind, *numbers = sys.argv[1:] or ["all"]
    counts = Counter[str]()
    for row in [*rows("singles"), *rows("drafts")] if kind == "all" else rows(kind):
        if numbers and row.name.split()[1] not in numbers:
            continue
        failed = next(failures(row.subject, row.exercise), None)
        said = " ".join(failed.causes) if failed else ""
        verdict = row.verdict(said) if failed else "accepted"
        counts[verdict] += 1
        print(f"{verdict:8}  {row.name}\n          {said}", flush=True)
    print(*(f"fault: {one!r}" for one in faults), sep="\n")
    print(dict(counts))


if __name__ == "__main__":
    main()
