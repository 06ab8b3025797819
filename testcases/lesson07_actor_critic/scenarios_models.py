"""Small parts that the scenarios of lesson 7 share: models to run, and what can be told of one."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from testcases.harness.doubles.calls import forget_the_batch
from testcases.harness.doubles.drawing import normal_from


class _Method(nn.Module):
    """Calls a method of a model as a forward, so that its parameters can be given from outside."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *arguments: Any) -> Any:
        return getattr(self.model, self.name)(*arguments)


def with_parameters(
    model: nn.Module, parameters: dict[str, Tensor | None], *arguments: Any, method: str = "forward"
) -> Any:
    """Call a model with these parameters in place of its own: gradients then reach the tensors that were given.

    It has read another batch of the same shape before, of which it may keep nothing.
    """
    forget_the_batch(model, method, *(part.flip(0) if isinstance(part, Tensor) else part for part in arguments))
    dtype = next(model.parameters()).dtype
    given = {f"model.{name}": value.to(dtype) for name, value in parameters.items() if value is not None}
    return functional_call(_Method(model, method), given, arguments)


def on_real_tokens(answer: Any, mask: Tensor) -> Any:
    """0 where the number means nothing; an answer of another shape as it is, for the comparison to say so."""
    if not isinstance(answer, Tensor) or answer.shape[:2] != mask.shape:
        return answer
    mask = mask.bool()
    return answer.masked_fill(~(mask if answer.dim() == 2 else mask.unsqueeze(-1)), 0.0)


def reward_model_on(lesson: Any, backbone: nn.Module) -> Any:
    lesson02 = importlib.import_module("..lesson02_reward_model", lesson.__name__)
    return lesson02.RewardModel(backbone)


def gpt2(seed: int, dropout: float = 0.0) -> Any:
    from tiny_models.builders import build_gpt2

    return build_gpt2(
        12, n_layer=1, n_embd=16, n_head=2, n_positions=16, dropout=dropout, eos_token_id=1, pad_token_id=0, seed=seed
    ).double()


def llama(seed: int) -> Any:
    from tiny_models.builders import build_llama

    return build_llama(
        12, n_layer=1, n_embd=16, n_head=2, n_positions=16, eos_token_id=1, pad_token_id=0, seed=seed
    ).double()


def language_model_logits(
    lesson: Any, input_ids: Tensor, attention_mask: Tensor, seed: int, architecture: str
) -> Tensor:
    """(B, L, V), without any code of the lesson: the logits of every position."""
    policy = gpt2(seed) if architecture == "gpt2" else llama(seed)
    return logits_of(policy, input_ids, attention_mask).detach()


def logits_of(policy: Any, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
    mask = attention_mask.long()
    positions = (mask.cumsum(dim=1) - 1) * mask
    logits = policy(input_ids=input_ids, attention_mask=mask, position_ids=positions, use_cache=False).logits
    return on_real_tokens(logits, attention_mask)


def step(policy: Any, input_ids: Tensor, attention_mask: Tensor) -> None:
    """Move every parameter that learns."""
    loss = logits_of(policy, input_ids, attention_mask).log_softmax(dim=-1)[..., 3].sum()
    learning = [parameter for parameter in policy.parameters() if parameter.requires_grad]
    for parameter, slope in zip(learning, torch.autograd.grad(loss, learning, allow_unused=True), strict=True):
        if slope is not None:
            parameter.data.sub_(0.5 * slope)


def fill(head: nn.Linear, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (head.weight, head.bias):
            tensor.copy_(normal_from(draw, *tensor.shape))


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def first_numbers(model: nn.Module) -> Tensor:
    """First number of each parameter and buffer: the layers are filled with one number each."""
    return torch.stack([tensor.detach().flatten()[0] for tensor in (*model.parameters(), *model.buffers())])


def trainable_in(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def in_train_mode(model: nn.Module) -> list[str]:
    return [name or "the whole" for name, module in model.named_modules() if module.training]


def give_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5) if parameter.requires_grad else None


def gradients_of(model: nn.Module) -> dict[str, Any]:
    """The gradients that have been accumulated so far."""
    return {name: None if tensor.grad is None else tensor.grad.tolist() for name, tensor in model.named_parameters()}


def dropouts_of(model: nn.Module) -> list[float]:
    return [module.p for module in model.modules() if isinstance(module, nn.Dropout)]


def shared_tensors(first: nn.Module, second: nn.Module) -> list[str]:
    """Names in `first` of what stands in the same memory as something of `second`."""
    places = {tensor.data_ptr() for tensor in (*second.parameters(), *second.buffers())}
    named = (*first.named_parameters(), *first.named_buffers())
    return [name for name, tensor in named if tensor.data_ptr() in places]


def listed(names: Any) -> str:
    return ", ".join(names) or "none"
