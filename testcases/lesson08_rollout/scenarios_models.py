"""Scripted policies that remember what they were fed, and the actor and critic that scenarios hand to lesson 8."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from testcases.harness.doubles.drawing import normal
from testcases.harness.doubles.models import Output, TableCritic, TablePolicy, TinyBackbone, TinyLM


class Table(TablePolicy):
    """The next token depends on the last one alone. It writes down how it was called.

    In train mode the logits are reversed, as dropout would make them wrong.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__(table)
        self.inner = nn.Sequential(nn.Identity(), nn.Dropout(0.5))
        self.calls: list[SimpleNamespace] = []

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Any = None,
        **given: Any,
    ) -> Output:
        if position_ids is not None and bool((position_ids < 0).any()):
            raise IndexError("index out of range in self")  # as of an embedding; a tensor would count from its end
        output = super().forward(input_ids, attention_mask, position_ids, past_key_values, **given)
        training = any(module.training for module in self.modules())
        self.calls.append(
            SimpleNamespace(
                input_ids=input_ids.clone(),
                columns_of_the_mask=0 if attention_mask is None else attention_mask.shape[1],
                had_cache=past_key_values is not None,
                training=training,
                tracked=output.logits.requires_grad,
            )
        )
        return Output(**{**vars(output), "logits": output.logits.flip(-1)}) if training else output


class Script(Table):
    """The next token depends on the row and the step alone: the k-th call gives table[:, k] at its last position."""

    def logits_of(self, input_ids: Tensor) -> Tensor:
        step = min(len(self.calls), self.table.shape[1] - 1)
        logits = self.table[self.rows, :1].roll(1, dims=-1).repeat(1, input_ids.shape[1], 1)
        logits[:, -1] = self.table[self.rows, step]
        return logits


class Adapted(Table):
    """What `peft` gives, as far as `reference_mode` can see: a base table, and an adapter that replaces it. With
    `by_name` an adapter named "reference" gives that table instead, and the base something else."""

    def __init__(self, table: Tensor, base: Tensor, by_name: bool = False) -> None:
        super().__init__(table)
        self.base, self.by_name = base, by_name
        self.peft_config = {"default": None, "reference": None} if by_name else {"default": None}
        self.active_adapter = "default"
        self.is_on = True

    def set_adapter(self, adapter_name: str) -> None:
        self.active_adapter = adapter_name

    @contextmanager
    def disable_adapter(self) -> Iterator[None]:
        self.is_on = False
        try:
            yield
        finally:
            self.is_on = True

    def logits_of(self, input_ids: Tensor) -> Tensor:
        if self.is_on and self.active_adapter == "default":
            return self.table[input_ids]
        return self.base[input_ids] if self.is_on == self.by_name else self.base.roll(1, dims=1)[input_ids]


class Critic(TableCritic):
    """V(text) depends on its last token alone; in train mode 100 too much."""

    def __init__(self, table: Tensor) -> None:
        super().__init__(table)
        self.inner = nn.Dropout(0.5)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return super().forward(input_ids, attention_mask) + (100 if self.training else 0)


def actor_critic(lesson: Any, policy: nn.Module, critic: nn.Module) -> nn.Module:
    return _lesson07(lesson).PolicyAndValue(policy, critic)


def tiny_actor_critic(lesson: Any, seed: int, shared: bool) -> nn.Module:
    """Actor and critic on tiny language models, `shared` on one backbone."""
    if shared:
        model = _lesson07(lesson).SharedPolicyAndValue(TinyLM(seed)).double()
        head = model.value_head
    else:
        critic = _lesson07(lesson).ValueModel(TinyBackbone(seed + 2))
        model = actor_critic(lesson, TinyLM(seed), critic).double()
        head = model.value_model.head
    with torch.no_grad():
        head.weight.copy_(normal(1, 16, seed=seed))
    return model


def _lesson07(lesson: Any) -> Any:
    """Lesson 7 from the same tree as this lesson."""
    return importlib.import_module(f"{lesson.__name__.rpartition('.')[0]}.lesson07_actor_critic")


def modes_of(modules: Any) -> Tensor:
    return torch.tensor([module.training for module in modules])
