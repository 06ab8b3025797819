"""Live objects for lesson 11. The processes of a run are threads here, and what passes between them is written down.

Real processes are in testcases/course/scaling_test.py: they take seconds to start.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from solutions.lesson08_rollout import Experience
from solutions.lesson09_ppo_trainer import PPOConfig
from solutions.lesson11_scaling import Processes
from testcases.harness.doubles.models import Line

# The models are on the CPU, and have to stay there on a machine with a GPU.
os.environ.setdefault("ACCELERATE_USE_CPU", "true")

SECONDS = 60.0
"""To wait for another process: only one that never ends makes the others wait so long."""


def plan_of(lesson: Any, lengths: Tensor, n_processes: int, micro_batch_size: int | None = None) -> Any:
    """`plan_microbatches`, as tuples."""
    plan = lesson.plan_microbatches(lengths, n_processes, micro_batch_size)
    return tuple(tuple(own) for own in plan)


def whitened_of(
    lesson: Any, values: Tensor, mask: Tensor, others: Tensor, place: int, shift_mean: bool | None = None
) -> dict[str, Any]:
    """`global_masked_whiten` in process number `place`; the moments of the others are `others` (N - 1, 3)."""
    calls: list[Any] = []

    def gather(own: Tensor) -> Tensor:
        calls.append(own)
        return torch.cat([others[:place], own.unsqueeze(0).to(others.dtype), others[place:]])

    options = {} if shift_mean is None else {"shift_mean": shift_mean}
    return {"whitened": lesson.global_masked_whiten(values, mask, gather, **options), "gathered": len(calls)}


# keep_reference_adapter


def reference_of(
    lesson: Any, adapter: float, name: str = "default", rank: int = 1, lora_alpha: int = 1, lora_dropout: float = 0.0
) -> dict[str, Any]:
    """y(1) of the policy and of its reference, before and after the policy has been trained to another number.

    The SFT adapter adds `adapter` to the slope 1 of the base model; with rank 0 there is none. With dropout the policy
    comes in eval mode.
    """
    from peft import LoraConfig, get_peft_model

    from solutions.lesson07_actor_critic import reference_mode

    policy: Any = Line()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if rank:
            config = LoraConfig(r=rank, lora_alpha=lora_alpha, lora_dropout=lora_dropout, target_modules=["slope"])
            policy = get_peft_model(policy, config, adapter_name=name)
            with torch.no_grad():
                policy.base_model.model.slope.lora_A[name].weight.fill_(1.0)
                policy.base_model.model.slope.lora_B[name].weight.fill_(adapter / lora_alpha)
        kept = lesson.keep_reference_adapter(policy.train(lora_dropout == 0))
    x = torch.ones(1, 1)

    def reference() -> float:
        with reference_mode(policy):
            return policy(x).item()

    answer = {
        "returned": "the policy" if kept is policy else type(kept).__name__,
        "adapters": tuple(sorted(policy.peft_config)),
        "active": str(policy.active_adapter),
        "in_train_mode": any(part.training for part in policy.modules() if not list(part.children())),
        "trainable": tuple(sorted(_short(one) for one, weight in policy.named_parameters() if weight.requires_grad)),
        "policy": policy(x).item(),
        "reference": reference(),
    }
    with torch.no_grad():
        for weight in policy.parameters():
            if weight.requires_grad:
                weight.mul_(3.0)
    return answer | {"trained_policy": policy(x).item(), "reference_then": reference()}


def _short(name: str) -> str:
    return name.removeprefix("base_model.model.").removesuffix(".weight")


# optimizer_step


class WaitsForEver(Exception):
    """Real processes would hang here."""


class Collective:
    """A collective operation among threads: it has a kind, and every process must take part."""

    def __init__(self, count: int) -> None:
        self.brought: list[Any] = [None] * count
        self.everyone = threading.Barrier(count, timeout=SECONDS)

    def exchange(self, index: int, kind: str, thing: Any = None) -> list[Any]:
        self.brought[index] = kind, thing
        self.everyone.wait()
        there = list(self.brought)
        self.everyone.wait()
        if {each for each, _ in there} != {kind}:
            raise WaitsForEver
        return [thing for _, thing in there]


class ThreadProcesses(Processes):
    """`Processes` whose others are threads."""

    def __init__(self, collective: Collective, index: int) -> None:
        self.count, self.index = len(collective.brought), index
        self.collective = collective

    def collect(self, things: list[Any]) -> list[Any]:
        return [one for each in self.collective.exchange(self.index, "collect", list(things)) for one in each]


class ThreadAccelerator:
    """What a step asks of Accelerate. As in `DistributedDataParallel`, the *forward* decides whether the backward
    that follows exchanges gradients, and the exchange takes the mean of what has been added up."""

    def __init__(self, real: Any, collective: Collective, index: int) -> None:
        self.real, self.collective, self.index = real, collective, index
        self.is_quiet = self.forward_was_quiet = False
        self.counts = {"exchanges": 0, "clips_by_accelerator": 0, "backwards_outside_no_sync": 0}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    @contextmanager
    def no_sync(self, model: nn.Module) -> Iterator[None]:
        before, self.is_quiet = self.is_quiet, True
        try:
            yield
        finally:
            self.is_quiet = before

    def clip_grad_norm_(self, *given: Any, **named: Any) -> Any:
        self.counts["clips_by_accelerator"] += 1
        return self.real.clip_grad_norm_(*given, **named)

    def backward(self, loss: Tensor, **options: Any) -> None:
        self.counts["backwards_outside_no_sync"] += self.forward_was_quiet and not self.is_quiet
        loss.backward(**options)
        if not self.forward_was_quiet:
            self.counts["exchanges"] += 1
            weights = [one for one in self.model.parameters() if one.requires_grad]
            own = [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in weights]
            everyone = self.collective.exchange(self.index, "gradients", own)
            for weight, *slopes in zip(weights, *everyone, strict=True):
                weight.grad = torch.stack(slopes).mean(dim=0)


class OneWeight(nn.Module):
    """Stands for the policy, or for the critic."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros((), dtype=torch.float64))


