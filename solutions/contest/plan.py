"""Which runs the contest consists of: methods, what is tuned, and the coefficient that each curve runs over."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from . import methods
from .methods import Settings, Trained, Watch
from .world import FEW, HOME, World, verified

Run = Callable[[World, Settings, Watch], Trained]
TUNING_SEEDS = (1000, 1001)
"""Never used again."""
FIRST_SEED = 0
MAX_KL = 5.0
"""A policy farther from the SFT model than this is not chosen."""
RATES, EPOCHS = (5e-4, 1e-3, 2e-3, 4e-3), (1, 2)
COUNTS = (1, 2, 4, 8, 16, 32)
"""The n of best of n."""
BEST_OF_N = "best of n"


@dataclass(frozen=True)
class Method:
    """One competitor."""

    run: Run
    coefficients: tuple[float, ...]
    """A curve's five; the third one is that of the tuning."""
    rates: tuple[float, ...] = RATES
    epochs: tuple[int, ...] = EPOCHS
    tuned_as: str = ""
    """The method whose settings it takes; itself where empty."""

    @property
    def middle(self) -> float:
        return self.coefficients[2]

    def candidates(self) -> list[Settings]:
        """What the tuning tries."""
        return [Settings(rate, epochs, self.middle) for rate, epochs in product(self.rates, self.epochs)]


IN_THE_REWARD, IN_THE_LOSS = (0.02, 0.05, 0.1, 0.2, 0.4), (0.1, 0.2, 0.4, 0.8, 1.6)
BETAS, KEPT_OF = (0.1, 0.2, 0.5, 1.0, 2.0), (2.0, 4.0, 8.0, 16.0, 32.0)
OF_A_VERIFIER = (0.0, 0.01, 0.03, 0.1, 0.3)
IMITATION_RATES = (2.5e-4, 5e-4, 1e-3, 2e-3)
PAIR_RATES = (2e-4, 5e-4, 1e-3, 2e-3)

METHODS: dict[str, Method] = {
    "PPO": Method(lambda world, *how: methods.ppo(world, world.reward_model, *how), IN_THE_REWARD),
    "RLOO": Method(lambda world, *how: methods.rloo(world, world.reward_model, *how), IN_THE_REWARD),
    "GRPO": Method(lambda world, *how: methods.grpo(world, world.reward_model, *how), IN_THE_LOSS),
    "DPO, own pairs": Method(lambda world, one, watch: methods.dpo(world, one, False, watch), BETAS, PAIR_RATES),
    "DPO, sampled pairs": Method(lambda world, one, watch: methods.dpo(world, one, True, watch), BETAS, PAIR_RATES),
    "rejection sampling": Method(methods.rejection_sampling, KEPT_OF, IMITATION_RATES),
    "PPO, verifier": Method(lambda world, *how: methods.ppo(world, verified, *how), OF_A_VERIFIER, tuned_as="PPO"),
    "RLOO, verifier": Method(lambda world, *how: methods.rloo(world, verified, *how), OF_A_VERIFIER, tuned_as="RLOO"),
}
BY_PROXY = tuple(name for name, method in METHODS.items() if not method.tuned_as)
"""Those that learn from the reward model or its pairs."""


@dataclass(frozen=True)
class Job:
    """One run."""

    method: str
    settings: Settings
    seed: int
    situation: str = HOME

    @property
    def key(self) -> str:
        one = self.settings
        numbers = f"{one.learning_rate:g} / {one.epochs} / {one.coefficient:g}"
        return f"{self.situation} / {self.method} / {numbers} / seed {self.seed}"


def tuning() -> Iterator[Job]:
    """Every candidate of every method that has its own, with each tuning seed."""
    for seed in TUNING_SEEDS:
        for name in BY_PROXY:
            yield from (Job(name, one, seed) for one in METHODS[name].candidates())


def competitors(situation: str) -> tuple[str, ...]:
    """The verifier needs no labels, so fewer of them change nothing for it."""
    return BY_PROXY if situation == FEW else tuple(METHODS)


def curves(chosen: dict[str, Settings], seeds: int, coefficients: int, situation: str = HOME) -> Iterator[Job]:
    """The chosen settings with each coefficient (or the middle one alone), seed by seed."""
    for seed in range(FIRST_SEED, FIRST_SEED + seeds):
        for name in competitors(situation):
            method = METHODS[name]
            one = chosen[method.tuned_as or name]
            values = method.coefficients if coefficients > 1 else (method.middle,)
            yield from (Job(name, Settings(one.learning_rate, one.epochs, value), seed, situation) for value in values)


def best_of_n_key(situation: str, seed: int) -> str:
    return f"{situation} / {BEST_OF_N} / seed {seed}"


def coefficients(seeds: int) -> int:
    """How many each curve has: one seed is a first look, with its curves along training."""
    return 1 if seeds == 1 else 5


def choose(results: dict[str, dict[str, Any]]) -> dict[str, Settings]:
    """Of each method the candidate with the highest proxy reward, among those within MAX_KL of the SFT model.

    Means over the tuning seeds. Where all are farther, the nearest one. The gold reward is not looked at.
    """
    chosen = {}
    for name in BY_PROXY:
        ranked = []
        for one in METHODS[name].candidates():
            ends = [results[Job(name, one, seed).key]["end"] for seed in TUNING_SEEDS]
            proxy, kl = (sum(end[what] for end in ends) / len(ends) for what in ("proxy", "kl"))
            ranked.append(((kl <= MAX_KL, proxy if kl <= MAX_KL else -kl), one))
        chosen[name] = max(ranked, key=lambda pair: pair[0])[1]
    return chosen
