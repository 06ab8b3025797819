"""Child: the model passes that one update cannot do without, and nothing else.

The same models, batches and shapes as the trainer's: a key-value cached sampling loop (without sampling: the tokens
are there already), one pass each of reference, critic and reward model over the whole batch, then forward, backward
and fused AdamW step of policy and critic for each minibatch of each epoch. No losses, log-probabilities, advantages,
clipping or statistics: the sums of logits and values stand in for the loss.
"""

import sys
from itertools import chain

import torch

from solutions.lesson02_reward_model import RewardModel
from solutions.lesson07_actor_critic import ValueModel
from solutions.lesson08_rollout.generation import cache_name

from .relay import Relay
from .workload import ADAM_EPSILON, LEARNING_RATE, Workload


class BarePasses:
    """The four models of a workload, and one batch of random tokens."""

    def __init__(self, work: Workload, device: str = "cpu") -> None:
        self.work = work
        self.policy = work.language_model(0).to(device)
        self.critic = ValueModel(work.language_model(1).transformer).to(device)
        self.reward_model = RewardModel(work.language_model(2).transformer).to(device).requires_grad_(False)
        self.reference = work.language_model(0).to(device).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(
            chain(self.policy.parameters(), self.critic.parameters()),
            lr=LEARNING_RATE,
            eps=ADAM_EPSILON,
            weight_decay=0.0,
            fused=True,
        )
        length = work.prompt + work.response
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, work.vocab_size, (work.batch, length), generator=generator).to(device)
        self.visible = torch.ones_like(self.tokens, dtype=torch.bool)
        self.positions = torch.arange(length, device=device).expand(work.batch, length)

    def update(self) -> None:
        """All passes of one update."""
        with torch.no_grad():
            self.generate()
            self.score()
        for _ in range(self.work.epochs):
            for rows in range(0, self.work.batch, self.work.minibatch):
                self.step(slice(rows, rows + self.work.minibatch))

    def generate(self) -> None:
        """The prompt, then one token at a time, over a key-value cache."""
        cache, start, name = None, 0, cache_name(self.policy)
        for end in range(self.work.prompt, self.work.prompt + self.work.response):
            output = self.policy(
                input_ids=self.tokens[:, start:end],
                attention_mask=self.visible[:, :end],
                position_ids=self.positions[:, start:end],
                use_cache=True,
                logits_to_keep=1,
                **{name: cache},
            )
            cache, start = getattr(output, name), end

    def score(self) -> None:
        """Reference, critic and reward model read everything once."""
        everything = slice(None)
        self._logits(self.reference, everything)
        self._hidden(self.critic, everything)
        self._hidden(self.reward_model, everything)

    def step(self, rows: slice) -> None:
        """Forward, backward and optimizer step on a minibatch."""
        logits, values = self._logits(self.policy, rows), self._hidden(self.critic, rows)
        (logits.sum() + values.sum()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _logits(self, model: torch.nn.Module, rows: slice) -> torch.Tensor:
        """Of the response and the position before it, as `response_logits` of lesson 7 asks for them."""
        return model(**self._inputs(rows), logits_to_keep=self.work.response + 1, use_cache=False).logits

    def _hidden(self, model: torch.nn.Module, rows: slice) -> torch.Tensor:
        hidden = model.backbone(**self._inputs(rows), use_cache=False).last_hidden_state
        return model.head(hidden)

    def _inputs(self, rows: slice) -> dict[str, torch.Tensor]:
        return {
            "input_ids": self.tokens[rows],
            "attention_mask": self.visible[rows],
            "position_ids": self.positions[rows],
        }


def main() -> None:
    work = Workload.from_json(sys.argv[1])
    passes, relay = BarePasses(work, "cuda" if torch.cuda.is_available() else "cpu"), Relay()
    relay.wait()
    while True:
        passes.update()
        relay.update_done()


if __name__ == "__main__":
    main()
