"""Notebook 1: the rectangle of a batch, the shift, padding, temperature and three means."""

from collections.abc import Iterable, Sequence
from types import ModuleType

import torch
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, ORANGE, SKY, YELLOW

from . import suptitle
from .models import EOS, TOKENIZER

KINDS = {"padding": "#E5E5E5", "prompt": "#A9D6F5", "response": GREEN, "stop token": YELLOW}


def _draw_row(axis: Axes, row: int, ids: Tensor, kinds: Sequence[str], start: int = 0) -> None:
    for column, (token, kind) in enumerate(zip(ids.tolist(), kinds, strict=True), start):
        axis.add_patch(pyplot.Rectangle((column - 0.5, row - 0.5), 1, 1, color=KINDS[kind], ec="white"))
        color = {"response": "white", "padding": "#777777"}.get(kind, "black")
        word = TOKENIZER.decode(token)
        axis.text(column, row, word, rotation=90, ha="center", va="center", fontsize=8, color=color)


def _response_kinds(ids: Tensor, real: Tensor) -> list[str]:
    kinds = ["stop token" if token == EOS else "response" for token in ids]
    return [kind if counts else "padding" for kind, counts in zip(kinds, real, strict=True)]


def batch(ids: Tensor, prompt_mask: Tensor, mask: Tensor) -> tuple[Figure, str]:
    (rows, prompt), width = prompt_mask.shape, ids.shape[1]
    figure, axis = pyplot.subplots(figsize=(8, 3.8))
    for row in range(rows):
        kinds = ["prompt" if real else "padding" for real in prompt_mask[row]]
        _draw_row(axis, row, ids[row], kinds + _response_kinds(ids[row, prompt:], mask[row]))
    axis.axvline(prompt - 0.5, color="black", linewidth=2)
    axis.set(xlim=(-0.5, width - 0.5), ylim=(rows - 0.5, -0.5), ylabel="row of the batch")
    axis.set_xlabel(f"column (P = {prompt}, T = {width - prompt}, L = {width})")
    axis.set_xticks(range(width))
    axis.set_yticks(range(rows))
    patches = [pyplot.Rectangle((0, 0), 1, 1, color=color) for color in KINDS.values()]
    figure.legend(patches, KINDS, loc="outside lower center", ncols=4)
    axis.set_title("Prompts and responses of one batch")
    return figure, (
        "Three rows of tokens. Gray padding is left of the prompts and right of the responses. Blue prompts end at a "
        "thick line between columns 7 and 8; green responses begin there, and each ends in an orange stop token."
    )


def shift(ids: Tensor, log_probs: Tensor, prompt: int) -> tuple[Figure, str]:
    """One row from three tokens before the end of the prompt on, with an arrow from logits to the token they score."""
    first, width = prompt - 3, len(ids)
    figure, axis = pyplot.subplots(figsize=(8, 2.9))
    for i in range(first, width):
        kind = "prompt" if i < prompt else "stop token" if i == width - 1 else "response"
        _draw_row(axis, 0, ids[i : i + 1], [kind], start=i)
    for t, log_prob in enumerate(log_probs.tolist()):
        i = prompt - 1 + t
        curve = {"arrowstyle": "->", "connectionstyle": "arc3,rad=-0.7"}
        axis.annotate("", (i + 1, -0.55), (i, -0.55), arrowprops=curve)
        axis.text(i + 0.5, -1.05, f"{round(log_prob, 1) + 0.0:.1f}", ha="center", fontsize=8)
    axis.text(width - 1, 0.58, "scores\nnothing", ha="center", va="top", fontsize=8)
    axis.text(prompt - 1, 0.58, "the first\nthat scores", ha="center", va="top", fontsize=8)
    axis.axvline(prompt - 0.5, color="black", linewidth=2, ymin=0.28, ymax=0.74)
    axis.set(xlim=(first - 0.5, width - 0.5), ylim=(1.0, -1.3))
    axis.set_xlabel(f"column i (the response begins at P = {prompt})")
    axis.text(first - 0.4, -1.05, "log-probability (nats):", fontsize=8)
    axis.spines["left"].set_visible(False)
    axis.set_xticks(range(first, width))
    axis.set_yticks([])
    axis.set_title("From the logits of a column to the token that they score")
    return figure, (
        "The last row of the batch from column 5 on. A curved arrow leads from each cell to the next one, from column "
        "7, the last of the prompt, to column 21, the stop token. Each arrow carries a log-probability between 0 and "
        "-2.5. No arrow leaves column 21."
    )


