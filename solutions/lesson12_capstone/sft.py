"""Stage 1: supervised fine-tuning (SFT): imitate demonstrations, response tokens only.

An answer has the precision of its arguments, float32 or float64. No tensor is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from tqdm import tqdm

from ppo_by_hand.core.shapes import check_mask, check_number, check_shapes

from ..lesson01_masked_sequences import masked_mean, position_ids, response_log_probs

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Demonstrations(NamedTuple):
    """Prompts with the responses to imitate, as token ids, right-padded."""

    input_ids: Tensor
    """(N, L) int64: prompt, response, stop token, padding."""
    attention_mask: Tensor
    """(N, L) bool, True on real tokens."""
    loss_mask: Tensor
    """(N, L) bool, True on the tokens to learn: the response and its stop token, not the prompt."""


@dataclass(frozen=True)
class SFTConfig:
    """How `train_sft` trains."""

    learning_rate: float
    """AdamW step size, > 0; it decays linearly to 0."""
    batch_size: int
    """Demonstrations in one optimizer step."""
    seed: int = 0
    """Order of the demonstrations."""


def encode_demonstrations(tokenizer: Any, prompts: Sequence[str], responses: Sequence[str]) -> Demonstrations:
    """Tokenize prompt + response + stop token, and mark what is to be learned."""
    prompt_ids = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    response_ids = [tokenizer(response)["input_ids"] + [tokenizer.eos_token_id] for response in responses]
    lengths = [(len(prompt), len(response)) for prompt, response in zip(prompt_ids, response_ids, strict=True)]
    width = max(first + second for first, second in lengths)
    padding = [[tokenizer.pad_token_id] * (width - first - second) for first, second in lengths]
    rows = [prompt + response + pads for prompt, response, pads in zip(prompt_ids, response_ids, padding, strict=True)]
    position = torch.arange(width)
    start = torch.tensor([first for first, _ in lengths]).unsqueeze(1)
    end = torch.tensor([first + second for first, second in lengths]).unsqueeze(1)
    return Demonstrations(torch.tensor(rows), position < end, (position >= start) & (position < end))


def sft_loss(logits: Tensor, input_ids: Tensor, loss_mask: Tensor) -> Tensor:
    """Return the mean negative log-likelihood of the tokens to learn, each predicted one position before it.

    Args:
        logits: (B, L, V) float32 or float64, of the model run over `input_ids`. Those that predict nothing to learn
            are arbitrary, NaN included (their gradient then too).
        input_ids: (B, L) int64.
        loss_mask: (B, L) bool, True on the tokens to learn; its first column cannot be learned and is ignored.

    Returns:
        () scalar in nats for each token, with gradient into the logits.

    Raises:
        ValueError: shapes disagree, or nothing is left to learn.
    """
    check_shapes(logits=(logits, "B L V"), input_ids=(input_ids, "B L"), loss_mask=(loss_mask, "B L"))
    check_mask(loss_mask[:, 1:])
    # region solution
    return -masked_mean(response_log_probs(logits, input_ids, prompt_length=1), loss_mask[:, 1:])
    # endregion


def train_sft(policy: PreTrainedModel, data: Demonstrations, config: SFTConfig) -> list[float]:
    """Fit the policy to the demonstrations, each seen once, with AdamW (no weight decay).

    Of n optimizer steps in all, step k = 0, 1, ... uses learning_rate * (1 - k / n). Before it the gradients of all
    parameters together are scaled down to the norm 1, if theirs is larger.

    Args:
        policy: a Hugging Face causal language model without gradients of an earlier backward, trained in place, in
            train mode; left in eval mode. Its weights may be frozen in part, and stay so.
        data: N demonstrations, taken in batches of `config.batch_size` (the last may be smaller). Their order is a
            torch.randperm from a generator of its own that starts at `config.seed`.
        config: step size, batch size and seed.

    Returns:
        The loss of every optimizer step, in nats for each token.

    Raises:
        ValueError: there are no demonstrations.
    """
    check_number("the number of demonstrations", len(data.input_ids), 1)
    # region solution
    optimizer = torch.optim.AdamW(policy.parameters(), lr=config.learning_rate, weight_decay=0.0, fused=True)
    order = torch.randperm(len(data.input_ids), generator=torch.Generator().manual_seed(config.seed))
    batches = order.split(config.batch_size)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=len(batches))
    losses = []
    policy.train()
    for index in tqdm(batches, desc="sft", unit="step", disable=None):
        input_ids, attention_mask, loss_mask = (tensor[index].to(policy.device) for tensor in data)
        logits = policy(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids(attention_mask),
            use_cache=False,
        ).logits
        loss = sft_loss(logits, input_ids, loss_mask)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        decay.step()
        losses.append(loss.item())
    policy.eval()
    return losses
    # endregion
