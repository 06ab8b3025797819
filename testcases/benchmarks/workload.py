"""What is timed: one shape of models, batch and optimization, built alike in both virtual environments."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from tiny_models.builders import build_gpt2

if TYPE_CHECKING:
    from transformers import GPT2LMHeadModel

LEARNING_RATE = 1e-4
ADAM_EPSILON = 1e-5


@dataclass(frozen=True)
class Workload:
    """One PPO update: sizes of the models, of the batch and of its optimization.

    No row ever stops or is padded: the stop token and the pad token both have the number `vocab_size`, one past
    the last token that the policy can write. So both trainers do the same work for the same number of tokens.
    """

    n_layer: int = 2
    n_embd: int = 64
    n_head: int = 4
    vocab_size: int = 64
    batch: int = 64
    prompt: int = 8
    response: int = 24
    epochs: int = 4
    minibatches: int = 4
    threads: int = 2
    precision: str = "no"
    """As Accelerate calls it: "no" is float32, "bf16" autocasts."""
    rollout: int | None = None
    """Rows sampled and scored at once; None: the batch."""
    micro: int | None = None
    """Rows in one forward and backward; None: the minibatch."""

    @property
    def name(self) -> str:
        """Layers x width, as "2x64"."""
        return f"{self.n_layer}x{self.n_embd}"

    @property
    def never(self) -> int:
        """The stop and pad token that no policy can write."""
        return self.vocab_size

    @property
    def minibatch(self) -> int:
        """Rows in one optimizer step."""
        return self.batch // self.minibatches

    def to_json(self) -> str:
        """As the command line of a child carries it."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Workload:
        """What `to_json` wrote."""
        return cls(**json.loads(text))

    def language_model(self, seed: int) -> GPT2LMHeadModel:
        """A GPT-2 with random weights; the same seed gives the same weights in every process."""
        return build_gpt2(
            self.vocab_size,
            n_layer=self.n_layer,
            n_embd=self.n_embd,
            n_head=self.n_head,
            n_positions=self.prompt + self.response,
            eos_token_id=0,
            pad_token_id=0,
            seed=seed,
        )

    def prompts(self, count: int = 1024) -> list[list[int]]:
        """Prompts of random tokens, all of one length."""
        generator = torch.Generator().manual_seed(0)
        return torch.randint(0, self.vocab_size, (count, self.prompt), generator=generator).tolist()
