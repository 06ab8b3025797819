"""The drawings of the class page, as SVG files."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ppo_by_hand.core.files import write_text

from ..marks import LessonMarks, MarkSheet
from .analysis import Item, mistakes

COLORS = {"passed": "#1a7f4b", "some points": "#8cc9a1", "no points": "#d1495b", "not attempted": "#c9ced6"}
"""Told apart by people who do not see red and green, too: dark, light, middle, pale."""
MOST = 15


def draw(folder: Path, sheets: Sequence[MarkSheet], items: Sequence[Item]) -> list[Path]:
    """All figures of one class; none where there is nothing to draw."""
    percents = [sheet.percent for sheet in sheets if sheet.percent is not None]
    written = [_save(folder / "scores.svg", _histogram(percents))] if percents else []
    if any(item.total for item in items):
        written.append(_save(folder / "exercises.svg", _exercises(items)))
    if any(item.causes for item in items):
        written.append(_save(folder / "mistakes.svg", _mistakes(items)))
    return written


def _histogram(percents: Sequence[float]) -> Figure:
    figure = Figure(figsize=(9.4, 2.6), layout="constrained")
    axes = figure.subplots()
    counts, edges = np.histogram(percents, bins=range(0, 101, 10))
    bars = axes.bar(edges[:-1], counts, width=10, align="edge", color="#2f5d8a", edgecolor="white")
    axes.bar_label(bars, [str(int(count)) if count else "" for count in counts], fontsize=9)
    axes.set(xlabel="percent of the points", ylabel="submissions", xlim=(0, 100), xticks=range(0, 101, 10))
    axes.set_ylim(0, float(counts.max()) * 1.15)
    cast(MaxNLocator, axes.yaxis.get_major_locator()).set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _places(items: Sequence[Item]) -> tuple[list[float], list[tuple[float, str]]]:
    """Of each exercise, and of each lesson's title above its own."""
    places: list[float] = []
    lessons, place = [], 0.0
    for i, item in enumerate(items):
        if i == 0 or item.lesson != items[i - 1].lesson:
            place += 1.2
            lessons.append((place - 0.9, LessonMarks(item.lesson, 0, 0, ()).short))
        places.append(place)
        place += 1
    return places, lessons


def _exercises(items: Sequence[Item]) -> Figure:
    """One bar an exercise, a gap between lessons."""
    places, lessons = _places(items)
    place = places[-1] + 1
    figure = Figure(figsize=(9.4, 0.8 + 0.2 * place), layout="constrained")
    axes = figure.subplots()
    shares = {
        "passed": [item.passed for item in items],
        "some points": [item.partly for item in items],
        "no points": [item.failed for item in items],
        "not attempted": [item.absent for item in items],
    }
    left = [0.0] * len(items)
    for label, counts in shares.items():
        widths = [100 * count / item.total if item.total else 0 for count, item in zip(counts, items, strict=True)]
        axes.barh(places, widths, left=left, height=0.8, color=COLORS[label], label=label)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for place_of, item in zip(places, items, strict=True):
        if item.share is not None:
            inside = item.share > 0.08
            axes.text(
                100 * item.share + (-1 if inside else 1),
                place_of,
                f"{100 * item.share:.0f}%",
                ha="right" if inside else "left",
                va="center",
                fontsize=7,
                color="white" if inside else "black",
            )
    axes.set_yticks(places, [_plain(item.exercise) for item in items], fontsize=8, parse_math=False)
    for where, title in lessons:
        axes.text(0, where, _plain(title), fontsize=8.5, weight="bold", va="center", parse_math=False)
    axes.set(xlim=(0, 100), ylim=(place, 0), xlabel="percent of the submissions")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _mistakes(items: Sequence[Item]) -> Figure:
    rows = mistakes(items)[:MOST]
    figure = Figure(figsize=(9.4, 0.7 + 0.27 * len(rows)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(range(len(rows)), [count for count, *_ in rows], color="#b5651d", height=0.75)
    axes.bar_label(bars, padding=3, fontsize=8)
    axes.set_yticks(
        range(len(rows)),
        [_plain(f"{exercise}: {name}") for _, _, exercise, name, _ in rows],
        fontsize=8,
        parse_math=False,
    )
    axes.invert_yaxis()
    axes.set_xlabel("submissions")
    cast(MaxNLocator, axes.xaxis.get_major_locator()).set_params(integer=True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _plain(text: str) -> str:
    """What the font surely has."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text[:60])


def _save(path: Path, figure: Figure) -> Path:
    buffer = io.StringIO()
    # The same numbers give the same bytes: no date, no random ids.
    with matplotlib.rc_context({"svg.hashsalt": "ppo-by-hand", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return write_text(path, buffer.getvalue())
