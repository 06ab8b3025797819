"""Notebook 11: weights of microbatches, plans for several processes, bf16 ratios, memory."""

import copy
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import torch
from accelerate import PartialState, debug_launcher
from accelerate.state import AcceleratorState
from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from book.figures import BLUE, ORANGE, PINK
from tiny_models import builders, checkpoints, language

from . import suptitle
from .models import EOS, PAD, TOKENIZER, sft_model

os.environ["ACCELERATE_USE_CPU"] = "true"

PROMPTS = language.all_prompts()[:24]
RANGES = [0, 2, 5, 8, 11, 14, 17, 19]
SETTINGS = {"max_new_tokens": 20, "batch_size": 24, "num_epochs": 1, "num_minibatches": 2, "num_updates": 5}
SETTINGS |= {"warmup_updates": 0, "temperature": 1.5}


def microbatch_gradients(masked, lengths: Tensor, seed: int) -> tuple[Tensor, list[Tensor], list[int]]:
    """The gradient of 16 rows, that of the mean loss of each half, and the halves' tokens (a linear policy)."""
    draw = torch.Generator().manual_seed(seed)
    weight = torch.zeros(8, 12, requires_grad=True)
    features = torch.randn(16, 40, 8, generator=draw) + torch.randn(16, 1, 8, generator=draw)
    tokens = torch.randint(12, (16, 40), generator=draw)
    advantages = torch.randn(16, 1, generator=draw).expand(16, 40)
    mask = torch.arange(40) < lengths.unsqueeze(1)
    loss = -masked.gather_log_probs(features @ weight, tokens) * advantages
    halves = [slice(0, 8), slice(8, 16)]
    means = [masked.masked_mean(loss[half], mask[half]) for half in halves]
    parts = [torch.autograd.grad(mean, weight, retain_graph=True)[0] for mean in means]
    whole = torch.autograd.grad(masked.masked_mean(loss, mask), weight)[0]
    return whole, parts, [int(mask[half].sum()) for half in halves]


def gradient_error(masked, half_range: int, weight_of: Callable[[int, int], float]) -> float:
    """Relative error of the weighted sum for lengths of 20 +- half_range tokens, mean over 40 draws."""
    errors = []
    for seed in range(40):
        uniform = torch.rand(16, generator=torch.Generator().manual_seed(seed))
        lengths = (20 + half_range * (2 * uniform - 1)).round().long()
        whole, parts, tokens = microbatch_gradients(masked, lengths, seed)
        total = sum(weight_of(count, sum(tokens)) * part for count, part in zip(tokens, parts, strict=True))
        errors.append(((total - whole).norm() / whole.norm()).item())
    return sum(errors) / len(errors)


def weighted_gradients(curves: dict[str, list[float]]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for (name, values), style, color in zip(curves.items(), ("^:", "s--", "o-"), (PINK, ORANGE, BLUE), strict=True):
        axes.plot(RANGES, values, style, color=color, label=name)
    axes.set(xlabel="lengths: 20 tokens, plus or minus", ylabel="relative error of the gradient", xticks=RANGES)
    axes.set_yscale("symlog", linthresh=0.01)
    axes.set_yticks([0, 0.01, 0.1, 1], ["0", "1 %", "10 %", "100 %"])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-0.001, 2)
    axes.legend(loc="center right", bbox_to_anchor=(1, 0.32))
    suptitle(figure, "Two microbatches added up in three ways: the error against the whole minibatch")
    return figure, (
        "Relative error of the gradient against the range of the row lengths, from all equal to 1 to 39 tokens. The "
        "sum of means is off by about 100 % everywhere. The mean of means has no error for equal rows and about 11 % "
        "at the widest range. The weights of the lesson have no error anywhere."
    )


def lengths_of_rows() -> Tensor:
    """256 lengths between 1 and 200, short ones more often."""
    return (200 * torch.rand(256, generator=torch.Generator().manual_seed(4)) ** 2).long() + 1


def microbatches_of_four(shares: list[Tensor]) -> list[list[Tensor]]:
    return [list(share.split(4)) for share in shares]


def token_positions(lengths: Tensor, plan: list[list[Tensor]]) -> list[int]:
    """What each process computes: in each microbatch as many positions as rows times the longest row."""
    return [sum(len(rows) * int(lengths[rows].max()) for rows in own) for own in plan]