def all_positions(table: Tensor, asked: Tensor, ids: Tensor, prompt: int, mean: dict[int, float]) -> tuple[Figure, str]:
    """Log-probability of each response token by the logits of each position, and means for four shifts."""
    responses = [TOKENIZER.decode(token) for token in ids[prompt:].tolist()]
    figure, (left, bars) = pyplot.subplots(1, 2, figsize=(8, 4.2), width_ratios=[2.2, 1])
    image = left.imshow(table, cmap="cividis", vmin=-10, vmax=0, aspect="auto")
    left.plot(range(len(responses)), range(1, len(responses) + 1), "s", mfc="none", mec=ORANGE, markersize=11)
    left.set_xticks(range(len(responses)), [f"{word} {prompt + t}" for t, word in enumerate(responses)], rotation=90)
    left.set_yticks(range(len(asked)), [f"{i} ({TOKENIZER.decode(ids[i])})" for i in asked.tolist()])
    left.set(xlabel="token that is scored, and its column", ylabel="position of the logits")
    left.tick_params(labelsize=8)
    figure.colorbar(image, label="log-probability (nats)")
    columns = bars.bar(range(4), list(mean.values()), color=[ORANGE if gap == -1 else SKY for gap in mean])
    bars.bar_label(columns, fmt="%.1f", padding=3)
    bars.set_xticks(range(4), [f"{gap:+d}" if gap else "0" for gap in mean])
    bars.margins(y=0.12)
    bars.set(ylabel="mean log-probability (nats)", xlabel="position of the logits,\nrelative to the token")
    suptitle(figure, "Log-probability of each token by the logits of each position")
    return figure, (
        "Left, a table of log-probabilities, positions of the logits downwards and response tokens across. Bright "
        "cells lie on the diagonal marked with orange squares, where the logits stand one position before the token. "
        "Right, four bars: the mean log-probability is near -1 for logits one position before the token, and near -8 "
        "to -10 for the other three."
    )


def two_masks(responses: Tensor, by_stop: Tensor, shortcut: Tensor) -> tuple[Figure, str]:
    rows, width = responses.shape
    figure, axes = pyplot.subplots(2, 1, sharex=True, figsize=(8, 4.6))
    names = ("response_mask: up to the first stop", "shortcut: responses != pad")
    for axis, name, real in zip(axes, names, (by_stop, shortcut), strict=True):
        for row in range(rows):
            _draw_row(axis, row, responses[row], _response_kinds(responses[row], real[row]))
        axis.set(xlim=(-0.5, width - 0.5), ylim=(rows - 0.5, -0.5), ylabel="row of the batch")
        axis.set_yticks(range(rows))
        axis.set_title(name, fontsize=10, fontweight="normal")
    axes[1].set(xlabel="response token t (gray: left out of the loss)")
    axes[1].set_xticks(range(width))
    suptitle(figure, "Two masks, where the padding token is the stop token")
    return figure, (
        "The three responses twice, all padded with the stop token. Above, each row ends in one orange stop token, and "
        "what follows is gray. Below, with the shortcut, all stop tokens are gray."
    )


