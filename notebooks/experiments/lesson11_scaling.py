"""Notebook 11: weights of microbatches, plans for several processes, two real processes, bf16 ratios, memory."""

import copy
import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from accelerate import PartialState, debug_launcher
from accelerate.state import AcceleratorState
from figures.models import EOS, PAD, TOKENIZER, sft_model
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from tiny_models import builders, checkpoints, language

os.environ["ACCELERATE_USE_CPU"] = "true"

PROMPTS = language.all_prompts()[:24]
RANGES = [0, 2, 5, 8, 11, 14, 17, 19]
SETTINGS = {"max_new_tokens": 20, "batch_size": 24, "num_epochs": 1, "num_minibatches": 2, "num_updates": 5}
SETTINGS |= {"temperature": 1.5}


def microbatch_gradients(masked: Any, lengths: Tensor, seed: int) -> tuple[Tensor, list[Tensor], list[int]]:
    """The gradient of all rows, that of the mean loss of each half, and the halves' tokens (a linear policy)."""
    draw, rows = torch.Generator().manual_seed(seed), len(lengths)
    weight = torch.zeros(8, 12, requires_grad=True)
    features = torch.randn(rows, 40, 8, generator=draw) + torch.randn(rows, 1, 8, generator=draw)
    tokens = torch.randint(12, (rows, 40), generator=draw)
    advantages = torch.randn(rows, 1, generator=draw).expand(rows, 40)
    mask = torch.arange(40) < lengths.unsqueeze(1)
    loss = -masked.gather_log_probs(features @ weight, tokens) * advantages
    halves = [slice(0, rows // 2), slice(rows // 2, rows)]
    means = [masked.masked_mean(loss[half], mask[half]) for half in halves]
    parts = [torch.autograd.grad(mean, weight, retain_graph=True)[0] for mean in means]
    whole = torch.autograd.grad(masked.masked_mean(loss, mask), weight)[0]
    return whole, parts, [int(mask[half].sum()) for half in halves]


def gradient_error(masked: Any, half_range: int, weight_of: Callable[[int, int], float], rows: int = 16) -> float:
    """Relative error of the weighted sum for lengths of 20 +- half_range tokens, mean over 40 draws."""
    errors = []
    for seed in range(40):
        uniform = torch.rand(rows, generator=torch.Generator().manual_seed(seed))
        lengths = (20 + half_range * (2 * uniform - 1)).round().long()
        whole, parts, tokens = microbatch_gradients(masked, lengths, seed)
        total = sum(weight_of(count, sum(tokens)) * part for count, part in zip(tokens, parts, strict=True))
        errors.append(((total - whole).norm() / whole.norm()).item())
    return sum(errors) / len(errors)


def lengths_of_rows() -> Tensor:
    """256 lengths between 1 and 200, short ones more often."""
    return (200 * torch.rand(256, generator=torch.Generator().manual_seed(4)) ** 2).long() + 1


def microbatches_of_four(shares: list[Tensor]) -> list[list[Tensor]]:
    return [list(share.split(4)) for share in shares]


def token_positions(lengths: Tensor, plan: list[list[Tensor]]) -> list[int]:
    """What each process computes: in each microbatch as many positions as rows times the longest row."""
    return [sum(len(rows) * int(lengths[rows].max()) for rows in own) for own in plan]


def ppo_config(lesson: Any) -> Any:
    return lesson.PPOConfig(stop_token_ids=(EOS,), pad_token_id=PAD, **SETTINGS)


class TwoProcesses:
    """Four updates on the same responses, by one process or by two, with the lesson's trainer or with a fault.

    Args:
        course: the lessons, as `blocks.course` gives them.
        faults: name -> functions that are called in the place of the trainer's, by their names.
    """

    def __init__(self, course: SimpleNamespace, faults: dict[str, dict[str, Callable]]) -> None:
        self.course, self.faults, self.folder = course, faults, tempfile.mkdtemp()
        self.sft = sft_model()
        self.reward_model = course.reward_model.RewardModel.from_pretrained(checkpoints.REWARD_MODEL)

    def weights(self) -> Tensor:
        """(5, N): all weights at the start and after each of four updates."""
        torch.set_num_threads(1)
        course, config = self.course, ppo_config(self.course.ppo_trainer)
        critic = course.actor_critic.critic_from_reward_model(self.reward_model)
        model = course.actor_critic.PolicyAndValue(copy.deepcopy(self.sft).requires_grad_(True), critic)
        models = model, self.reward_model, course.actor_critic.make_reference(self.sft)
        trainer = course.scaling.DistributedPPOTrainer(*models, config, TOKENIZER, schedule=lambda done: 1 - done / 5)
        start = copy.deepcopy(model)
        weights = [parameters_to_vector(start.parameters()).detach()]
        encoded = course.ppo_trainer.encode_prompts(PROMPTS, TOKENIZER, PAD)
        trainer.generate_responses = lambda prompts: None  # the rollout below is that of all processes
        for update in range(4):
            draw = torch.Generator().manual_seed(update)
            arguments = (start, trainer.ref_model, trainer.score, *encoded, config, 0.05, draw)
            whole = course.rollout.collect_experience(*arguments)
            trainer.compute_rewards = lambda responses, prompts, whole=whole: whole
            trainer.training_step(PROMPTS)
            weights.append(parameters_to_vector(model.parameters()).detach())
        return torch.stack(weights)

    def weights_of_two(self, fault: str = "") -> Tensor:
        """The same from two processes with their own memory."""
        debug_launcher(self._in_each_process, (fault,), num_processes=2)
        return torch.load(os.path.join(self.folder, fault or "correct"))

    def _in_each_process(self, fault: str) -> None:
        AcceleratorState._reset_state(reset_partial_state=True)  # a fork inherits that of the notebook's own run
        own, lesson_9 = self.course.trainer, self.course.ppo_trainer.trainer
        with ExitStack() as patched:
            for name, function in self.faults.get(fault, {}).items():
                patched.enter_context(patch.object(own if hasattr(own, name) else lesson_9, name, function))
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
    course: SimpleNamespace, sft: nn.Module, reward_model: nn.Module, combination: tuple[bool, bool, bool], **changed
) -> Tensor:
    """|ratio - 1| of each real token, before any step."""
    rollout_in_bf16, training_in_bf16, logits_in_float32 = combination
    config = replace(ppo_config(course.ppo_trainer), **changed)
    ids, visible = course.ppo_trainer.encode_prompts(PROMPTS, TOKENIZER, PAD)
    model = course.actor_critic.PolicyAndValue(sft, course.actor_critic.critic_from_reward_model(reward_model))
    arguments = (model, sft, course.ppo_trainer.make_scorer(reward_model), ids, visible, config, 0.05)
    with torch.autocast("cpu", torch.bfloat16, enabled=rollout_in_bf16):
        tokens = course.rollout.collect_experience(*arguments, torch.Generator().manual_seed(0))
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16, enabled=training_in_bf16):
            texts = (tokens.input_ids, tokens.attention_mask, tokens.prompt_length)
            logits = course.actor_critic.response_logits(sft, *texts)
        logits = logits.float() if logits_in_float32 else logits
        new = torch.log_softmax(logits / config.temperature, dim=-1)
        new = new.gather(2, tokens.responses.unsqueeze(2)).squeeze(2)
    return (new.float() - tokens.log_probs)[tokens.mask].exp().sub(1).abs()


def kept_and_computed(lesson: Any, n_layer: int, checkpointing: bool, rows: int = 16) -> tuple[float, float]:
    """MiB kept for the backward pass, weights not counted, and the forward passes of a block in a whole step."""
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

    batch = torch.randint(5, 30, (rows, 48), generator=torch.Generator().manual_seed(0))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model(input_ids=batch).logits.logsumexp(dim=-1).mean()
    mebibytes = sum(kept.values()) / 2**20
    loss.backward()
    return mebibytes, len(calls) / n_layer
