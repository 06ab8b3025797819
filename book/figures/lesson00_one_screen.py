"""The figures of README.md: lesson 0's two runs side by side as they print, and what a wrong answer hears.

`python -m book.figures.lesson00_one_screen` runs both commands again and writes down when each line came.
"""

import json
import re
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from . import GREEN, ORANGE, SKY, YELLOW
from .terminal import ADVANCE, BAR, FAINT, HOLD, LEADING, MARGIN, TEXT, moments, svg, text, window

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_name("first_runs.json")
COMMANDS = {"make first": [], "make first KL_COEF=0": ["--kl-coef", "0"]}
PANEL, GAP, ROWS = 420.0, 14.0, 8
"""Pixels: width of a terminal and between the two. Lines of output that are seen at a time."""
COLUMNS = int((PANEL - 2 * MARGIN) / ADVANCE)
BEST = 2.0
"""The longest bar: the gold reward of a perfect review."""


def record() -> None:
    """Run both commands, and keep with each line the seconds since the first one."""
    found = {}
    for command, options in COMMANDS.items():
        times, lines = [], []
        run = [sys.executable, "-u", "-m", "tutorial.lesson00_one_screen", *options]
        with subprocess.Popen(run, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if re.match(r" +\d+ ", line):
                    times.append(time.monotonic())
                    lines.append(line.rstrip("\n"))
        found[command] = [[round(at - times[0], 2), line] for at, line in zip(times, lines, strict=True)]
    RECORDED.write_text(json.dumps(found, indent=0) + "\n", "utf-8")


def two_runs() -> str:
    """Both runs at the speed of the machine that recorded them, from a second before the first line."""
    runs = json.loads(RECORDED.read_text("utf-8"))
    total = 1 + max(lines[-1][0] for lines in runs.values()) + HOLD
    height = BAR + (ROWS + 1) * LEADING + 180
    body, style = [], ""
    for number, (command, lines) in enumerate(runs.items()):
        x = number * (PANEL + GAP)
        body += window(x, PANEL, height, f"$ {command}")
        body.append(text(x + MARGIN, BAR + LEADING, "update   proxy    gold      KL   a response", FAINT))
        frames = [moment(x, [line for _, line in lines[: last + 1]]) for last in range(len(lines))]
        groups, rules = moments(f"run{number}-", [[], *frames], [0.0, *(1 + seconds for seconds, _ in lines)], total)
        body += groups
        style += rules
    last = {command: lines[-1][1].split(maxsplit=4) for command, lines in runs.items()}
    (_, _, gold, _, good), (_, _, hacked, _, bad) = last.values()
    alt = (
        f'Two terminals, as they print for a quarter of a minute. Left, "make first": proxy and gold reward rise, the '
        f'last gold reward is {gold}, the last response "{good}" Right, "make first KL_COEF=0": the proxy reward '
        f'rises higher, the gold reward falls to {hacked}, the last response is "{bad}"'
    )
    return svg(2 * PANEL + GAP, height, alt, body, style)


def moment(x: float, lines: list[str]) -> list[str]:
    """A terminal after these lines: the last of them, and below, larger, what was written and what it is worth."""
    shown = [text(x + MARGIN, BAR + (2 + row) * LEADING, line[:COLUMNS]) for row, line in enumerate(lines[-ROWS:])]
    _, proxy, gold, _, response = lines[-1].split(maxsplit=4)
    top = BAR + (ROWS + 2.6) * LEADING
    for row, (name, value, color) in enumerate((("proxy", proxy, ORANGE), ("gold", gold, SKY))):
        y = top + row * LEADING
        length = max(float(value), 0.0) / BEST * (PANEL - 2 * MARGIN - 110)
        shown.append(text(x + MARGIN, y, name, color, bold=True))
        shown.append(f'<rect x="{x + MARGIN + 50:g}" y="{y - 10:g}" width="{length:.1f}" height="11" fill="{color}"/>')
        shown.append(text(x + MARGIN + 58 + length, y, value, color))
    for row, part in enumerate(textwrap.wrap(response, 35)):
        shown.append(text(x + MARGIN, top + 2.9 * LEADING + row * 26, part, TEXT, 18, bold=True))
    return shown


FAILURE = """\
lesson04_gae · td_errors · wrong value
expected [-1, 3]
got      [1, 3]
first difference at answer[0]: expected -1, got 1   (1 of 2 differ)
Likely cause: nothing is removed at a done: the value of the next episode flows into this one.
Read: tutorial/lesson04_gae/README.md, "td_errors: the error of the estimate after one step"
Hint: make hint LESSON=4 EXERCISE=td_errors
called   td_errors(rewards=[1., 3.], values=[2., 4., 8.], dones=[1., 0.], gamma=0.5)
"""
"""What pytest says of `return rewards + gamma * values[..., 1:] - values[..., :-1]`; a test asks it again."""


def a_failure() -> str:
    """What a student with this mistake hears, the cause in color."""
    lines = [
        part
        for line in FAILURE.splitlines()
        for part in textwrap.wrap(line, 76, subsequent_indent="    ", break_on_hyphens=False)
    ]
    color, body, width = TEXT, [], 76 * ADVANCE + 2 * MARGIN + 10
    height = BAR + (len(lines) + 1.4) * LEADING
    for row, line in enumerate(lines):
        if not line.startswith(" "):
            color = {"expected": GREEN, "got": ORANGE, "Likely": YELLOW}.get(line.split()[0], TEXT)
        body.append(text(MARGIN, BAR + (row + 1) * LEADING, line, color, bold=color == YELLOW))
    alt = f"A terminal after pytest. It says: {' '.join(FAILURE.split())}"
    return svg(width, height, alt, [*window(0, width, height, "$ pytest testcases/lesson04_gae -m basic"), *body])


FIGURES = {"two-runs": two_runs, "a-failure": a_failure}

if __name__ == "__main__":
    record()
