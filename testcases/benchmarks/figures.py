"""The figures of the benchmarks."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = {"generation": "#0072B2", "scoring": "#009E73", "update": "#E69F00", "rest": "#999999"}


def draw_comparison(report: dict[str, Any], file: Path) -> None:
    """Bars: where one update's time goes, for ours, TRL's and the bare passes; a line at the floor."""
    figure, axes = plt.subplots(1, len(report["sizes"]), figsize=(10, 3.6), layout="constrained", squeeze=False)
    for axis, (size, result) in zip(axes[0], report["sizes"].items(), strict=True):
        labels = [label for label in result if isinstance(result[label], dict) and "median" in result[label]]
        for row, label in enumerate(labels):
            numbers, left = result[label]["median"], 0.0
            parts = {phase: numbers[phase] for phase in ("generation", "scoring", "update")}
            parts["rest"] = max(numbers["wall"] - sum(parts.values()), 0.0)
            for phase, seconds in parts.items():
                legend = phase if row == 0 else None
                axis.barh(row, seconds * 1e3, left=left * 1e3, color=COLOURS[phase], label=legend)
                left += seconds
            axis.text(left * 1e3, row, f" {left * 1e3:.0f} ms", va="center")
        axis.axvline(report["floor"][size] * 1e3, color="black", linestyle=":", label="floor")
        axis.set_yticks(range(len(labels)), labels)
        axis.set(xlabel="one update (ms)", title=f"{size}: TRL takes {report['ratio'][size]:.2f} times as long")
        axis.margins(x=0.22)
    axes[0, 0].legend(loc="lower right")
    figure.savefig(file, dpi=120)
    plt.close(figure)


def draw_costs(report: dict[str, Any], file: Path) -> None:
    """Lines: seconds for each response token against batch, response length and number of parameters."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    labels = {
        "batch": "responses in a batch",
        "response": "response length (tokens)",
        "size": "parameters of the policy (millions)",
    }
    titles = {
        "batch": "A larger batch makes a token cheaper",
        "response": "So does a longer response",
        "size": "A larger model makes it dearer",
    }
    for axis, (name, label) in zip(axes, labels.items(), strict=True):
        rows = report[name]
        axis.plot([row["x"] for row in rows], [row["cpu_us_per_token"] for row in rows], "o-", color="#0072B2")
        axis.set(xlabel=label, ylabel="CPU time for each response token (us)", xscale="log")
        if name == "size":
            axis.set(yscale="log")
        else:
            axis.set_ylim(bottom=0)
            axis.set_xticks([row["x"] for row in rows], [str(row["x"]) for row in rows])
            axis.minorticks_off()
        axis.set_title(titles[name])
    figure.savefig(file, dpi=120)
    plt.close(figure)
