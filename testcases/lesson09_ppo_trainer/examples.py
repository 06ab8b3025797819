"""Ordinary inputs: they tell wrong answers apart, and drive the comparison with the reference on fresh numbers."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from testcases.harness.doubles.drawing import as_argument, generator, normal, normal_from, uniform_from, word_from
from testcases.harness.execution.messages import Call
from testcases.harness.suite.asserts import example, scenario
from tutorial.lesson09_ppo_trainer import PPOTrainer

LENGTHS = (2, 1, 4, 3)


def examples(seed: int) -> list[Call]:
    """Tables over five tokens, O(1) logits in float64; ragged prompts and responses; settings off their defaults."""
    checkpoints, rollouts = (generator(seed + number) for number in range(2))
    draw, seed = generator(seed), as_argument(seed)
    found = [
        *_responses(rollouts, seed),
        *_rewards(rollouts),
        *_losses(draw),
        *_updates(draw, seed),
        *_runs(seed),
        *_saved(checkpoints),
        *_loaded(checkpoints),
        *_epochs(draw, seed),
        *_steps(draw),
    ]
    # The first optimizer of a process imports a large part of torch: seconds, on a busy machine.
    return [replace(asked, seconds=20.0) for asked in found]


def _responses(draw: torch.Generator, seed: int) -> list[Call]:
    ask = scenario("responses_of", of=PPOTrainer.generate_responses)
    tables = {name: table for name, table in _world(draw).items() if name not in ("reference", "reward")}
    drawn = {**tables, "places": normal_from(draw, 12, 5), "seed": seed, "batch_size": 5, "max_new_tokens": 4}
    return [
        example(ask, **drawn, temperature=0.6),
        example(ask, **drawn, micro_rollout_batch_size=2, calls=2),
        example(ask, **drawn, micro_rollout_batch_size=3),
        example(ask, **tables, sampler=True, micro_rollout_batch_size=2, temperature=1.5, max_new_tokens=9),
    ]


def _rewards(draw: torch.Generator) -> list[Call]:
    ask = scenario("rewards_of", of=PPOTrainer.compute_rewards)
    found = []
    for settings in (
        {"kl_coef": 0.3},
        {"coefficient": 0.4, "micro_rollout_batch_size": 2, "whiten_rewards": True, "missing_stop_penalty": 3.0},
        {"recompute_log_probs": True, "micro_rollout_batch_size": 3, "temperature": 0.7, "wrapped": True},
        {"by_columns": True, "micro_rollout_batch_size": 1, "kl_estimator": "k3", "kl_coef": 0.5},
    ):
        responses, mask = _some_responses(draw)
        given = {**_world(draw), "prompts": ((2,), (3, 4), (4,), (2, 3)), "places": normal_from(draw, 12, 5)}
        given |= {"responses": responses, "mask": mask, "log_probs": _old(draw, mask)}
        found.append(example(ask, **given, **settings))
    return found


def _losses(draw: torch.Generator) -> list[Call]:
    ask = scenario("loss_of", of=PPOTrainer.compute_loss)
    idle = _batch(draw)
    idle["advantages"][0] = 0.0
    first = {"clip_epsilon": 0.3, "value_clip_epsilon": 0.1, "value_coef": 0.7, "entropy_coef": 0.2, "temperature": 0.7}
    likelier = _batch(draw)
    likelier |= {name: likelier[name].masked_fill(~likelier["mask"], math.nan) for name in DATA}
    likelier["log_probs"] -= 1.0
    small = {"value_coef": 0.005, "entropy_coef": 0.01, "temperature": 1.4, "clip_epsilon": 0.1}
    return [
        example(ask, **_batch(draw), **first),
        example(ask, **_batch(draw), places=normal_from(draw, 12, 5), **small),
        example(ask, **likelier, clip_epsilon=0.9),
        example(ask, **_batch(draw), clip_epsilon=3.0, value_clip_epsilon=1.5, value_coef=0.4),
        example(ask, **idle, entropy_coef=0.1, value_coef=0.0),
        example(ask, **_recomputed(_batch(draw)), wrapped=True),
    ]


def _updates(draw: torch.Generator, seed: int) -> list[Call]:
    ask, real = (scenario(name, of=PPOTrainer.training_step) for name in ("update_of", "real_updates_of"))
    found = []
    for settings in (
        {"kl_target": 0.5, "kl_horizon": 40, "updates_done": 7, "num_updates": 9, "lam": 0.7, "gamma": 0.9},
        {"whiten_advantages": False, "kl_coef": 0.2, "kl_target": 1.5, "kl_horizon": 50},
        {"num_epochs": 1, "num_updates": 4, "updates_done": 2, "calls": 2},
        {"doubled": "generate_responses", "critic_lam": 0.9, "whiten_rewards": True},
        {"doubled": "compute_rewards", "critic_lam": 0.9, "whiten_advantages": False},
    ):
        found.append(example(ask, **_world(draw), seed=seed, batch_size=5, max_new_tokens=4, **settings))
    # A certain policy, 2 -> 3 -> stop, and a uniform reference: KL 3 ln 2 per response, 2 ln 2 per token; the target is
    # between the two, and near enough to both for the error not to be clipped.
    chain = torch.zeros(4, 4, dtype=torch.float64)
    chain[2, 3] = chain[3, 1] = 1000.0
    tables = {"actor": chain, "critic": normal_from(draw, 4), "reference": 0 * chain, "reward": normal_from(draw, 4)}
    target = 2.2 * math.log(2.0)
    found.append(example(ask, **tables, prompts=((2,), (3,)), seed=seed, kl_target=target, kl_horizon=50))
    one = _world(draw) | {"prompts": ((2, 3),)}
    found.append(example(ask, **one, seed=seed, batch_size=1, num_minibatches=1, max_new_tokens=4))
    settings = {"batch_size": 5, "num_minibatches": 2, "num_epochs": 2, "max_new_tokens": 4, "learning_rate": 0.05}
    settings |= {"updates": 2, "kl_target": 0.5, "kl_horizon": 20, "adam_epsilon": 0.1}
    found.append(example(real, **_world(draw), places=normal_from(draw, 12, 5), seed=seed, **settings))
    return found


def _runs(seed: int) -> list[Call]:
    ask = scenario("run_of", of=PPOTrainer.train)
    two = {"batch_size": 2, "num_minibatches": 1, "num_updates": 6, "seed": seed}
    six = {"batch_size": 6, "samples_per_prompt": 2, "num_updates": 6, "updates_done": 4, "seed": seed}
    return [
        example(ask, available=5, **two),
        example(ask, available=4, **six, log=True),
        example(ask, available=7, **two, stop_after=3, continued=True, log=True),
        example(ask, available=3, **two, diverges_in=2, log=True),
    ]


def _saved(draw: torch.Generator) -> list[Call]:
    ask = scenario("saved_of", of=PPOTrainer.save_checkpoint)
    folder = f"runs/{word_from(draw)}/checkpoint"
    return [
        example(ask, marks=(_mark(draw),), batch_size=2, num_minibatches=1),
        example(ask, marks=(_mark(draw), _mark(draw)), folder=folder, as_path=False, kl_target=6.0),
        *(example(ask, marks=(_mark(draw), _mark(draw)), fails=what) for what in ("writing", "renaming")),
    ]


def _loaded(draw: torch.Generator) -> list[Call]:
    ask = scenario("loaded_of", of=PPOTrainer.load_checkpoint)
    return [
        example(ask, mark=_mark(draw), learning_rate=0.1),
        example(ask, mark=_mark(draw), as_path=False, kl_target=6.0),
        example(ask, mark=_mark(draw), mark_before=_mark(draw)),
        example(ask, mark=_mark(draw), wrapped=True),
        *(example(ask, mark=_mark(draw), content=content) for content in ("5 wide", "of other names")),
    ]


def _mark(draw: torch.Generator) -> float:
    """Where a trainer is in its run, between 1 and 4: everything in a checkpoint follows from it."""
    return 1 + 3 * float(uniform_from(draw))


def _epochs(draw: torch.Generator, seed: int) -> list[Call]:
    ask = scenario("update_of", of=PPOTrainer.training_step)
    found = []
    for rows, settings, moved in (
        (7, {"num_epochs": 3, "num_minibatches": 3, "max_update_kl": None}, None),
        (5, {"num_epochs": 3, "num_minibatches": 2, "max_update_kl": 0.5}, None),
        (6, {"max_update_kl": 0.9}, None),
        # The mean so far exceeds the limit one step after the first that does; then so does the very first.
        (4, {"num_minibatches": 2, "max_update_kl": 0.6}, [0.1, 0.9, 0.9, 0.1]),
        (4, {"num_minibatches": 2, "max_update_kl": 0.6}, [0.9, 0.9, 0.1]),
    ):
        kl, largest = (0.4 * uniform_from(draw, 9)).tolist(), uniform_from(draw, 9).tolist()
        kl[2] = 0.9
        reported = {"approx_kl": moved or kl, "ratio_max": largest, "policy_loss": normal_from(draw, 9).tolist()}
        prompts = tuple((2 + number,) for number in range(rows))
        tables = {"actor": normal_from(draw, rows + 2, rows + 2), "critic": normal_from(draw, rows + 2)}
        given = {**tables, "prompts": prompts, "batch_size": rows, "max_new_tokens": 2, "seed": seed}
        found.append(example(ask, **given, reported=reported, **settings))
    return found


def _steps(draw: torch.Generator) -> list[Call]:
    ask = scenario("steps_of", of=PPOTrainer.optimizer_step)
    found = []
    for size, settings in (
        (1, {"max_grad_norm": 0.02, "ratio_threshold": 1.6}),
        (3, {"max_grad_norm": 50.0, "ratio_threshold": 5.0}),
        (None, {"ratio_threshold": 3.0}),
        (2, {"max_grad_norm": 0.4}),
    ):
        _, mask = _some_responses(draw)
        ratios = [1 + uniform_from(draw, *mask.shape) for _ in range(4)]
        ratios[1] = ratios[1] * 4
        ratios[2] = ratios[2].index_fill(1, torch.tensor(0), math.nan)
        slopes = {
            "actor_slopes": 3 * normal_from(draw, *mask.shape),
            "critic_slopes": 3 * normal_from(draw, *mask.shape),
        }
        options = {"micro_batch_size": size, "learning_rate": 0.5, "adam_epsilon": 0.5, **settings}
        found.append(example(ask, **slopes, mask=mask, ratios=ratios, **options))
    ratios = torch.ones_like(mask, dtype=torch.float64)
    ratios[0] = 400.0  # the mean is far above the threshold, the last microbatch below
    found.append(example(ask, **slopes, mask=mask, ratios=[ratios], **{**options, "micro_batch_size": 2}))
    mask, rare = torch.ones(2, 3, dtype=torch.bool), torch.ones(2, 3, dtype=torch.float64)
    rare[0, 0] = 10.0  # above the threshold; the mean of its row is not
    slopes = {"actor_slopes": normal_from(draw, 2, 3), "critic_slopes": normal_from(draw, 2, 3)}
    options = {**options, "micro_batch_size": 1, "ratio_threshold": 4.5}
    found.append(example(ask, **slopes, mask=mask, ratios=[rare], **options))
    return found


DATA = ("log_probs", "advantages", "values", "returns")


def _batch(draw: torch.Generator) -> dict[str, Any]:
    """Four rows of experience; what stands under the mask is a number."""
    responses, mask = _some_responses(draw)
    prompts = torch.randint(2, 5, (4, 3), generator=draw)
    prompts[torch.arange(3) < torch.tensor([[1], [0], [2], [0]])] = 0
    tables = {"actor": normal_from(draw, 5, 5), "critic": normal_from(draw, 5)}
    data = {name: normal_from(draw, *mask.shape) for name in DATA} | {"log_probs": _old(draw, mask)}
    return {**tables, "prompts": prompts, "responses": responses, "mask": mask, **data}


def _recomputed(batch: dict[str, Any]) -> dict[str, Any]:
    """Its log-probs aren't those of the sampler."""
    return batch | {"sampler_log_probs": batch["log_probs"] - 0.5}