class TwoWeights(nn.Module):
    """Stands for actor and critic, and for the weights under an adapter, which are frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.policy, self.value_model = OneWeight(), OneWeight()
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, prompt_length: int) -> tuple[Tensor]:
        """The trainer looks whether two passes agree."""
        return (self.frozen,)


def steps_of(
    lesson: Any,
    actor_slopes: Tensor,
    critic_slopes: Tensor,
    mask: Tensor,
    ratios: list[Tensor],
    n_processes: int,
    **settings: Any,
) -> dict[str, Any]:
    """`optimizer_step` in each of `n_processes` processes, once for each entry of `ratios`.

    Actor and critic have one weight each, both start at 0; in place of `compute_loss` stands
    loss = mean over real tokens of (actor_slopes * actor) + mean over real tokens of (critic_slopes * critic).
    Statistics: ratio_mean and ratio_max of `ratios`, and "policy_loss", the mean of actor_slopes.

    The answer: `processes_agree`, then (of the first process) the weights and statistics after each call, NaN shown
    as -1; how often gradients were exchanged in each call and clipped by Accelerate, how many backwards were outside
    `no_sync` though their forward was inside, and how many weights have a gradient left; `rows`: for each process the
    rows of each forward with a gradient in the first call, if it takes its step. If a process would wait forever the
    answer is {"waits_forever": True}.
    """
    collective = Collective(n_processes)
    members = [_Member(lesson, collective, index, settings) for index in range(n_processes)]
    prompts = torch.zeros(len(mask), 1, dtype=torch.int64)
    batches = [_experience(prompts, mask, actor_slopes, critic_slopes, ratio) for ratio in ratios]
    if not _run_together(members, batches):
        return {"waits_forever": True}
    first = members[0].steps
    table = {name: torch.tensor([step[name] for step in first], dtype=torch.float64) for name in first[0]}
    return {
        "waits_forever": False,
        "processes_agree": all(repr(member.steps) == repr(first) for member in members),
        **{name: numbers.nan_to_num(nan=-1.0) for name, numbers in table.items()},
        "rows": tuple(
            tuple(tuple(rows) for rows in member.forwards if not first[0].get("skipped_share")) for member in members
        ),
    }


def _run_together(members: list[_Member], batches: list[Experience]) -> bool:
    """Whether every process came to its end, and none would wait forever; what a student's code raised is raised."""
    threads = [threading.Thread(target=member.run, args=(batches,), daemon=True) for member in members[1:]]
    for thread in threads:
        thread.start()
    members[0].run(batches)
    for thread in threads:
        thread.join()
    errors = [member.error for member in members if member.error is not None]
    for error in errors:
        if not isinstance(error, (WaitsForEver, threading.BrokenBarrierError)):
            raise error
    return not errors


