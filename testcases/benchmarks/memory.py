"""Memory at a real vocabulary: a small body under 151,936 tokens, rollouts of 32 to 256 rows, in fresh processes.

    python -m testcases.benchmarks.memory

Writes runs/bench/memory.json. Both trainers score and train 8 rows at once. A row of the table is the peak of the
process less what it held before its first update: the models and the libraries. A float32 copy of the logits of one
such piece is 8 x 16 x 151,936 x 4 bytes, 74 MiB. TRL is left out where it is not installed.
"""

import dataclasses
from typing import Any

from ppo_by_hand.core.files import write_json

from .trainer import LABELS, OURS, OUT, TRL, TRL_PYTHON, start
from .workload import Workload

BASE = Workload(vocab_size=151_936, response=16, epochs=1, minibatches=1, rollout=8, micro=8)
ROWS = (32, 64, 256)
COMPARED = 64
"""Rows at which TRL runs too."""
LOGITS_MIB = BASE.rollout * BASE.response * BASE.vocab_size * 4 / 2**20 if BASE.rollout else 0.0


def peak(name: str, work: Workload) -> dict[str, Any]:
    """MiB before the first update and at its peak."""
    with start(name, work) as child:
        answer = child.run(1)
    return {"name": LABELS[name], "rows": work.batch, **{key: answer[f"{key}_mib"] for key in ("before", "peak")}}


def main() -> None:
    points = [(OURS, dataclasses.replace(BASE, batch=rows)) for rows in ROWS]
    if TRL_PYTHON.exists():
        points.append((TRL, dataclasses.replace(BASE, batch=COMPARED)))
    report = [peak(name, work) for name, work in points]
    print(f"peak MiB, 151,936 tokens, 8 rows at once ({LOGITS_MIB:.0f} MiB of logits)")
    print(f"{'':<14}{'rows':>5}{'before':>8}{'peak':>8}{'more':>8}")
    for one in report:
        before, most = one["before"], one["peak"]
        print(f"{one['name']:<14}{one['rows']:>5}{before:>8.0f}{most:>8.0f}{most - before:>8.0f}")
    write_json(OUT / "memory.json", report)


if __name__ == "__main__":
    main()
