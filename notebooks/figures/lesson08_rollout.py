"""Notebook 8: one response and its numbers, the cache, truncated sampling, ragged batches, the EOS token."""

from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, GREEN, ORANGE, SKY
from book.figures.shared import CREDIT, cache_panels
from tiny_models import checkpoints

from . import suptitle
from .models import TOKENIZER

LARGE = 0.1
"""Advantages further from 0 than this are printed in bold."""


class Response:
    """The numbers of an experience of one response, one for each token."""

    def __init__(self, experience: Any) -> None:
        for name in ("responses", "log_probs", "ref_log_probs", "values", "rewards", "advantages"):
            setattr(self, name, getattr(experience, name)[0])
        self.kl = self.log_probs - self.ref_log_probs
        self.score = experience.scores[0].item()
        self.prompt = checkpoints.PROMPT
        self.words = [TOKENIZER.decode(token) for token in self.responses]

    def table(self) -> dict[str, Tensor]:
        return {
            "probability": self.log_probs.exp(),
            "reference's probability": self.ref_log_probs.exp(),
            "log-probability (nats)": self.log_probs,
            "KL, k1 (nats)": self.kl,
            "value, before the token": self.values,
            "reward": self.rewards,
            "advantage": self.advantages,
        }


def one_response(response: Response) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    table = response.table()
    grid = torch.stack([*table.values()])
    grid[:-3] = 0  # one color scale for numbers of one unit: that of the score
    image = axis.imshow(grid, cmap=CREDIT, vmin=-1.2, vmax=1.2, aspect="auto")
    figure.colorbar(image, label="units of the score", pad=0.01)
    for y, (name, numbers) in enumerate(table.items()):
        for x, number in enumerate(numbers.tolist()):
            weight = "bold" if name == "advantage" and abs(number) > LARGE else "normal"
            color = "white" if abs(grid[y, x]) > 0.7 else "black"
            text = f"{round(number, 2) + 0.0:.2f}"
            axis.text(x, y, text, ha="center", va="center", fontsize=8, color=color, fontweight=weight)
    axis.set_xticks(range(len(response.words)), response.words, fontsize=9)
    axis.set_yticks(range(len(table)), table)
    axis.set(xlabel=f'token of the response to "{response.prompt}" (bold: advantage more than {LARGE} from 0)')
    axis.xaxis.label.set_fontsize(9)
    suptitle(figure, f"What is stored of one response with the score {response.score:.2f}")
    return figure, (
        "A table with one column for each token of one review and seven rows: probability, the reference's "
        "probability, log-probability, KL, value, reward, advantage. The rewards are close to 0 except at the last "
        "token, where the score is. All advantages but the last are in bold: up to superb positive, then negative."
    )


def cache(cached: list[int], uncached: list[int]) -> tuple[Figure, str]:
    figure, panels = pyplot.subplots(1, 2, sharey=True)
    cache_panels(panels, uncached, cached)
    suptitle(figure, f"Token positions per row: a prompt of {cached[0]}, a response of {len(cached)}")
    return figure, (
        "Decoding steps against positions. Left, without a cache, each step is a longer bar than the one before: a "
        "triangle. Right, with it, one bar for the prompt and then a single position for each step: a diagonal."
    )


def four_ways(plain: Tensor, shares: dict[str, Tensor], count: int = 14) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(2, 2, sharex=True, sharey=True, figsize=(8, 4.2))
    shown = plain.topk(count).indices
    for axis, (name, share) in zip(axes.flat, shares.items(), strict=True):
        axis.bar(range(count), share[shown], color=SKY)
        axis.plot(range(count), plain[shown], "_", color="black", markersize=13, markeredgewidth=2)
        axis.set_xticks(range(count), TOKENIZER.convert_ids_to_tokens(shown), rotation=70, fontsize=8)
        axis.set_title(f"{name}: {int((share > 0).sum())} different words", fontweight="normal", fontsize=10)
    figure.supylabel("share of the draws", fontsize=10)
    figure.supxlabel("next word (black dash: its probability in the whole distribution)", fontsize=10)
    suptitle(figure, "One next word, sampled in four ways")
    return figure, (
        "Four bar charts over the 14 most likely words. Plain draws end at the black dashes. With temperature 0.5 the "
        "two most likely words are far above their dashes, the rare ones below. With top_k 5 and top_p 0.7 the most "
        "likely words are above their dashes, and the bars of the others are missing."
    )