class _Member:
    """One process: its own trainer, its own copy of the weights."""

    def __init__(self, lesson: Any, collective: Collective, index: int, settings: dict[str, Any]) -> None:
        epsilon = settings.get("adam_epsilon", 1e-5)
        numbers = {name: value for name, value in settings.items() if name != "adam_epsilon"}
        config = PPOConfig(stop_token_ids=(1,), pad_token_id=0, **numbers)

        def adam(groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
            return torch.optim.AdamW(groups, eps=epsilon, weight_decay=0.0, fused=True)

        made = TwoWeights(), _no_reward, None, config, object()
        self.trainer = lesson.DistributedPPOTrainer(*made, optimizer=adam)
        self.accelerator = ThreadAccelerator(self.trainer.accelerator, collective, index)
        self.accelerator.model = self.trainer.model
        self.trainer.accelerator = self.accelerator
        self.trainer.processes = ThreadProcesses(collective, index)
        self.trainer.compute_loss = self.compute_loss
        self.collective, self.index = collective, index
        self.forwards: list[list[int]] = []
        self.steps: list[dict[str, float]] = []
        self.error: BaseException | None = None

    def compute_loss(self, batch: Experience) -> tuple[Tensor, dict[str, float]]:
        self.accelerator.forward_was_quiet = self.accelerator.is_quiet
        if not self.steps and torch.is_grad_enabled():
            self.forwards.append(batch.scores.int().tolist())
        slope, other, ratio = (each[batch.mask] for each in (batch.advantages, batch.returns, batch.values))
        actor, critic = self.trainer.model.policy.weight, self.trainer.model.value_model.weight
        numbers = {"policy_loss": slope.mean(), "ratio_mean": ratio.mean(), "ratio_max": ratio.max()}
        return slope.mean() * actor + other.mean() * critic, {name: one.item() for name, one in numbers.items()}

    def run(self, batches: list[Experience]) -> None:
        try:
            for batch in batches:
                before = dict(self.accelerator.counts)
                statistics = self.trainer.optimizer_step(batch)
                if not isinstance(statistics, dict):
                    raise ValueError(f"expected optimizer_step to return a dict, got {type(statistics).__name__}")
                model = self.trainer.model
                weights = {"actor": model.policy.weight.item(), "critic": model.value_model.weight.item()}
                counts = {name: count - before[name] for name, count in self.accelerator.counts.items()}
                left = sum(one.grad is not None and bool(one.grad != 0) for one in model.parameters())
                self.steps.append(weights | statistics | counts | {"gradients_left": left})
            self.collective.exchange(self.index, "end")
        except BaseException as error:
            self.error = error
            self.collective.everyone.abort()


def _no_reward(prompts: list[str], responses: list[str]) -> list[float]:
    return [0.0] * len(responses)


def _experience(prompts: Tensor, mask: Tensor, actor: Tensor, critic: Tensor, ratio: Tensor) -> Experience:
    """Rows numbered by `scores`."""
    zeros = torch.zeros_like(actor)
    return Experience(
        input_ids=torch.cat([prompts, mask.long()], dim=1),
        attention_mask=torch.cat([prompts == 0, mask], dim=1),
        mask=mask,
        scores=torch.arange(len(mask), dtype=actor.dtype),
        advantages=actor,
        returns=critic,
        values=ratio,
        log_probs=zeros,
        ref_log_probs=zeros,
        rewards=zeros,
    )
