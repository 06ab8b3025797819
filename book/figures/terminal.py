"""Pictures of a terminal: SVG of text, still or line by line as a program printed it.

A picture that moves is CSS alone. Somebody who has asked for less motion sees its last moment.
"""

from collections.abc import Sequence
from xml.sax.saxutils import escape

SIZE, LEADING = 13.0, 19.0
"""Pixels: of the type, and from line to line."""
ADVANCE = 0.602 * SIZE
"""Width of a character of a monospace font."""
MARGIN, BAR = 14.0, 30.0
BACKGROUND, FRAME, TEXT, FAINT = "#0d1117", "#30363d", "#e6edf3", "#9198a1"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
HOLD = 6.0
"""Seconds that the last moment stays before the picture begins again."""


def svg(width: float, height: float, alt: str, body: Sequence[str], style: str = "") -> str:
    """A whole picture, with its alternative text inside."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{escape(alt)}</title>",
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