def ragged(experience: Any, sizes: list[int], real_share: list[float]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=(1.5, 1))
    start = experience.attention_mask.shape[1] - experience.mask.shape[1]
    picture = experience.attention_mask.long()
    picture[:, start:] += experience.mask.long()  # 0 padding, 1 prompt, 2 response
    colors = ["#E5E5E5", SKY, GREEN]
    left.imshow(picture, cmap=ListedColormap(colors), aspect="auto", interpolation="nearest")
    left.axvline(start - 0.5, color="black")
    left.set(xlabel="token position", ylabel="row of the batch")
    handles = [pyplot.Rectangle((0, 0), 1, 1, color=color) for color in colors]
    figure.legend(handles, ["padding", "prompt", "response (the mask)"], loc="outside lower left", ncols=3)
    bars = right.bar(range(len(sizes)), real_share, color=BLUE)
    right.bar_label(bars, fmt="{:.0%}")
    right.set_xticks(range(len(sizes)), sizes)
    right.set_yticks([0, 0.25, 0.5, 0.75, 1])
    right.yaxis.set_major_formatter("{x:.0%}")
    right.set(xlabel="rows in a minibatch", ylabel="real tokens", ylim=(0, 1.08))
    lengths = experience.mask.sum(1)
    suptitle(figure, f"A batch with responses of {lengths.min()} to {lengths.max()} tokens, and its minibatches")
    return figure, (
        "Left, the batch as a picture: blue prompts with a ragged left edge meet at a black line, green responses with "
        "a ragged right edge follow, and gray padding is on both sides. Right, the share of real tokens by the size of "
        "the minibatch: it grows as they get smaller, to 100 % for single rows."
    )


def stopping(with_eos: Any, without: Any, scores_with: Tensor, scores_without: Tensor) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    for label, mask, style in (("with EOS", with_eos.mask, "-"), ("without", without.mask, "--")):
        left.step(range(1, mask.shape[1] + 1), mask.sum(0), style, where="mid", label=label)
    rows, last = with_eos.mask.shape
    left.axvline(last, color="gray", linewidth=0.8, linestyle=":")
    left.text(last + 0.4, 0.3 * rows, f"all have stopped\nafter step {last}", va="center")
    left.set(xlabel="decoding step", ylabel="unfinished sequences", ylim=(0, 1.07 * rows))
    left.legend(loc="center right")
    right.plot(scores_with, scores_without, "o", alpha=0.5, markersize=4, color=ORANGE)
    right.axline((0, 0), slope=1, color="black", linewidth=0.8, label="equal scores")
    right.set(xlabel="score, with the EOS token", ylabel="score, without it")
    right.legend(loc="upper left")
    suptitle(figure, f"{rows} prompts, sampled with and without the EOS token")
    return figure, (
        "Left, unfinished sequences by decoding step: with the EOS token the number falls to almost 0, then the loop "
        "ends; without it, it stays at 192 for all 30 steps. Right, the two scores of each prompt: a wide cloud around "
        "the diagonal."
    )


def truncated_kl(estimates: dict[int, float], exact: dict[int, float]) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    places = range(len(estimates))
    axis.plot(places, list(exact.values()), "s--", color="black", label="exact KL, whole vocabulary")
    axis.bar(places, list(estimates.values()), color=BLUE, label="mean log-ratio of the sampled tokens")
    axis.axhline(0, color="black", linewidth=0.8)
    names = [f"top_k {top_k}" if top_k else "not truncated" for top_k in estimates]
    axis.set_xticks(places, [f"{name}\n{one:+.3f}" for name, one in zip(names, estimates.values(), strict=True)])
    axis.set(xlabel="how the tokens were sampled, and the estimate", ylabel="KL per token (nats)")
    axis.margins(y=0.15)
    axis.legend(loc="lower left")
    suptitle(figure, "The estimated and the exact KL from the reference")
    return figure, (
        "Bars of the estimated KL for whole sampling and for top_k 20, 10, 5, 2 and 1: a positive bar that agrees with "
        "the exact KL, a lower one for top_k 20, then ever more negative ones. The exact KL, black squares, stays "
        "positive everywhere."
    )