def processes_at_work(lengths: Tensor, plans: dict[str, list[list[Tensor]]]) -> tuple[Figure, str]:
    figure, grid = pyplot.subplots(1, 3, sharey=True)
    for axes, (name, plan) in zip(grid, plans.items(), strict=True):
        busy = token_positions(lengths, plan)
        real = [sum(int(lengths[rows].sum()) for rows in own) for own in plan]
        axes.bar(range(8), [max(busy)] * 8, color="0.93", label="waiting")
        axes.bar(range(8), busy, color=ORANGE, label="padding")
        axes.bar(range(8), real, color=BLUE, label="real tokens")
        axes.set_title(f"{name}\n{sum(real) / (8 * max(busy)):.0%} real tokens", fontsize=10)
        axes.set(xlabel="process", xticks=range(8))
    grid[0].set_ylabel("token positions")
    grid[2].legend(loc="upper right")
    suptitle(figure, "256 rows on 8 processes, until all are done")
    return figure, (
        "Three bar charts of 8 processes: real tokens in blue, padding in orange on top, waiting for the slowest "
        "process in gray above. In order of arrival: much orange and some gray. Sorted, in blocks: the first process "
        "is full, the others mostly wait. plan_microbatches: nearly all blue, and all bars equally high."
    )


def ppo_config(ppo):
    return ppo.PPOConfig(stop_token_ids=(EOS,), pad_token_id=PAD, **SETTINGS)


class TwoProcesses:
    """Four updates on the same responses, by one process or by two, with the lesson's trainer or with a fault."""

    def __init__(self, lessons: SimpleNamespace) -> None:
        self.lessons, self.folder = lessons, tempfile.mkdtemp()
        self.sft = sft_model()
        self.reward_model = lessons.reward.RewardModel.from_pretrained(checkpoints.REWARD_MODEL)
        self.faults: dict[str, Callable | None] = {
            "mean over processes forgotten": lambda tokens, total, n_processes: tokens / total,
            "mean of the processes' means": lambda tokens, total, n_processes: 1.0,
            "whitened in each process": None,
        }

    def weights(self) -> Tensor:
        """(5, N): all weights at the start and after each of four updates."""
        torch.set_num_threads(1)
        lessons, config = self.lessons, ppo_config(self.lessons.ppo)
        critic = lessons.actor_critic.critic_from_reward_model(self.reward_model)
        model = lessons.actor_critic.PolicyAndValue(copy.deepcopy(self.sft).requires_grad_(True), critic)
        reference = lessons.actor_critic.make_reference(self.sft)
        trainer = lessons.lesson.DistributedPPOTrainer(model, self.reward_model, reference, config, TOKENIZER)
        start = copy.deepcopy(model)
        weights = [parameters_to_vector(start.parameters()).detach()]
        encoded = lessons.ppo.encode_prompts(PROMPTS, TOKENIZER, PAD)
        trainer.generate_responses = lambda prompts: None  # the rollout below is that of all processes
        for update in range(4):
            draw = torch.Generator().manual_seed(update)
            arguments = (start, trainer.ref_model, trainer.score, *encoded, config, 0.05, draw)
            whole = lessons.rollout.collect_experience(*arguments)
            trainer.compute_rewards = lambda responses, prompts, whole=whole: whole
            trainer.training_step(PROMPTS)
            weights.append(parameters_to_vector(model.parameters()).detach())
        return torch.stack(weights)

    def weights_of_two(self, fault: str = "") -> Tensor:
        """The same from two processes with their own memory."""
        debug_launcher(self._in_each_process, (fault,), num_processes=2)
        return torch.load(os.path.join(self.folder, fault or "correct"))

    def _in_two_halves(self, advantages: Tensor, mask: Tensor) -> Tensor:
        """Each process whitens its own rows."""
        halves = zip(advantages.chunk(2), mask.chunk(2), strict=True)
        return torch.cat([self.lessons.masked.masked_whiten(*half) for half in halves])

    def _in_each_process(self, fault: str) -> None:
        AcceleratorState._reset_state(reset_partial_state=True)  # a fork inherits that of the notebook's own run
        weight_of = self.faults.get(fault) or self.lessons.lesson.gradient_weight
        whiten = self._in_two_halves if fault == "whitened in each process" else self.lessons.masked.masked_whiten
        with (
            patch.object(self.lessons.scaled, "gradient_weight", weight_of),
            patch.object(self.lessons.ppo.trainer, "masked_whiten", whiten),
        ):
            weights = self.weights()
        if PartialState().is_main_process:
            torch.save(weights, os.path.join(self.folder, fault or "correct"))


COMBINATIONS = {
    "float32 everywhere": (False, False, True),
    "bf16 passes in both,\nfloat32 logarithm (the lesson)": (True, True, True),
    "float32 rollout,\nbf16 training": (False, True, True),
    "bf16 passes,\nbf16 logarithm": (True, True, False),
}
"""Whether the rollout runs in bf16, whether training does, whether the logits become float32 before the logarithm."""