def _world(draw: torch.Generator) -> dict[str, Any]:
    """Models and five prompts, whose token sums differ."""
    tables = {name: normal_from(draw, 5, 5) for name in ("actor", "reference")}
    prompts = ((2,), (3,), (4,), (2, 3), (2, 4))
    return {**tables, "critic": normal_from(draw, 5), "reward": normal_from(draw, 5), "prompts": prompts}


def _some_responses(draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Four rows of LENGTHS real tokens; the first two end with a stop token."""
    lengths = torch.tensor(LENGTHS).unsqueeze(1)
    columns = torch.arange(max(LENGTHS))
    tokens = torch.randint(2, 5, (len(LENGTHS), max(LENGTHS)), generator=draw)
    stops = (columns == lengths - 1) & (torch.arange(len(LENGTHS)) < 2).unsqueeze(1)
    return tokens.masked_fill(stops, 1).masked_fill(columns >= lengths, 0), columns < lengths


def _old(draw: torch.Generator, mask: Tensor) -> Tensor:
    """Log-probs of another policy than the one in training, 0 under the mask."""
    return (-0.5 - 2 * uniform_from(draw, *mask.shape)).masked_fill(~mask, 0.0)


AGREEMENT = {PPOTrainer.compute_loss: 6, PPOTrainer.train: 3, PPOTrainer.load_checkpoint: 4}
TABLES = {"actor": normal(5, 5), "critic": normal(5)}
NO_PROMPTS = {"no-prompts": ({"prompts": ()}, ["at least one prompt"])}
REFUSALS = {
    scenario("update_of", of=PPOTrainer.training_step): (TABLES, NO_PROMPTS),
    scenario("responses_of", of=PPOTrainer.generate_responses): (TABLES, NO_PROMPTS),
    scenario("run_of", of=PPOTrainer.train): (
        {"num_updates": 2},
        {"no-prompts": ({"available": 0}, ["at least one prompt"])},
    ),
    scenario("loaded_of", of=PPOTrainer.load_checkpoint): (
        {"mark": 1.0},
        {
            "cut-off": ({"content": "cut off"}, ["whole"]),
            "of-other-settings": ({"content": "of other settings"}, ["settings, got kl_coef 0.9"]),
            "of-another-shape": ({"content": "5 wide"}, ["(5, 5)"]),
            "of-other-names": ({"content": "of other names"}, []),
        },
    ),
}
