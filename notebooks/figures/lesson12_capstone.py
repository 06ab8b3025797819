"""Notebook 12: proxies that like nonsense, and recorded runs at eight KL coefficients."""

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from torch import nn

from book.figures import BLUE, GREEN, ORANGE, PINK
from tiny_models import builders, checkpoints, gold, language, preferences, presets

from . import suptitle
from .models import EOS, PAD, TOKENIZER

RECORDED = Path(__file__).parents[2] / "book" / "playgrounds" / "overoptimization.json"
PRESET = presets.find_preset("tiny")
PAIRS = 2304
"""Sampled here for the two reward models that are trained here."""
SHIPPED_COMPARISONS = 3685
"""Of the preset's 4,608 pairs those in which the annotators saw a difference."""
PROMPTS = language.sample_prompts(160, random.Random(1))
"""Those that the policies are evaluated on, in the recorded runs as well."""
QUESTION = "review the film :"
OF_KL_COEF = {0.0: PINK, 0.01: ORANGE, 0.08: BLUE, 0.3: GREEN}
"""As in the figure of lesson 12."""
DISTANCE = "d = sqrt(KL from the SFT model), square root of nats"


def small_backbone() -> nn.Module:
    special = {"eos_token_id": EOS, "pad_token_id": PAD}
    return builders.build_gpt2(len(TOKENIZER), n_layer=1, n_embd=8, n_head=2, **special).base_model


class Comparisons:
    """Pairs of responses of the SFT model, and which of the two the annotators chose."""

    def __init__(self, lessons: SimpleNamespace, sft: nn.Module) -> None:
        self.lessons, rng, generator = lessons, random.Random(1), torch.Generator().manual_seed(0)
        self.prompts = language.sample_prompts(PAIRS + PRESET.held_out_pairs, rng)
        answers = [lessons.stages.sample_texts(sft, self.prompts, PRESET, TOKENIZER, generator) for _ in range(2)]
        compared = preferences.make_preferences(zip(self.prompts, *answers, strict=True), rng)
        self.held_out, self.pairs = compared[: PRESET.held_out_pairs], compared[PRESET.held_out_pairs :]
        self.texts = answers[0]

    def train(self, backbone: nn.Module, count: int | None, learning_rate: float) -> Any:
        """A reward model fitted to the first `count` pairs, calibrated on the SFT model's responses."""
        reward, stages, capstone = self.lessons.reward, self.lessons.stages, self.lessons.capstone
        torch.manual_seed(0)  # of its head
        model = reward.RewardModel(backbone)
        settings = reward.RewardModelConfig(learning_rate=learning_rate, batch_size=16, seed=0)
        pairs = stages.encode_preferences(TOKENIZER, self.pairs[:count])
        history = reward.train_reward_model(model, pairs, settings)
        accuracy = stages.held_out_accuracy(model, stages.encode_preferences(TOKENIZER, self.held_out))
        written = capstone.encode_demonstrations(TOKENIZER, self.prompts[:512], self.texts[:512])
        reward.calibrate(model, [(written.input_ids, written.attention_mask)])
        return capstone.RewardModelResult(model, history, accuracy)


def shipped_reward_model(lessons: SimpleNamespace) -> Any:
    model = lessons.reward.RewardModel.from_pretrained(checkpoints.REWARD_MODEL)
    accuracy = json.loads(checkpoints.MANIFEST.read_text())["reward_model_accuracy"]
    return lessons.capstone.RewardModelResult(model, [], accuracy)


def scores_of(lessons: SimpleNamespace, proxy: Any, texts: list[str]) -> list[float]:
    encoded = lessons.capstone.encode_demonstrations(TOKENIZER, [QUESTION] * len(texts), texts)
    with torch.no_grad():
        return proxy.reward_model(encoded.input_ids, encoded.attention_mask).tolist()


def gold_of(texts: list[str]) -> list[float]:
    return [gold.gold_score(QUESTION, text) for text in texts]


def three_proxies(
    proxies: dict[str, Any], counts: dict[str, int], texts: list[str], scores: dict[str, list[float]]
) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots(figsize=(8, 4))
    for place, (name, proxy) in enumerate(proxies.items()):
        weights = sum(part.numel() for part in proxy.reward_model.parameters())
        label = f"{name}\n{counts[name]:,} comparisons\n{weights:,} weights\n{proxy.accuracy:.0%} right\n"
        rows = [row + 0.25 * (place - 1) for row in range(len(texts))]
        axis.barh(rows, scores[name], height=0.22, label=label)
    names = [text.replace(" and", "\nand") for text in texts]
    axis.set_yticks(
        range(len(texts)), [f"{name}\ngold {truth:.1f}" for name, truth in zip(names, gold_of(texts), strict=True)]
    )
    axis.invert_yaxis()
    axis.axvline(0, color="black", linewidth=0.8)
    axis.set(xlabel="proxy reward (standard deviations of the SFT model's responses)")
    suptitle(figure, "Four texts, scored by three reward models")
    figure.legend(title="reward model", loc="outside right center")
    return figure, (
        'Bars of the scores of four texts by three reward models. "the film was dull ." is below 0 for all. The two '
        'positive reviews are above 0. "superb superb superb superb .", with gold 0, is above "the film was superb ."'
    )