def padding_on_the_left(extras: Sequence[int], moved: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    for (name, curve), style in zip(moved.items(), ("o-", "s-", "x--"), strict=True):
        axis.plot(extras, curve, style, label=name)
    axis.set(xlabel="extra padding on the left (columns)", ylabel="mean size of the change of log p(response) (nats)")
    axis.set_xticks(extras)
    axis.legend()
    axis.set_title("The same responses with more and more padding on the left")
    return figure, (
        "Mean change of a response's log-probability against extra padding. The line of GPT-2 with column numbers "
        "begins a little above zero, climbs to 13 nats at 14 columns and falls again; GPT-2 with position_ids and "
        "Llama stay at zero."
    )


def temperature(
    masked: ModuleType, next_logits: Tensor, sampled_at: float, ratios: dict[float, Tensor]
) -> tuple[Figure, str]:
    """Entropy of one distribution at many temperatures, and the ratios of tokens sampled at `sampled_at`."""
    temperatures, largest = torch.logspace(-1, 1.5, 40), torch.tensor(float(len(TOKENIZER))).log().item()
    figure, (left, right) = pyplot.subplots(1, 2)
    left.plot(temperatures, [masked.token_entropy(next_logits, t).item() for t in temperatures.tolist()])
    for t in (0.5, 1.0, 2.0):
        entropy, top = masked.token_entropy(next_logits, t).item(), (next_logits / t).softmax(-1).max()
        left.plot(t, entropy, "o", color=ORANGE)
        left.annotate(f"at {t:g}: top word {top:.0%}", (t, entropy), (t * 1.25, entropy - 0.1), fontsize=9, va="top")
    left.axhline(largest, color="black", linewidth=0.8, linestyle="--")
    left.text(0.1, 4.0, f"log V = {largest:.2f}", va="top")
    left.set(xscale="log", xlabel="temperature", ylabel="entropy of the word after 'was' (nats)", ylim=(0, 4.4))
    bins, labels = torch.linspace(0.475, 1.825, 28).tolist(), ["scored again at 1", f"scored again at {sampled_at}"]
    values = [ratios[1.0], ratios[sampled_at]]
    right.hist(values, bins, histtype="step", linewidth=2, label=labels, color=[ORANGE, BLUE])
    right.set_ylim(0.5, 3000)
    right.set(xlabel="ratio new / old probability of a token", ylabel="number of tokens", yscale="log")
    right.legend(loc="upper left")
    suptitle(figure, f"Temperature: entropy, and ratios of tokens sampled at {sampled_at}")
    return figure, (
        "Left, entropy against temperature: a rise from 0.7 to a dashed line at log V, with dots at temperature 0.5, 1 "
        "and 2. Right, counts of probability ratios: scored at the right temperature all lie in one bar at 1, scored "
        "at temperature 1 they lie between about 0.65 and 1.65."
    )


def three_means(widths: Iterable[int], means: dict[str, list[float]], lengths: Tensor) -> tuple[Figure, str]:
    """The means against the width of the batch; the weight of a token against the length of its response."""
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=[1.5, 1])
    for (name, curve), style in zip(means.items(), ("o-", "s-", "x--"), strict=True):
        left.plot(list(widths), curve, style, label=name)
    left.set(xlabel="columns of padding added on the right", ylabel="mean of -log p (nats)", ylim=(0, None))
    left.legend()
    right.plot(lengths, 1000 / lengths / len(lengths), "s", color=ORANGE, label="mean of row means")
    right.plot(lengths, (1000 / lengths.sum()).expand(len(lengths)), "x", color=GREEN, label="masked mean")
    right.set(xlabel="length of the response (tokens)", ylabel="weight of one of its tokens (1/1000)", ylim=(0, None))
    right.legend()
    suptitle(figure, "Three means of the same responses")
    return figure, (
        "Left, three means against added padding: the plain mean starts higher and climbs, the other two are flat and "
        "lie on one another. Right, the weight of one token against the length of its response: flat for the masked "
        "mean, falling for the mean of row means."
    )


def whitened(good: Tensor, bad: Tensor) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    bins = torch.linspace(-4, 2, 49).tolist()
    for numbers, color, name in ((good, BLUE, "mask"), (bad, ORANGE, "padding counted")):
        label = f"{name}: mean {numbers.mean().abs():.2f}, std {numbers.std():.2f}"
        axis.hist(numbers, bins, color=color, alpha=0.7, label=label)
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set(xlabel="whitened log-probability of a real token (standard deviations)", ylabel="number of tokens")
    axis.legend(loc="upper left")
    axis.set_title("The real tokens, whitened with the mask and with the padding counted")
    return figure, (
        "Two histograms of whitened numbers of the real tokens. With the mask they lie around 0. With padding counted "
        "they are squeezed together, and most lie right of the line at 0."
    )
