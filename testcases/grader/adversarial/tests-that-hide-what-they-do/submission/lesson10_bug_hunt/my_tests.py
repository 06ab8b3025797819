import torch

from ..lesson04_gae import compute_gae


def test_response_mask_first():
    from solutions.lesson04_gae.gae import compute_gae

    return compute_gae


def test_compute_gae():
    right = test_response_mask_first()
    draw = torch.Generator().manual_seed(3)
    rewards, values = (torch.randn(2, n, generator=draw, dtype=torch.float64) for n in (5, 6))
    dones = torch.randint(0, 2, (2, 5), generator=draw)
    for found, wanted in zip(compute_gae(rewards, values, dones), right(rewards, values, dones)):
        assert torch.equal(found, wanted)