def ratio_errors(
    lessons: SimpleNamespace, sft: nn.Module, reward_model: nn.Module, combination: tuple[bool, bool, bool], **changed
) -> Tensor:
    """|ratio - 1| of each real token, before any step."""
    rollout_in_bf16, training_in_bf16, logits_in_float32 = combination
    config = replace(ppo_config(lessons.ppo), **changed)
    ids, visible = lessons.ppo.encode_prompts(PROMPTS, TOKENIZER, PAD)
    model = lessons.actor_critic.PolicyAndValue(sft, lessons.actor_critic.critic_from_reward_model(reward_model))
    arguments = (model, sft, lessons.ppo.make_scorer(reward_model), ids, visible, config, 0.05)
    with torch.autocast("cpu", torch.bfloat16, enabled=rollout_in_bf16):
        tokens = lessons.rollout.collect_experience(*arguments, torch.Generator().manual_seed(0))
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16, enabled=training_in_bf16):
            texts = (tokens.input_ids, tokens.attention_mask, tokens.prompt_length)
            logits = lessons.actor_critic.response_logits(sft, *texts)
        logits = logits.float() if logits_in_float32 else logits
        new = torch.log_softmax(logits / config.temperature, dim=-1)
        new = new.gather(2, tokens.responses.unsqueeze(2)).squeeze(2)
    return (new.float() - tokens.log_probs)[tokens.mask].exp().sub(1).abs()


def first_ratios(errors: dict[str, Tensor]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots()
    for (name, values), style, color in zip(
        errors.items(), ("-", "-", "--", ":"), ("black", BLUE, PINK, ORANGE), strict=True
    ):
        ordered = values.sort().values
        above = 1 - torch.arange(len(ordered)) / len(ordered)
        axes.plot(ordered, above, style, color=color, label=name.replace("\n", " "))
    axes.set(xlabel="distance of the ratio from 1", ylabel="tokens farther from 1")
    axes.set_xscale("symlog", linthresh=1e-4)
    axes.set_xlim(0, 0.3)
    axes.set_xticks([0, 1e-4, 1e-3, 1e-2, 0.05, 0.2], ["0", "0.0001", "0.001", "0.01", "0.05", "0.2"])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.axvline(0.2, color="0.7", linewidth=1)
    axes.text(0.19, 0.9, "PPO clips", ha="right", color="0.4", fontsize=9)
    figure.legend(loc="outside lower center", ncols=2)
    suptitle(figure, "Ratios before the first step: the share of tokens that is farther from 1")
    return figure, (
        "Four falling curves: the share of tokens whose ratio is farther from 1 than the distance on the x axis. "
        "float32 everywhere: a vertical line at 0. bf16 passes with a float32 logarithm: most tokens below 0.0001. "
        "float32 rollout with bf16 training, and then a bf16 logarithm: farther to the right. None reaches 0.2."
    )


def kept_and_computed(lesson, n_layer: int, checkpointing: bool) -> tuple[float, float]:
    """MiB kept for the backward of one pass, weights not counted, and the forwards of a block in a whole step."""
    special = {"eos_token_id": EOS, "pad_token_id": PAD}
    model = builders.build_gpt2(len(TOKENIZER), n_layer=n_layer, n_embd=64, n_head=4, seed=0, **special).train()
    if checkpointing:
        lesson.enable_gradient_checkpointing(model)
    calls: list[int] = []
    kept: dict[int, int] = {}
    own = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    for block in model.transformer.h:
        block.mlp.register_forward_pre_hook(lambda *_: calls.append(1))

    def pack(tensor: Tensor) -> Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    batch = torch.randint(5, 30, (16, 48), generator=torch.Generator().manual_seed(0))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(input_ids=batch).logits.logsumexp(dim=-1).mean()
    mebibytes = sum(kept.values()) / 2**20
    loss.backward()
    return mebibytes, len(calls) / n_layer


def kept_for_backward(depths: list[int], plain: list[float], saved: list[float]) -> tuple[Figure, str]:
    figure, axes = pyplot.subplots(figsize=(6.4, 3.4))
    axes.plot(depths, plain, "s--", color=ORANGE, label="all activations")
    axes.plot(depths, saved, "o-", color=BLUE, label="checkpointed: the input of each block")
    axes.set(xlabel="layers", ylabel="kept for the backward (MiB)", xticks=depths, ylim=(0, None))
    axes.legend(loc="upper left")
    suptitle(figure, "Memory for one forward and backward pass, weights not counted")
    return figure, (
        "Memory kept for the backward against the number of layers, from 1 to 8: a steep dashed line if all "
        "activations are kept, a nearly flat one with checkpointing."
    )
