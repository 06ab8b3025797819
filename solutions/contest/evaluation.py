"""Where the contest looks at the gold reward: the evaluation, and nothing else."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ppo_by_hand.core.prompts import encode_prompts
from ppo_by_hand.core.tokens import is_stop
from tiny_models.gold import gold_score, is_well_formed

from ..lesson08_rollout import generate
from ..lesson12_capstone import evaluate_policy
from ..lesson13_after_ppo import expected_best_of_n
from .world import World, verified

MOST = 32
"""Responses to each prompt from which the best of n is taken."""


@dataclass(frozen=True)
class Point:
    """One policy: how good it is, and how far it has moved."""

    gold: float
    proxy: float
    kl: float
    valid: float
    verified: float
    """Share that the verifier accepts."""

    def as_dict(self) -> dict[str, float]:
        return {name: round(value, 5) for name, value in asdict(self).items()}


def evaluate(policy: Any, world: World, prompts: int | None = None) -> Point:
    """One response to each of the seed's evaluation prompts; the proxy is the seed's reward model."""
    chosen = world.evaluation_prompts[:prompts]
    found = evaluate_policy(policy, world.sft, world.proxy, chosen, world.tokenizer, world.config())
    accepted = verified(chosen, list(found.responses))
    return Point(found.gold, found.proxy, found.kl, found.valid, sum(accepted) / len(accepted))


@torch.no_grad()
def best_of_n(world: World, counts: tuple[int, ...], prompts: int) -> tuple[list[Point], int]:
    """The best of n of the SFT model's responses by proxy, for each n, and the tokens that MOST samples take."""
    chosen = [prompt for prompt in world.evaluation_prompts[:prompts] for _ in range(MOST)]
    config = world.config()
    ids, mask = encode_prompts(chosen, world.tokenizer, config.pad_token_id)
    found = generate(world.sft, ids, mask, **config.sampling(), generator=world.generator())
    scores = world.proxy(torch.cat([ids, found.responses], 1), torch.cat([mask, found.mask], 1), ids.shape[1])
    rows = zip(found.responses, found.mask, strict=True)
    texts = [world.tokenizer.decode(row[real], skip_special_tokens=True) for row, real in rows]
    stopped = is_stop(found.responses, config.stop_token_ids).any(dim=1).tolist()
    valid = [is_well_formed(text) and stop for text, stop in zip(texts, stopped, strict=True)]
    gold = [gold_score(*pair) if ok else 0.0 for pair, ok in zip(zip(chosen, texts, strict=True), valid, strict=True)]
    order = scores.view(-1, MOST).argsort(dim=1)
    columns = {"gold": torch.tensor(gold), "proxy": scores, "valid": torch.tensor(valid).float()}
    columns["verified"] = torch.tensor(verified(chosen, texts))
    columns["chances"] = found.log_probs.masked_fill(~found.mask, 0.0).double().sum(dim=1).exp()
    ranked = {name: values.view(-1, MOST).gather(1, order).double() for name, values in columns.items()}
    points, chances = [], ranked.pop("chances")
    for n in counts:
        shares = shares_of_ranks(n)
        means = {name: (values * shares).sum(dim=1).mean().item() for name, values in ranked.items()}
        lost = (below_the_bound(ranked["proxy"], chances, n) * shares).sum(dim=1).mean().item()
        points.append(Point(kl=bound_of_kl(n) - lost, **means))
    return points, int(found.mask.sum())


def bound_of_kl(n: int) -> float:
    """KL from a policy to its best of n where no two responses are equal; an upper bound where some are."""
    return math.log(n) - (n - 1) / n


def below_the_bound(scores: torch.Tensor, chances: torch.Tensor, n: int) -> torch.Tensor:
    """What each response takes off the bound by being likely: the mean over the best of n is bound minus exact KL.

    The bound is the KL of the largest of n uniform numbers from one of them. A response of probability p, where lower
    scores have the probability a, stands for the numbers from a to a + p and does not say which of them it was: the KL
    within this part, which depends on (a + p) / a alone, is lost. The policy gives p, the samples of the row give a.

    Args:
        scores: (B, K), of K samples in each row, the worst first.
        chances: (B, K), their probabilities.
        n: as in best of n.
    """
    scores = scores.contiguous()
    lower = torch.searchsorted(scores, scores).double() / scores.shape[1]
    width = torch.log1p(chances / lower)
    shorter = (width.expm1() / (n * width).expm1()).log()
    within = math.log(n) + shorter + (n - 1) * (width / -(-n * width).expm1() - 1 / n)
    return torch.where(width.isfinite(), within, bound_of_kl(n))


def shares_of_ranks(n: int) -> torch.Tensor:
    """How often each of MOST responses, the worst first, is the best of n: lesson 13's estimator on 0 and 1."""
    steps = torch.ones(MOST, MOST, dtype=torch.float64).triu()
    at_least = expected_best_of_n(steps, n)  # the best is this rank or a higher one
    return at_least - torch.cat([at_least[1:], at_least.new_zeros(1)])
