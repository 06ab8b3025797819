"""The figures of lesson 12: a run with and without the KL penalty, and gold reward against the KL for several of them.

The first is drawn from one recorded run of `make demo`. To record it again:

    python -m book.figures.lesson12_capstone
"""

import json
import random
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tiny_models.language import sample_prompts
from tiny_models.presets import find_preset

from ..playgrounds import RECORDED as OVEROPTIMIZATION
from . import BLUE, ORANGE, PINK
from .shared import OF_KL_COEF
from .style import INK, RULE, canvas, pyplot

RECORDED = Path(__file__).with_name("demo_seed0.json")
RUNS = {"ppo": "with KL penalty (kl_coef 0.09)", "no_kl": "without KL penalty"}


def record(seed: int = 0) -> None:
    """Run `make demo` once and keep what the figure and the texts show of it (a minute)."""
    from solutions.demo.run import TRACE_AT, Capstone

    with tempfile.TemporaryDirectory() as folder:
        run = Capstone("tiny", seed, Path(folder))
        run.run()
    kept: dict[str, Any] = {"seed": seed, "kl_coef": run.preset.kl_coef, "sft": _row(run.before)}
    for name, ppo in (("ppo", run.ppo), ("no_kl", run.no_kl)):
        kept[name] = _row(ppo.final) | {"trace": [_row(one) for one in ppo.trace]}
        kept[name]["entropy"] = [round(row["entropy"], 3) for row in ppo.result.trainer.history]
    kept["updates"] = [0, *sorted(TRACE_AT)]
    RECORDED.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def _row(evaluation: Any) -> dict[str, Any]:
    numbers = {name: round(getattr(evaluation, name), 4) for name in ("gold", "proxy", "kl", "valid")}
    return numbers | {"response": evaluation.responses[0]}


def overoptimization() -> Figure:
    run = json.loads(RECORDED.read_text("utf-8"))
    figure = pyplot.figure(figsize=(7.2, 4.1), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(3.0, 1.2))
    shared = None
    for column, (name, title) in enumerate(RUNS.items()):
        shared = axes = figure.add_subplot(grid[0, column], sharey=shared)
        updates = run["updates"]
        for reward, color, label in (("proxy", ORANGE, "proxy reward"), ("gold", BLUE, "gold reward")):
            heights = [point[reward] for point in run[name]["trace"]]
            axes.plot(updates, heights, "o-", ms=4, color=color)
            axes.text(updates[-1] + 1, heights[-1] + 0.02, label, color=color, va="bottom", fontsize=9)
        axes.hlines(2.0, 0, updates[-1], color=RULE, lw=1, ls=":")
        axes.set(title=title, xlabel="PPO update", xlim=(0, updates[-1] * 1.42), ylim=(-0.25, 2.5))
        axes.set_xticks(range(0, updates[-1] + 1, 10))
    figure.axes[0].set(ylabel="reward")
    figure.axes[0].text(0.5, 2.06, "best possible gold reward", color=RULE, fontsize=8)
    falls = "1: most texts have no end\n2: no text is a sentence"
    for update, height, text in ((4.2, 0.24, "1"), (17.5, -0.12, "2"), (24, 0.72, falls)):
        figure.axes[1].text(update, height, text, color=BLUE, fontsize=8)
    samples = figure.add_subplot(grid[1, :])
    samples.axis("off")
    asked = sample_prompts(find_preset("tiny").evaluation_responses, random.Random(run["seed"] + 2))[0]
    samples.text(0.0, 1.0, f"asked: \u201c{asked}\u201d", color=INK, va="top", fontsize=9)
    texts = (("SFT", run["sft"], RULE), ("PPO", run["ppo"], BLUE), ("without penalty", run["no_kl"], PINK))
    for row, (name, one, color) in enumerate(texts):
        height = 0.72 - 0.28 * row
        samples.text(0.0, height, name, color=color, fontweight="bold", va="top", fontsize=9)
        shown = textwrap.shorten(one["response"], 92, placeholder=" ...")
        samples.text(0.2, height, f"\u201c{shown}\u201d", color=INK, va="top", fontsize=9)
    return figure


def gold_against_kl() -> Figure:
    runs = json.loads(OVEROPTIMIZATION.read_text("utf-8"))["runs"]
    figure, (axes,) = canvas(3.1)
    for run in runs:
        if run["kl_coef"] in OF_KL_COEF:
            distances = [max(kl, 0.0) ** 0.5 for kl in run["kl"]]
            color = OF_KL_COEF[run["kl_coef"]]
            axes.plot(distances, run["gold"], "o-", ms=3.5, lw=1.5, color=color, label=f"kl_coef {run['kl_coef']:g}")
            axes.plot(distances[-1], run["gold"][-1], "s", ms=8, color=color)
    ticks = (0, 1, 2, 4, 9, 16, 25, 36)
    axes.set_xticks([tick**0.5 for tick in ticks], ticks)
    axes.set(xlabel="KL from the SFT model in nats (square-root scale)", ylabel="gold reward", ylim=(-0.1, 2.1))
    axes.legend(loc="lower left", fontsize=9)
    return figure


FIGURES = (overoptimization, gold_against_kl)

if __name__ == "__main__":
    record()
