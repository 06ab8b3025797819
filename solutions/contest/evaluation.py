"""Where the contest looks at the gold reward: the evaluation, and nothing else."""

import math
from typing import Any

import torch

from ppo_by_hand.core.shapes import is_stop
from tiny_models.gold import gold_score, is_well_formed

from ..lesson12_capstone import evaluate_policy
from ..lesson13_after_ppo import expected_best_of_n
from .loop import sample
from .methods import texts_of
from .world import World

MOST, COUNTS = 32, (1, 2, 4, 8, 16, 32)
"""Responses to each prompt from which the best of n is taken, and the n."""
PROMPTS_OF_BEST, ANSWERS = 256, 1000
"""What best of n costs is given for so many answers."""


def evaluate(policy: Any, world: World, prompts: int | None = None) -> dict[str, float]:
    """Sample a response to each of the seed's evaluation prompts; the proxy is the seed's reward model."""
    chosen = world.evaluation_prompts[:prompts]
    found = evaluate_policy(policy, world.sft, world.proxy, chosen, world.tokenizer, world.config())
    return {what: round(getattr(found, what), 5) for what in ("gold", "proxy", "kl", "valid")}


def best_of_n(world: World) -> dict[int, dict[str, float]]:
    """Evaluate the best of n SFT responses by proxy, for each of COUNTS, and count the tokens of ANSWERS answers.

    The KL is log n - (n - 1) / n, which is exact where no response is drawn twice and an upper bound elsewhere. Here
    the two agree to four digits, because no single response is likely.
    """
    prompts = [prompt for prompt in world.evaluation_prompts[:PROMPTS_OF_BEST] for _ in range(MOST)]
    rollout = sample(world, world.sft, prompts, world.generator())
    scores = rollout.scores
    stopped = is_stop(rollout.responses, (world.tokenizer.eos_token_id,)).any(dim=1).tolist()
    rows = []
    for prompt, text, stop, proxy in zip(prompts, texts_of(world, rollout), stopped, scores.tolist(), strict=True):
        valid = is_well_formed(text) and stop
        rows.append((gold_score(prompt, text) if valid else 0.0, proxy, float(valid)))
    columns, order = torch.tensor(rows).double().T.view(3, -1, MOST), scores.view(-1, MOST).argsort(dim=1)
    means = columns.gather(2, order.expand(3, -1, -1)).mean(dim=1)  # of each rank, the worst first
    found = {}
    for n in COUNTS:
        gold, proxy, valid = (means @ shares_of_ranks(n)).tolist()
        tokens = rollout.mask.sum().item() / len(prompts) * n * ANSWERS
        numbers = {"gold": gold, "proxy": proxy, "valid": valid, "kl": math.log(n) - (n - 1) / n, "tokens": tokens}
        found[n] = {what: round(number, 5) for what, number in numbers.items()}
    return found


def shares_of_ranks(n: int) -> torch.Tensor:
    """Return how often each of MOST responses, the worst first, is the best of n: lesson 13's estimator on 0 and 1."""
    steps = torch.ones(MOST, MOST, dtype=torch.float64).triu()
    at_least = expected_best_of_n(steps, n)  # the best is this rank or a higher one
    return at_least - torch.cat([at_least[1:], at_least.new_zeros(1)])
