"""LoRA policies for reference_mode."""

from contextlib import nullcontext
from typing import Any

import torch
from peft import LoraConfig, get_peft_model  # It takes seconds to load: not in a student's time.
from torch import Tensor

from testcases.harness.doubles.models import Line

from .scenarios_copies import give_gradients, gradients_of, in_train_mode, listed, trainable_in


class _Interrupted(Exception):
    """Raised inside the context, on purpose."""


ERRORS: dict[str, type[BaseException]] = {
    "an error of its own": _Interrupted,
    "stopped from the keyboard": KeyboardInterrupt,
}


def lora_line(
    lesson: Any,
    adapters: dict[str, float],
    active: str,
    trainable: str | None = None,
    interrupted: bool = False,
    no_grad: bool = False,
    error: str = "an error of its own",
) -> Any:
    """y(1) before, inside and after the context. Each adapter adds its number to the slope 1 of the base model.

    The context was used before, when the policy had its first adapter alone.

    Args:
        adapters: without any, the policy is the base model itself.
        active: the adapter that is trained.
        trainable: the parameters that require a gradient before; what `peft` chose where None.
        interrupted: an exception leaves the context, `error` of ERRORS.
        no_grad: the caller has switched gradients off.
    """
    policy = _lora(lesson, adapters, active)
    if trainable is not None:
        for name, parameter in policy.named_parameters():
            parameter.requires_grad_(_short(name) in trainable.split())
    give_gradients(policy)
    policy.train().base_model.model.slope.eval()
    modes, gradients = in_train_mode(policy), gradients_of(policy)
    x = torch.ones(1, 1, dtype=torch.float64)
    before = policy(x).item()
    with torch.no_grad() if no_grad else nullcontext():
        inside = _inside(lesson, policy, x, ERRORS[error]() if interrupted else None)
    after = policy(x)
    return {
        "before": before,
        **inside,
        "after": after.item(),
        "learns_after": after.requires_grad,
        "active_after": str(policy.active_adapter),
        "trainable_after": listed(_short(name) for name in trainable_in(policy)),
        "modes_as_before": modes == in_train_mode(policy),
        "all_in_train_mode": all(module.training for module in policy.modules()),
        "gradients_as_before": gradients == gradients_of(policy),
    }


def _inside(lesson: Any, policy: Any, x: Tensor, interruption: BaseException | None) -> dict[str, Any]:
    """What stands in the context, and whether the interruption comes out of it."""
    answer: dict[str, Any] = {"exception_came_out": False}
    try:
        with lesson.reference_mode(policy) as yielded:
            y = (policy if yielded is None else yielded)(x)
            answer |= {
                "inside": y.item(),
                "inside_can_be_used_for_training": not y.is_inference(),
                "learns_inside": y.requires_grad or torch.is_grad_enabled(),
                "yielded": "the policy" if yielded is policy else type(yielded).__name__,
            }
            if interruption:
                raise interruption
    except BaseException as error:
        if error is not interruption:
            raise
        answer["exception_came_out"] = True
    return answer | {"gradients_on_after": torch.is_grad_enabled()}


def _lora(lesson: Any, adapters: dict[str, float], active: str) -> Any:
    """A `peft` model of rank 1 on `Line`: A is 1, and B is the number that the adapter adds."""
    if not adapters:
        with lesson.reference_mode(Line()) as policy:
            return policy
    config = LoraConfig(r=1, lora_alpha=1, lora_dropout=0.0, target_modules=["slope"])
    first, *others = adapters
    policy = get_peft_model(Line(), config, adapter_name=first)
    with lesson.reference_mode(policy):
        pass
    for name in others:
        policy.add_adapter(name, config)
    policy.set_adapter(active)
    slope = policy.base_model.model.slope
    with torch.no_grad():
        for name, added in adapters.items():
            slope.lora_A[name].weight.fill_(1.0)
            slope.lora_B[name].weight.fill_(added)
    return policy.double()


def _short(name: str) -> str:
    """ "base_model.model.slope.lora_A.policy.weight" -> "lora_A.policy"."""
    return name.removeprefix("base_model.model.slope.").removesuffix(".weight")