class Recorded:
    """The evaluations of one recorded run, from the SFT model on: one number per evaluation."""

    def __init__(self, run: dict[str, Any]) -> None:
        for name in ("gold", "proxy", "kl", "valid"):
            setattr(self, name, torch.tensor(run[name], dtype=torch.float64))
        self.kl = self.kl.clamp(min=0).abs()  # no -0.0
        self.d = self.kl.sqrt()
        self.responses = run["responses"]


def recorded_runs() -> tuple[dict[float, Recorded], list[int], list[str]]:
    """The runs by KL coefficient, the updates after which they were evaluated, and the prompts of their responses."""
    stored = json.loads(RECORDED.read_text("utf-8"))
    return {run["kl_coef"]: Recorded(run) for run in stored["runs"]}, stored["updates"], stored["prompts"]


def live_settings(lessons: SimpleNamespace, kl_coef: float, updates: int) -> Any:
    """The settings of the recorded runs."""
    return lessons.trainer.PPOConfig(
        stop_token_ids=(EOS,),
        pad_token_id=PAD,
        max_new_tokens=PRESET.max_new_tokens,
        num_updates=updates,
        batch_size=64,
        num_epochs=2,
        learning_rate=1.4e-3,
        max_update_kl=0.02,
        kl_coef=kl_coef,
    )


def training_prompts() -> list[str]:
    return language.sample_prompts(40 * 64, random.Random(3))


def proxy_and_gold(runs: dict[float, Recorded]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 3.8), sharey=True)
    for (kl_coef, run), marker in zip(runs.items(), "os^D", strict=True):
        for axis, numbers in zip(axes, (run.proxy, run.gold), strict=True):
            look = {"color": OF_KL_COEF[kl_coef], "marker": marker}
            axis.plot(run.d, numbers, **look, markersize=3, linewidth=1.2, label=f"kl_coef = {kl_coef:g}")
            axis.plot(run.d[-1:], numbers[-1:], **look, markersize=9)
    axes[0].set(ylabel="proxy reward (standard deviations)", title="proxy reward")
    axes[1].set(ylabel="gold reward (points, at most 2)", title="gold reward")
    axes[1].yaxis.set_tick_params(labelleft=True)
    for axis in axes:
        axis.set(ylim=(-0.1, 2.1))
        axis.title.set_fontweight("normal")
    axes[0].legend(title="large marker: update 40", loc="lower right")
    figure.supxlabel(DISTANCE, fontsize=10)
    suptitle(figure, "Forty updates from the same SFT model")
    return figure, (
        "Two charts over the square root of the KL, four runs each. Left, the proxy reward rises in every run, highest "
        "with kl_coef 0, where it goes furthest to the right. Right, gold rises at first in all runs. Those with "
        "kl_coef 0.08 and 0.3 stay left and end high; with 0.01 gold turns down; with 0 it falls to 0."
    )


def sweep(runs: dict[float, Recorded], best: float) -> tuple[Figure, str]:
    figure, axis = pyplot.subplots()
    places = range(len(runs))
    ends = {
        name: torch.stack([getattr(run, name)[-3:].mean() for run in runs.values()]).tolist()
        for name in ("proxy", "gold")
    }
    for name, other, style, color in (("proxy", "gold", "s--", ORANGE), ("gold", "proxy", "o-", BLUE)):
        axis.plot(places, ends[name], style, color=color, label=f"{name} reward")
        for x, number, beside in zip(places, ends[name], ends[other], strict=True):
            offset = (0, 8) if number > beside else (0, -16)
            axis.annotate(f"{number:.2f}", (x, number), offset, textcoords="offset points", ha="center", fontsize=8)
    axis.plot([-0.4, len(runs) - 0.4], [best, best], ":", color=BLUE, linewidth=1)
    axis.text(len(runs) - 0.35, best, f"gold {best:.2f}: best\nevaluation of\nthe run with 0", va="center", color=BLUE)
    axis.set_xticks(places, [f"{kl_coef:g}" for kl_coef in runs])
    axis.set(xlabel="kl_coef", ylabel="reward at the end", ylim=(-0.25, 2.15), xlim=(-0.4, len(runs) + 0.9))
    axis.legend(loc="lower right", bbox_to_anchor=(0.85, 0))
    suptitle(figure, "Proxy and gold reward at the end of eight runs (mean of the last three evaluations)")
    return figure, (
        "Proxy and gold reward at the end against kl_coef from 0 to 0.6. The proxy reward falls, most on the right. "
        "Gold rises from 0 to its maximum at 0.08 and falls a little to 0.6; from 0.04 to 0.3 it lies above the dotted "
        "line, the best evaluation of the run with 0."
    )
