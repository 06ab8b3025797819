"""Notebook 7: four models on one batch, dropout, two optimizers on one backbone, the reference of a LoRA policy."""

from collections.abc import Sequence

from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import Tensor

from book.figures import BLUE, ORANGE

from . import suptitle
from .models import TOKENIZER, Batch


def critics(
    review: str, values: dict[str, Tensor], score: float, errors: dict[str, list[float]], constant: float
) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2, width_ratios=(1.3, 1))
    words = [*review.split(), "<eos>"]
    for name, style in zip(values, ("o-", "s--", "^-"), strict=True):
        left.plot(values[name], style, markersize=4, label=name)
        right.plot(errors[name], style, markersize=4, label=name)
    left.axhline(score, color="black", linewidth=0.8)
    left.text(2, score - 0.1, "the score", va="top")
    left.set_xticks(range(len(words)), words, rotation=60)
    left.set(xlabel="token just read", ylabel="value (units of score)")
    right.axhline(constant, color="black", linewidth=0.8)
    right.text(8.2, 1.15 * constant, "always the mean score", fontsize=9)
    right.set(xlabel="tokens before the last one", ylabel="root mean squared error", xlim=(8.3, -0.3), ylim=(0, None))
    right.legend(loc="lower left")
    suptitle(figure, "Three critics: one review, and all 96 responses")
    return figure, (
        "Left: along one review the copied critic jumps up and down and ends on the line of the score; the one with a "
        "random head moves more widely; the trained one jumps up at superb and down at weak only. Right: error against "
        "the distance from the end; the copy falls to 0 at the last token and is no better than a constant five tokens "
        "before; the random head is worse than the constant, the trained critic better."
    )


def dropout_ratios(ratios: dict[float, Tensor], outside: list[float]) -> tuple[Figure, str]:
    figure, (left, right) = pyplot.subplots(1, 2)
    left.axvspan(0.8, 1.2, color="0.9")
    left.hist(ratios[0.1].clamp(0, 2.5), bins=50, color=ORANGE, label="dropout 0.1")
    left.axvline(1, color=BLUE, label="dropout 0: all at 1")
    left.set_xticks([0, 0.5, 1, 1.5, 2, 2.5], ["0", "0.5", "1", "1.5", "2", "2.5 or\nmore"])
    left.set(xlabel="ratio of a token (gray: not clipped)", ylabel="tokens", yscale="log")
    left.legend()
    right.plot(list(ratios), outside, "o-", color=ORANGE)
    right.yaxis.set_major_formatter("{x:.0%}")
    right.set(xlabel="dropout", ylabel="tokens outside of 0.8 to 1.2")
    suptitle(figure, "Ratios before the first step")
    return figure, (
        "Left: a histogram of the ratios with dropout 0.1, from near 0 to more than 2.5, around a band from 0.8 to 1.2."
        " Without dropout all are at 1. Right: the share of tokens outside of the band rises with the dropout, from 0."
    )


def two_optimizers(coefs: Sequence[float], gains: dict[int, list[float]]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for count, style in ((1, "o-"), (2, "s--")):
        axes.plot(coefs, gains[count], style, label=f"{count} optimizer{'s' * (count > 1)}")
    axes.set(xscale="log", xlabel="value_coef", ylabel="fall of the value loss in one step")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.invert_xaxis()
    axes.legend(loc="lower left")
    suptitle(figure, "How much one step is worth for the critic")
    return figure, (
        "By how much one step lowers the value loss, for value_coef from 1 down to 0.001. With one optimizer it falls "
        "with value_coef, to below 0; with two optimizers it does not depend on value_coef."
    )


def two_references(batch: Batch, off: Tensor, kept: Tensor) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    row = off.sum(1).sub(off.sum(1).mean()).abs().argmin()  # a typical response
    length = batch.mask[row].sum()
    axes.plot(off[row, :length], "o-", color=BLUE, label="all adapters off")
    axes.plot(kept[row, :length], "s--", color=ORANGE, label='adapter "reference"')
    words = [TOKENIZER.decode(token) for token in batch.responses[row, :length]]
    axes.set_xticks(range(length), words, rotation=60)
    axes.set(xlabel="token of one response", ylabel="log-ratio to the reference (nats)")
    axes.legend()
    suptitle(figure, "Two references before the first step")
    return figure, (
        "The log-ratio at each token of one positive review: with all adapters off it is far from 0 at the words of "
        'praise; with the adapter "reference" it is 0 everywhere.'
    )
