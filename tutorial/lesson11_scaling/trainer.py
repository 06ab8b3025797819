"""Lesson 11, last part: lesson 9's trainer on several processes, with the numbers of one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import nn

from ppo_by_hand.core.checkpoints import (
    CHECKPOINT_FILE,
    is_split,
    load_whole_state,
    read_checkpoint,
    whole_state,
    whole_weights,
    without_weights,
)
from ppo_by_hand.core.optimizer import OptimizerMaker, Schedule
from ppo_by_hand.core.processes import Processes
from ppo_by_hand.core.texts import Prompt, RewardFunction
from ppo_by_hand.core.validate import check_parts

from ..lesson07_actor_critic import PolicyAndValue, SharedPolicyAndValue
from ..lesson08_rollout import Experience, Generation, merge_experiences, merge_generations
from ..lesson09_ppo_trainer import PPOConfig, PPOTrainer
from .merging import global_masked_whiten, merge_statistics
from .sharing import gradient_weight, plan_microbatches

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class DistributedPPOTrainer(PPOTrainer):
    """`PPOTrainer` for any number of processes, started with `accelerate launch`; the update is that of one process.

    Each process samples and scores its share of the prompts. Then every process gets the experience of all: token
    ids, six floats and two mask values per token, little beside the models. So whitening, statistics, KL coefficient
    and the order of the minibatches are those of one process, in each of them, without further communication. The
    work of each optimizer step is split again by tokens; gradients and statistics are merged, and every process
    decides from the merged numbers whether to skip a step or to end an update: none waits for a skipped step.

    Responses differ from those of one process: each samples from a stream of its own. The update that is made from
    the same responses is the same, to float tolerance.

    Args: as `PPOTrainer`; every process is given the same.

    Raises:
        ValueError: there are more processes than prompts in a batch, they have different settings, or one that
            DeepSpeed does not support.
    """

    _is_alone = False

    def __init__(
        self,
        model: PolicyAndValue | SharedPolicyAndValue,
        reward_model: nn.Module | RewardFunction,
        ref_model: PreTrainedModel | None,
        config: PPOConfig,
        tokenizer: Any = None,
        sampler: Callable[..., Generation] | None = None,
        optimizer: OptimizerMaker | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        check_parts(model, reward_model, ref_model, config)
        # Accelerate's FSDP asks the model which of its blocks to split by
        setattr(model, "_no_split_modules", getattr(model.policy, "_no_split_modules", None))  # noqa: B010
        _prepare_deepspeed(config)
        size, count = config.batch_size, Accelerator().num_processes
        if size < count:
            raise ValueError(
                f"expected a prompt for each process, got batch_size {size} and {count} processes; raise batch_size "
                "or start fewer"
            )
        has_fsdp = Accelerator().distributed_type == DistributedType.FSDP
        self._empty_policy = without_weights(model.policy, "meta") if has_fsdp else None
        super().__init__(model, reward_model, ref_model, config, tokenizer, sampler, optimizer, schedule)
        self.processes = Processes(self.accelerator)
        self.processes.check_same({name: value for name, value in asdict(config).items() if name != "log_dir"})

    @contextmanager
    def whole_model(self) -> Iterator[PolicyAndValue | SharedPolicyAndValue]:
        """Give actor and critic without wrapper, with all their weights in this process; every process must enter.

        FSDP splits the weights and gathers those of a block for each of its forward passes. A rollout cannot do
        that: processes make different numbers of passes, and would wait for each other. Here all weights are
        gathered once, and split again at the end.

        Yields:
            The model; its weights are to be read, not changed, and not saved: `state_dict` would split them again.
        """
        model = self.accelerator.unwrap_model(self.model)
        split = _split_modules(model) if self.accelerator.distributed_type == DistributedType.FSDP else []
        for module in split:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield model
        finally:
            for module in split:
                module.set_reshard_after_forward(True, recurse=False)
                module.reshard()

    def whole_policy(self) -> PreTrainedModel:
        """Return the policy to save, with all its weights, in the first process; every process must call it.

        Under FSDP it's a copy on the CPU, since a split policy can't be saved. The copies of the other processes hold
        no weights.
        """
        if self._empty_policy is None:
            return self.policy
        weights = whole_weights(self.policy)
        if not self.processes.is_first:
            return self._empty_policy
        whole = without_weights(self._empty_policy, "cpu")
        whole.load_state_dict(weights)
        return whole

    def generate_responses(self, prompts: Sequence[Prompt]) -> Generation:
        """Sample for this process's share of the prompts, from random numbers of its own, and return the responses of
        all, as `PPOTrainer.generate_responses` does.

        Raises:
            ValueError: as there, or there are fewer prompts than processes.
        """
        count = self.processes.count
        if 0 < len(prompts) < count:
            raise ValueError(f"expected a prompt for each of {count} processes, got {len(prompts)}")
        if count > 1:
            self.sampling.manual_seed(self.processes.seed(self.config.seed, self.updates_done))
        with self.processes.together(), self.whole_model():
            own = super().generate_responses(self.processes.share(prompts))
        everywhere = self.processes.collect([Generation(*(tensor.cpu() for tensor in own))])
        merged = merge_generations(everywhere, self.config.pad_token_id)
        return Generation(*(tensor.to(self.accelerator.device) for tensor in merged))

    def compute_rewards(self, responses: Generation, prompts: Sequence[Prompt]) -> Experience:
        """Evaluate this process's share of the rows, and return the experience of all, as `PPOTrainer.compute_rewards`.

        Rewards are whitened with the tokens of all processes (`global_masked_whiten`).
        """
        config, own_rows = self.config, self.processes.share(range(len(prompts)))
        rows = slice(own_rows[0], own_rows[-1] + 1)
        some = Generation(*(tensor[rows] for tensor in responses))
        self.config = self._unwhitened  # whitened below; a process that fails in its own rows stops the others
        try:
            with self.processes.together(), self.whole_model():
                own = super().compute_rewards(some, prompts[rows])
        finally:
            self.config = config
        if config.whiten_rewards:
            rewards = global_masked_whiten(own.rewards, own.mask, self.processes.gather, shift_mean=False)
            own = replace(own, rewards=rewards)
        everywhere = merge_experiences(self.processes.collect([_moved(own, torch.device("cpu"))]))
        return _moved(everywhere, self.accelerator.device)

    def training_step(self, batch: Sequence[Prompt]) -> dict[str, float]:
        """Make one update as `PPOTrainer.training_step` does; each process gets all prompts and returns all metrics."""
        with self.processes.connected():
            return super().training_step(batch)

    def optimizer_step(self, minibatch: Experience) -> dict[str, float]:
        """Make one optimizer step on a minibatch that every process holds and of which each computes its share.

        1. take this process's microbatches of the plan (`processes.index` is its number, from 0); for an empty one
           compute row 0, at weight 0
        2. add up gradients, each microbatch's mean loss times its `gradient_weight`; processes exchange gradients
           in the last backward only, in all others `accelerator.no_sync(model)` holds for forward *and* backward
        3. before the last backward merge the statistics of all processes (exchanged at once or in parts;
           `processes.collect` joins lists of any plain Python objects); if their mean ratio exceeds
           `config.ratio_threshold` (or is NaN) leave it out and skip the step, as all others do
        4. clip, step, clear the gradients

        Args:
            minibatch: the same rows in every process. Before the call no weight has a gradient.

        Returns:
            As `PPOTrainer.optimizer_step`, of the whole minibatch; the same numbers in every process.
        """
        raise NotImplementedError("lesson11: DistributedPPOTrainer.optimizer_step")

    def save_checkpoint(self, directory: str | Path) -> None:
        """Save as `PPOTrainer.save_checkpoint` does; every process must call it, and the first writes the file.

        What FSDP splits is gathered, so any number of processes can go on with the file, with or without FSDP. ZeRO's
        optimizer goes on in the same number of processes only.
        """
        if not is_split(self.accelerator):
            with self.processes.together():
                if self.processes.is_first:
                    super().save_checkpoint(directory)
            return
        with self.processes.connected():
            state = self._state()
            whole = whole_state(self.accelerator, self.accelerator.unwrap_model(self.model), self.optimizer)
            whole["model"] = {name: one for name, one in whole["model"].items() if name in state["model"]}
            state |= whole
        with self.processes.together():
            if self.processes.is_first:
                file = Path(directory) / CHECKPOINT_FILE
                file.parent.mkdir(parents=True, exist_ok=True)
                unfinished = file.with_name(CHECKPOINT_FILE + ".unfinished")
                torch.save(state, unfinished)
                os.replace(unfinished, file)

    def load_checkpoint(self, directory: str | Path) -> None:
        """Load as `PPOTrainer.load_checkpoint` does; every process must call it, and see the directory.

        Raises:
            ValueError: as there, or DeepSpeed has written the checkpoint in another number of processes.
        """
        if not is_split(self.accelerator):
            with self.processes.together():
                super().load_checkpoint(directory)
            return
        with self.processes.together():
            state = read_checkpoint(directory, self._state())
        with self.processes.connected():
            model = self.accelerator.unwrap_model(self.model)
            load_whole_state(self.accelerator, model, self.optimizer, state)
        self.kl_controller.value = state["kl_coef"]
        self.prompt_queue.waiting = state["prompts_waiting"]
        self.updates_done, self.history = state["updates_done"], state["history"]
        for name, generator in self._generators().items():
            generator.set_state(state["generators"][name])

    def _state(self) -> dict[str, Any]:
        is_in_parts = self.accelerator.distributed_type == DistributedType.DEEPSPEED
        return super()._state() | ({"parts": self.processes.count} if is_in_parts else {})


def _prepare_deepspeed(config: PPOConfig) -> None:
    """Give DeepSpeed the settings that it needs before it sees the model; nothing if it is not in use.

    Raises:
        ValueError: ZeRO stage 3 or microbatches: see the README's table.
    """
    plugin = Accelerator().state.deepspeed_plugin
    if plugin is None:
        return
    if plugin.zero_stage > 2 or config.micro_batch_size is not None:
        raise ValueError(
            "expected ZeRO stage 1 or 2 and micro_batch_size None (in SET: null) with DeepSpeed, got stage "
            f"{plugin.zero_stage} and {config.micro_batch_size}; use FSDP (fsdp.yaml) for split weights or microbatches"
        )
    rows = -(-config.batch_size // config.num_minibatches)
    plugin.deepspeed_config["train_micro_batch_size_per_gpu"] = rows
    plugin.deepspeed_config["train_batch_size"] = rows * Accelerator().num_processes
    plugin.deepspeed_config["gradient_clipping"] = config.max_grad_norm


def _split_modules(model: nn.Module) -> list[Any]:
    from torch.distributed.fsdp import FSDPModule

    return [module for module in model.modules() if isinstance(module, FSDPModule)]


def _moved(experience: Experience, device: torch.device) -> Experience:
    return Experience(**{field.name: getattr(experience, field.name).to(device) for field in fields(Experience)})
