"""The page at the end of the course, with your name, your run and your best tests: make finish NAME="Ada Lovelace".

python -m testcases.finish --out runs/mine
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from ppo_by_hand.core.files import write_whole
from solutions.apps.comparison import ROWS, reference_runs
from testcases.harness.catalog import TUTORIAL, course_lessons, entries
from testcases.harness.catalog import lesson as read_lesson
from testcases.harness.student import progress

BUG_HUNT = "lesson10_bug_hunt"
BOTH = {"ppo": "with the KL penalty", "no_kl": "without it"}
KL = (0, 1, 4, 9, 25, 64, 100, 144)
"""Marks on the axis, which is one of square roots: as in Gao et al. 2022, distances grow with them."""


@dataclass(frozen=True)
class Run:
    """A run of one's own, as `make demo STACK=tutorial` left it."""

    summary: dict[str, Any]
    curves: dict[str, list[tuple[float, float]]]
    """"ppo" and "no_kl" -> KL (nats) and score (std) of each update."""


@dataclass(frozen=True)
class Best:
    """The test of one function that refuses most wrong implementations."""

    name: str
    caught: int
    of: int
    code: str


def read_run(out: Path) -> Run:
    """Raises LookupError: the folder holds no finished run."""
    try:
        summary = json.loads((out / "summary.json").read_text("utf-8"))
        rows = {
            name: [json.loads(line) for line in (out / "log" / name / "metrics.jsonl").read_text("utf-8").splitlines()]
            for name in BOTH
        }
        curves = {name: [(max(0.0, row["kl"]), row["score"]) for row in found] for name, found in rows.items()}
        return Run({**summary, **{part: summary[part] for part, *_ in ROWS}}, curves)
    except (OSError, ValueError, KeyError, TypeError) as error:
        said = f"{type(error).__name__}: {error}"
        raise LookupError(
            f"expected a finished run of your own in {out}, got none ({said}); train it: make demo STACK=tutorial "
            f"OUT={out}"
        ) from None


def best_tests(folder: Path) -> Iterator[Best]:
    """Of each function of lesson 10, in the order of the lesson; all implementations of its bank are tried."""
    from testcases.harness.catalog import Exercise
    from testcases.harness.execution import executor
    from testcases.lesson10_bug_hunt import bank, grading

    subject = executor.student(folder)
    nodes = ast.parse(source := subject.text(BUG_HUNT, "my_tests.py")).body
    texts = {
        node.name: ast.get_source_segment(source, node) or "" for node in nodes if isinstance(node, ast.FunctionDef)
    }
    for exercise in (name for name in read_lesson(BUG_HUNT).exercises if name.startswith("test_")):
        function = exercise.removeprefix("test_")
        caught: Counter[str] = Counter()
        for wrong in bank.wrong(function):
            asked = grading.behind(Exercise(BUG_HUNT, exercise), "refusal", function, bank.packed([wrong.source]))
            found = subject.evaluate(asked).value or {}
            caught.update([found["test"]] if "test" in found else [])
        for name, count in caught.most_common(1):
            yield Best(name, count, len(bank.wrong(function)), texts.get(name, ""))


