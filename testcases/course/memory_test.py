"""Memory that does not grow with the rollout: each way to need less of it gives the numbers of the plain way."""

import pytest
import torch

from ppo_by_hand.core import shapes
from solutions.lesson01_masked_sequences import gather_log_probs, token_entropy


def both(function, logits, *rest):
    """The answer and its gradient, with logits that require one."""
    logits = logits.clone().requires_grad_(True)
    answer = function(logits[:, :-1], *rest)
    (answer * torch.arange(answer.numel()).reshape(answer.shape)).sum().backward()
    return answer.detach(), logits.grad


@pytest.mark.parametrize("at_once", [1, 30, 44], ids="{} logits at once".format)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_large_logits_in_parts_give_the_same_bits(at_once, dtype, monkeypatch):
    logits = torch.randn(3, 5, 11, dtype=dtype, generator=torch.Generator().manual_seed(0))
    logits[0, 0, :4] = -torch.inf
    tokens = torch.tensor([[5, 10, 0, 3], [1, 2, 3, 4], [9, 9, 9, 9]])
    plain = [both(gather_log_probs, logits, tokens, 0.7), both(token_entropy, logits, 0.7)]
    monkeypatch.setattr(shapes, "LOGITS_AT_ONCE", at_once)
    parts = [both(gather_log_probs, logits, tokens, 0.7), both(token_entropy, logits, 0.7)]
    for (answer, gradient), (expected, slope) in zip(parts, plain, strict=True):
        assert torch.equal(answer, expected) and torch.equal(gradient, slope)


def test_no_copy_of_the_logits_is_kept(monkeypatch):
    """What the plain way keeps for the backward are three copies; in parts it is the logits themselves."""
    logits = torch.randn(4, 8, 1000, requires_grad=True)
    tokens = torch.zeros(4, 8, dtype=torch.int64)

    def kept() -> int:
        found = {}

        def pack(tensor):
            found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            answer = gather_log_probs(logits, tokens, 0.7) - token_entropy(logits, 0.7)
        assert answer.requires_grad
        return sum(found.values()) // (4 * logits.numel())

    assert kept() >= 3
    monkeypatch.setattr(shapes, "LOGITS_AT_ONCE", 1000)
    assert kept() == 1
