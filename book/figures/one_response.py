"""The course's response: what the shipped models say of it, and what lessons 4 and 6 make of that."""

from dataclasses import dataclass

import torch
from torch import Tensor

from solutions.lesson04_gae import compute_response_gae
from solutions.lesson06_kl_rewards import compute_rewards
from tiny_models.checkpoints import one_response

LAM = 0.95


@dataclass(frozen=True)
class Numbers:
    """One entry per token of the response, EOS included; `gamma` is 1."""

    prompt: str
    tokens: list[str]
    score: float
    kl_coef: float
    log_probs: Tensor
    ref_log_probs: Tensor
    values: Tensor

    @property
    def kl(self) -> Tensor:
        return self.log_probs - self.ref_log_probs

    @property
    def rewards(self) -> Tensor:
        log_probs, reference = self.log_probs[None], self.ref_log_probs[None]
        mask = torch.ones_like(log_probs, dtype=torch.bool)
        return compute_rewards(torch.tensor([self.score]).double(), log_probs, reference, mask, self.kl_coef)[0]

    def advantages(self, lam: float = LAM, shift: int = 0) -> Tensor:
        """`shift` 1: with each value read one position too late."""
        values = torch.cat([self.values, torch.tensor([self.score]).double()])[shift:][: len(self.tokens)]
        mask = torch.ones(1, len(values), dtype=torch.bool)
        return compute_response_gae(self.rewards[None], values[None], mask, 1.0, lam).advantages[0]

    def rows(self) -> dict[str, Tensor]:
        """The rows of a table in a text, by how the text calls them."""
        return {
            "probability when sampled": self.log_probs.exp(),
            "log_probs": self.log_probs,
            "ref_log_probs": self.ref_log_probs,
            "KL (k1)": self.kl,
            "values": self.values,
            "rewards": self.rewards,
            "TD error": self.advantages(0.0),
            "TD error, read too late": self.advantages(0.0, shift=1),
            "advantages": self.advantages(),
            "advantages, lam = 1": self.advantages(1.0),
            "returns": self.advantages() + self.values,
        }


def numbers() -> Numbers:
    said = one_response()
    tensors = ("log_probs", "ref_log_probs", "values")
    return Numbers(**said | {name: torch.tensor(said[name], dtype=torch.float64) for name in tensors})
