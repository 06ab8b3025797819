"""The figures of README.md: lesson 0's two runs side by side as they print, and what a wrong answer hears.

They are pictures of a terminal, SVG of text, still or line by line as a program printed it. What moves is CSS alone,
and who has asked for less motion sees its last moment.
"""

import json
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from . import GREEN, ORANGE, SKY, YELLOW

SIZE, LEADING = 13.0, 19.0
"""Pixels: of the type, and from line to line."""
ADVANCE = 0.602 * SIZE
"""Width of a character of a monospace font."""
MARGIN, BAR = 14.0, 30.0
BACKGROUND, FRAME, TEXT, FAINT = "#0d1117", "#30363d", "#e6edf3", "#9198a1"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
HOLD = 6.0
"""Seconds that the last moment stays before the picture begins again."""

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "testcases" / "course" / "records.json"
SECONDS = {"make first": 0.22, "make first KL_COEF=0": 0.25}
"""From one update's line to the next, on the machine that recorded both runs."""
PANEL, GAP, ROWS = 420.0, 14.0, 8
"""Pixels: width of a terminal and between the two. Lines of output that are seen at a time."""
COLUMNS = int((PANEL - 2 * MARGIN) / ADVANCE)
BEST = 2.0
"""The longest bar: the gold reward of a perfect review."""


def printed() -> dict[str, list[str]]:
    """The lines with numbers that both runs printed, as lesson 0 quotes them."""
    recorded = json.loads(RECORDED.read_text("utf-8"))["lesson00"]["printed"]
    return {
        command: [line for line in lines if re.match(r" +\d+ ", line)]
        for command, lines in zip(SECONDS, recorded, strict=True)
    }


def two_runs() -> str:
    """Both runs at the speed of the machine that recorded them, from a second before the first line."""
    runs = printed()
    starts = {command: [1 + update * SECONDS[command] for update in range(len(runs[command]))] for command in runs}
    total = max(times[-1] for times in starts.values()) + HOLD
    height = BAR + (ROWS + 1) * LEADING + 180
    body, style = [], ""
    for number, (command, lines) in enumerate(runs.items()):
        x = number * (PANEL + GAP)
        body += window(x, PANEL, height, f"$ {command}")
        body.append(text(x + MARGIN, BAR + LEADING, "update   proxy    gold      KL   a response", FAINT))
        frames = [moment(x, lines[: last + 1]) for last in range(len(lines))]
        groups, rules = moments(f"run{number}-", [[], *frames], [0.0, *starts[command]], total)
        body += groups
        style += rules
    return svg(2 * PANEL + GAP, height, body, style)


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


def svg(width: float, height: float, body: Sequence[str], style: str = "") -> str:
    """A whole picture."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<style>text {{ font-family: {FONT}; font-size: {SIZE:g}px; white-space: pre }} {style}</style>",
            *body,
            "</svg>\n",
        ]
    )


def window(x: float, width: float, height: float, title: str) -> list[str]:
    """A terminal with nothing in it."""
    return [
        f'<rect x="{x + 0.5:g}" y="0.5" width="{width - 1:g}" height="{height - 1:g}" rx="8" '
        f'fill="{BACKGROUND}" stroke="{FRAME}"/>',
        *[f'<circle cx="{x + 16 + 16 * n:g}" cy="16" r="4.5" fill="{FRAME}"/>' for n in range(3)],
        text(x + 70, 20.5, title, FAINT),
    ]


def text(x: float, y: float, words: str, color: str = TEXT, size: float = SIZE, bold: bool = False) -> str:
    """One line, its baseline at y."""
    weight = ' font-weight="700"' if bold else ""
    style = f' style="font-size: {size:g}px"' if size != SIZE else ""
    return f'<text x="{x:g}" y="{y:g}" fill="{color}" xml:space="preserve"{weight}{style}>{escape(words)}</text>'


def moments(name: str, bodies: Sequence[Sequence[str]], starts: Sequence[float], total: float) -> tuple[list[str], str]:
    """Groups of which one is seen at a time, and the style that says when: each from its start to the next one's."""
    groups, rules = [], []
    for number, body in enumerate(bodies):
        begin = starts[number] / total * 100
        end = starts[number + 1] / total * 100 if number + 1 < len(bodies) else 100.0
        is_last = number + 1 == len(bodies)
        label = f"{name}{number}"
        groups += [f'<g id="{label}" opacity="{int(is_last)}">', *body, "</g>"]
        frames = f"0% {{ opacity: {int(begin == 0)} }} {begin:.2f}% {{ opacity: 1 }} "
        frames += "" if is_last else f"{end:.2f}% {{ opacity: 0 }} "
        rules.append(f"@keyframes {label} {{ {frames}100% {{ opacity: {int(is_last)} }} }}")
        rules.append(f"#{label} {{ animation: {label} {total:.1f}s step-end infinite }}")
    rules.append("@media (prefers-reduced-motion: reduce) { g { animation: none !important } }")
    return groups, "\n".join(rules)


FAILURE = """\
lesson04_gae · td_errors · wrong value
expected [-1, 3]
got      [1, 3]
first difference at answer[0]: expected -1, got 1   (1 of 2 differ)
Likely cause: nothing is removed at a done, so the value of the next episode flows into this one.
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
    return svg(width, height, [*window(0, width, height, "$ pytest testcases/lesson04_gae -m basic"), *body])


FIGURES = two_runs, a_failure