def page(name: str, day: date, run: Run, tests: Sequence[Best], points: int) -> str:
    """The whole page: no script, and nothing from another host."""
    others = reference_runs(run.summary["preset"])
    rows = "".join(f"<tr><th>{escape(one)}</th>{_cells(run.summary, others, *of)}</tr>" for *of, one in ROWS)
    shown = "".join(
        f"<h3><code>{escape(one.name)}</code> catches {one.caught} of {one.of} wrong implementations</h3>"
        f"<pre tabindex='0'>{escape(one.code)}</pre>"
        for one in tests
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>PPO by Hand: {escape(name)}</title><style>{STYLE}</style></head><body><main>
<p class="course">PPO by Hand</p>
<h1>{escape(name)}</h1>
<p>built PPO for RLHF, block by block: lessons 1 to 12, {points:,} points, every test passed.<br>
<time datetime="{day.isoformat()}">{day.strftime("%d %B %Y").lstrip("0")}</time></p>
<h2>Your own blocks trained this policy</h2>
<figure>{_picture(run, others)}<figcaption>Lines: the reward model's score during your run, against the KL from the SFT
model. Dots: the true quality (gold) at the end, yours filled{", the reference's ten seeds as rings" * bool(others)}.
</figcaption></figure>
<table><tr><th></th><th>yours</th><th>{"reference, ten seeds" * bool(others)}</th></tr>{rows}</table>
<h2>Your best tests of lesson 10</h2>
{shown}
</main></body></html>
"""


def _cells(summary: dict[str, Any], others: Sequence[dict[str, Any]], part: str, name: str) -> str:
    numbers = [run[part][name] for run in others]
    beside = f"{min(numbers):.2f} to {max(numbers):.2f}" if numbers else ""
    return f"<td>{summary[part][name]:.2f}</td><td>{beside}</td>"


def _picture(run: Run, others: Sequence[dict[str, Any]]) -> str:
    """Score and gold against KL, 640 units wide."""
    ends = {name: [(one[name]["kl"], one[name]["gold"]) for one in [*others, run.summary]] for name in BOTH}
    every = [point for name in BOTH for point in (*run.curves[name], *ends[name])]
    right = math.sqrt(max(kl for kl, _ in every) or 1)
    low, high = min(0.0, *(y for _, y in every)), max(1.0, *(y for _, y in every))

    def place(kl: float, y: float) -> tuple[float, float]:
        return 44 + 580 * math.sqrt(max(0.0, kl)) / right, 280 - 262 * (y - low) / (high - low)

    parts = []
    for kl in (kl for kl in KL if math.sqrt(kl) <= right):
        parts.append(f'<text x="{place(kl, 0)[0]:.0f}" y="300" text-anchor="middle">{kl}</text>')
    for y in range(math.ceil(low), math.floor(high) + 1):
        at = place(0, y)[1]
        parts.append(
            f'<path class="grid" d="M44 {at:.0f}H624"/><text x="36" y="{at + 4:.0f}" text-anchor="end">{y}</text>'
        )
    parts.append('<text x="334" y="320" text-anchor="middle">KL from the SFT model (nats per response)</text>')
    for name, said in BOTH.items():
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in run.curves[name]))
        dots = [place(*point) for point in ends[name]]
        parts += [f'<polyline class="{name}" points="{line}"/>']
        parts += [f'<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in dots[:-1]]
        parts += [f'<circle class="{name} own" cx="{dots[-1][0]:.1f}" cy="{dots[-1][1]:.1f}" r="6"/>']
        (x, y), gold = dots[-1], run.summary[name]["gold"]
        side, anchor = (-12, "end") if x > 320 else (14, "start")
        parts.append(f'<text class="{name}" x="{x + side:.0f}" y="{max(14, y - 10):.0f}" text-anchor="{anchor}">')
        parts.append(f"{said}: gold {gold:.2f}</text>")
    label = f"Score and gold against KL; gold ends at {run.summary['ppo']['gold']:.2f} with the KL penalty and at "
    label += f"{run.summary['no_kl']['gold']:.2f} without."
    return f'<svg viewBox="0 0 640 326" role="img" aria-label="{label}">{"".join(parts)}</svg>'


STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --soft: #595959; --blue: #0065a3; --orange: #b34700; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #eee; --paper: #16181c; --soft: #b0b0b0; --blue: #6db9ee; --orange: #ff9a57; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 17px/1.5 system-ui, sans-serif; }
main { max-width: 44rem; margin: 0 auto; padding: 2rem 1rem; }
h1 { font-size: 2.2rem; margin: 0; } h2 { margin-top: 2.2rem; } .course, figcaption, time { color: var(--soft); }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; } svg text { font-size: 13px; fill: var(--ink); }
.grid { stroke: var(--soft); stroke-opacity: .3; } polyline { fill: none; stroke-width: 2.5; }
circle { fill: var(--paper); fill-opacity: .6; stroke-width: 1.5; } circle.own { fill-opacity: 1; }
.ppo { stroke: var(--blue); } .no_kl { stroke: var(--orange); }
circle.ppo.own, svg text.ppo { fill: var(--blue); } circle.no_kl.own, svg text.no_kl { fill: var(--orange); }
svg text.ppo, svg text.no_kl { stroke: none; }
table { border-collapse: collapse; width: 100%; } th, td { padding: .25rem .5rem; border-bottom: 1px solid #8886; }
th { text-align: left; font-weight: 500; } td { text-align: right; font-variant-numeric: tabular-nums; }
tr:first-child th:not(:first-child) { text-align: right; }
pre { overflow-x: auto; padding: .8rem; border: 1px solid #8886; border-radius: 6px; font-size: 13px; }
@media (max-width: 30rem) { svg text { font-size: 20px; } }
"""


@progress.said_plainly()
def main() -> None:
    parser = argparse.ArgumentParser(prog='make finish NAME="Ada Lovelace"')
    parser.add_argument("--out", type=Path, default=Path("runs/mine"), help="the folder of your own run")
    options = parser.parse_args()
    name, state = os.environ.get("NAME", "").strip(), progress.so_far()
    if not name:
        raise LookupError('expected a name, got none: make finish NAME="Ada Lovelace"')
    for lesson in course_lessons():
        if open_ones := progress.left(lesson, state):
            number = read_lesson(lesson).number
            raise LookupError(
                f"expected all of lessons 1 to 12 to pass; lesson {number} has {len(open_ones)} exercises left, the "
                f"first is {open_ones[0]}: pytest testcases/{lesson}"
            )
    run = read_run(options.out)
    print("trying your tests of lesson 10 ...", file=sys.stderr, flush=True)
    points = sum(entry.points for lesson in course_lessons() for entry in entries(lesson))
    file = options.out / "finish.html"
    with write_whole(file) as unfinished:
        unfinished.write_text(page(name, date.today(), run, [*best_tests(TUTORIAL)], points), "utf-8")
    print(f"{file}: open it in a browser, or print it.")


if __name__ == "__main__":
    main()
